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

/// Memory of others, page-locked while this lives.
class PageLocked {
 public:
  /// By the program. Memory that it may only read is locked as such, where the GPU knows that.
  enum class Use { read, write };

  /// Throws Error where CUDA refuses it.
  PageLocked(const void* data, std::int64_t bytes, Use use) {
    int device = 0;
    int read_only = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    KMEANS_CUDA(
        cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, device));
    KMEANS_CUDA(cudaHostRegister(
        const_cast<void*>(data), static_cast<std::size_t>(bytes),
        use == Use::read && read_only != 0 ? cudaHostRegisterReadOnly : cudaHostRegisterDefault));
    data_ = const_cast<void*>(data);
  }
  PageLocked(PageLocked&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PageLocked& operator=(PageLocked&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  PageLocked(const PageLocked&) = delete;
  PageLocked& operator=(const PageLocked&) = delete;
  ~PageLocked() {
    if (data_ != nullptr) (void)cudaHostUnregister(data_);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace kmeans::cuda
