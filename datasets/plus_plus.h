// SPDX-License-Identifier: Apache-2.0
//
// k-means++ by row numbers, and the distance that other choices of rows go by. Distances are float64 and
// summed in a fixed order, chances are integers: the same rows are chosen on every machine and with every
// number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/support/seed_distances.h"

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

/// Weights sum to less than this, which leaves bars of at least eight binary digits.
inline constexpr std::int64_t kMostSeedingWeight = std::int64_t{1} << 53;

/// k-means++ (Arthur and Vassilvitskii 2007) as docs/seeding.md defines it: k rows, in the order of their
/// choice. The first has a chance proportional to its weight, each next one to its weight times its squared
/// distance from the nearest chosen. Where no row has a chance any more, the first unused ones follow, those
/// with a weight before the others. 1 <= k <= n; the weights' sum is from 1 to kMostSeedingWeight.
/// `between` is called now and then, and may throw.
template <class T>
std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<T>& problem, std::int64_t k,
                                         std::uint64_t seed,
                                         const std::function<void()>& between = {});

/// The same on a board of these points, which is new.
template <class T>
std::vector<std::int64_t> plus_plus_rows(const SeedingProblem<T>& problem, std::int64_t k,
                                         std::uint64_t seed, SeedingBoard<T>& board,
                                         const std::function<void()>& between = {});

/// The fastest board of this program.
template <class T>
std::unique_ptr<SeedDistances<T>> seed_distances(const SeedingProblem<T>& problem);

/// Distances as the definition reads: every point from every seed.
template <class T>
std::unique_ptr<SeedDistances<T>> plain_seed_distances(const SeedingProblem<T>& problem);

}  // namespace kmeans
