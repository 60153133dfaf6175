// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/machine.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/Version.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "harness/machine/ceilings.h"
#include "harness/machine/environment.h"
#include "harness/machine/kernel_files.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/granted.h"
#include "harness/support/hash.h"
#include "harness/support/machine_process.h"
#include "harness/support/memory_left.h"
#include "harness/support/or_null.h"
#include "harness/support/text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kmeans {
namespace {

using nlohmann::json;

// Which CPUs this process was given, read before any library is initialised: with OMP_PROC_BIND or
// GOMP_CPU_AFFINITY an OpenMP runtime binds the first thread as it is loaded, and afterwards nobody
// knows what the process was allowed before.
constexpr std::size_t kAffinityWords = 1024;

struct Affinity {
  unsigned long words[kAffinityWords] = {};
  long bytes = 0;
};
Affinity affinity_at_start;

/// Bytes of the mask written, or 0. By system call: sanitizers are not yet up when this runs first.
__attribute__((no_sanitize("address", "undefined", "thread"))) long read_affinity(
    unsigned long* words) {
  const long bytes = syscall(SYS_sched_getaffinity, 0, kAffinityWords * sizeof *words, words);
  return bytes > 0 ? bytes : 0;
}

__attribute__((no_sanitize("address", "undefined", "thread"))) void remember_affinity() {
  affinity_at_start.bytes = read_affinity(affinity_at_start.words);
}

__attribute__((section(".preinit_array"),
               used)) void (*run_before_all_libraries)() = &remember_affinity;

std::vector<int> cpus_of(const unsigned long* words, long bytes) {
  constexpr int kBits = static_cast<int>(8 * sizeof *words);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < 8 * bytes; ++cpu) {
    if ((words[cpu / kBits] >> (cpu % kBits) & 1UL) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

/// "2048K", "480M" or plain bytes.
std::optional<std::int64_t> parse_size(const std::string& text) {
  auto size = parse_integer(text);
  if (!size || text.empty()) return std::nullopt;
  switch (text.back()) {
    case 'K': return *size << 10;
    case 'M': return *size << 20;
    case 'G': return *size << 30;
    default: return size;
  }
}

/// The "name : value" lines of the first processor in /proc/cpuinfo.
std::map<std::string, std::string> read_cpuinfo() {
  std::map<std::string, std::string> facts;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.empty()) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    facts.emplace(trimmed(line.substr(0, colon)), valid_utf8(trimmed(line.substr(colon + 1))));
  }
  return facts;
}

std::optional<std::string> fact(const std::map<std::string, std::string>& facts,
                                const std::string& name) {
  const auto found = facts.find(name);
  if (found == facts.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

/// A line such as "MemTotal:  24000 kB" of /proc/meminfo, in bytes.
std::optional<std::int64_t> memory_fact(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.compare(0, name.size() + 1, name + ":") != 0) continue;
    const auto kilobytes = parse_integer(trimmed(line.substr(name.size() + 1)));
    if (kilobytes) return *kilobytes * 1024;
  }
  return std::nullopt;
}

std::string cpu_folder(int cpu) {
  return "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
}

struct Topology {
  int physical_cores = 0;  ///< distinct cores behind the allowed CPUs
  int smt_siblings = 1;    ///< hardware threads of one core
};

Topology read_topology(const std::vector<int>& cpus) {
  Topology topology;
  std::set<std::pair<std::int64_t, std::int64_t>> cores;
  for (const int cpu : cpus) {
    const auto folder = cpu_folder(cpu) + "topology/";
    const auto core = integer_in(folder + "core_id");
    if (!core) continue;
    cores.emplace(integer_in(folder + "physical_package_id").value_or(0), *core);
    if (const auto siblings = first_line(folder + "thread_siblings_list")) {
      topology.smt_siblings =
          std::max(topology.smt_siblings, static_cast<int>(parse_cpu_list(*siblings).size()));
    }
  }
  topology.physical_cores = static_cast<int>(cores.empty() ? cpus.size() : cores.size());
  return topology;
}

struct Cache {
  int level = 0;
  std::string type;
  std::int64_t bytes = 0;  ///< of one instance; 0: the system does not say
  int shared_by = 1;       ///< hardware threads
  int instances = 0;       ///< that the allowed CPUs see
};

std::vector<Cache> read_caches(const std::vector<int>& cpus, const std::string& root = "") {
  std::map<std::pair<int, std::string>, Cache> caches;
  std::set<std::string> seen;
  for (const int cpu : cpus) {
    for (int index = 0; index < 16; ++index) {
      const auto folder = root + cpu_folder(cpu) + "cache/index" + std::to_string(index) + "/";
      const auto level = integer_in(folder + "level");
      const auto type = first_line(folder + "type");
      const auto size = first_line(folder + "size");
      const auto bytes = size ? parse_size(*size) : std::nullopt;
      if (!level || !type) break;
      const auto sharers = first_line(folder + "shared_cpu_list").value_or(std::to_string(cpu));
      auto& cache = caches[{static_cast<int>(*level), *type}];
      cache.level = static_cast<int>(*level);
      cache.type = *type;
      cache.bytes = std::max<std::int64_t>(bytes.value_or(0), 0);
      cache.shared_by = std::max(cache.shared_by, static_cast<int>(parse_cpu_list(sharers).size()));
      if (seen.insert(std::to_string(*level) + *type + sharers).second) ++cache.instances;
    }
  }
  std::vector<Cache> result;
  for (const auto& entry : caches) result.push_back(entry.second);
  return result;
}

std::string lower(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Instruction sets that decide how fast k-means can be, in the kernel's spelling.
json instruction_flags(const std::map<std::string, std::string>& cpuinfo) {
  static const char* const kFlags[] = {"sse2",        "ssse3",        "sse4_1",
                                       "sse4_2",      "popcnt",       "avx",
                                       "f16c",        "fma",          "avx2",
                                       "bmi2",        "avx_vnni",     "avx512f",
                                       "avx512bw",    "avx512cd",     "avx512dq",
                                       "avx512vl",    "avx512_vnni",  "avx512_bf16",
                                       "avx512_fp16", "avx512_vbmi2", "avx512_vpopcntdq",
                                       "amx_tile",    "amx_bf16",     "amx_int8",
                                       "amx_fp16",    "asimd",        "asimdhp",
                                       "asimddp",     "fphp",         "bf16",
                                       "i8mm",        "sve",          "sve2",
                                       "svebf16",     "sme"};
  const auto text = fact(cpuinfo, "flags").value_or(fact(cpuinfo, "Features").value_or(""));
  std::istringstream words(text);
  std::set<std::string> present;
  for (std::string word; words >> word;) present.insert(word);
  auto flags = json::array();
  for (const char* flag : kFlags) {
    if (present.count(flag) != 0) flags.push_back(flag);
  }
  return flags;
}

/// The widest set that matters for the machine's name.
std::string widest_instructions() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  if (__builtin_cpu_supports("avx2")) return "avx2";
  if (__builtin_cpu_supports("avx")) return "avx";
  return "sse2";
#elif defined(__aarch64__)
  return "neon";
#else
  return "";
#endif
}

#if defined(__x86_64__)
std::optional<std::string> hypervisor_name() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned e = 0;
  if (__get_cpuid(1, &a, &b, &c, &e) == 0 || (c >> 31) == 0) return std::nullopt;
  __cpuid(0x40000000, a, b, c, e);
  std::string name;
  for (const unsigned word : {b, c, e}) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      const char letter = static_cast<char>((word >> shift) & 0xffU);
      if (letter >= ' ' && letter <= '~') name += letter;
    }
  }
  name = trimmed(name);
  return name.empty() ? "unnamed" : name;
}

