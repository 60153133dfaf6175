// SPDX-License-Identifier: Apache-2.0
//
// The bounds behind openmp_tree, openmp_hamerly, openmp_yinyang, openmp_elkan and openmp_exponion: with a margin
// left out, or a bound on its wrong side, each test finds a wrong answer; as they are, none. Compiled as the
// variants are.
#if defined(_OPENMP)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "harness/exact_step.h"
#include "harness/verify/battery.h"
#include "implementations/openmp/_bounded_lloyd.h"
#include "implementations/openmp/_candidates.h"
#include "implementations/openmp/_elkan_lloyd.h"
#include "implementations/openmp/_exponion_lloyd.h"

namespace kmeans::openmp {
namespace {

// ---- bounds between iterations, by the battery

/// As if float32 were exact and a bound that is equal decided something.
struct WithoutMargins : BoundRules {
  static constexpr float kUp = 1;
  static constexpr float kDown = 1;
  static constexpr float kClear = 1;
  static constexpr double kDrift = 1;
  static constexpr float kError = -1;
};
struct DriftTooShort : BoundRules {
  static constexpr double kDrift = 0.9;
};
struct DistancesTooClear : BoundRules {
  static constexpr float kClear = 0.9F;
};
struct LowerBoundsGrow : BoundRules {
  static constexpr float kDown = 1.1F;
};

struct CentroidsTooFarApart : BoundRules {
  static constexpr float kHalf = 0.6F;
};
struct RingsTooWide : BoundRules {
  static constexpr float kReach = 1.5F;
};

template <class Rules, int kGroups>
class Bounded final : public BoundedLloyd<Rules> {
 private:
  [[nodiscard]] int groups(const Shape& shape) const override {
    return static_cast<int>(std::min<std::int64_t>(shape.k, kGroups));
  }
};

/// Names of the battery's problems that the variant fails, or of the first one.
template <class V>
std::vector<std::string> failed_by(bool all = false) {
  Traits traits;
  traits.name = "bounded";
  traits.exact = true;
  traits.skips_work = true;
  traits.sums = Sums::wide;
  const RegisteredVariant variant{traits, detail::factory_of<V>(), "tests", Support::yes()};
  std::vector<std::string> names;
  for (const auto& test : make_battery()) {
    const auto result = run_battery_case(variant, test, Precision::f32, 2);
    if (result.verdict == Verdict::passed || result.verdict == Verdict::skipped) continue;
    EXPECT_EQ(result.verdict, Verdict::failed) << test.name << ": " << result.detail;
    names.push_back(test.name);
    if (!all) break;
  }
  return names;
}

template <class Rules, int kGroups>
std::vector<std::string> failed(bool all = false) {
  return failed_by<Bounded<Rules, kGroups>>(all);
}

TEST(KeptBounds, RightOnesPassTheBattery) {
  EXPECT_EQ((failed<BoundRules, 1>(true)), std::vector<std::string>{});
  EXPECT_EQ((failed<BoundRules, 3>(true)), std::vector<std::string>{});
  EXPECT_EQ((failed<BoundRules, 64>(true)), std::vector<std::string>{});
}

TEST(KeptBounds, WrongOnesAreFound) {
  EXPECT_FALSE((failed<WithoutMargins, 1>()).empty());
  EXPECT_FALSE((failed<WithoutMargins, 3>()).empty());
  EXPECT_FALSE((failed<DriftTooShort, 1>()).empty());
  EXPECT_FALSE((failed<DriftTooShort, 3>()).empty());
  EXPECT_FALSE((failed<DistancesTooClear, 1>()).empty());
  EXPECT_FALSE((failed<DistancesTooClear, 3>()).empty());
  EXPECT_FALSE((failed<LowerBoundsGrow, 1>()).empty());
  EXPECT_FALSE((failed<LowerBoundsGrow, 3>()).empty());
}

TEST(KeptBounds, RightOnesOfElkanPassTheBattery) {
  EXPECT_EQ((failed_by<ElkanLloyd<BoundRules>>(true)), std::vector<std::string>{});
}

TEST(KeptBounds, WrongOnesOfElkanAreFound) {
  EXPECT_FALSE((failed_by<ElkanLloyd<WithoutMargins>>().empty()));
  EXPECT_FALSE((failed_by<ElkanLloyd<DriftTooShort>>().empty()));
  EXPECT_FALSE((failed_by<ElkanLloyd<DistancesTooClear>>().empty()));
  EXPECT_FALSE((failed_by<ElkanLloyd<LowerBoundsGrow>>().empty()));
  EXPECT_FALSE((failed_by<ElkanLloyd<CentroidsTooFarApart>>().empty()));
}

TEST(KeptBounds, RightOnesOfTheExponionPassTheBattery) {
  EXPECT_EQ((failed_by<ExponionLloyd<BoundRules>>(true)), std::vector<std::string>{});
}

TEST(KeptBounds, WrongOnesOfTheExponionAreFound) {
  EXPECT_FALSE((failed_by<ExponionLloyd<WithoutMargins>>().empty()));
  EXPECT_FALSE((failed_by<ExponionLloyd<DriftTooShort>>().empty()));
  EXPECT_FALSE((failed_by<ExponionLloyd<DistancesTooClear>>().empty()));
  EXPECT_FALSE((failed_by<ExponionLloyd<LowerBoundsGrow>>().empty()));
  EXPECT_FALSE((failed_by<ExponionLloyd<CentroidsTooFarApart>>().empty()));
  EXPECT_FALSE((failed_by<ExponionLloyd<RingsTooWide>>().empty()));
}

// ---- candidates of boxes and points

constexpr std::int64_t kCentroids = 5;
constexpr std::size_t kBoxes = kFanOut;
constexpr float kNoReach = std::numeric_limits<float>::infinity();

/// Five centroids that are as far from the origin of a random rotation as float32 can make them: the
/// nearest to a point there hangs on the last bits.
template <int D>
class NearTies {
 public:
  explicit NearTies(std::uint64_t seed) : random_(seed) {}

