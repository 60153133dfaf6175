// SPDX-License-Identifier: Apache-2.0
#include "harness/record/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kmeans {
namespace {

// Expected values of this file were computed with SciPy 1.17.1: scipy.stats.mannwhitneyu, with ties
// scipy.stats.permutation_test over all permutations of its statistic, scipy.stats.binomtest, and
// scipy.stats.false_discovery_control.

TEST(ProcessMedians, AreOfEachProcess) {
  EXPECT_EQ(process_medians({{3, 1, 2}, {5, 4}, {7}}), (std::vector<double>{2, 4.5, 7}));
}

TEST(MannWhitney, IsExactForSmallSamples) {
  const auto four = mann_whitney({1.1, 1.2, 1.15, 1.3}, {1.25, 1.4, 1.5, 1.6});
  EXPECT_EQ(four.u, 15);
  EXPECT_NEAR(four.p, 0.05714285714285714, 1e-12);
  EXPECT_TRUE(four.exact);

  const auto separate = mann_whitney({1, 2, 3}, {4, 5, 6});
  EXPECT_EQ(separate.u, 9);
  EXPECT_NEAR(separate.p, 0.1, 1e-12);

  const auto unequal =
      mann_whitney({19.8, 20.1, 20.4, 19.9, 20.0, 20.6, 19.7}, {20.2, 20.7, 20.9, 20.3, 21.1});
  EXPECT_EQ(unequal.u, 31);
  EXPECT_NEAR(unequal.p, 0.030303030303030304, 1e-12);
}

TEST(MannWhitney, IsExactUpToFortyValues) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 20; ++i) {
    a.push_back(i * 7 % 20);
    b.push_back(i * 3 % 20 + 4.5);
  }
  const auto test = mann_whitney(a, b);
  EXPECT_TRUE(test.exact);
  EXPECT_EQ(test.u, 280);
  EXPECT_NEAR(test.p, 0.030411256038764864, 1e-10);
}

TEST(MannWhitney, CountsTiesByTheirMidRanks) {
  const auto five = mann_whitney({1, 2, 2, 3, 5}, {2, 3, 4, 4, 6});
  EXPECT_EQ(five.u, 18.5);
  EXPECT_NEAR(five.p, 0.2222222222222222, 1e-12);
  const auto many = mann_whitney({1, 1, 1, 2}, {1, 2, 2, 2, 3});
  EXPECT_EQ(many.u, 16);
  EXPECT_NEAR(many.p, 0.2698412698412698, 1e-12);
  EXPECT_EQ(mann_whitney({1, 1, 2}, {1, 1, 1}).p, 1);
  EXPECT_EQ(mann_whitney({7, 7, 7, 7}, {7, 7, 7, 7}).p, 1);
}

TEST(MannWhitney, IsApproximateBeyond) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 25; ++i) a.push_back((i * 37 % 101) / 10.0);
  for (int i = 0; i < 30; ++i) b.push_back((i * 53 % 103) / 10.0 + 1.5);
  const auto test = mann_whitney(a, b);
  EXPECT_FALSE(test.exact);
  EXPECT_EQ(test.u, 475);
  EXPECT_NEAR(test.p, 0.09256127458536471, 1e-12);

  for (double& value : a) value = std::floor(value);
  b.clear();
  for (int i = 0; i < 30; ++i) b.push_back(std::floor((i * 53 % 103) / 10.0) + 1);
  const auto tied = mann_whitney(a, b);
  EXPECT_EQ(tied.u, 433.5);
  EXPECT_NEAR(tied.p, 0.32444325693111076, 1e-12);

  const std::vector<double> equal(50, 1.0);
  EXPECT_EQ(mann_whitney(equal, equal).p, 1);
}

TEST(MannWhitney, IsTheSameFromBothSides) {
  const std::vector<double> a{1, 4, 2, 8, 5, 7};
  const std::vector<double> b{3, 3.5, 9, 10, 6.5};
  EXPECT_NEAR(mann_whitney(a, b).p, mann_whitney(b, a).p, 1e-14);
  EXPECT_EQ(mann_whitney(a, b).u + mann_whitney(b, a).u, 30);
}

