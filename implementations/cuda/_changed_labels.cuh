// SPDX-License-Identifier: Apache-2.0
//
// How many labels an iteration changed, and in the same kernel how far it moved the centroids.
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
  long long made;                     // iterations that were looked at
  unsigned arrived;                   // blocks that have looked at the next one
};

namespace detail {

inline constexpr int kLookThreads = 256;
inline constexpr int kLabelsOfThread = 4;

/// After an iteration: dev_numbers says how many labels differ from those before, which they become; where there are
/// weights, of points that have one. The first blocks look at the centroids' movement.
static __global__ void __launch_bounds__(kLookThreads)
    look_kernel(const std::int32_t* __restrict__ dev_labels, std::int64_t n,
                const std::int64_t* __restrict__ dev_weights, std::int32_t* __restrict__ dev_before,
                IterationNumbers* dev_numbers, Movement movement, unsigned movement_blocks) {
  const std::int64_t own = dev_numbers->made;
  if (blockIdx.x < movement_blocks) {
    movement.look_at_block<kLookThreads / kLanes>(blockIdx.x, own);
  } else {
    const std::int64_t first =
        std::int64_t{blockIdx.x - movement_blocks} * kLookThreads * kLabelsOfThread + threadIdx.x;
    unsigned changed = 0;
#pragma unroll
    for (int e = 0; e < kLabelsOfThread; ++e) {
      const std::int64_t i = first + e * kLookThreads;
      if (i >= n || dev_labels[i] == dev_before[i]) continue;
      dev_before[i] = dev_labels[i];
      if (dev_weights == nullptr || dev_weights[i] != 0) ++changed;
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      changed += __shfl_xor_sync(kAllLanes, changed, distance);
    }
    if (threadIdx.x % kLanes == 0 && changed != 0) {
      atomicAdd(dev_numbers->changed + own, static_cast<unsigned long long>(changed));
    }
  }
  __syncthreads();  // nobody of this block reads `made` any more
  if (threadIdx.x == 0 && atomicAdd(&dev_numbers->arrived, 1U) == gridDim.x - 1) {
    dev_numbers->arrived = 0;
    dev_numbers->made = own + 1;
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
    look(dev_labels, {}, nullptr);
    finish(1, iterations);
    if (before + 1 != iterations) changed_.reset();
    return changed_;
  }

  /// For at most IterationNumbers::kMost iterations: begin(), look() behind each, which does not wait and may be
  /// recorded, and finish(), which returns their numbers; the last was iteration `iterations`.
  void begin(std::int64_t n) {
    make_room(n);
    dev_numbers_.zero();
  }
  void look(const DeviceBuffer<std::int32_t>& dev_labels, const Movement& movement,
            cudaStream_t stream) const {
    const std::int64_t n = dev_labels.size();
    const unsigned blocks =
        movement.blocks() + blocks_for(n, detail::kLookThreads * detail::kLabelsOfThread);
    detail::look_kernel<<<blocks, detail::kLookThreads, 0, stream>>>(
        dev_labels.data(), n, dev_weights_, dev_before_.data(), dev_numbers_.data(), movement,
        movement.blocks());
    KMEANS_CUDA_LAUNCHED(look_kernel);
  }
  IterationNumbers finish(std::int64_t count, std::int64_t iterations) {
    IterationNumbers numbers{};
    dev_numbers_.download(&numbers);
    compared_ = iterations;
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
