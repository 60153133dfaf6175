// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/machine_check.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "harness/machine/gpu.h"
#include "harness/machine/gpu_state.h"
#include "harness/machine/kernel_files.h"
#include "harness/machine/machine.h"
#include "harness/support/formatted.h"
#include "harness/support/json_member.h"
#include "harness/support/option_checks.h"
#include "harness/support/or_null.h"
#include "harness/support/process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;
using State = Condition::State;

// Thresholds; docs/machine.md has most of them.
constexpr double kShortestWatch = 0.1;
constexpr double kForeignCpus = 0.1;
constexpr double kForeignShareOfCpus = 0.005;
constexpr double kBusyProcess = 0.05;
constexpr double kCpuStall = 0.10;
constexpr double kMemoryStall = 0.01;
constexpr double kIoStall = 0.10;
constexpr double kScarceMemory = 0.05;
constexpr double kStolen = 0.05;
constexpr double kLeastStolenSeconds = 0.05;
constexpr double kShortestMetered = 0.3;
constexpr double kQuotaStop = 0.01;
constexpr double kFullClock = 0.99;
constexpr double kFullPower = 0.99;
constexpr double kGpuBusyPercent = 5;
constexpr double kGpuMarginCelsius = 10;

// --- Files of the kernel -----------------------------------------------------------------------

/// The number behind a name at the beginning of a line: "nr_throttled 5", "SwapTotal:  0 kB".
std::optional<std::int64_t> number_after(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return std::nullopt;
}

std::string cpu_folder(const CheckScope& scope, int cpu) {
  return scope.root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
}

double tick_seconds() {
  static const double kSeconds = 1.0 / static_cast<double>(std::max(1L, ::sysconf(_SC_CLK_TCK)));
  return kSeconds;
}

struct CpuTimes {
  double busy = 0;
  double idle = 0;
  double stolen = 0;
  std::size_t cpus = 0;  ///< Of the scope, that were found.
};

/// Sums over the CPUs of the scope, in seconds.
CpuTimes cpu_times(const CheckScope& scope) {
  CpuTimes sum;
  const std::set<int> wanted(scope.cpus.begin(), scope.cpus.end());
  std::ifstream file(scope.root + "/proc/stat");
  for (std::string line; std::getline(file, line) && line.rfind("cpu", 0) == 0;) {
    int cpu = -1;
    // user nice system idle iowait irq softirq steal; guests are within user and nice
    std::array<long long, 8> ticks{};
    if (std::sscanf(line.c_str(), "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", &cpu, &ticks[0],
                    &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
                    &ticks[7]) < 5 ||
        wanted.count(cpu) == 0) {
      continue;
    }
    const auto seconds = [&](std::size_t i) {
      return static_cast<double>(ticks[i]) * tick_seconds();
    };
    sum.busy += seconds(0) + seconds(1) + seconds(2) + seconds(5) + seconds(6);
    sum.idle += seconds(3) + seconds(4);
    sum.stolen += seconds(7);
    ++sum.cpus;
  }
  return sum;
}

/// Thermal events of the CPUs' cores, and of each package once.
std::optional<std::int64_t> heat_throttles(const CheckScope& scope) {
  std::optional<std::int64_t> sum;
  std::set<std::int64_t> packages;
  for (const int cpu : scope.cpus) {
    const auto folder = cpu_folder(scope, cpu);
    if (const auto own = integer_in(folder + "thermal_throttle/core_throttle_count")) {
      sum = sum.value_or(0) + *own;
    }
    const auto package = integer_in(folder + "topology/physical_package_id").value_or(0);
    const auto shared = integer_in(folder + "thermal_throttle/package_throttle_count");
    if (shared && packages.insert(package).second) sum = sum.value_or(0) + *shared;
  }
  return sum;
}

void read_quota(const CheckScope& scope, Activity& activity) {
  for (const auto& [controller, folder] : cgroup_folders(scope.root)) {
    if (!controller.empty() && controller != "cpu") continue;
    const auto file = folder + "cpu.stat";
    const auto times = number_after(file, "nr_throttled");
    if (!times) continue;
    activity.quota_throttles = activity.quota_throttles.value_or(0) + *times;
    const auto microseconds = number_after(file, "throttled_usec");
    const auto nanoseconds = number_after(file, "throttled_time");
    if (microseconds || nanoseconds) {
      activity.quota_seconds = activity.quota_seconds.value_or(0) +
                               (microseconds ? static_cast<double>(*microseconds) * 1e-6
                                             : static_cast<double>(*nanoseconds) * 1e-9);
    }
  }
}

