// SPDX-License-Identifier: Apache-2.0
#include "harness/record/answers.h"

#include <algorithm>
#include <cstddef>

#include "harness/support/json_member.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kEnoughDifferences = 2;  // of a trace: later ones follow from them

/// The first value in which an iteration differs. Traces may be kept without centroids.
void add_iteration(std::size_t i, const json& before, const json& after,
                   std::vector<AnswerDifference>& differences) {
  for (const std::string key :
       {"inertia", "loss", "movement", "changed", "empty_clusters", "centroids"}) {
    const json was = member(before, key.c_str());
    const json is = member(after, key.c_str());
    const bool centroids = key == "centroids";
    if (was == is || (was.is_null() && centroids)) continue;
    const std::string place = key + " of iteration " + std::to_string(i + 1);
    differences.push_back({place, centroids ? json() : was, centroids ? json() : is});
    return;
  }
}

}  // namespace

std::vector<AnswerDifference> answer_differences(const Answer& before, const Answer& after) {
  std::vector<AnswerDifference> differences;
  const auto compare = [&](const char* what, const auto& was, const auto& is) {
    if (was == is) return;
    differences.push_back({what, was ? json(*was) : json(), is ? json(*is) : json()});
  };
  compare("labels", before.label_hash, after.label_hash);
  compare("centroids", before.centroid_hash, after.centroid_hash);
  compare("inertia", before.inertia, after.inertia);
  compare("empty clusters", before.empty_clusters, after.empty_clusters);
  return differences;
}

std::vector<AnswerDifference> trace_differences(const json& before, const json& after) {
  std::vector<AnswerDifference> differences;
  const json was = member(before, "iterations");
  const json is = member(after, "iterations");
  if (was.is_array() && is.is_array()) {
    if (was.size() != is.size()) differences.push_back({"iterations", was.size(), is.size()});
    const std::size_t common = std::min(was.size(), is.size());
    for (std::size_t i = 0; i < common && differences.size() < kEnoughDifferences; ++i) {
      add_iteration(i, was[i], is[i], differences);
    }
  }
  const json labels = member(before, "label_hash");
  const json labels_after = member(after, "label_hash");
  if (labels != labels_after) differences.push_back({"labels", labels, labels_after});
  return differences;
}

}  // namespace kmeans
