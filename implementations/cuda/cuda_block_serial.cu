// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_atomic with a separate update, in which a block first adds up its own points, so
//            that contended atomics are paid per block and not per point; but a single thread of
//            the block does all the adding
// Parallel:  a thread owns a point in the assignment; in the update the threads of a block fetch
//            256 points, then thread 0 adds them up and issues k * (d + 1) atomics while the others
//            wait; as many blocks as the GPU holds at a time go through all the points
// Memory:    column-major points, read again for every centroid and once for the update; centroids
//            from global memory. A block keeps the labels and a few coordinates of its 256 points
//            in shared memory. Thread 0 keeps k * d sums and k counts of its own in device memory,
//            which is what an array of a thread's own is, so that k and d have no limit
// Numerics:  everything in the points' scalar, the distance with its square root; the order of the
//            blocks' atomics, and with it the last bits of the centroids, changes from run to run
// Source:    minnaar2019, for any d. Corrected: sums and counts are cleared in every iteration
//            (printed: nothing is); a second kernel divides once all blocks have added (printed:
//            blocks divide while others still add); the last block adds only points that exist; an
//            empty cluster keeps its centroid. The arrays of thread 0 are made once, not by each
//            launch: k is not known when this is compiled
#include <algorithm>

#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 256;           // of a block, and points of its tile
constexpr std::int64_t kTileDepth = 8;  // coordinates of a tile that are in shared memory at once

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

/// dev_own_sums: a block's k x d; dev_own_counts: a block's k; both only for thread 0.
template <class T>
__global__ void add_tiles_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                                 const std::int32_t* __restrict__ dev_labels, std::int64_t k,
                                 T* __restrict__ dev_own_sums,
                                 std::int32_t* __restrict__ dev_own_counts,
                                 T* __restrict__ dev_sums, std::int32_t* __restrict__ dev_counts) {
  __shared__ T tile[kTileDepth * kThreads];
  __shared__ std::int32_t labels[kThreads];
  T* sums = dev_own_sums + blockIdx.x * k * d;
  std::int32_t* counts = dev_own_counts + blockIdx.x * k;
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kThreads; first < n; first += stride) {
    const std::int64_t i = first + threadIdx.x;
    const int points = static_cast<int>(n - first < kThreads ? n - first : kThreads);
    __syncthreads();  // thread 0 is done with the labels of the points before
    if (i < n) labels[threadIdx.x] = dev_labels[i];
    if (threadIdx.x == 0) {
      for (std::int64_t at = 0; at < k * d; ++at) sums[at] = 0;
      for (std::int64_t j = 0; j < k; ++j) counts[j] = 0;
    }
    for (std::int64_t t0 = 0; t0 < d; t0 += kTileDepth) {
      const std::int64_t width = d - t0 < kTileDepth ? d - t0 : kTileDepth;
      __syncthreads();  // thread 0 is done with the coordinates before
      if (i < n) {
        for (std::int64_t t = 0; t < width; ++t) {
          tile[t * kThreads + threadIdx.x] = dev_points[(t0 + t) * n + i];
        }
      }
      __syncthreads();
      if (threadIdx.x != 0) continue;
      for (int p = 0; p < points; ++p) {
        T* sum = sums + labels[p] * d + t0;
        for (std::int64_t t = 0; t < width; ++t) sum[t] += tile[t * kThreads + p];
        if (t0 == 0) counts[labels[p]] += 1;
      }
    }
    if (threadIdx.x != 0) continue;
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t at = j * d; at < (j + 1) * d; ++at) atomicAdd(&dev_sums[at], sums[at]);
      atomicAdd(&dev_counts[j], counts[j]);
    }
  }
}

/// Blocks of the update: one for each 256 points, as long as the GPU holds them all at a time.
std::int64_t update_blocks(std::int64_t n, std::int64_t resident) {
  return std::min(ceil_div(n, kThreads), std::max<std::int64_t>(1, resident));
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
    int device = 0;
    int multiprocessors = 0;
    int resident = 0;  // blocks of a multiprocessor
    KMEANS_CUDA(cudaGetDevice(&device));
    KMEANS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    KMEANS_CUDA(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, add_tiles_kernel<T>, kThreads, 0));
    blocks_ = update_blocks(n, std::int64_t{multiprocessors} * resident);
    dev_own_sums_ = DeviceBuffer<T>(blocks_ * k * d);
    dev_own_counts_ = DeviceBuffer<std::int32_t>(blocks_ * k);
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
    add_tiles_kernel<<<blocks_for(blocks_, 1), kThreads>>>(
        this->dev_points_.data(), n, d, this->dev_labels_.data(), k, dev_own_sums_.data(),
        dev_own_counts_.data(), dev_sums_.data(), dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(add_tiles_kernel);
    divide_sums(dev_sums_, dev_counts_, this->dev_centroids_, this->shape());
  }

  std::int64_t blocks_ = 0;                    // of the update
  DeviceBuffer<T> dev_sums_;                   // k x d
  DeviceBuffer<std::int32_t> dev_counts_;      // k
  DeviceBuffer<T> dev_own_sums_;               // blocks x k x d
  DeviceBuffer<std::int32_t> dev_own_counts_;  // blocks x k
};

/// Bytes of one thread 0's sums and counts.
double own_bytes(const kmeans::Shape& shape) {
  return static_cast<double>(shape.k) * (scalar_bytes(shape) * static_cast<double>(shape.d) + 4);
}

double device_bytes(const kmeans::Shape& shape) {
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  // At most 2048 threads of a multiprocessor; without a GPU to ask, as many as any GPU has.
  const std::int64_t resident = (gpu == nullptr ? 256 : gpu->multiprocessors) * 2048 / kThreads;
  return plain_device_bytes(shape) +
         static_cast<double>(update_blocks(shape.n, resident)) * own_bytes(shape);
}

}  // namespace

KMEANS_VARIANT(
    CudaBlockSerial, .name = "cuda_block_serial",
    .summary = "thread 0 of each block sums the block's tile, then k*d atomics a block",
    .source = "minnaar2019", .precisions = {Precision::f32, Precision::f64}, .deterministic = false,
    .supports = counts_fit, .device_bytes = device_bytes, .traffic = [](const Shape& s) {
      const double sums = scalar_bytes(s) * static_cast<double>(s.k) * static_cast<double>(s.d);
      const double n = static_cast<double>(s.n);
      const double points = scalar_bytes(s) * n * static_cast<double>(s.d);
      const double own = static_cast<double>(ceil_div(s.n, kThreads)) * own_bytes(s);
      // Assignment: every point beside every centroid. Update: points and labels once, the own sums
      // and counts cleared, added to for every point, read for the atomics. Division: sums to
      // centroids.
      return Traffic{.read_bytes = 2 * points * static_cast<double>(s.k) + points + 4 * n +
                                   (points + 4 * n) + own + sums,
                     .written_bytes = 4 * n + own + (points + 4 * n) + 2 * sums,
                     .atomic_bytes = own};
    })