TEST(SmallestP, IsThatOfSeparateSamples) {
  EXPECT_NEAR(smallest_p(3, 3), 0.1, 1e-12);
  EXPECT_NEAR(smallest_p(4, 4), 2.0 / 70, 1e-12);
  EXPECT_NEAR(smallest_p(10, 10), 2.0 / 184756, 1e-12);
  EXPECT_EQ(smallest_p(1, 1), 1);
}

TEST(ProcessesNeeded, GrowWithTheCells) {
  EXPECT_EQ(processes_needed(1, 0.05), 4U);
  EXPECT_EQ(processes_needed(6, 0.05), 5U);
  EXPECT_EQ(processes_needed(20, 0.05), 6U);
  EXPECT_EQ(processes_needed(200, 0.05), 8U);
  EXPECT_EQ(processes_needed(1000, 0.05), 9U);
}

TEST(BenjaminiHochberg, AdjustsInTheOrderGiven) {
  const auto small = benjamini_hochberg({0.04, 0.01, 0.03, 0.5});
  const std::vector<double> expected{0.05333333333333333, 0.04, 0.05333333333333333, 0.5};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(small[i], expected[i], 1e-14);

  // The first table of McDonald's handbook of biological statistics.
  const auto diet = benjamini_hochberg(
      {0.001, 0.008, 0.039, 0.041, 0.042, 0.06,  0.074, 0.205, 0.212, 0.216, 0.222, 0.251, 0.269,
       0.275, 0.34,  0.341, 0.384, 0.569, 0.594, 0.696, 0.762, 0.94,  0.942, 0.975, 0.986});
  EXPECT_NEAR(diet[0], 0.025, 1e-14);
  EXPECT_NEAR(diet[2], 0.21, 1e-14);
  EXPECT_NEAR(diet[6], 0.2642857142857143, 1e-14);
  EXPECT_NEAR(diet[14], 0.5328125, 1e-14);
  EXPECT_NEAR(diet[24], 0.986, 1e-14);
  EXPECT_TRUE(benjamini_hochberg({}).empty());
}

TEST(RatioInterval, IsAbsentWhereNoPairOfRanksIsEnough) {
  EXPECT_FALSE(ratio_interval({1, 2, 3}, {1, 2, 3}, 0.95).has_value());
  EXPECT_FALSE(ratio_interval({1}, {1, 2, 3, 4, 5}, 0.95).has_value());
  EXPECT_TRUE(ratio_interval({1, 2, 3, 4}, {1, 2, 3, 4}, 0.95).has_value());
}

TEST(RatioInterval, HasTheRanksOfTheTest) {
  // 4 and 4: P(U = 0) = 1/70 < 2.5 %, P(U <= 1) = 2/70 > 2.5 %: the extremes of the 16 ratios.
  const auto four = ratio_interval({1, 2, 4, 8}, {3, 6, 12, 24}, 0.95);
  ASSERT_TRUE(four.has_value());
  EXPECT_EQ(four->first, 3.0 / 8);
  EXPECT_EQ(four->second, 24);
  // 5 and 5: P(U <= 2) = 4/252 < 2.5 %, P(U <= 3) = 7/252 > 2.5 %: the third of the 25 from each
  // end. In powers of two, ratios are differences of exponents.
  const auto five = ratio_interval({1, 4, 16, 64, 256}, {2, 8, 32, 128, 512}, 0.95);
  ASSERT_TRUE(five.has_value());
  EXPECT_EQ(five->first, 2.0 / 64);
  EXPECT_EQ(five->second, 2.0 * 64);
}

