// SPDX-License-Identifier: Apache-2.0
//
// What a check of points asks, of those that are on a GPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_largest.h"

namespace kmeans::cuda {
namespace {

constexpr int kThreads = 256;

/// Of the values without their signs, as bits, which order as the numbers do, infinity and NaN last.
__global__ void __launch_bounds__(kThreads)
    largest_kernel(const float* __restrict__ dev_values, std::int64_t count,
                   unsigned* __restrict__ dev_largest) {
  constexpr unsigned kAllBitsButTheSign = 0x7fffffff;
  unsigned largest = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
#pragma unroll 8
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    largest = max(largest, __float_as_uint(dev_values[i]) & kAllBitsButTheSign);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    largest = max(largest, __shfl_xor_sync(0xffffffff, largest, distance));
  }
  if (threadIdx.x % 32 == 0) atomicMax(dev_largest, largest);
}

}  // namespace

float largest_abs_on_gpu(const float* dev_values, std::int64_t count) {
  const DeviceBuffer<unsigned> dev_largest(1);
  dev_largest.zero();
  const auto blocks =
      static_cast<unsigned>(std::clamp<std::int64_t>(ceil_div(count, kThreads * 8), 1, 132 * 8));
  largest_kernel<<<blocks, kThreads>>>(dev_values, count, dev_largest.data());
  KMEANS_CUDA_LAUNCHED(largest_kernel);
  unsigned bits = 0;
  dev_largest.download(&bits);
  float largest = 0;
  std::memcpy(&largest, &bits, sizeof(bits));
  return largest;
}

}  // namespace kmeans::cuda
