// SPDX-License-Identifier: Apache-2.0
//
// What variants say of the two stages of an iteration, `assign` and `update`, in the operation
// model of docs/metrics.md (zechner2009, equations 2 and 3).
#pragma once

#include <vector>

#include "harness/variant.h"

namespace kmeans {
// Unnamed on purpose: variants are compiled with different options (implementations/cpu/_lloyd.h).
namespace {

/// Labelling, nk(3d + 2) operations: a distance with its square root, and a comparison, for each
/// point and centroid.
[[maybe_unused]] inline StageWork assign_work(const Sizes& s, const Traffic& traffic) {
  return {.stage = "assign", .operations = s.n * s.k * (3 * s.d + 2), .traffic = traffic};
}

/// New centroids, d(n + k) operations: every point added, every sum divided.
[[maybe_unused]] inline StageWork update_work(const Sizes& s, const Traffic& traffic) {
  return {.stage = "update", .operations = s.d * (s.n + s.k), .traffic = traffic};
}

/// What the update of row-major points moves: points and labels, and the sums that they are added
/// to.
[[maybe_unused]] inline Traffic update_traffic(const Sizes& s) {
  const double points = s.scalar * s.n * s.d;
  return {.read_bytes = 2 * points + 4 * s.n, .written_bytes = points};
}

/// Labelling point by point and comparing each label with its predecessor, then the update.
[[maybe_unused]] inline std::vector<StageWork> label_and_update_work(const Sizes& s) {
  // Every point for every centroid, old and new labels.
  const double distances = 2 * s.scalar * s.n * s.d * s.k;
  return {assign_work(s, {.read_bytes = distances + 4 * s.n, .written_bytes = 4 * s.n}),
          update_work(s, update_traffic(s))};
}

/// Of an iteration that consists of these stages.
[[maybe_unused]] inline Traffic total_traffic(const std::vector<StageWork>& stages) {
  Traffic total;
  for (const StageWork& stage : stages) {
    total.read_bytes += stage.traffic.read_bytes;
    total.written_bytes += stage.traffic.written_bytes;
    total.atomic_bytes += stage.traffic.atomic_bytes;
  }
  return total;
}

}  // namespace
}  // namespace kmeans
