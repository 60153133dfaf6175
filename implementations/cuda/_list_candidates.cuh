// SPDX-License-Identifier: Apache-2.0
//
// The second pass of the float16 filter: the candidates of undecided points.
#pragma once

#include <cmath>
#include <cstdint>

#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda {

/// The second pass, over the undecided points: all centroids whose bound is not above the limit.
template <int kColumns>
struct ListCandidates {
  using Element = __half;
  using Sum = float;
  static constexpr std::int64_t kWarpBytes = kPendingBytes;
  static constexpr bool kSeedsBounds = false;
  static constexpr int kPrefetchWarps = 0;

  const float* __restrict__ dev_limits;
  const TensorState* __restrict__ dev_state;
  std::int64_t listed;  // undecided points that have a list
  std::int32_t* __restrict__ dev_candidate_counts;
  std::int32_t* __restrict__ dev_candidates;

  float limits[2];
  std::int64_t first_slot;

  __device__ std::int64_t count() const {
    return min(static_cast<std::int64_t>(dev_state->undecided), listed);
  }
  __device__ std::int64_t tiles(const Extents& /*s*/) const {
    return dev_state->too_far != 0 ? 0 : (count() + kTileRows - 1) / kTileRows;
  }
  /// Of the centroids: few points would leave most blocks without work.
  __device__ static int parts(const Extents& s, std::int64_t rounds) {
    if (s.resident || rounds == 0) return 1;
    const auto blocks = static_cast<std::int64_t>(gridDim.x);
    return static_cast<int>(
        min(max(blocks / rounds, std::int64_t{s.parts}), std::int64_t{s.centroid_tiles}));
  }

  __device__ void start(const Extents& /*s*/, void* /*of_warp*/) {}

  __device__ void begin(const Extents& /*s*/, int first_row) {
    const std::int64_t end = count();
    first_slot = first_row + threadIdx.x % 32 / 4;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t slot = first_slot + row * 8;
      limits[row] = slot < end ? dev_limits[slot] : -INFINITY;
    }
  }

  __device__ void preload(int /*tile*/) {}
  __device__ void epilogue(const Extents& s, const float (&sums)[kColumns / 2], int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // First which, then where they go: the lanes' additions to the counts wait together.
      unsigned close = 0;
#pragma unroll
      for (int c = 0; c < kColumns / 4; ++c) {
        if (sums[c / 2 * 4 + row * 2 + c % 2] <= limits[row]) close |= 1U << c;
      }
      const std::int64_t slot = first_slot + row * 8;
      for (; close != 0; close &= close - 1) {
        const int c = __ffs(static_cast<int>(close)) - 1;
        const int j = first + c / 2 * 8 + c % 2;
        if (j >= s.k) break;
        const std::int32_t place = atomicAdd(&dev_candidate_counts[slot], 1);
        if (place < kMaxCandidates) dev_candidates[slot * kMaxCandidates + place] = j;
      }
    }
  }

  __device__ void end(const Extents& /*s*/, int /*first_row*/) {}
  __device__ void finish() {}
};

}  // namespace kmeans::cuda
