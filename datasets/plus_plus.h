// SPDX-License-Identifier: Apache-2.0
//
// k-means++ by row numbers. Distances are float64 and summed in a fixed order, chances are integers: the same
// rows are chosen on every machine and with every number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/support/seed_distances.h"

namespace kmeans {

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

/// The fastest board of this program for a choice of at most so many seeds.
template <class T>
std::unique_ptr<SeedingBoard<T>> seeding_board(const SeedingProblem<T>& problem,
                                               std::int64_t most_seeds);

/// The fastest one on a CPU.
template <class T>
std::unique_ptr<SeedDistances<T>> seed_distances(const SeedingProblem<T>& problem);

/// Distances as the definition reads: every point from every seed.
template <class T>
std::unique_ptr<SeedDistances<T>> plain_seed_distances(const SeedingProblem<T>& problem);

}  // namespace kmeans
