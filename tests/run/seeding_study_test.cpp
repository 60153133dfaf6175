// SPDX-License-Identifier: Apache-2.0
//
// The study `seeding` where every number is known beforehand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "harness/machine/gpu.h"
#include "harness/study.h"
#include "harness/support/errors.h"
#include "harness/support/gpu_seeding.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using nlohmann::json;
using testing::HasSubstr;

StudyOutput seeding_of(const Points& points, std::int64_t k, const json& parameters,
                       int threads = 2) {
  return require_study("seeding").run({.parameters = parameters,
                                       .n = points.n(),
                                       .d = points.d(),
                                       .k = k,
                                       .points = points.data<float>(),
                                       .centroids = points.data<float>(),
                                       .points_file = {},
                                       .threads = threads});
}

/// Two pairs on a line. Where a start has a point of each, their labels stay; else they change once.
Points two_pairs() {
  const std::vector<float> values{0, 1, 10, 11};
  return make_points(values.data(), 4, 1);
}

TEST(SeedingStudy, PotentialIterationsAndEndOfTwoPairs) {
  const Points points = two_pairs();
  constexpr std::int64_t kSeeds = 16;
  const auto output = seeding_of(points, 2, {{"inits", {"random"}}, {"seeds", kSeeds}});
  ASSERT_EQ(output.rows.size(), 1U);
  const json& row = output.rows[0];
  std::vector<double> potentials;
  std::vector<double> iterations;
  for (std::int64_t seed = 1; seed <= kSeeds; ++seed) {
    const Points start = initial_centroids(points, 2, parse_init("random:" + std::to_string(seed)));
    const auto [low, high] = std::minmax(start.data<float>()[0], start.data<float>()[1]);
    const bool apart = low < 5 && high > 5;
    potentials.push_back(apart ? 2 : 9 * 9 + 10 * 10);
    iterations.push_back(apart ? 2 : 3);
  }
  std::sort(potentials.begin(), potentials.end());
  std::sort(iterations.begin(), iterations.end());
  ASSERT_LT(iterations.front(), iterations.back());  // both kinds of start are met
  EXPECT_EQ(row["way"], "random");
  EXPECT_EQ(row["library"], nullptr);
  EXPECT_EQ(row["potential_min"], potentials.front());
  EXPECT_EQ(row["potential"], potentials[kSeeds / 2]);
  EXPECT_EQ(row["potential_max"], potentials.back());
  EXPECT_EQ(row["iterations_min"], 2);
  EXPECT_EQ(row["iterations"], iterations[kSeeds / 2]);
  EXPECT_EQ(row["iterations_max"], 3);
  EXPECT_EQ(row["inertia_min"], 1);
  EXPECT_EQ(row["inertia_max"], 1);
  EXPECT_EQ(row["inertia_over_best"], 1);
  EXPECT_EQ(row["potential_over_best_max"], potentials.back());
  EXPECT_GT(row["seconds_min"], 0);
  EXPECT_EQ(row["seconds_over_greedy"], nullptr);
  EXPECT_EQ(row["inertia_over_greedy"], nullptr);
}

TEST(SeedingStudy, StopsAtTheMostIterationsAndSaysSo) {
  const auto output =
      seeding_of(two_pairs(), 2, {{"inits", {"random"}}, {"seeds", 16}, {"iterations", 2}});
  EXPECT_EQ(output.rows[0]["iterations_max"], 2);
  EXPECT_GT(output.rows[0]["inertia_max"], 1);  // 0 | 1, 10, 11 with their mean still on the way
  EXPECT_THAT(output.notes, testing::Contains(HasSubstr("random: labels still changed after 2")));
}

