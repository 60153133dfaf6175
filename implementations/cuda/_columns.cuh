// SPDX-License-Identifier: Apache-2.0
//
// Row-major points as columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_upload.cuh"

namespace kmeans::cuda {

namespace detail {

inline constexpr int kTransposeTile = 32;

/// rows x d row-major values to columns of length n, beginning at row `first`.
template <class T>
__global__ void transpose_rows_kernel(const T* __restrict__ dev_rows, std::int64_t rows,
                                      std::int64_t first, std::int64_t n, std::int64_t d,
                                      T* __restrict__ dev_columns) {
  __shared__ T tile[kTransposeTile][kTransposeTile + 1];
  const std::int64_t row_tiles = (rows + kTransposeTile - 1) / kTransposeTile;
  const std::int64_t tiles = row_tiles * ((d + kTransposeTile - 1) / kTransposeTile);
  for (std::int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
    const std::int64_t row0 = index % row_tiles * kTransposeTile;
    const std::int64_t t0 = index / row_tiles * kTransposeTile;
    for (int y = threadIdx.y; y < kTransposeTile; y += blockDim.y) {
      if (row0 + y < rows && t0 + threadIdx.x < d) {
        tile[y][threadIdx.x] = dev_rows[(row0 + y) * d + t0 + threadIdx.x];
      }
    }
    __syncthreads();
    for (int y = threadIdx.y; y < kTransposeTile; y += blockDim.y) {
      if (row0 + threadIdx.x < rows && t0 + y < d) {
        dev_columns[(t0 + y) * n + first + row0 + threadIdx.x] = tile[threadIdx.x][y];
      }
    }
    __syncthreads();
  }
}

}  // namespace detail

/// Launches that kernel.
template <class T>
void transpose_rows(const T* dev_rows, std::int64_t rows, std::int64_t first, std::int64_t n,
                    std::int64_t d, T* dev_columns) {
  const std::int64_t tiles =
      ceil_div(rows, detail::kTransposeTile) * ceil_div(d, detail::kTransposeTile);
  const dim3 threads(detail::kTransposeTile, 8);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20));
  detail::transpose_rows_kernel<<<blocks, threads>>>(dev_rows, rows, first, n, d, dev_columns);
  KMEANS_CUDA_LAUNCHED(transpose_rows_kernel);
}

/// Uploads n x d row-major points as d columns of n.
template <class T>
void upload_columns(const T* points, std::int64_t n, std::int64_t d,
                    const DeviceBuffer<T>& dev_columns) {
  constexpr std::int64_t kStagingBytes = std::int64_t{64} << 20;
  const std::int64_t row_bytes = d * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t piece = std::clamp<std::int64_t>(kStagingBytes / row_bytes, 1, n);
  const DeviceBuffer<T> dev_rows(piece * d);
  for (std::int64_t first = 0; first < n; first += piece) {
    const std::int64_t rows = std::min(piece, n - first);
    upload_bytes(points + first * d, dev_rows.data(), rows * row_bytes);
    transpose_rows(dev_rows.data(), rows, first, n, d, dev_columns.data());
  }
  KMEANS_CUDA(cudaDeviceSynchronize());
}

}  // namespace kmeans::cuda
