// SPDX-License-Identifier: Apache-2.0
//
// How many labels an iteration changed.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_moved_centroids.cuh"

namespace kmeans::cuda {

/// Of iterations, one behind the other.
struct IterationNumbers {
  static constexpr std::int64_t kMost = 32;

  unsigned long long changed[kMost];  // labels
  double moved[kMost];                // squares of all centroids' movement, of those who ask
};

namespace detail {

/// Adds to dev_changed how many labels differ from those before, which they become. Where there are weights, of
/// points that have one. The first blocks look at the centroids' movement instead.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    compare_labels_kernel(const std::int32_t* __restrict__ dev_labels, std::int64_t n,
                          const std::int64_t* __restrict__ dev_weights,
                          std::int32_t* __restrict__ dev_before,
                          unsigned long long* __restrict__ dev_changed, Movement movement,
                          unsigned movement_blocks) {
  if (blockIdx.x < movement_blocks) {
    movement.look_at_block<kThreads / kLanes>(blockIdx.x);
    return;
  }
  const std::int64_t i = std::int64_t{blockIdx.x - movement_blocks} * kThreads + threadIdx.x;
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
    compare(dev_labels, 0, iterations, {});
    finish(1);
    if (before + 1 != iterations) changed_.reset();
    return changed_;
  }

  /// For at most IterationNumbers::kMost iterations: begin(), compare() after each, which does not wait and also looks
  /// at its movement, and finish(), which returns their numbers.
  void begin(std::int64_t n) {
    make_room(n);
    dev_numbers_.zero();
  }
  void compare(const DeviceBuffer<std::int32_t>& dev_labels, std::int64_t own,
               std::int64_t iterations, const Movement& movement) {
    constexpr int kThreads = 256;
    const std::int64_t n = dev_labels.size();
    detail::compare_labels_kernel<kThreads>
        <<<movement.blocks() + blocks_for(n, kThreads), kThreads>>>(
            dev_labels.data(), n, dev_weights_, dev_before_.data(),
            dev_numbers_.data()->changed + own, movement, movement.blocks());
    KMEANS_CUDA_LAUNCHED(compare_labels_kernel);
    compared_ = iterations;
  }
  IterationNumbers finish(std::int64_t count) {
    IterationNumbers numbers{};
    dev_numbers_.download(&numbers);
    changed_ = static_cast<std::int64_t>(numbers.changed[count - 1]);
    return numbers;
  }
  /// kMost, where finish() finds them.
  [[nodiscard]] double* dev_moved() const { return dev_numbers_.data()->moved; }

  /// Iterations were taken back: `changed` is the number of the last that is left, whose labels these are.
  void take_back(const DeviceBuffer<std::int32_t>& dev_labels, std::int64_t iterations,
                 unsigned long long changed) {
    restart(dev_labels.data(), dev_labels.size());
    compared_ = iterations;
    changed_ = static_cast<std::int64_t>(changed);
  }

  /// Are the labels of that iteration those that the next ones are compared with?
  [[nodiscard]] bool up_to_date(std::int64_t iterations) const { return compared_ == iterations; }

 private:
  void make_room(std::int64_t n) {
    if (dev_before_.size() == n) return;
    dev_before_ = DeviceBuffer<std::int32_t>(n);
    dev_before_.fill_bytes(0xff);
    dev_numbers_ = DeviceBuffer<IterationNumbers>(1);
  }

  const std::int64_t* dev_weights_ = nullptr;   // n, or null
  DeviceBuffer<std::int32_t> dev_before_;       // n, once somebody has asked
  DeviceBuffer<IterationNumbers> dev_numbers_;  // 1
  std::int64_t compared_ = 0;                   // iterations then
  std::optional<std::int64_t> changed_;         // what that said
};

}  // namespace kmeans::cuda