  void draw() {
    for (float& value : point) value = uniform();
    for (std::int64_t j = 0; j < kCentroids; ++j) {
      // The same coordinates' distances in another order, with other signs: a tie, but for rounding.
      std::array<int, D> order;
      for (int t = 0; t < D; ++t) order[t] = t;
      std::shuffle(order.begin(), order.end(), random_);
      if (j == 0) {
        for (float& value : offsets_) value = uniform();
      }
      for (int t = 0; t < D; ++t) {
        const float offset = (random_() & 1) != 0 ? offsets_[order[t]] : -offsets_[order[t]];
        rows[t * kStride + j] = point[t] + offset;
        centroids[j * D + t] = rows[t * kStride + j];
      }
      rows[D * kStride + j] = std::bit_cast<float>(static_cast<std::int32_t>(j));
    }
  }

  [[nodiscard]] Candidates list() const { return {rows.data(), kStride, kCentroids}; }

  [[nodiscard]] std::int32_t nearest(const float* to) const {
    std::int32_t best = 0;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int32_t j = 0; j < kCentroids; ++j) {
      const double distance = exact::squared_distance(to, centroids.data() + j * D, D);
      if (distance < lowest) {
        lowest = distance;
        best = j;
      }
    }
    return best;
  }

  float uniform() { return std::uniform_real_distribution<float>(-1, 1)(random_); }

  static constexpr std::int64_t kStride = 32;
  std::array<float, D> point{};
  std::vector<float> rows = std::vector<float>((D + 1) * kStride, Candidates::kFarAway);
  std::array<float, kCentroids * D> centroids{};

