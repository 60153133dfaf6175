// SPDX-License-Identifier: Apache-2.0
//
// What variants say of the two stages of an iteration, `assign` and `update`, in the operation
// model of docs/metrics.md (zechner2009, equations 2 and 3).
#pragma once

#include <vector>

#include "harness/variant.h"

namespace kmeans {
// Unnamed on purpose: variants are compiled with different options (implementations/cpu/_plain.h).
namespace {

/// Labelling, nk(3d + 2) operations: a distance with its square root, and a comparison, for each
/// point and centroid.
[[maybe_unused]] inline StageWork assign_work(const Shape& shape, const Traffic& traffic) {
  const double d = static_cast<double>(shape.d);
  return {.stage = "assign",
          .operations = static_cast<double>(shape.n) * static_cast<double>(shape.k) * (3 * d + 2),
          .traffic = traffic};
}

/// New centroids, d(n + k) operations: every point added, every sum divided.
[[maybe_unused]] inline StageWork update_work(const Shape& shape, const Traffic& traffic) {
  return {.stage = "update",
          .operations = static_cast<double>(shape.d) *
                        (static_cast<double>(shape.n) + static_cast<double>(shape.k)),
          .traffic = traffic};
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
