// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/environment.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

#include "harness/machine/machine.h"
#include "harness/support/errors.h"
#include "harness/support/stack_size.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

/// Beginnings of the names that may be recorded. A closed list: an environment is full of secrets.
constexpr std::string_view kRecordedPrefixes[] = {
    "OPENBLAS_", "GOTO_",   "OMP_",    "GOMP_",   "KMP_",          "LIBOMP_", "MKL_",
    "BLIS_",     "VECLIB_", "NVPL_",   "ARMPL_",  "NUMEXPR_",      "NPY_",    "ONEDNN_",
    "DNNL_",     "FAISS_",  "MALLOC_", "CUBLAS_", "KMEANS_BENCH_",
};
constexpr std::string_view kRecordedNames[] = {
    "ACCELERATE_NEW_LAPACK",
    "ATEN_CPU_CAPABILITY",
    "CUDA_CACHE_DISABLE",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "LD_BIND_NOW",
    "LD_PRELOAD",
    "LOKY_MAX_CPU_COUNT",
    "NVIDIA_TF32_OVERRIDE",
    "PYTHONDEVMODE",
    "PYTHONMALLOC",
    "PYTHONOPTIMIZE",
    "SCIPY_ARRAY_API",
    "SKLEARN_WORKING_MEMORY",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
};
/// Variables that change neither what is computed nor how fast.
constexpr std::string_view kPlaces[] = {"KMEANS_BENCH_CACHE", "KMEANS_BENCH_MACHINE",
                                        "KMEANS_BENCH_KILLS", "KMEANS_BENCH_FAULTS"};
/// What a thread of a variant and the libraries below it need at least.
constexpr double kSmallestStack = 256 * 1024;
/// A name with one of these in it is never recorded, whatever it begins with.
constexpr std::string_view kSecretParts[] = {"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "KEY"};

/// Thread counts: each is set for a worker. GOTO_NUM_THREADS is an old name of OpenBLAS's.
constexpr std::string_view kThreadCounts[] = {
    "OMP_NUM_THREADS",     "OPENBLAS_NUM_THREADS",   "GOTO_NUM_THREADS", "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",    "VECLIB_MAXIMUM_THREADS", "NVPL_NUM_THREADS", "ARMPL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT",
};
/// Upper limits on threads: nothing is lost by their absence, so they are removed instead.
constexpr std::string_view kThreadLimits[] = {
    "OMP_THREAD_LIMIT",       "KMP_DEVICE_THREAD_LIMIT", "KMP_ALL_THREADS",
    "KMP_TEAMS_THREAD_LIMIT", "NUMEXPR_MAX_THREADS",     "OPENBLAS_DEFAULT_NUM_THREADS",
    "MKL_DOMAIN_NUM_THREADS",
};

/// How threads wait for each other.
constexpr const char* kWaiting[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME",
                                    "KMP_LIBRARY"};

bool contains(const std::string_view* begin, const std::string_view* end, std::string_view name) {
  return std::find(begin, end, name) != end;
}
template <std::size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return contains(std::begin(names), std::end(names), name);
}

bool is_recorded(std::string_view name) {
  for (const auto part : kSecretParts) {
    if (name.find(part) != std::string_view::npos) return false;
  }
  if (contains(kRecordedNames, name)) return true;
  return std::any_of(
      std::begin(kRecordedPrefixes), std::end(kRecordedPrefixes), [&](std::string_view prefix) {
        return name.size() > prefix.size() && name.substr(0, prefix.size()) == prefix;
      });
}

