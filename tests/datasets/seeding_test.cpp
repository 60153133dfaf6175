// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "datasets/dataset.h"
#include "tests/datasets/test_tools.h"

namespace kmeans {
namespace {

using test::message_of;
using test::values_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Points column(const std::vector<double>& values) {
  return make_points(values.data(), static_cast<std::int64_t>(values.size()), 1);
}

std::vector<double> chosen(const Points& points, std::int64_t k, const std::string& init) {
  return values_of<double>(initial_centroids(points, k, parse_init(init)));
}

const std::vector<double> kTen{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

TEST(Seeding, FirstAndGivenRows) {
  EXPECT_THAT(chosen(column(kTen), 3, "first"), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen(column(kTen), 4, "rows:1,3,6,8"), ElementsAre(1, 3, 6, 8));
  const std::vector<float> x{1, 2, 3, 4};
  EXPECT_THAT(
      values_of<float>(initial_centroids(make_points(x.data(), 2, 2), 1, parse_init("rows:1"))),
      ElementsAre(3, 4));
}

TEST(Seeding, RandomRowsAreKnownAndDistinct) {
  EXPECT_THAT(chosen(column(kTen), 4, "random:7"), ElementsAre(9, 7, 5, 1));
  auto all = chosen(column(kTen), 10, "random:3");
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, kTen);
  EXPECT_EQ(chosen(column(kTen), 4, "random"), chosen(column(kTen), 4, "random:0"));
}

TEST(Seeding, RandomRowsAreUniform) {
  std::vector<int> counts(10);
  for (int seed = 0; seed < 2000; ++seed) {
    for (const double row : chosen(column(kTen), 3, "random:" + std::to_string(seed))) {
      ++counts[static_cast<std::size_t>(row)];
    }
  }
  // 600 expected; five standard deviations of a binomial with p = 3/10.
  for (const int count : counts) EXPECT_NEAR(count, 600, 5 * std::sqrt(2000 * 0.3 * 0.7));
}

TEST(Seeding, ThresholdTakesThePointsFarFromAllBefore) {
  const auto points = column({0, 1, 3, 2, 6, 4, 9});
  EXPECT_THAT(chosen(points, 3, "threshold:4"), ElementsAre(0, 3, 6));
  // Exactly at the threshold is not beyond it: 3 is 9 away from 0.
  EXPECT_THAT(chosen(points, 2, "threshold:9"), ElementsAre(0, 6));
  EXPECT_THAT(message_of([&] { chosen(points, 5, "threshold:4"); }),
              AllOf(HasSubstr("only 4 of 5 points have a squared distance above 4.0"),
                    HasSubstr("lower the threshold or k")));
}

TEST(Seeding, ThresholdAsPrintedNeverTestsTheLastChosen) {
  // 1 is near 0, but 0 is then the last; 3 is far from 0, and 1 is not tested; 2 is near 1, and 6 is
  // far from both, whatever it is from 3.
  EXPECT_THAT(chosen(column({0, 1, 3, 2, 6, 4, 9}), 4, "threshold-as-printed:4"),
              ElementsAre(0, 1, 3, 6));
  // The one before the last is tested: after 0 and 0.5 no other point of that cluster is taken.
  const auto pairs = column({0, 0.5, 0.25, 10, 10.5, 0.75, 10.25, 20});
  EXPECT_THAT(chosen(pairs, 5, "threshold-as-printed:4"), ElementsAre(0, 0.5, 10, 10.5, 20));
  // One more than the strict rule finds: the last of all.
  EXPECT_THAT(chosen(column({0, 9, 8}), 3, "threshold-as-printed:4"), ElementsAre(0, 9, 8));
  EXPECT_THAT(message_of([&] {
                chosen(column({0, 9, 8}), 3, "threshold:4");
              }),
              HasSubstr("only 2 of 3 points"));
  EXPECT_THAT(message_of([&] {
                chosen(column({0, 1, 1, 0}), 3, "threshold-as-printed:4");
              }),
              HasSubstr("only 2 of 3 points have a squared distance above 4.0 from all others "
                        "chosen but the last; lower"));
}

TEST(Seeding, PlusPlusFindsSeparatedClusters) {
  // Four tight clusters: the chance to miss one is about 1e-6 for each seed.
  std::vector<double> values;
  values.reserve(400);
  for (int i = 0; i < 400; ++i) values.push_back(1000.0 * (i % 4) + 0.001 * i);
  for (int seed = 0; seed < 20; ++seed) {
    auto centroids = chosen(column(values), 4, "kmeans++:" + std::to_string(seed));
    std::sort(centroids.begin(), centroids.end());
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(centroids[j], 1000.0 * static_cast<double>(j), 1) << seed;
    }
  }
}

TEST(Seeding, PlusPlusDrawsByTheSquaredDistance) {
  // From {0, 1, 3}: after 0 come 1 and 3 as 1 : 9, after 1 come 0 and 3 as 1 : 4, after 3 come
  // 0 and 1 as 9 : 4. So the pair {1, 3} has probability (0.8 + 4/13) / 3.
  int pairs = 0;
  constexpr int kSeeds = 4000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto two = chosen(column({0, 1, 3}), 2, "kmeans++:" + std::to_string(seed));
    pairs += two[0] + two[1] == 4 ? 1 : 0;
  }
  const double p = (0.8 + 4.0 / 13) / 3;
  EXPECT_NEAR(pairs, kSeeds * p, 5 * std::sqrt(kSeeds * p * (1 - p)));
}