/// Base and highest clock rate in MHz as the processor states them.
std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> stated_clock_rates() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned e = 0;
  if (__get_cpuid(0x16, &a, &b, &c, &e) == 0) return {};
  const auto rate = [](unsigned value) -> std::optional<std::int64_t> {
    if ((value & 0xffffU) == 0) return std::nullopt;
    return value & 0xffffU;
  };
  return {rate(a), rate(b)};
}
#else
std::optional<std::string> hypervisor_name() { return first_line("/sys/hypervisor/type"); }
std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> stated_clock_rates() {
  return {};
}
#endif

std::string cpu_model(const std::map<std::string, std::string>& cpuinfo) {
  for (const char* name : {"model name", "Model", "cpu model", "Hardware"}) {
    if (const auto model = fact(cpuinfo, name)) return *model;
  }
  utsname system{};
  uname(&system);
  return system.machine;
}

std::string selected(const std::string& line) {
  const auto begin = line.find('[');
  const auto end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return line;
  return line.substr(begin + 1, end - begin - 1);
}

json describe_cpu(const CgroupLimits& limits) {
  const auto cpuinfo = read_cpuinfo();
  const auto cpus = allowed_cpus();
  const auto topology = read_topology(cpus);
  const auto stated = stated_clock_rates();

  auto caches = json::array();
  for (const auto& cache : read_caches(cpus)) {
    if (cache.bytes == 0) continue;
    caches.push_back({{"level", cache.level},
                      {"type", lower(cache.type)},
                      {"bytes", cache.bytes},
                      {"instances", cache.instances},
                      {"shared_by_threads", cache.shared_by}});
  }

  const auto clocks = cpu_folder(cpus.front()) + "cpufreq/";
  const auto megahertz = [&](const char* file) -> std::optional<std::int64_t> {
    const auto kilohertz = integer_in(clocks + file);
    if (!kilohertz) return std::nullopt;
    return *kilohertz / 1000;
  };
  auto base = megahertz("base_frequency");
  if (!base) base = stated.first;
  auto highest = megahertz("cpuinfo_max_freq");
  if (!highest) highest = stated.second;
  std::optional<std::int64_t> current = megahertz("scaling_cur_freq");
  if (!current) {
    if (const auto text = fact(cpuinfo, "cpu MHz"))
      current = std::llround(std::atof(text->c_str()));
  }

  int nodes = 0;
  while (access(("/sys/devices/system/node/node" + std::to_string(nodes)).c_str(), F_OK) == 0) {
    ++nodes;
  }
  utsname system{};
  uname(&system);
  return {{"model", cpu_model(cpuinfo)},
          {"vendor", or_null(fact(cpuinfo, "vendor_id"))},
          {"architecture", system.machine},
          {"physical_cores", topology.physical_cores},
          {"logical_cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"allowed_cpus", cpus.size()},
          {"cgroup_cpus", or_null(limits.cpus)},
          {"usable_threads", usable_threads()},
          {"smt_siblings", topology.smt_siblings},
          {"instructions", widest_instructions()},
          {"flags", instruction_flags(cpuinfo)},
          {"caches", caches},
          {"base_mhz", or_null(base)},
          {"max_mhz", or_null(highest)},
          {"current_mhz", or_null(current)},
          {"governor", or_null(first_line(clocks + "scaling_governor"))},
          {"boost", or_null(first_line("/sys/devices/system/cpu/cpufreq/boost"))},
          {"microcode", or_null(fact(cpuinfo, "microcode"))},
          {"numa_nodes", nodes > 0 ? json(nodes) : json(nullptr)},
          {"hypervisor", or_null(hypervisor_name())}};
}

json describe_memory(const CgroupLimits& limits) {
  std::optional<std::string> huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (huge) huge = selected(*huge);
  return {{"total_bytes", or_null(memory_fact("MemTotal"))},
          {"available_bytes", available_memory()},
          {"cgroup_limit_bytes", or_null(limits.memory_bytes)},
          {"page_bytes", sysconf(_SC_PAGESIZE)},
          {"transparent_huge_pages", or_null(huge)},
          {"swap_bytes", or_null(memory_fact("SwapTotal"))}};
}

json describe_os() {
  std::map<std::string, std::string> release;
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    const auto equals = line.find('=');
    if (equals != std::string::npos) {
      release.emplace(line.substr(0, equals), valid_utf8(trimmed(line.substr(equals + 1))));
    }
  }
  utsname system{};
  uname(&system);
  return {{"name", fact(release, "NAME").value_or(system.sysname)},
          {"version", or_null(fact(release, "VERSION_ID"))},
          {"kernel", valid_utf8(system.release)},
          {"libc", std::string("glibc ") + gnu_get_libc_version()}};
}

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

