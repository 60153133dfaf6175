// SPDX-License-Identifier: Apache-2.0
//
// Whether bytes pay: they are paused after points for which they did not, for longer each time. The
// labels do not depend on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "harness/variant.h"

namespace kmeans::openmp {

/// What became of some points outside the filter's own pass over all centroids.
struct Int8Work {
  std::int64_t operations = 0;   ///< By the filter, on groups that stayed.
  std::int64_t products = 0;     ///< Pairs of a point and a centroid, as 16-bit integers.
  std::int64_t differences = 0;  ///< And in float32.
  std::int64_t overfull = 0;     ///< Points with more survivors than are listed.

  /// Did it take longer than the float32 filter would have? In operations on registers, roughly.
  [[nodiscard]] bool exceeds_float32(double points, const Sizes& s) const {
    const double pass = points * s.k * (s.d / 64 + 0.4);
    const double again = static_cast<double>(operations) +
                         static_cast<double>(products) * (s.d / 16 + 20) +
                         static_cast<double>(differences) * (s.d / 8 + 40) +
                         static_cast<double>(overfull) * s.k * (s.d / 8 + 10);
    return pass + again > points * s.k * (s.d / 16 + 0.4);
  }
};

/// Counted in steps of a thread, whatever they are.
class Int8Pause {
 public:
  /// Is the next step to be done without bytes?
  bool skips() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }

  /// So many steps to come are all to be done without.
  [[nodiscard]] bool covers(std::int64_t steps) const { return left_ >= steps; }

  /// After a step with bytes.
  void judge(bool too_slow) {
    length_ = too_slow ? std::min(2 * length_ + 2, 64) : 0;
    left_ = length_;
  }

 private:
  int left_ = 0;
  int length_ = 0;
};

}  // namespace kmeans::openmp
