// SPDX-License-Identifier: Apache-2.0
//
// What tests of comparisons put into result files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/record/measures.h"

namespace kmeans {

/// A cell of experiment `e` with these samples of each process, in seconds: float32, five iterations
/// from random:1, verified. Its key ends with the threads.
inline nlohmann::json timed_cell(const std::string& variant, const std::string& backend,
                                 const std::string& dataset, std::int64_t n, std::int64_t d,
                                 std::int64_t k, bool exact, int threads,
                                 const std::vector<std::vector<double>>& samples) {
  using nlohmann::json;
  return {{"key", variant + "/f32/" + dataset + "/k" + std::to_string(k) + "/T5/t" +
                      std::to_string(threads)},
          {"experiment", "e"},
          {"variant", variant},
          {"backend", backend},
          {"dataset", dataset},
          {"n", n},
          {"d", d},
          {"k", k},
          {"precision", "f32"},
          {"exact", exact},
          {"threads", threads},
          {"init", "random:1"},
          {"iterations", 5},
          {"status", "ok"},
          {"reason", nullptr},
          {"samples_seconds_per_iteration", samples},
          {"seconds_per_iteration", summarise_processes(samples)},
          {"unsteady", json::array()},
          {"noted", json::array()},
          {"inertia", 12.5},
          {"label_hash", "0123456789abcdef"},
          {"centroid_hash", "fedcba9876543210"},
          {"empty_clusters", 0},
          {"bit_equal_across_processes", true},
          {"library", json::object()},
          {"verification", {{"passed", true}}}};
}

/// A whole result file of these cells, of data set `blobs`, measured by a machine without limits.
inline nlohmann::json result_file_of(const std::vector<nlohmann::json>& cells) {
  nlohmann::json file = nlohmann::json::parse(R"({
 "schema_version": 2, "experiment": "e", "scale": "quick", "complete": true,
 "context": {
  "suite": {"version": "0.1.0", "git_commit": "abc", "git_dirty": false, "build_type": "Release",
            "sanitizers": "", "compiler": "GNU 12", "variant_flags": "", "march": "native",
            "cuda": ""},
  "command_line": "kmeans-bench run e", "started": "2026-01-01T00:00:00Z", "finished": null,
  "machine": {"id": "m",
              "cpu": {"model": "A", "logical_cores": 2, "usable_threads": 2, "governor": null},
              "memory": {"total_bytes": 1000}, "gpus": [], "os": {"kernel": "6"},
              "libraries": {"eigen": "3.4.0"}},
  "ceilings": null,
  "environment": {"variables": {}, "neutralised": [], "warnings": []},
  "threads": 2,
  "datasets": {"blobs": {"spec": {}, "scalar": "f32", "sha256": "aaaaaaaaaaaaaaaa", "n": 100,
                         "d": 2}},
  "seeds": {}, "run_order": []},
 "spec": {"name": "e", "title": "t"}, "traces": [], "studies": []})");
  file["cells"] = cells;
  file["planned_cells"] = cells.size();
  return file;
}

}  // namespace kmeans
