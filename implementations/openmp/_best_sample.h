// SPDX-License-Identifier: Apache-2.0
//
// Points by which openmp_best sees what a problem is like.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "harness/variant.h"

namespace kmeans::openmp {

/// `count` points, evenly spaced over all.
inline std::vector<float> evenly_spaced(const Problem<float>& problem, std::int64_t count) {
  const auto [n, d, k, precision] = problem.shape;
  std::vector<float> points;
  points.reserve(count * d);
  for (std::int64_t place = 0; place < count; ++place) {
    const float* row = problem.points + place * n / count * d;
    points.insert(points.end(), row, row + d);
  }
  return points;
}

/// Neighbourhoods of some points, 128 points each, a hundredth of all at most: the boxes about few of the
/// points are as small there as those about all. Every point that is looked through costs a distance.
inline std::vector<float> neighbourhoods(const Problem<float>& problem) {
  constexpr std::int64_t kNeighbours = 128;
  constexpr std::int64_t kMax = 8;
  const auto [n, d, k, precision] = problem.shape;
  const std::int64_t count = std::clamp<std::int64_t>(n / (128 * kNeighbours), 1, kMax);
  std::vector<float> points;
  std::vector<float> distances(n);
  std::vector<std::int64_t> order(n);
  for (std::int64_t place = 0; place < count; ++place) {
    const float* centre = problem.points + (2 * place + 1) * n / (2 * count) * d;
    for (std::int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (std::int64_t t = 0; t < d; ++t) {
        const float difference = problem.points[i * d + t] - centre[t];
        sum += difference * difference;
      }
      distances[i] = sum;
    }
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::nth_element(order.begin(), order.begin() + kNeighbours, order.end(),
                     [&](std::int64_t a, std::int64_t b) { return distances[a] < distances[b]; });
    for (std::int64_t near = 0; near < kNeighbours; ++near) {
      const float* row = problem.points + order[near] * d;
      points.insert(points.end(), row, row + d);
    }
  }
  return points;
}

}  // namespace kmeans::openmp
