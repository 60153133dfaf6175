// SPDX-License-Identifier: Apache-2.0
#include "implementations/cuda/_distances.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {
namespace {

constexpr int kTile = 64;            // points, and centroids, of a block
constexpr int kDepth = 16;           // coordinates that it has at a time
constexpr int kSide = 16;            // threads for points, and for centroids
constexpr int kOwn = kTile / kSide;  // of each that a thread has
constexpr int kThreads = kSide * kSide;

/// Coordinates of rows, as float64; those beyond d and beyond the last row are 0.
struct Tile {
  double of[kDepth][kTile + 1];

  __device__ void fill(const float* dev_rows, std::int64_t rows, std::int64_t first, std::int64_t d,
                       std::int64_t begin) {
#pragma unroll
    for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth; e += kThreads) {
      const std::int64_t i = first + e / kDepth;
      const std::int64_t t = begin + e % kDepth;
      of[e % kDepth][e / kDepth] = i < rows && t < d ? dev_rows[i * d + t] : 0.0F;
    }
  }
};

/// Each thread adds the squares of kOwn x kOwn distances in the order of the coordinates.
template <class T>
__global__ void __launch_bounds__(kThreads)
    distances_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                     const float* __restrict__ dev_centroids, std::int64_t k,
                     std::int64_t tiles_of_centroids, T* __restrict__ dev_distances) {
  __shared__ Tile points;
  __shared__ Tile centroids;
  const std::int64_t first_i = blockIdx.x / tiles_of_centroids * kTile;
  const std::int64_t first_j = blockIdx.x % tiles_of_centroids * kTile;
  const int own_i = static_cast<int>(threadIdx.x) / kSide;
  const int own_j = static_cast<int>(threadIdx.x) % kSide;
  double squares[kOwn][kOwn] = {};
  for (std::int64_t begin = 0; begin < d; begin += kDepth) {
    points.fill(dev_points, n, first_i, d, begin);
    centroids.fill(dev_centroids, k, first_j, d, begin);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kDepth; ++t) {
#pragma unroll
      for (int a = 0; a < kOwn; ++a) {
        const double x = points.of[t][own_i + a * kSide];
#pragma unroll
        for (int b = 0; b < kOwn; ++b) {
          squares[a][b] = add_exact_square(squares[a][b], x, centroids.of[t][own_j + b * kSide]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int a = 0; a < kOwn; ++a) {
    const std::int64_t i = first_i + own_i + a * kSide;
#pragma unroll
    for (int b = 0; b < kOwn; ++b) {
      const std::int64_t j = first_j + own_j + b * kSide;
      if (i < n && j < k) dev_distances[i * k + j] = static_cast<T>(__dsqrt_rn(squares[a][b]));
    }
  }
}

}  // namespace

template <class T>
void distances_on_gpu(const float* dev_points, std::int64_t n, std::int64_t d,
                      const float* centroids, std::int64_t k, T* distances,
                      const std::function<void()>& between) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;  // of a piece
  const std::int64_t row_bytes = k * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t rows = std::clamp<std::int64_t>(kBytes / row_bytes, 1, n);
  const DeviceBuffer<float> dev_centroids(k * d);
  dev_centroids.upload(centroids);
  const DeviceBuffer<T> dev_distances(rows * k);
  const std::int64_t tiles = ceil_div(k, kTile);
  for (std::int64_t begin = 0; begin < n; begin += rows) {
    const std::int64_t count = std::min(rows, n - begin);
    const std::int64_t blocks = ceil_div(count, kTile) * tiles;
    distances_kernel<<<blocks_for(blocks, 1), kThreads>>>(
        dev_points + begin * d, count, d, dev_centroids.data(), k, tiles, dev_distances.data());
    KMEANS_CUDA_LAUNCHED(distances_kernel);
    KMEANS_CUDA(cudaMemcpy(distances + begin * k, dev_distances.data(),
                           static_cast<std::size_t>(count * row_bytes), cudaMemcpyDeviceToHost));
    if (between) between();
  }
}

template void distances_on_gpu(const float*, std::int64_t, std::int64_t, const float*, std::int64_t,
                               double*, const std::function<void()>&);
template void distances_on_gpu(const float*, std::int64_t, std::int64_t, const float*, std::int64_t,
                               float*, const std::function<void()>&);

}  // namespace kmeans::cuda
