// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cuda_shared with the points sorted by label, so that a cluster's points follow one
//            another: a thread adds them in a register and needs an atomic addition only where it
//            meets the end of a cluster or of its chunk
// Parallel:  a thread owns a point in the assignment, a coordinate of 32 consecutive points of the
//            sorted order in the reduction (so a cluster of any size is spread over many threads),
//            a coordinate of a centroid in the division
// Memory:    the points are kept twice: column-major for the assignment, row-major for the
//            reduction, which reads whole rows in sorted order. A radix sort of (label, point
//            index) takes one pass over 16 bytes a point for every 8 bits of k
// Numerics:  everything in the points' scalar; the order of the atomic additions, and with it the
//            last bits of the centroids, changes from run to run
// Source:    goldsborough2017 names it (sort, then reduce each segment) and builds the tree
//            reduction instead. The sort is CUB's
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "implementations/cuda/_centroid_tiles.cuh"
#include "implementations/cuda/_divide_sums.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 1024;       // of a block in the assignment
constexpr int kReduceThreads = 256;  // of a block in the reduction, at most
constexpr int kChunk = 32;           // consecutive sorted points that a thread walks along
constexpr int kMaxChunks = 128;      // of a block: their labels and indices fit 48 KB

__global__ void number_points_kernel(std::int32_t* __restrict__ dev_indices, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) dev_indices[i] = static_cast<std::int32_t>(i);
}

/// D: see OwnPoint; any_d: d where D is 0.
template <class T, int D>
__global__ void __launch_bounds__(kThreads)
    assign_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t any_d,
                  const T* __restrict__ dev_centroids, std::int64_t k, CentroidTile tile,
                  std::int32_t* __restrict__ dev_labels) {
  extern __shared__ double memory[];
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t d = D > 0 ? D : any_d;
  const OwnPoint<T, D> point(dev_points, n, i);
  const std::int32_t label =
      nearest_through_tiles(point, i < n, d, dev_centroids, k, tile, reinterpret_cast<T*>(memory));
  if (i < n) dev_labels[i] = label;
}

/// How a block of the reduction divides its part of the sorted order: `chunks` chunks of kChunk
/// points, each walked along by `width` threads, one a coordinate (of width, 2 * width, ... too).
struct Division {
  int chunks = 0;
  int width = 0;

  explicit Division(std::int64_t d)
      : width(static_cast<int>(std::min<std::int64_t>(d, kReduceThreads))) {
    chunks = std::min(kReduceThreads / width, kMaxChunks);
  }
  [[nodiscard]] int threads() const { return chunks * width; }
  [[nodiscard]] __host__ __device__ int points() const { return chunks * kChunk; }
  /// Values in shared memory a list: a gap after each chunk sends the chunks to different banks.
  [[nodiscard]] __host__ __device__ int slots() const { return chunks * (kChunk + 1); }
};

/// dev_sorted_labels: n, ascending; dev_order: n, the point at each place; dev_rows: n x d.
template <class T>
__global__ void __launch_bounds__(kReduceThreads)
    add_segments_kernel(const std::int32_t* __restrict__ dev_sorted_labels,
                        const std::int32_t* __restrict__ dev_order, const T* __restrict__ dev_rows,
                        std::int64_t n, std::int64_t d, Division division, T* __restrict__ dev_sums,
                        std::int32_t* __restrict__ dev_counts) {
  extern __shared__ std::int32_t lists[];
  std::int32_t* labels = lists;
  std::int32_t* order = lists + division.slots();
  const std::int64_t first = std::int64_t{blockIdx.x} * division.points();
  const int points = static_cast<int>(min(std::int64_t{division.points()}, n - first));
  for (int place = threadIdx.x; place < points; place += blockDim.x) {
    const int slot = place + place / kChunk;
    labels[slot] = dev_sorted_labels[first + place];
    order[slot] = dev_order[first + place];
  }
  __syncthreads();

  const int chunk = static_cast<int>(threadIdx.x) / division.width;
  const int begin = chunk * (kChunk + 1);
  const int end = begin + min(kChunk, points - chunk * kChunk);
  if (begin >= end) return;
  for (std::int64_t t = threadIdx.x % division.width; t < d; t += division.width) {
    int segment = begin;  // where the points of the current label begin
    T sum = 0;
    for (int slot = begin; slot < end; ++slot) {
      sum += dev_rows[order[slot] * d + t];
      if (slot + 1 < end && labels[slot + 1] == labels[slot]) continue;
      const std::int64_t j = labels[slot];
      atomicAdd(&dev_sums[j * d + t], sum);
      if (t == 0) atomicAdd(&dev_counts[j], slot + 1 - segment);
      segment = slot + 1;
      sum = 0;
    }
  }
}