 private:
  std::mt19937_64 random_;
  std::array<float, D> offsets_{};
};

Margins no_margins() { return {1, 1, 1, 0, 1, 0}; }

/// In how many of the draws a box that is the one point loses its nearest centroid.
template <int D>
int boxes_that_lose(const Margins& margins) {
  NearTies<D> data(7);
  constexpr std::int64_t kBoxStride = kFanOut;
  std::vector<float> boxes((2 * D + 1) * kBoxStride, 0.0F);
  std::vector<float> memory(Candidates::size(D, kCentroids) + 16);
  int lost = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    data.draw();
    for (int t = 0; t < D; ++t) std::fill_n(boxes.begin() + t * kBoxStride, kFanOut, data.point[t]);
    const std::int32_t nearest = data.nearest(data.point.data());
    const Candidates kept =
        prune_box<D>(data.list(), boxes.data(), kBoxStride, kNoReach, margins, memory.data());
    bool found = false;
    for (std::int64_t place = 0; place < kept.count; ++place) {
      found |= kept.index(D, place) == nearest;
    }
    BoxesFound together;
    prune_boxes<D>(data.list(), boxes.data(), kBoxStride, margins, together);
    for (int box = 0; box < kFanOut; ++box) {
      const std::uint32_t places = together.places(kCentroids, box);
      found &= (places >> nearest & 1) != 0;
      const bool owned = (together.owned >> box & 1) != 0;
      EXPECT_EQ(owned, std::popcount(places) == 1);
      if (owned) {
        EXPECT_EQ(places, 1U << together.index[box]);
      }
    }
    lost += static_cast<int>(!found);
  }
  return lost;
}

TEST(TreeCandidates, NoBoxLosesItsNearestCentroid) {
  EXPECT_EQ(boxes_that_lose<1>(Margins::of(1)), 0);
  EXPECT_EQ(boxes_that_lose<2>(Margins::of(2)), 0);
  EXPECT_EQ(boxes_that_lose<3>(Margins::of(3)), 0);
  EXPECT_EQ(boxes_that_lose<8>(Margins::of(8)), 0);
}

TEST(TreeCandidates, WithoutMarginsSomeDo) {
  EXPECT_GT(boxes_that_lose<2>(no_margins()), 10);
  EXPECT_GT(boxes_that_lose<3>(no_margins()), 10);
  EXPECT_GT(boxes_that_lose<8>(no_margins()), 10);
}

/// In how many of the draws a point counts as decided, and wrongly.
template <int D>
int points_mislabelled(const Margins& margins) {
  NearTies<D> data(11);
  std::array<float, std::size_t{D} * kLeafPoints> tile;
  std::array<std::int32_t, kLeafPoints> labels;
  float farthest = 0;
  int wrong = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    data.draw();
    for (int t = 0; t < D; ++t)
      std::fill_n(tile.begin() + t * kLeafPoints, kLeafPoints, data.point[t]);
    const std::uint32_t open =
        label_points<D>(tile.data(), data.list(), margins, labels.data(), &farthest);
    const std::int32_t nearest = data.nearest(data.point.data());
    for (int p = 0; p < kLeafPoints; ++p) {
      wrong += static_cast<int>((open >> p & 1) == 0 && labels[p] != nearest);
    }
  }
  return wrong;
}

TEST(TreeCandidates, DecidedPointsHaveTheirLabel) {
  EXPECT_EQ(points_mislabelled<1>(Margins::of(1)), 0);
  EXPECT_EQ(points_mislabelled<2>(Margins::of(2)), 0);
  EXPECT_EQ(points_mislabelled<3>(Margins::of(3)), 0);
  EXPECT_EQ(points_mislabelled<8>(Margins::of(8)), 0);
}

TEST(TreeCandidates, WithoutMarginsSomeAreWrong) {
  EXPECT_GT(points_mislabelled<2>(no_margins()), 10);
  EXPECT_GT(points_mislabelled<3>(no_margins()), 10);
  EXPECT_GT(points_mislabelled<8>(no_margins()), 10);
}

