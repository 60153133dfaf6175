// SPDX-License-Identifier: Apache-2.0
//
// Sums of clusters whose points count by weights, or whose centroids have length one. Of weighted points they have
// up to 128 bits: the lower 64 of all, and behind them those above. Where GPUs share the points, such sums travel
// in parts (implementations/_sum_parts.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>

#include "harness/exact_step.h"
#include "harness/variant.h"
#include "implementations/_sum_parts.h"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_shared_sums.cuh"

namespace kmeans::cuda {

/// k x (d + 1) integers: of each cluster d sums in fixed point, then its count. Of 64 bits, or of 128 with those
/// above in an array of their own.
template <class I>
struct SumArrays {
  I* low = nullptr;
  I* high = nullptr;  // or null
};
using OwnSums = SumArrays<Integer>;
using Totals = SumArrays<const Integer>;

/// A sum rounded to float64, ties to even.
static __device__ double rounded_sum(const Totals& sums, std::int64_t cell) {
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
static __global__ void __launch_bounds__(256)
    divide_counted_kernel(Totals sums, std::int64_t k, std::int64_t d, double inverse_scale,
                          bool spherical, float* __restrict__ dev_centroids) {
  const std::int64_t j = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
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

/// A thread a sum or count, of `cells`. dev_parts: of each cluster d first parts, d second ones, ..., then its count.
static __global__ void split_sums_kernel(Totals sums, std::int64_t cells, std::int64_t d,
                                         SumParts parts, std::int64_t* __restrict__ dev_parts) {
  const std::int64_t cell = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  const std::int64_t t = cell % (d + 1);
  std::int64_t* const dev_own = dev_parts + cell / (d + 1) * (parts.count() * d + 1);
  if (t == d) {
    dev_own[parts.count() * d] = static_cast<std::int64_t>(sums.low[cell]);
    return;
  }
  const auto sum = static_cast<unsigned __int128>(sums.high[cell]) << 64 | sums.low[cell];
  parts.split(static_cast<__int128>(sum), dev_own + t, d);
}
static __global__ void join_sums_kernel(const std::int64_t* __restrict__ dev_parts,
                                        std::int64_t cells, std::int64_t d, SumParts parts,
                                        OwnSums sums) {
  const std::int64_t cell = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (cell >= cells) return;
  const std::int64_t t = cell % (d + 1);
  const std::int64_t* const dev_own = dev_parts + cell / (d + 1) * (parts.count() * d + 1);
  if (t == d) {
    sums.low[cell] = static_cast<Integer>(dev_own[parts.count() * d]);
    return;
  }
  const auto sum = static_cast<unsigned __int128>(parts.join(dev_own + t, d));
  sums.low[cell] = static_cast<Integer>(sum);
  sums.high[cell] = static_cast<Integer>(sum >> 64);
}

class CountedSums {
 public:
  CountedSums() = default;
  explicit CountedSums(const Problem<float>& problem)
      : k_(problem.shape.k), d_(problem.shape.d), spherical_(problem.spherical) {
    const CountedPoints<float>& counted = problem.counted;
    const DeviceCommunicator* gpus = problem.shard.devices;
    int s = kmeans::exact::sum_exponent(problem.whole_n(), problem.max_abs);
    if (counted.weights != nullptr) {
      s = kmeans::exact::sum_exponent(counted.scale_n, counted.max_abs);
      // As many points as the scale leaves room for fill 64 bits. Those of other GPUs are not known.
      wide_ = gpus != nullptr || std::accumulate(counted.weights, counted.weights + problem.shape.n,
                                                 std::int64_t{0}) > counted.scale_n;
    }
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    if (gpus != nullptr) parts_ = SumParts(gpus->size());
    shared_ = SharedSums(problem, wide_ ? parts_.count() : 1);
    dev_sums_ = DeviceBuffer<Integer>(wide_ ? 2 * cells() : shared_.length());
    if (!wide_ || !shared()) return;
    dev_parts_ = DeviceBuffer<Integer>(shared_.length());
    dev_parts_.zero();  // beyond the clusters it stays so
  }

  /// Do other GPUs have points of the clusters?
  [[nodiscard]] bool shared() const { return shared_.shared(); }
  /// Of the fixed point.
  [[nodiscard]] double scale() const { return scale_; }
  /// This GPU's own sums and counts, for the caller to add to after clear().
  [[nodiscard]] OwnSums own() const {
    return {dev_sums_.data(), wide_ ? dev_sums_.data() + cells() : nullptr};
  }
  [[nodiscard]] std::int64_t cells() const { return k_ * (d_ + 1); }
  [[nodiscard]] std::size_t bytes_of_cells() const {
    return static_cast<std::size_t>(cells()) * sizeof(Integer) * (wide_ ? 2 : 1);
  }

  void clear() const { dev_sums_.zero(); }

  /// Sets dev_centroids (k x d) by the sums over all GPUs. own() may be overwritten.
  void move_centroids(float* dev_centroids) const { divide(add_up(dev_centroids), dev_centroids); }

  /// That in two steps: what the GPUs exchange, and what divide() then takes, which may be null.
  const Integer* add_up(float* dev_centroids) const {
    const Integer* dev_sums = dev_sums_.data();
    if (wide_ && shared()) {
      split_sums_kernel<<<blocks_for(cells(), kThreads), kThreads>>>(
          Totals{own().low, own().high}, cells(), d_, parts_,
          reinterpret_cast<std::int64_t*>(dev_parts_.data()));
      KMEANS_CUDA_LAUNCHED(split_sums_kernel);
      dev_sums = dev_parts_.data();
    }
    return shared_.add_up(dev_sums, dev_centroids, nullptr,
                          [&](const Integer* dev_totals, float* dev_means, std::int64_t clusters) {
                            divide(dev_totals, dev_means, clusters);
                          });
  }
  void divide(const Integer* dev_totals, float* dev_centroids) const {
    if (dev_totals != nullptr) divide(dev_totals, dev_centroids, k_);
  }

  /// Device bytes on each of `gpus` that share the points, besides own().
  static double shared_bytes(const Sizes& s, int gpus) {
    return (s.k + gpus) * (16 * (SumParts(gpus).count() * s.d + 1) + 4 * s.d);
  }

 private:
  static constexpr int kThreads = 256;

  /// Of so many clusters.
  void divide(const Integer* dev_totals, float* dev_centroids, std::int64_t clusters) const {
    if (clusters == 0) return;
    Totals totals{dev_totals, nullptr};
    if (wide_) totals = {own().low, own().high};
    if (wide_ && shared()) {
      const std::int64_t some = clusters * (d_ + 1);
      join_sums_kernel<<<blocks_for(some, kThreads), kThreads>>>(
          reinterpret_cast<const std::int64_t*>(dev_totals), some, d_, parts_, own());
      KMEANS_CUDA_LAUNCHED(join_sums_kernel);
    }
    divide_counted_kernel<<<blocks_for(clusters * kLanes, kThreads), kThreads>>>(
        totals, clusters, d_, inverse_scale_, spherical_, dev_centroids);
    KMEANS_CUDA_LAUNCHED(divide_counted_kernel);
  }

  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  bool spherical_ = false;
  bool wide_ = false;  // of 128 bits
  double scale_ = 1;
  double inverse_scale_ = 1;
  SumParts parts_;
  SharedSums shared_;
  DeviceBuffer<Integer> dev_sums_;   // own()
  DeviceBuffer<Integer> dev_parts_;  // what is sent of sums of 128 bits
};

}  // namespace kmeans::cuda
