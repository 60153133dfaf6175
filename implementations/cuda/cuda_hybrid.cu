// SPDX-License-Identifier: Apache-2.0
//
// Idea:      the GPU labels, the CPU builds the new centroids: centroids go up and labels come down
//            in every iteration, the points never
// Parallel:  blocks of t = 128 threads, each block owning several chunks of t points, as many
//            blocks as leave few of them idle; a thread owns a point of its block's chunk, and all
//            of them measure the distance to the same centroid at a time. One CPU thread updates
// Memory:    column-major points on the device, read once a centroid; a centroid passes through
//            shared memory t coordinates at a time, so that d has no limit. Row-major points on the
//            host, read once. What is transferred lies in pinned memory
// Numerics:  direct differences in the points' scalar, t ascending, with fused multiply-adds; sums
//            in that scalar, i ascending: deterministic, and rounded as in cpu_simd where that one
//            fuses too
// Source:    zechner2009, section V. Labels have an array of their own (there: a component of the
//            points); no square root is taken, the nearest centroid is the same without. Pinned
//            memory is ours: the text does not name it. Not done: the outer loops' counters in
//            shared memory, which freed registers on its GPU (10 a thread, a gain of 25 % there);
//            the compiler allots registers here
#include <algorithm>

#include "implementations/_stage_work.h"
#include "implementations/cuda/_hybrid_update.h"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_pinned.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kThreads = 128;  // of a block, points of a chunk, coordinates of a staged piece

template <class T>
__global__ void __launch_bounds__(kThreads)
    label_chunks_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                        const T* __restrict__ dev_centroids, std::int64_t k,
                        std::int32_t* __restrict__ dev_labels) {
  __shared__ T piece[kThreads];
  const std::int64_t stride = std::int64_t{kThreads} * gridDim.x;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kThreads; first < n; first += stride) {
    const std::int64_t i = first + threadIdx.x;  // beyond n: this thread only helps to stage
    T nearest_distance = INFINITY;
    std::int64_t nearest = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      T distance = 0;
      for (std::int64_t t0 = 0; t0 < d; t0 += kThreads) {
        const auto width = static_cast<unsigned>(d - t0 < kThreads ? d - t0 : kThreads);
        __syncthreads();  // all are done with the previous piece
        if (threadIdx.x < width) piece[threadIdx.x] = dev_centroids[j * d + t0 + threadIdx.x];
        __syncthreads();
        if (i < n) {
          for (unsigned t = 0; t < width; ++t) {
            const T difference = dev_points[(t0 + t) * n + i] - piece[t];
            distance += difference * difference;
          }
        }
      }
      if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
        nearest_distance = distance;
        nearest = j;
      }
    }
    if (i < n) dev_labels[i] = static_cast<std::int32_t>(nearest);
  }
}

/// As few rounds of blocks as can hold all chunks, and as few blocks as do with that many rounds:
/// then only the last round leaves blocks idle, and fewer of them than there are rounds.
unsigned blocks_for_chunks(std::int64_t chunks, int resident_per_multiprocessor) {
  int device = 0;
  int multiprocessors = 0;
  KMEANS_CUDA(cudaGetDevice(&device));
  KMEANS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const std::int64_t resident = std::int64_t{multiprocessors} * resident_per_multiprocessor;
  const std::int64_t rounds = ceil_div(chunks, std::max<std::int64_t>(1, resident));
  return static_cast<unsigned>(ceil_div(chunks, rounds));
}

template <class T>
class CudaHybrid final : public CudaLloyd<T> {
 public:
  CudaHybrid() : CudaLloyd<T>(Layout::columns) {}

