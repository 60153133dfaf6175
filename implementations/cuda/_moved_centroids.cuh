// SPDX-License-Identifier: Apache-2.0
//
// How far iterations move the centroids, without a word to the host in between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_row_squares.cuh"

namespace kmeans::cuda {

/// Where the centroids (k x d) are, were before each of some iterations, and how far each moved in them.
struct Movement {
  static constexpr int kRows = kLanes;  // of a block

  const float* dev_centroids = nullptr;
  float* dev_kept = nullptr;      // before the first, and after each iteration
  double* dev_squares = nullptr;  // k an iteration: squared distances, as the exact step forms them
  std::int64_t k = 0;             // 0: changed labels alone are looked at
  std::int64_t d = 0;

  [[nodiscard]] unsigned blocks() const { return k > 0 ? blocks_for(k, kRows) : 0; }

  /// After iteration `own`.
  template <int kWarps>
  __device__ void look_at_block(std::int64_t block, std::int64_t own) const {
    __shared__ SquaresTile tile;
    const float* const dev_before = dev_kept + own * k * d;
    float* const dev_after = dev_kept + (own + 1) * k * d;
    const std::int64_t first = block * kRows;
    const int rows = static_cast<int>(min(std::int64_t{kRows}, k - first));
    const double square = squares_of_rows<kWarps>(
        rows, d,
        [&](int r, std::int64_t t) {
          const std::int64_t index = (first + r) * d + t;
          const float after = dev_centroids[index];
          dev_after[index] = after;
          return add_exact_square(0, dev_before[index], after);
        },
        tile);
    if (static_cast<int>(threadIdx.x) < rows) dev_squares[own * k + first + threadIdx.x] = square;
  }
};

namespace detail {

/// A block an iteration: dev_sums of its squares, cluster by cluster.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    add_movement_kernel(const double* __restrict__ dev_squares, std::int64_t k,
                        double* __restrict__ dev_sums) {
  constexpr int kAtOnce = 4 * kThreads;
  __shared__ double squares[kAtOnce];
  double sum = 0;
  for (std::int64_t begin = 0; begin < k; begin += kAtOnce) {
    const int count = static_cast<int>(min(std::int64_t{kAtOnce}, k - begin));
    for (int own = static_cast<int>(threadIdx.x); own < count; own += kThreads) {
      squares[own] = dev_squares[blockIdx.x * k + begin + own];
    }
    __syncthreads();
    if (threadIdx.x == 0) sum = added_in_order(sum, squares, count);
    __syncthreads();
  }
  if (threadIdx.x == 0) dev_sums[blockIdx.x] = sum;
}

}  // namespace detail

/// Of some iterations, which are numbered from 0 on.
class MovedCentroids {
 public:
  /// So many of `iterations` have room.
  static std::int64_t room(std::int64_t iterations, std::int64_t k, std::int64_t d) {
    constexpr std::int64_t kBytes = std::int64_t{32} << 20;  // of centroids before iterations
    const std::int64_t fit = kBytes / (k * d * std::int64_t{sizeof(float)}) - 1;
    return std::clamp<std::int64_t>(fit, 1, iterations);
  }

  /// Before at most so many iterations of k centroids, which stay where they are.
  void begin(const DeviceBuffer<float>& dev_centroids, std::int64_t k, std::int64_t most) {
    const std::int64_t count = dev_centroids.size();
    if (dev_squares_.size() != most * k || dev_kept_.size() != (most + 1) * count) {
      dev_squares_ = DeviceBuffer<double>(most * k);
      dev_kept_ = DeviceBuffer<float>((most + 1) * count);
    }
    movement_ = {.dev_centroids = dev_centroids.data(),
                 .dev_kept = dev_kept_.data(),
                 .dev_squares = dev_squares_.data(),
                 .k = k,
                 .d = count / k};
    KMEANS_CUDA(cudaMemcpyAsync(dev_kept_.data(), dev_centroids.data(), dev_centroids.bytes(),
                                cudaMemcpyDeviceToDevice));
  }
  [[nodiscard]] const Movement& movement() const { return movement_; }

  /// dev_sums: of each iteration all squares. Does not wait.
  void add_up(std::int64_t iterations, double* dev_sums) const {
    constexpr int kThreads = 256;
    detail::add_movement_kernel<kThreads><<<static_cast<unsigned>(iterations), kThreads>>>(
        dev_squares_.data(), movement_.k, dev_sums);
    KMEANS_CUDA_LAUNCHED(add_movement_kernel);
  }

  /// The centroids before iteration `own`.
  [[nodiscard]] std::vector<float> before(std::int64_t own) const {
    const std::int64_t count = movement_.k * movement_.d;
    std::vector<float> centroids(count);
    KMEANS_CUDA(cudaMemcpy(centroids.data(), dev_kept_.data() + own * count, count * sizeof(float),
                           cudaMemcpyDeviceToHost));
    return centroids;
  }

 private:
  Movement movement_;
  DeviceBuffer<float> dev_kept_;      // iterations + 1, each k x d
  DeviceBuffer<double> dev_squares_;  // iterations x k
};

}  // namespace kmeans::cuda
