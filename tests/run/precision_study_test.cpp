// SPDX-License-Identifier: Apache-2.0
//
// The study `precision`: its roundings bit by bit, and what it must find on fixed cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "experiments/studies/_precision.h"
#include "harness/study.h"
#include "harness/support/errors.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using namespace precision;  // NOLINT: what is tested
using nlohmann::json;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(PrecisionRounding, KeepsTheBitsThatTheFormatHas) {
  // 1 + 2^-11 is half way between 1 and the next number of 10 mantissa bits: to even, so to 1.
  EXPECT_EQ(round_to_tf32(1 + 0x1p-11F), 1.0F);
  EXPECT_EQ(round_to_f16(1 + 0x1p-11F), 1.0F);
  EXPECT_EQ(round_to_bf16(1 + 0x1p-11F), 1.0F);
  // The next such middle goes up, to even again; a bit more than the middle always goes up.
  EXPECT_EQ(round_to_tf32(1 + 0x3p-11F), 1 + 0x1p-9F);
  EXPECT_EQ(round_to_f16(1 + 0x3p-11F), 1 + 0x1p-9F);
  EXPECT_EQ(round_to_tf32(1 + 0x1p-11F + 0x1p-23F), 1 + 0x1p-10F);
  EXPECT_EQ(round_to_f16(-(1 + 0x1p-11F + 0x1p-23F)), -(1 + 0x1p-10F));
  EXPECT_EQ(round_to_bf16(1 + 0x1p-8F), 1.0F);
  EXPECT_EQ(round_to_bf16(1 + 0x3p-8F), 1 + 0x1p-6F);
  EXPECT_EQ(round_to_bf16(1 + 0x1p-8F + 0x1p-23F), 1 + 0x1p-7F);
  // What the format holds stays.
  for (const float x : {0.0F, 1.0F, -2.5F, 1 + 0x1p-7F, 0x1p-14F, 65504.0F - 480.0F}) {
    EXPECT_EQ(round_to_tf32(x), x);
    EXPECT_EQ(round_to_f16(x), x);
  }
  EXPECT_TRUE(std::signbit(round_to_f16(-0.0F)));
  EXPECT_TRUE(std::signbit(round_to_tf32(-0.0F)));
}

TEST(PrecisionRounding, EndsOfTheRanges) {
  EXPECT_EQ(round_to_f16(65504.0F), 65504.0F);
  EXPECT_EQ(round_to_f16(65519.0F), 65504.0F);
  EXPECT_EQ(round_to_f16(65520.0F), kInfinity);
  EXPECT_EQ(round_to_f16(-1e30F), -kInfinity);
  EXPECT_EQ(round_to_f16(kInfinity), kInfinity);
  // Subnormal halves: whole multiples of 2^-24, ties to even, nothing below half of one.
  EXPECT_EQ(round_to_f16(0x1p-24F), 0x1p-24F);
  EXPECT_EQ(round_to_f16(0x1p-25F), 0.0F);
  EXPECT_EQ(round_to_f16(0x1.8p-24F), 0x1p-23F);
  EXPECT_EQ(round_to_f16(0x1.000002p-25F), 0x1p-24F);
  EXPECT_EQ(round_to_f16(-0x1.4p-23F), -0x1p-23F);
  EXPECT_EQ(round_to_f16(0x1.FFFp-15F), 0x1p-14F);
  // The others have float32's exponents.
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(round_to_bf16(largest), kInfinity);
  EXPECT_EQ(round_to_tf32(largest), kInfinity);
  EXPECT_EQ(round_to_bf16(1e30F), round_to_bf16(round_to_tf32(1e30F)));
  EXPECT_EQ(round_to_tf32(0x1p-126F), 0x1p-126F);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(round_to_tf32(nan)));
  EXPECT_TRUE(std::isnan(round_to_f16(nan)));
  EXPECT_TRUE(std::isnan(round_to_bf16(nan)));
}

TEST(PrecisionRounding, IsNeverFurtherThanHalfAStep) {
  std::uint32_t bits = 12345;
  for (int i = 0; i < 100000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    const float x = std::bit_cast<float>(bits);
    if (!(std::abs(x) < 60000.0F && std::abs(x) > 0x1p-14F)) continue;
    const float step = std::ldexp(1.0F, std::ilogb(x));
    ASSERT_LE(std::abs(round_to_tf32(x) - x), step * 0x1p-11F) << x;
    ASSERT_EQ(round_to_f16(x), round_to_tf32(x)) << x;  // 10 bits both, inside half's range
    ASSERT_LE(std::abs(round_to_bf16(x) - x), step * 0x1p-8F) << x;
  }
}

