// SPDX-License-Identifier: Apache-2.0
//
// harness/machine/gpu.h by the CUDA runtime.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "harness/machine/cuda/device.cuh"
#include "harness/machine/gpu.h"
#include "harness/machine/gpu_of_thread.h"
#include "harness/machine/kept_gpu_memory.h"
#include "harness/support/errors.h"

namespace kmeans {
namespace {

// As the CUDA runtime of this process counts.
int chosen = 0;
thread_local int of_thread = -1;  // or the chosen one

int in_use() { return of_thread >= 0 ? of_thread : chosen; }

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int byte = 0; byte < 16; ++byte) {
    if (byte == 0 || byte == 4 || byte == 6 || byte == 8 || byte == 10) text += '-';
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[byte])));
    text += digits.data();
  }
  return text;
}

double attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  KMEANS_CUDA(cudaDeviceGetAttribute(&value, which, index));
  return value;
}

GpuDevice describe(int index) {
  cudaDeviceProp properties{};
  KMEANS_CUDA(cudaGetDeviceProperties(&properties, index));
  GpuDevice device;
  device.index = index;
  device.name = properties.name;
  device.uuid = uuid_text(properties.uuid);
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.l2_bytes = properties.l2CacheSize;
  device.shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  device.clock_hertz = 1e3 * attribute(cudaDevAttrClockRate, index);
  // Two transfers a clock.
  device.memory_bytes_per_second = 2e3 * attribute(cudaDevAttrMemoryClockRate, index) *
                                   attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8;
  return device;
}

GpuStatus look() {
  GpuStatus status;
  status.built = true;
  status.built_for = {KMEANS_CUDA_REAL};
  status.built_ptx = KMEANS_CUDA_PTX;
  status.runtime_version = CUDART_VERSION;
  // Asked first: without a driver there is nothing to initialise, and this is quick.
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    status.problem = "no NVIDIA driver is installed here (libcuda.so.1 was not found)";
    return status;
  }
  dlclose(driver);
  if (cudaDriverGetVersion(&status.driver_version) != cudaSuccess) status.driver_version = 0;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    (void)cudaGetLastError();
    status.problem =
        detail::device_count_problem(code == cudaErrorInsufficientDriver, code == cudaErrorNoDevice,
                                     cudaGetErrorString(code), status);
    return status;
  }
  for (int index = 0; index < count; ++index) status.devices.push_back(describe(index));
  return status;
}

}  // namespace

namespace detail {
GpuStatus& mutable_gpu_status() {
  static GpuStatus status = [] {
    GpuStatus found;
    try {
      found = look();
    } catch (const std::exception& error) {
      found.problem = error.what();
    }
    if (found.problem.empty()) found.problem = problem_with(found, 0);
    return found;
  }();
  return status;
}
}  // namespace detail

const GpuStatus& gpu_status() { return detail::mutable_gpu_status(); }

void use_gpu(const std::string& which) {
  GpuStatus& status = detail::mutable_gpu_status();
  chosen = static_cast<int>(detail::choose_gpu(status, which));
}

void bind_gpu() {
  if (current_gpu() != nullptr) KMEANS_CUDA(cudaSetDevice(in_use()));
}

const GpuDevice* current_gpu() {
  const GpuStatus& status = gpu_status();
  return status.problem.empty() ? &status.devices[static_cast<std::size_t>(in_use())] : nullptr;
}

int set_gpu_of_thread(int device) { return std::exchange(of_thread, device); }

std::string problem_with_gpu(int device) {
  const GpuStatus& status = gpu_status();
  if (!status.problem.empty()) return status.problem;
  return detail::problem_with(status, static_cast<std::size_t>(device));
}

std::optional<GpuMemory> gpu_memory() {
  if (current_gpu() == nullptr) return std::nullopt;
  bind_gpu();
  std::size_t free = 0;
  std::size_t total = 0;
  int device = 0;
  KMEANS_CUDA(cudaMemGetInfo(&free, &total));
  KMEANS_CUDA(cudaGetDevice(&device));
  free += cuda::DeviceMemory::of_process().kept(device);  // which is given back where it is needed
  return GpuMemory{static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

namespace {

/// What the driver said last of free memory. An eighth of it is taken to be there for a tenth of a second.
class LastAnswer {
 public:
  static LastAnswer& of_process() {
    static LastAnswer answer;
    return answer;
  }
  [[nodiscard]] bool suffices(int device, double bytes) {
    const std::lock_guard lock(mutex_);
    constexpr double kShare = 0.125;
    constexpr std::chrono::milliseconds kHolds{100};
    return device == device_ && bytes <= kShare * bytes_ &&
           std::chrono::steady_clock::now() - asked_ < kHolds;
  }
  void remember(int device, double bytes) {
    const std::lock_guard lock(mutex_);
    device_ = device;
    bytes_ = bytes;
    asked_ = std::chrono::steady_clock::now();
  }

 private:
  std::mutex mutex_;
  int device_ = -1;
  double bytes_ = 0;
  std::chrono::steady_clock::time_point asked_;
};

}  // namespace

bool gpu_has_room(double bytes) {
  if (current_gpu() == nullptr) return true;
  bind_gpu();
  const int device = in_use();
  const auto kept = static_cast<double>(cuda::DeviceMemory::of_process().kept(device));
  LastAnswer& last = LastAnswer::of_process();
  if (bytes <= kept || last.suffices(device, bytes)) return true;
  const auto free = static_cast<double>(gpu_memory()->free_bytes);
  last.remember(device, free - kept);
  return bytes <= free;
}

void keep_gpu_memory(bool keeps) { cuda::DeviceMemory::of_process().keep(keeps); }

void gpu_synchronize() { KMEANS_CUDA(cudaDeviceSynchronize()); }

namespace {

class EventClock final : public GpuClock {
 public:
  EventClock() {
    KMEANS_CUDA(cudaEventCreate(&begin_));
    KMEANS_CUDA(cudaEventCreate(&end_));
  }
  ~EventClock() override {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  void begin() override { KMEANS_CUDA(cudaEventRecord(begin_, nullptr)); }
  double end() override {
    KMEANS_CUDA(cudaEventRecord(end_, nullptr));
    KMEANS_CUDA(cudaEventSynchronize(end_));
    KMEANS_CUDA(cudaGetLastError());  // a launch that was refused, and that nobody asked about
    float milliseconds = 0;
    KMEANS_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

std::unique_ptr<GpuClock> make_gpu_clock() {
  if (current_gpu() == nullptr) return nullptr;
  bind_gpu();
  return std::make_unique<EventClock>();
}

}  // namespace kmeans