/// Seconds in which some task waited for the resource: /proc/pressure.
std::optional<double> stall_seconds(const CheckScope& scope, const char* resource) {
  std::ifstream file(scope.root + "/proc/pressure/" + resource);
  for (std::string line; std::getline(file, line);) {
    const auto at = line.find("total=");
    if (line.rfind("some ", 0) != 0 || at == std::string::npos) continue;
    return static_cast<double>(std::atoll(line.c_str() + at + 6)) * 1e-6;
  }
  return std::nullopt;
}

std::optional<std::int64_t> swapped_pages(const CheckScope& scope) {
  const auto in = number_after(scope.root + "/proc/vmstat", "pswpin");
  const auto out = number_after(scope.root + "/proc/vmstat", "pswpout");
  if (!in || !out) return std::nullopt;
  return *in + *out;
}

/// Number and processor time of every process that can be seen, but this one.
std::vector<std::pair<std::int64_t, double>> process_times(const CheckScope& scope) {
  std::vector<std::pair<std::int64_t, double>> times;
  const auto self = integer_in(scope.root + "/proc/self/stat").value_or(-1);
  std::error_code error;
  std::filesystem::directory_iterator folder(scope.root + "/proc", error);
  for (; !error && folder != std::filesystem::directory_iterator(); folder.increment(error)) {
    const auto name = folder->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto number = std::atoll(name.c_str());
    if (number == self) continue;
    const auto line = first_line(folder->path().string() + "/stat");
    if (!line) continue;
    // "PID (NAME) STATE ...": the name can hold anything, parentheses included.
    const auto name_end = line->rfind(')');
    long long user = 0;
    long long system = 0;
    if (name_end == std::string::npos ||
        std::sscanf(line->c_str() + name_end + 1,
                    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user,
                    &system) != 2) {
      continue;
    }
    times.emplace_back(number, static_cast<double>(user + system) * tick_seconds());
  }
  std::sort(times.begin(), times.end());
  return times;
}

double own_processor_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(who, &usage) != 0) continue;
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    }
  }
  return seconds;
}

std::optional<double> difference(std::optional<double> after, std::optional<double> before) {
  if (!after || !before) return std::nullopt;
  return std::max(0.0, *after - *before);
}

std::optional<std::int64_t> difference(std::optional<std::int64_t> after,
                                       std::optional<std::int64_t> before) {
  if (!after || !before) return std::nullopt;
  return std::max<std::int64_t>(0, *after - *before);
}

/// How many processors the work of other processes kept busy.
std::optional<double> foreign_cpus(const Activity& before, const Activity& after, double seconds,
                                   std::size_t cpus) {
  const auto busy = difference(after.busy_seconds, before.busy_seconds);
  if (!busy || seconds <= 0 || cpus == 0) return std::nullopt;
  const double foreign = *busy - (after.own_seconds - before.own_seconds);
  const auto idle = difference(after.idle_seconds, before.idle_seconds);
  // Ticks are coarse: in a short time they can add up to more than there was.
  const double most = *busy + idle.value_or(0);
  return std::clamp(foreign, 0.0, most) / std::max(seconds, most / static_cast<double>(cpus));
}

std::optional<double> stolen_share(const Activity& before, const Activity& after) {
  const auto stolen = difference(after.stolen_seconds, before.stolen_seconds);
  const auto busy = difference(after.busy_seconds, before.busy_seconds);
  if (!stolen || !busy) return std::nullopt;
  const double wanted = *stolen + *busy;
  return wanted > 0 ? *stolen / wanted : 0.0;
}

double foreign_limit(std::size_t cpus) {
  return kForeignCpus + kForeignShareOfCpus * static_cast<double>(cpus);
}

// --- Conditions --------------------------------------------------------------------------------

using Conditions = std::vector<Condition>;

void add(Conditions& list, const char* check, State state, std::string detail) {
  list.push_back({check, state, std::move(detail)});
}

State judged(bool bad) { return bad ? State::doubtful : State::good; }

constexpr const char* kNotWatched = "not watched for long enough to judge";

void check_governor(const CheckScope& scope, Conditions& list) {
  std::map<std::string, int> governors;
  for (const int cpu : scope.cpus) {
    if (const auto name = first_line(cpu_folder(scope, cpu) + "cpufreq/scaling_governor")) {
      ++governors[*name];
    }
  }
  if (governors.empty()) {
    return add(list, "governor", State::unknown,
               "the system shows no clock control, as in most virtual machines");
  }
  std::string text;
  for (const auto& [name, count] : governors) {
    text += (text.empty() ? "" : ", ") + name + " on " + counted(count, "CPU", "CPUs");
  }
  const bool good = governors.size() == 1 && governors.begin()->first == "performance";
  add(list, "governor", judged(!good),
      good ? "performance on every CPU"
           : text +
                 ": clocks follow the load with a delay; 'cpupower frequency-set -g performance' "
                 "keeps them up");
}

