// SPDX-License-Identifier: Apache-2.0
//
// What merging two clusters costs in Ward's method (docs/seeding.md), for datasets/ward.h. Header-only, so
// that a backend compiles it for its own registers. Include only where -ffp-contract=off.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
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

/// Between clusters a and b: W_a W_b / (W_a + W_b) |mean_a - mean_b|^2 in float64, t ascending, every
/// operation rounded on its own.
class MergeCosts {
 public:
  struct Nearest {
    std::int64_t cluster = -1;
    double cost = std::numeric_limits<double>::infinity();
  };

  MergeCosts() = default;
  virtual ~MergeCosts() = default;
  MergeCosts(const MergeCosts&) = delete;
  MergeCosts& operator=(const MergeCosts&) = delete;

  /// Of all other clusters the one that costs least; the lowest on a tie. On any thread.
  [[nodiscard]] virtual Nearest nearest(std::int64_t cluster) const = 0;
  /// The same of several.
  [[nodiscard]] virtual std::vector<Nearest> nearest_of(const std::vector<std::int64_t>& clusters,
                                                        int threads) const {
    constexpr std::int64_t kEach = 8;
    const auto count = static_cast<std::int64_t>(clusters.size());
    std::vector<Nearest> all(clusters.size());
    for_each_part((count + kEach - 1) / kEach, threads, [&](std::int64_t part) {
      const std::int64_t end = std::min(count, (part + 1) * kEach);
      for (std::int64_t c = part * kEach; c < end; ++c) all[c] = nearest(clusters[c]);
    });
    return all;
  }
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

  [[nodiscard]] Nearest nearest(std::int64_t cluster) const override {
    std::vector<double> own(d_);
    for (std::int64_t t = 0; t < d_; ++t) own[t] = means_[place(cluster, t)];
    Nearest nearest;
    std::int64_t block = 0;
    for (; block + kAtOnce <= blocks_; block += kAtOnce) {
      look<kAtOnce>(own.data(), cluster, block, nearest);
    }
    for (; block < blocks_; ++block) look<1>(own.data(), cluster, block, nearest);
    return nearest;
  }

 private:
  static constexpr std::int64_t kLanes = 8;
  static constexpr std::int64_t kAtOnce = 4;  // the order of a sum is fixed, so it waits for itself

  [[nodiscard]] std::int64_t place(std::int64_t cluster, std::int64_t t) const {
    return (cluster / kLanes * d_ + t) * kLanes + cluster % kLanes;
  }

  template <std::int64_t kBlocks>
  void look(const double* own, std::int64_t cluster, std::int64_t first, Nearest& nearest) const {
    std::array<double, kBlocks * kLanes> sums{};
    const double* values = means_.data() + first * d_ * kLanes;
    for (std::int64_t t = 0; t < d_; ++t) {
      for (std::int64_t b = 0; b < kBlocks; ++b) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          const double difference = own[t] - values[(b * d_ + t) * kLanes + lane];
          const double product = difference * difference;
          sums[b * kLanes + lane] = sums[b * kLanes + lane] + product;
        }
      }
    }
    const double weight = weights_[cluster];
    for (std::int64_t c = 0; c < kBlocks * kLanes; ++c) {
      const std::int64_t other = first * kLanes + c;
      const double its = weights_[other];
      const double cost = weight * its / (weight + its) * sums[c];
      if (cost < nearest.cost && other != cluster) nearest = {other, cost};
    }
  }

  std::int64_t d_;
  std::int64_t blocks_;
  std::vector<double> means_;  // blocks of d x kLanes; infinite where there is no cluster
  std::vector<double> weights_;
};

}  // namespace kmeans
