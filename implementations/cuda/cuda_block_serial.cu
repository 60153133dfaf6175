// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_atomic with a separate update, in which a block first adds up its own points, so
//            that contended atomics are paid per block and not per point; but a single thread of
//            the block does all the adding
// Parallel:  a thread owns a point in the assignment; in the update the threads of a block fetch
//            its points, then thread 0 adds them up and issues k * (d + 1) atomics while the
//            others wait
// Memory:    column-major points, read once for each step; centroids from global memory. A block
//            keeps labels, k * d sums, k counts and a few coordinates of its points in shared
//            memory
// Numerics:  everything in the points' scalar, the distance with its square root; the order of the
//            blocks' atomics, and with it the last bits of the centroids, changes from run to run
// Source:    minnaar2019, for any d. Corrected: sums and counts are cleared in every iteration
//            (printed: nothing is); a second kernel divides once all blocks have added (printed:
//            blocks divide while others still add); the last block adds only points that exist; an
//            empty cluster keeps its centroid
#include <algorithm>

#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 256;           // of a block, and points of its tile
constexpr std::int64_t kTileDepth = 8;  // coordinates of a tile that are in shared memory at once

/// What a block of the update keeps in shared memory.
double shared_bytes(double d, double k, double scalar) {
  const double tile = kThreads * std::min(d, static_cast<double>(kTileDepth));
  return scalar * (k * d + tile) + 4 * (k + kThreads);
}

template <class T>
__global__ void assign_points_kernel(const T* __restrict__ dev_points, std::int64_t n,
                                     std::int64_t d, const T* __restrict__ dev_centroids,
                                     std::int64_t k, std::int32_t* __restrict__ dev_labels) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T nearest_distance = INFINITY;
  std::int64_t nearest = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    T square = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const T difference = dev_points[t * n + i] - dev_centroids[j * d + t];
      square += difference * difference;
    }
    const T distance = sqrt(square);
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = j;
    }
  }
  dev_labels[i] = static_cast<std::int32_t>(nearest);
}

template <class T>
__global__ void add_tiles_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                                 const std::int32_t* __restrict__ dev_labels, std::int64_t k,
                                 T* __restrict__ dev_sums, std::int32_t* __restrict__ dev_counts) {
  extern __shared__ __align__(16) unsigned char shared[];
  const std::int64_t depth = d < kTileDepth ? d : kTileDepth;
  T* sums = reinterpret_cast<T*>(shared);                                   // k x d
  T* tile = sums + k * d;                                                   // depth x kThreads
  auto* counts = reinterpret_cast<std::int32_t*>(tile + depth * kThreads);  // k
  std::int32_t* labels = counts + k;                                        // kThreads

  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads;
  const std::int64_t i = first + threadIdx.x;
  const int points = static_cast<int>(n - first < kThreads ? n - first : kThreads);
  if (i < n) labels[threadIdx.x] = dev_labels[i];
  if (threadIdx.x == 0) {
    for (std::int64_t at = 0; at < k * d; ++at) sums[at] = 0;
    for (std::int64_t j = 0; j < k; ++j) counts[j] = 0;
  }
  for (std::int64_t t0 = 0; t0 < d; t0 += depth) {
    const std::int64_t width = d - t0 < depth ? d - t0 : depth;
    __syncthreads();  // thread 0 is done with the previous coordinates
    if (i < n) {
      for (std::int64_t t = 0; t < width; ++t) {
        tile[t * kThreads + threadIdx.x] = dev_points[(t0 + t) * n + i];
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int p = 0; p < points; ++p) {
        T* sum = sums + labels[p] * d + t0;
        for (std::int64_t t = 0; t < width; ++t) sum[t] += tile[t * kThreads + p];
      }
    }
  }
  if (threadIdx.x != 0) return;
  for (int p = 0; p < points; ++p) counts[labels[p]] += 1;
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t at = j * d; at < (j + 1) * d; ++at) atomicAdd(&dev_sums[at], sums[at]);
    atomicAdd(&dev_counts[j], counts[j]);
  }
}

template <class T>
class CudaBlockSerial final : public CudaLloyd<T> {
 public:
  CudaBlockSerial() : CudaLloyd<T>(Layout::columns) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    dev_sums_ = DeviceBuffer<T>(k * d);
    dev_counts_ = DeviceBuffer<std::int32_t>(k);
    shared_bytes_ = static_cast<std::size_t>(
        shared_bytes(static_cast<double>(d), static_cast<double>(k), sizeof(T)));
    allow_shared_bytes(add_tiles_kernel<T>, shared_bytes_);
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("assign");
      assign_points_kernel<<<blocks_for(n, kThreads), kThreads>>>(
          this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, this->dev_labels_.data());
      KMEANS_CUDA_LAUNCHED(assign_points_kernel);
    }
    const auto timed = this->stage("update");
    dev_sums_.zero();
    dev_counts_.zero();
    add_tiles_kernel<<<blocks_for(n, kThreads), kThreads, shared_bytes_>>>(
        this->dev_points_.data(), n, d, this->dev_labels_.data(), k, dev_sums_.data(),
        dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(add_tiles_kernel);
    divide_sums(dev_sums_, dev_counts_, this->dev_centroids_, this->shape());
  }

  DeviceBuffer<T> dev_sums_;               // k x d
  DeviceBuffer<std::int32_t> dev_counts_;  // k
  std::size_t shared_bytes_ = 0;           // of a block of add_tiles_kernel
};

kmeans::Support sums_fit(const kmeans::Shape& shape) {
  const kmeans::Support counted = counts_fit(shape);
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (!counted.ok || gpu == nullptr) return counted;
  const double need =
      shared_bytes(static_cast<double>(shape.d), static_cast<double>(shape.k), scalar_bytes(shape));
  if (need <= static_cast<double>(gpu->shared_bytes_per_block)) return counted;
  return kmeans::Support::no("k = " + std::to_string(shape.k) + ", d = " + std::to_string(shape.d) +
                             ": a block's sums, counts and tile take " +
                             std::to_string(static_cast<std::int64_t>(need)) +
                             " bytes of shared memory, and a block of this GPU has " +
                             std::to_string(gpu->shared_bytes_per_block));
}

}  // namespace

KMEANS_VARIANT(
    CudaBlockSerial, .name = "cuda_block_serial",
    .summary = "thread 0 of each block sums the block's tile, then k*d atomics a block",
    .source = "minnaar2019", .precisions = {Precision::f32, Precision::f64}, .deterministic = false,
    .supports = sums_fit, .device_bytes = plain_device_bytes, .traffic = [](const Shape& s) {
      const double scalar = scalar_bytes(s);
      const double n = static_cast<double>(s.n);
      const double sums = static_cast<double>(s.k) * static_cast<double>(s.d);
      const double points = scalar * n * static_cast<double>(s.d);
      const double blocks = static_cast<double>(ceil_div(s.n, kThreads));
      // Assignment: every point beside every centroid. Update: points and labels once, and the
      // sums and counts of each block. Division: sums to centroids.
      return Traffic{
          .read_bytes = 2 * points * static_cast<double>(s.k) + points + 4 * n + scalar * sums,
          .written_bytes = 4 * n + 2 * scalar * sums,
          .atomic_bytes = blocks * (scalar * sums + 4 * static_cast<double>(s.k))};
    })
