// SPDX-License-Identifier: Apache-2.0
//
// Page-locked host memory that frees itself: copies to and from the device need no staging.
#pragma once

#include <cstdint>
#include <utility>

#include "harness/machine/cuda/device.cuh"

namespace kmeans::cuda {

/// `count` values, uninitialised.
template <class T>
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::int64_t count) : count_(count) {
    if (count > 0) KMEANS_CUDA(cudaMallocHost(&data_, static_cast<std::size_t>(count) * sizeof(T)));
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() { (void)cudaFreeHost(data_); }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] T* begin() const { return data_; }
  [[nodiscard]] T* end() const { return data_ + count_; }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace kmeans::cuda
