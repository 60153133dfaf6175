// SPDX-License-Identifier: Apache-2.0
//
// Sums of clusters over several GPUs that share the points. Each GPU keeps the integer sums and
// counts of its own points. An iteration adds them over the GPUs: a short array by one all-reduce;
// of a long one each GPU gets a block of clusters by reduce-scatter and divides it, and the means
// are gathered. Neither the method nor the number of GPUs changes a bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "harness/communicator.h"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace kmeans::cuda {

/// The longest array, 2 MiB of sums and counts, that one all-reduce adds: 1 MiB took 17 us on two
/// GPUs of one host, and any call takes at least 11, so two calls are no faster below some MiB.
/// Tests set fewer.
inline std::int64_t sums_in_one_call() {
  const char* text = std::getenv("KMEANS_BENCH_SUMS_IN_ONE_CALL");
  return text != nullptr ? std::atoll(text) : 262144;
}

/// `dev_sums` (k x (d + 1)): fixed-point sums, and the count of each cluster.
static __global__ void divide_sums_of_clusters_kernel(const Integer* __restrict__ dev_sums,
                                                      double inverse_scale,
                                                      float* __restrict__ dev_centroids,
                                                      std::int64_t k, std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const Integer* sums = dev_sums + index / d * (d + 1);
  const auto count = static_cast<long long>(sums[d]);
  if (count == 0) return;  // an empty cluster keeps its centroid
  dev_centroids[index] = exact_mean(static_cast<long long>(sums[index % d]), count, inverse_scale);
}

class SharedSums {
 public:
  SharedSums() = default;
  /// `integers`: that a sum has.
  explicit SharedSums(const Problem<float>& problem, int integers = 1)
      : gpus_(problem.shard.devices),
        k_(problem.shape.k),
        d_(problem.shape.d),
        width_(integers * problem.shape.d + 1) {
    const int s = kmeans::exact::sum_exponent(problem.whole_n(), problem.max_abs);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    if (!shared()) return;
    block_ = ceil_div(k_, gpus_->size());
    scattered_ = gpus_->size() > 1 && k_ * width_ > sums_in_one_call();
    dev_totals_ = DeviceBuffer<Integer>((scattered_ ? block_ : k_) * width_);
    if (scattered_) dev_gathered_ = DeviceBuffer<float>(gpus_->size() * block_ * d_);
  }

  /// Do other GPUs have points of the clusters?
  [[nodiscard]] bool shared() const { return gpus_ != nullptr; }

  /// The length of the array that exchange() reads: sums and counts of k clusters, and zeros that
  /// make all blocks equally long.
  [[nodiscard]] std::int64_t length() const {
    return (scattered_ ? gpus_->size() * block_ : k_) * width_;
  }

  /// Sets dev_centroids (k x d) to the means of the clusters over all GPUs. dev_sums (k x (d + 1)),
  /// this GPU's own, do not change.
  void exchange(const Integer* dev_sums, float* dev_centroids, cudaStream_t stream) const {
    const Integer* dev_totals = add_up(dev_sums, dev_centroids, stream);
    if (dev_totals != nullptr) divide(dev_totals, dev_centroids, k_, stream);
  }

  /// The sums and counts over all GPUs, for the caller to divide; or null where dev_centroids are
  /// the means already.
  const Integer* add_up(const Integer* dev_sums, float* dev_centroids, cudaStream_t stream) const {
    return add_up(dev_sums, dev_centroids, stream,
                  [&](const Integer* dev_totals, float* dev_means, std::int64_t clusters) {
                    divide(dev_totals, dev_means, clusters, stream);
                  });
  }

  /// The same of sums that divide(dev_totals, dev_means, clusters) divides.
  template <class Divide>
  const Integer* add_up(const Integer* dev_sums, float* dev_centroids, cudaStream_t stream,
                        const Divide& divide) const {
    if (!shared()) return dev_sums;
    if (gpus_->muted()) {  // as if this were all: what follows computes with it
      if (!scattered_) return dev_sums;
      divide(dev_sums, dev_centroids, k_);
      return nullptr;
    }
    const auto* dev_values = reinterpret_cast<const std::int64_t*>(dev_sums);
    auto* dev_totals = reinterpret_cast<std::int64_t*>(dev_totals_.data());
    if (!scattered_) {
      gpus_->all_reduce_sum(dev_values, dev_totals, k_ * width_, stream);
      return dev_totals_.data();
    }
    gpus_->reduce_scatter_sum(dev_values, dev_totals, block_ * width_, stream);
    const std::int64_t first = std::min(k_, gpus_->rank() * block_);
    const std::int64_t own = std::min(block_, k_ - first);
    // The ranks' blocks follow each other in the order of the clusters; the last may be short.
    copy(dev_gathered_.data() + first * d_, dev_centroids + first * d_, own * d_, stream);
    divide(dev_totals_.data(), dev_gathered_.data() + first * d_, own);
    gpus_->all_gather(dev_gathered_.data(), block_ * d_, stream);
    copy(dev_centroids, dev_gathered_.data(), k_ * d_, stream);
    return nullptr;
  }
  /// The value of 1 in the fixed-point sums.
  [[nodiscard]] double inverse_scale() const { return inverse_scale_; }

  /// Divides the sums of so many clusters by their counts.
  void divide(const Integer* dev_sums, float* dev_centroids, std::int64_t clusters,
              cudaStream_t stream) const {
    if (clusters == 0) return;
    constexpr int kThreads = 256;
    divide_sums_of_clusters_kernel<<<blocks_for(clusters * d_, kThreads), kThreads, 0, stream>>>(
        dev_sums, inverse_scale_, dev_centroids, clusters, d_);
    KMEANS_CUDA_LAUNCHED(divide_sums_of_clusters_kernel);
  }

  /// Device bytes on each of `gpus`.
  static double device_bytes(const Shape& shape, int gpus) {
    const Sizes s = shape;
    return gpus > 1 ? (s.k + gpus) * (16 * (s.d + 1) + 4 * s.d) : 8 * s.k * (s.d + 1);
  }

 private:
  static void copy(float* to, const float* from, std::int64_t count, cudaStream_t stream) {
    if (count == 0) return;
    KMEANS_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(float),
                                cudaMemcpyDeviceToDevice, stream));
  }

  DeviceCommunicator* gpus_ = nullptr;
  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  std::int64_t width_ = 0;  // integers of a cluster
  std::int64_t block_ = 0;  // clusters of a GPU, where they are scattered
  bool scattered_ = false;
  double inverse_scale_ = 1;
  DeviceBuffer<Integer> dev_totals_;
  DeviceBuffer<float> dev_gathered_;
};

}  // namespace kmeans::cuda
