// SPDX-License-Identifier: Apache-2.0
//
// Runs an experiment: one worker process after the other, interleaved over the cells, each result
// on the disk before the next begins (docs/running.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/machine/environment.h"
#include "harness/run/experiment.h"
#include "harness/run/results.h"
#include "harness/run/sweep.h"

namespace kmeans {

/// The machine and the surroundings that all experiments of a command share.
struct RunSurroundings {
  std::string machine_id;
  nlohmann::json machine;  ///< Fingerprint.
  nlohmann::json
      conditions;  ///< As harness/machine/machine_check.h found them; null: nobody looked.
  MachineLimits limits;
  EnvironmentReport environment;
};

/// What is known of a cell to whoever chooses what is measured next.
struct CellNews {
  const Cell* cell = nullptr;
  std::vector<const ProcessRecord*> processes;  ///< That have finished, in order.
  bool stopped = false;                         ///< Nothing more to learn of it.
};

/// One more process of a cell, or a cell that is left out.
struct Choice {
  const Cell* cell = nullptr;
  /// A first process that takes longer is ended, and its cell skipped with `reason`; a later one is
  /// ended and forgotten.
  double timeout_seconds = 0;
  bool leave = false;  ///< No process: the cell is skipped with `reason`.
  std::string reason;
};

/// Absent: nothing more is to be measured.
using Chooser = std::function<std::optional<Choice>(const std::vector<CellNews>&)>;

struct RunSettings {
  std::vector<std::string> worker_command{"/proc/self/exe"};
  std::filesystem::path out;
  std::filesystem::path cache;
  std::string command_line;
  std::uint64_t order_seed = 1;
  int threads = 1;
  bool resume = false;
  bool force = false;
  bool keep_environment = false;
  /// Not empty: processes one by one, as standard input asks (harness/compare/interleave.h), in a session
  /// of this name.
  std::string turns;
  /// Says before every process what is measured next, in place of rounds; empty: rounds. Cells get as
  /// many processes as it asks for, and no stage times, which cost another repetition.
  Chooser choose{};
  /// Seconds that a process may spend on waiting for cores that nothing slows down
  /// (harness/machine/pace.h). With any, processes that were disturbed all the same get further attempts.
  double patience = 0;
};

struct RunSummary {
  std::filesystem::path file;
  std::size_t ok = 0;
  std::size_t wrong = 0;
  std::size_t wrong_as_expected = 0;  ///< Of those, cells of variants that are kept wrong.
  std::size_t skipped = 0;
  std::size_t failed = 0;    ///< status `error`
  std::size_t unsteady = 0;  ///< Cells with status `ok` whose processes disagree.
  std::size_t noted = 0;     ///< Others with a note.
  bool interrupted = false;
  bool complete = false;  ///< The file holds the whole experiment.
};

/// Runs the selected cells and traces of the plan that a resumed journal does not hold yet, and
/// writes <out>/<experiment>.json. Throws InputError (resume refused, broken data file) and
/// OutputError; everything finished before is then in the journal. An InterruptGuard should live.
RunSummary run_experiment(const Experiment& experiment, const Plan& plan,
                          const RunSurroundings& surroundings, const RunSettings& settings);

/// What identifies this build: its commit, or the program's hash where the tree was changed.
std::string build_identity();

}  // namespace kmeans