/// "/home/somebody/lib/x.so:/usr/y.so" -> "x.so:y.so": a path can reveal a user's or project's name.
std::string without_folders(std::string_view value) {
  std::string result;
  std::size_t begin = 0;
  while (begin <= value.size()) {
    const auto end = std::min(value.find_first_of(": ,;=", begin), value.size());
    auto part = value.substr(begin, end - begin);
    while (part.size() > 1 && part.back() == '/') part.remove_suffix(1);
    const auto slash = part.rfind('/');
    result += slash == std::string_view::npos ? part : part.substr(slash + 1);
    if (end == value.size()) break;
    result += value[end];
    begin = end + 1;
  }
  return valid_utf8(result);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (auto& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_off(std::string_view value) {
  const auto text = lower(value);
  return text.empty() || text == "0" || text == "false" || text == "no" || text == "off" ||
         text == "default";
}

/// The first number of "4" or "4,2"; 0 if there is none.
int leading_count(std::string_view value) {
  int count = 0;
  const auto result = std::from_chars(value.data(), value.data() + value.size(), count);
  return result.ec == std::errc{} && count > 0 ? count : 0;
}

/// "16k" in bytes, as OpenMP reads it: in KiB unless a letter says otherwise. 0 if it is not a size.
double stack_bytes(std::string_view value) {
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  double count = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc{}) return 0;
  auto unit = lower(value.substr(static_cast<std::size_t>(stop - value.data())));
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  if (unit.empty() || unit == "k") return count * 1024;
  if (unit == "b") return count;
  if (unit == "m") return count * 1024 * 1024;
  return unit == "g" ? count * 1024 * 1024 * 1024 : 0;
}

struct Judgement {
  std::string warning;     ///< a sentence without its subject, or empty
  bool crippling = false;  ///< does it make a library slower than it can be, or its numbers others?
};

Judgement judge(std::string_view name, std::string_view value, int usable) {
  const auto has_prefix = [&](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  };
  if (contains(kThreadCounts, name) || contains(kThreadLimits, name)) {
    const int count = leading_count(value);
    if (count > 0 && count < usable) {
      return {"allows a library fewer threads than the " + std::to_string(usable) + " usable here",
              true};
    }
    if (count > usable && !contains(kThreadLimits, name)) {
      return {
          "starts more threads than the " + std::to_string(usable) + " that can run at once here",
          true};
    }
    return {};
  }
  if (name == "OPENBLAS_CORETYPE") {
    return {
        "makes OpenBLAS use the kernels of another processor, which can halve its matrix product",
        true};
  }
  if (name == "OPENBLAS_L2_SIZE" || name == "OPENBLAS_BLOCK_FACTOR") {
    return {"makes OpenBLAS block for caches that this processor may not have", true};
  }
  if (name == "OPENBLAS_MAIN_FREE" || name == "GOTOBLAS_MAIN_FREE" ||
      name == "OPENBLAS_THREAD_TIMEOUT") {
    return {"changes how OpenBLAS places or parks its threads", true};
  }
  if (name == "MKL_DEBUG_CPU_TYPE" || name == "MKL_ENABLE_INSTRUCTIONS" || name == "MKL_CBWR" ||
      name == "BLIS_ARCH_TYPE") {
    return {"makes a BLAS library use other kernels than it would choose for this processor", true};
  }
#if defined(__aarch64__)
  if (name == "NVPL_BLAS_DEBUG_CPU_TYPE" || name == "ARMPL_CPU_TYPE") {
    return {"makes a BLAS library use other kernels than it would choose for this processor", true};
  }
#endif
  if (name == "MKL_DYNAMIC" || name == "OMP_DYNAMIC" || name == "KMP_DYNAMIC_MODE") {
    if (is_off(value)) return {};
    return {"lets a library use fewer threads than it was given", true};
  }
  if (name == "NPY_DISABLE_CPU_FEATURES" || name == "NPY_ENABLE_CPU_FEATURES") {
    return {"switches vector instructions of NumPy off", true};
  }
  if (name == "ONEDNN_MAX_CPU_ISA" || name == "DNNL_MAX_CPU_ISA" || name == "ATEN_CPU_CAPABILITY" ||
      name == "FAISS_OPT_LEVEL" || name == "FAISS_SIMD_LEVEL") {
    return {"limits the vector instructions that a library uses", true};
  }
  if (name == "OMP_PROC_BIND" || name == "OMP_PLACES" || name == "GOMP_CPU_AFFINITY" ||
      name == "KMP_AFFINITY" || name == "KMP_HW_SUBSET") {
    return {"binds threads to processors, which can put several on one", true};
  }
  if (name == "OMP_WAIT_POLICY" || name == "GOMP_SPINCOUNT" || name == "KMP_BLOCKTIME" ||
      name == "KMP_LIBRARY") {
    return {"changes how threads wait for each other", false};
  }
  if (name == "OMP_STACKSIZE" || name == "GOMP_STACKSIZE" || name == "KMP_STACKSIZE") {
    const double bytes = stack_bytes(value);
    if (bytes <= 0 || bytes >= kSmallestStack) return {};
    return {"gives threads too small a stack to start", true};
  }
  if (name == "OMP_SCHEDULE" || name == "OMP_NESTED" || name == "OMP_MAX_ACTIVE_LEVELS" ||
      name == "OMP_TARGET_OFFLOAD") {
    return {};
  }
  if (name == "OMP_DISPLAY_ENV" || name == "OMP_DISPLAY_AFFINITY" || name == "KMP_SETTINGS" ||
      name == "OMP_TOOL" || name == "OMP_TOOL_LIBRARIES" || name == "OPENBLAS_VERBOSE" ||
      name == "MKL_VERBOSE" || name == "BLIS_ARCH_DEBUG") {
    if (is_off(value) || lower(value) == "disabled") return {};
    return {"makes a library report on itself, which may cost time", false};
  }
  if (name == "GLIBC_TUNABLES") {
    return {"changes the allocator's or the copy routines' choices in the C library",
            value.find("hwcaps") != std::string_view::npos ||
                value.find("glibc.malloc.check") != std::string_view::npos ||
                value.find("glibc.malloc.perturb") != std::string_view::npos};
  }
  if (has_prefix("MALLOC_")) {
    const bool checks = name == "MALLOC_CHECK_" || name == "MALLOC_PERTURB_";
    return {checks ? "makes the allocator check or overwrite every block"
                   : "changes how the allocator takes memory from the system",
            checks && !is_off(value)};
  }
  if (name == "LD_PRELOAD") {
    if (value.empty()) return {};
    return {"loads other code into every process; it is left in place", false};
  }
  if (name == "PYTHONDEVMODE" || name == "PYTHONMALLOC") {
    if (is_off(value) || value == "pymalloc" || value == "malloc") return {};
    return {"switches checks of the Python interpreter on", true};
  }
  if (name == "CUDA_LAUNCH_BLOCKING") {
    if (is_off(value)) return {};
    return {"makes every kernel launch wait for its end", true};
  }
  if (name == "CUDA_CACHE_DISABLE") {
    if (is_off(value)) return {};
    return {"recompiles kernels in every process", false};
  }
  if (name == "NVIDIA_TF32_OVERRIDE" || name == "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE") {
    return {"decides over TensorFloat-32 in place of the program, which changes results and speed",
            true};
  }
  if (name == "CUDA_VISIBLE_DEVICES") {
    return {"decides which GPUs are seen, and in which order; it is left in place", false};
  }
  return {};
}

}  // namespace

