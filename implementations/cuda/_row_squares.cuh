// SPDX-License-Identifier: Apache-2.0
//
// Squares of pairs of rows' differences, added as exact::squared_distance() does: neighbouring lanes read a row, and
// one lane adds its squares in their order, from shared memory.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

/// Of kLanes rows as many coordinates; a row's lane reads other banks than its neighbours.
struct SquaresTile {
  double of[kLanes][kLanes + 1];
};

/// What lanes of the first warp return is the sum over t < d of square(lane, t), for the first `rows` of them.
/// kWarps: 1, or all that the block has, which all call.
template <int kWarps, class Square>
__device__ inline double squares_of_rows(int rows, std::int64_t d, const Square& square,
                                         SquaresTile& tile) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = kWarps == 1 ? 0 : static_cast<int>(threadIdx.x) / kLanes;
  const auto meet = [] {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  };
  double sum = 0;
  for (std::int64_t begin = 0; begin < d; begin += kLanes) {
    const int count = static_cast<int>(min(std::int64_t{kLanes}, d - begin));
#pragma unroll 4
    for (int r = warp; r < kLanes; r += kWarps) {
      if (r < rows && lane < count) tile.of[r][lane] = square(r, begin + lane);
    }
    meet();
    if (warp == 0 && lane < rows) {
      for (int e = 0; e < count; ++e) sum = __dadd_rn(sum, tile.of[lane][e]);
    }
    meet();
  }
  return sum;
}

/// `count` values from shared memory, added to `sum` in their order.
__device__ inline double added_in_order(double sum, const double* values, int count) {
#pragma unroll 8
  for (int i = 0; i < count; ++i) sum = __dadd_rn(sum, values[i]);
  return sum;
}

}  // namespace kmeans::cuda