std::optional<bool> boost_is_on(const CheckScope& scope) {
  const auto folder = scope.root + "/sys/devices/system/cpu/";
  if (const auto boost = integer_in(folder + "cpufreq/boost")) return *boost != 0;
  if (const auto off = integer_in(folder + "intel_pstate/no_turbo")) return *off == 0;
  return std::nullopt;
}

void check_clocks(const CheckScope& scope, Conditions& list) {
  const auto boost = boost_is_on(scope);
  if (!boost) {
    add(list, "boost", State::unknown, "the system does not report whether clocks are boosted");
  } else {
    add(list, "boost", State::good,
        *boost ? "on: the clock depends on temperature and on how many cores work; off would vary "
                 "least, and be slower"
               : "off");
  }
  int known = 0;
  int limited = 0;
  double lowest = 1;
  for (const int cpu : scope.cpus) {
    const auto folder = cpu_folder(scope, cpu) + "cpufreq/";
    const auto limit = integer_in(folder + "scaling_max_freq");
    const auto highest = integer_in(folder + "cpuinfo_max_freq");
    if (!limit || !highest || *highest <= 0) continue;
    ++known;
    const double share = static_cast<double>(*limit) / static_cast<double>(*highest);
    lowest = std::min(lowest, share);
    if (share < kFullClock) ++limited;
  }
  if (known == 0) {
    add(list, "clock_limit", State::unknown, "the system does not report the limits of the clock");
  } else if (limited > 0 && boost.value_or(true)) {
    add(list, "clock_limit", State::doubtful,
        counted(limited, "CPU is", "CPUs are") +
            formatted(" held to %.0f %% of the highest clock; 'cpupower frequency-set -u' with "
                      "cpuinfo_max_freq lifts that",
                      100 * lowest));
  } else {
    add(list, "clock_limit", State::good,
        limited > 0 ? "the highest clock without boost" : "no limit below the highest clock");
  }
}

void check_siblings(const CheckScope& scope, Conditions& list) {
  const std::set<int> mine(scope.cpus.begin(), scope.cpus.end());
  std::set<std::set<int>> cores;
  std::size_t widest = 0;
  int shared_with_others = 0;
  for (const int cpu : scope.cpus) {
    const auto line = first_line(cpu_folder(scope, cpu) + "topology/thread_siblings_list");
    const auto siblings = parse_cpu_list(line.value_or(""));
    if (siblings.empty()) continue;
    widest = std::max(widest, siblings.size());
    cores.insert(siblings);
    if (std::any_of(siblings.begin(), siblings.end(),
                    [&](int sibling) { return mine.count(sibling) == 0; })) {
      ++shared_with_others;
    }
  }
  if (cores.empty()) {
    return add(list, "smt", State::unknown, "the system does not report which CPUs share a core");
  }
  if (widest == 1) return add(list, "smt", State::good, "no two CPUs share a core");
  const auto count = static_cast<int>(cores.size());
  if (scope.threads > count) {
    return add(list, "smt", State::doubtful,
               counted(scope.threads, "thread", "threads") + " on " +
                   counted(count, "core", "cores") + ": some threads share a core; '--threads " +
                   std::to_string(count) + "' gives each its own");
  }
  std::string text =
      counted(scope.threads, "thread", "threads") + " on " + counted(count, "core", "cores");
  if (shared_with_others > 0) {
    text += "; work on the other hardware threads of " +
            counted(shared_with_others, "CPU", "CPUs") + " would slow them down";
  }
  add(list, "smt", State::good, text);
}

void check_memory_settings(const CheckScope& scope, Conditions& list) {
  int nodes = 0;
  const auto node = [&] {
    return scope.root + "/sys/devices/system/node/node" + std::to_string(nodes);
  };
  while (::access(node().c_str(), F_OK) == 0) ++nodes;
  const auto balancing = integer_in(scope.root + "/proc/sys/kernel/numa_balancing");
  if (nodes == 1 || (balancing && *balancing == 0)) {
    add(list, "numa_balancing", State::good, nodes == 1 ? "one memory node" : "off");
  } else if (!balancing) {
    add(list, "numa_balancing", State::unknown,
        "the system does not report whether it moves pages between memory nodes");
  } else {
    add(list, "numa_balancing", State::doubtful,
        "on, with " + counted(nodes, "memory node", "memory nodes") +
            ": the kernel unmaps and moves pages while they are used; 'sysctl "
            "kernel.numa_balancing=0' stops that");
  }
  const auto line = first_line(scope.root + "/sys/kernel/mm/transparent_hugepage/enabled");
  if (!line) {
    add(list, "huge_pages", State::unknown, "the system does not report it");
  } else {
    const bool never = line->find("[never]") != std::string::npos;
    const auto begin = line->find('[');
    const auto end = line->find(']');
    const std::string mode = begin != std::string::npos && end != std::string::npos && end > begin
                                 ? line->substr(begin + 1, end - begin - 1)
                                 : "of an unknown mode";
    add(list, "huge_pages", judged(never),
        never ? "never given: large data cost more misses of the address cache than elsewhere; "
                "'madvise' in /sys/kernel/mm/transparent_hugepage/enabled allows them"
              : mode);
  }
}

