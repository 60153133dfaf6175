// SPDX-License-Identifier: Apache-2.0
//
// What a reader should know besides a cell's times: its `noted` of docs/results.md, as far as a number or the
// machine's state casts doubt on them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "harness/run/journal.h"
#include "harness/run/sweep.h"

namespace kmeans {

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

/// How much slower than at best the cores were next to each process, as docs/results.md has it; null where
/// nobody knows.
nlohmann::json paces(const CellEvidence& evidence);

/// Did all processes come to the same labels and centroids?
bool same_bits_everywhere(const CellEvidence& evidence);

/// A sentence each. `times`, `device_times` and `stages`: of the cell, as docs/results.md has them.
nlohmann::json notes_on(const Cell& cell, const CellEvidence& evidence, const nlohmann::json& times,
                        const nlohmann::json& device_times, const nlohmann::json& stages,
                        const MachineLimits& limits);

}  // namespace kmeans