TEST(PrecisionArithmetic, MultiplyAddsRoundAsTheyAreNamed) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: half a step above a float, so rounded and truncated alike
  // to 1 + 2^-11, and a fused multiply-add keeps the rest.
  const float x = 1 + 0x1p-12F;
  EXPECT_EQ(Float32::add(-1.0F, x, 0.0F), 0x1p-11F);
  EXPECT_EQ(Float32Fused::add(-1.0F, x, 0.0F), 0x1p-11F + 0x1p-24F);
  EXPECT_EQ(Float32Madd2009::add(-1.0F, x, 0.0F), 0x1p-11F);
  // (1 + 5 * 2^-14)^2 = 1 + 5 * 2^-13 + 25 * 2^-28: 0.78 of a step above a float. Rounding takes
  // the next one, truncation does not.
  const float y = 1 + 0x5p-14F;
  EXPECT_EQ(Float32::add(-1.0F, y, 0.0F), 0x5p-13F + 0x1p-23F);
  EXPECT_EQ(Float32Fused::add(-1.0F, y, 0.0F), 0x5p-13F + 0x19p-28F);
  EXPECT_EQ(Float32Madd2009::add(-1.0F, y, 0.0F), 0x5p-13F);
  EXPECT_EQ(truncated_square(-y), truncated_square(y));
  // Denormals of 2009 are zeros.
  EXPECT_EQ(truncated_square(0x1p-64F), 0.0F);
  EXPECT_EQ(truncated_square(0x1p-63F), 0x1p-126F);
  EXPECT_EQ(flush(-0x1p-127F), 0.0F);
  EXPECT_EQ(flush(0x1p-126F), 0x1p-126F);
}

TEST(PrecisionArithmetic, TruncationIsTowardsZeroForAllSizes) {
  std::uint32_t bits = 99;
  int cut = 0;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    const float x = std::bit_cast<float>(bits);
    if (!(std::abs(x) < 0x1p63F)) continue;
    const double product = static_cast<double>(x) * x;  // exact
    const double kept =
        std::bit_cast<double>(std::bit_cast<std::uint64_t>(product) & ~std::uint64_t{0x1FFFFFFF});
    const float expected = kept < 0x1p-126 ? 0.0F : static_cast<float>(kept);
    ASSERT_EQ(truncated_square(x), expected) << x;
    cut += expected != x * x ? 1 : 0;
  }
  EXPECT_GT(cut, 1000);  // otherwise nothing was truncated
}

/// A problem that owns its memory.
struct Case {
  Points points;
  Points centroids;
  std::int64_t k = 0;

  Case(const json& data, std::int64_t clusters, const std::string& init = "random:1")
      : points(generate(parse_dataset(data), ScalarType::f32)),
        centroids(initial_centroids(points, clusters, parse_init(init))),
        k(clusters) {}

  [[nodiscard]] StudyOutput run(json parameters, int threads = 1) const {
    if (!parameters.contains("variants")) parameters["variants"] = json::array();
    return require_study("precision")
        .run({.parameters = std::move(parameters),
              .n = points.n(),
              .d = points.d(),
              .k = k,
              .points = points.data<float>(),
              .centroids = centroids.data<float>(),
              .points_file = {},
              .threads = threads});
  }
};

/// The last rows, by arithmetic and offset.
std::map<std::pair<std::string, double>, json> last_rows(const StudyOutput& output) {
  std::map<std::pair<std::string, double>, json> rows;
  for (const json& row : output.rows) {
    if (row["last"] == true) rows[{row["series"], row["offset"]}] = row;
  }
  return rows;
}

