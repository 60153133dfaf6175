// SPDX-License-Identifier: Apache-2.0
#include "implementations/cuda/_counted_family.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "implementations/cuda/_counted_sums.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace kmeans::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSharedCells = 2048;  // sums that a block adds up in shared memory
constexpr int kBlocksPerProcessor = 8;

/// An integer to sum `cell`. Each addition that passes 2^64 says so to the one that makes it, so no order loses one.
__device__ void add_to_sum(const OwnSums& sums, std::int64_t cell, Integer low, Integer high) {
  const Integer before = atomicAdd(&sums.low[cell], low);
  if (sums.high == nullptr) return;
  high += before + low < before ? 1 : 0;
  if (high != 0) atomicAdd(&sums.high[cell], high);
}

/// `width`, a power of two up to kLanes, threads have a row. `own_cells`: k (d + 1) where a block adds up in shared
/// memory first, else 0. dev_weights may be null: all count once.
__global__ void __launch_bounds__(kThreads)
    add_counted_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                       const std::int32_t* __restrict__ dev_labels,
                       const std::int64_t* __restrict__ dev_weights, double scale, int width,
                       int own_cells, OwnSums sums) {
  extern __shared__ Integer own[];
  OwnSums to = sums;
  if (own_cells > 0) {
    to = {own, sums.high != nullptr ? own + own_cells : nullptr};
    for (int cell = threadIdx.x; cell < own_cells; cell += kThreads) {
      to.low[cell] = 0;
      if (to.high != nullptr) to.high[cell] = 0;
    }
    __syncthreads();
  }
  const int thread = threadIdx.x;
  const int rows = kThreads / width;  // of a block at a time
  for (std::int64_t i = std::int64_t{blockIdx.x} * rows + thread / width; i < n;
       i += std::int64_t{gridDim.x} * rows) {
    const long long weight = dev_weights != nullptr ? dev_weights[i] : 1;
    if (weight == 0) continue;
    const std::int64_t first = dev_labels[i] * (d + 1);
    for (std::int64_t t = thread % width; t <= d; t += width) {
      const long long fixed = t < d ? exact_fixed_point(dev_points[i * d + t], scale) : 1;
      add_to_sum(to, first + t, static_cast<Integer>(fixed) * static_cast<Integer>(weight),
                 static_cast<Integer>(__mul64hi(fixed, weight)));
    }
  }
  if (own_cells == 0) return;
  __syncthreads();
  for (int cell = thread; cell < own_cells; cell += kThreads) {
    const Integer high = to.high != nullptr ? to.high[cell] : 0;
    if (to.low[cell] != 0 || high != 0) add_to_sum(sums, cell, to.low[cell], high);
  }
}

class CountedFamily final : public CudaLloyd<float> {
 public:
  explicit CountedFamily(std::unique_ptr<Family<float>> labels)
      : CudaLloyd<float>(Layout::rows), labels_(std::move(labels)) {}

  void record_late() override { labels_->record_late(); }
  void expect(std::int64_t iterations) override { labels_->expect(iterations); }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    Problem<float> plain = problem_;
    plain.counted = {};
    plain.spherical = false;
    plain.shard = {};
    labels_->setup(plain);
    sums_ = CountedSums(problem_);
    if (problem_.counted.weights != nullptr) {
      dev_weights_ = DeviceBuffer<std::int64_t>(n);
      dev_weights_.upload(problem_.counted.weights);
      changed_labels_.weigh(dev_weights_.data());
    }
    int device = 0;
    int processors = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    KMEANS_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    while (width_ < kLanes && width_ <= d) width_ *= 2;
    blocks_ = static_cast<unsigned>(std::min<std::int64_t>(
        ceil_div(n, kThreads / width_), std::int64_t{processors} * kBlocksPerProcessor));
  }

  void iterate() override {
    labels_->set_stage_recorder(stage_recorder());
    labels_->go_on_from(*this);
    labels_->step(1);
    update_in_stages(
        sums_.shared(), [&] { add(); }, [&] { return sums_.add_up(dev_centroids_.data()); },
        [&](const Integer* dev_totals) { sums_.divide(dev_totals, dev_centroids_.data()); });
  }

  void add() {
    const auto [n, d, k, precision] = shape();
    KMEANS_CUDA(cudaMemcpyAsync(dev_labels_.data(), labels_->dev_labels(), dev_labels_.bytes(),
                                cudaMemcpyDeviceToDevice));
    sums_.clear();
    const bool shares = sums_.cells() <= kSharedCells;
    add_counted_kernel<<<blocks_, kThreads, shares ? sums_.bytes_of_cells() : 0>>>(
        dev_points_.data(), n, d, dev_labels_.data(), dev_weights_.data(), sums_.scale(), width_,
        shares ? static_cast<int>(sums_.cells()) : 0, sums_.own());
    KMEANS_CUDA_LAUNCHED(add_counted_kernel);
  }

  std::unique_ptr<Family<float>> labels_;
  int width_ = 1;        // threads of a row
  unsigned blocks_ = 1;  // that add up
  CountedSums sums_;
  DeviceBuffer<std::int64_t> dev_weights_;  // n, or none
};

}  // namespace

std::unique_ptr<Family<float>> counted_family(std::unique_ptr<Family<float>> labels) {
  return std::make_unique<CountedFamily>(std::move(labels));
}

}  // namespace kmeans::cuda
