// SPDX-License-Identifier: Apache-2.0
//
// cuda_int8: points with a list of centroids that may be nearest, and points of which nothing is known.
#pragma once

#include <cstdint>

#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda::bytes {

/// A point with more than two centroids that may be nearest, and where they are listed.
struct Listed {
  std::int32_t point;
  std::int32_t count;
  std::int64_t first;
};

/// Before there are labels nothing is known of any point.
static __global__ void list_all_kernel(std::int64_t n, std::int32_t* __restrict__ dev_others,
                                       TensorState* __restrict__ dev_state) {
  await_kernels_before();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) dev_others[i] = static_cast<std::int32_t>(i);
  if (i == 0) dev_state->undecided = static_cast<unsigned long long>(n);
}

/// The nearest of each list, a warp a point.
static __global__ void decide_lists_kernel(const float* __restrict__ dev_points,
                                           const float* __restrict__ dev_centroids, std::int64_t d,
                                           float factor, const Listed* __restrict__ dev_lists,
                                           const std::int32_t* __restrict__ dev_listed,
                                           TensorState* __restrict__ dev_state,
                                           std::int32_t* __restrict__ dev_nearest) {
  // Only the first pass reads this; the next one copies centroids first.
  if (blockIdx.x == 0 && threadIdx.x == 0) dev_state->too_far = 0;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto count = static_cast<std::int64_t>(dev_state->lists);
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / 32;
  for (std::int64_t slot = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; slot < count;
       slot += warps) {
    const Listed list = dev_lists[slot];
    const std::int32_t own = lane < list.count ? dev_listed[list.first + lane] : 0;
    const std::int32_t label = nearest_of_list(dev_points + std::int64_t{list.point} * d,
                                               dev_centroids, d, factor, own, list.count);
    if (lane == 0) dev_nearest[list.point] = label;
  }
}

}  // namespace kmeans::cuda::bytes
