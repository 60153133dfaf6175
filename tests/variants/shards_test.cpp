// SPDX-License-Identifier: Apache-2.0
//
// The exact variants on shards of rows: for every number of ranks the bits of the reference, which has all
// points. The ranks are threads here; tests/python/test_ranks.py has processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/communicator.h"
#include "harness/exact_step.h"
#include "harness/support/random.h"
#include "harness/support/whole_weights.h"
#include "harness/variants/registry.h"
#include "harness/verify/battery.h"
#include "harness/verify/verify.h"
#include "tests/variants/thread_ranks.h"

namespace kmeans {
namespace {

struct WholeAnswer {
  std::vector<float> centroids;
  std::vector<std::int32_t> labels;
  bool operator==(const WholeAnswer&) const = default;
};

/// A problem, which may be counted.
struct ShardsCase : BatteryCase {
  WholeWeights weights;  // none: all points count once
  bool spherical = false;
};

Problem<float> whole_problem(const ShardsCase& test) {
  Problem<float> problem;
  problem.shape = {test.n, test.d, test.k, Precision::f32};
  problem.points = test.points.data();
  problem.max_abs = largest_abs(problem.points, test.n * test.d, 1);
  problem.spherical = test.spherical;
  if (!test.weights.of_points.empty()) {
    const std::int64_t* weights = test.weights.of_points.data();
    problem.counted = {.weights = weights,
                       .scale_n = test.weights.scale_n,
                       .max_abs = largest_weighted_abs(problem.points, test.n, test.d, weights)};
  }
  return problem;
}

WholeAnswer answer_of(Variant<float>& variant, const Problem<float>& problem,
                      const ShardsCase& test) {
  variant.setup(problem);
  variant.reset(test.centroids.data());
  variant.step(1);  // a step goes on where another ended
  if (test.iterations > 1) variant.step(test.iterations - 1);
  WholeAnswer answer{std::vector<float>(test.k * test.d),
                     std::vector<std::int32_t>(problem.shape.n)};
  variant.fetch(answer.centroids.data(), answer.labels.data());
  return answer;
}

WholeAnswer whole_answer(const RegisteredVariant& variant, const ShardsCase& test) {
  return answer_of(*variant.factory.make_float(Precision::f32), whole_problem(test), test);
}

WholeAnswer answer_of_ranks(const RegisteredVariant& variant, const ShardsCase& test, int size) {
  WholeAnswer whole{{}, std::vector<std::int32_t>(test.n, -1)};
  ThreadRanks(size).run([&](Communicator& ranks) {
    Problem<float> problem = whole_problem(test);
    const std::int64_t first = first_row(test.n, ranks.rank(), size);
    problem.shape.n = first_row(test.n, ranks.rank() + 1, size) - first;
    problem.points += first * test.d;
    if (problem.counted.weights != nullptr) problem.counted.weights += first;
    problem.threads = 1 + ranks.rank() % 2;
    problem.shard = {&ranks, first, test.n};
    const WholeAnswer part = answer_of(*variant.factory.make_float(Precision::f32), problem, test);
    std::copy(part.labels.begin(), part.labels.end(), whole.labels.begin() + first);
    std::vector<std::int64_t> equal{1};
    std::vector<float> of_rank_0 = part.centroids;
    ranks.broadcast(of_rank_0.data(), static_cast<std::int64_t>(of_rank_0.size() * sizeof(float)));
    equal[0] = of_rank_0 == part.centroids ? 0 : 1;
    ranks.all_reduce_sum(equal.data(), 1);
    if (equal[0] != 0) throw std::runtime_error("the ranks have different centroids");
    if (ranks.rank() == 0) whole.centroids = part.centroids;
  });
  return whole;
}

/// Of sizes, kinds of points and first centroids that a seed decides.
ShardsCase random_case(std::uint64_t seed) {
  SplitMix64 random(seed);
  ShardsCase test;
  test.name = "random " + std::to_string(seed);
  test.n = 1 + static_cast<std::int64_t>(random.below(seed % 5 == 0 ? 12 : 900));
  test.d = 1 + static_cast<std::int64_t>(random.below(seed % 7 == 0 ? 150 : 20));
  test.k = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(test.n)));
  if (seed % 4 != 0) test.k = std::min<std::int64_t>(test.k, 40);
  if (seed % 11 == 0) test.k = test.n;
  test.iterations = 1 + static_cast<std::int64_t>(random.below(5));
  const std::uint64_t kind = seed % 6;
  for (std::int64_t i = 0; i < test.n * test.d; ++i) {
    double value = random.uniform() - 0.5;
    if (kind == 1) value = static_cast<double>(random.below(3));        // ties
    if (kind == 2) value = static_cast<double>(i / test.d % 7) * 0.1;   // duplicates
    if (kind == 3) value = 1e6 + value;                                 // an offset
    if (kind == 4) value = value * 1e-30 * (1 + i % test.d % 2 * 1e3);  // small
    test.points.push_back(static_cast<float>(value));
  }
  for (std::int64_t j = 0; j < test.k; ++j) {
    const auto row = test.points.begin() + (kind == 2 ? j % test.n : j * test.n / test.k) * test.d;
    test.centroids.insert(test.centroids.end(), row, row + test.d);
  }
  if (kind == 5) {  // empty clusters
    for (std::int64_t i = 0; i < test.d; ++i) test.centroids[i] = 1e4F;
  }
  return test;
}

