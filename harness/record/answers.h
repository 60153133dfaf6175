// SPDX-License-Identifier: Apache-2.0
//
// In what two runs of one cell or one trace answer differently: what `compare` and `reproduce` judge.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kmeans {

/// What a run of a cell has found, after T iterations.
struct Answer {
  std::optional<double> inertia;  ///< Absent: it is not finite.
  std::optional<std::string> label_hash;
  std::optional<std::string> centroid_hash;
  std::optional<std::int64_t> empty_clusters;
};

/// One respect in which two answers are not the same; null where one has none.
struct AnswerDifference {
  std::string what;
  nlohmann::json before;
  nlohmann::json after;
};

/// Bit for bit, of "labels", "centroids", "inertia" and "empty clusters", in this order.
std::vector<AnswerDifference> answer_differences(const Answer& before, const Answer& after);

/// Of two traces as docs/results.md has them: "iterations" (how many), the first of those that are
/// not the same ("inertia of iteration 3"; of centroids without their values), and "labels".
std::vector<AnswerDifference> trace_differences(const nlohmann::json& before,
                                                const nlohmann::json& after);

}  // namespace kmeans
