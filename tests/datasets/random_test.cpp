// SPDX-License-Identifier: Apache-2.0
//
// The random numbers: known answers (from an independent implementation and a quantile function of
// higher precision), and the statistics that a Gaussian sample of that size must have.
#include "datasets/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "harness/support/sha256.h"

namespace kmeans {
namespace {

TEST(Random, BitsAreKnown) {
  const CounterRandom random(1, 0);
  EXPECT_EQ(random.bits(0), 0xb18a02f46d8d86c3U);
  EXPECT_EQ(random.bits(1), 0xf8c5b62c83f707e8U);
  EXPECT_EQ(random.bits(2), 0x6d339d1740130eddU);
  EXPECT_EQ(CounterRandom(42, 7).bits(5), 0xeafa88fbc8e4c692U);
  EXPECT_EQ(random.uniform(0), 0.6935121390102292);
  EXPECT_EQ(random.below(0, 4), 2);
}

TEST(Random, LogarithmIsAccurate) {
  for (double x = 1e-300; x < 1e300; x *= 1.37) {
    EXPECT_NEAR(natural_logarithm(x), std::log(x), 4e-16 * std::abs(std::log(x)) + 1e-17) << x;
  }
}

TEST(Random, QuantilesAreAccurate) {
  const std::vector<std::pair<double, double>> known{{0.5, 0},
                                                     {0.3, -0.5244005127080409},
                                                     {0.925, 1.4395314709384563},
                                                     {0.075, -1.4395314709384563},
                                                     {0.0749, -1.4402382675279635},
                                                     {0.975, 1.959963984540054},
                                                     {1e-5, -4.264890793922825},
                                                     {1e-10, -6.361340902404056},
                                                     {0x1p-53, -8.209536151601387}};
  for (const auto& [p, z] : known) {
    EXPECT_NEAR(normal_quantile(p), z, 2e-15 * std::abs(z)) << p;
  }
  EXPECT_EQ(normal_quantile(0.25), -normal_quantile(0.75));
}

TEST(Random, StretchesAgreeWithSingleValues) {
  const CounterRandom random(9, 3);
  std::vector<double> whole(1000);
  fill_normal(random, 17, whole);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(whole[i], normal_quantile(random.open_uniform(17 + i)));
  }
  std::vector<double> part(300);
  fill_normal(random, 17 + 450, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 450));
}

// Bounds are five standard errors of each statistic at this sample size; the sample is fixed, so
// the test either always passes or never does.
TEST(Random, NormalSampleHasNormalMomentsTailsAndDistribution) {
  constexpr std::int64_t kCount = 1'000'000;
  std::vector<double> z(kCount);
  fill_normal(CounterRandom(2024, 0), 0, z);
  const double n = kCount;
  double mean = 0;
  double second = 0;
  double third = 0;
  double fourth = 0;
  for (const double value : z) {
    mean += value / n;
    second += value * value / n;
    third += value * value * value / n;
    fourth += value * value * value * value / n;
  }
  EXPECT_NEAR(mean, 0, 5 * std::sqrt(1 / n));
  EXPECT_NEAR(second, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(third, 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96 / n));

  double correlation = 0;
  for (std::size_t i = 1; i < z.size(); ++i) correlation += z[i - 1] * z[i] / n;
  EXPECT_NEAR(correlation, 0, 5 * std::sqrt(1 / n));

  for (const double threshold : {1.0, 2.0, 3.0, 4.0}) {
    const double expected = n * std::erfc(threshold / std::sqrt(2.0));
    const auto found = static_cast<double>(
        std::count_if(z.begin(), z.end(), [&](double v) { return std::abs(v) > threshold; }));
    EXPECT_NEAR(found, expected, 5 * std::sqrt(expected)) << threshold;
  }

  std::sort(z.begin(), z.end());
  double distance = 0;  // Kolmogorov-Smirnov
  for (std::size_t i = 0; i < z.size(); ++i) {
    const double cdf = 0.5 * std::erfc(-z[i] / std::sqrt(2.0));
    distance = std::max({distance, std::abs(cdf - static_cast<double>(i) / n),
                         std::abs(cdf - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance * std::sqrt(n), 1.95);  // exceeded by one sample in a thousand
}

TEST(Random, UniformSampleIsUniform) {
  constexpr std::int64_t kCount = 1'000'000;
  const CounterRandom random(5, 1);
  std::vector<std::int64_t> cells(100);
  for (std::int64_t i = 0; i < kCount; ++i) {
    ++cells[static_cast<std::size_t>(100 * random.uniform(static_cast<std::uint64_t>(i)))];
  }
  double chi_squared = 0;
  for (const auto count : cells) {
    const auto excess = static_cast<double>(count) - 10'000;
    chi_squared += excess * excess / 10'000;
  }
  EXPECT_GT(chi_squared, 45);   // 99 degrees of freedom: below once in a million
  EXPECT_LT(chi_squared, 180);  // above once in a million
}

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc", 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  EXPECT_EQ(sha256_hex(million.data(), million.size()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  std::string text(1000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (const std::size_t piece : {1U, 55U, 56U, 63U, 64U, 65U, 119U, 333U}) {
    Sha256 hash;
    for (std::size_t begin = 0; begin < text.size(); begin += piece) {
      hash.add(text.data() + begin, std::min(piece, text.size() - begin));
    }
    EXPECT_EQ(hash.hex(), sha256_hex(text.data(), text.size())) << piece;
  }
}

}  // namespace
}  // namespace kmeans