json describe_openmp() {
#ifdef _OPENMP
  for (const char* name : {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) {
      dlclose(library);
      return {{"runtime", name}, {"specification", _OPENMP}};
    }
  }
  return {{"runtime", nullptr}, {"specification", _OPENMP}};
#else
  return nullptr;
#endif
}

json describe_libraries() {
  json libraries{{"openblas", openblas_info()},
                 {"openmp", describe_openmp()},
                 {"eigen", nullptr},
                 {"google_benchmark", nullptr},
                 {"nlohmann_json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                          NLOHMANN_JSON_VERSION_PATCH)},
                 {"cli11", CLI11_VERSION},
                 {"cuda", build_info().cuda.empty() ? json(nullptr) : json(build_info().cuda)}};
#ifdef KMEANS_EIGEN_VERSION
  libraries["eigen"] = KMEANS_EIGEN_VERSION;
#endif
#ifdef KMEANS_BENCHMARK_VERSION
  libraries["google_benchmark"] = KMEANS_BENCHMARK_VERSION;
#endif
  return libraries;
}

/// One fact of nvidia-smi: null where it says that there is none.
json gpu_text(const std::string& field) {
  if (field.empty() || field.front() == '[' || field == "N/A") return nullptr;
  return valid_utf8(field);
}

json gpu_number(const std::string& field) {
  double value = 0;
  const auto result = std::from_chars(field.data(), field.data() + field.size(), value);
  if (result.ec != std::errc{} || result.ptr != field.data() + field.size()) return nullptr;
  return value;
}

json gpu_integer(const std::string& field, std::int64_t unit = 1) {
  const auto value = gpu_number(field);
  return value.is_null() ? json(nullptr) : json(std::llround(value.get<double>()) * unit);
}

struct GpuField {
  const char* query;
  const char* key;
  json (*convert)(const std::string&);
};
const GpuField kGpuFields[] = {
    {"name", "name", gpu_text},
    {"uuid", "uuid", gpu_text},
    {"driver_version", "driver", gpu_text},
    {"memory.total", "memory_bytes",
     [](const std::string& field) { return gpu_integer(field, 1 << 20); }},
    // Drivers of some years ago do not know all of these; then only the ones above are asked for.
    {"compute_cap", "compute_capability", gpu_text},
    {"clocks.max.sm", "max_sm_mhz", [](const std::string& field) { return gpu_integer(field); }},
    {"clocks.max.memory", "max_memory_mhz",
     [](const std::string& field) { return gpu_integer(field); }},
    {"power.limit", "power_limit_watts", gpu_number},
    {"ecc.mode.current", "ecc", gpu_text},
    {"mig.mode.current", "mig", gpu_text},
    {"persistence_mode", "persistence_mode", gpu_text},
};
constexpr std::size_t kBasicGpuFields = 4;

/// The rows of `--format=csv,noheader,nounits`; the problem is set if a row is not one of a GPU.
GpuQuery parse_gpus(const std::string& text, std::size_t fields) {
  GpuQuery query;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (trimmed(line).empty()) continue;
    const auto values = split(line, ", ");
    if (values.size() != fields || values[1].compare(0, 4, "GPU-") != 0) {
      query.problem = "nvidia-smi answered with something other than a list of GPUs";
      query.gpus = json::array();
      return query;
    }
    json gpu;
    for (std::size_t f = 0; f < std::size(kGpuFields); ++f) {
      gpu[kGpuFields[f].key] = f < fields ? kGpuFields[f].convert(values[f]) : json(nullptr);
    }
    query.gpus.push_back(gpu);
  }
  return query;
}

