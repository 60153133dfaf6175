// SPDX-License-Identifier: Apache-2.0
//
// What the coordinator asks of a worker process, and what comes back. Both travel as JSON files:
//   kmeans-bench worker JOB.json RESULT.json
// The worker writes RESULT.json through a temporary file and a rename as its last act; a missing
// file means that it died.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "harness/verify/verify.h"

namespace kmeans {

/// What every job is given; a study perhaps without data.
struct JobData {
  std::string points_file;     ///< npy, float64 for f64, else float32
  std::string centroids_file;  ///< npy, k x d initial centroids in the same scalar
  std::int64_t k = 0;
  int threads = 1;
};

/// What cells and traces ask of a variant.
struct VariantJob : JobData {
  std::string variant;
  Precision precision = Precision::f32;
  std::int64_t iterations = 1;  ///< T per timed repetition; of a trace at most so many
  double max_seconds = 10;      ///< budget of the timed part; at least one repetition
  int verify_threads = 0;       ///< CPU threads of the verifier; 0: as many as the variant has
};

/// A cell's, of one process.
struct Job : VariantJob {
  int ranks = 1;               ///< processes to start it as, through the launcher
  int gpus = 1;                ///< that the variant shares its points among
  int repetitions = 3;         ///< 0: neither timed nor verified, only the outcome of T iterations
  double min_seconds = 0.02;   ///< a shorter repetition is repeated inside until it is that long
  double best_pace = 0;        ///< seconds, the best known (harness/machine/pace.h); 0: none is
  double patience = 0;         ///< seconds to spend in all on waiting for a good pace
  bool beyond_memory = false;  ///< memory does not hold the points: they are streamed from the file
  bool profile = false;        ///< also take stage times, after the headline timing
  /// Outcomes of earlier processes of this cell that hold a full certificate, as
  /// Result::outcome strings: an equal outcome needs no second look.
  std::vector<std::string> certified_outcomes;
  /// Inertia after T iterations on the exact trajectory, and whether it met empty clusters.
  std::optional<double> exact_inertia;
  bool exact_had_empty_clusters = false;
  TrajectoryScale exact_scale;                ///< of that trajectory's end
  ScalarType exact_scalar = ScalarType::f32;  ///< in which it stores its centroids
  double verify_budget = 2e9;  ///< multiply-adds that the label check may spend; beyond: a sample
  std::uint64_t verify_seed = 1;
};

/// What a worker answers, in a journal too. A new member is named once in job.cpp, and put into
/// the result file by assemble_cell (harness/run/results.cpp).
struct JobResult {
  std::string status;  ///< "ok", "wrong", "skipped", "error"
  std::string reason;
  std::vector<double> samples;  ///< seconds per iteration, one per repetition
  std::string stopping = "complete";
  double setup_seconds = 0;
  std::map<std::string, double> stages;  ///< seconds per iteration
  /// Iterations that a library which may stop early ran of those asked for; samples and stages are
  /// per executed iteration.
  std::optional<std::int64_t> executed_iterations;
  /// Distances formed in the T iterations of the last timed step, by a variant that counts them.
  std::optional<std::int64_t> computed_distances;
  /// Of several ranks, as in docs/results.md; null for one.
  nlohmann::json rank_times;
  /// Of points that memory does not hold, as in docs/results.md; null for others.
  nlohmann::json streamed;
  double inertia = 0;
  std::string label_hash;
  std::string centroid_hash;
  std::int64_t empty_clusters = 0;
  bool any_empty_clusters = false;  ///< in the first or the last iteration
  TrajectoryScale scale;            ///< of the last iteration's starting centroids
  std::string outcome;          ///< hashes after 1, T-1 and T iterations, for certified_outcomes
  nlohmann::json verification;  ///< as in docs/results.md, or {"reused": outcome}
  std::optional<Traffic> traffic;
  nlohmann::json stage_work = nlohmann::json::object();  ///< as in docs/results.md
  std::vector<std::pair<std::string, std::string>> library;
  /// Seconds per iteration by device events, one per repetition; empty without a GPU.
  std::vector<double> device_samples;
  std::vector<std::string> doubts;  ///< what the variant did to its process, one sentence each
  /// Seconds of measure_pace (harness/machine/pace.h) before and after the timed part; empty if none.
  std::vector<double> pace;
  nlohmann::json gpu;  ///< which GPU and its state around the timed part, as in docs/results.md
  /// No worker's word: `status` and `reason` are the coordinator's, and nothing else is known.
  bool unreported = false;
};

/// In place of a worker's answer, why there is none.
JobResult unreported(std::string status, std::string reason);

nlohmann::json to_json(const TrajectoryScale& scale);
TrajectoryScale scale_from_json(const nlohmann::json& json);
nlohmann::json to_json(const Job& job);
Job job_from_json(const nlohmann::json& json);
nlohmann::json to_json(const JobResult& result);
/// Numbers that became null on their way are NaN again. Throws InputError and json::exception for
/// what no worker writes.
JobResult job_result_from_json(const nlohmann::json& json);

/// Instead of a variant's name: no variant, but the float64 trajectory (float64_step), whose result
/// is the inertia, whether it met empty clusters, and the scale.
inline constexpr const char* kFloat64Trajectory = "float64_trajectory";

/// The same of points that memory does not hold: the exact trajectory, row by row from the mapped file.
inline constexpr const char* kExactByRows = "exact_by_rows";

/// What every worker subcommand does: reads the job, writes the answer. Never throws; returns the process's
/// exit code (0 if a result was written).
int answer_job(const char* role, const std::string& job_file, const std::string& result_file,
               const std::function<nlohmann::json(const nlohmann::json&)>& answer);

/// The worker subcommand.
int run_worker(const std::string& job_file, const std::string& result_file);

/// Runs a job in this process.
JobResult run_job(const Job& job);

}  // namespace kmeans
