// SPDX-License-Identifier: Apache-2.0
//
// How far two values of the float32 kernel must lie apart to decide which of their float64
// distances is lower. The proof stands in docs/openmp-bounds.md.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// With Y the norm of the packed point: a second value that exceeds the lowest by more than
/// a + b Y + c Y^2 belongs to a centroid that is further away for certain.
struct FilterBound {
  float a = 0;
  float b = 0;
  float c = 0;

  /// The bound for all points against the centroids seen; `centroids` covers all of them.
  static FilterBound of(std::int64_t d, const CentroidRange& centroids) {
    constexpr double kUnit = 0x1p-24;  // half an ulp of 1 in float32
    const double operations = static_cast<double>(d + 4) * kUnit;
    // A centroid left out as too far away is known to lose only against one that is near.
    const bool comparable = centroids.any_near || !centroids.any_far;
    if (operations > 0.25 || !comparable) return {std::numeric_limits<float>::infinity(), 0, 0};
    const double gamma = operations / (1 - operations);
    const double norm = centroids.largest_norm * 1.000001;
    const double underflow = static_cast<double>(d + 2) * 0x1p-122;
    // Twice the error of one value, and a thousandth for evaluating the bound itself in float32.
    constexpr double kTwice = 2.002;
    return {static_cast<float>(kTwice * ((gamma + 4 * kUnit) * norm * norm + underflow)),
            static_cast<float>(kTwice * (2 * gamma + 8 * kUnit) * norm),
            static_cast<float>(kTwice * 4 * kUnit)};
  }
};

/// Bit i is set where point i of a register of points is not decided.
inline std::uint32_t undecided_points(const FilterBound& bound, const float* nearest,
                                      const float* second, const float* norms) {
  using L = Lanes<float>;
  const auto y = L::load(norms);
  const auto margin = L::fma(L::fma(L::set(bound.c), y, L::set(bound.b)), y, L::set(bound.a));
  const auto decided = L::less(margin, L::load(second) - L::load(nearest));
  return ~L::bits(decided) & ((1U << L::kCount) - 1);
}

}  // namespace kmeans::openmp
