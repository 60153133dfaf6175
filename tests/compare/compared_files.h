// SPDX-License-Identifier: Apache-2.0
//
// Times of an invented machine, and result files that are compared.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/run/results.h"
#include "tests/support/result_cell.h"

namespace kmeans::compare_tests {

using nlohmann::json;

/// Times of a cell as machines give them: processes differ more than the repetitions of one, and
/// now and then a process is disturbed.
class Machine {
 public:
  explicit Machine(std::uint32_t seed) : random_(seed) {}

  std::vector<std::vector<double>> measure(double seconds, int processes) {
    std::vector<std::vector<double>> samples;
    for (int p = 0; p < processes; ++p) {
      double own = seconds * std::exp(0.02 * normal());
      if (random_() % 12 == 0) own *= 1 + 0.3 * uniform();
      std::vector<double> repetitions(3);
      for (double& value : repetitions) {
        value = own * std::exp(0.008 * normal());
        if (random_() % 20 == 0) value *= 1 + uniform();
      }
      samples.push_back(std::move(repetitions));
    }
    return samples;
  }

 private:
  double uniform() { return (random_() + 0.5) / 4294967296.0; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  std::mt19937 random_;
};

inline TimeVerdict judged(const TimePair& pair, const CompareSettings& settings = {}) {
  return judge_times({pair}, settings).front();
}

inline json cell(const std::string& variant, double seconds, int processes = 6, int threads = 1) {
  std::vector<std::vector<double>> samples;
  for (int p = 0; p < processes; ++p) {
    samples.push_back({seconds * (1 + 0.001 * p), seconds * (1.0005 + 0.001 * p)});
  }
  const bool exact = variant == "reference" || variant == "openmp_exact";
  return timed_cell(variant, "cpu", "blobs", 100, 2, 4, exact, threads, samples);
}

inline void fail_cell(json& one, const char* status, const char* reason) {
  one["status"] = status;
  one["reason"] = reason;
  one["samples_seconds_per_iteration"] = json::array();
  for (const char* key : {"seconds_per_iteration", "gflops", "inertia", "label_hash",
                          "centroid_hash", "empty_clusters"}) {
    one[key] = nullptr;
  }
}

inline json result(const std::vector<json>& cells) { return result_file_of(cells); }

inline Comparison compared(const json& base, const json& changed,
                           const CompareSettings& settings = {}) {
  return compare_results({parse_result_file(base.dump(), "base.json")}, "results/a",
                         {parse_result_file(changed.dump(), "new.json")}, "results/b", settings);
}

}  // namespace kmeans::compare_tests
