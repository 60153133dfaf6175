// SPDX-License-Identifier: Apache-2.0
//
// The smallest two of a row's bounds, and where the smallest is, from the sums that a warp group's
// matrix instruction leaves in its lanes.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

constexpr int kIndexBits = 5;  // of a key: which of a thread's columns of a tile

struct Best {
  float least;  // key of the nearest: a lower bound with the column in its last bits
  float second;
  int tile;
};

/// Of a key: all bits but the last kIndexBits, in a register, so that one instruction uses them.
__device__ inline unsigned key_mask() {
  unsigned mask;
  asm("mov.b32 %0, %1;" : "=r"(mask) : "n"(~((1U << kIndexBits) - 1)));
  return mask;
}

__device__ inline float key_of(float bound, unsigned mask, int column) {
  unsigned key;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(key)
      : "r"(__float_as_uint(bound)), "r"(mask), "r"(column));
  return __uint_as_float(key);
}

__device__ inline int column_of(float key) {
  return static_cast<int>(__float_as_uint(key) & ((1U << kIndexBits) - 1));
}

/// Two rows of a thread's sums of a tile: groups of 8 columns, of which a thread has two. Of two
/// keys the larger is their sum less the smaller: additions go where minima do not queue. It is
/// 2^-22 of the larger of their magnitudes off at most.
template <int kSums>
__device__ inline void reduce_tile(const float (&sums)[kSums], int tile, Best (&best)[2]) {
  const unsigned mask = key_mask();
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float before = best[row].least;
#pragma unroll
    for (int group = 0; group < kSums / 4; ++group) {
      const float a = key_of(sums[4 * group + 2 * row], mask, 2 * group);
      const float b = key_of(sums[4 * group + 2 * row + 1], mask, 2 * group + 1);
      const float low = fminf(a, b);
      const float high = __fsub_rn(__fadd_rn(a, b), low);
      const float least = fminf(best[row].least, low);
      const float other = __fsub_rn(__fadd_rn(best[row].least, low), least);
      best[row].second = fminf(fminf(best[row].second, high), other);
      best[row].least = least;
    }
    if (best[row].least != before) best[row].tile = tile;
  }
}

/// `best` of a row and that of another lane, `distance` away, which gives `theirs` of the same row.
__device__ inline void join_best(Best& best, const Best& theirs, int distance) {
  const float least = __shfl_xor_sync(kAllLanes, theirs.least, distance);
  const float second = __shfl_xor_sync(kAllLanes, theirs.second, distance);
  const int tile = __shfl_xor_sync(kAllLanes, theirs.tile, distance);
  best.second = fminf(fminf(best.second, second), fmaxf(best.least, least));
  if (least < best.least) best.least = least, best.tile = tile;
}

}  // namespace kmeans::cuda