/// A wide box whose farthest corner decides: centroids beyond it stay while a point of it may be theirs.
template <int D>
int corners_lost(const Margins& margins, float short_by) {
  NearTies<D> data(13);
  std::vector<float> boxes((2 * D + 1) * kBoxes, 0.0F);
  std::vector<float> memory(Candidates::size(D, kCentroids) + 16);
  int lost = 0;
  for (int draw = 0; draw < 2000; ++draw) {
    data.draw();
    std::array<float, D> half;
    double diagonal = 0;
    for (int t = 0; t < D; ++t) {
      half[t] = std::abs(data.uniform()) / 4;
      boxes[t * kBoxes] = data.point[t];
      boxes[(D + t) * kBoxes] = 2 * half[t] * short_by;
      diagonal += half[t] * half[t];
    }
    boxes[kBoxes * 2 * D] = static_cast<float>(diagonal * 1.000001);
    for (std::int64_t j = 0; j < kCentroids; ++j) {  // unlike distances
      for (int t = 0; t < D; ++t) {
        data.centroids[j * D + t] = data.rows[t * data.kStride + j] = data.uniform();
      }
    }
    const Candidates kept =
        prune_box<D>(data.list(), boxes.data(), kFanOut, kNoReach, margins, memory.data());
    for (int corner = 0; corner < 1 << D; ++corner) {
      std::array<float, D> at;
      for (int t = 0; t < D; ++t) {
        at[t] = data.point[t] + ((corner >> t & 1) != 0 ? half[t] : -half[t]) * 0.999999F;
      }
      const std::int32_t nearest = data.nearest(at.data());
      bool found = false;
      for (std::int64_t place = 0; place < kept.count; ++place) {
        found |= kept.index(D, place) == nearest;
      }
      lost += static_cast<int>(!found);
    }
  }
  return lost;
}

TEST(TreeCandidates, CornersOfABoxKeepTheirNearestCentroid) {
  EXPECT_EQ(corners_lost<2>(Margins::of(2), 1), 0);
  EXPECT_EQ(corners_lost<3>(Margins::of(3), 1), 0);
  EXPECT_GT(corners_lost<2>(Margins::of(2), 0.9F), 0) << "a box that is too small";
  EXPECT_GT(corners_lost<3>(Margins::of(3), 0.9F), 0) << "a box that is too small";
}

/// Corners of boxes that lose their nearest centroid to a reach that is this much of the right one.
template <int D>
int corners_out_of_reach(float share) {
  NearTies<D> data(17);
  std::vector<float> boxes((2 * D + 1) * kBoxes, 0.0F);
  std::vector<float> memory(Candidates::size(D, kCentroids) + 16);
  int lost = 0;
  for (int draw = 0; draw < 2000; ++draw) {
    data.draw();
    std::array<std::int32_t, 1 << D> nearest;
    double reach = 0;
    for (int t = 0; t < D; ++t) {
      boxes[t * kBoxes] = data.point[t];
      boxes[(D + t) * kBoxes] = 0.25F;
    }
    boxes[kBoxes * 2 * D] = D * 0.125F * 0.125F;
    for (int corner = 0; corner < 1 << D; ++corner) {
      std::array<float, D> at;
      for (int t = 0; t < D; ++t)
        at[t] = data.point[t] + ((corner >> t & 1) != 0 ? 0.125F : -0.125F);
      nearest[corner] = data.nearest(at.data());
      reach = std::max(reach, exact::squared_distance(
                                  at.data(), data.centroids.data() + nearest[corner] * D, D));
    }
    const auto known = static_cast<float>(std::sqrt(reach) * 1.000001) * share;
    const Candidates kept =
        prune_box<D>(data.list(), boxes.data(), kFanOut, known, Margins::of(D), memory.data());
    for (const std::int32_t label : nearest) {
      bool found = false;
      for (std::int64_t place = 0; place < kept.count; ++place) {
        found |= kept.index(D, place) == label;
      }
      lost += static_cast<int>(!found);
    }
  }
  return lost;
}

TEST(TreeCandidates, NoCentroidWithinReachIsLeftOut) {
  EXPECT_EQ(corners_out_of_reach<2>(1), 0);
  EXPECT_EQ(corners_out_of_reach<3>(1), 0);
  EXPECT_GT(corners_out_of_reach<2>(0.9F), 10) << "a reach that is too short";
  EXPECT_GT(corners_out_of_reach<3>(0.9F), 10) << "a reach that is too short";
}

}  // namespace
}  // namespace kmeans::openmp
#endif
