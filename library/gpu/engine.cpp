// SPDX-License-Identifier: Apache-2.0
//
// libkmeans_exact_gpu.so: the exact families of a GPU as the suite compiled them, behind the functions of
// library/gpu_engine.h. All other names are hidden.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"
#include "harness/machine/gpu_of_thread.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/support/gpu_seeding.h"
#include "harness/variant.h"
#include "implementations/_stops.h"
#include "implementations/cuda/_batch.h"
#include "implementations/cuda/_counted_family.h"
#include "implementations/cuda/_distances.h"
#include "implementations/cuda/_point_facts.h"
#include "implementations/cuda/_upload.cuh"
#include "library/gpu_engine.h"

namespace {

// Which chooses among them.
constexpr const char* kVariant = "cuda_best";

// Of free memory that points may take besides what families keep of them.
constexpr double kMostShare = 0.25;

class Rows final : public kmeans_exact::SentRows {
 public:
  /// n rows of d coordinates, known to engines by the address `points`.
  Rows(const float* points, kmeans::cuda::SharedRows::Rows rows, std::int64_t n, std::int64_t d)
      : rows_(std::move(rows)), scope_(points, rows_), n_(n), d_(d) {}

  [[nodiscard]] const float* place() const override { return rows_->data(); }
  [[nodiscard]] kmeans::PointFacts facts(std::int64_t problems) const override {
    return kmeans::cuda::facts_on_gpu(rows_->data(), problems, n_ / problems, d_);
  }
  [[nodiscard]] bool all_unit() const override {
    return kmeans::cuda::are_unit_rows_on_gpu(rows_->data(), n_, d_);
  }
  void copy_rows(const std::vector<std::int64_t>& rows, std::int64_t first, std::int64_t count,
                 float* to) const override {
    kmeans::cuda::copy_rows_to_host(rows_->data(), d_, rows, first, count, to);
  }
  void copy_all(float* to) const override { rows_->download(to); }
  [[nodiscard]] std::vector<double> column_parts(std::int64_t problems,
                                                 const double* means) const override {
    return kmeans::cuda::column_parts_on_gpu(rows_->data(), problems, n_ / problems, d_, means);
  }
  [[nodiscard]] double inertia(const float* centroids, std::int64_t k,
                               const std::int32_t* labels) const override {
    return kmeans::cuda::inertia_on_gpu(rows_->data(), n_, d_, centroids, k, labels);
  }
  void distances(const float* centroids, std::int64_t k, double* to,
                 const std::function<void()>& between) const override {
    kmeans::cuda::distances_on_gpu(rows_->data(), n_, d_, centroids, k, to, between);
  }
  void distances(const float* centroids, std::int64_t k, float* to,
                 const std::function<void()>& between) const override {
    kmeans::cuda::distances_on_gpu(rows_->data(), n_, d_, centroids, k, to, between);
  }