void check_clock_source(const CheckScope& scope, Conditions& list) {
  const auto source =
      first_line(scope.root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return add(list, "clock_source", State::unknown, "the system does not report it");
  static const std::set<std::string> kSlow{"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"};
  const bool slow = kSlow.count(*source) != 0;
  add(list, "clock_source", judged(slow),
      slow ? *source + ": reading it takes a system call or has coarse steps; tsc would be right"
           : *source);
}

/// OpenBLAS takes processors that are newer than itself for old ones.
void check_openblas(const CheckScope& scope, Conditions& list) {
  if (scope.openblas_core.empty() || scope.instructions.empty()) {
    return add(list, "openblas", State::unknown, "there is none, or a processor is not known");
  }
  static const std::set<std::string> kWithoutAvx{
      "Katmai",       "Coppermine", "Northwood", "Prescott", "Banias", "Core2",
      "Penryn",       "Dunnington", "Atom",      "Nehalem",  "Athlon", "Opteron",
      "Opteron_SSE3", "Barcelona",  "Bobcat",    "Nano"};
  const bool has_avx = scope.instructions.starts_with("avx");
  const bool old = has_avx && kWithoutAvx.count(scope.openblas_core) != 0;
  add(list, "openblas", judged(old),
      old ? "it does not know this processor and uses kernels of a " + scope.openblas_core +
                ", without AVX: a newer OpenBLAS would multiply matrices faster"
          : "kernels of " + scope.openblas_core);
}

void check_scarce_memory(const CheckScope& scope, std::optional<double> stall,
                         std::optional<std::int64_t> swapped, double seconds, bool watched,
                         Conditions& list) {
  const auto kilobytes = [&](const char* name) {
    return number_after(scope.root + "/proc/meminfo", name);
  };
  const auto total = kilobytes("MemTotal:");
  const auto available = kilobytes("MemAvailable:");
  const auto swap = difference(kilobytes("SwapTotal:"), kilobytes("SwapFree:"));
  if (!total || !available) {
    return add(list, "memory", State::unknown, "the system does not report it");
  }
  const double left = static_cast<double>(*available) / static_cast<double>(*total);
  const std::string in_use = swap.value_or(0) > 0
                                 ? formatted(", %.0f MiB of swap in use", *swap / 1024.0)
                                 : ", no swap in use";
  if (watched && swapped.value_or(0) > 0) {
    add(list, "memory", State::doubtful,
        counted(*swapped, "page was", "pages were") +
            " swapped meanwhile: end what fills the memory, or 'swapoff -a'");
  } else if (watched && stall.value_or(0) / seconds > kMemoryStall) {
    add(list, "memory", State::doubtful,
        formatted("tasks waited for memory during %.0f %% of the time: end what fills it",
                  100 * *stall / seconds));
  } else if (left < kScarceMemory) {
    add(list, "memory", State::doubtful,
        formatted("only %.1f %% of it is available", 100 * left) + in_use + ": end what fills it");
  } else {
    add(list, "memory", State::good, formatted("%.0f %% available", 100 * left) + in_use);
  }
}

void check_stall(const char* check, const char* what, const char* remedy,
                 std::optional<double> stall, double seconds, double limit, bool watched,
                 Conditions& list) {
  if (!watched) return add(list, check, State::unknown, kNotWatched);
  if (!stall) return add(list, check, State::unknown, "the kernel does not count stalls");
  const double share = std::min(1.0, *stall / seconds);
  const bool bad = share > limit;
  add(list, check, judged(bad),
      formatted("tasks waited for %s during %.0f %% of the time", what, 100 * share) +
          (bad ? remedy : ""));
}

void check_steal(const Activity& before, const Activity& after, bool watched, Conditions& list) {
  if (!after.stolen_seconds || !after.busy_seconds) {
    return add(list, "steal", State::unknown, "the system does not report it");
  }
  const double now = stolen_share(before, after).value_or(0);
  const double seconds = difference(after.stolen_seconds, before.stolen_seconds).value_or(0);
  const double since_start =
      stolen_share(Activity{{0}, {0}, {0}, 0, {}, {}, {}}, after).value_or(0);
  const bool bad_now = watched && now > kStolen && seconds >= 0.03;
  const bool bad = bad_now || since_start > kStolen;
  const std::string text =
      bad_now ? formatted("the host withheld %.2f s, %.0f %% of the processor time that was wanted",
                          seconds, 100 * now)
              : formatted("the host withheld %.1f %% of the processor time wanted since the start",
                          100 * since_start);
  add(list, "steal", judged(bad),
      bad ? text + ": other guests are busy; use processors of your own" : text);
}

void check_heat(const Activity& before, const Activity& after, bool watched, Conditions& list) {
  if (!after.heat_throttles) {
    return add(list, "thermal", State::unknown, "the system does not count thermal events");
  }
  const auto now = difference(after.heat_throttles, before.heat_throttles).value_or(0);
  if (watched && now > 0) {
    return add(list, "thermal", State::doubtful,
               "the processor lowered its clock because of heat " + counted(now, "time", "times") +
                   " meanwhile: let it cool, and look at its fans");
  }
  add(list, "thermal", State::good,
      "not throttled now; " + counted(*after.heat_throttles, "event", "events") +
          " since the start");
}

void check_quota(const CheckScope& scope, const Activity& before, const Activity& after,
                 bool watched, Conditions& list) {
  const auto quota = cgroup_limits(scope.root).cpus;
  const auto now = difference(after.quota_throttles, before.quota_throttles).value_or(0);
  if (watched && now > 0) {
    return add(list, "cpu_quota", State::doubtful,
               "the control group's CPU quota was used up " + counted(now, "time", "times") +
                   " meanwhile: raise it, or stop other processes of the same group");
  }
  if (!quota) return add(list, "cpu_quota", State::good, "no quota");
  const bool too_many = scope.threads > *quota;
  add(list, "cpu_quota", judged(too_many),
      formatted("a quota of %.2f CPUs for %d threads, used up %lld times so far", *quota,
                scope.threads, static_cast<long long>(after.quota_throttles.value_or(0))) +
          (too_many ? ": threads will be stopped; use fewer, or raise it" : ""));
}

void check_use(const CheckScope& scope, const Activity& before, const Activity& after,
               std::int64_t busy_processes, double seconds, bool watched, Conditions& list) {
  const std::size_t cpus = scope.cpus.size();
  const auto foreign = foreign_cpus(before, after, seconds, cpus);
  std::optional<bool> busy;
  if (!watched) {
    add(list, "cpu_use", State::unknown, kNotWatched);
  } else if (!foreign) {
    add(list, "cpu_use", State::unknown, "the system does not report it");
  } else {
    busy = *foreign > foreign_limit(cpus);
    std::string text = formatted("others used %.2f of %zu CPUs", *foreign, cpus);
    if (*busy) {
      text += " (" + counted(busy_processes, "process", "processes") +
              formatted(" in sight with more than %.0f %% of a CPU)", 100 * kBusyProcess) +
              ": end them, or wait for their end";
    }
    add(list, "cpu_use", judged(*busy), text);
  }
  const auto line = first_line(scope.root + "/proc/loadavg");
  double load = 0;
  if (!line || std::sscanf(line->c_str(), "%lf", &load) != 1) {
    return add(list, "load", State::unknown, "the system does not report it");
  }
  // The load average covers the last minute, so it may still show a build that has just ended.
  const bool high = load > static_cast<double>(cpus);
  add(list, "load", judged(high && busy.value_or(true)),
      formatted("load average %.2f on %zu CPUs", load, cpus) +
          (!high                 ? ""
           : busy.value_or(true) ? ": more work than CPUs within the last minute; wait for its end"
                                 : ", of work that has ended"));
}

// --- GPU ---------------------------------------------------------------------------------------

constexpr const char* kNotReported = "the driver does not report it";

void check_gpu_clocks(const json& state, Conditions& list) {
  const auto reasons = detail::throttle_reasons_in(state);
  std::string throttles;
  bool chosen = false;
  for (const auto& reason : reasons) {
    if (detail::is_throttle(reason)) throttles += (throttles.empty() ? "" : ", ") + reason;
    chosen = chosen || reason == "applications_clocks_setting";
  }
  if (!state.is_object() || !state.contains("throttled") || state.at("throttled").is_null()) {
    add(list, "gpu_throttle", State::unknown, kNotReported);
  } else {
    add(list, "gpu_throttle", judged(!throttles.empty()),
        throttles.empty() ? "not throttled"
                          : "throttled (" + throttles +
                                "): wait until it is not, or look at power supply and cooling");
  }
  // A lock by `nvidia-smi --lock-gpu-clocks` cannot be queried, so this only informs.
  add(list, "gpu_clocks", state.is_object() ? State::good : State::unknown,
      !state.is_object() ? kNotReported
      : chosen           ? "held to the application clocks that somebody set"
                         : "not known to be locked: they follow load and temperature; 'nvidia-smi "
                           "--lock-gpu-clocks' would vary least");
}

}  // namespace

