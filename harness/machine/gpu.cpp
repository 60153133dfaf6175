// SPDX-License-Identifier: Apache-2.0
//
// The part of harness/machine/gpu.h that needs no CUDA: choosing among devices, and saying what is wrong.
#include "harness/machine/gpu.h"

#include <cstdlib>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

std::string capability(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string built_for(const GpuStatus& status) {
  std::string text;
  for (const int real : status.built_for) {
    text += (text.empty() ? "" : ", ") + capability(real / 10, real % 10);
  }
  if (status.built_ptx > 0) {
    text += (text.empty() ? "" : ", ") + std::string("newer than ") +
            capability(status.built_ptx / 10, status.built_ptx % 10);
  }
  return text;
}

std::string one_line(const GpuDevice& device) {
  return std::to_string(device.index) + " (" + device.name + ", " + device.uuid + ")";
}

bool one_chosen = false;  // by --device
int in_use = 1;

/// What decides how a variant divides its work.
bool alike(const GpuDevice& a, const GpuDevice& b) {
  return a.major == b.major && a.minor == b.minor && a.multiprocessors == b.multiprocessors &&
         a.shared_bytes_per_block == b.shared_bytes_per_block;
}

std::string listed(const std::vector<GpuDevice>& devices) {
  std::string text;
  for (const auto& device : devices) text += (text.empty() ? "" : ", ") + one_line(device);
  return text.empty() ? "none" : text;
}

}  // namespace

namespace detail {

bool runs_on(const std::vector<int>& built_for, int built_ptx, int major, int minor) {
  const int capability_number = 10 * major + minor;
  for (const int real : built_for) {
    // Machine code runs on later minor versions of the same major version.
    if (real / 10 == major && real % 10 <= minor) return true;
  }
  return built_ptx > 0 && built_ptx <= capability_number;
}

std::string device_count_problem(bool insufficient_driver, bool no_device, const char* message,
                                 const GpuStatus& status) {
  if (insufficient_driver) {
    return "the NVIDIA driver supports CUDA " +
           (status.driver_version > 0 ? cuda_version(status.driver_version)
                                      : std::string("of no known version")) +
           ", this build needs " + cuda_version(status.runtime_version) +
           ": a newer driver, or a build with an older CUDA Toolkit, would do";
  }
  if (no_device) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return std::string("no GPU is visible") +
           (visible != nullptr ? " (CUDA_VISIBLE_DEVICES is '" + valid_utf8(visible) + "')" : "");
  }
  return std::string("CUDA cannot be initialised: ") + message;
}

std::string problem_with(const GpuStatus& status, std::size_t index) {
  if (index >= status.devices.size()) return "no GPU is visible";
  const GpuDevice& device = status.devices[index];
  if (!runs_on(status.built_for, status.built_ptx, device.major, device.minor)) {
    return "the kernels of this build are for compute capability " + built_for(status) + "; GPU " +
           one_line(device) + " has " + capability(device.major, device.minor) +
           " (set KMEANS_CUDA_ARCHITECTURES=native and build again)";
  }
  return "";
}

std::optional<std::size_t> find_gpu(const std::vector<GpuDevice>& devices, const std::string& which,
                                    std::string& problem) {
  const bool number = !which.empty() && which.size() < 6 &&
                      which.find_first_not_of("0123456789") == std::string::npos;
  std::optional<std::size_t> found;
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const std::string& uuid = devices[index].uuid;
    const bool match = number ? index == std::stoul(which)
                              : !which.empty() && (uuid.rfind(which, 0) == 0 ||
                                                   uuid.rfind("GPU-" + which, 0) == 0);
    if (!match) continue;
    if (found) {
      problem = "'" + which + "' fits several GPUs: " + listed(devices);
      return std::nullopt;
    }
    found = index;
  }
  if (!found) problem = "there is no GPU '" + which + "'; visible: " + listed(devices);
  return found;
}

std::string problem_with_many(const GpuStatus& status, int count, bool chosen) {
  if (!status.problem.empty()) return status.problem;
  if (count == 1) return "";
  if (chosen) return "--device chooses one; CUDA_VISIBLE_DEVICES can choose several";
  if (static_cast<std::size_t>(count) > status.devices.size()) {
    return std::to_string(status.devices.size()) + " visible here: " + listed(status.devices);
  }
  for (int index = 1; index < count; ++index) {
    const GpuDevice& device = status.devices[static_cast<std::size_t>(index)];
    if (!alike(status.devices.front(), device)) {
      return "GPUs that share points must be of one kind, and " + one_line(device) + " is not as " +
             one_line(status.devices.front()) + "; CUDA_VISIBLE_DEVICES can choose others";
    }
  }
  return "";
}

std::size_t choose_gpu(GpuStatus& status, const std::string& which) {
  std::string problem = status.devices.empty() ? status.problem : "";
  std::optional<std::size_t> index;
  if (problem.empty()) index = find_gpu(status.devices, which, problem);
  if (index) problem = problem_with(status, *index);
  if (!problem.empty()) throw EnvironmentError("--device " + which + ": " + problem);
  status.problem.clear();
  one_chosen = true;
  // Processes that are started from here see this GPU alone. Where the user has chosen some, the
  // chosen one's own name is kept: it may be a part of a GPU.
  std::string name = status.devices[*index].uuid;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    std::string rest = visible;
    for (std::size_t skipped = 0; skipped < *index && !rest.empty(); ++skipped) {
      const auto comma = rest.find(',');
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    if (!rest.empty()) name = rest.substr(0, rest.find(','));
  }
  ::setenv("CUDA_VISIBLE_DEVICES", name.c_str(), 1);
  return *index;
}

}  // namespace detail

int gpus_in_use() { return in_use; }

std::string problem_with_gpus(int count) {
  return detail::problem_with_many(gpu_status(), count, one_chosen);
}

void use_gpus(int count) {
  if (count > 1) {
    if (const std::string problem = problem_with_gpus(count); !problem.empty()) {
      throw EnvironmentError(std::to_string(count) + " GPUs cannot be used together: " + problem);
    }
  }
  in_use = count;
}

}  // namespace kmeans
