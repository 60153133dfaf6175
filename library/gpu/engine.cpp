// SPDX-License-Identifier: Apache-2.0
//
// libkmeans_exact_gpu.so: the exact families of a GPU as the suite compiled them, behind the functions of
// library/gpu_engine.h. All other names are hidden.
#include <memory>
#include <string>
#include <utility>

#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/support/gpu_seeding.h"
#include "harness/variant.h"
#include "implementations/_stops.h"
#include "implementations/cuda/_largest.h"
#include "implementations/cuda/_upload.cuh"
#include "library/gpu_engine.h"

namespace {

// Which chooses among them.
constexpr const char* kVariant = "cuda_best";

// Of free memory that points may take besides what families keep of them.
constexpr double kMostShare = 0.25;

class Rows final : public kmeans_exact::SentRows {
 public:
  Rows(const float* points, kmeans::cuda::SharedRows::Rows rows)
      : rows_(std::move(rows)), scope_(points, rows_) {}

  [[nodiscard]] float largest() const override {
    return kmeans::cuda::largest_abs_on_gpu(rows_->data(), rows_->size());
  }

 private:
  kmeans::cuda::SharedRows::Rows rows_;
  kmeans::cuda::SharedRows::Scope scope_;
};

std::string gigabytes(double bytes) {
  const std::string text = std::to_string(bytes / 1e9);
  return text.substr(0, text.find('.') + 2) + " GB";
}

/// Why the GPU does not take this shape; empty if it does.
std::string problem_with(const kmeans::Shape& shape, const kmeans::Traits& traits) {
  if (traits.supports) {
    const kmeans::Support support = traits.supports(shape);
    if (!support.ok) return support.reason;
  }
  const auto memory = kmeans::gpu_memory();
  const double needed = traits.device_bytes(shape);
  if (memory && needed > static_cast<double>(memory->free_bytes)) {
    return "it needs " + gigabytes(needed) + " of GPU memory, of which " +
           gigabytes(static_cast<double>(memory->free_bytes)) + " are free";
  }
  return "";
}

}  // namespace

const char* KMEANS_EXACT_GPU_PROBLEM() {
  (void)kmeans::current_gpu();
  return kmeans::gpu_status().problem.c_str();
}

void KMEANS_EXACT_GPU_ENGINE(const kmeans::Shape& shape, kmeans_exact::MadeEngine& made,
                             std::string& problem) {
  problem = kmeans::gpu_status().problem;
  if (!problem.empty()) return;
  const kmeans::Registration variant = kmeans::registered_variant(kVariant);
  problem = problem_with(shape, variant.traits);
  if (!problem.empty()) return;
  kmeans::keep_gpu_memory(true);  // for the calls that follow
  made.engine = variant.factory.make_float(kmeans::Precision::f32).release();
  made.stops = dynamic_cast<kmeans::Stops<float>*>(made.engine);
}

kmeans::SeedingBoard<float>* KMEANS_EXACT_GPU_BOARD(const kmeans::SeedingProblem<float>& problem,
                                                    std::int64_t most_seeds, std::string& why_not) {
  return kmeans::gpu_board_factory()(problem, most_seeds, why_not).release();
}

kmeans_exact::SentRows* KMEANS_EXACT_GPU_ROWS(const float* points, std::int64_t n, std::int64_t d) {
  kmeans::bind_gpu();
  kmeans::keep_gpu_memory(true);
  const double bytes = 4.0 * static_cast<double>(n) * static_cast<double>(d);
  const auto memory = kmeans::gpu_memory();
  if (memory && bytes > kMostShare * static_cast<double>(memory->free_bytes)) return nullptr;
  return new Rows(points, kmeans::cuda::SharedRows::send(points, n * d));
}

void KMEANS_EXACT_GPU_RELEASE() {
  kmeans::cuda::DeviceMemory::of_process().release();
  kmeans::cuda::UploadPieces::of_process().release();
}