TEST(Seeding, PlusPlusIsTheSameForBothScalarsAndStopsAtFewDistinctPoints) {
  std::vector<float> narrow;
  std::vector<double> wide;
  for (int i = 0; i < 30000; ++i) {
    narrow.push_back(static_cast<float>((i * 7919) % 10007) / 8);
    wide.push_back(narrow.back());
  }
  const auto from_narrow = values_of<float>(
      initial_centroids(make_points(narrow.data(), 10000, 3), 8, parse_init("kmeans++:5")));
  const auto from_wide = values_of<double>(
      initial_centroids(make_points(wide.data(), 10000, 3), 8, parse_init("kmeans++:5")));
  for (std::size_t i = 0; i < from_wide.size(); ++i) EXPECT_EQ(from_narrow[i], from_wide[i]);

  EXPECT_EQ(chosen(column({5, 5, 5, 5}), 3, "kmeans++:1"), (std::vector<double>{5, 5, 5}));
}

TEST(Seeding, CentroidsFromAFile) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("c.csv", "1.5\n2.5\n");
  EXPECT_THAT(chosen(column(kTen), 2, file.string()), ElementsAre(1.5, 2.5));
  EXPECT_THAT(message_of([&] { chosen(column(kTen), 3, file.string()); }),
              HasSubstr("c.csv: has 2 x 1 coordinates; k x d = 3 x 1"));
}

TEST(Seeding, Refusals) {
  const auto refusal = [](const std::string& init, std::int64_t k = 2) {
    return message_of([&] { chosen(column(kTen), k, init); });
  };
  EXPECT_THAT(refusal("first", 11), HasSubstr("k = 11 exceeds the number of points, 10"));
  EXPECT_THAT(refusal("first", 0), HasSubstr("at least 1"));
  EXPECT_THAT(refusal("rows:1,10"), HasSubstr("row 10 is outside [0, 10)"));
  EXPECT_THAT(refusal("rows:1"), HasSubstr("1 rows are given, k = 2"));
  EXPECT_THAT(refusal("rows:1,-2"), HasSubstr("'-2' is not a row number"));
  EXPECT_THAT(refusal("rows:1,,2"), HasSubstr("'' is not a row number"));
  EXPECT_THAT(refusal("random:x"), HasSubstr("'x' is not a seed"));
  EXPECT_THAT(refusal("threshold:-1"), HasSubstr("is not a squared distance"));
  EXPECT_THAT(refusal("threshold:nan"), HasSubstr("is not a squared distance"));
  EXPECT_THAT(refusal("threshold-as-printed:x"), HasSubstr("is not a squared distance"));
  EXPECT_THAT(refusal("threshold-as-printd:1"), HasSubstr("did you mean 'threshold-as-printed'"));
  EXPECT_THAT(refusal("kmaens++:1"),
              AllOf(HasSubstr("did you mean 'kmeans++'"), HasSubstr("rows:1,3,6,8")));
  EXPECT_THAT(refusal("missing.npy"), HasSubstr("missing.npy: cannot be opened"));
}

}  // namespace
}  // namespace kmeans