/// Asked once per $PATH: the answer does not change, and the driver can take seconds.
GpuQuery known_gpus() {
  static std::mutex mutex;
  static std::map<std::string, GpuQuery> answers;
  const std::lock_guard<std::mutex> lock(mutex);
  const char* path = std::getenv("PATH");
  const std::string key = path != nullptr ? path : "";
  auto found = answers.find(key);
  if (found == answers.end()) found = answers.emplace(key, query_gpus()).first;
  return found->second;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct CgroupMount {
  std::string folder;  ///< where it is mounted
  std::string root;    ///< which group the mount point shows
};

/// Where a hierarchy is mounted; `controller` empty: version 2.
std::optional<CgroupMount> find_cgroup_mount(const std::string& mountinfo,
                                             const std::string& controller) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    // "31 23 0:28 ROOT FOLDER options [tags] - TYPE source OPTIONS"
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string skipped;
    CgroupMount mount;
    std::string type;
    std::string source;
    std::string options;
    before >> skipped >> skipped >> skipped >> mount.root >> mount.folder;
    after >> type >> source >> options;
    if (controller.empty() ? type == "cgroup2" : type == "cgroup") {
      const auto names = split(options, ",");
      if (controller.empty() || std::find(names.begin(), names.end(), controller) != names.end()) {
        return mount;
      }
    }
  }
  return std::nullopt;
}

