// SPDX-License-Identifier: Apache-2.0
#include "datasets/ward.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

#include "harness/support/faster_seeding.h"
#include "harness/support/random.h"
#include "tests/datasets/awkward_clusters.h"

namespace kmeans {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;

WeightedMeans random_clusters(std::uint64_t number) {
  SplitMix64 random(number);
  WeightedMeans clusters;
  clusters.d = 1 + random.below(9);
  const std::int64_t count = 2 + random.below(120);
  for (std::int64_t c = 0; c < count; ++c) {
    clusters.weights.push_back(1 + random.below(number % 3 == 0 ? 1 : 50));
    for (std::int64_t t = 0; t < clusters.d; ++t) {
      clusters.means.push_back(random.uniform() + static_cast<double>(c % 5 * (t + 1)));
    }
  }
  return clusters;
}

/// Ward's method as it reads: the cheapest pair of all, again and again.
std::vector<std::int32_t> pair_by_pair(WeightedMeans clusters, std::int64_t k) {
  const std::int64_t d = clusters.d;
  std::vector<std::int64_t> of(clusters.count());  // the lowest member of each one's cluster
  for (std::int64_t c = 0; c < clusters.count(); ++c) of[c] = c;
  for (std::int64_t left = clusters.count(); left > k; --left) {
    double lowest = std::numeric_limits<double>::infinity();
    std::int64_t into = 0;
    std::int64_t from = 0;
    for (std::int64_t a = 0; a < clusters.count(); ++a) {
      for (std::int64_t b = a + 1; b < clusters.count(); ++b) {
        if (of[a] != a || of[b] != b) continue;
        double squared = 0;
        for (std::int64_t t = 0; t < d; ++t) {
          squared += std::pow(clusters.means[a * d + t] - clusters.means[b * d + t], 2);
        }
        const auto weight = static_cast<double>(clusters.weights[a]);
        const auto its = static_cast<double>(clusters.weights[b]);
        const double cost = weight * its / (weight + its) * squared;
        if (cost < lowest) {
          lowest = cost;
          into = a;
          from = b;
        }
      }
    }
    const auto weight = static_cast<double>(clusters.weights[into]);
    const auto its = static_cast<double>(clusters.weights[from]);
    for (std::int64_t t = 0; t < d; ++t) {
      double& mean = clusters.means[into * d + t];
      mean = (weight * mean + its * clusters.means[from * d + t]) / (weight + its);
    }
    clusters.weights[into] += clusters.weights[from];
    std::replace(of.begin(), of.end(), from, into);
  }
  std::vector<std::int32_t> numbers;
  std::vector<std::int32_t> number_of(of.size());
  std::int32_t next = 0;
  for (std::size_t c = 0; c < of.size(); ++c) {
    const auto lowest = static_cast<std::size_t>(of[c]);
    if (lowest == c) number_of[c] = next++;
    numbers.push_back(number_of[lowest]);
  }
  return numbers;
}

TEST(Ward, ReciprocalNeighboursMergeToTheClustersOfPairByPair) {
  for (std::uint64_t number = 0; number < 60; ++number) {
    const auto clusters = random_clusters(number);
    const std::int64_t count = clusters.count();
    for (const std::int64_t k : {std::int64_t{1}, count / 4 + 1, count / 2 + 1, count - 1, count}) {
      EXPECT_EQ(ward_clusters(clusters, k, 1), pair_by_pair(clusters, k))
          << number << ", k = " << k;
    }
  }
}

TEST(Ward, EqualCostsEnd) {
  // A grid of whole numbers, where nearly all costs have equals.
  WeightedMeans grid;
  grid.d = 2;
  for (int i = 0; i < 144; ++i) {
    grid.means.insert(grid.means.end(), {1.0 * (i % 12), 1.0 * (i / 12)});
    grid.weights.push_back(1);
  }
  for (const std::int64_t k : {1, 2, 9, 36, 144}) {
    const auto numbers = ward_clusters(grid, k, 2);
    const std::set<std::int32_t> all(numbers.begin(), numbers.end());
    EXPECT_EQ(static_cast<std::int64_t>(all.size()), k);
    EXPECT_EQ(*all.rbegin(), k - 1);
  }
}

struct Plain;

/// Costs that name a cluster's nearest and nobody else, so that who loses it looks at all again.
class NearestAlone final : public MergeCosts {
 public:
  explicit NearestAlone(const WeightedMeans& clusters)
      : costs_(BlockedMergeCosts<Plain>::make(clusters)) {}

  [[nodiscard]] std::vector<Near> near(const std::vector<std::int64_t>& clusters,
                                       int threads) const override {
    auto all = costs_->near(clusters, threads);
    for (auto& near : all) {
      near.some.resize(1);
      near.beyond = near.some[0].cost;
    }
    looks_ += static_cast<std::int64_t>(all.size());
    return all;
  }
  [[nodiscard]] double cost(std::int64_t a, std::int64_t b) const override {
    return costs_->cost(a, b);
  }
  void replace(std::int64_t cluster, const double* mean, std::int64_t weight) override {
    costs_->replace(cluster, mean, weight);
  }
  void remove(std::int64_t cluster) override { costs_->remove(cluster); }

