// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_shared without atomics: for one cluster after another, every thread of a block
//            lays down its point's values, or zeros where the point has another label, and the
//            block adds them up in a tree. A second launch adds up the blocks' sums in a tree
// Parallel:  a thread owns a point in the first kernel; a block owns a cluster in the second; the
//            host waits after each of them
// Memory:    column-major points, read once and kept in registers where d <= 3 (as printed, for
//            d = 2), else once a centroid and for the trees. Trees of up to 4 values a thread in
//            shared memory, so that a cluster takes d + 1 values in groups of 4; one set of
//            k x (d + 1) sums a block of 1024 points is written and read once
// Numerics:  everything in the points' scalar; the trees' shape is fixed: deterministic
// Source:    goldsborough2017, fine and coarse reduction, for any n, d and k: x, y and the count,
//            its one group, become groups; its one coarse block becomes one a cluster. Corrected:
//            the means come from what the second launch adds up (see cuda_tree_reduce_as_printed);
//            threads past the last point stay and add zeros; an empty cluster keeps its centroid
#include "implementations/cuda/_centroid_tiles.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 1024;       // of a block in the first launch
constexpr int kUpdateThreads = 256;  // in the second; powers of two, for the trees
constexpr int kGroup = 4;            // values that are added up in one sweep

/// Adds up `width` <= kGroup arrays of blockDim.x values; the sum of each is left in its first
/// element, for thread 0, which alone writes there.
template <class T>
__device__ void add_in_tree(T* shared, int width) {
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (int stride = threads / 2; stride > 0; stride /= 2) {
    if (thread < stride) {
#pragma unroll
      for (int value = 0; value < kGroup; ++value) {
        if (value < width)
          shared[value * threads + thread] += shared[value * threads + thread + stride];
      }
    }
    __syncthreads();
  }
}

/// Values v of cluster j: coordinates 0 to d - 1, then the count at v = d.
/// dev_block_sums: k x d x blocks, dev_block_counts: k x blocks.
/// D: see OwnPoint; any_d: d where D is 0.
template <class T, int D>
__global__ void __launch_bounds__(kThreads)
    assign_and_reduce_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t any_d,
                             const T* __restrict__ dev_centroids, std::int64_t k, CentroidTile tile,
                             std::int32_t* __restrict__ dev_labels, T* __restrict__ dev_block_sums,
                             std::int32_t* __restrict__ dev_block_counts) {
  static_assert(D < kGroup);          // one group: the indices of `point` are known when unrolled
  extern __shared__ double memory[];  // first a tile of centroids, then kGroup values a thread
  T* shared = reinterpret_cast<T*>(memory);
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t d = D > 0 ? D : any_d;
  const OwnPoint<T, D> point(dev_points, n, i);
  const std::int32_t label = nearest_through_tiles(point, i < n, d, dev_centroids, k, tile, shared);
  if (i < n) dev_labels[i] = label;
  __syncthreads();  // centroids are no longer read

  for (std::int64_t j = 0; j < k; ++j) {
    const bool own = label == j;  // never, for a thread without a point
    for (std::int64_t first = 0; first <= d; first += kGroup) {
      const int width = static_cast<int>(min(std::int64_t{kGroup}, d + 1 - first));
      for (int value = 0; value < width; ++value) {
        T summand = 0;
        if (own) summand = first + value < d ? point[first + value] : T{1};
        shared[value * kThreads + threadIdx.x] = summand;
      }
      add_in_tree(shared, width);
      if (threadIdx.x != 0) continue;
      for (int value = 0; value < width; ++value) {
        const T sum = shared[value * kThreads];
        if (first + value < d) {
          dev_block_sums[(j * d + first + value) * gridDim.x + blockIdx.x] = sum;
        } else {
          dev_block_counts[j * gridDim.x + blockIdx.x] = static_cast<std::int32_t>(sum);
        }
      }
    }
  }
}