/// The folders of a group and of those above it, the innermost first.
std::vector<std::string> group_folders(const CgroupMount& mount, std::string group) {
  // A container sees only its own part of the tree, under the mount point.
  if (mount.root != "/") {
    if (group.compare(0, mount.root.size(), mount.root) == 0) {
      group.erase(0, mount.root.size());
    } else {
      group.clear();
    }
  }
  if (group.find("..") != std::string::npos) group.clear();
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(mount.folder + group);
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  folders.push_back(mount.folder);
  return folders;
}

/// A limit in bytes; version 1 writes a number near 2^63 for "none", version 2 "max".
std::optional<std::int64_t> memory_limit_in(const std::string& path) {
  const auto bytes = integer_in(path);
  if (!bytes || *bytes <= 0 || *bytes >= (std::int64_t{1} << 60)) return std::nullopt;
  return bytes;
}

std::optional<double> cpus_granted(std::optional<std::int64_t> quota,
                                   std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

void lower_to(std::optional<double>& limit, std::optional<double> other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const std::string& root) {
  std::vector<CgroupFolder> found;
  const auto mountinfo = read_text(root + "/proc/self/mountinfo");
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "4:memory:/group", or "0::/group" for version 2
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    for (const auto& controller : split(line.substr(first + 1, second - first - 1), ",")) {
      const auto mount = find_cgroup_mount(mountinfo, controller);
      if (!mount) continue;
      for (const auto& folder : group_folders(*mount, line.substr(second + 1))) {
        found.push_back({controller, root + folder + "/"});
      }
    }
  }
  return found;
}

CgroupLimits cgroup_limits(const std::string& root) {
  CgroupLimits limits;
  for (const auto& [controller, files] : cgroup_folders(root)) {
    const bool unified = controller.empty();
    if (!unified && controller != "cpu" && controller != "memory") continue;
    if (unified) {
      if (const auto line_of_two = first_line(files + "cpu.max")) {
        const auto parts = split(*line_of_two, " ");
        if (parts.size() == 2) {
          lower_to(limits.cpus, cpus_granted(parse_integer(parts[0]), parse_integer(parts[1])));
        }
      }
    } else if (controller == "cpu") {
      lower_to(limits.cpus, cpus_granted(integer_in(files + "cpu.cfs_quota_us"),
                                         integer_in(files + "cpu.cfs_period_us")));
    }
    const auto memory = memory_limit_in(files + (unified ? "memory.max" : "memory.limit_in_bytes"));
    if (memory && (!limits.memory_bytes || *memory < *limits.memory_bytes)) {
      limits.memory_bytes = memory;
      limits.memory_used_bytes =
          integer_in(files + (unified ? "memory.current" : "memory.usage_in_bytes"));
    }
  }
  return limits;
}

std::vector<int> allowed_cpus() {
  if (const auto cpus = cpus_of(affinity_at_start.words, affinity_at_start.bytes); !cpus.empty()) {
    return cpus;
  }
  Affinity now;
  now.bytes = read_affinity(now.words);
  auto cpus = cpus_of(now.words, now.bytes);
  return cpus.empty() ? std::vector<int>{0} : cpus;
}

void undo_thread_binding() {
  if (affinity_at_start.bytes > 0) {
    sched_setaffinity(0, static_cast<std::size_t>(affinity_at_start.bytes),
                      reinterpret_cast<const cpu_set_t*>(affinity_at_start.words));
  }
}