/// Bits that distinguish the labels 0 to k - 1; at least 1.
int label_bits(std::int64_t k) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(k - 1))));
}

template <class T>
class CudaSortReduce final : public CudaLloyd<T> {
 public:
  CudaSortReduce() : CudaLloyd<T>(Layout::columns) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    dev_rows_ = DeviceBuffer<T>(n * d);
    dev_rows_.upload(this->problem_.points);
    dev_indices_ = DeviceBuffer<std::int32_t>(n);
    number_points_kernel<<<blocks_for(n, kThreads), kThreads>>>(dev_indices_.data(), n);
    KMEANS_CUDA_LAUNCHED(number_points_kernel);
    dev_sorted_labels_ = DeviceBuffer<std::int32_t>(n);
    dev_order_ = DeviceBuffer<std::int32_t>(n);
    dev_sums_ = DeviceBuffer<T>(k * d);
    dev_counts_ = DeviceBuffer<std::int32_t>(k);
    tile_ = centroid_tile<T>(this->shape());
    sort(nullptr, work_bytes_);
    dev_work_ = DeviceBuffer<unsigned char>(static_cast<std::int64_t>(work_bytes_));
  }

  /// Without work space: only says how many bytes of it the sort needs.
  void sort(void* dev_work, std::size_t& work_bytes) {
    KMEANS_CUDA(cub::DeviceRadixSort::SortPairs(
        dev_work, work_bytes, this->dev_labels_.data(), dev_sorted_labels_.data(),
        dev_indices_.data(), dev_order_.data(), static_cast<std::int32_t>(this->shape().n), 0,
        label_bits(this->shape().k)));
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("assign");
      with_own_coordinates(d, [&](auto own) {
        assign_kernel<T, own><<<blocks_for(n, kThreads), kThreads, tile_.bytes>>>(
            this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, tile_,
            this->dev_labels_.data());
      });
      KMEANS_CUDA_LAUNCHED(assign_kernel);
    }
    {
      const auto timed = this->stage("sort");
      sort(dev_work_.data(), work_bytes_);
    }
    const auto timed = this->stage("update");
    dev_counts_.zero();
    dev_sums_.zero();
    const Division division(d);
    add_segments_kernel<<<blocks_for(n, division.points()), division.threads(),
                          2 * sizeof(std::int32_t) * division.slots()>>>(
        dev_sorted_labels_.data(), dev_order_.data(), dev_rows_.data(), n, d, division,
        dev_sums_.data(), dev_counts_.data());
    KMEANS_CUDA_LAUNCHED(add_segments_kernel);
    divide_sums(dev_sums_, dev_counts_, this->dev_centroids_, this->shape());
  }

  DeviceBuffer<T> dev_rows_;                      // n x d
  DeviceBuffer<std::int32_t> dev_indices_;        // n: 0, 1, ...
  DeviceBuffer<std::int32_t> dev_sorted_labels_;  // n
  DeviceBuffer<std::int32_t> dev_order_;          // n
  DeviceBuffer<T> dev_sums_;                      // k x d
  DeviceBuffer<std::int32_t> dev_counts_;         // k
  DeviceBuffer<unsigned char> dev_work_;          // of the sort
  std::size_t work_bytes_ = 0;
  CentroidTile tile_;
};

}  // namespace

KMEANS_VARIANT(
    CudaSortReduce, .name = "cuda_sort_reduce",
    .summary = "radix sort of the points by label, then sums along the sorted order",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .deterministic = false, .supports = counts_fit,
    .device_bytes =
        [](const Shape& s) {
          // The rows, three lists of n, and for the sort two more and its histograms (at most).
          return plain_device_bytes(s) + scalar_bytes(s) * s.n * s.d + 21.0 * s.n +
                 16 * 1024 * 1024;
        },
    .traffic =
        [](const Shape& s) {
          const double points = scalar_bytes(s) * s.n * s.d;
          const double passes = static_cast<double>(ceil_div(label_bits(s.k), 8));
          // The sort reads all labels for its histograms, then labels and indices in every pass.
          // Every chunk ends a segment, and every cluster may end one more.
          const double segments = static_cast<double>(ceil_div(s.n, kChunk) + s.k);
          return Traffic{.read_bytes = tiled_assignment_bytes(s, kThreads, 0) + points +
                                       (12 + 8 * passes) * s.n,
                         .written_bytes = (4 + 8 * passes) * s.n,
                         .atomic_bytes = segments * (scalar_bytes(s) * s.d + 4)};
        })
