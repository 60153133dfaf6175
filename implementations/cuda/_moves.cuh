// SPDX-License-Identifier: Apache-2.0
//
// Fixed-point sums of clusters, kept from iteration to iteration: points whose label changed move.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

using Integer = unsigned long long;  // two's complement: unsigned addition is signed addition

/// A warp looks at 32 points and, lanes over coordinates, moves those whose label changed.
__global__ void move_points_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                   std::int64_t d, const std::int32_t* __restrict__ dev_nearest,
                                   double scale, std::int32_t* __restrict__ dev_labels,
                                   Integer* __restrict__ dev_sums) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t before = 0;
  std::int32_t now = 0;
  if (i < n) {
    before = dev_labels[i];
    now = dev_nearest[i];
    if (before != now) dev_labels[i] = now;
  }
  for (unsigned moved = __ballot_sync(0xffffffffU, before != now); moved != 0; moved &= moved - 1) {
    const int of = __ffs(static_cast<int>(moved)) - 1;
    const std::int64_t point = i - lane + of;
    const std::int64_t from = __shfl_sync(0xffffffffU, before, of);
    const std::int64_t to = __shfl_sync(0xffffffffU, now, of);
    for (std::int64_t t = lane; t <= d; t += 32) {
      const long long value = t < d ? exact_fixed_point(dev_points[point * d + t], scale) : 1;
      atomicAdd(&dev_sums[to * (d + 1) + t], static_cast<Integer>(value));
      if (from >= 0) atomicAdd(&dev_sums[from * (d + 1) + t], static_cast<Integer>(-value));
    }
  }
}

__global__ void divide_kernel(const Integer* __restrict__ dev_sums, double inverse_scale,
                              float* __restrict__ dev_centroids, std::int64_t k, std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const Integer* sums = dev_sums + index / d * (d + 1);
  const auto count = static_cast<long long>(sums[d]);
  if (count == 0) return;  // an empty cluster keeps its centroid
  dev_centroids[index] = exact_mean(static_cast<long long>(sums[index % d]), count, inverse_scale);
}

}  // namespace kmeans::cuda
