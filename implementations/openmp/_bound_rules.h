// SPDX-License-Identifier: Apache-2.0
//
// What bounds between iterations have in common.
#pragma once

#include <cmath>
#include <cstdint>

namespace kmeans::openmp {

/// What keeps bounds on their side. Tests have wrong ones.
struct BoundRules {
  static constexpr float kUp = 1 + 0x1p-20F;     ///< more than the roundings of one step
  static constexpr float kDown = 1 - 0x1p-20F;   ///< likewise
  static constexpr float kClear = 1 + 0x1p-20F;  ///< how far apart two distances are surely unequal
  static constexpr double kDrift = 1.000001;     ///< of how far a centroid moved
  static constexpr float kError = 1;             ///< of the error of a value
  static constexpr float kHalf = 0.5F;           ///< of the distance between two centroids
  static constexpr float kReach = 1;             ///< of the distance to centroids beyond a ring
};

/// How far a centroid (d coordinates) moved, in the frame: never too short.
template <class Rules>
float drift_between(const float* before, const float* after, std::int64_t d, double scale) {
  double squares = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const double moved = (static_cast<double>(after[t]) - static_cast<double>(before[t])) * scale;
    squares += moved * moved;
  }
  return static_cast<float>(std::sqrt(squares) * Rules::kDrift);
}

}  // namespace kmeans::openmp
