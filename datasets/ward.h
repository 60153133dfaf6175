// SPDX-License-Identifier: Apache-2.0
//
// The start `ward:SEED` (docs/seeding.md): k-means++ chooses some times k seeds, their cells are merged to k by
// Ward's method. The same bits on every machine, with every number of threads and ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/support/seed_distances.h"
#include "harness/support/ward_costs.h"

namespace kmeans {

/// Seeds whose cells are merged to k clusters of n points.
std::int64_t ward_seeds(std::int64_t n, std::int64_t k);

/// Null, or what gives null: the fastest on a CPU.
using MakeMergeCosts = std::function<std::unique_ptr<MergeCosts>(const WeightedMeans& clusters)>;

/// Ward 1963: from every cluster alone, the two that cost least are merged until k are left. By reciprocal
/// nearest neighbours, which merge to the same tree. For each cluster the number of the one that it ends up
/// in, from 0 to k - 1, by their lowest members. 1 <= k <= count. `between` as below.
std::vector<std::int32_t> ward_clusters(const WeightedMeans& clusters, std::int64_t k, int threads,
                                        const std::function<void()>& between = {},
                                        const MakeMergeCosts& make = {});

/// The clusters after the count - k lowest merges, of equal ones those that come first, so numbered. Of clusters
/// those that are merged are made before.
std::vector<std::int32_t> clusters_of(std::vector<Merge> merges, std::int64_t count,
                                      std::int64_t k);

/// k x d centroids. 1 <= k <= n; the weights as for plus_plus_rows(). Where the points make fewer than k
/// cells, they are those of plus_plus_rows(). `between` is called now and then, and may throw.
std::vector<float> ward_centroids(const SeedingProblem<float>& problem, std::int64_t k,
                                  std::uint64_t seed, const std::function<void()>& between = {});
/// The same of the rows' differences from the first one, scaled by a power of two and rounded to float32.
std::vector<double> ward_centroids(const SeedingProblem<double>& problem, std::int64_t k,
                                   std::uint64_t seed, const std::function<void()>& between = {});

/// The same on a board of these points, which is new; empty where the points make fewer than k cells.
std::vector<float> ward_centroids(const SeedingProblem<float>& problem, std::int64_t k,
                                  std::uint64_t seed, SeedingBoard<float>& board,
                                  const std::function<void()>& between = {});

}  // namespace kmeans
