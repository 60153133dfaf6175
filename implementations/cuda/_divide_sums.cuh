// SPDX-License-Identifier: Apache-2.0
//
// Centroids of the plain families: sums divided by counts.
#pragma once

#include <cstdint>

#include "harness/machine/cuda/device.cuh"
#include "harness/variant.h"

namespace kmeans::cuda {

/// Sums to means: one thread a coordinate of a centroid. An empty cluster keeps its centroid.
template <class T>
__global__ void divide_sums_kernel(const T* __restrict__ dev_sums,
                                   const std::int32_t* __restrict__ dev_counts,
                                   T* __restrict__ dev_centroids, std::int64_t k, std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int32_t count = dev_counts[index / d];
  if (count > 0) dev_centroids[index] = dev_sums[index] / static_cast<T>(count);
}

/// Sums of clusters by coordinate, the sources' arrays sums_x, sums_y, ...: d columns of k values,
/// each column on memory lines of its own. Threads that add to different coordinates then never
/// meet on a line, which is where atomic additions queue.
inline std::int64_t column_pitch(std::int64_t k) { return ceil_div(k, 64) * 64; }

/// divide_sums_kernel for sums in columns.
template <class T>
__global__ void divide_sum_columns_kernel(const T* __restrict__ dev_sums, std::int64_t pitch,
                                          const std::int32_t* __restrict__ dev_counts,
                                          T* __restrict__ dev_centroids, std::int64_t k,
                                          std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const std::int64_t j = index / d;
  const std::int32_t count = dev_counts[j];
  if (count > 0) {
    dev_centroids[index] = dev_sums[index % d * pitch + j] / static_cast<T>(count);
  }
}

/// Launches divide_sum_columns_kernel for d columns of sums and k counts.
template <class T>
void divide_sum_columns(const DeviceBuffer<T>& dev_sums,
                        const DeviceBuffer<std::int32_t>& dev_counts,
                        const DeviceBuffer<T>& dev_centroids, const Shape& shape) {
  constexpr int kThreads = 256;
  divide_sum_columns_kernel<<<blocks_for(shape.k * shape.d, kThreads), kThreads>>>(
      dev_sums.data(), column_pitch(shape.k), dev_counts.data(), dev_centroids.data(), shape.k,
      shape.d);
  KMEANS_CUDA_LAUNCHED(divide_sum_columns_kernel);
}

/// Launches divide_sums_kernel for k x d sums and k counts.
template <class T>
void divide_sums(const DeviceBuffer<T>& dev_sums, const DeviceBuffer<std::int32_t>& dev_counts,
                 const DeviceBuffer<T>& dev_centroids, const Shape& shape) {
  constexpr int kThreads = 256;
  divide_sums_kernel<<<blocks_for(shape.k * shape.d, kThreads), kThreads>>>(
      dev_sums.data(), dev_counts.data(), dev_centroids.data(), shape.k, shape.d);
  KMEANS_CUDA_LAUNCHED(divide_sums_kernel);
}

}  // namespace kmeans::cuda
