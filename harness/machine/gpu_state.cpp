// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/gpu_state.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include "harness/support/formatted.h"
#include "harness/support/json_member.h"
#include "harness/support/or_null.h"

namespace kmeans {
namespace {

using nlohmann::json;

// The part of NVML's interface that is used here. It is a stable C interface and belongs to the
// driver, not to the CUDA toolkit: declared here, it works in a program built without CUDA.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr NvmlReturn kNvmlInsufficientSize = 7;
constexpr unsigned kNvmlClockSm = 1;
constexpr unsigned kNvmlClockMemory = 2;
constexpr unsigned kNvmlTemperatureGpu = 0;
constexpr unsigned kNvmlSlowdownThreshold = 1;
constexpr unsigned kNvmlErrorUncorrected = 1;
constexpr unsigned kNvmlCounterVolatile = 0;  // since the driver was loaded

struct NvmlUtilisation {
  unsigned gpu;
  unsigned memory;
};

struct NvmlProcess {  // as the third version of its query fills it
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

class Nvml {
 public:
  /// Null where NVML cannot be used.
  static const Nvml* get() {
    static const Nvml nvml;
    return nvml.started_ ? &nvml : nullptr;
  }

  /// One number of a device: null where the library or the device does not report it.
  template <class Value, class... Selector>
  [[nodiscard]] std::optional<Value> ask(const char* function, NvmlDevice device,
                                         Selector... selector) const {
    using Query = NvmlReturn (*)(NvmlDevice, Selector..., Value*);
    const auto query = reinterpret_cast<Query>(dlsym(library_, function));
    Value value{};
    if (query == nullptr || query(device, selector..., &value) != kNvmlSuccess) return std::nullopt;
    return value;
  }

  [[nodiscard]] std::optional<NvmlDevice> find(const std::string& uuid) const {
    // The driver looks through all GPUs for it.
    static std::mutex mutex;
    static std::map<std::string, NvmlDevice> known;
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = known.find(uuid); found != known.end()) return found->second;
    using Query = NvmlReturn (*)(const char*, NvmlDevice*);
    const auto query = reinterpret_cast<Query>(dlsym(library_, "nvmlDeviceGetHandleByUUID"));
    NvmlDevice device = nullptr;
    if (query == nullptr || query(uuid.c_str(), &device) != kNvmlSuccess) return std::nullopt;
    known.emplace(uuid, device);
    return device;
  }

  /// Processes with a compute context on the device.
  [[nodiscard]] std::optional<std::vector<unsigned>> compute_processes(NvmlDevice device) const {
    using Query = NvmlReturn (*)(NvmlDevice, unsigned*, NvmlProcess*);
    const auto query =
        reinterpret_cast<Query>(dlsym(library_, "nvmlDeviceGetComputeRunningProcesses_v3"));
    if (query == nullptr) return std::nullopt;
    std::vector<NvmlProcess> processes(64);
    auto count = static_cast<unsigned>(processes.size());
    auto outcome = query(device, &count, processes.data());
    if (outcome == kNvmlInsufficientSize) {
      processes.resize(2 * std::size_t{count} + 64);  // more may start in between
      count = static_cast<unsigned>(processes.size());
      outcome = query(device, &count, processes.data());
    }
    if (outcome != kNvmlSuccess || count > processes.size()) return std::nullopt;
    std::vector<unsigned> pids;
    for (unsigned i = 0; i < count; ++i) pids.push_back(processes[i].pid);
    return pids;
  }

 private:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto start = reinterpret_cast<NvmlReturn (*)()>(dlsym(library_, "nvmlInit_v2"));
    // Never shut down: it would have to happen after the last question, in whatever thread.
    started_ = start != nullptr && start() == kNvmlSuccess;
  }

  void* library_ = nullptr;
  bool started_ = false;
};

json watts(const std::optional<unsigned>& milliwatts) {
  return milliwatts ? json(*milliwatts / 1000.0) : json(nullptr);
}

/// The process that started this one, or nothing when it has ended.
std::optional<unsigned> parent_of(unsigned pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  // "PID (NAME) STATE PARENT ...": the name can hold anything, parentheses included.
  const auto name_end = text.rfind(')');
  unsigned parent = 0;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1, " %*c %u", &parent) != 1) {
    return std::nullopt;
  }
  return parent;
}

