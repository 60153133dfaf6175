// SPDX-License-Identifier: Apache-2.0
//
// From what the workers reported to a result file (docs/results.md, schema version 2).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/run/noted.h"
#include "harness/run/sweep.h"

namespace kmeans {

/// The cell as docs/results.md has it. Only a cell whose every process is verified has times.
nlohmann::json assemble_cell(const std::string& experiment, const Cell& cell,
                             const CellEvidence& evidence, const MachineLimits& limits);

/// The trace as docs/results.md has it; `recorded` is null for one that is skipped.
nlohmann::json assemble_trace(const PlannedTrace& trace, const nlohmann::json& recorded);

/// The study as docs/results.md has it.
nlohmann::json assemble_study(const PlannedStudy& study, const nlohmann::json& recorded);

/// The fit as docs/results.md has it.
nlohmann::json assemble_fit(const PlannedFit& fit, const nlohmann::json& recorded);

}  // namespace kmeans
