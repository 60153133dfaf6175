// SPDX-License-Identifier: Apache-2.0
//
// Seeds of points that ranks share (docs/seeding.md). Every rank plays the whole game, on a board of which it
// holds its own rows: what it needs of the others are sums and darts, so all come to the same seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "harness/communicator.h"
#include "harness/support/seed_distances.h"

namespace kmeans {

/// The board of all ranks' rows, one after another; `own` are this rank's, from row `first` on. All ranks
/// make the same calls.
template <class T>
class RankedBoard final : public SeedingBoard<T> {
 public:
  RankedBoard(Communicator& ranks, SeedingBoard<T>& own, std::int64_t first, std::int64_t d)
      : ranks_(ranks), own_(own), first_(first), ends_(ranks.size()), d_(d) {}

  double pass(const std::function<void()>& between) override {
    return ranks_.all_reduce_max(own_.pass(between));
  }
  void keep_nearest() override { own_.keep_nearest(); }
  std::uint64_t weigh(double scale) override;
  std::vector<Dart<T>> locate(const std::vector<std::uint64_t>& positions) override;
  std::vector<bool> throw_darts(const std::vector<Dart<T>>& darts, std::int64_t hits,
                                std::int64_t misses) override {
    return own_.throw_darts(darts, hits, misses);
  }
  std::vector<std::int64_t> cells(const T* seeds, std::int64_t count, double scale) override;
  std::optional<std::vector<Merge>> merges(const WeightedMeans& clusters, std::int64_t wanted,
                                           const std::function<void()>& between) override {
    return own_.merges(clusters, wanted, between);
  }

 private:
  Communicator& ranks_;
  SeedingBoard<T>& own_;
  std::int64_t first_;
  std::vector<std::uint64_t> ends_;  // of each rank's bars
  std::int64_t d_;
  std::vector<T> points_;  // of the last darts
};

/// What ranks can choose together: kmeans++, and ward of float32 points.
template <class T>
bool ranks_choose(const InitSpec& init);

/// All ranks, on the rows that each of them reads from this npy file: k x d centroids, as
/// initial_centroids() gives them. ranks_choose(init); `max_abs` is that of all rows, as `weights` are; none: each
/// is 1.
template <class T>
std::vector<T> centroids_by_ranks(Communicator& ranks, const std::string& file, std::int64_t k,
                                  const InitSpec& init, T max_abs, int threads,
                                  const std::vector<std::int64_t>& weights);

}  // namespace kmeans
