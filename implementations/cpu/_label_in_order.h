// SPDX-License-Identifier: Apache-2.0
//
// Labelling in the plainest loops.
#pragma once

#include <cstdint>
#include <limits>

#include "harness/variant.h"
#include "implementations/cpu/_squared_distance.h"

namespace kmeans::plain {
namespace {  // unnamed for the reason given in _lloyd.h

/// Labels each point (n x d, row-major) with its nearest centroid (k x d), one coordinate after
/// another; returns how many labels (n) changed.
template <class T>
std::int64_t label_in_order(const Problem<T>& problem, const T* centroids, std::int32_t* labels) {
  const auto [n, d, k, precision] = problem.shape;
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    T nearest_distance = std::numeric_limits<T>::infinity();
    std::int32_t nearest = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const T distance = squared_distance_in_order(problem.points + i * d, centroids + j * d, d);
      if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
        nearest_distance = distance;
        nearest = static_cast<std::int32_t>(j);
      }
    }
    changed += labels[i] != nearest ? 1 : 0;
    labels[i] = nearest;
  }
  return changed;
}

}  // namespace
}  // namespace kmeans::plain
