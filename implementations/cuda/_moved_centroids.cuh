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

/// One iteration: k rows of d before it, which are kept, and after it.
struct Movement {
  static constexpr int kRows = kLanes;  // of a block

  const float* dev_before = nullptr;
  const float* dev_after = nullptr;
  float* dev_kept = nullptr;      // becomes dev_after
  double* dev_squares = nullptr;  // k: of each the squared distance, as the exact step forms it
  std::int64_t k = 0;             // 0: nobody asks
  std::int64_t d = 0;

  [[nodiscard]] unsigned blocks() const { return k > 0 ? blocks_for(k, kRows) : 0; }

  template <int kWarps>
  __device__ void look_at_block(std::int64_t block) const {
    __shared__ SquaresTile tile;
    const std::int64_t first = block * kRows;
    const int rows = static_cast<int>(min(std::int64_t{kRows}, k - first));
    const double square = squares_of_rows<kWarps>(
        rows, d,
        [&](int r, std::int64_t t) {
          const std::int64_t index = (first + r) * d + t;
          const float after = dev_after[index];
          dev_kept[index] = after;
          return add_exact_square(0, dev_before[index], after);
        },
        tile);
    if (static_cast<int>(threadIdx.x) < rows) dev_squares[first + threadIdx.x] = square;
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
  /// So many may be asked for at once.
  static std::int64_t most(std::int64_t k, std::int64_t d) {
    constexpr std::int64_t kBytes = std::int64_t{32} << 20;  // of centroids before iterations
    return std::max<std::int64_t>(1, kBytes / (k * d * std::int64_t{sizeof(float)}) - 1);
  }

  /// k x d, before so many iterations.
  void begin(const DeviceBuffer<float>& dev_centroids, std::int64_t k, std::int64_t iterations) {
    k_ = k;
    d_ = dev_centroids.size() / k;
    if (dev_squares_.size() < iterations * k) dev_squares_ = DeviceBuffer<double>(iterations * k);
    const std::int64_t kept = (iterations + 1) * dev_centroids.size();
    if (dev_kept_.size() < kept) dev_kept_ = DeviceBuffer<float>(kept);
    KMEANS_CUDA(cudaMemcpyAsync(dev_kept_.data(), dev_centroids.data(), dev_centroids.bytes(),
                                cudaMemcpyDeviceToDevice));
  }

  /// By iteration `own`, which has been launched.
  [[nodiscard]] Movement of(std::int64_t own, const float* dev_after) const {
    float* const dev_before = dev_kept_.data() + own * k_ * d_;
    return {.dev_before = dev_before,
            .dev_after = dev_after,
            .dev_kept = dev_before + k_ * d_,
            .dev_squares = dev_squares_.data() + own * k_,
            .k = k_,
            .d = d_};
  }

  /// dev_sums: of each iteration all squares. Does not wait.
  void add_up(std::int64_t iterations, double* dev_sums) const {
    constexpr int kThreads = 256;
    detail::add_movement_kernel<kThreads>
        <<<static_cast<unsigned>(iterations), kThreads>>>(dev_squares_.data(), k_, dev_sums);
    KMEANS_CUDA_LAUNCHED(add_movement_kernel);
  }

  /// The centroids before iteration `own`.
  [[nodiscard]] std::vector<float> before(std::int64_t own) const {
    std::vector<float> centroids(k_ * d_);
    KMEANS_CUDA(cudaMemcpy(centroids.data(), dev_kept_.data() + own * k_ * d_,
                           centroids.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return centroids;
  }

 private:
  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  DeviceBuffer<float> dev_kept_;      // iterations + 1, each k x d
  DeviceBuffer<double> dev_squares_;  // iterations x k
};

}  // namespace kmeans::cuda
