// SPDX-License-Identifier: Apache-2.0
//
// What has to be known of points before an exact step.
#pragma once

#include <vector>

namespace kmeans {

/// Of one problem or several.
struct PointFacts {
  std::vector<float> largest;  ///< Coordinate, without its sign; infinite or NaN if one is.
  /// Do the exact step's integers surely keep the digits (harness/verify/resolution.h)? 0: they may not, or
  /// coordinates are not finite.
  std::vector<char> resolved;
};

}  // namespace kmeans
