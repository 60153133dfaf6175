// SPDX-License-Identifier: Apache-2.0
//
// What every CUDA file needs: checked calls, device memory that frees itself, launch sizes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace kmeans::cuda {

/// A CUDA call that failed. Some failures (an illegal address) spoil the process's context for
/// good; the worker process ends with its cell, so nothing tries to go on.
class Error : public std::runtime_error {
 public:
  Error(cudaError_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws Error unless the call succeeded: "cudaMalloc(...) in _device.cuh:70 failed: out of ...".
inline void check(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that is not sticky must not be reported a second time
  const std::string path = file;
  throw Error(code, std::string(call) + " in " + path.substr(path.find_last_of('/') + 1) + ":" +
                        std::to_string(line) + " failed: " + cudaGetErrorString(code) + " (" +
                        cudaGetErrorName(code) + ")");
}

/// Every call of the CUDA runtime goes through this.
#define KMEANS_CUDA(...) ::kmeans::cuda::check((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

/// Follows every kernel launch: launches report what is wrong with them here.
#define KMEANS_CUDA_LAUNCHED(kernel) \
  ::kmeans::cuda::check(cudaGetLastError(), "the launch of " #kernel, __FILE__, __LINE__)

/// Device memory. Where it is kept, as the library does, memory that is given back serves the next one who asks for as
/// many bytes on that GPU: cudaMalloc() and cudaFree() wait for the GPU and take up to milliseconds.
class DeviceMemory {
 public:
  static DeviceMemory& of_process() {
    static auto* const memory = new DeviceMemory;  // no destructor: CUDA may have ended before
    return *memory;
  }

  void keep(bool keeps) {
    const std::lock_guard lock(mutex_);
    keeps_ = keeps;
    if (!keeps) release_all();
  }

  /// On the current GPU, uninitialised.
  [[nodiscard]] void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    int device = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    void* data = nullptr;
    const auto found = free_.find({device, bytes});
    if (found != free_.end()) {
      if (found->second.may_be_in_use) wait_for(device);
      data = found->second.data;
      free_.erase(found);
      kept_[device] -= bytes;
    } else {
      data = allocate(bytes);
    }
    if (keeps_) taken_[data] = {device, bytes};
    if (keeps_ && most_[device] == 0) {
      std::size_t unused = 0;
      std::size_t total = 0;
      KMEANS_CUDA(cudaMemGetInfo(&unused, &total));
      most_[device] = total / kMostShare;
    }
    return data;
  }

  /// Work that uses it may still be going on. Null is allowed.
  void give_back(void* data) noexcept {
    if (data == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = taken_.find(data);
    if (found == taken_.end()) {
      (void)cudaFree(data);
      return;
    }
    const auto [device, bytes] = found->second;
    taken_.erase(found);
    if (!keeps_ || kept_[device] + bytes > most_[device]) {
      (void)cudaFree(data);
      return;
    }
    free_.emplace(std::pair{device, bytes}, Free{data, true});
    kept_[device] += bytes;
  }

  /// Whatever nobody uses.
  void release() {
    const std::lock_guard lock(mutex_);
    release_all();
  }

  /// Bytes that nobody uses.
  [[nodiscard]] std::size_t kept(int device) {
    const std::lock_guard lock(mutex_);
    return kept_[device];
  }

 private:
  static constexpr std::size_t kMostShare = 4;  // of the GPU's memory at most a quarter

  struct Free {
    void* data;
    bool may_be_in_use;  // by work that was begun before it was given back
  };

  [[nodiscard]] void* allocate(std::size_t bytes) {
    void* data = nullptr;
    cudaError_t code = cudaMalloc(&data, bytes);
    if (code == cudaErrorMemoryAllocation && !free_.empty()) {
      (void)cudaGetLastError();
      release_all();
      code = cudaMalloc(&data, bytes);
    }
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t unused = 0;
      std::size_t total = 0;
      KMEANS_CUDA(cudaMemGetInfo(&unused, &total));
      throw Error(code, "out of GPU memory: " + std::to_string(bytes) + " bytes asked for, " +
                            std::to_string(unused) + " of " + std::to_string(total) + " free");
    }
    check(code, "cudaMalloc", __FILE__, __LINE__);
    return data;
  }

  /// The current GPU.
  void wait_for(int device) {
    KMEANS_CUDA(cudaDeviceSynchronize());
    for (auto& [where, memory] : free_) {
      if (where.first == device) memory.may_be_in_use = false;
    }
  }

  void release_all() noexcept {
    for (const auto& [where, memory] : free_) (void)cudaFree(memory.data);
    free_.clear();
    kept_.clear();
  }

  std::mutex mutex_;
  bool keeps_ = false;
  std::multimap<std::pair<int, std::size_t>, Free> free_;  // by GPU and bytes
  std::map<void*, std::pair<int, std::size_t>> taken_;     // while it keeps
  std::map<int, std::size_t> kept_;                        // bytes of free_, by GPU
  std::map<int, std::size_t> most_;                        // of them
};

/// `count` values of device memory, uninitialised.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::int64_t count) : count_(count) {
    if (count > 0) data_ = static_cast<T*>(DeviceMemory::of_process().take(bytes()));
  }
  /// Memory of somebody else, who frees it, later than this ends.
  static DeviceBuffer borrowed(T* data, std::int64_t count) {
    DeviceBuffer buffer;
    buffer.data_ = data;
    buffer.count_ = count;
    buffer.owns_ = false;
    return buffer;
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)),
        owns_(other.owns_) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(owns_, other.owns_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (owns_) DeviceMemory::of_process().give_back(data_);
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::int64_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }

  /// Sets every byte, in stream order; does not wait.
  void fill_bytes(int value, cudaStream_t stream = nullptr) const {
    if (count_ > 0) KMEANS_CUDA(cudaMemsetAsync(data_, value, bytes(), stream));
  }
  void zero(cudaStream_t stream = nullptr) const { fill_bytes(0, stream); }
  /// Copies all values from the host; returns when they have left it.
  void upload(const T* host) const {
    if (count_ > 0) KMEANS_CUDA(cudaMemcpy(data_, host, bytes(), cudaMemcpyHostToDevice));
  }
  /// Copies all values to the host, after everything that the legacy default stream waits for.
  void download(T* host) const {
    if (count_ > 0) KMEANS_CUDA(cudaMemcpy(host, data_, bytes(), cudaMemcpyDeviceToHost));
  }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
  bool owns_ = true;
};

