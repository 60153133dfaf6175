// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_atomic on points as one linear array of rows, and a stop rule: after the update a
//            kernel measures how far each centroid moved, and the host adds these up
// Parallel:  a thread owns a point in the assignment, a centroid with all its coordinates in the
//            update and in the measurement; the host waits once an iteration, for k movements
// Memory:    row-major points, so that neighbouring threads read addresses d apart; every centroid
//            is read from global memory by every thread; d + 1 contended atomics a point
// Numerics:  everything in the points' scalar, the sum over centroids of squared movement in
//            float64; the order of the atomic additions, and with it the last bits of the
//            centroids, changes from run to run
// Source:    marinai2023, CUDA version. Corrected: an empty cluster has not moved (printed: its
//            "old" centroid stays what it was when the cluster last had points, so that the
//            movement never falls to 0); sums and counts are really cleared
#include <vector>

#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 256;

template <class T>
__global__ void assign_and_add_kernel(const T* __restrict__ dev_points, std::int64_t n,
                                      std::int64_t d, const T* __restrict__ dev_centroids,
                                      std::int64_t k, std::int32_t* __restrict__ dev_labels,
                                      T* __restrict__ dev_sums,
                                      std::int32_t* __restrict__ dev_counts) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest_distance = INFINITY;
  std::int64_t nearest = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    T distance = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const T difference = dev_points[i * d + t] - dev_centroids[j * d + t];
      distance += difference * difference;
    }
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = j;
    }
  }
  dev_labels[i] = static_cast<std::int32_t>(nearest);
  for (std::int64_t t = 0; t < d; ++t) {
    atomicAdd(&dev_sums[nearest * d + t], dev_points[i * d + t]);
  }
  atomicAdd(&dev_counts[nearest], 1);
}

/// Also keeps the centroids as they were.
template <class T>
__global__ void calculate_centroids_kernel(const T* __restrict__ dev_sums,
                                           const std::int32_t* __restrict__ dev_counts,
                                           std::int64_t k, std::int64_t d,
                                           T* __restrict__ dev_old_centroids,
                                           T* __restrict__ dev_centroids) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= k) return;
  const std::int32_t count = dev_counts[j];
  for (std::int64_t at = j * d; at < (j + 1) * d; ++at) {
    dev_old_centroids[at] = dev_centroids[at];
    if (count > 0) dev_centroids[at] = dev_sums[at] / static_cast<T>(count);
  }
}

template <class T>
__global__ void measure_movement_kernel(const T* __restrict__ dev_old_centroids,
                                        const T* __restrict__ dev_centroids, std::int64_t k,
                                        std::int64_t d, T* __restrict__ dev_movements) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j >= k) return;
  T movement = 0;
  for (std::int64_t at = j * d; at < (j + 1) * d; ++at) {
    const T difference = dev_old_centroids[at] - dev_centroids[at];
    movement += difference * difference;
  }
  dev_movements[j] = movement;
}

template <class T>
class CudaAtomicRows final : public CudaLloyd<T> {
 public:
  CudaAtomicRows() : CudaLloyd<T>(Layout::rows) {}

  kmeans::Progress progress() override {
    return {.movement = movement_, .changed = {}, .loss = {}};
  }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    dev_sums_ = DeviceBuffer<T>(k * d);
    dev_counts_ = DeviceBuffer<std::int32_t>(k);
    dev_old_centroids_ = DeviceBuffer<T>(k * d);
    dev_movements_ = DeviceBuffer<T>(k);
    movements_.resize(static_cast<std::size_t>(k));
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("assign");
      dev_sums_.zero();
      dev_counts_.zero();
      assign_and_add_kernel<<<blocks_for(n, kThreads), kThreads>>>(
          this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, this->dev_labels_.data(),
          dev_sums_.data(), dev_counts_.data());
      KMEANS_CUDA_LAUNCHED(assign_and_add_kernel);
    }
    {
      const auto timed = this->stage("update");
      calculate_centroids_kernel<<<blocks_for(k, kThreads), kThreads>>>(
          dev_sums_.data(), dev_counts_.data(), k, d, dev_old_centroids_.data(),
          this->dev_centroids_.data());
      KMEANS_CUDA_LAUNCHED(calculate_centroids_kernel);
    }
    const auto timed = this->stage("converge");
    measure_movement_kernel<<<blocks_for(k, kThreads), kThreads>>>(
        dev_old_centroids_.data(), this->dev_centroids_.data(), k, d, dev_movements_.data());
    KMEANS_CUDA_LAUNCHED(measure_movement_kernel);
    dev_movements_.download(movements_.data());
    movement_ = 0;
    for (const T movement : movements_) movement_ += static_cast<double>(movement);
  }

  DeviceBuffer<T> dev_sums_;               // k x d
  DeviceBuffer<std::int32_t> dev_counts_;  // k
  DeviceBuffer<T> dev_old_centroids_;      // k x d
  DeviceBuffer<T> dev_movements_;          // k, squared
  std::vector<T> movements_;               // k, on the host
  double movement_ = 0;
};

}  // namespace

KMEANS_VARIANT(
    CudaAtomicRows, .name = "cuda_atomic_rows",
    .summary = "row-major points, fused assignment and global atomics, movement each iteration",
    .source = "marinai2023", .precisions = {Precision::f32, Precision::f64}, .deterministic = false,
    .timing_note = "each centroid's movement, downloaded and added up in every iteration",
    .supports = sums_and_counts_fit,
    .memory_bytes =
        [](const Shape& s) {
          return 4.0 * static_cast<double>(s.n) + scalar_bytes(s) * static_cast<double>(s.k);
        },
    .device_bytes =
        [](const Shape& s) {
          const double n = static_cast<double>(s.n);
          const double d = static_cast<double>(s.d);
          const double k = static_cast<double>(s.k);
          return scalar_bytes(s) * (n * d + 3 * k * d + k) + 4 * n + 4 * k;
        },
    .traffic =
        [](const Shape& s) {
          const double scalar = scalar_bytes(s);
          const double n = static_cast<double>(s.n);
          const double k = static_cast<double>(s.k);
          const double points = scalar * n * static_cast<double>(s.d);
          const double centroids = scalar * k * static_cast<double>(s.d);
          // Every point for every centroid, and once more for the sums; the division reads
          // sums and centroids and writes old and new ones, which the movement reads again.
          return Traffic{.read_bytes = 2 * points * k + points + 4 * centroids,
                         .written_bytes = 4 * n + 3 * centroids + scalar * k,
                         .atomic_bytes = points + 4 * n};
        })