TEST(SeedingStudy, AsManyCentroidsAsPointsLeaveNothing) {
  const auto output = seeding_of(two_pairs(), 4, {{"seeds", 2}});
  ASSERT_EQ(output.rows.size(), 2U);
  for (const json& row : output.rows) {
    EXPECT_EQ(row["inertia"], 0);
    EXPECT_EQ(row["inertia_over_best"], 1);
    EXPECT_EQ(row["potential"], 0);
    EXPECT_EQ(row["iterations"], 2);
  }
}

TEST(SeedingStudy, RowsDoNotDependOnThreadsBesidesTimes) {
  const Points points = generate(
      parse_dataset({{"generator", "blobs"}, {"n", 3000}, {"d", 3}, {"k", 9}}), ScalarType::f32);
  const auto rows = [&](int threads) {
    auto output = seeding_of(points, 9, {{"seeds", 3}}, threads);
    for (auto& row : output.rows) {
      for (const auto& key : output.varying) EXPECT_EQ(row.erase(key), 1U) << key;
      EXPECT_TRUE(row.contains("inertia"));
      for (const auto& [key, value] : row.items()) EXPECT_EQ(key.find("seconds"), key.npos) << key;
    }
    return json(output.rows);
  };
  EXPECT_EQ(rows(1), rows(3));
}

TEST(SeedingStudy, ALibraryThatIsMissingIsARowWithoutNumbers) {
  const test::ScopedVariable named("KMEANS_BENCH_PYTHON", "/no/such/python");
  const auto output =
      seeding_of(two_pairs(), 2,
                 {{"inits", {"kmeans++"}}, {"libraries", {"scikit-learn-greedy"}}, {"seeds", 2}});
  ASSERT_EQ(output.rows.size(), 2U);
  const json& row = output.rows[1];
  EXPECT_EQ(row["library"], "scikit-learn-greedy");
  for (const auto& [key, value] : row.items()) {
    EXPECT_EQ(value == nullptr, key != "way" && key != "library") << key;
    EXPECT_TRUE(output.rows[0].contains(key)) << key;
  }
  EXPECT_EQ(output.wrong, "");
  EXPECT_THAT(output.notes, testing::Contains(HasSubstr("Left out: scikit-learn-greedy (")));
}

TEST(SeedingStudy, AGpuChoosesTheSameOrIsARowWithoutNumbers) {
  const auto output = seeding_of(
      two_pairs(), 2, {{"inits", {"kmeans++"}}, {"gpu_inits", {"kmeans++"}}, {"seeds", 2}});
  ASSERT_EQ(output.rows.size(), 2U);
  const json& row = output.rows[1];
  EXPECT_EQ(row["way"], "kmeans++, GPU");
  EXPECT_EQ(output.rows[0]["gpu_seconds"], nullptr);
  EXPECT_GT(output.rows[0]["seconds_over_iteration"], 0);
  if (gpu_board_factory() == nullptr || current_gpu() == nullptr) {
    EXPECT_EQ(row["seconds"], nullptr);
    EXPECT_THAT(output.notes, testing::Contains(HasSubstr("Left out: kmeans++, GPU (")));
    return;
  }
  EXPECT_EQ(row["potential"], output.rows[0]["potential"]);
  EXPECT_EQ(row["inertia"], output.rows[0]["inertia"]);
  EXPECT_LE(row["gpu_seconds"], row["seconds"]);
}

TEST(SeedingStudy, RefusesWrongParameters) {
  EXPECT_THROW(seeding_of(two_pairs(), 2, {{"gpu_inits", {"random"}}}), InputError);
  EXPECT_THROW(seeding_of(two_pairs(), 2, {{"inits", {"kmeans"}}}), InputError);
  EXPECT_THROW(seeding_of(two_pairs(), 2, {{"inits", {"first"}}}), InputError);  // takes no seed
  EXPECT_THROW(seeding_of(two_pairs(), 2, {{"seeds", 0}}), InputError);
  EXPECT_THROW(seeding_of(two_pairs(), 2, {{"librarys", {"scikit-learn-greedy"}}}), InputError);
}

}  // namespace
}  // namespace kmeans
