// SPDX-License-Identifier: Apache-2.0
//
// From what the workers reported to a result file (docs/results.md, schema version 2).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/measures.h"
#include "harness/run/experiment.h"
#include "harness/run/journal.h"
#include "harness/run/sweep.h"

namespace kmeans {

/// How a cell is sampled once its first process has told how long things take.
struct SamplingDecision {
  int processes = 1;    ///< In all, the first one included.
  int repetitions = 1;  ///< In each of the others.
  bool cut_short = false;
};
/// No budget takes a cell below so many: one process cannot show how far processes differ, and one
/// sample decides nothing. Iterations of a second and more get fewer: the first process decides, and
/// where the others agree with it, none of them is then below a second.
int fewest_processes(double iteration_seconds);

/// Depends on nothing but its arguments, so that a resumed run decides alike.
SamplingDecision decide_sampling(const Sampling& wanted, std::int64_t iterations,
                                 const ProcessRecord& first);

/// Does a cell whose processes disagree get one more, as far as
/// its own budget goes: as many again as planned and one more, and twice their time? Depends on
/// nothing but its arguments: all processes so far, in order, and how many were planned.
bool wants_further_process(const std::vector<const ProcessRecord*>& processes, int planned);

/// Seconds of the processes that were planned, and of those beyond.
std::pair<double, double> planned_and_further_seconds(
    const std::vector<const ProcessRecord*>& processes, int planned);

/// Does a run that spent so long on planned and on further processes afford one more of them?
bool affords_further_process(double planned_seconds, double further_seconds);

/// What a number is held against to find it doubtful.
struct MachineLimits {
  nlohmann::json ceilings;
  std::optional<double> cache_bytes;  ///< Of the last-level cache.
  int cpus = 1;
  int usable_threads = 0;  ///< That affinity and control groups let run at once; 0: unknown.
};

/// All processes of a cell that have finished, in order, and whether more were to come.
struct CellEvidence {
  std::vector<const ProcessRecord*> processes;
  bool finished = true;
  /// The best pace of the run with as many threads (harness/machine/pace.h), where one is known.
  std::optional<double> best_pace;
};

/// The paces before and after a process's timed part that are of use.
std::vector<double> paces_of(const ProcessRecord& process);

/// The slower one of them; empty if there is none.
std::optional<double> pace_of(const ProcessRecord& process);

/// The cell as docs/results.md has it. Only a cell whose every process is verified has times.
nlohmann::json assemble_cell(const std::string& experiment, const Cell& cell,
                             const CellEvidence& evidence, const MachineLimits& limits);

/// The trace as docs/results.md has it; `recorded` is null for one that is skipped.
nlohmann::json assemble_trace(const PlannedTrace& trace, const nlohmann::json& recorded);

/// The study as docs/results.md has it.
nlohmann::json assemble_study(const PlannedStudy& study, const nlohmann::json& recorded);

/// What is wrong with the structure of a result file, one sentence each; empty when nothing is.
std::vector<std::string> validate_result(const nlohmann::json& result);

}  // namespace kmeans
