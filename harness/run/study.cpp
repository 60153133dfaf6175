// SPDX-License-Identifier: Apache-2.0
#include "harness/study.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "datasets/readers.h"
#include "harness/run/job_members.h"
#include "harness/run/study_job.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

std::vector<Study>& storage() {
  static std::vector<Study> studies;  // filled by static initialisers of all studies
  return studies;
}

/// Rows and findings are tables: a nested value could not be shown, sorted or drawn.
void check_flat(const nlohmann::json& record, const std::string& what) {
  if (!record.is_object()) throw std::logic_error(what + " is not an object");
  for (const auto& [key, value] : record.items()) {
    if (value.is_structured())
      throw std::logic_error(what + ": '" + key + "' is not a plain value");
  }
}

}  // namespace

detail::StudyRegistration::StudyRegistration(Study study) {
  const auto same = [&](const Study& other) { return other.name == study.name; };
  if (study.name.empty() || study.run == nullptr ||
      std::any_of(storage().begin(), storage().end(), same)) {
    std::fprintf(stderr, "kmeans-bench: a study has no name, no function, or the name '%s' twice\n",
                 study.name.c_str());
    std::exit(kExitUnusableEnvironment);
  }
  storage().push_back(std::move(study));
}

const std::vector<Study>& all_studies() {
  auto& studies = storage();
  std::sort(studies.begin(), studies.end(),
            [](const Study& a, const Study& b) { return a.name < b.name; });
  return studies;
}

const Study& require_study(std::string_view name) {
  std::vector<std::string> names;
  for (const Study& study : all_studies()) {
    if (study.name == name) return study;
    names.push_back(study.name);
  }
  throw InputError("unknown study '" + std::string(name) + "'; " + closest_names(name, names));
}

template <IsA<StudyJob> M, class Visit>
void members(M& job, const Visit& visit) {
  data_members(job, visit);
  visit("study", job.study);
  visit("parameters", job.parameters);
}

nlohmann::json to_json(const StudyJob& job) { return message_to_json(job); }

StudyJob study_job_from_json(const nlohmann::json& json) {
  return message_from_json<StudyJob>(json);
}

nlohmann::json run_study(const StudyJob& job) {
  const Study& study = require_study(job.study);
  StudyInput input;
  input.parameters = job.parameters;
  input.threads = job.threads;
  Points points;
  Points centroids;
  if (!job.points_file.empty()) {
    points = load_made(job.points_file, ScalarType::f32);
    centroids = load_made(job.centroids_file, ScalarType::f32);
    input.n = points.n();
    input.d = points.d();
    input.k = job.k;
    input.points = points.data<float>();
    input.centroids = centroids.data<float>();
    input.points_file = job.points_file;
  } else if (study.needs_data) {
    throw InputError("study '" + study.name + "' needs data: give n, d and k");
  }
  const auto started = std::chrono::steady_clock::now();
  const StudyOutput output = study.run(input);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  for (const auto& row : output.rows) check_flat(row, "a row of study '" + study.name + "'");
  check_flat(output.findings, "the findings of study '" + study.name + "'");
  return {{"status", output.wrong.empty() ? "ok" : "wrong"},
          {"reason", output.wrong.empty() ? nlohmann::json() : nlohmann::json(output.wrong)},
          {"rows", output.rows},
          {"findings", output.findings},
          {"notes", output.notes},
          {"varying", output.varying},
          {"seconds", taken.count()}};
}

int run_study_worker(const std::string& job_file, const std::string& result_file) {
  return answer_job("study-worker", job_file, result_file,
                    [](const auto& job) { return run_study(study_job_from_json(job)); });
}

}  // namespace kmeans
