// SPDX-License-Identifier: Apache-2.0
//
// The two kernels of cuda_block_serial, for any block size, with the centroids in global or in
// shared memory.
#pragma once

#include "implementations/cuda/_centroid_tiles.cuh"
#include "implementations/cuda/_divide_sums.cuh"

namespace kmeans::cuda {

/// Clusters whose sums and counts an array of one thread's own holds. 64 of each are less than the
/// 1 KB that a thread's stack has by default.
inline constexpr std::int64_t kOwnClusters = 64;

/// Compares point i (i < n) with `count` centroids, the first of which is number `first_j`.
template <class T>
__device__ void search_centroids(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                                 std::int64_t i, const T* centroids, std::int64_t first_j,
                                 std::int64_t count, T& nearest_distance, std::int64_t& nearest) {
  for (std::int64_t j = 0; j < count; ++j) {
    T square = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const T difference = dev_points[t * n + i] - centroids[j * d + t];
      square += difference * difference;
    }
    const T distance = sqrt(square);
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = first_j + j;
    }
  }
}

/// A thread a point. kShared: the centroids pass through shared memory, `tile` of them at a time.
template <class T, int kThreads, bool kShared>
__global__ void __launch_bounds__(kThreads)
    assign_points_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                         const T* __restrict__ dev_centroids, std::int64_t k, std::int64_t tile,
                         std::int32_t* __restrict__ dev_labels) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  T nearest_distance = INFINITY;
  std::int64_t nearest = 0;
  if constexpr (kShared) {
    extern __shared__ double shared_bytes[];  // aligned for either scalar
    T* shared = reinterpret_cast<T*>(shared_bytes);
    for (std::int64_t first_j = 0; first_j < k; first_j += tile) {
      const std::int64_t count = min(tile, k - first_j);
      __syncthreads();  // the tile before is no longer read
      for (std::int64_t at = threadIdx.x; at < count * d; at += kThreads) {
        shared[at] = dev_centroids[first_j * d + at];
      }
      __syncthreads();
      if (i >= n) continue;
      search_centroids(dev_points, n, d, i, shared, first_j, count, nearest_distance, nearest);
    }
  } else if (i < n) {
    search_centroids(dev_points, n, d, i, dev_centroids, 0, k, nearest_distance, nearest);
  }
  if (i < n) dev_labels[i] = static_cast<std::int32_t>(nearest);
}

/// A block kThreads points, which its thread 0 adds up, one coordinate after another.
template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads)
    add_tile_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                    const std::int32_t* __restrict__ dev_labels, std::int64_t k,
                    T* __restrict__ dev_sums, std::int32_t* __restrict__ dev_counts) {
  __shared__ T tile[kThreads];
  __shared__ std::int32_t labels[kThreads];
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads;
  const std::int64_t i = first + threadIdx.x;
  const int points = static_cast<int>(min(std::int64_t{kThreads}, n - first));
  if (i < n) labels[threadIdx.x] = dev_labels[i];
  for (std::int64_t t = 0; t < d; ++t) {
    __syncthreads();  // thread 0 is done with the coordinate before
    if (i < n) tile[threadIdx.x] = dev_points[t * n + i];
    __syncthreads();
    if (threadIdx.x != 0) continue;
    for (std::int64_t first_j = 0; first_j < k; first_j += kOwnClusters) {
      const int clusters = static_cast<int>(min(kOwnClusters, k - first_j));
      T sums[kOwnClusters];
      std::int32_t counts[kOwnClusters];
      for (int j = 0; j < clusters; ++j) {
        sums[j] = 0;
        counts[j] = 0;
      }
      for (int p = 0; p < points; ++p) {
        const std::int64_t j = labels[p] - first_j;
        if (j < 0 || j >= clusters) continue;
        sums[j] += tile[p];
        counts[j] += 1;
      }
      for (int j = 0; j < clusters; ++j) {
        atomicAdd(&dev_sums[(first_j + j) * d + t], sums[j]);
        if (t == 0) atomicAdd(&dev_counts[first_j + j], counts[j]);
      }
    }
  }
}

template <class T, int kThreads, bool kShared = false>
class BlockSerial : public CudaLloyd<T> {
 public:
  BlockSerial() : CudaLloyd<T>(Layout::columns) {}

 private:
  void prepare() override {
    dev_sums_ = DeviceBuffer<T>(this->shape().k * this->shape().d);
    dev_counts_ = DeviceBuffer<std::int32_t>(this->shape().k);
    if (kShared) tile_ = centroid_tile<T>(this->shape());
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    const unsigned blocks = blocks_for(n, kThreads);
    {
      const auto timed = this->stage("assign");
      assign_points_kernel<T, kThreads, kShared><<<blocks, kThreads, tile_.bytes>>>(
          this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, tile_.centroids,
          this->dev_labels_.data());
      KMEANS_CUDA_LAUNCHED(assign_points_kernel);
    }
    const auto timed = this->stage("update");
    dev_sums_.zero();
    dev_counts_.zero();
    add_tile_kernel<T, kThreads><<<blocks, kThreads>>>(this->dev_points_.data(), n, d,
                                                       this->dev_labels_.data(), k,
                                                       dev_sums_.data(), dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(add_tile_kernel);
    divide_sums(dev_sums_, dev_counts_, this->dev_centroids_, this->shape());
  }

  CentroidTile tile_;                      // of kShared, else empty
  DeviceBuffer<T> dev_sums_;               // k x d
  DeviceBuffer<std::int32_t> dev_counts_;  // k
};

template <int kThreads>
Support block_serial_limits(const Shape& shape) {
  return block_sums_and_counts_fit(shape, kThreads);
}

/// Assignment: points and centroids for each pair of them; with kShared, every centroid once a
/// block. Update: points and labels once, and atomics of a block. Division: sums to centroids.
template <int kThreads, bool kShared = false>
Traffic block_serial_traffic(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const double blocks = static_cast<double>(ceil_div(shape.n, kThreads));
  const double points = scalar_bytes(shape) * n * static_cast<double>(shape.d);
  const double sums = scalar_bytes(shape) * k * static_cast<double>(shape.d);
  const double centroids = (kShared ? blocks : n) * sums;
  return {.read_bytes = points * k + centroids + points + 4 * n + sums + 4 * k,
          .written_bytes = 4 * n + 2 * sums + 4 * k,
          .atomic_bytes = blocks * (sums + 4 * k)};
}

}  // namespace kmeans::cuda