TEST(PrecisionStudy, SeparatedClustersLoseNothing) {
  const Case clusters({{"generator", "globular"}, {"n", 3000}, {"d", 4}, {"k", 5}, {"seed", 3}}, 5,
                      "kmeans++:1");
  const StudyOutput output = clusters.run({{"iterations", 8}});
  EXPECT_EQ(output.wrong, "");
  const auto rows = last_rows(output);
  ASSERT_EQ(rows.size(), 10U);
  for (const char* arithmetic : {"exact", "f64", "f64_expanded", "f32", "f32_fma"}) {
    const json& row = rows.at({arithmetic, 0.0});
    EXPECT_EQ(row["labels_wrong_mean"], 0.0) << arithmetic;
    EXPECT_EQ(row["labels_off_path"], 0.0) << arithmetic;
    EXPECT_LT(row["inertia_error"].get<double>(), 1e-6) << arithmetic;
    EXPECT_LT(row["centroid_error"].get<double>(), 1e-6) << arithmetic;
    EXPECT_EQ(row["unchanged_after"], rows.at({"exact", 0.0})["unchanged_after"]) << arithmetic;
  }
  EXPECT_EQ(rows.at({"exact", 0.0})["inertia_error"], 0.0);
}

TEST(PrecisionStudy, TheExactPathIsThatOfTheReference) {
  const Case uniform({{"generator", "uniform"}, {"n", 700}, {"d", 3}, {"seed", 1}}, 9);
  const std::int64_t iterations = 6;
  const auto rows = last_rows(uniform.run({{"iterations", iterations}}));

  Problem<float> problem{.shape = {700, 3, 9}, .points = uniform.points.data<float>()};
  for (std::int64_t e = 0; e < std::int64_t{700} * 3; ++e) {
    problem.max_abs = std::max(problem.max_abs, std::abs(problem.points[e]));
  }
  Session<float> session(require_variant("reference"), problem, uniform.centroids.data<float>());
  session.reset();
  session.step(iterations - 1);
  const std::vector<float> before = session.fetch().centroids;
  session.step(1);
  const Quality quality =
      quality_of(problem.points, before.data(), session.fetch().labels.data(), problem.shape, 1);
  EXPECT_NEAR(rows.at({"exact", 0.0})["inertia"].get<double>(), quality.inertia,
              1e-13 * quality.inertia);
}

TEST(PrecisionStudy, FewerBitsChangeMoreLabels) {
  const Case uniform({{"generator", "uniform"}, {"n", 4000}, {"d", 20}, {"seed", 1}}, 16);
  const StudyOutput output = uniform.run({{"iterations", 5}, {"offsets", {0, 100}}});
  EXPECT_EQ(output.wrong, "");
  const auto rows = last_rows(output);
  const auto share = [&](const char* arithmetic, double offset) {
    return rows.at({arithmetic, offset})["labels_wrong_mean"].get<double>();
  };
  EXPECT_EQ(share("f64", 0), 0.0);
  EXPECT_LE(share("f32", 0), 1e-3);
  EXPECT_GT(share("tf32", 0), share("f32", 0));
  EXPECT_GT(share("bf16", 0), 2 * share("tf32", 0));
  EXPECT_EQ(share("f16", 0), share("tf32", 0));  // 10 bits both, and nothing overflows
  // Far from the origin the expanded form cancels; the direct form does not.
  EXPECT_GT(share("f32_expanded", 100), 10 * share("f32_expanded", 0) + 1e-4);
  EXPECT_LE(share("f32", 100), 1e-3);
  EXPECT_GT(share("tf32", 100), 0.1);
  EXPECT_EQ(share("f64_expanded", 100), 0.0);
}

TEST(PrecisionStudy, RowsDoNotDependOnThreads) {
  const Case uniform({{"generator", "uniform"}, {"n", 9000}, {"d", 5}, {"seed", 2}}, 7);
  const json parameters{{"iterations", 4}, {"offsets", {0, 10}}};
  const StudyOutput one = uniform.run(parameters, 1);
  const StudyOutput three = uniform.run(parameters, 3);
  EXPECT_EQ(json(one.rows).dump(), json(three.rows).dump());
  EXPECT_EQ(one.findings, three.findings);
}

