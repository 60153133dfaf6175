// SPDX-License-Identifier: Apache-2.0
//
// What merging two clusters costs in Ward's method (docs/seeding.md), for datasets/ward.h.
// Header-only, so that a backend compiles it for its own registers. Include only where
// -ffp-contract=off.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "harness/support/parallel.h"

namespace kmeans {

/// Some clusters: means (count x d, row-major) and weights, each at least 1.
struct WeightedMeans {
  std::int64_t d = 1;
  std::vector<double> means;
  std::vector<std::int64_t> weights;

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(weights.size()); }
};

/// Clusters `from` and `into`, the lower one, have become `into`. Heights never fall towards the
/// root.
struct Merge {
  std::int64_t into = 0;
  std::int64_t from = 0;
  double height = 0;
};

/// How far rounding may move what merges cost.
struct MergeRounding {
  double share = 0;  ///< Of the root of a cost.
  double drift = 0;  ///< Of that root, by all merges' roundings of means.

  /// largest: |coordinate| of a mean; weight: of all together.
  MergeRounding(std::int64_t count, std::int64_t d, double largest, double weight)
      : share((static_cast<double>(d) + 16) * 0x1p-51),
        drift(static_cast<double>(count) * std::sqrt(weight * static_cast<double>(d)) * largest *
              0x1p-49) {}

  explicit MergeRounding(const WeightedMeans& clusters)
      : MergeRounding(clusters.count(), clusters.d, largest_of(clusters.means),
                      std::accumulate(clusters.weights.begin(), clusters.weights.end(), 0.0)) {}

  static double largest_of(const std::vector<double>& values) {
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    return largest;
  }

  /// Of roots of costs: is the first one lower, however both were rounded?
  [[nodiscard]] bool is_lower(double cost, double other) const {
    return std::sqrt(cost) * (1 + share) + drift < std::sqrt(other) * (1 - share);
  }

  /// Are so many of these heights lower than all that can come, if no two clusters are nearer than
  /// `nearest`? No two come nearer than the nearest ones are.
  [[nodiscard]] bool are_lower(std::vector<double> heights, std::int64_t wanted,
                               double nearest) const {
    if (static_cast<std::int64_t>(heights.size()) < wanted) return false;
    if (wanted == 0) return true;
    std::nth_element(heights.begin(), heights.begin() + (wanted - 1), heights.end());
    return is_lower(heights[wanted - 1], nearest);
  }
};

/// Between clusters a and b: W_a W_b / (W_a + W_b) |mean_a - mean_b|^2 in float64, t ascending,
/// every operation rounded on its own.
class MergeCosts {
 public:
  struct Neighbour {
    std::int64_t cluster = -1;
    double cost = std::numeric_limits<double>::infinity();

    friend bool operator<(const Neighbour& a, const Neighbour& b) {
      return a.cost < b.cost || (a.cost == b.cost && a.cluster < b.cluster);
    }
  };
  /// Those that cost least, in ascending order; every other cluster costs at least `beyond`.
  struct Near {
    std::vector<Neighbour> some;
    double beyond = std::numeric_limits<double>::infinity();
  };

  MergeCosts() = default;
  virtual ~MergeCosts() = default;
  MergeCosts(const MergeCosts&) = delete;
  MergeCosts& operator=(const MergeCosts&) = delete;

  /// For each of these clusters what is near it: all others, or so many that something is left out.
  [[nodiscard]] virtual std::vector<Near> near(const std::vector<std::int64_t>& clusters,
                                               int threads) const = 0;
  /// On any thread.
  [[nodiscard]] virtual double cost(std::int64_t a, std::int64_t b) const = 0;
  virtual void replace(std::int64_t cluster, const double* mean, std::int64_t weight) = 0;
  virtual void remove(std::int64_t cluster) = 0;
};

using MergeCostsFactory = std::unique_ptr<MergeCosts> (*)(const WeightedMeans& clusters);

/// Clusters in the lanes. `Registers` keeps apart what is compiled for different ones.
template <class Registers>
class BlockedMergeCosts final : public MergeCosts {
 public:
  explicit BlockedMergeCosts(const WeightedMeans& clusters)
      : d_(clusters.d),
        blocks_((clusters.count() + kLanes - 1) / kLanes),
        means_(blocks_ * d_ * kLanes, std::numeric_limits<double>::infinity()),
        weights_(blocks_ * kLanes) {
    for (std::int64_t c = 0; c < clusters.count(); ++c) {
      replace(c, clusters.means.data() + c * d_, clusters.weights[c]);
    }
  }

