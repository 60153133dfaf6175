// SPDX-License-Identifier: Apache-2.0
//
// A trace in a worker process: what the coordinator asks, and what comes back.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/run/job.h"

namespace kmeans {

struct TraceJob : VariantJob {
  std::int64_t keep_points = 0;  ///< size of a random sample of points to keep, for pictures
  bool keep_centroids = false;
  std::uint64_t sample_seed = 1;
  nlohmann::json expected;  ///< null, or as in an experiment (docs/experiments.md)
  std::string stop;
  int runs = 0;  ///< whole runs to time once the iterations are known; 0: none
  /// Not 0: the trace is known and has so many iterations; only time whole runs, after a warm-up.
  std::int64_t runs_of = 0;
};

nlohmann::json to_json(const TraceJob& job);
TraceJob trace_job_from_json(const nlohmann::json& json);

/// The trace object of docs/results.md without name, dataset and init, but with `trajectory`: what
/// a comparison with the exact trajectory has to know. Its first and last step are certified;
/// without status ok there is no time. With runs_of, nothing but its runs_seconds. Throws what the
/// variant throws.
nlohmann::json run_trace(const TraceJob& job);

/// The trace-worker subcommand: never throws; 0 if a result was written.
int run_trace_worker(const std::string& job_file, const std::string& result_file);

}  // namespace kmeans