bool descends_from(unsigned pid, unsigned ancestor) {
  for (int generation = 0; generation < 64 && pid > 1; ++generation) {
    if (pid == ancestor) return true;
    const auto parent = parent_of(pid);
    if (!parent) return false;
    pid = *parent;
  }
  return pid == ancestor;
}

/// The driver names processes as the host does. Does this process see the same numbers?
bool sees_process_ids_of_the_host() {
  constexpr ino_t kFirstNamespace = 0xEFFFFFFC;  // a constant of the kernel
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == kFirstNamespace;
}

/// Processes on the GPU that are neither this one, nor started by it, nor one that started it.
std::optional<std::int64_t> count_other_processes(const Nvml& nvml, NvmlDevice device) {
  if (!sees_process_ids_of_the_host()) return std::nullopt;
  const auto pids = nvml.compute_processes(device);
  if (!pids) return std::nullopt;
  const auto self = static_cast<unsigned>(getpid());
  return std::count_if(pids->begin(), pids->end(), [&](unsigned pid) {
    return !descends_from(pid, self) && !descends_from(self, pid);
  });
}

struct ClockEvent {
  unsigned long long bit;
  const char* name;
  bool throttle;
};
constexpr ClockEvent kClockEvents[] = {
    {0x001, "gpu_idle", false},
    {0x002, "applications_clocks_setting", false},  // somebody's choice, the same for every cell
    {0x004, "sw_power_cap", true},
    {0x008, "hw_slowdown", true},
    {0x010, "sync_boost", true},
    {0x020, "sw_thermal_slowdown", true},
    {0x040, "hw_thermal_slowdown", true},
    {0x080, "hw_power_brake_slowdown", true},
    {0x100, "display_clock_setting", false},
};

json state_of(const Nvml& nvml, NvmlDevice device) {
  auto reasons = nvml.ask<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons", device);
  if (!reasons) {  // its name in older drivers
    reasons = nvml.ask<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  }
  json names;
  json throttled;
  if (reasons) {
    const auto events = detail::clock_event_names(*reasons);
    names = events;
    throttled = std::any_of(events.begin(), events.end(), detail::is_throttle);
  }
  const auto utilisation = nvml.ask<NvmlUtilisation>("nvmlDeviceGetUtilizationRates", device);
  return {
      {"sm_mhz", or_null(nvml.ask<unsigned>("nvmlDeviceGetClockInfo", device, kNvmlClockSm))},
      {"memory_mhz",
       or_null(nvml.ask<unsigned>("nvmlDeviceGetClockInfo", device, kNvmlClockMemory))},
      {"max_sm_mhz",
       or_null(nvml.ask<unsigned>("nvmlDeviceGetMaxClockInfo", device, kNvmlClockSm))},
      {"power_watts", watts(nvml.ask<unsigned>("nvmlDeviceGetPowerUsage", device))},
      {"power_limit_watts", watts(nvml.ask<unsigned>("nvmlDeviceGetEnforcedPowerLimit", device))},
      {"temperature_celsius",
       or_null(nvml.ask<unsigned>("nvmlDeviceGetTemperature", device, kNvmlTemperatureGpu))},
      {"throttle_reasons", names},
      {"throttled", throttled},
      {"utilisation_percent", utilisation ? json(utilisation->gpu) : json(nullptr)},
      {"other_processes", or_null(count_other_processes(nvml, device))},
      {"ecc_uncorrected",
       or_null(nvml.ask<unsigned long long>("nvmlDeviceGetTotalEccErrors", device,
                                            kNvmlErrorUncorrected, kNvmlCounterVolatile))},
  };
}

// A GPU at work reaches its highest clock but for a few percent; lower means that it was held back.
constexpr double kLowClock = 0.75;
constexpr double kBusyPercent = 90;

/// "sw_power_cap, hw_slowdown", or nothing.
std::string throttles_in(const json& state) {
  std::string text;
  for (const auto& reason : detail::throttle_reasons_in(state)) {
    if (detail::is_throttle(reason)) text += (text.empty() ? "" : ", ") + reason;
  }
  return text;
}

}  // namespace