  static std::int64_t& looks() { return looks_; }

 private:
  static inline std::int64_t looks_ = 0;
  std::unique_ptr<MergeCosts> costs_;
};

TEST(Ward, WhoRemembersWhatWasNearMergesTheSame) {
  NearestAlone::looks() = 0;
  for (std::uint64_t number = 0; number < 80; ++number) {
    WeightedMeans clusters = random_clusters(number);
    make_awkward(clusters, number);
    const auto looks_at_all = [](const WeightedMeans& of) -> std::unique_ptr<MergeCosts> {
      return std::make_unique<NearestAlone>(of);
    };
    for (const std::int64_t k : {std::int64_t{1}, clusters.count() / 3 + 1}) {
      EXPECT_EQ(ward_clusters(clusters, k, 2), ward_clusters(clusters, k, 1, {}, looks_at_all))
          << number << ", k = " << k;
    }
  }
  EXPECT_GT(NearestAlone::looks(), 0);
}

TEST(Ward, EndsWhenNoMergeThatIsLeftCanBeAmongTheLowest) {
  WeightedMeans pairs;
  pairs.d = 1;
  for (int i = 0; i < 400; ++i) {
    pairs.means.push_back(1000.0 * (i / 2) + i % 2);
    pairs.weights.push_back(1);
  }
  const auto looks_at_all = [](const WeightedMeans& of) -> std::unique_ptr<MergeCosts> {
    return std::make_unique<NearestAlone>(of);
  };
  NearestAlone::looks() = 0;
  const auto numbers = ward_clusters(pairs, 200, 1, {}, looks_at_all);
  for (int i = 0; i < 400; ++i) EXPECT_EQ(numbers[i], i / 2);
  EXPECT_EQ(NearestAlone::looks(), 400 + 200);  // each one, and each pair once it is one
}

TEST(Ward, AFasterBackendHasTheSameCosts) {
  const auto faster = faster_seeding().merge_costs;
  if (faster == nullptr) GTEST_SKIP() << "this build has the plain costs alone";
  for (std::uint64_t number = 0; number < 60; ++number) {
    const auto clusters = random_clusters(number);
    const auto plain_costs = BlockedMergeCosts<Plain>::make(clusters);
    const auto fast_costs = faster(clusters);
    for (std::int64_t c = 0; c < clusters.count(); ++c) {
      if (c % 7 == 6) {
        plain_costs->remove(c - 3);
        fast_costs->remove(c - 3);
      }
      const auto plain = plain_costs->near({c}, 1).front();
      const auto fast = fast_costs->near({c}, 1).front();
      EXPECT_EQ(fast.beyond, plain.beyond) << number;
      ASSERT_EQ(fast.some.size(), plain.some.size()) << number;
      for (std::size_t one = 0; one < plain.some.size(); ++one) {
        EXPECT_EQ(fast.some[one].cluster, plain.some[one].cluster) << number;
        EXPECT_EQ(fast.some[one].cost, plain.some[one].cost) << number;
        EXPECT_EQ(fast_costs->cost(c, plain.some[one].cluster), plain.some[one].cost) << number;
      }
    }
  }
}

/// n points in heaps of standard deviation 1, at corners of a cube of this size.
std::vector<float> heaps(std::int64_t n, std::int64_t d, std::int64_t count, float size) {
  SplitMix64 random(17);
  std::vector<float> corners;
  for (std::int64_t v = 0; v < count * d; ++v) {
    corners.push_back(size * static_cast<float>(random.uniform()));
  }
  std::vector<float> points;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t heap = random.below(count);
    for (std::int64_t t = 0; t < d; ++t) {
      double noise = -6;  // twelve uniform numbers make a nearly normal one
      for (int u = 0; u < 12; ++u) noise += random.uniform();
      points.push_back(corners[static_cast<std::size_t>(heap * d + t)] + static_cast<float>(noise));
    }
  }
  return points;
}

template <class T>
SeedingProblem<T> problem_of(const std::vector<T>& points, std::int64_t d, int threads = 1) {
  SeedingProblem<T> problem;
  problem.points = points.data();
  problem.d = d;
  problem.n = static_cast<std::int64_t>(points.size()) / d;
  problem.threads = threads;
  for (const T value : points) problem.max_abs = std::max(problem.max_abs, std::abs(value));
  return problem;
}

TEST(Ward, FindsEveryHeap) {
  constexpr std::int64_t kHeaps = 40;
  const auto points = heaps(8000, 8, kHeaps, 30);
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto centroids = ward_centroids(problem_of(points, 8), kHeaps, seed);
    double inertia = 0;
    for (std::int64_t i = 0; i < 8000; ++i) {
      double least = std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < kHeaps; ++j) {
        double squared = 0;
        for (std::int64_t t = 0; t < 8; ++t) {
          squared += std::pow(points[i * 8 + t] - centroids[j * 8 + t], 2);
        }
        least = std::min(least, squared);
      }
      inertia += least;
    }
    // 8 a point within its heap; a heap without a centroid would cost some hundreds for each of 200 points.
    EXPECT_LT(inertia, 1.02 * 8 * 8000) << seed;
  }
}