TEST(RatioInterval, ExcludesOneWhereTheTestRejects) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> a(6);
    std::vector<double> b(7);
    for (double& value : a) value = 1 + (random() % 100000) * 1e-5;
    for (double& value : b) value = 1.2 + (random() % 100000) * 1e-5;
    const auto interval = ratio_interval(a, b, 0.95);
    ASSERT_TRUE(interval.has_value());
    const bool excludes = interval->first > 1 || interval->second < 1;
    EXPECT_EQ(excludes, mann_whitney(a, b).p <= 0.05) << trial;
  }
}

double normal(std::mt19937& random) {
  const double u = (random() + 0.5) / 4294967296.0;
  const double v = (random() + 0.5) / 4294967296.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

TEST(RatioInterval, HoldsTheTrueFactorAsOftenAsItSays) {
  // Log-normal times with a heavy tail, the changed ones 1.3 times as long.
  std::mt19937 random(11);
  const auto time = [&](double scale) {
    const double outlier = random() % 10 == 0 ? 0.2 * std::abs(normal(random)) : 0;
    return scale * std::exp(0.03 * normal(random) + outlier);
  };
  constexpr int kTrials = 4000;
  for (const int processes : {4, 8, 25}) {
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> a(static_cast<std::size_t>(processes));
      std::vector<double> b(a.size());
      for (double& value : a) value = time(1);
      for (double& value : b) value = time(1.3);
      const auto interval = ratio_interval(a, b, 0.95);
      ASSERT_TRUE(interval.has_value());
      held += interval->first <= 1.3 && 1.3 <= interval->second ? 1 : 0;
    }
    // At least 95 %; 94 % leaves three standard errors of the count.
    EXPECT_GE(held, 0.94 * kTrials) << processes << " processes";
  }
}

// --- Several cells together ---

const std::vector<double> kEightQuotients{1.10, 1.02, 0.97, 1.20, 1.08, 1.15, 0.99, 1.30};

TEST(SignTest, CountsThoseAboveAndBelowOne) {
  EXPECT_NEAR(sign_test_p(kEightQuotients), 2 * (1 + 8 + 28) / 256.0, 1e-12) << "6 of 8";
  EXPECT_NEAR(sign_test_p({1.1, 1.2, 1.3, 1.4, 1.5, 1.6}), 2.0 / 64, 1e-12);
  EXPECT_NEAR(sign_test_p({0.1, 1.2, 1.3, 1.4, 1.5, 1.6}), 2.0 * 7 / 64, 1e-12)
      << "how far one is off does not matter";
  EXPECT_EQ(sign_test_p({1, 1, 1}), 1);
  EXPECT_NEAR(sign_test_p({1, 1.1, 1.2}), 0.5, 1e-12) << "equal times say nothing";
  std::vector<double> many(1000, 1.1);
  std::fill_n(many.begin(), 450, 0.9);
  EXPECT_NEAR(sign_test_p(many), 0.0017305360849763027, 1e-9);  // scipy.stats.binomtest
}

TEST(PairedInterval, InvertsTheTest) {
  EXPECT_NEAR(paired_ratio(kEightQuotients), 1.09, 1e-12);
  // P(heads < 1) = 1 / 256 and P(heads < 2) = 9 / 256: the first from both ends.
  const auto interval = paired_interval(kEightQuotients, 0.95);
  ASSERT_TRUE(interval);
  EXPECT_EQ(interval->first, 0.97);
  EXPECT_EQ(interval->second, 1.30);
  const auto wider = paired_interval(kEightQuotients, 0.92);
  ASSERT_TRUE(wider);
  EXPECT_EQ(wider->first, 0.99);
  EXPECT_EQ(wider->second, 1.20);
  EXPECT_FALSE(paired_interval({1.1, 1.2, 1.3, 1.4, 1.5}, 0.95));
  EXPECT_TRUE(paired_interval({1.1, 1.2, 1.3, 1.4, 1.5, 1.6}, 0.95));
  EXPECT_FALSE(paired_interval({}, 0.95));
}