  void reset(const T* centroids) override {
    std::copy_n(centroids, this->shape().k * this->shape().d, centroids_.begin());
    std::fill(labels_.begin(), labels_.end(), -1);  // no label yet: all will have changed
    CudaLloyd<T>::reset(centroids);
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

  kmeans::Progress progress() override { return {.movement = {}, .changed = changed_, .loss = {}}; }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    centroids_ = PinnedBuffer<T>(k * d);
    labels_ = PinnedBuffer<std::int32_t>(n);
    previous_labels_ = PinnedBuffer<std::int32_t>(n);
    update_.resize(d, k);
    int resident = 0;
    KMEANS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, label_chunks_kernel<T>,
                                                              kThreads, 0));
    blocks_ = blocks_for_chunks(ceil_div(n, kThreads), resident);
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("upload");
      this->dev_centroids_.upload(centroids_.data());
    }
    {
      const auto timed = this->stage("assign");
      label_chunks_kernel<<<blocks_, kThreads>>>(
          this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, this->dev_labels_.data());
      KMEANS_CUDA_LAUNCHED(label_chunks_kernel);
    }
    {
      const auto timed = this->stage("download");
      std::swap(labels_, previous_labels_);
      this->dev_labels_.download(labels_.data());
    }
    const auto timed = this->stage("update");
    changed_ = update_.update(this->problem_.points, labels_.data(), previous_labels_.data(), n,
                              centroids_.data());
  }

  unsigned blocks_ = 0;
  PinnedBuffer<T> centroids_;                   // k x d: the current ones
  PinnedBuffer<std::int32_t> labels_;           // n
  PinnedBuffer<std::int32_t> previous_labels_;  // n
  HybridUpdate<T> update_;
  std::int64_t changed_ = 0;
};

/// Labels are 32-bit; points are counted in 64 bits.
kmeans::Support labels_fit(const kmeans::Shape& shape) {
  if (shape.k <= 2147483647) return kmeans::Support::yes();
  return kmeans::Support::no("k = " + std::to_string(shape.k) +
                             " clusters: labels are 32-bit, at most 2147483647");
}

double centroid_bytes(const kmeans::Shape& shape) {
  return scalar_bytes(shape) * static_cast<double>(shape.k) * static_cast<double>(shape.d);
}

std::vector<kmeans::StageWork> stage_work(const kmeans::Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double points = scalar_bytes(shape) * n * static_cast<double>(shape.d);
  const double centroids = centroid_bytes(shape);
  const double chunks = static_cast<double>(ceil_div(shape.n, kThreads));
  // Every point once a centroid, every centroid once a chunk.
  kmeans::StageWork assign = kmeans::assign_work(
      shape, {.read_bytes = points * static_cast<double>(shape.k) + centroids * chunks,
              .written_bytes = 4 * n});
  assign.gpu = true;
  // Points, the sums that they are added to, labels and, to count changes, both labels; sums to
  // centroids.
  return {assign, kmeans::update_work(shape, {.read_bytes = 2 * points + 3 * 4 * n + centroids,
                                              .written_bytes = points + 2 * centroids})};
}

kmeans::Traffic traffic(const kmeans::Shape& shape) {
  kmeans::Traffic total = kmeans::total_traffic(stage_work(shape));
  // Centroids go up and labels come down: read on one side, written on the other.
  const double transferred = centroid_bytes(shape) + 4 * static_cast<double>(shape.n);
  total.read_bytes += transferred;
  total.written_bytes += transferred;
  return total;
}

}  // namespace

KMEANS_VARIANT(
    CudaHybrid, .name = "cuda_hybrid",
    .summary = "the GPU labels chunks of points, one CPU thread updates the centroids",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
    .timing_note =
        "centroids uploaded, labels downloaded, changed labels counted in every "
        "iteration",
    .supports = labels_fit,
    .memory_bytes =
        [](const Shape& s) {
          const double k = static_cast<double>(s.k);
          return 8 * static_cast<double>(s.n) + 2 * scalar_bytes(s) * k * static_cast<double>(s.d) +
                 8 * k;
        },
    .device_bytes = plain_device_bytes, .traffic = traffic, .stage_work = stage_work)
