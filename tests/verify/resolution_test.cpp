// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/resolution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/verify/battery.h"

namespace kmeans {
namespace {

using testing::HasSubstr;

// Numbers in [0, 1), the same everywhere.
class Stream {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_ = 1;
};

template <class Value>
std::vector<float> points(std::int64_t n, std::int64_t d, const Value& value) {
  Stream stream;
  std::vector<float> result;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t t = 0; t < d; ++t) {
      result.push_back(static_cast<float>(value(i, t, stream.next())));
    }
  }
  return result;
}

std::string lost(const std::vector<float>& points, std::int64_t d) {
  return lost_by_fixed_point(points.data(), static_cast<std::int64_t>(points.size()) / d, d, 2);
}

TEST(Resolution, OrdinaryPointsAreNeverRefused) {
  const std::int64_t n = 20000;
  const auto uniform = [](std::int64_t, std::int64_t, double u) { return u; };
  EXPECT_EQ(lost(points(n, 3, uniform), 3), "");
  // Far from the origin: a float32 there is a multiple of the quantum.
  for (const double offset : {1e3, 1e6, 1e9, -1e6}) {
    const auto far = points(n, 2, [&](auto, auto, double u) { return offset + u; });
    EXPECT_EQ(lost(far, 2), "") << offset;
  }
  for (const double scale : {1e-40, 1e-30, 1e30}) {
    EXPECT_EQ(lost(points(n, 2, [&](auto, auto, double u) { return (u - 0.5) * scale; }), 2), "")
        << scale;
  }
  // Sparse columns of different brightness, as in pictures; constant ones; columns of zeros.
  const auto sparse = [](std::int64_t, std::int64_t t, double u) {
    return u < 0.97 ? 0.0 : std::floor(u * 1e6) - 970000 + static_cast<double>(t);
  };
  EXPECT_EQ(lost(points(n, 50, sparse), 50), "");
  EXPECT_EQ(lost(points(n, 3, [](auto, std::int64_t t, auto) { return 0.1 * t; }), 3), "");
  // Columns of units that differ: metres and micrometres.
  EXPECT_EQ(
      lost(points(n, 2, [](auto, std::int64_t t, double u) { return t == 0 ? u : u * 1e-6; }), 2),
      "");
  // An outlier of six decades.
  EXPECT_EQ(lost(points(n, 2, [](auto i, auto, double u) { return i == 7 ? 1e6 : u; }), 2), "");
}

TEST(Resolution, AHundredMillionPointsFromZeroToOneAreNotRefused) {
  // Only a few are needed to see it: the quantum grows with n, here by one large value instead.
  const auto beside = points(4096, 1, [](auto i, auto, double u) { return i == 0 ? 24414.0 : u; });
  EXPECT_EQ(lost(beside, 1), "");  // n max|x| = 1e8
}

TEST(Resolution, TheBatteryIsNotRefused) {
  for (const auto& test : make_battery()) EXPECT_EQ(lost(test.points, test.d), "") << test.name;
}

TEST(Resolution, AFillValueIsRefusedWithItsPlaceAndWhatWouldBeRight) {
  auto blobs = points(3001, 2, [](auto i, auto t, double u) { return (i % 3) * 20 * t + u; });
  blobs[3000 * 2 + 1] = 9.97e36F;
  const std::string said = lost(blobs, 2);
  EXPECT_THAT(said, HasSubstr("next to the value 9.97e+36 (point 3000, coordinate 1"));
  EXPECT_THAT(said, HasSubstr("round coordinate 0 by up to"));
  EXPECT_THAT(said, HasSubstr("remove that point"));
  EXPECT_THAT(said, HasSubstr("rescale the columns"));
  // Also where it is in the sample, at its beginning.
  std::swap(blobs[1], blobs[3000 * 2 + 1]);
  EXPECT_THAT(lost(blobs, 2), HasSubstr("(point 0, coordinate 1"));
}

TEST(Resolution, ColumnsOfIncomparableUnitsAreRefused) {
  // Nanoseconds since 1970 next to a share.
  const auto timed =
      points(20000, 2, [](auto i, auto t, double u) { return t == 0 ? 1.7e18 + 1e12 * i : u; });
  EXPECT_THAT(lost(timed, 2), HasSubstr("round coordinate 1 by up to"));
  const auto rare = points(20000, 2, [](auto i, auto t, double u) {
    return t == 0 ? (i == 3 ? 1e15 : u) : (i % 10 == 0 ? u * 1e-3 : 0);  // mostly zero
  });
  EXPECT_NE(lost(rare, 2), "");
}

}  // namespace
}  // namespace kmeans
