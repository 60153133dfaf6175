// SPDX-License-Identifier: Apache-2.0
//
// Undecided points whose candidates are known: float32 compares them, and where these are too close
// they are compared as defined.
#pragma once

#include <cstdint>

#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_pair.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda {

/// The nearer of each pair.
static __global__ void decide_pairs_kernel(const float* __restrict__ dev_points,
                                           const float* __restrict__ dev_centroids, std::int64_t d,
                                           float factor, const Pair* __restrict__ dev_pairs,
                                           const TensorState* __restrict__ dev_state,
                                           std::int32_t* __restrict__ dev_nearest) {
  const auto count = static_cast<std::int64_t>(dev_state->pairs);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x / kPairLanes;
  const std::int64_t own = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kPairLanes;
  for (std::int64_t first = own - own % (kLanes / kPairLanes); first < count; first += stride) {
    const std::int64_t slot = first + own % (kLanes / kPairLanes);
    const Pair pair = dev_pairs[min(slot, count - 1)];
    const std::int32_t low = min(pair.one, pair.other);
    const std::int32_t high = max(pair.one, pair.other);
    const bool one = one_is_nearer(dev_points + pair.point * d, dev_centroids + low * d,
                                   dev_centroids + high * d, d, factor, kSearchTiny);
    if (threadIdx.x % kPairLanes == 0 && slot < count) {
      dev_nearest[pair.point] = one ? low : high;
    }
  }
}

/// Points whose centroids the bounds leave are listed, a warp a point. Those with longer lists, or
/// without one, are for search_kernel.
static __global__ void decide_kernel(
    const float* __restrict__ dev_points, const float* __restrict__ dev_centroids, std::int64_t d,
    float factor, std::int64_t listed, const std::int32_t* __restrict__ dev_undecided,
    const std::int32_t* __restrict__ dev_candidate_counts,
    const std::int32_t* __restrict__ dev_candidates, std::int32_t* __restrict__ dev_nearest,
    std::int32_t* __restrict__ dev_crowded, TensorState* dev_state) {
  await_kernels_before();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto count = static_cast<std::int64_t>(dev_state->undecided);
  const bool lists = dev_state->too_far == 0;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / 32;
  for (std::int64_t slot = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; slot < count;
       slot += warps) {
    const std::int64_t i = dev_undecided[slot];
    const int candidates = lists && slot < listed ? dev_candidate_counts[slot] : kMaxCandidates + 1;
    if (candidates > kMaxCandidates) {
      if (lane == 0) {
        dev_crowded[atomicAdd(&dev_state->crowded, 1ULL)] = static_cast<std::int32_t>(i);
      }
      continue;
    }
    const std::int32_t own = lane < candidates ? dev_candidates[slot * kMaxCandidates + lane] : 0;
    const std::int32_t label =
        nearest_of_list(dev_points + i * d, dev_centroids, d, factor, own, candidates);
    if (lane == 0) dev_nearest[i] = label;
  }
}

}  // namespace kmeans::cuda