/// Weights of a kind that the seed decides; all of the same mass, or of next to none.
std::vector<double> random_weights(std::uint64_t seed, std::int64_t n) {
  SplitMix64 random(seed);
  std::vector<double> weights(n);
  for (std::int64_t i = 0; i < n; ++i) {
    double& weight = weights[i];
    weight = static_cast<double>(random.below(4));
    if (seed % 6 == 1) weight = std::exp(40 * random.uniform());
    if (seed % 6 == 2) weight = static_cast<double>(random.below((std::int64_t{1} << 53) / n));
    if (seed % 6 == 3) weight = i < n * 6 / 10 ? 0 : random.uniform();  // of a whole rank
    if (seed % 6 == 4) weight = i == n / 2 ? 0x1p53 : 0;                // of all but a point
    if (seed % 6 == 5) weight = i >= n / 3 ? 0 : weight;
  }
  if (*std::max_element(weights.begin(), weights.end()) == 0) weights[0] = 1;
  return weights;
}

ShardsCase counted_case(std::uint64_t seed, bool weighted, bool spherical) {
  ShardsCase test = random_case(seed);
  if (weighted) test.weights = whole_weights(random_weights(seed, test.n).data(), test.n);
  test.spherical = spherical;
  for (auto* const rows : {&test.points, &test.centroids}) {
    for (auto row = rows->begin(); spherical && row != rows->end(); row += test.d) {
      exact::unit_row(&*row, test.d, &*row);
    }
  }
  return test;
}

void expect_same_bits(const std::vector<ShardsCase>& cases, const RegisteredVariant& variant,
                      const std::vector<int>& sizes) {
  for (const auto& test : cases) {
    const auto support = variant.traits.supports(Shape{test.n, test.d, test.k, Precision::f32});
    if (!support.ok) continue;
    const WholeAnswer expected = whole_answer(definition(), test);
    for (const int size : sizes) {
      const WholeAnswer found = answer_of_ranks(variant, test, size);
      EXPECT_EQ(found.labels, expected.labels) << test.name << ", " << size << " ranks";
      EXPECT_EQ(found.centroids, expected.centroids) << test.name << ", " << size << " ranks";
    }
  }
}