nlohmann::json gpu_state(const std::string& uuid) {
  try {
    const auto* nvml = Nvml::get();
    if (nvml == nullptr) return nullptr;
    const auto device = nvml->find(uuid);
    return device ? state_of(*nvml, *device) : json(nullptr);
  } catch (const std::exception&) {
    return nullptr;  // out of memory: a state is never worth a measurement
  }
}

std::vector<std::string> gpu_state_doubts(const nlohmann::json& before,
                                          const nlohmann::json& after) {
  std::vector<std::string> doubts;
  const auto early = throttles_in(before);
  const auto late = throttles_in(after);
  if (!early.empty() && early == late) {
    doubts.push_back("the GPU was throttled (" + early + ") before and after the measurement");
  } else {
    if (!early.empty())
      doubts.push_back("the GPU was throttled (" + early + ") before the measurement");
    if (!late.empty())
      doubts.push_back("the GPU was throttled (" + late + ") after the measurement");
  }

  // Only a GPU that is still busy, and whose clock nobody set and nothing above explains.
  const auto reasons = detail::throttle_reasons_in(after);
  const auto clock = number_in(after, "sm_mhz");
  const auto highest = number_in(after, "max_sm_mhz");
  const bool busy = number_in(after, "utilisation_percent").value_or(0) >= kBusyPercent;
  if (busy && reasons.empty() && clock && highest && *clock < kLowClock * *highest) {
    doubts.push_back("the GPU's clock was " + std::to_string(std::lround(*clock)) + " of " +
                     std::to_string(std::lround(*highest)) +
                     " MHz under load, and the driver gives no reason");
  }

  const auto others =
      static_cast<std::int64_t>(std::max(number_in(before, "other_processes").value_or(0),
                                         number_in(after, "other_processes").value_or(0)));
  if (others > 0) {
    doubts.push_back(std::to_string(others) +
                     (others == 1 ? " other process" : " other processes") + " used the GPU");
  }

  const auto errors_before = number_in(before, "ecc_uncorrected");
  const auto errors_after = number_in(after, "ecc_uncorrected");
  if (errors_before && errors_after && *errors_after > *errors_before) {
    doubts.push_back("the GPU's memory had " +
                     std::to_string(std::llround(*errors_after - *errors_before)) +
                     " uncorrectable errors (ECC) during the measurement");
  }
  return doubts;
}

namespace detail {

std::vector<std::string> throttle_reasons_in(const json& state) {
  std::vector<std::string> reasons;
  if (!state.is_object() || !state.contains("throttle_reasons")) return reasons;
  for (const auto& reason : state.at("throttle_reasons")) {
    if (reason.is_string()) reasons.push_back(reason.get<std::string>());
  }
  return reasons;
}

json gpu_settings(const std::string& uuid) {
  const auto* nvml = Nvml::get();
  const auto device = nvml != nullptr ? nvml->find(uuid) : std::nullopt;
  if (!device) return nullptr;
  return {
      {"default_power_limit_watts",
       watts(nvml->ask<unsigned>("nvmlDeviceGetPowerManagementDefaultLimit", *device))},
      {"persistence_mode", or_null(nvml->ask<unsigned>("nvmlDeviceGetPersistenceMode", *device))},
      {"slowdown_celsius", or_null(nvml->ask<unsigned>("nvmlDeviceGetTemperatureThreshold", *device,
                                                       kNvmlSlowdownThreshold))}};
}

std::vector<std::string> clock_event_names(unsigned long long reasons) {
  std::vector<std::string> names;
  for (const auto& event : kClockEvents) {
    if ((reasons & event.bit) != 0) names.emplace_back(event.name);
    reasons &= ~event.bit;
  }
  for (unsigned long long bit = 1; reasons != 0; bit <<= 1) {
    if ((reasons & bit) == 0) continue;
    names.push_back(formatted("0x%llx", bit));
    reasons &= ~bit;
  }
  return names;
}

bool is_throttle(const std::string& clock_event_name) {
  return std::any_of(std::begin(kClockEvents), std::end(kClockEvents), [&](const auto& event) {
    return event.throttle && clock_event_name == event.name;
  });
}

}  // namespace detail

}  // namespace kmeans
