// SPDX-License-Identifier: Apache-2.0
//
// What cuda_streams and cuda_streams_serial have in common: a matrix of distances that one launch
// a cluster fills, the search in it, the loss, and an update with one block a point.
#pragma once

#include "implementations/cuda/_lloyd.cuh"

namespace kmeans::cuda {

inline constexpr int kFeatureThreads = 128;  // share the coordinates of one point
inline constexpr int kNearestThreads = 256;
inline constexpr int kSumThreads = 256;
inline constexpr int kSumBlocks = 256;
inline constexpr int kCountThreads = 1024;

/// Adds the block's values, one a thread, into shared[0]; for blocks of 2^m >= 32 threads, all of
/// which must call it. Only thread 0 may read the sum without a further barrier.
template <class T>
__device__ void sum_in_block(T* shared) {
  __syncthreads();
  for (unsigned offset = blockDim.x / 2; offset >= 32; offset /= 2) {
    if (threadIdx.x < offset) shared[threadIdx.x] += shared[threadIdx.x + offset];
    __syncthreads();
  }
  for (unsigned offset = 16; offset > 0; offset /= 2) {  // the first warp alone
    if (threadIdx.x < offset) shared[threadIdx.x] += shared[threadIdx.x + offset];
    __syncwarp();
  }
}

/// Distances of all points to cluster j: a block a point, its threads share the coordinates.
template <class T>
__global__ void measure_distances_kernel(const T* __restrict__ dev_points, std::int64_t d,
                                         const T* __restrict__ dev_centroids, std::int64_t k,
                                         std::int64_t j, T* __restrict__ dev_distances) {
  __shared__ T squares[kFeatureThreads];
  const std::int64_t i = blockIdx.x;
  T square = 0;
  for (std::int64_t t = threadIdx.x; t < d; t += kFeatureThreads) {
    const T difference = dev_points[i * d + t] - dev_centroids[j * d + t];
    square += difference * difference;
  }
  squares[threadIdx.x] = square;
  sum_in_block(squares);
  if (threadIdx.x == 0) dev_distances[i * k + j] = sqrt(squares[0]);
}

/// Label and distance of the nearest centroid: a thread a point, along its row of distances.
template <class T>
__global__ void find_nearest_kernel(const T* __restrict__ dev_distances, std::int64_t n,
                                    std::int64_t k, std::int32_t* __restrict__ dev_labels,
                                    T* __restrict__ dev_nearest_distances) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest_distance = dev_distances[i * k];
  std::int64_t nearest = 0;
  for (std::int64_t j = 1; j < k; ++j) {
    const T distance = __ldg(&dev_distances[i * k + j]);
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = j;
    }
  }
  dev_labels[i] = static_cast<std::int32_t>(nearest);
  dev_nearest_distances[i] = nearest_distance;
}

/// One partial sum a block. dev_sums may be dev_values where a single block is launched: it writes
/// after its threads have read.
template <class T>
__global__ void sum_values_kernel(const T* dev_values, std::int64_t count, T* dev_sums) {
  __shared__ T partial[kSumThreads];
  T sum = 0;
  const std::int64_t stride = std::int64_t{kSumThreads} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x; i < count;
       i += stride) {
    sum += dev_values[i];
  }
  partial[threadIdx.x] = sum;
  sum_in_block(partial);
  if (threadIdx.x == 0) dev_sums[blockIdx.x] = partial[0];
}

/// A template only so that it may stand in a header.
template <class Label>
__global__ void count_points_kernel(const Label* __restrict__ dev_labels, std::int64_t n,
                                    std::int32_t* __restrict__ dev_counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&dev_counts[dev_labels[i]], 1);
}

/// Centroids to 0, but for those of empty clusters, which stay: a thread a coordinate.
template <class T>
__global__ void clear_centroids_kernel(const std::int32_t* __restrict__ dev_counts, std::int64_t k,
                                       std::int64_t d, T* __restrict__ dev_centroids) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < k * d && dev_counts[at / d] > 0) dev_centroids[at] = 0;
}

/// Adds each point, divided by the size of its cluster, to its centroid: a block a point.
template <class T>
__global__ void add_shares_kernel(const T* __restrict__ dev_points, std::int64_t d,
                                  const std::int32_t* __restrict__ dev_labels,
                                  const std::int32_t* __restrict__ dev_counts,
                                  T* __restrict__ dev_centroids) {
  const std::int64_t i = blockIdx.x;
  const std::int64_t j = dev_labels[i];
  const T count = static_cast<T>(dev_counts[j]);
  for (std::int64_t t = threadIdx.x; t < d; t += kFeatureThreads) {
    atomicAdd(&dev_centroids[j * d + t], dev_points[i * d + t] / count);
  }
}