/// Block j: the blocks' sums and counts of cluster j to its new centroid.
template <class T>
__global__ void __launch_bounds__(kUpdateThreads)
    reduce_blocks_kernel(const T* __restrict__ dev_block_sums,
                         const std::int32_t* __restrict__ dev_block_counts, std::int64_t blocks,
                         std::int64_t d, T* __restrict__ dev_centroids) {
  __shared__ T shared[kGroup * kUpdateThreads];
  __shared__ std::int32_t shared_counts[kUpdateThreads];
  const std::int64_t j = blockIdx.x;
  std::int32_t count = 0;
  for (std::int64_t block = threadIdx.x; block < blocks; block += kUpdateThreads) {
    count += dev_block_counts[j * blocks + block];
  }
  shared_counts[threadIdx.x] = count;
  add_in_tree(shared_counts, 1);
  for (std::int64_t first = 0; first < d; first += kGroup) {
    const int width = static_cast<int>(min(std::int64_t{kGroup}, d - first));
    for (int value = 0; value < width; ++value) {
      T sum = 0;
      for (std::int64_t block = threadIdx.x; block < blocks; block += kUpdateThreads) {
        sum += dev_block_sums[(j * d + first + value) * blocks + block];
      }
      shared[value * kUpdateThreads + threadIdx.x] = sum;
    }
    add_in_tree(shared, width);
    if (threadIdx.x != 0 || shared_counts[0] == 0) continue;
    for (int value = 0; value < width; ++value) {
      dev_centroids[j * d + first + value] =
          shared[value * kUpdateThreads] / static_cast<T>(shared_counts[0]);
    }
  }
}

template <class T>
class CudaTreeReduce final : public CudaLloyd<T> {
 public:
  CudaTreeReduce() : CudaLloyd<T>(Layout::columns) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    blocks_ = blocks_for(n, kThreads);
    dev_block_sums_ = DeviceBuffer<T>(k * d * blocks_);
    dev_block_counts_ = DeviceBuffer<std::int32_t>(k * blocks_);
    tile_ = centroid_tile<T>(this->shape());
    shared_bytes_ = std::max(tile_.bytes, kGroup * kThreads * sizeof(T));
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("assign and reduce");
      with_own_coordinates(d, [&](auto own) {
        assign_and_reduce_kernel<T, own><<<blocks_, kThreads, shared_bytes_>>>(
            this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, tile_,
            this->dev_labels_.data(), dev_block_sums_.data(), dev_block_counts_.data());
      });
      KMEANS_CUDA_LAUNCHED(assign_and_reduce_kernel);
      KMEANS_CUDA(cudaDeviceSynchronize());
    }
    const auto timed = this->stage("update");
    reduce_blocks_kernel<<<blocks_for(k, 1), kUpdateThreads>>>(
        dev_block_sums_.data(), dev_block_counts_.data(), blocks_, d, this->dev_centroids_.data());
    KMEANS_CUDA_LAUNCHED(reduce_blocks_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  unsigned blocks_ = 0;
  DeviceBuffer<T> dev_block_sums_;               // k x d x blocks
  DeviceBuffer<std::int32_t> dev_block_counts_;  // k x blocks
  CentroidTile tile_;
  std::size_t shared_bytes_ = 0;
};

/// Bytes of the sums and counts that the blocks leave behind.
double block_sums_bytes(const kmeans::Shape& shape) {
  const double blocks = static_cast<double>(ceil_div(shape.n, kThreads));
  return blocks * shape.k * (scalar_bytes(shape) * shape.d + 4);
}

}  // namespace

KMEANS_VARIANT(
    CudaTreeReduce, .name = "cuda_tree_reduce",
    .summary = "a tree reduction a block and cluster, a second launch over the blocks",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .supports = counts_fit,
    .device_bytes = [](const Shape& s) { return plain_device_bytes(s) + block_sums_bytes(s); },
    .traffic =
        [](const Shape& s) {
          // The cluster that owns a point uses it once more.
          return Traffic{.read_bytes = tiled_assignment_bytes(s, kThreads, 1) + block_sums_bytes(s),
                         .written_bytes = 4.0 * s.n + block_sums_bytes(s)};
        })
