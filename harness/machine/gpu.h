// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this machine as the suite sees them. No CUDA header is needed here: the functions are
// implemented by harness/machine/cuda/ where the suite is built with CUDA, and by gpu_none.cpp elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kmeans {

struct GpuDevice {
  int index = 0;  ///< As the CUDA runtime of this process counts, after CUDA_VISIBLE_DEVICES.
  std::string name;
  std::string uuid;  ///< "GPU-8f2c...", as nvidia-smi prints it.
  int major = 0;     ///< Compute capability.
  int minor = 0;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_bytes_per_block = 0;  ///< The most that a block can ask for (opt-in).
  double clock_hertz = 0;                   ///< Of the multiprocessors, at most.
  double memory_bytes_per_second = 0;       ///< Bus width times clock: more than can be measured.
};

struct GpuStatus {
  bool built = false;          ///< This program contains CUDA code.
  int driver_version = 0;      ///< CUDA version that the driver supports, 13000 = 13.0; 0: none.
  int runtime_version = 0;     ///< CUDA version of the runtime in this program.
  std::vector<int> built_for;  ///< Compute capabilities with machine code, 90 = 9.0.
  int built_ptx = 0;           ///< Newest compute capability with PTX; 0: none.
  std::vector<GpuDevice> devices;  ///< Visible ones, also those that no kernel here fits.
  std::string problem;  ///< Why no kernel of this program can run on the chosen GPU; empty: it can.
};

/// Looks once, in this process; makes no CUDA context.
const GpuStatus& gpu_status();

/// Chooses the GPU for this process and, through CUDA_VISIBLE_DEVICES, for processes it starts.
/// `which` is an index as gpu_status() counts, or a UUID or a unique beginning of one. Throws
/// EnvironmentError naming what there is when it cannot be used.
void use_gpu(const std::string& which);

/// GPUs that a variant with the trait `many_gpus` shares its points among: 1 unless use_gpus() said more.
int gpus_in_use();
/// Why not so many GPUs can be used together; empty: they can.
std::string problem_with_gpus(int count);
/// Throws EnvironmentError with problem_with_gpus().
void use_gpus(int count);

/// Makes the chosen GPU the calling thread's, which makes a CUDA context. Does nothing where no GPU
/// can be used.
void bind_gpu();

/// The GPU in use (the first one unless use_gpu() or set_gpu_of_thread() chose), or null where none can be used.
const GpuDevice* current_gpu();

struct GpuMemory {
  std::int64_t free_bytes = 0;
  std::int64_t total_bytes = 0;
};
/// Makes a CUDA context in this process. Absent where there is no usable GPU.
std::optional<GpuMemory> gpu_memory();

/// Is there GPU memory for so many bytes? The driver takes tens of microseconds to answer. So it is not asked if this
/// process keeps as much that nobody uses, or if a moment ago there was many times as much. True where there is no GPU.
bool gpu_has_room(double bytes);

/// Waits until the GPU in use has nothing to do; throws std::runtime_error with a pending error.
void gpu_synchronize();

/// Measures with device events what the host clock measures around a synchronised region. The
/// events are recorded in the legacy default stream, which waits for every blocking stream.
class GpuClock {
 public:
  virtual ~GpuClock() = default;
  virtual void begin() = 0;
  /// Seconds since begin(), after waiting for the device.
  virtual double end() = 0;
};
/// Null where there is no usable GPU.
std::unique_ptr<GpuClock> make_gpu_clock();

namespace detail {
/// Can code built for `built_for` (and PTX) run on this compute capability?
bool runs_on(const std::vector<int>& built_for, int built_ptx, int major, int minor);
/// The device that `which` names, or a message saying why not.
std::optional<std::size_t> find_gpu(const std::vector<GpuDevice>& devices, const std::string& which,
                                    std::string& problem);
/// Why this device cannot run what was built; empty if it can.
std::string problem_with(const GpuStatus& status, std::size_t index);
/// What it means that the devices could not be counted.
std::string device_count_problem(bool insufficient_driver, bool no_device, const char* message,
                                 const GpuStatus& status);
/// As problem_with_gpus(); `one_chosen`: --device said which.
std::string problem_with_many(const GpuStatus& status, int count, bool one_chosen);
/// The index of the GPU that `which` names; sets CUDA_VISIBLE_DEVICES for processes started later.
/// Throws EnvironmentError.
std::size_t choose_gpu(GpuStatus& status, const std::string& which);
}  // namespace detail

}  // namespace kmeans
