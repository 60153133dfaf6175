// SPDX-License-Identifier: Apache-2.0
//
// Points by which openmp_best sees what a problem is like.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
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

/// The `wanted` points nearest to one of them, itself among them, in no order; all if there are no more.
inline std::vector<std::int64_t> nearest_rows(const Problem<float>& problem, std::int64_t centre,
                                              std::int64_t wanted) {
  using Near = std::pair<float, std::int64_t>;
  const auto [n, d, k, precision] = problem.shape;
  const float* const points = problem.points;
  const auto distance = [&, d = d](std::int64_t i) {
    float sum = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const float difference = points[i * d + t] - points[centre * d + t];
      sum += difference * difference;
    }
    return sum;
  };
  // Only points that are as near as the nearest of a sample need be compared: some hundred.
  const std::int64_t stride = std::max<std::int64_t>(1, n / 4096);
  std::vector<float> sample;
  for (std::int64_t i = 0; i < n; i += stride) sample.push_back(distance(i));
  const auto rank = std::min<std::int64_t>(std::ssize(sample) - 1, 4 * wanted / stride + 8);
  std::nth_element(sample.begin(), sample.begin() + rank, sample.end());
  std::vector<Near> found;
  for (float limit = sample[rank]; std::ssize(found) < std::min(wanted, n);
       limit = std::numeric_limits<float>::infinity()) {
    found.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      if (const float one = distance(i); one <= limit) found.emplace_back(one, i);
    }
  }
  wanted = std::min(wanted, n);
  std::nth_element(found.begin(), found.begin() + wanted - 1, found.end());
  std::vector<std::int64_t> rows;
  for (std::int64_t near = 0; near < wanted; ++near) rows.push_back(found[near].second);
  return rows;
}

/// Neighbourhoods of some points, 128 points each, a hundredth of all at most: the boxes about few of the
/// points are as small there as those about all. Every point that is looked through costs a distance.
inline std::vector<float> neighbourhoods(const Problem<float>& problem) {
  constexpr std::int64_t kNeighbours = 128;
  constexpr std::int64_t kMax = 8;
  const auto [n, d, k, precision] = problem.shape;
  const std::int64_t count = std::clamp<std::int64_t>(n / (128 * kNeighbours), 1, kMax);
  std::vector<float> points;
  for (std::int64_t place = 0; place < count; ++place) {
    const std::int64_t centre = (2 * place + 1) * n / (2 * count);
    for (const std::int64_t near : nearest_rows(problem, centre, kNeighbours)) {
      const float* row = problem.points + near * d;
      points.insert(points.end(), row, row + d);
    }
  }
  return points;
}

}  // namespace kmeans::openmp
