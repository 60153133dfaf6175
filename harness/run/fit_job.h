// SPDX-License-Identifier: Apache-2.0
//
// Whole fits of one set of points to one k in a worker process: what the coordinator asks, and what comes
// back (docs/fits.md).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/job.h"

namespace kmeans {

/// As FitSpec; the members mean the same.
struct FitJob : JobData {
  std::vector<std::string> estimators;
  int seeds = 10;
  int processes = 2;
  double max_seconds = 20;
  std::string from;
  std::int64_t iterations = 0;
  int starts = 0;
  int problems = 1;
  std::optional<double> known_inertia;
};

nlohmann::json to_json(const FitJob& job);
FitJob fit_job_from_json(const nlohmann::json& json);

/// The fit object of docs/results.md without name, data set and what was asked.
nlohmann::json run_fits(const FitJob& job);

/// The fit-worker subcommand: never throws; 0 if a result was written.
int run_fit_worker(const std::string& job_file, const std::string& result_file);

}  // namespace kmeans
