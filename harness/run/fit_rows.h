// SPDX-License-Identifier: Apache-2.0
//
// What calls of estimators come to: rows of time and quality, the best answer, the front.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/run/fit_job.h"
#include "harness/verify/fit_answer.h"

namespace kmeans {

/// An answer within this share of the best counts as equal in quality.
inline constexpr double kNearBest = 0.01;

/// One call of a library's entry point.
struct FitCall {
  std::int64_t seed = 0;
  int process = 0;
  double seconds = 0;
  std::optional<std::int64_t> iterations;
  std::optional<bool> converged;
  std::optional<double> objective;        ///< The library's word.
  std::optional<double> seeding_seconds;  ///< Of another call, of the seeding alone.
  FitJudgement judgement;                 ///< The suite's.
};

/// All calls of one estimator.
struct FitRow {
  std::string estimator;
  std::string status = "ok";
  std::string reason;
  FitClaims claims;
  bool promises_fixed_point = false;
  nlohmann::json said = nlohmann::json::object();  ///< summary, defaults, outside, library
  double import_seconds = 0;                       ///< Of the first process.
  std::vector<double> first_calls;
  std::vector<FitCall> first_answers;
  std::vector<FitCall> calls;
  bool cut_short = false;  ///< By its budget.
  std::optional<double> peak_bytes;
  std::optional<double> device_peak_bytes;
  Certificate certificate;  ///< Of all answers together.
};

/// status, reason, best, rows, calls and notes of a fit, as in docs/results.md.
nlohmann::json fit_result(const std::vector<FitRow>& rows, const FitJob& job);

}  // namespace kmeans
