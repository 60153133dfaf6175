// SPDX-License-Identifier: Apache-2.0
#include "harness/exact_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "harness/variants/registry.h"

namespace kmeans {
namespace {

TEST(ExactStep, SumExponentIsTheLargestThatFits) {
  // n * max_abs * 2^s <= 2^62 < n * max_abs * 2^(s+1), in exact arithmetic (long double holds the
  // product of a 24-bit and a 31-bit number).
  for (const std::int64_t n : {1L, 2L, 3L, 7L, 1000L, 1L << 20, (1L << 31) - 1, 1L << 40}) {
    for (const float x : {1.0F, 0.1F, 1.5F, 3.0F, 1e-40F, 1e30F, 1e-45F,
                          std::numeric_limits<float>::max(), 0.99999994F}) {
      const int s = exact::sum_exponent(n, x);
      const long double product = static_cast<long double>(n) * static_cast<long double>(x);
      EXPECT_LE(std::ldexp(product, s), 0x1p62L) << n << " " << x;
      EXPECT_GT(std::ldexp(product, s + 1), 0x1p62L) << n << " " << x;
    }
  }
  EXPECT_EQ(exact::sum_exponent(5, 0.0F), 0);
  EXPECT_EQ(exact::sum_exponent(1, 1.0F), 62);
  EXPECT_EQ(exact::sum_exponent(2, 1.0F), 61);
  EXPECT_EQ(exact::sum_exponent(3, 1.0F), 60);
}

TEST(ExactStep, FixedPointRoundsTiesToEven) {
  EXPECT_EQ(exact::to_fixed_point(0.5F, 1.0), 0);
  EXPECT_EQ(exact::to_fixed_point(1.5F, 1.0), 2);
  EXPECT_EQ(exact::to_fixed_point(2.5F, 1.0), 2);
  EXPECT_EQ(exact::to_fixed_point(-1.5F, 1.0), -2);
  EXPECT_EQ(exact::to_fixed_point(3.0F, exact::power_of_two(4)), 48);
}

TEST(ExactStep, PowersOfTwo) {
  for (const int exponent : {-290, -62, -1, 0, 1, 62, 211}) {
    EXPECT_EQ(exact::power_of_two(exponent), std::ldexp(1.0, exponent));
  }
}

TEST(ExactStep, DistanceIsNotFused) {
  // (1 + 2^-30)^2 = 1 + 2^-29 + 2^-60; a fused sum would keep the last term of the product when
  // -1 is added, separate rounding loses it. With t ascending the first term is exactly 1.
  const double a[2] = {1.0, 1.0 + 0x1p-30};
  const double zero[2] = {0, 0};
  EXPECT_EQ(exact::squared_distance(a, zero, 2), 1.0 + (1.0 + 0x1p-29));
}

TEST(ExactStep, DirectionIsRoundedStepByStep) {
  const auto squares = [](const std::vector<double>& values) {
    return exact::sum_of_squares([&](std::int64_t t) { return values[t]; },
                                 static_cast<std::int64_t>(values.size()));
  };
  // (2^27 + 1)^2 = 2^54 + 2^28 + 1, of which float64 drops the 1; fused with the 1.5625 before, it would keep 4.
  const volatile double wide = 0x1p27 + 1;  // not known when this is compiled
  EXPECT_EQ(squares({1.25, wide}), 0x1p54 + 0x1p28);
  // Their length is 3 * 2^25; in another order it comes out one rounding lower.
  const std::vector<double> values{2, 2, 9, 57, 2197, 83186550, 56684187};
  EXPECT_EQ(std::sqrt(squares(values)), 100663296.0);
  EXPECT_LT(std::sqrt(squares({values.rbegin(), values.rend()})), 100663296.0);
  // The last is 18894729 / 2^25 of it, half way between two float32 numbers: the even one is below.
  std::vector<float> unit(values.size());
  exact::direction_of([&](std::int64_t t) { return values[t]; }, 7, unit.data());
  EXPECT_EQ(unit[6], 0x1p-25F * 18894728);
  // Of zeros there is none.
  std::vector<float> kept{3, 4};
  exact::direction_of([](std::int64_t) { return 0.0; }, 2, kept.data());
  EXPECT_EQ(kept, (std::vector<float>{3, 4}));
}

TEST(ExactStep, RowsOfLengthOneStay) {
  const std::vector<float> units{0.6F, 0.8F, 0, 0, 1, -0x1p-12F, 0x1p-12F, 1};
  std::vector<float> scaled(2);
  for (std::size_t i = 0; i < units.size(); i += 2) {
    exact::unit_row(units.data() + i, 2, scaled.data());
    EXPECT_EQ(scaled, (std::vector<float>{units[i], units[i + 1]}));
  }
  // Squares of 1 + 2^-21, which is further off than rounding goes.
  const std::vector<float> longer{1 + 0x1p-22F, 0};
  exact::unit_row(longer.data(), 2, scaled.data());
  EXPECT_EQ(scaled, (std::vector<float>{1, 0}));
  const std::vector<float> large{-3e38F, 0, 2e38F, 1e-45F};
  exact::unit_row(large.data(), 2, scaled.data());
  EXPECT_EQ(scaled, (std::vector<float>{-1, 0}));
  exact::unit_row(large.data() + 2, 2, scaled.data());
  EXPECT_EQ(scaled, (std::vector<float>{1, 0}));
}

TEST(Reference, KnownAnswerOnALine) {
  // 0 1 2 | 10 11 12 with centroids 0 and 1: labels 0 1 1 1 1 1, then means 0 and 7.2, then
  // labels 0 0 0 1 1 1 and means 1 and 11.
  const std::vector<float> points{0, 1, 2, 10, 11, 12};
  const std::vector<float> centroids{0, 1};
  auto reference = require_variant("reference").factory.make_float(Precision::f32);
  Problem<float> problem;
  problem.shape = {6, 1, 2, Precision::f32};
  problem.points = points.data();
  problem.max_abs = 12;
  reference->setup(problem);
  reference->reset(centroids.data());
  std::vector<float> means(2);
  std::vector<std::int32_t> labels(6);
  reference->step(1);
  reference->fetch(means.data(), labels.data());
  EXPECT_EQ(labels, (std::vector<std::int32_t>{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(means, (std::vector<float>{0.0F, 7.2F}));
  reference->step(1);
  reference->fetch(means.data(), labels.data());
  EXPECT_EQ(labels, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(means, (std::vector<float>{1.0F, 11.0F}));
}

TEST(Reference, TiesGoToTheLowestIndexAndEmptyClustersStay) {
  const std::vector<float> points{-1, 1};
  const std::vector<float> centroids{0, 0, 50};
  auto reference = require_variant("reference").factory.make_float(Precision::f32);
  Problem<float> problem;
  problem.shape = {2, 1, 3, Precision::f32};
  problem.points = points.data();
  problem.max_abs = 1;
  reference->setup(problem);
  reference->reset(centroids.data());
  reference->step(2);
  std::vector<float> means(3);
  std::vector<std::int32_t> labels(2);
  reference->fetch(means.data(), labels.data());
  EXPECT_EQ(labels, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(means, (std::vector<float>{0, 0, 50}));
}

}  // namespace
}  // namespace kmeans