int usable_threads() {
  auto threads = static_cast<int>(allowed_cpus().size());
  if (const auto granted = cgroup_limits().cpus) {
    // A part of a CPU is not counted: the thread on it would be stopped time and again.
    threads = std::min(threads, static_cast<int>(std::min(*granted, 1e6)));
  }
  return std::max(threads, 1);
}

std::int64_t available_memory() {
  auto available =
      memory_fact("MemAvailable")
          .value_or(static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE));
  const auto limits = cgroup_limits();
  if (limits.memory_bytes) {
    const auto left = *limits.memory_bytes - limits.memory_used_bytes.value_or(0);
    available = std::min(available, std::max<std::int64_t>(left, 0));
  }
  if (const auto left = address_space_left()) available = std::min(available, *left);
  return at_most_granted(kGrantedMemory, available);
}

DataCaches data_caches(const std::string& root) {
  DataCaches result;
  int last_level = 0;
  for (const auto& cache : read_caches(allowed_cpus(), root)) {
    if (cache.type == "Instruction") continue;
    if (cache.bytes == 0) {  // that of a lower level would be taken for it
      if (cache.level >= last_level) result.last_level_bytes.reset();
      last_level = std::max(last_level, cache.level);
      continue;
    }
    if (cache.level == 2) result.level2_bytes_per_thread = cache.bytes / cache.shared_by;
    if (cache.level >= last_level) {
      last_level = cache.level;
      result.last_level_bytes = cache.bytes * cache.instances;
    }
  }
  return result;
}

GpuQuery query_gpus(double timeout_seconds) {
  const auto ask = [&](std::size_t fields) {
    std::string query;
    for (std::size_t f = 0; f < fields; ++f) {
      query += (f == 0 ? "" : ",") + std::string(kGpuFields[f].query);
    }
    return capture_output({"nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader,nounits"},
                          changed_environment({}), timeout_seconds);
  };
  std::size_t fields = std::size(kGpuFields);
  auto answer = ask(fields);
  if (answer.missing) return {};
  if (!answer.ok && answer.exited) {
    fields = kBasicGpuFields;
    answer = ask(fields);
  }
  if (answer.ok) return parse_gpus(answer.text, fields);
  GpuQuery query;
  query.problem = "nvidia-smi " + answer.problem;
  return query;
}

#if defined(__x86_64__)
namespace {
constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kDenormalsAreZero = 0x0040;
}  // namespace

DenormalMode denormal_mode() {
  const unsigned control = _mm_getcsr();
  return {(control & kFlushToZero) != 0, (control & kDenormalsAreZero) != 0};
}

void honour_denormals() { _mm_setcsr(_mm_getcsr() & ~(kFlushToZero | kDenormalsAreZero)); }
#elif defined(__aarch64__)
namespace {
constexpr std::uint64_t kFlushToZero = std::uint64_t{1} << 24;
}  // namespace

DenormalMode denormal_mode() {
  std::uint64_t control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  const bool flush = (control & kFlushToZero) != 0;
  return {flush, flush};
}

void honour_denormals() {
  std::uint64_t control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  control &= ~kFlushToZero;
  __asm__ volatile("msr fpcr, %0" : : "r"(control));
}
#else
DenormalMode denormal_mode() { return {}; }
void honour_denormals() {}
#endif

namespace {
DenormalMode mode_at_start;
}  // namespace

void honour_denormals_from_the_start() {
  mode_at_start = denormal_mode();
  honour_denormals();
}

DenormalMode found_denormal_mode() {
  const DenormalMode now = denormal_mode();
  return {now.flush_to_zero || mode_at_start.flush_to_zero,
          now.denormals_are_zero || mode_at_start.denormals_are_zero};
}

