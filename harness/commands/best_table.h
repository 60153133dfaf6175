// SPDX-License-Identifier: Apache-2.0
//
// What `best` says at its end: who answered, in the order of fits, Python variants after the others in
// that of their iterations, each kind of answer by itself, and what was not measured and why.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kmeans {

/// Names of variants that have no cell, and why.
struct Absent {
  std::vector<std::string> variants;
  std::string reason;
};

/// The first of a table.
struct BestWinner {
  std::string variant;
  std::string precision;
  std::string sentence;  ///< Who it is, how fast, and how sure that is.
};

struct BestTable {
  std::string text;
  std::optional<BestWinner>
      winner;  ///< Of the exact ones, else of the certified, else of the rest.
  std::map<std::string, double> exact_fits;  ///< Seconds, in the quicker precision.
};

/// What the result file does not hold.
struct BestAsked {
  std::int64_t fit = 100;               ///< Iterations of the fit that is ranked.
  std::optional<double> cache_bytes{};  ///< Of the processor's last-level cache.
  std::string unchosen{};               ///< Whom `fit` runs where nobody chooses.
  bool all_measured = false;            ///< No variant was left out because time ran out.
};

/// `result`: a result file of one problem.
BestTable best_table(const nlohmann::json& result, const BestAsked& asked,
                     const std::vector<Absent>& absent);

}  // namespace kmeans
