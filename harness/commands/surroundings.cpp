// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/surroundings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "harness/machine/ceilings.h"
#include "harness/machine/gpu.h"
#include "harness/machine/machine.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/granted.h"
#include "harness/support/memory_left.h"
#include "harness/support/process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// Less would measure the memory on an array that caches hold.
constexpr double kQuickEffort = 0.3;

/// An absolute path in the command becomes its last part: where someone keeps files says nothing
/// about the results. What only looks like one, as a regular expression may, stays.
std::string without_folders(const std::string& argument) {
  const auto slash = argument.find('/');
  const bool at_start = slash == 0 || (slash != std::string::npos && argument[slash - 1] == '=');
  if (!at_start) return argument;
  std::filesystem::path path = argument.substr(slash);
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  const bool real = std::filesystem::exists(path, ignored) ||
                    (path.parent_path() != path.root_path() &&
                     std::filesystem::exists(path.parent_path(), ignored));
  return real ? argument.substr(0, slash) + path.filename().string() : argument;
}

std::pair<std::int64_t, std::int64_t> size_of_stored(const DatasetSpec& spec,
                                                     const std::filesystem::path& cache) {
  const auto size = [&](ScalarType scalar) {
    const auto stored = materialise(spec, scalar, cache);
    return std::pair{stored.n, stored.d};
  };
  try {
    return size(ScalarType::f32);
  } catch (const InputError&) {
    // Outside of float32's range? An experiment whose cells are all in float64 can still run.
    try {
      return size(ScalarType::f64);
    } catch (const InputError&) {  // NOLINT(bugprone-empty-catch): the first refusal says it
    }
    throw;
  }
}

std::vector<Condition> look_for_disturbances(const LookAround& look, int threads,
                                             const nlohmann::json& machine) {
  auto conditions = check_machine(check_scope(threads, machine), look.check.seconds);
  if (InterruptGuard::interrupted()) return conditions;
  if (look.require_quiet) {
    std::string text;
    for (const auto& one : doubtful(conditions, look.check.accepted)) text += "\n  " + one;
    if (!text.empty()) {
      throw EnvironmentError("this machine is not fit for measuring now:" + text +
                             "\nFix these, or accept them: --accept "
                             "CHECK[,CHECK...]");
    }
  }
  for (const auto& one : doubtful(conditions)) warn(one);
  return conditions;
}

bool cores_are_shared(const nlohmann::json& conditions) {
  return std::any_of(conditions.begin(), conditions.end(), [](const nlohmann::json& one) {
    const std::string check = one.at("check");
    return (check == "cpu_use" || check == "load") && one.at("state") == "doubtful";
  });
}

}  // namespace

void warn(const std::string& text) {
  std::fprintf(stderr, "warning: %s\n", printable(text).c_str());
}

std::string typed_command() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::string text = "kmeans-bench";
  std::string argument;
  for (bool first = true; std::getline(stream, argument, '\0'); first = false) {
    if (first) continue;
    argument = without_folders(argument);
    const bool plain = !argument.empty() &&
                       argument.find_first_of(" \t\n\"'\\$*?[](){}|&;<>") == std::string::npos;
    text += plain ? " " + argument : " '" + argument + "'";
  }
  return valid_utf8(text);
}

namespace {

/// Of points that memory does not hold: the cache's disk must, and so must the addresses of a worker.
std::string problem_with_mapping(const DatasetSpec& spec, double bytes,
                                 const std::filesystem::path& cache) {
  if (const auto left = address_space_left(); left && bytes > static_cast<double>(*left)) {
    return "needs " + format_bytes(bytes) + " of addresses to map its points, has " +
           format_bytes(static_cast<double>(*left)) + " (ulimit -v)";
  }
  if (is_in_cache(spec, ScalarType::f32, cache)) return "";
  std::filesystem::path folder = cache;
  std::error_code error;
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const auto space = std::filesystem::space(folder, error);
  if (error || bytes <= static_cast<double>(space.available)) return "";
  return "its points do not fit memory, and need " + format_bytes(bytes) +
         " of disk in the data cache, has " + format_bytes(static_cast<double>(space.available));
}

}  // namespace

PlanOptions plan_options_here(int threads) {
  PlanOptions options;
  options.threads = threads;
  options.memory_bytes = static_cast<double>(available_memory());
  // What is not an amount is refused where there is no GPU, too.
  const auto granted = at_most_granted(kGrantedGpuMemory, std::numeric_limits<std::int64_t>::max());
  if (const GpuDevice* gpu = current_gpu()) {
    // A CUDA context and its kernels take some of it.
    constexpr std::int64_t kContextBytes = 768'000'000;
    options.device_memory_bytes =
        static_cast<double>(std::min(gpu->memory_bytes - kContextBytes, granted));
  }
  const std::filesystem::path cache = cache_root();
  options.problem_with_mapping = [cache](const DatasetSpec& spec, double bytes) {
    return problem_with_mapping(spec, bytes, cache);
  };
  options.size_of_file = [cache](const DatasetSpec& spec) { return size_of_stored(spec, cache); };
  return options;
}

RunSurroundings look_around(const LookAround& look, int threads) {
  RunSurroundings surroundings;
  surroundings.machine_id = machine_id();
  surroundings.machine = machine_fingerprint();
  surroundings.environment = inspect_environment();
  for (const auto& warning : surroundings.environment.warnings) warn(warning);
  surroundings.conditions = to_json(look_for_disturbances(look, threads, surroundings.machine));
  surroundings.environment.waiting =
      suitable_waiting(surroundings.environment, cores_are_shared(surroundings.conditions));
  if (surroundings.environment.waiting == "passive") {
    warn(
        "other work shares the cores: OpenMP threads sleep while they wait for each other "
        "(OMP_WAIT_POLICY=passive); your own OMP_WAIT_POLICY=active or passive decides otherwise");
  }
  std::fprintf(stderr, "machine %s: looking up its measured ceilings%s\n",
               surroundings.machine_id.c_str(),
               look.quick_ceilings ? ", a quick look where none are kept" : "");
  surroundings.limits.ceilings = look.quick_ceilings
                                     ? ceilings_at_hand(kQuickEffort, *look.quick_ceilings)
                                     : measured_ceilings(false);
  if (const auto cache = data_caches().last_level_bytes) {
    surroundings.limits.cache_bytes = static_cast<double>(*cache);
  }
  surroundings.limits.usable_threads = usable_threads();
  surroundings.limits.cpus = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  return surroundings;
}

}  // namespace kmeans
