// SPDX-License-Identifier: Apache-2.0
//
// What a run knows so far: its journal, where its cells stand, and the result file made of both.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/environment.h"
#include "harness/run/coordinator.h"
#include "harness/run/journal.h"
#include "harness/run/preparation.h"
#include "harness/run/results.h"
#include "harness/run/run_result.h"
#include "harness/run/sweep.h"
#include "harness/support/progress_line.h"

namespace kmeans {

/// Of the machine, over the last minute.
double load_average();

/// A cell while it runs.
struct CellState {
  const Cell* cell = nullptr;
  TaskFiles files;
  std::optional<ExactTrajectory> exact;
  int processes = 1;     ///< That it should get.
  int repetitions = 1;   ///< In the next one.
  bool stopped = false;  ///< Nothing more to learn: wrong, skipped or broken.
  std::set<int> done;
  std::vector<std::string> certified;
  bool wants_stages = true;  ///< In the next process.
  double wall_seconds = 0;   ///< Of the processes so far.

  [[nodiscard]] bool wants(int process) const {
    return !stopped && process < processes && done.count(process) == 0;
  }
  /// All that were planned; processes that disagree may get more.
  [[nodiscard]] bool finished() const;
  /// The one after those that are done.
  [[nodiscard]] int next() const { return done.empty() ? 0 : *done.rbegin() + 1; }
};

class RunState {
 public:
  /// Opens the journal. Throws what Journal throws, and InputError for a run that cannot be resumed.
  explicit RunState(const RunRequest& asked);

  [[nodiscard]] const RunRequest& asked() const { return asked_; }
  [[nodiscard]] const std::string& name() const { return asked_.experiment.name; }
  /// Of the workers: a resumed run lets OpenMP's threads wait as it began, whoever shares the cores by now.
  [[nodiscard]] const EnvironmentReport& environment() const { return environment_; }
  [[nodiscard]] const std::string& build() const { return build_; }
  std::vector<CellState>& cells() { return cells_; }
  ProgressLine& progress() { return progress_; }

  /// The run continues what the journal holds, or begins it. Throws InputError where it must not.
  void begin();
  /// Enters the data sets; a resumed run must not mix measurements on different points.
  void agree_on_datasets(const nlohmann::json& now);

  [[nodiscard]] const ProcessRecord& record_of(const Cell& cell, int process) const;
  /// All that the journal holds of a cell, in order.
  [[nodiscard]] std::vector<const ProcessRecord*> processes_of(const Cell& cell) const;
  void remember(ProcessRecord record);
  /// Brings a cell's state in line with the journal.
  void review(CellState& state);
  /// Nothing is measured of the cell any more, for this reason.
  void stop(CellState& state, JobResult result);

  /// Is the trace or study of this name still to be done?
  [[nodiscard]] bool wants(Part part, const std::string& name) const;
  void remember(Part part, const std::string& name, nlohmann::json result);

  /// The best pace of so many threads that the run has met, in seconds.
  std::map<int, double>& best_paces() { return best_paces_; }

  [[nodiscard]] CellEvidence evidence_of(const Cell& cell) const;
  [[nodiscard]] std::filesystem::path result_file() const;
  /// Writes the result file. `ended`: the run is over.
  nlohmann::json assemble(bool ended);
  /// The same, where the last time is long ago.
  void assemble_if_due();

 private:
  [[nodiscard]] nlohmann::json identity() const;
  void keep_earlier_result();
  void collect();
  [[nodiscard]] std::string without_places(std::string text) const;

  RunRequest asked_;
  std::string build_;
  Journal journal_;
  EnvironmentReport environment_;
  ProgressLine progress_;
  std::string started_;
  std::vector<CellState> cells_;
  std::map<int, double> best_paces_;
  std::set<std::pair<std::string, int>> retry_;  ///< Failed processes of the run that is resumed.
  std::chrono::steady_clock::time_point assembled_ = std::chrono::steady_clock::now();
};

}  // namespace kmeans