template <class T>
class PerClusterLloyd : public CudaLloyd<T> {
 public:
  PerClusterLloyd() : CudaLloyd<T>(Layout::rows) {}

  /// The source stops when the loss hardly changes: this one, as its kernels add it, in the points'
  /// scalar and in two steps; the last iteration has brought it to the host.
  Progress progress() override { return {.movement = {}, .changed = {}, .loss = loss_}; }

 protected:
  /// Measures the distances to every cluster, then finds the nearest: the launches below in an
  /// order, and on streams, of the variant's choice.
  virtual void label_points() = 0;

  void launch_distances(std::int64_t j, cudaStream_t stream) {
    const auto [n, d, k, precision] = this->shape();
    measure_distances_kernel<<<static_cast<unsigned>(n), kFeatureThreads, 0, stream>>>(
        this->dev_points_.data(), d, this->dev_centroids_.data(), k, j, dev_distances_.data());
    KMEANS_CUDA_LAUNCHED(measure_distances_kernel);
  }

  void launch_nearest() {
    const auto [n, d, k, precision] = this->shape();
    find_nearest_kernel<<<blocks_for(n, kNearestThreads), kNearestThreads>>>(
        dev_distances_.data(), n, k, this->dev_labels_.data(), dev_nearest_distances_.data());
    KMEANS_CUDA_LAUNCHED(find_nearest_kernel);
  }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    dev_distances_ = DeviceBuffer<T>(n * k);
    dev_nearest_distances_ = DeviceBuffer<T>(n);
    dev_loss_ = DeviceBuffer<T>(kSumBlocks);
    dev_counts_ = DeviceBuffer<std::int32_t>(k);
  }

  void iterate() final {
    {
      const auto timed = this->stage("assign");
      dev_counts_.zero();
      label_points();
      sum_loss();
    }
    {
      const auto timed = this->stage("update");
      update_centroids();
    }
    const auto timed = this->stage("download");
    T loss = 0;
    KMEANS_CUDA(cudaMemcpy(&loss, dev_loss_.data(), sizeof loss, cudaMemcpyDeviceToHost));
    loss_ = static_cast<double>(loss);
  }

  void sum_loss() {
    sum_values_kernel<<<kSumBlocks, kSumThreads>>>(dev_nearest_distances_.data(), this->shape().n,
                                                   dev_loss_.data());
    KMEANS_CUDA_LAUNCHED(sum_values_kernel);
    sum_values_kernel<<<1, kSumThreads>>>(dev_loss_.data(), kSumBlocks, dev_loss_.data());
    KMEANS_CUDA_LAUNCHED(sum_values_kernel);
  }

  void update_centroids() {
    const auto [n, d, k, precision] = this->shape();
    count_points_kernel<<<blocks_for(n, kCountThreads), kCountThreads>>>(this->dev_labels_.data(),
                                                                         n, dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(count_points_kernel);
    clear_centroids_kernel<<<blocks_for(k * d, kNearestThreads), kNearestThreads>>>(
        dev_counts_.data(), k, d, this->dev_centroids_.data());
    KMEANS_CUDA_LAUNCHED(clear_centroids_kernel);
    add_shares_kernel<<<static_cast<unsigned>(n), kFeatureThreads>>>(
        this->dev_points_.data(), d, this->dev_labels_.data(), dev_counts_.data(),
        this->dev_centroids_.data());
    KMEANS_CUDA_LAUNCHED(add_shares_kernel);
  }

  DeviceBuffer<T> dev_distances_;          // n x k
  DeviceBuffer<T> dev_nearest_distances_;  // n
  DeviceBuffer<T> dev_loss_;               // kSumBlocks partial sums; the first becomes the total
  DeviceBuffer<std::int32_t> dev_counts_;  // k
  double loss_ = 0;
};

inline double per_cluster_device_bytes(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double d = static_cast<double>(shape.d);
  const double k = static_cast<double>(shape.k);
  return scalar_bytes(shape) * (n * d + k * d + n * k + n + kSumBlocks) + 4 * n + 4 * k;
}

inline Traffic per_cluster_traffic(const Shape& shape) {
  const double scalar = scalar_bytes(shape);
  const double n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k);
  const double points = scalar * n * static_cast<double>(shape.d);
  const double centroids = scalar * k * static_cast<double>(shape.d);
  // Every point for every centroid; the matrix written and read; the nearest distances and the
  // labels written and read; then labels, counts and points once more, added with atomics.
  return Traffic{
      .read_bytes = 2 * points * k + scalar * n * k + scalar * n + 4 * n + 8 * n + points,
      .written_bytes = scalar * n * k + scalar * n + 4 * n + centroids,
      .atomic_bytes = 4 * n + points};
}

}  // namespace kmeans::cuda
