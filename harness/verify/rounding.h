// SPDX-License-Identifier: Apache-2.0
//
// What certificates count roundings with (docs/exact-step.md).
#pragma once

#include <limits>

namespace kmeans {

/// Float64 is the yardstick; for float64 points it carries its own rounding, granted on top.
inline constexpr double kUnit64 = 0x1p-53;

/// gamma_m = m u / (1 - m u): the relative error that m roundings can accumulate to.
inline double gamma(double m, double u) {
  const double mu = m * u;
  return mu < 0.5 ? mu / (1 - mu) : std::numeric_limits<double>::infinity();
}

}  // namespace kmeans