const char* to_string(Condition::State state) {
  switch (state) {
    case State::good: return "good";
    case State::doubtful: return "doubtful";
    case State::unknown: break;
  }
  return "unknown";
}

json to_json(const std::vector<Condition>& conditions) {
  json list = json::array();
  for (const auto& condition : conditions) {
    list.push_back({{"check", condition.check},
                    {"state", to_string(condition.state)},
                    {"detail", condition.detail}});
  }
  return list;
}

CheckScope check_scope(int threads, const json& machine) {
  CheckScope scope;
  scope.cpus = allowed_cpus();
  scope.threads = threads;
  if (const GpuDevice* gpu = current_gpu()) {
    scope.gpu_uuid = gpu->uuid;
  } else if (machine.contains("gpus") && !machine.at("gpus").empty()) {
    // Variants in Python can use it although this program was built without CUDA.
    const json uuid = machine.at("gpus").front().value("uuid", json());
    if (uuid.is_string()) scope.gpu_uuid = uuid.get<std::string>();
  }
  const auto text = [&](std::initializer_list<const char*> keys) {
    const json& found = member(machine, keys);
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  scope.instructions = text({"cpu", "instructions"});
  scope.openblas_core = text({"libraries", "openblas", "core"});
  return scope;
}

Activity read_activity(const CheckScope& scope) {
  Activity activity;
  const CpuTimes times = cpu_times(scope);
  if (times.cpus > 0 && times.busy + times.idle > 0) {
    activity.busy_seconds = times.busy;
    activity.idle_seconds = times.idle;
    activity.stolen_seconds = times.stolen;
  }
  // The trees of files that tests make up do not contain this process's work.
  if (scope.root.empty()) activity.own_seconds = own_processor_seconds();
  activity.heat_throttles = heat_throttles(scope);
  read_quota(scope, activity);
  return activity;
}

json activity_between(const Activity& before, const Activity& after, double seconds, int threads,
                      std::size_t cpus) {
  return {{"seconds", seconds},
          {"threads", threads},
          {"cpus", cpus},
          {"others_cpus", or_null(foreign_cpus(before, after, seconds, cpus))},
          {"stolen_seconds", or_null(difference(after.stolen_seconds, before.stolen_seconds))},
          {"stolen_share", or_null(stolen_share(before, after))},
          {"heat_throttles", or_null(difference(after.heat_throttles, before.heat_throttles))},
          {"quota_throttles", or_null(difference(after.quota_throttles, before.quota_throttles))},
          {"quota_seconds", or_null(difference(after.quota_seconds, before.quota_seconds))}};
}

std::vector<std::string> activity_doubts(const std::vector<json>& activities) {
  struct Worst {
    double value = 0;
    std::string sentence;
    void take(double other, std::string text) {
      if (other <= value) return;
      value = other;
      sentence = std::move(text);
    }
  };
  Worst others;
  Worst stolen;
  Worst quota;
  double heat = 0;
  for (const auto& activity : activities) {
    const double seconds = number_in(activity, "seconds").value_or(0);
    if (seconds <= 0) continue;
    const double threads = number_in(activity, "threads").value_or(1);
    const double cpus = number_in(activity, "cpus").value_or(1);
    const double foreign = number_in(activity, "others_cpus").value_or(0);
    // Others may use the CPUs that the cell leaves free.
    const double excess = foreign + std::min(threads, cpus) - cpus;
    if (seconds >= kShortestMetered && excess > foreign_limit(static_cast<std::size_t>(cpus))) {
      others.take(excess, formatted("other processes used %.2f of %.0f CPUs while it ran with "
                                    "%.0f %s",
                                    foreign, cpus, threads, threads == 1 ? "thread" : "threads"));
    }
    const double share = number_in(activity, "stolen_share").value_or(0);
    if (share > kStolen &&
        number_in(activity, "stolen_seconds").value_or(0) >= kLeastStolenSeconds) {
      stolen.take(share, formatted("the host of this virtual machine withheld %.0f %% of the "
                                   "processor time that was wanted",
                                   100 * share));
    }
    const double stops = number_in(activity, "quota_throttles").value_or(0);
    const double stopped = number_in(activity, "quota_seconds").value_or(seconds);
    if (stops > 0 && stopped >= kQuotaStop * seconds) {
      quota.take(stops, formatted("the control group's CPU quota was used up %.0f times while it "
                                  "ran",
                                  stops));
    }
    heat += number_in(activity, "heat_throttles").value_or(0);
  }
  std::vector<std::string> sentences;
  for (const Worst* worst : {&others, &stolen, &quota}) {
    if (!worst->sentence.empty()) sentences.push_back(worst->sentence);
  }
  if (heat > 0) {
    sentences.push_back(formatted(
        "the processor lowered its clock because of heat while it ran (%.0f events)", heat));
  }
  return sentences;
}

MachineWatch::MachineWatch(CheckScope scope) : scope_(std::move(scope)), before_(read()) {}

MachineWatch::Counters MachineWatch::read() const {
  Counters counters;
  counters.processes = process_times(scope_);
  counters.cpu_stall_seconds = stall_seconds(scope_, "cpu");
  counters.memory_stall_seconds = stall_seconds(scope_, "memory");
  counters.io_stall_seconds = stall_seconds(scope_, "io");
  counters.swapped_pages = swapped_pages(scope_);
  counters.activity = read_activity(scope_);
  return counters;
}

std::vector<Condition> MachineWatch::conditions(double seconds) const {
  const Counters after = read();
  const bool watched = seconds >= kShortestWatch;
  std::int64_t busy_processes = 0;
  for (const auto& [number, time] : after.processes) {
    const auto found = std::lower_bound(before_.processes.begin(), before_.processes.end(),
                                        std::pair<std::int64_t, double>{number, 0.0});
    const double earlier =
        found != before_.processes.end() && found->first == number ? found->second : 0;
    // Less time than before: the number now belongs to a new process, which started at zero.
    const double used = time >= earlier ? time - earlier : time;
    if (used > kBusyProcess * seconds) ++busy_processes;
  }
  Conditions list;
  check_use(scope_, before_.activity, after.activity, busy_processes, seconds, watched, list);
  check_stall("cpu_pressure", "a CPU", ": stop other processes",
              difference(after.cpu_stall_seconds, before_.cpu_stall_seconds), seconds, kCpuStall,
              watched, list);
  check_steal(before_.activity, after.activity, watched, list);
  check_quota(scope_, before_.activity, after.activity, watched, list);
  check_heat(before_.activity, after.activity, watched, list);
  check_scarce_memory(scope_, difference(after.memory_stall_seconds, before_.memory_stall_seconds),
                      difference(after.swapped_pages, before_.swapped_pages), seconds, watched,
                      list);
  check_stall("io_pressure", "a disk", ": wait for its end",
              difference(after.io_stall_seconds, before_.io_stall_seconds), seconds, kIoStall,
              watched, list);
  check_governor(scope_, list);
  check_clocks(scope_, list);
  check_siblings(scope_, list);
  check_memory_settings(scope_, list);
  check_clock_source(scope_, list);
  check_openblas(scope_, list);
  if (!scope_.gpu_uuid.empty()) {
    for (auto& condition : detail::gpu_conditions(gpu_state(scope_.gpu_uuid),
                                                  detail::gpu_settings(scope_.gpu_uuid))) {
      list.push_back(std::move(condition));
    }
  }
  if (const GpuDevice* gpu = current_gpu(); gpu != nullptr && gpu->uuid == scope_.gpu_uuid) {
    list.push_back(detail::gpu_code(gpu_status(), *gpu));
  }
  return list;
}

std::vector<Condition> check_machine(const CheckScope& scope, double seconds) {
  using Clock = std::chrono::steady_clock;
  const MachineWatch watch(scope);
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (elapsed() < seconds && !InterruptGuard::interrupted()) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(0.05, std::max(0.001, seconds - elapsed()))));
  }
  return watch.conditions(elapsed());
}