 private:
  kmeans::cuda::SharedRows::Rows rows_;
  kmeans::cuda::SharedRows::Scope scope_;
  std::int64_t n_;
  std::int64_t d_;
};

/// In memory that the host alone has.
bool is_on_host(const void* memory) {
  cudaPointerAttributes attributes{};
  KMEANS_CUDA(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type == cudaMemoryTypeUnregistered;
}

/// Why these are not points on a GPU that can be used; empty: they are.
std::string problem_with_place(const void* dev_points) {
  const int gpu = KMEANS_EXACT_GPU_OF(dev_points);
  if (gpu < 0) return "are not in the memory of a GPU";
  const std::string problem = kmeans::problem_with_gpu(gpu);
  return problem.empty() ? "" : "are in the memory of GPU " + std::to_string(gpu) + ": " + problem;
}

std::string gigabytes(double bytes) {
  const std::string text = std::to_string(bytes / 1e9);
  return text.substr(0, text.find('.') + 2) + " GB";
}

/// Why the GPU does not take this problem; empty if it does.
std::string problem_with(const kmeans::Problem<float>& problem, const kmeans::Traits& traits) {
  const kmeans::Shape& shape = problem.shape;
  if (traits.supports) {
    const kmeans::Support support = traits.supports(shape);
    if (!support.ok) return support.reason;
  }
  double needed = traits.device_bytes(shape);
  if (problem.is_counted()) {
    needed = traits.counted_device_bytes(shape);
    const bool sent = kmeans::cuda::SharedRows::of(problem.points, shape.n * shape.d) != nullptr;
    if (sent) needed -= kmeans::cuda::bytes_of_rows(shape);
  }
  if (kmeans::gpu_has_room(needed)) return "";
  return "it needs " + gigabytes(needed) + " of GPU memory, of which " +
         gigabytes(static_cast<double>(kmeans::gpu_memory()->free_bytes)) + " are free";
}

/// In place where that is possible. Null, and why not: they are not in the memory of a GPU.
kmeans::cuda::SharedRows::Rows rows_of(const kmeans_exact::GpuPoints& points,
                                       std::string& why_not) {
  using kmeans::cuda::DeviceBuffer;
  using kmeans_exact::GpuNumbers;
  kmeans::keep_gpu_memory(true);
  why_not = problem_with_place(points.dev_points);
  if (!why_not.empty()) return nullptr;
  KMEANS_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(points.stream)));
  const std::int64_t count = points.n * points.d;
  // Kernels read four coordinates at once, as memory from CUDA allows.
  const bool aligned = reinterpret_cast<std::uintptr_t>(points.dev_points) % 16 == 0;
  if (points.numbers == GpuNumbers::float32 && aligned) {
    // Nobody writes to them.
    auto* const values = const_cast<float*>(static_cast<const float*>(points.dev_points));
    return std::make_shared<DeviceBuffer<float>>(DeviceBuffer<float>::borrowed(values, count));
  }
  auto rows = std::make_shared<DeviceBuffer<float>>(count);
  switch (points.numbers) {
    case GpuNumbers::float32:
      KMEANS_CUDA(cudaMemcpy(rows->data(), points.dev_points, rows->bytes(), cudaMemcpyDefault));
      break;
    case GpuNumbers::float16:
      kmeans::cuda::widen_float16(points.dev_points, count, rows->data());
      break;
    case GpuNumbers::bfloat16:
      kmeans::cuda::widen_bfloat16(points.dev_points, count, rows->data());
      break;
  }
  return rows;
}

/// 90 = 9.0.
std::string capability(int number) {
  return std::to_string(number / 10) + "." + std::to_string(number % 10);
}

}  // namespace

void KMEANS_EXACT_GPU_PART(kmeans_exact::GpuPart& part) {
  const auto list = [](std::string& text, const std::string& one) {
    text += (text.empty() ? "" : ", ") + one;
  };
  const kmeans::GpuStatus& status = kmeans::gpu_status();
  for (const int number : status.built_for) list(part.built_for, capability(number));
  if (status.built_ptx > 0) list(part.built_for, "PTX " + capability(status.built_ptx));
  for (const kmeans::GpuDevice& device : status.devices) {
    list(part.gpus, device.name + " (" + capability(10 * device.major + device.minor) + ")");
  }
}

const char* KMEANS_EXACT_GPU_PROBLEM() {
  (void)kmeans::current_gpu();
  return kmeans::gpu_status().problem.c_str();
}

void KMEANS_EXACT_GPU_ENGINE(const kmeans::Problem<float>& problem, kmeans_exact::MadeEngine& made,
                             std::string& why_not) {
  why_not = kmeans::gpu_status().problem;
  if (!why_not.empty()) return;
  const kmeans::Registration variant = kmeans::registered_variant(kVariant);
  why_not = problem_with(problem, variant.traits);
  if (!why_not.empty()) return;
  kmeans::keep_gpu_memory(true);  // for the calls that follow
  made.engine = variant.factory.make_float(kmeans::Precision::f32).release();
  made.stops = dynamic_cast<kmeans::Stops<float>*>(made.engine);
}

