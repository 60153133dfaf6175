// SPDX-License-Identifier: Apache-2.0
//
// Seeds and merged centroids by a GPU are those by plain passes, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/plus_plus.h"
#include "datasets/ward.h"
#include "harness/machine/gpu.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/largest_abs.h"
#include "harness/variants/registry.h"
#include "harness/verify/ranked_seeding.h"
#include "harness/verify/session.h"
#include "tests/datasets/awkward_clusters.h"
#include "tests/variants/random_seeding.h"
#include "tests/variants/thread_ranks.h"

namespace kmeans {
namespace {

class GpuSeeding : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_board_factory() == nullptr) GTEST_SKIP() << "this build has no CUDA";
    if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem;
  }

  static std::unique_ptr<SeedingBoard<float>> board(const SeedingProblem<float>& problem,
                                                    std::int64_t most) {
    std::string why_not;
    auto made = gpu_board_factory()(problem, most, why_not);
    EXPECT_NE(made, nullptr) << why_not;
    return made;
  }

  static void expect_equal(const SeedingProblem<float>& problem, std::int64_t k, std::uint64_t seed,
                           const std::string& what) {
    const auto own = board(problem, k);
    ASSERT_EQ(plus_plus_rows(problem, k, seed, *own), plus_plus_rows(problem, k, seed)) << what;
    const auto of_ward = board(problem, ward_seeds(problem.n, k));
    const auto merged = ward_centroids(problem, k, seed, *of_ward);
    if (merged.empty()) return;
    ASSERT_EQ(merged, ward_centroids(problem, k, seed)) << what;
  }
};

TEST_F(GpuSeeding, RandomProblemsHaveTheSeedsOfACpu) {
  for (std::uint64_t number = 0; number < 500; ++number) {
    const RandomSeeding seeding(number);
    expect_equal(seeding.problem, seeding.k, number, seeding.what);
  }
}

/// Normal-like points, or such whose coordinates are few whole numbers, at which many seeds are equally near.
std::vector<float> many_points(std::int64_t n, std::int64_t d, bool ties) {
  SplitMix64 random(static_cast<std::uint64_t>(n + d));
  std::vector<float> points(n * d);
  for (auto& value : points) {
    double sum = -2;
    for (int u = 0; u < 4; ++u) sum += random.uniform();
    value = static_cast<float>(ties ? std::round(2 * sum) : sum);
  }
  return points;
}

TEST_F(GpuSeeding, ShapesOfEveryPassHaveTheSeedsOfACpu) {
  struct Shape {
    std::int64_t n, d, k;
  };
  // Few coordinates: numbers that have a kernel, and others; more seeds than shared memory holds. Matrix units: tiles
  // that stay and tiles that do not; points that stream; more seeds than a batch of darts; tiles that are not whole;
  // fewer than a tile of points.
  for (const auto& [n, d, k] : {Shape{30000, 1, 100},
                                {30001, 2, 1000},
                                {30000, 3, 2500},
                                {20000, 5, 1500},
                                {20000, 7, 300},
                                {20000, 12, 31},
                                {20000, 21, 40},
                                {20000, 31, 20},
                                {20000, 33, 20},
                                {100000, 32, 300},
                                {60001, 128, 700},
                                {30000, 333, 130},
                                {4000, 1100, 200},
                                {200000, 8, 3000},
                                {50, 64, 50}}) {
    for (const bool ties : {false, true}) {
      const auto points = many_points(n, d, ties);
      SeedingProblem<float> problem{.points = points.data(), .n = n, .d = d};
      problem.max_abs = 4;
      problem.threads = 4;
      expect_equal(problem, k, 7, std::to_string(n) + " x " + std::to_string(d));
    }
  }
}

TEST_F(GpuSeeding, MergesAreThoseOfACpu) {
  const std::vector<float> one{0};
  const auto any = board({.points = one.data(), .n = 1, .d = 1}, 1);
  for (std::uint64_t number = 0; number < 60; ++number) {
    SplitMix64 random(number);
    WeightedMeans clusters;
    clusters.d = 1 + random.below(40);
    const std::int64_t count = 2 + random.below(number % 5 == 0 ? 3000 : 200);
    for (std::int64_t c = 0; c < count; ++c) {
      clusters.weights.push_back(1 + random.below(number % 3 == 0 ? 1 : 1000));
      for (std::int64_t t = 0; t < clusters.d; ++t) {
        clusters.means.push_back(8 * random.uniform());
      }
    }
    make_awkward(clusters, number);
    for (const std::int64_t k : {std::int64_t{1}, count / 3 + 1, count}) {
      auto merges = any->merges(clusters, count - k, {});
      ASSERT_TRUE(merges.has_value());
      EXPECT_EQ(clusters_of(std::move(*merges), count, k), ward_clusters(clusters, k, 4))
          << number << ", k = " << k;
    }
  }
}

