// SPDX-License-Identifier: Apache-2.0
//
// The nearest of the few centroids that a point's bounds leave it: float32 differences, and where
// these cannot decide, as defined.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda {

constexpr int kMaxCandidates = 32;  // of a list: a lane each
constexpr int kCandidatesAtOnce = 4;

/// Squared distances of a point to kCandidatesAtOnce centroids in float32, the warp's lanes over
/// the coordinates: as q in filter_factor().
__device__ inline void squared_distances_of_warp(
    const float* __restrict__ dev_point, const float* __restrict__ dev_centroids,
    const std::int64_t (&candidates)[kCandidatesAtOnce], std::int64_t d,
    float (&sums)[kCandidatesAtOnce]) {
#pragma unroll
  for (int c = 0; c < kCandidatesAtOnce; ++c) sums[c] = 0;
  for (std::int64_t t = threadIdx.x % 32; t < d; t += 32) {
    const float x = dev_point[t];
#pragma unroll
    for (int c = 0; c < kCandidatesAtOnce; ++c) {
      const float difference = __fsub_rn(x, dev_centroids[candidates[c] * d + t]);
      sums[c] = __fmaf_rn(difference, difference, sums[c]);
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
    for (int c = 0; c < kCandidatesAtOnce; ++c) {
      sums[c] = __fadd_rn(sums[c], __shfl_xor_sync(kAllLanes, sums[c], distance));
    }
  }
}

/// The nearest of the candidates that `close` names, lane by lane, as defined; the lowest index
/// wins.
__device__ inline std::int32_t nearest_as_defined(const float* __restrict__ dev_point,
                                                  const float* __restrict__ dev_centroids,
                                                  std::int64_t d, std::int32_t candidate,
                                                  bool close) {
  double nearest = INFINITY;
  std::int32_t label = 0x7fffffff;
  if (close) {
    label = candidate;
    nearest = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      nearest = add_exact_square(nearest, dev_point[t], dev_centroids[candidate * d + t]);
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, nearest, distance);
    const std::int32_t other_label = __shfl_xor_sync(kAllLanes, label, distance);
    if (other < nearest || (other == nearest && other_label < label)) {
      nearest = other;
      label = other_label;
    }
  }
  return label;
}

/// A point and the two centroids that its bounds leave.
struct Pair {
  std::int32_t point;
  std::int32_t one;
  std::int32_t other;
};

/// The nearest of a list of candidates, a lane its `own`: in float32, or as defined where that is
/// too close. factor: as in filter_factor().
__device__ inline std::int32_t nearest_of_list(const float* __restrict__ dev_point,
                                               const float* __restrict__ dev_centroids,
                                               std::int64_t d, float factor, std::int32_t own,
                                               int candidates) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float distance = INFINITY;  // of the lane's candidate
  for (int first = 0; first < candidates; first += kCandidatesAtOnce) {
    std::int64_t some[kCandidatesAtOnce];
    float q[kCandidatesAtOnce];
#pragma unroll
    for (int c = 0; c < kCandidatesAtOnce; ++c) {
      some[c] = __shfl_sync(kAllLanes, own, min(first + c, candidates - 1));
    }
    squared_distances_of_warp(dev_point, dev_centroids, some, d, q);
#pragma unroll
    for (int c = 0; c < kCandidatesAtOnce; ++c) {
      if (lane == first + c && lane < candidates) distance = q[c];
    }
  }
  const float best = __uint_as_float(__reduce_min_sync(kAllLanes, __float_as_uint(distance)));
  const bool close = lane < candidates && !(distance > __fmaf_rn(best, factor, kSearchTiny));
  const unsigned all_close = __ballot_sync(kAllLanes, close);
  if (__popc(all_close) == 1) {
    return __shfl_sync(kAllLanes, own, __ffs(static_cast<int>(all_close)) - 1);
  }
  return nearest_as_defined(dev_point, dev_centroids, d, own, close);
}

}  // namespace kmeans::cuda
