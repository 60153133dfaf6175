// SPDX-License-Identifier: Apache-2.0
//
// The result file of a run, from its plan and its journal.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/machine/environment.h"
#include "harness/run/coordinator.h"
#include "harness/run/journal.h"
#include "harness/run/results.h"
#include "harness/run/sweep.h"

namespace kmeans {

/// "error" where a result has none.
std::string status_of(const nlohmann::json& result);

/// What a run is asked for; what it refers to outlives it.
struct RunRequest {
  const Experiment& experiment;
  const Plan& plan;
  const RunSurroundings& surroundings;
  const RunSettings& settings;
};

/// What a result file is made of; what it refers to outlives it.
struct RunFacts : RunRequest {
  const JournalContent& journal;
  const EnvironmentReport& environment;  ///< Of the workers.
  const std::string& started;
  std::function<CellEvidence(const Cell&)> evidence_of;
};

/// The result file (docs/results.md). `ended`: the run is over, neither interrupted nor still at
/// work. A file is complete when it then holds the whole experiment: what --only left out is as
/// missing as what was interrupted.
nlohmann::json run_result(const RunFacts& facts, bool ended);

/// What came of the cells, traces and studies of a result file.
RunSummary summary_of(const nlohmann::json& result);

}  // namespace kmeans