TEST(PrecisionStudy, RunsAVariantBesideItsEmulation) {
  const Case uniform({{"generator", "uniform"}, {"n", 2000}, {"d", 6}, {"seed", 1}}, 8);
  const StudyOutput output =
      uniform.run({{"iterations", 5},
                   {"variants",
                    {{{"variant", "reference"}, {"precision", "f32"}, {"arithmetic", "f64"}},
                     {{"variant", "cpu_naive"}, {"precision", "f64"}, {"arithmetic", "f64"}}}}});
  const auto rows = last_rows(output);
  const json& reference = rows.at({"f64, reference", 0.0});
  EXPECT_EQ(reference["by"], "reference");
  EXPECT_EQ(reference["labels_off_path"], 0.0);
  EXPECT_EQ(reference["centroid_error"], 0.0);  // the same step, bit for bit
  const json& naive = rows.at({"f64, cpu_naive", 0.0});
  EXPECT_EQ(naive["labels_wrong"], 0.0);
  EXPECT_LT(naive["centroid_error"].get<double>(), 1e-6);
  EXPECT_GT(naive["centroid_error"].get<double>(), 0.0);  // float64 centroids are not float32's
  EXPECT_TRUE(output.notes.empty());
}

TEST(PrecisionStudy, SaysWhichVariantsItLeavesOut) {
  const Case uniform({{"generator", "uniform"}, {"n", 50}, {"d", 2}, {"seed", 1}}, 3);
  const StudyOutput output = uniform.run(
      {{"iterations", 1},
       {"variants", {{{"variant", "cpu_naive"}, {"precision", "bf16"}, {"arithmetic", "bf16"}}}}});
  ASSERT_EQ(output.notes.size(), 1U);
  EXPECT_EQ(output.notes[0].find("Left out: cpu_naive bf16 ("), 0U);
}

TEST(PrecisionStudy, RefusesWrongParameters) {
  const Case uniform({{"generator", "uniform"}, {"n", 50}, {"d", 2}, {"seed", 1}}, 3);
  EXPECT_THROW(uniform.run(json::object()), InputError);
  EXPECT_THROW(uniform.run({{"iterations", 0}}), InputError);
  EXPECT_THROW(uniform.run({{"iterations", 2}, {"ofsets", {0}}}), InputError);
  EXPECT_THROW(uniform.run({{"iterations", 2}, {"offsets", json::array()}}), InputError);
  EXPECT_THROW(uniform.run({{"iterations", 2}, {"arithmetics", {"f33"}}}), InputError);
  EXPECT_THROW(uniform.run({{"iterations", 2}, {"record", {3}}}), InputError);
}

TEST(PrecisionStudy, SizesAreTheBeginningOfTheData) {
  const json wide{{"generator", "uniform"}, {"n", 900}, {"d", 8}, {"seed", 1}};
  const Case whole(wide, 6, "first");
  const StudyOutput both = whole.run({{"iterations", 3}, {"sizes", {{900, 8, 6}, {300, 8, 4}}}});
  const StudyOutput alone =
      Case({{"generator", "uniform"}, {"n", 300}, {"d", 8}, {"seed", 1}}, 4, "first")
          .run({{"iterations", 3}});
  ASSERT_EQ(both.rows.size(), 2 * alone.rows.size());
  const std::vector<json> second(both.rows.begin() + std::ssize(alone.rows), both.rows.end());
  EXPECT_EQ(json(second).dump(), json(alone.rows).dump());
  // Fewer coordinates: the first ones.
  const StudyOutput narrow = whole.run({{"iterations", 1}, {"sizes", {{900, 1, 2}}}});
  EXPECT_EQ(narrow.rows[0]["d"], 1);
  EXPECT_THROW(whole.run({{"iterations", 1}, {"sizes", {{901, 8, 6}}}}), InputError);
  EXPECT_THROW(whole.run({{"iterations", 1}, {"sizes", {{3, 8, 6}}}}), InputError);
}

TEST(PrecisionStudy, SaysWhenLabelsStopChanging) {
  const Case clusters({{"generator", "globular"}, {"n", 500}, {"d", 2}, {"k", 3}, {"seed", 1}}, 3,
                      "kmeans++:1");
  const auto long_run = last_rows(clusters.run({{"iterations", 60}}));
  const json& exact = long_run.at({"exact", 0.0});
  ASSERT_TRUE(exact["unchanged_after"].is_number());
  EXPECT_EQ(exact["convergence"], std::to_string(exact["unchanged_after"].get<int>()));
  const auto short_run = last_rows(clusters.run({{"iterations", 1}}));
  EXPECT_TRUE((short_run.at({"exact", 0.0})["unchanged_after"].is_null()));
  EXPECT_EQ((short_run.at({"exact", 0.0})["convergence"]), "not within 1");
}

}  // namespace
}  // namespace kmeans