class Shards : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    // Several blocks also of what is small here.
    if (by_blocks()) ::setenv("KMEANS_BENCH_BLOCK_BYTES", "3000", 1);
  }
  void TearDown() override { ::unsetenv("KMEANS_BENCH_BLOCK_BYTES"); }
  [[nodiscard]] static bool by_blocks() { return GetParam() == "openmp_blocks"; }
  /// A block costs a set-up of its own in every iteration.
  [[nodiscard]] static std::vector<int> sizes() {
    return by_blocks() ? std::vector{1, 3} : std::vector{1, 2, 3, 7};
  }
  const RegisteredVariant& variant() { return require_variant(GetParam()); }
};

TEST_P(Shards, GiveTheBitsOfTheWholeOnTheBattery) {
  std::vector<ShardsCase> cases;
  for (const auto& test : make_battery()) cases.push_back({test, {}, false});
  expect_same_bits(cases, variant(), sizes());
}

TEST_P(Shards, GiveTheBitsOfTheWholeOnRandomProblems) {
  // The families differ in how they label; what the ranks share is the same in all.
  const std::uint64_t seeds = GetParam() == "mpi_exact" ? 100 : 20;
  std::vector<ShardsCase> cases;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) cases.push_back(random_case(seed));
  expect_same_bits(cases, variant(), sizes());
}

class CountedShards : public Shards {};

TEST_P(CountedShards, GiveTheBitsOfTheWholeOnRandomProblems) {
  const std::uint64_t seeds = GetParam() == "mpi_exact" ? 66 : 18;
  std::vector<ShardsCase> cases;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const bool weighted = variant().traits.weights && seed % 4 != 0;
    cases.push_back(counted_case(seed, weighted, !weighted || seed % 4 == 1));
  }
  expect_same_bits(cases, variant(), sizes());
}

std::vector<std::string> names_of_shards(bool Traits::*that) {
  std::vector<std::string> names;
  for (const auto& variant : all_variants()) {
    const Traits& traits = variant.traits;
    // Ranks with GPUs need one each: gpu_random_test.cpp.
    if (traits.shards && traits.*that && !traits.gpu) names.push_back(traits.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Variants, Shards, ::testing::ValuesIn(names_of_shards(&Traits::shards)),
                         [](const auto& instance) { return instance.param; });
INSTANTIATE_TEST_SUITE_P(Variants, CountedShards,
                         ::testing::ValuesIn(names_of_shards(&Traits::spherical)),
                         [](const auto& instance) { return instance.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Shards);  // a build without OpenMP has none
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CountedShards);

TEST(ShardsTest, OnlyExactVariantsTakeThem) {
  for (const auto& variant : all_variants()) {
    EXPECT_TRUE(variant.traits.exact || !variant.traits.shards) << variant.traits.name;
  }
}

TEST(ShardsTest, RowsAreDividedWithoutGapOrOverlap) {
  for (const std::int64_t n : {0, 1, 6, 7, 1000003}) {
    for (const int size : {1, 2, 3, 7}) {
      const auto parts = parts_of_ranks(n, size, 1);
      std::int64_t next = 0;
      for (int r = 0; r < size; ++r) {
        EXPECT_EQ(first_row(n, r, size), next);
        EXPECT_LE(std::abs(parts[r] - n / size), 1);
        next += parts[r];
      }
      EXPECT_EQ(next, n);
    }
  }
  EXPECT_EQ(first_row(std::int64_t{1} << 62, 1000, 1001) >> 61, 1);  // no product overflows
}

TEST(ShardsTest, TextsOfAllRanksReachAll) {
  ThreadRanks(3).run([](Communicator& ranks) {
    const auto texts = ranks.all_gather_texts(std::string(ranks.rank(), 'x'));
    ASSERT_EQ(texts, (std::vector<std::string>{"", "x", "xx"}));
  });
  SingleRank alone;
  EXPECT_EQ(alone.all_gather_texts("all"), std::vector<std::string>{"all"});
}

}  // namespace
}  // namespace kmeans
