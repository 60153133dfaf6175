// SPDX-License-Identifier: Apache-2.0
//
// The squared distance of two rows, in the plainest loop.
#pragma once

#include <cstdint>

namespace kmeans::plain {
namespace {  // unnamed for the reason given in _lloyd.h

/// Squared distance of two rows of d coordinates, summed in their own scalar, t ascending: one
/// coordinate after another.
template <class T>
T squared_distance_in_order(const T* point, const T* centroid, std::int64_t d) {
  T sum = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const T difference = point[t] - centroid[t];
    sum += difference * difference;
  }
  return sum;
}

/// The same. A sum in a fixed order may not be spread over SIMD lanes, but GCC subtracts and
/// squares in lanes and then adds up lane after lane. Up to three coordinates that costs more than
/// it gains, most in float32 (docs/variants.md), so these have loops of their own, which have known
/// lengths.
template <class T>
T squared_distance(const T* point, const T* centroid, std::int64_t d) {
  if (d == 1) return squared_distance_in_order(point, centroid, 1);
  if (d == 2) return squared_distance_in_order(point, centroid, 2);
  if (d == 3) return squared_distance_in_order(point, centroid, 3);
  return squared_distance_in_order(point, centroid, d);
}

}  // namespace
}  // namespace kmeans::plain
