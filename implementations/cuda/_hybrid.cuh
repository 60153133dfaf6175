// SPDX-License-Identifier: Apache-2.0
//
// What the variants cuda_hybrid… share: all but how the update is built, and how the points lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "implementations/_stage_work.h"
#include "implementations/cpu/_hybrid_update.h"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_pinned.cuh"

namespace kmeans::cuda {

inline constexpr int kChunk = 128;  // threads of a block, points of a chunk, coordinates of a piece

/// dev_points: as kLayout says; dev_centroids: k x d, row-major; dev_labels: n.
template <Layout kLayout, class T>
__global__ void __launch_bounds__(kChunk)
    label_chunks_kernel(const T* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                        const T* __restrict__ dev_centroids, std::int64_t k,
                        std::int32_t* __restrict__ dev_labels) {
  __shared__ T piece[kChunk];
  const std::int64_t stride = std::int64_t{kChunk} * gridDim.x;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kChunk; first < n; first += stride) {
    const std::int64_t i = first + threadIdx.x;  // beyond n: this thread only helps to stage
    T nearest_distance = INFINITY;
    std::int64_t nearest = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      T distance = 0;
      for (std::int64_t t0 = 0; t0 < d; t0 += kChunk) {
        const auto width = static_cast<unsigned>(d - t0 < kChunk ? d - t0 : kChunk);
        __syncthreads();  // all are done with the previous piece
        if (threadIdx.x < width) piece[threadIdx.x] = dev_centroids[j * d + t0 + threadIdx.x];
        __syncthreads();
        if (i < n) {
          for (unsigned t = 0; t < width; ++t) {
            const std::int64_t at = kLayout == Layout::columns ? (t0 + t) * n + i : i * d + t0 + t;
            const T difference = dev_points[at] - piece[t];
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
inline unsigned blocks_for_chunks(std::int64_t chunks, int resident_per_multiprocessor) {
  int device = 0;
  int multiprocessors = 0;
  KMEANS_CUDA(cudaGetDevice(&device));
  KMEANS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const std::int64_t resident = std::int64_t{multiprocessors} * resident_per_multiprocessor;
  const std::int64_t rounds = ceil_div(chunks, std::max<std::int64_t>(1, resident));
  return static_cast<unsigned>(ceil_div(chunks, rounds));
}

/// kLayout: of the points on the device.
template <class T, Layout kLayout = Layout::columns>
class HybridLloyd : public CudaLloyd<T> {
 public:
  using MakeUpdate = std::unique_ptr<plain::HybridUpdate<T>> (*)(const Shape&);

  explicit HybridLloyd(MakeUpdate make_update) : CudaLloyd<T>(kLayout), make_update_(make_update) {}

  void reset(const T* centroids) override {
    std::copy_n(centroids, this->shape().k * this->shape().d, centroids_.begin());
    std::fill(labels_.begin(), labels_.end(), -1);  // no label yet: all will have changed
    CudaLloyd<T>::reset(centroids);
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

  Progress progress() override { return {.movement = {}, .changed = changed_, .loss = {}}; }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = this->shape();
    centroids_ = PinnedBuffer<T>(k * d);
    labels_ = PinnedBuffer<std::int32_t>(n);
    previous_labels_ = PinnedBuffer<std::int32_t>(n);
    update_ = make_update_(this->shape());
    int resident = 0;
    KMEANS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, label_chunks_kernel<kLayout, T>, kChunk, 0));
    blocks_ = blocks_for_chunks(ceil_div(n, kChunk), resident);
  }

  void iterate() override {
    const auto [n, d, k, precision] = this->shape();
    {
      const auto timed = this->stage("upload");
      this->dev_centroids_.upload(centroids_.data());
    }
    {
      const auto timed = this->stage("assign");
      label_chunks_kernel<kLayout><<<blocks_, kChunk>>>(
          this->dev_points_.data(), n, d, this->dev_centroids_.data(), k, this->dev_labels_.data());
      KMEANS_CUDA_LAUNCHED(label_chunks_kernel);
    }
    {
      const auto timed = this->stage("download");
      std::swap(labels_, previous_labels_);
      this->dev_labels_.download(labels_.data());
    }
    const auto timed = this->stage("update");
    changed_ =
        update_->update(this->problem_, labels_.data(), previous_labels_.data(), centroids_.data());
  }

  unsigned blocks_ = 0;
  PinnedBuffer<T> centroids_;                   // k x d: the current ones
  PinnedBuffer<std::int32_t> labels_;           // n
  PinnedBuffer<std::int32_t> previous_labels_;  // n
  MakeUpdate make_update_;
  std::unique_ptr<plain::HybridUpdate<T>> update_;
  std::int64_t changed_ = 0;
};

inline double hybrid_centroid_bytes(const Shape& shape) {
  return scalar_bytes(shape) * static_cast<double>(shape.k) * static_cast<double>(shape.d);
}

inline std::vector<StageWork> hybrid_stage_work(const Shape& shape) {
  const double n = static_cast<double>(shape.n);
  const double points = scalar_bytes(shape) * n * static_cast<double>(shape.d);
  const double centroids = hybrid_centroid_bytes(shape);
  const double chunks = static_cast<double>(ceil_div(shape.n, kChunk));
  // Every point once a centroid, every centroid once a chunk.
  StageWork assign =
      assign_work(shape, {.read_bytes = points * static_cast<double>(shape.k) + centroids * chunks,
                          .written_bytes = 4 * n});
  assign.gpu = true;
  // Points, the sums that they are added to, labels and, to count changes, both labels; sums to
  // centroids.
  return {assign, update_work(shape, {.read_bytes = 2 * points + 3 * 4 * n + centroids,
                                      .written_bytes = points + 2 * centroids})};
}

inline Traffic hybrid_traffic(const Shape& shape) {
  Traffic total = total_traffic(hybrid_stage_work(shape));
  // Centroids go up and labels come down: read on one side, written on the other.
  const double transferred = hybrid_centroid_bytes(shape) + 4 * static_cast<double>(shape.n);
  total.read_bytes += transferred;
  total.written_bytes += transferred;
  return total;
}

/// Of the host: centroids and labels, these twice; sums and counts.
inline double hybrid_memory_bytes(const Sizes& s) {
  return 8 * s.n + 2 * s.scalar * s.k * s.d + 8 * s.k;
}

}  // namespace kmeans::cuda
