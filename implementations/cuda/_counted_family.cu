// SPDX-License-Identifier: Apache-2.0
#include "implementations/cuda/_counted_family.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace kmeans::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kSharedCells = 2048;  // sums that a block adds up in shared memory
constexpr int kBlocksPerProcessor = 8;

/// k x (d + 1) integers: of each cluster d sums in fixed point, then its count. Of 64 bits, or of 128 with those
/// above in an array of their own.
struct Sums {
  Integer* low = nullptr;
  Integer* high = nullptr;  // or null
};

/// An integer to sum `cell`. Each addition that passes 2^64 says so to the one that makes it, so no order loses one.
__device__ void add_to_sum(const Sums& sums, std::int64_t cell, Integer low, Integer high) {
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
                       int own_cells, Sums sums) {
  extern __shared__ Integer own[];
  Sums to = sums;
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

/// A sum rounded to float64, ties to even.
__device__ double rounded_sum(const Sums& sums, std::int64_t cell) {
  Integer low = sums.low[cell];
  if (sums.high == nullptr) return __ll2double_rn(static_cast<long long>(low));
  Integer high = sums.high[cell];
  const bool negative = static_cast<long long>(high) < 0;
  if (negative) {
    high = ~high + (low == 0 ? 1 : 0);
    low = ~low + 1;
  }
  // The 64 bits from the first that is set; the last of them also says whether any behind them is.
  const int shift = high == 0 ? 0 : 64 - __clzll(static_cast<long long>(high));
  if (shift > 0) low = high << (64 - shift) | low >> shift | (low << (64 - shift) != 0 ? 1 : 0);
  const double size = __dmul_rn(__ull2double_rn(low), __hiloint2double((1023 + shift) << 20, 0));
  return negative ? -size : size;
}

/// New centroids, a warp each: means, or of a spherical problem directions. A cluster without points keeps its own.
__global__ void __launch_bounds__(kThreads)
    divide_counted_kernel(Sums sums, std::int64_t k, std::int64_t d, double inverse_scale,
                          bool spherical, float* __restrict__ dev_centroids) {
  const std::int64_t j = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (j >= k) return;
  const std::int64_t first = j * (d + 1);
  const auto count = static_cast<long long>(sums.low[first + d]);
  if (count == 0) return;
  float* const dev_own = dev_centroids + j * d;
  if (!spherical) {
    for (std::int64_t t = lane; t < d; t += kLanes) {
      const double mean = __ddiv_rn(rounded_sum(sums, first + t), __ll2double_rn(count));
      dev_own[t] = __double2float_rn(__dmul_rn(mean, inverse_scale));
    }
    return;
  }
  exact_direction([&](std::int64_t t) { return rounded_sum(sums, first + t); }, d, dev_own);
}

class CountedFamily final : public CudaLloyd<float> {
 public:
  explicit CountedFamily(std::unique_ptr<Family<float>> labels)
      : CudaLloyd<float>(Layout::rows), labels_(std::move(labels)) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const CountedPoints<float>& counted = problem_.counted;
    Problem<float> plain = problem_;
    plain.counted = {};
    plain.spherical = false;
    labels_->setup(plain);
    int s = kmeans::exact::sum_exponent(n, problem_.max_abs);
    bool wide = false;
    if (counted.weights != nullptr) {
      s = kmeans::exact::sum_exponent(counted.scale_n, counted.max_abs);
      // As many points as the scale leaves room for fill 64 bits.
      wide =
          std::accumulate(counted.weights, counted.weights + n, std::int64_t{0}) > counted.scale_n;
      dev_weights_ = DeviceBuffer<std::int64_t>(n);
      dev_weights_.upload(counted.weights);
      changed_labels_.weigh(dev_weights_.data());
    }
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    cells_ = k * (d + 1);
    dev_sums_ = DeviceBuffer<Integer>(wide ? 2 * cells_ : cells_);
    sums_ = {dev_sums_.data(), wide ? dev_sums_.data() + cells_ : nullptr};
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
    const auto timed = stage("update");
    const auto [n, d, k, precision] = shape();
    KMEANS_CUDA(cudaMemcpyAsync(dev_labels_.data(), labels_->dev_labels(), dev_labels_.bytes(),
                                cudaMemcpyDeviceToDevice));
    dev_sums_.zero();
    const bool shares = cells_ <= kSharedCells;
    const std::size_t shared = shares ? dev_sums_.bytes() : 0;
    add_counted_kernel<<<blocks_, kThreads, shared>>>(dev_points_.data(), n, d, dev_labels_.data(),
                                                      dev_weights_.data(), scale_, width_,
                                                      shares ? static_cast<int>(cells_) : 0, sums_);
    KMEANS_CUDA_LAUNCHED(add_counted_kernel);
    divide_counted_kernel<<<blocks_for(k * kLanes, kThreads), kThreads>>>(
        sums_, k, d, inverse_scale_, problem_.spherical, dev_centroids_.data());
    KMEANS_CUDA_LAUNCHED(divide_counted_kernel);
  }

  std::unique_ptr<Family<float>> labels_;
  int width_ = 1;        // threads of a row
  unsigned blocks_ = 1;  // that add up
  std::int64_t cells_ = 0;
  double scale_ = 1;
  double inverse_scale_ = 1;
  Sums sums_;
  DeviceBuffer<Integer> dev_sums_;
  DeviceBuffer<std::int64_t> dev_weights_;  // n, or none
};

}  // namespace

std::unique_ptr<Family<float>> counted_family(std::unique_ptr<Family<float>> labels) {
  return std::make_unique<CountedFamily>(std::move(labels));
}

}  // namespace kmeans::cuda