TEST(PairedInterval, HoldsTheFactorWhateverSlowsBothOfAPair) {
  std::mt19937 random(5);
  constexpr int kTrials = 600;
  for (const std::size_t pairs : {8U, 70U}) {
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> ratios(pairs);
      for (double& ratio : ratios) {
        ratio = 1.1 * std::exp(((random() % 2001) - 1000.0) * 1e-4);
      }
      const auto interval = paired_interval(ratios, 0.95);
      ASSERT_TRUE(interval);
      held += interval->first <= 1.1 && 1.1 <= interval->second ? 1 : 0;
    }
    // Of 600 at 95 %: 570 are expected, and 550 is 3.7 standard deviations below.
    EXPECT_GE(held, 550) << pairs << " pairs";
  }
}

TEST(Stratified, OfOneCellIsMannWhitney) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    Stratum one{std::vector<double>(4), std::vector<double>(5)};
    for (double& value : one.base) value = 1 + (random() % 100000) * 1e-5;
    for (double& value : one.changed) value = 1.2 + (random() % 100000) * 1e-5;
    EXPECT_NEAR(stratified_test({one}).p, mann_whitney(one.base, one.changed).p, 1e-12);
    EXPECT_EQ(stratified_interval({one}, 0.9), ratio_interval(one.base, one.changed, 0.9));
  }
}

TEST(Stratified, KnownChances) {
  // Three against three, all larger, in two cells: one way of 20 in each, and the other tail.
  const Stratum apart{{1, 2, 3}, {4, 5, 6}};
  EXPECT_NEAR(stratified_test({apart}).p, 2.0 / 20, 1e-12);
  EXPECT_NEAR(stratified_test({apart, apart}).p, 2.0 / 400, 1e-12);
  EXPECT_FALSE(stratified_interval({apart}, 0.95).has_value());
  EXPECT_TRUE(stratified_interval({apart, apart}, 0.95).has_value());
  const Stratum back{{4, 5, 6}, {1, 2, 3}};
  EXPECT_NEAR(stratified_test({apart, back}).p, 1, 1e-12) << "they cancel";
  EXPECT_NEAR(stratified_test({Stratum{{1, 1}, {1, 1}}}).p, 1, 1e-12) << "ties alone";
}

TEST(Stratified, ACellFarOffDoesNotOutshoutTheOthers) {
  std::vector<Stratum> strata(5, Stratum{{1.00, 1.01, 1.02}, {1.10, 1.11, 1.12}});
  strata.push_back({{1.0, 80.0, 1.1}, {1.05, 0.9, 1.2}});
  EXPECT_NEAR(stratified_test(strata).ratio, 1.10, 0.02);
}

TEST(Stratified, RejectsEqualCellsAsOftenAsItSaysAndHoldsTheTrueFactor) {
  // Exact below 240 processes, approximate above; sizes of the cells differ.
  std::mt19937 random(12);
  constexpr int kTrials = 1500;
  for (const int cells : {2, 10, 60}) {
    int rejected = 0;
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<Stratum> equal;
      std::vector<Stratum> slower;
      for (int c = 0; c < cells; ++c) {
        Stratum one{std::vector<double>(c % 2 == 0 ? 3 : 5), std::vector<double>(3)};
        const double spread = c % 3 == 0 ? 0.3 : 0.03;
        for (auto* side : {&one.base, &one.changed}) {
          for (double& value : *side) value = std::exp(spread * normal(random));
        }
        equal.push_back(one);
        for (double& value : one.changed) value *= 1.1;
        slower.push_back(std::move(one));
      }
      rejected += stratified_test(equal).p <= 0.05 ? 1 : 0;
      const auto interval = stratified_interval(slower, 0.95);
      ASSERT_TRUE(interval.has_value());
      held += interval->first <= 1.1 && 1.1 <= interval->second ? 1 : 0;
    }
    // 5 %, and three standard errors of the count.
    EXPECT_LE(rejected, 0.067 * kTrials) << cells;
    EXPECT_GE(held, 0.933 * kTrials) << cells;
  }
}

}  // namespace
}  // namespace kmeans
