// SPDX-License-Identifier: Apache-2.0
//
// How many labels an iteration changed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "harness/machine/cuda/device.cuh"

namespace kmeans::cuda {

namespace detail {

/// Adds to dev_changed how many labels differ from those before, which they become. Where there are weights, of
/// points that have one.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    compare_labels_kernel(const std::int32_t* __restrict__ dev_labels, std::int64_t n,
                          const std::int64_t* __restrict__ dev_weights,
                          std::int32_t* __restrict__ dev_before,
                          unsigned long long* __restrict__ dev_changed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const bool differs = i < n && dev_labels[i] != dev_before[i];
  if (differs) dev_before[i] = dev_labels[i];
  const bool counts = differs && (dev_weights == nullptr || dev_weights[i] != 0);
  const int changed = __syncthreads_count(counts ? 1 : 0);
  if (threadIdx.x == 0 && changed != 0) {
    atomicAdd(dev_changed, static_cast<unsigned long long>(changed));
  }
}

}  // namespace detail

/// Who asks after every iteration learns how many labels changed; who does not pays nothing for it.
class ChangedLabels {
 public:
  static constexpr std::int64_t kAtOnce = 16;  // iterations whose numbers are on the GPU

  /// Of points of weight 0 it does not count. Null: all points count.
  void weigh(const std::int64_t* dev_weights) { dev_weights_ = dev_weights; }

  /// The labels before the first iteration: all -1.
  void restart() {
    dev_before_.fill_bytes(0xff);
    compared_ = 0;
    changed_.reset();
  }
  /// Likewise: these n.
  void restart(const std::int32_t* dev_labels, std::int64_t n) {
    make_room(n);
    KMEANS_CUDA(cudaMemcpyAsync(dev_before_.data(), dev_labels, dev_before_.bytes(),
                                cudaMemcpyDeviceToDevice));
    compared_ = 0;
    changed_.reset();
  }

  /// How many dev_labels the last of so many iterations since restart() changed; nothing unless those
  /// of the iteration before were compared as well.
  std::optional<std::int64_t> count(const DeviceBuffer<std::int32_t>& dev_labels,
                                    std::int64_t iterations) {
    if (compared_ == iterations) return changed_;
    const std::int64_t before = compared_;
    begin(dev_labels.size());
    compare(dev_labels, 0, iterations);
    finish(1);
    if (before + 1 != iterations) changed_.reset();
    return changed_;
  }

  /// For some iterations: begin(), compare() after each, which does not wait, and finish(), which returns how many
  /// labels each of them changed.
  void begin(std::int64_t n) {
    make_room(n);
    dev_changed_.zero();
  }
  void compare(const DeviceBuffer<std::int32_t>& dev_labels, std::int64_t own,
               std::int64_t iterations) {
    constexpr int kThreads = 256;
    const std::int64_t n = dev_labels.size();
    detail::compare_labels_kernel<kThreads><<<blocks_for(n, kThreads), kThreads>>>(
        dev_labels.data(), n, dev_weights_, dev_before_.data(), dev_changed_.data() + own);
    KMEANS_CUDA_LAUNCHED(compare_labels_kernel);
    compared_ = iterations;
  }
  std::array<unsigned long long, kAtOnce> finish(std::int64_t count) {
    std::array<unsigned long long, kAtOnce> changed{};
    dev_changed_.download(changed.data());
    changed_ = static_cast<std::int64_t>(changed[count - 1]);
    return changed;
  }
  /// Are the labels of that iteration those that the next ones are compared with?
  [[nodiscard]] bool up_to_date(std::int64_t iterations) const { return compared_ == iterations; }

 private:
  void make_room(std::int64_t n) {
    if (dev_before_.size() == n) return;
    dev_before_ = DeviceBuffer<std::int32_t>(n);
    dev_before_.fill_bytes(0xff);
    dev_changed_ = DeviceBuffer<unsigned long long>(kAtOnce);
  }

  const std::int64_t* dev_weights_ = nullptr;     // n, or null
  DeviceBuffer<std::int32_t> dev_before_;         // n, once somebody has asked
  DeviceBuffer<unsigned long long> dev_changed_;  // kAtOnce
  std::int64_t compared_ = 0;                     // iterations then
  std::optional<std::int64_t> changed_;           // what that said
};

}  // namespace kmeans::cuda
