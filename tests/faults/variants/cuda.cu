// SPDX-License-Identifier: Apache-2.0
//
// Variants that misbehave on a GPU. Their answers are those of the reference on the CPU; what they
// do to the GPU comes before.
#undef NDEBUG  // one of the faults is a failing assertion
#include <cassert>
#include <cstdint>
#include <vector>

#include "harness/machine/cuda/device.cuh"
#include "tests/faults/variants/_well_behaved.h"

namespace {

using kmeans::cuda::DeviceBuffer;
using kmeans::faults::WellBehaved;

// More memory than is free, asked for in pieces: none of them is too large by itself.
class OutOfMemory final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    constexpr std::int64_t kPiece = std::int64_t{256} << 20;
    while (true) {
      kept_.emplace_back(kPiece);
      kept_.back().zero();
    }
  }
  std::vector<DeviceBuffer<char>> kept_;
};

__global__ void write_nowhere_kernel() {
  *reinterpret_cast<volatile int*>(std::uintptr_t{0xdead0000}) = 1;
}

// From here on every CUDA call of the process fails.
class IllegalAddress final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    write_nowhere_kernel<<<1, 1>>>();
    KMEANS_CUDA_LAUNCHED(write_nowhere_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }
};

// The same, and nobody asks the runtime: the harness must not take silence for success.
class IllegalAddressUnasked final : public WellBehaved {
  void step(std::int64_t iterations) override {
    write_nowhere_kernel<<<1, 1>>>();
    WellBehaved::step(iterations);
  }
};

__global__ void endless_kernel(volatile int* dev_stop) {
  while (*dev_stop == 0) {
  }
}

class EndlessKernel final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    dev_stop_ = DeviceBuffer<int>(1);
    dev_stop_.zero();
    endless_kernel<<<1, 1>>>(dev_stop_.data());
    KMEANS_CUDA_LAUNCHED(endless_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }
  DeviceBuffer<int> dev_stop_;
};

__global__ void trap_kernel() { __trap(); }

class Traps final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    trap_kernel<<<1, 1>>>();
    KMEANS_CUDA_LAUNCHED(trap_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }
};

__global__ void assert_kernel(int value) { assert(value == 1); }

class Asserts final : public WellBehaved {
  void step(std::int64_t /*iterations*/) override {
    assert_kernel<<<1, 1>>>(2);
    KMEANS_CUDA_LAUNCHED(assert_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }
};

// Most of what is free, never given back.
class LeavesMemory final : public WellBehaved {
  void setup(const kmeans::Problem<float>& problem) override {
    WellBehaved::setup(problem);
    std::size_t free = 0;
    std::size_t total = 0;
    KMEANS_CUDA(cudaMemGetInfo(&free, &total));
    void* kept = nullptr;
    KMEANS_CUDA(cudaMalloc(&kept, free / 8 * 7));
    KMEANS_CUDA(cudaMemset(kept, 1, free / 8 * 7));
  }
};

// More than a block can have: the launch is refused, and nobody asks.
__global__ void small_kernel() {}

class RefusedLaunchUnasked final : public WellBehaved {
  void step(std::int64_t iterations) override {
    small_kernel<<<1, 4096>>>();
    WellBehaved::step(iterations);
  }
};

}  // namespace

KMEANS_VARIANT(OutOfMemory, .name = "fault_cuda_out_of_memory",
               .summary = "takes GPU memory until there is none", .gpu = true)
KMEANS_VARIANT(IllegalAddress, .name = "fault_cuda_illegal_address",
               .summary = "a kernel writes to an invalid address", .gpu = true)
KMEANS_VARIANT(IllegalAddressUnasked, .name = "fault_cuda_illegal_address_unasked",
               .summary = "the same, without looking at the error", .gpu = true)
KMEANS_VARIANT(EndlessKernel, .name = "fault_cuda_endless_kernel",
               .summary = "a kernel that never ends", .gpu = true)
KMEANS_VARIANT(Traps, .name = "fault_cuda_traps", .summary = "a kernel that traps", .gpu = true)
KMEANS_VARIANT(Asserts, .name = "fault_cuda_asserts", .summary = "a kernel whose assertion fails",
               .gpu = true)
KMEANS_VARIANT(LeavesMemory, .name = "fault_cuda_leaves_memory",
               .summary = "takes most of the GPU's memory and leaves it allocated", .gpu = true)
KMEANS_VARIANT(RefusedLaunchUnasked, .name = "fault_cuda_refused_launch_unasked",
               .summary = "a launch that is refused, without looking at the error", .gpu = true)
