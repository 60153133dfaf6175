// SPDX-License-Identifier: Apache-2.0
//
// A study in a worker process: what the coordinator asks, and what comes back.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/run/job.h"

namespace kmeans {

/// Its data are float32; a study without data has no files.
struct StudyJob : JobData {
  std::string study;
  nlohmann::json parameters = nlohmann::json::object();
};

nlohmann::json to_json(const StudyJob& job);
StudyJob study_job_from_json(const nlohmann::json& json);

/// The study object of docs/results.md without name, dataset and init. Throws what the study
/// throws.
nlohmann::json run_study(const StudyJob& job);

/// The study-worker subcommand: never throws; 0 if a result was written.
int run_study_worker(const std::string& job_file, const std::string& result_file);

}  // namespace kmeans