const std::vector<std::string>& check_names() {
  static const std::vector<std::string> kNames{"cpu_use",
                                               "load",
                                               "cpu_pressure",
                                               "steal",
                                               "cpu_quota",
                                               "thermal",
                                               "memory",
                                               "io_pressure",
                                               "governor",
                                               "boost",
                                               "clock_limit",
                                               "smt",
                                               "numa_balancing",
                                               "huge_pages",
                                               "clock_source",
                                               "openblas",
                                               "gpu",
                                               "gpu_processes",
                                               "gpu_use",
                                               "gpu_throttle",
                                               "gpu_clocks",
                                               "gpu_power_limit",
                                               "gpu_temperature",
                                               "gpu_ecc",
                                               "gpu_persistence",
                                               "gpu_code"};
  return kNames;
}

void add_check_options(CLI::App& command, CheckOptions& options) {
  command
      .add_option("--check-seconds", options.seconds,
                  "How long to watch the machine before; 0: only its settings are looked at")
      ->check(number_within(0, 600))
      ->capture_default_str();
  command
      .add_option("--accept", options.accepted,
                  "Conditions that may be doubtful, by name (docs/machine.md), comma-separated")
      ->delimiter(',')
      ->check(CLI::IsMember(check_names()));
}

std::vector<std::string> doubtful(const std::vector<Condition>& conditions,
                                  const std::vector<std::string>& accepted) {
  std::vector<std::string> sentences;
  for (const auto& condition : conditions) {
    const bool excused =
        std::find(accepted.begin(), accepted.end(), condition.check) != accepted.end();
    if (condition.state == State::doubtful && !excused) {
      sentences.push_back(condition.check + ": " + condition.detail);
    }
  }
  return sentences;
}