namespace detail {

std::string compose_machine_id(const std::string& cpu_model, int cores,
                               const std::string& instructions,
                               const std::vector<std::string>& gpu_names) {
  // Words that distinguish nothing.
  static const std::set<std::string> kNoise{"intel",   "amd",     "cpu",       "processor", "gen",
                                            "with",    "radeon",  "graphics",  "nvidia",    "tesla",
                                            "geforce", "genuine", "authentic", "the"};
  const auto words_of = [&](const std::string& name) {
    std::string plain = lower(name.substr(0, name.find('@')));
    for (const std::string_view mark : {"(r)", "(tm)", "(c)"}) {
      for (auto at = plain.find(mark); at != std::string::npos; at = plain.find(mark)) {
        std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(at), mark.size(), ' ');
      }
    }
    for (auto& c : plain) {
      if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) c = ' ';
    }
    // "96-Core" says what the number of cores says; "13th Gen" is in the model's number.
    std::istringstream stream(plain);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
      const bool number = std::isdigit(static_cast<unsigned char>(word.front())) != 0;
      if (word == "core" && !words.empty() &&
          words.back().find_first_not_of("0123456789") == std::string::npos) {
        words.pop_back();
      } else if (kNoise.count(word) == 0 &&
                 !(number && word.size() > 2 && word.compare(word.size() - 2, 2, "th") == 0)) {
        words.push_back(word);
      }
    }
    std::string joined;
    for (const auto& word : words) joined += (joined.empty() ? "" : "-") + word;
    return joined;
  };

  std::string id = words_of(cpu_model);
  if (id.empty()) id = "cpu";
  id += "-" + std::to_string(cores) + "core";
  if (!instructions.empty()) id += "-" + instructions;
  std::map<std::string, int> gpus;
  for (const auto& name : gpu_names) ++gpus[words_of(name)];
  for (const auto& [name, count] : gpus) {
    id += "-" + (count > 1 ? std::to_string(count) + "x" : "") + (name.empty() ? "gpu" : name);
  }
  if (id.size() > 64) id.resize(64);
  while (id.back() == '-') id.pop_back();
  return id;
}

}  // namespace detail

std::string machine_id() {
  if (const char* given = std::getenv("KMEANS_BENCH_MACHINE"); given != nullptr && *given != '\0') {
    const std::string id = given;
    const auto bad = id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-");
    if (bad != std::string::npos || id.front() == '-' || id.size() > 64) {
      throw InputError("KMEANS_BENCH_MACHINE is '" + valid_utf8(id) +
                       "', but the name of a machine takes only a-z, 0-9 and '-', begins with a "
                       "letter or digit, and has at most 64 characters, for example "
                       "'epyc-9654-96core'");
    }
    return id;
  }
  const int cores = std::min(read_topology(allowed_cpus()).physical_cores, usable_threads());
  std::vector<std::string> gpu_names;
  const auto query = known_gpus();
  for (const auto& gpu : query.gpus) {
    gpu_names.push_back(gpu.at("name").is_string() ? gpu.at("name").get<std::string>() : "gpu");
  }
  return detail::compose_machine_id(cpu_model(read_cpuinfo()), cores, widest_instructions(),
                                    gpu_names);
}

nlohmann::json machine_fingerprint() {
  const auto limits = cgroup_limits();
  const auto query = known_gpus();
  const auto denormals = found_denormal_mode();
  return {{"id", machine_id()},
          {"cpu", describe_cpu(limits)},
          {"memory", describe_memory(limits)},
          {"gpus", query.gpus},
          {"gpus_problem", query.problem.empty() ? json(nullptr) : json(query.problem)},
          {"os", describe_os()},
          {"libraries", describe_libraries()},
          {"floating_point",
           {{"flush_to_zero", denormals.flush_to_zero},
            {"denormals_are_zero", denormals.denormals_are_zero}}}};
}

std::string fingerprint_hash(const nlohmann::json& fingerprint) {
  auto stable = fingerprint;
  if (auto cpu = stable.find("cpu"); cpu != stable.end()) cpu->erase("current_mhz");
  if (auto memory = stable.find("memory"); memory != stable.end()) {
    memory->erase("available_bytes");
    // The kernel of a virtual machine keeps a little more or less for itself at every start.
    if (const auto total = memory->find("total_bytes");
        total != memory->end() && total->is_number()) {
      *total = std::llround(total->get<double>() / (std::int64_t{1} << 28));
    }
  }
  stable.erase("floating_point");  // a state of the asking thread
  const std::string text = stable.dump();
  return fnv1a_hex(text.data(), text.size());
}

}  // namespace kmeans
