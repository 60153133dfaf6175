// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fit_length.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace kmeans {
namespace {

std::optional<FitLength> length_from(const std::string& init, double seconds) {
  const DatasetSpec points =
      parse_dataset({{"generator", "blobs"}, {"seed", 1}, {"k", 8}, {"n", 20000}, {"d", 8}});
  const auto cache = std::filesystem::path(testing::TempDir()) / "fit-length";
  return fit_length(points, 64, init, 1, cache, seconds, 300);
}

TEST(FitLength, IsFoundUntilNoLabelChanges) {
  const auto found = length_from("kmeans++:1", 60);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->settled);
  EXPECT_GT(found->iterations, 1);
  EXPECT_GT(found->seeding_seconds, 0);
}

TEST(FitLength, ASeedingThatTakesLongerThanAllOfItIsNotBegun) {
  for (const char* init : {"ward:1", "kmeans++:1", "threshold:1e-9"}) {
    EXPECT_FALSE(length_from(init, 1e-6)) << init;
  }
  const auto found = length_from("random:1", 1e-6);
  ASSERT_TRUE(found) << "rows take no time";
  EXPECT_FALSE(found->settled);
}

TEST(FitLength, SeedingIsExpectedToGrowWithItsWork) {
  const auto of = [](const char* init, std::int64_t n, std::int64_t k, int threads) {
    return expected_seeding_seconds(parse_init(init), {n, 10, k, Precision::f32}, threads);
  };
  EXPECT_EQ(of("random:1", 1000000, 100, 1), 0);
  EXPECT_EQ(of("first", 1000000, 100, 1), 0);
  EXPECT_DOUBLE_EQ(of("kmeans++:1", 1000000, 100, 1), 1e9 / 4e9);
  EXPECT_GT(of("ward:1", 1000000, 100, 1), of("kmeans++:1", 1000000, 100, 1));
  EXPECT_DOUBLE_EQ(of("ward:1", 1000000, 100, 4), of("ward:1", 1000000, 100, 1) / 4);
}

}  // namespace
}  // namespace kmeans