namespace detail {

Condition gpu_code(const GpuStatus& build, const GpuDevice& gpu) {
  const std::string capability = std::to_string(gpu.major) + "." + std::to_string(gpu.minor);
  Conditions list;
  if (runs_on(build.built_for, 0, gpu.major, gpu.minor)) {
    add(list, "gpu_code", State::good, "machine code for compute capability " + capability);
  } else {
    add(list, "gpu_code", State::doubtful,
        "the kernels were not compiled for compute capability " + capability +
            ": the driver translates what was made for an older one; build where the GPU is, or "
            "set "
            "KMEANS_CUDA_ARCHITECTURES=native");
  }
  return list.front();
}

std::vector<Condition> gpu_conditions(const json& state, const json& settings) {
  Conditions list;
  if (!state.is_object() && !settings.is_object()) {
    add(list, "gpu", State::unknown, "the driver's management library reports nothing on the GPU");
    return list;
  }
  if (const auto others = number_in(state, "other_processes")) {
    add(list, "gpu_processes", judged(*others > 0),
        *others > 0 ? counted(static_cast<std::int64_t>(*others), "other process has",
                              "other processes have") +
                          " a context on the GPU: end them"
                    : "none but its own");
  } else {
    add(list, "gpu_processes", State::unknown,
        std::string(kNotReported) + ", as in a container; gpu_use may show them");
  }
  if (const auto use = number_in(state, "utilisation_percent")) {
    const bool busy = *use >= kGpuBusyPercent;
    add(list, "gpu_use", judged(busy),
        formatted("busy for %.0f %% of the last second", *use) +
            (busy ? " with work of others: wait for its end" : ""));
  } else {
    add(list, "gpu_use", State::unknown, kNotReported);
  }
  check_gpu_clocks(state, list);
  const auto limit = number_in(state, "power_limit_watts");
  const auto usual = number_in(settings, "default_power_limit_watts");
  if (limit && usual && *usual > 0) {
    const bool low = *limit < kFullPower * *usual;
    add(list, "gpu_power_limit", judged(low),
        formatted("%.0f of %.0f W", *limit, *usual) +
            (low ? formatted(": 'nvidia-smi --power-limit=%.0f' lifts it", *usual) : ""));
  } else {
    add(list, "gpu_power_limit", State::unknown, kNotReported);
  }
  const auto temperature = number_in(state, "temperature_celsius");
  const auto slowdown = number_in(settings, "slowdown_celsius");
  if (temperature && slowdown) {
    const bool hot = *temperature > *slowdown - kGpuMarginCelsius;
    add(list, "gpu_temperature", judged(hot),
        formatted("%.0f degrees Celsius, slows down at %.0f", *temperature, *slowdown) +
            (hot ? ": let it cool first" : ""));
  } else {
    add(list, "gpu_temperature", State::unknown,
        temperature ? formatted("%.0f degrees Celsius; ", *temperature) +
                          "the driver does not report at which it slows down"
                    : std::string(kNotReported));
  }
  if (const auto errors = number_in(state, "ecc_uncorrected")) {
    add(list, "gpu_ecc", judged(*errors > 0),
        *errors > 0 ? counted(static_cast<std::int64_t>(*errors), "uncorrectable memory error",
                              "uncorrectable memory errors") +
                          " since the driver was loaded: reset or replace the GPU"
                    : "no uncorrectable memory errors");
  } else {
    add(list, "gpu_ecc", State::unknown, kNotReported);
  }
  if (const auto persistence = number_in(settings, "persistence_mode")) {
    add(list, "gpu_persistence", judged(*persistence == 0),
        *persistence == 0 ? "off: the driver may unload between processes, and start-up is slow; "
                            "'nvidia-smi --persistence-mode=1' keeps it"
                          : "on");
  } else {
    add(list, "gpu_persistence", State::unknown, kNotReported);
  }
  return list;
}

}  // namespace detail

}  // namespace kmeans