void refuse_small_stacks() {
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && !judge(name, value, usable_threads()).warning.empty()) {
      throw EnvironmentError(std::string(name) + "=" + valid_utf8(value) +
                             " gives threads too small a stack to start: unset it, or give at " +
                             "least 256k");
    }
  }
}

void start_again(char** arguments) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) ::execv(program.c_str(), arguments);
}

void wait_briefly(char** arguments) {
  // As the library's Python package has it. GNU's own 300000 rounds cost more than the work between two
  // barriers where other work, or this program's other threads, want the cores.
  constexpr const char* kSpinCount = "2000";
  if (std::any_of(std::begin(kWaiting), std::end(kWaiting),
                  [](const char* name) { return std::getenv(name) != nullptr; })) {
    return;
  }
  if (::setenv("GOMP_SPINCOUNT", kSpinCount, 1) != 0) return;
  undo_thread_binding();  // by this variable's neighbours, which the next start reads again
  start_again(arguments);
  ::unsetenv("GOMP_SPINCOUNT");  // whoever is started would wait by it
}

EnvironmentReport inspect_environment() {
  EnvironmentReport report;
  const int usable = usable_threads();
  for (const auto& [name, value] : current_environment()) {
    if (!is_recorded(name)) continue;
    report.variables[valid_utf8(name)] = without_folders(value);
    const auto judgement = judge(name, value, usable);
    if (judgement.warning.empty()) continue;
    report.warnings.push_back(name + "=" + without_folders(value) + " " + judgement.warning + ".");
    if (judgement.crippling) report.crippling.push_back(name);
  }
  const auto denormals = found_denormal_mode();
  if (denormals.flush_to_zero || denormals.denormals_are_zero) {
    report.warnings.push_back(
        "Denormal numbers are treated as zero (FTZ or DAZ is on), most likely by a library built "
        "with -ffast-math.");
  }
  return report;
}

std::string suitable_waiting(const EnvironmentReport& report, bool cores_are_shared) {
  for (const char* name : kWaiting) {
    if (report.variables.contains(name)) return "set";
  }
  return cores_are_shared ? "passive" : "default";
}

EnvironmentChanges worker_environment(const EnvironmentReport& report, int threads, bool keep) {
  EnvironmentChanges changes;
  if (report.waiting == "passive") changes.emplace_back("OMP_WAIT_POLICY", "passive");
  for (const auto name : kThreadCounts) {
    if (keep && report.variables.contains(std::string(name))) continue;
    changes.emplace_back(name, std::to_string(threads));
  }
  if (keep) return changes;
  for (const auto& name : report.crippling) {
    if (!contains(kThreadCounts, name)) changes.emplace_back(name, std::nullopt);
  }
  // A limit that suits this machine may still be below the threads of this very run.
  for (const auto name : kThreadLimits) {
    const std::string text(name);
    if (report.variables.contains(text) &&
        std::find(report.crippling.begin(), report.crippling.end(), text) ==
            report.crippling.end()) {
      changes.emplace_back(text, std::nullopt);
    }
  }
  return changes;
}

nlohmann::json lasting_environment(const EnvironmentReport& report, bool keep) {
  nlohmann::json lasting = report.variables;
  for (const auto& [name, value] : worker_environment(report, 1, keep)) lasting.erase(name);
  for (const auto name : kPlaces) lasting.erase(std::string(name));
  return lasting;
}

nlohmann::json environment_context(const EnvironmentReport& report,
                                   const EnvironmentChanges& changes) {
  auto neutralised = nlohmann::json::array();
  for (const auto& [name, value] : changes) {
    const auto set = report.variables.find(name);
    if (set != report.variables.end() && (!value || *value != set->get<std::string>())) {
      neutralised.push_back(name);
    }
  }
  return {{"variables", report.variables},
          {"neutralised", neutralised},
          {"warnings", report.warnings},
          {"openmp_waiting", report.waiting}};
}

}  // namespace kmeans
