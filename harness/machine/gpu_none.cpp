// SPDX-License-Identifier: Apache-2.0
//
// harness/machine/gpu.h in a build without CUDA.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/machine/ceilings.h"
#include "harness/machine/gpu.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/support/errors.h"

namespace kmeans {

const GpuStatus& gpu_status() {
  static const GpuStatus status = [] {
    GpuStatus none;
    none.problem = "this build of kmeans-bench contains no CUDA code";
    return none;
  }();
  return status;
}

void use_gpu(const std::string& which) {
  throw EnvironmentError("--device " + which + ": " + gpu_status().problem);
}

void bind_gpu() {}

const GpuDevice* current_gpu() { return nullptr; }

std::optional<GpuMemory> gpu_memory() { return std::nullopt; }

bool gpu_has_room(double /*bytes*/) { return true; }

void keep_gpu_memory(bool /*keeps*/) {}
void gpu_synchronize() {}

std::unique_ptr<GpuClock> make_gpu_clock() { return nullptr; }

nlohmann::json measure_gpu_ceilings(double /*effort*/) {
  throw std::runtime_error(gpu_status().problem);
}

}  // namespace kmeans