/// Several GPUs of this machine share the points.
class GpuSharingSeeds : public GpuSeeding, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    GpuSeeding::SetUp();
    if (IsSkipped()) return;
    const std::string problem = problem_with_gpus(GetParam());
    if (!problem.empty()) GTEST_SKIP() << GetParam() << " GPUs: " << problem;
    use_gpus(GetParam());
  }
  void TearDown() override { use_gpus(1); }
};

TEST_P(GpuSharingSeeds, AreThoseOfACpu) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    const RandomSeeding seeding(number);
    expect_equal(seeding.problem, seeding.k, number, seeding.what);
  }
  const auto points = many_points(60001, 40, true);  // by matrix units
  SeedingProblem<float> problem{.points = points.data(), .n = 60001, .d = 40};
  problem.max_abs = 4;
  problem.threads = 4;
  expect_equal(problem, 300, 7, "60001 x 40");
}

INSTANTIATE_TEST_SUITE_P(Gpus, GpuSharingSeeds, ::testing::Values(2, 3, 4));

TEST_F(GpuSeeding, RowsThatAreKeptAreSentOnce) {
  constexpr std::int64_t n = 30001;
  constexpr std::int64_t d = 16;
  constexpr std::int64_t k = 20;
  std::vector<float> points = many_points(n, d, false);
  const std::vector<float> before = points;
  const std::vector<float> start(before.begin(), before.begin() + k * d);
  const auto labels_of = [&](const std::vector<float>& rows) {
    Problem<float> problem;
    problem.shape = {n, d, k};
    problem.points = rows.data();
    problem.max_abs = largest_abs(rows.data(), n * d, 1);
    Session<float> session(require_variant("cuda_exact"), problem, start.data());
    session.reset();
    session.step(1);
    return session.fetch().labels;
  };
  const auto right = labels_of(before);
  {
    const KeptGpuRows kept(points.data(), n, d);
    SeedingProblem<float> seeding{.points = points.data(), .n = n, .d = d};
    seeding.max_abs = largest_abs(before.data(), n * d, 1);
    board(seeding, k);                           // sends them
    std::reverse(points.begin(), points.end());  // who reads them now has other points
    EXPECT_EQ(labels_of(points), right);
  }
  EXPECT_NE(labels_of(points), right);
}

TEST_F(GpuSeeding, RanksThatShareAGpuChooseTheSame) {
  for (const std::uint64_t number : {10, 20, 30, 31, 44}) {
    const RandomSeeding seeding(number);
    const auto& whole = seeding.problem;
    const auto right = plus_plus_rows(whole, seeding.k, number);
    ThreadRanks all(2);
    all.run([&](Communicator& ranks) {
      const std::int64_t first = first_row(whole.n, ranks.rank(), 2);
      SeedingProblem<float> own = whole;
      own.points += first * whole.d;
      own.n = first_row(whole.n, ranks.rank() + 1, 2) - first;
      if (own.weights != nullptr) own.weights += first;
      const auto own_board = board(own, seeding.k);
      RankedBoard<float> shared(ranks, *own_board, first, whole.d);
      EXPECT_EQ(plus_plus_rows(whole, seeding.k, number, shared), right) << seeding.what;
    });
  }
}

TEST_F(GpuSeeding, WhatItDoesNotTakeIsLeftToACpu) {
  const std::vector<float> few{0, 1, 5, 9};
  SeedingProblem<float> problem{.points = few.data(), .n = 4, .d = 1, .max_abs = 9};
  problem.gpu = true;
  EXPECT_EQ(plus_plus_rows(problem, 4, 3).size(), 4U);
  std::string why_not;
  problem.n = std::int64_t{1} << 31;
  EXPECT_EQ(gpu_board_factory()(problem, 1, why_not), nullptr);
  EXPECT_NE(why_not.find("2147483648"), std::string::npos) << why_not;
}

}  // namespace
}  // namespace kmeans
