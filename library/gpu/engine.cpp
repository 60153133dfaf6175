// SPDX-License-Identifier: Apache-2.0
//
// libkmeans_exact_gpu.so: the exact families of a GPU as the suite compiled them, behind the two functions of
// library/gpu_engine.h. All other names are hidden.
#include <memory>
#include <string>

#include "harness/machine/gpu.h"
#include "harness/variant.h"
#include "library/gpu_engine.h"

namespace {

// Which chooses among them.
constexpr const char* kVariant = "cuda_best";

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

kmeans_exact::Engine* KMEANS_EXACT_GPU_ENGINE(const kmeans::Shape& shape, std::string& problem) {
  problem = kmeans::gpu_status().problem;
  if (!problem.empty()) return nullptr;
  const kmeans::Registration variant = kmeans::registered_variant(kVariant);
  problem = problem_with(shape, variant.traits);
  if (!problem.empty()) return nullptr;
  return variant.factory.make_float(kmeans::Precision::f32).release();
}
