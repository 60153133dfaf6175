// SPDX-License-Identifier: Apache-2.0
//
// What `best` says at its end: who answered, in the order of whole calls, each kind of answer by
// itself, and what was not measured and why.
#pragma once

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
};

/// `result`: a result file of one problem. `cache_bytes`: of the last-level cache. `unreached`: keys
/// of cells that were planned and are not in it, and why.
BestTable best_table(const nlohmann::json& result, std::optional<double> cache_bytes,
                     const std::vector<Absent>& absent);

}  // namespace kmeans
