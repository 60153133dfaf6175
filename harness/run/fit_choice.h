// SPDX-License-Identifier: Apache-2.0
//
// Which exact variant a fit takes where nobody chooses and both a processor and a GPU could: arithmetic on facts, no
// GPU is looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/record/advice.h"
#include "harness/variants/registry.h"

namespace kmeans {

/// Both choose among the families of their processor themselves.
inline constexpr const char* kFitsOnGpu = "cuda_best";

struct FitFacts {
  Shape shape;
  std::int64_t iterations = kIterationsOfFit;
  int threads = 1;
  std::string on_cpu;  ///< The variant there.
};

struct FitChoice {
  bool gpu = false;
  double cpu_seconds = 0;
  double gpu_seconds = 0;  ///< With upload and CUDA's start.
  std::string why;         ///< One clause, with both times; empty where no GPU was looked at.
};

/// Asked for only where a fit could be worth the start of CUDA's driver. `gpu`: one that takes the fit, or null.
/// `series`: what is on file of this machine, as series_of() has it; what has no model there is estimated from rates.
FitChoice choose_for_fit(const FitFacts& facts, const std::function<const GpuDevice*()>& gpu,
                         const std::function<std::vector<AdviceSeries>()>& series);

/// The variant of a fit of this shape in this process, where nobody chooses: variant_of_fits(), or kFitsOnGpu where
/// this build and this machine have it, it takes the shape, and choose_for_fit() prefers it. `counted`: as
/// Problem::is_counted(). `why`: of the choice; empty where there is none.
const RegisteredVariant& variant_for_fit(const Shape& shape, std::int64_t iterations, int threads,
                                         bool counted, std::string& why);

}  // namespace kmeans