inline constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Blocks of `threads` threads that give every one of `count` items a thread of its own.
inline unsigned blocks_for(std::int64_t count, int threads) {
  const std::int64_t blocks = ceil_div(count, threads);
  if (blocks > 2147483647) {
    throw std::runtime_error(std::to_string(blocks) + " blocks of " + std::to_string(threads) +
                             " threads exceed the largest grid, 2147483647");
  }
  return static_cast<unsigned>(blocks);
}

/// Lets a kernel's blocks ask for this much dynamic shared memory: above 48 KB that is not granted by default. They may
/// then ask for all that a block can have: another user of the kernel who asks for less takes nothing from this one.
template <class... Arguments>
void allow_shared_bytes(void (*kernel)(Arguments...), std::size_t bytes) {
  if (bytes <= std::size_t{48} * 1024) return;
  const void* const function = reinterpret_cast<const void*>(kernel);
  int device = 0;
  int most = 0;
  cudaFuncAttributes attributes{};
  KMEANS_CUDA(cudaGetDevice(&device));
  KMEANS_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  KMEANS_CUDA(cudaFuncGetAttributes(&attributes, function));
  most -= static_cast<int>(attributes.sharedSizeBytes);
  KMEANS_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   std::max(most, static_cast<int>(bytes))));
}

}  // namespace kmeans::cuda
