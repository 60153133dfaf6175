// SPDX-License-Identifier: Apache-2.0
//
// What spoils a measurement: looked for before a run, and metered around every worker process
// (docs/machine.md). Counts of other people's processes are taken, never their names.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/machine/gpu.h"

namespace kmeans {

/// One thing that was looked at.
struct Condition {
  enum class State { good, doubtful, unknown };
  std::string check;  ///< What, [a-z0-9_]+.
  State state = State::unknown;
  std::string detail;  ///< A sentence; of a doubtful one also what would be right.
};

/// "good", "doubtful" or "unknown".
const char* to_string(Condition::State state);

/// The `context.conditions` of a result file: [{check, state, detail}].
nlohmann::json to_json(const std::vector<Condition>& conditions);

/// Whose conditions are looked at.
struct CheckScope {
  std::string root;             ///< Put before every absolute path; empty but in tests.
  std::vector<int> cpus;        ///< That the process may use.
  int threads = 1;              ///< That a parallel variant will have.
  std::string gpu_uuid;         ///< Of the GPU in use; empty without one.
  std::string instructions{};   ///< The processor's widest, as in the machine's fingerprint.
  std::string openblas_core{};  ///< Whose kernels OpenBLAS uses here; empty where there is none.
};

/// That of this process, with so many threads, and the GPU in use or else the first one of the
/// machine's fingerprint.
CheckScope check_scope(int threads, const nlohmann::json& machine);

/// What the kernel has counted so far. Seconds are sums over the CPUs of the scope.
struct Activity {
  std::optional<double> busy_seconds;    ///< Anybody's work, interrupts included.
  std::optional<double> idle_seconds;    ///< Waiting for a disk included.
  std::optional<double> stolen_seconds;  ///< A virtual CPU wanted to run and was not let.
  double own_seconds = 0;  ///< Processor time of this process and of its ended descendants.
  std::optional<std::int64_t> heat_throttles;   ///< Events of the processor's thermal protection.
  std::optional<std::int64_t> quota_throttles;  ///< Times that a control group's quota was used up.
  std::optional<double> quota_seconds;          ///< Stopped by it, in all threads together.
};

Activity read_activity(const CheckScope& scope);

/// What happened between two readings, `seconds` apart, while `threads` threads were to work: an
/// object for the journal. What is not known is null.
nlohmann::json activity_between(const Activity& before, const Activity& after, double seconds,
                                int threads, std::size_t cpus);

/// Sentences for a cell's `noted` list from what happened around each of its processes.
std::vector<std::string> activity_doubts(const std::vector<nlohmann::json>& activities);

/// Watches the machine from its construction on.
class MachineWatch {
 public:
  explicit MachineWatch(CheckScope scope);
  /// The conditions, `seconds` after the construction; those that need time are unknown below a
  /// tenth of a second.
  [[nodiscard]] std::vector<Condition> conditions(double seconds) const;

 private:
  struct Counters {
    Activity activity;
    std::optional<double> cpu_stall_seconds;
    std::optional<double> memory_stall_seconds;
    std::optional<double> io_stall_seconds;
    std::optional<std::int64_t> swapped_pages;
    std::vector<std::pair<std::int64_t, double>> processes;  ///< Number, processor time; sorted.
  };
  [[nodiscard]] Counters read() const;

  CheckScope scope_;
  Counters before_;
};

/// Watches for so many seconds, 0 for none, less when an InterruptGuard notes a signal.
std::vector<Condition> check_machine(const CheckScope& scope, double seconds);

/// Every check there is, by name; without a GPU those called gpu... are left out of a list.
const std::vector<std::string>& check_names();

/// Those of state doubtful, as "check: detail", without those that the user accepts.
std::vector<std::string> doubtful(const std::vector<Condition>& conditions,
                                  const std::vector<std::string>& accepted = {});

/// The options --check-seconds and --accept of a command.
struct CheckOptions {
  double seconds = 1;
  std::vector<std::string> accepted;
};
void add_check_options(CLI::App& command, CheckOptions& options);

namespace detail {
/// Judges a GPU by its state and its settings (harness/machine/gpu_state.h); either may be null.
std::vector<Condition> gpu_conditions(const nlohmann::json& state, const nlohmann::json& settings);

/// Whether this build has machine code for a GPU, or the driver translates what is there.
Condition gpu_code(const GpuStatus& build, const GpuDevice& gpu);
}  // namespace detail

}  // namespace kmeans
