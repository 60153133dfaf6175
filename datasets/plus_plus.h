// SPDX-License-Identifier: Apache-2.0
//
// k-means++ by row numbers, and the distance that choices of rows go by. Distances are float64 and
// summed in a fixed order, random choices come from integers: the same rows are chosen on every machine
// and with every number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace kmeans {

/// Eight partial sums in a fixed order: vector instructions without a change of the result.
template <class T>
double squared_distance(const T* a, const T* b, std::int64_t d) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::int64_t t = 0;
  for (; t + kLanes <= d; t += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double difference = static_cast<double>(a[t + lane]) - static_cast<double>(b[t + lane]);
      sums[static_cast<std::size_t>(lane)] += difference * difference;
    }
  }
  for (std::int64_t lane = 0; t < d; ++t, ++lane) {
    const double difference = static_cast<double>(a[t]) - static_cast<double>(b[t]);
    sums[static_cast<std::size_t>(lane)] += difference * difference;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Arthur and Vassilvitskii 2007: the first of k rows at random, each next one with probability
/// proportional to its squared distance from the nearest chosen one. x: n x d; 1 <= k <= n. `between` is
/// called between two choices, and may throw.
template <class T>
std::vector<std::int64_t> plus_plus_rows(const T* x, std::int64_t n, std::int64_t d, std::int64_t k,
                                         std::uint64_t seed,
                                         const std::function<void()>& between = {});

}  // namespace kmeans