kmeans::SeedingBoard<float>* KMEANS_EXACT_GPU_BOARD(const kmeans::SeedingProblem<float>& problem,
                                                    std::int64_t most_seeds, std::string& why_not) {
  return kmeans::gpu_board_factory()(problem, most_seeds, why_not).release();
}

kmeans::BatchAtWork* KMEANS_EXACT_GPU_BATCH(const kmeans::BatchTask& task, std::string& why_not) {
  kmeans::keep_gpu_memory(true);
  return kmeans::cuda::make_batch(task, why_not).release();
}

kmeans_exact::SentRows* KMEANS_EXACT_GPU_ROWS(const float* points, std::int64_t n, std::int64_t d) {
  kmeans::keep_gpu_memory(true);
  const double bytes = 4.0 * static_cast<double>(n) * static_cast<double>(d);
  if (!kmeans::gpu_has_room(bytes / kMostShare)) return nullptr;
  return new Rows(points, kmeans::cuda::SharedRows::send(points, n * d), n, d);
}

kmeans_exact::SentRows* KMEANS_EXACT_GPU_TAKE(const kmeans_exact::GpuPoints& points,
                                              const float* known_by, std::string& why_not) {
  auto rows = rows_of(points, why_not);
  return rows != nullptr ? new Rows(known_by, std::move(rows), points.n, points.d) : nullptr;
}

void KMEANS_EXACT_GPU_UNIT(const kmeans_exact::GpuPoints& rows, float* dev_unit,
                           std::string& why_not) {
  const auto given = rows_of(rows, why_not);
  if (given == nullptr) return;
  kmeans::cuda::unit_rows_on_gpu(given->data(), rows.n, rows.d, dev_unit);
}

int KMEANS_EXACT_GPU_OF(const void* memory) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) (void)cudaGetLastError();
  const bool on_gpu =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  return on_gpu ? attributes.device : -1;
}

kmeans_exact_gpu::Before KMEANS_EXACT_GPU_ENTER(int gpu) {
  kmeans_exact_gpu::Before before{};
  KMEANS_CUDA(cudaGetDevice(&before.current));
  // Points on one that cannot be used are refused later.
  const bool usable = gpu >= 0 && kmeans::problem_with_gpu(gpu).empty();
  before.in_use = kmeans::set_gpu_of_thread(usable ? gpu : -1);
  try {
    kmeans::bind_gpu();
  } catch (...) {
    (void)kmeans::set_gpu_of_thread(before.in_use);
    throw;
  }
  return before;
}

void KMEANS_EXACT_GPU_LEAVE(kmeans_exact_gpu::Before before) {
  (void)kmeans::set_gpu_of_thread(before.in_use);
  (void)cudaSetDevice(before.current);
}

void* KMEANS_EXACT_GPU_ALLOCATE(std::size_t bytes) {
  return kmeans::cuda::DeviceMemory::of_process().take(bytes);
}

void KMEANS_EXACT_GPU_FREE(void* memory) {
  kmeans::cuda::DeviceMemory::of_process().give_back(memory);
}

void KMEANS_EXACT_GPU_COPY(void* to, const void* from, std::size_t bytes, void* stream) {
  KMEANS_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  if (is_on_host(to) && is_on_host(from)) {
    std::memcpy(to, from, bytes);  // sooner than by CUDA
    return;
  }
  KMEANS_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  KMEANS_CUDA(cudaStreamSynchronize(nullptr));  // within the GPU a copy is not waited for
}

void KMEANS_EXACT_GPU_RELEASE() {
  kmeans::cuda::DeviceMemory::of_process().release();
  kmeans::cuda::UploadPieces::of_process().release();
}
