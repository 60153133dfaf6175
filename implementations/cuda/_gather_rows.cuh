// SPDX-License-Identifier: Apache-2.0
//
// Some rows of the points, one after the other.
#pragma once

#include <cstdint>

namespace kmeans::cuda {

/// `count` of the d coordinates of each of these rows, from `first` on (rows x count).
static __global__ void gather_rows_kernel(const float* __restrict__ dev_points, std::int64_t d,
                                          const std::int64_t* __restrict__ dev_rows,
                                          std::int64_t rows, std::int64_t first, std::int64_t count,
                                          float* __restrict__ dev_gathered) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < rows * count) {
    dev_gathered[index] = dev_points[dev_rows[index / count] * d + first + index % count];
  }
}

}  // namespace kmeans::cuda
