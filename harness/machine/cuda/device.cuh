// SPDX-License-Identifier: Apache-2.0
//
// What every CUDA file needs: checked calls, device memory that frees itself, launch sizes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
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

/// `count` values of device memory, uninitialised.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::int64_t count) : count_(count) {
    if (count == 0) return;
    const cudaError_t code = cudaMalloc(&data_, bytes());
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0;
      std::size_t total = 0;
      KMEANS_CUDA(cudaMemGetInfo(&free, &total));
      throw Error(code, "out of GPU memory: " + std::to_string(bytes()) + " bytes asked for, " +
                            std::to_string(free) + " of " + std::to_string(total) + " free");
    }
    check(code, "cudaMalloc", __FILE__, __LINE__);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { (void)cudaFree(data_); }

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

/// Lets a kernel's blocks ask for this much dynamic shared memory: above 48 KB that is not granted
/// by default.
template <class... Arguments>
void allow_shared_bytes(void (*kernel)(Arguments...), std::size_t bytes) {
  if (bytes > std::size_t{48} * 1024) {
    KMEANS_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)));
  }
}

}  // namespace kmeans::cuda