  static std::unique_ptr<MergeCosts> make(const WeightedMeans& clusters) {
    return std::make_unique<BlockedMergeCosts>(clusters);
  }

  void replace(std::int64_t cluster, const double* mean, std::int64_t weight) override {
    for (std::int64_t t = 0; t < d_; ++t) means_[place(cluster, t)] = mean[t];
    weights_[cluster] = static_cast<double>(weight);
  }

  void remove(std::int64_t cluster) override {
    for (std::int64_t t = 0; t < d_; ++t) {
      means_[place(cluster, t)] = std::numeric_limits<double>::infinity();
    }
  }

  [[nodiscard]] std::vector<Near> near(const std::vector<std::int64_t>& clusters,
                                       int threads) const override {
    constexpr std::int64_t kEach = 8;
    const auto count = static_cast<std::int64_t>(clusters.size());
    std::vector<Near> all(clusters.size());
    const auto numbers = static_cast<double>(count * std::ssize(means_));
    const int worth = worth_threads(numbers, 1 << 17, threads);
    for_each_part((count + kEach - 1) / kEach, worth, [&](std::int64_t part) {
      const std::int64_t end = std::min(count, (part + 1) * kEach);
      for (std::int64_t c = part * kEach; c < end; ++c) all[c] = near(clusters[c]);
    });
    return all;
  }

  [[nodiscard]] double cost(std::int64_t a, std::int64_t b) const override {
    double sum = 0;
    for (std::int64_t t = 0; t < d_; ++t) {
      const double difference = means_[place(a, t)] - means_[place(b, t)];
      const double product = difference * difference;
      sum = sum + product;
    }
    return cost_of(weights_[a], weights_[b], sum);
  }

 private:
  static constexpr std::int64_t kLanes = 8;
  static constexpr std::int64_t kAtOnce = 4;  // the order of a sum is fixed, so it waits for itself
  static constexpr std::size_t kKept = 24;    // near a cluster

  [[nodiscard]] std::int64_t place(std::int64_t cluster, std::int64_t t) const {
    return (cluster / kLanes * d_ + t) * kLanes + cluster % kLanes;
  }

  static double cost_of(double weight, double its, double squared) {
    return weight * its / (weight + its) * squared;
  }

  [[nodiscard]] Near near(std::int64_t cluster) const {
    std::vector<double> own(d_);
    for (std::int64_t t = 0; t < d_; ++t) own[t] = means_[place(cluster, t)];
    Near near;
    near.some.reserve(kKept + 1);
    std::int64_t block = 0;
    for (; block + kAtOnce <= blocks_; block += kAtOnce) {
      look<kAtOnce>(own.data(), cluster, block, near);
    }
    for (; block < blocks_; ++block) look<1>(own.data(), cluster, block, near);
    return near;
  }

  template <std::int64_t kBlocks>
  void look(const double* own, std::int64_t cluster, std::int64_t first, Near& near) const {
    using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));
    std::array<Lanes, kBlocks> in_lanes{};
    const double* values = means_.data() + first * d_ * kLanes;
    for (std::int64_t t = 0; t < d_; ++t) {
      for (std::int64_t b = 0; b < kBlocks; ++b) {
        Lanes its;
        std::memcpy(&its, values + (b * d_ + t) * kLanes, sizeof(its));
        const Lanes difference = own[t] - its;
        const Lanes product = difference * difference;
        in_lanes[b] = in_lanes[b] + product;
      }
    }
    std::array<double, kBlocks * kLanes> sums;
    std::memcpy(sums.data(), in_lanes.data(), sizeof(sums));
    std::array<double, kBlocks * kLanes> costs;
    for (std::int64_t c = 0; c < kBlocks * kLanes; ++c) {
      costs[c] = cost_of(weights_[cluster], weights_[first * kLanes + c], sums[c]);
    }
    for (std::int64_t c = 0; c < kBlocks * kLanes; ++c) {
      if (costs[c] < near.beyond && first * kLanes + c != cluster) {
        insert({first * kLanes + c, costs[c]}, near);
      }
    }
  }

  static void insert(const Neighbour& neighbour, Near& near) {
    near.some.insert(std::upper_bound(near.some.begin(), near.some.end(), neighbour), neighbour);
    if (near.some.size() <= kKept) return;
    near.beyond = near.some.back().cost;
    near.some.pop_back();
  }

  std::int64_t d_;
  std::int64_t blocks_;
  std::vector<double> means_;  // blocks of d x kLanes; infinite where there is no cluster
  std::vector<double> weights_;
};

}  // namespace kmeans