TEST(Ward, ThreadsAndScalarsChangeNothing) {
  const auto points = heaps(20000, 5, 30, 9);
  const auto right = ward_centroids(problem_of(points, 5), 25, 4);
  for (const int threads : {2, 7}) {
    EXPECT_EQ(ward_centroids(problem_of(points, 5, threads), 25, 4), right);
  }
  // Multiples of 1/1024, whose differences float32 holds.
  std::vector<float> narrow = points;
  for (float& value : narrow) value = std::round(value * 1024) / 1024;
  const std::vector<double> wide(narrow.begin(), narrow.end());
  const auto of_narrow = ward_centroids(problem_of(narrow, 5), 25, 4);
  const auto of_wide = ward_centroids(problem_of(wide, 5), 25, 4);
  for (std::size_t v = 0; v < of_wide.size(); ++v) EXPECT_NEAR(of_wide[v], of_narrow[v], 1e-5);
}

TEST(Ward, ADistanceFromTheOriginCostsNothing) {
  auto points = heaps(4000, 3, 20, 50);
  for (float& value : points) value = std::round(value * 8) / 8;
  const auto near = ward_centroids(problem_of(points, 3), 20, 1);
  for (float& value : points) value += 1e6F;
  const auto far = ward_centroids(problem_of(points, 3), 20, 1);
  for (std::size_t v = 0; v < near.size(); ++v) EXPECT_NEAR(far[v] - 1e6, near[v], 0.07);
  std::vector<double> wide(points.begin(), points.end());
  for (double& value : wide) value = (value - 1e6) * 0x1p-900;
  const auto tiny = ward_centroids(problem_of(wide, 3), 20, 1);
  for (std::size_t v = 0; v < near.size(); ++v) EXPECT_NEAR(tiny[v] * 0x1p900, near[v], 1e-4);
}

TEST(Ward, EndsWell) {
  // A single cluster: the mean. k = n: every point.
  const std::vector<float> five{0, 1, 2, 3, 9};
  EXPECT_THAT(ward_centroids(problem_of(five, 1), 1, 1), ElementsAre(3));
  auto all = ward_centroids(problem_of(five, 1), 5, 1);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, five);
  // Fewer distinct points than k: each of them, and some twice.
  const std::vector<float> few{4, 4, 4, 7, 7, 4, 7, 4};
  EXPECT_THAT(ward_centroids(problem_of(few, 1), 4, 1),
              ::testing::AllOf(::testing::Contains(4), ::testing::Contains(7)));
  EXPECT_THAT(ward_centroids(problem_of(few, 1), 2, 1), ::testing::UnorderedElementsAre(4, 7));
  const std::vector<double> same(12, -3.5);
  EXPECT_THAT(ward_centroids(problem_of(same, 2), 3, 1), Each(-3.5));
  // One far out is a cluster of its own, and the others are what they are.
  std::vector<float> outlier = heaps(3000, 2, 10, 60);
  outlier[100] = 1e15F;
  const auto centroids = ward_centroids(problem_of(outlier, 2), 11, 1);
  EXPECT_THAT(centroids, ::testing::Contains(1e15F));
  EXPECT_EQ(std::count_if(centroids.begin(), centroids.end(), [](float c) { return c < 100; }), 21);
  // Whoever has no weight moves nothing.
  const std::vector<float> two{0, 1, 100, 5};
  const std::vector<std::int64_t> weights{1, 3, 0, 4};
  auto weighted = problem_of(two, 1);
  weighted.weights = weights.data();
  EXPECT_THAT(ward_centroids(weighted, 1, 1), ElementsAre(FloatNear(23.0F / 8, 1e-6F)));
}

TEST(Ward, AWeightIsAsManyPoints) {
  const auto points = heaps(900, 3, 12, 20);
  std::vector<float> repeated;
  std::vector<std::int64_t> weights;
  for (std::size_t i = 0; i < 900; ++i) {
    weights.push_back(static_cast<std::int64_t>(i % 4) + 1);
    for (std::int64_t w = 0; w < weights.back(); ++w) {
      repeated.insert(repeated.end(), points.begin() + 3 * static_cast<std::ptrdiff_t>(i),
                      points.begin() + 3 * static_cast<std::ptrdiff_t>(i) + 3);
    }
  }
  auto weighted = problem_of(points, 3);
  weighted.weights = weights.data();
  // Repeated in place, so darts fall on the same places of the same bars.
  EXPECT_EQ(ward_centroids(weighted, 12, 5), ward_centroids(problem_of(repeated, 3), 12, 5));
}

TEST(Ward, WhatBetweenThrowsEndsIt) {
  const std::vector<float> five{0, 1, 2, 3, 9};
  const auto stop = [] { throw std::runtime_error("stop"); };
  EXPECT_THROW(ward_centroids(problem_of(five, 1), 2, 1, stop), std::runtime_error);
}

}  // namespace
}  // namespace kmeans
