// SPDX-License-Identifier: Apache-2.0
//
// The verifier, tested with variants that are wrong on purpose: each fault must be caught, and the
// sound variant next to them must pass.
#include "harness/verify/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/hash.h"
#include "harness/verify/battery.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

enum class Fault {
  none,
  one_label,           // one point gets the second nearest centroid
  one_coordinate,      // one centroid coordinate is a little off
  ties_to_highest,     // <= where < is right
  empty_to_zero,       // an empty cluster's centroid becomes 0
  empty_to_nan,        // or 0 / 0
  dropped_last_block,  // the points after the last full block of 256 never reach the sums
  stale_labels,        // hands out the labels of the iteration before
  stale_centroids,     // the update uses the labels of the iteration before
  forgets_reset,       // keeps the sums of earlier runs
  unwritten_label,     // does not write the last label
  last_label_zero,     // the last point is never labelled
  last_labels_zero,    // nor are the points after the last full block of 16
  label_out_of_range,
  nan_centroid,
};

// A plain Lloyd step in exact arithmetic, with one fault.
template <Fault fault>
class Faulty final : public Variant<float> {
 public:
  void setup(const Problem<float>& problem) override {
    problem_ = problem;
    labels_.assign(problem.shape.n, 0);
  }
  void reset(const float* centroids) override {
    centroids_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    if (fault != Fault::forgets_reset || carried_.empty()) carried_.assign(centroids_.size(), 0.0);
    labels_.assign(problem_.shape.n, 0);
  }
  void step(std::int64_t iterations) override {
    for (std::int64_t i = 0; i < iterations; ++i) lloyd();
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    const auto& shown = fault == Fault::stale_labels ? before_ : labels_;
    std::copy(shown.begin(), shown.end() - (fault == Fault::unwritten_label ? 1 : 0), labels);
    const std::int64_t n = problem_.shape.n;
    if (fault == Fault::last_label_zero) labels[n - 1] = 0;
    if (fault == Fault::last_labels_zero) std::fill(labels + n / 16 * 16, labels + n, 0);
    if (fault == Fault::label_out_of_range) labels[0] = static_cast<std::int32_t>(problem_.shape.k);
  }

 private:
  void lloyd() {
    const auto [n, d, k, precision] = problem_.shape;
    before_ = labels_;
    for (std::int64_t i = 0; i < n; ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      std::int32_t second = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const double distance =
            exact::squared_distance(problem_.points + i * d, centroids_.data() + j * d, d);
        const bool nearer =
            fault == Fault::ties_to_highest ? distance <= nearest : distance < nearest;
        if (nearer) {
          second = labels_[i];
          nearest = distance;
          labels_[i] = static_cast<std::int32_t>(j);
        }
      }
      if (fault == Fault::one_label && i == n / 2) {
        labels_[i] = second == labels_[i] ? (second + 1) % static_cast<std::int32_t>(k) : second;
      }
    }
    const auto& used = fault == Fault::stale_centroids ? before_ : labels_;
    std::vector<double> sums(carried_);
    std::vector<std::int64_t> counts(k, 0);
    const std::int64_t end = fault == Fault::dropped_last_block ? n / 256 * 256 : n;
    for (std::int64_t i = 0; i < end; ++i) {
      counts[used[i]] += 1;
      for (std::int64_t t = 0; t < d; ++t) sums[used[i] * d + t] += problem_.points[i * d + t];
    }
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t t = 0; t < d; ++t) {
        float& coordinate = centroids_[j * d + t];
        if (counts[j] > 0) {
          coordinate = static_cast<float>(sums[j * d + t] / static_cast<double>(counts[j]));
        } else if (fault == Fault::empty_to_nan) {
          coordinate = std::numeric_limits<float>::quiet_NaN();
        } else if (fault == Fault::empty_to_zero) {
          coordinate = 0;
        }
      }
    }
    if (fault == Fault::forgets_reset) carried_ = sums;
    if (fault == Fault::one_coordinate) centroids_[d / 2] *= 1.0F + 1e-4F;
    if (fault == Fault::nan_centroid) centroids_[0] = std::numeric_limits<float>::quiet_NaN();
  }

  Problem<float> problem_;
  std::vector<float> centroids_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> before_;
  std::vector<double> carried_;
};

template <Fault fault>
RegisteredVariant registered(Traits traits = {}) {
  traits.name = "faulty";
  traits.sums = Sums::wide;
  return {std::move(traits), detail::factory_of<Faulty<fault>>(), "tests", Support::yes()};
}

const BatteryCase& battery_case(const char* name) {
  static const auto battery = make_battery();
  for (const auto& test : battery) {
    if (test.name == name) return test;
  }
  throw std::logic_error(std::string("no case ") + name);
}

template <Fault fault>
BatteryResult judge(const char* name, Traits traits = {}) {
  return run_battery_case(registered<fault>(std::move(traits)), battery_case(name), Precision::f32,
                          2);
}

Problem<float> problem_of(const Shape& shape, const std::vector<float>& points, float max_abs) {
  Problem<float> problem;
  problem.shape = shape;
  problem.points = points.data();
  problem.max_abs = max_abs;
  return problem;
}

Outcome<float> first_step(Session<float>& session) {
  session.reset();
  session.step(1);
  return session.fetch();
}

// Caught, and by the certificate that is there for it.
void expect_caught(const BatteryResult& result, const std::string& check) {
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_NE(result.detail.find(check), std::string::npos) << result.detail;
}

TEST(Verify, SoundVariantPassesTheWholeBattery) {
  for (const auto& test : make_battery()) {
    const auto result = run_battery_case(registered<Fault::none>(), test, Precision::f32, 2);
    EXPECT_EQ(result.verdict, Verdict::passed) << test.name << ": " << result.detail;
    EXPECT_LE(result.certificate.centroid_error_of_bound, 1) << test.name;
    EXPECT_EQ(result.certificate.labels_differing, 0) << test.name;
  }
}

TEST(Verify, CatchesOneWrongLabel) {
  expect_caught(judge<Fault::one_label>("prime sizes"), "labels within rounding");
  expect_caught(judge<Fault::one_label>("clustered"), "labels within rounding");
}

TEST(Verify, CatchesOneWrongCoordinate) {
  expect_caught(judge<Fault::one_coordinate>("prime sizes"), "centroids are the means");
  expect_caught(judge<Fault::one_coordinate>("large offset"), "centroids are the means");
}

TEST(Verify, CatchesTheTieRule) {
  expect_caught(judge<Fault::ties_to_highest>("exact ties"), "ties did not go to the lowest");
  expect_caught(judge<Fault::ties_to_highest>("all zero"), "ties did not go to the lowest");
  Traits exact;
  exact.exact = true;
  expect_caught(judge<Fault::ties_to_highest>("identical centroids", exact), "labels exact");
}

TEST(Verify, CatchesMovedEmptyClusters) {
  expect_caught(judge<Fault::empty_to_zero>("empty clusters"), "empty cluster 3 moved");
  expect_caught(judge<Fault::empty_to_nan>("empty clusters"),
                "did not keep its centroid: coordinate 0 is nan");
}

TEST(Verify, CatchesADroppedLastBlock) {
  expect_caught(judge<Fault::dropped_last_block>("prime sizes"), "centroids are the means");
  expect_caught(judge<Fault::dropped_last_block>("many clusters"), "");
}

TEST(Verify, CatchesStaleLabels) {
  expect_caught(judge<Fault::stale_labels>("prime sizes"), "");
  expect_caught(judge<Fault::stale_centroids>("prime sizes"), "centroids are the means");
}

TEST(Verify, CatchesStateThatOutlivesReset) {
  EXPECT_EQ(judge<Fault::forgets_reset>("prime sizes").verdict, Verdict::failed);
}

TEST(Verify, CatchesUnwrittenAndImpossibleOutput) {
  expect_caught(judge<Fault::unwritten_label>("prime sizes"), "labels in range");
  expect_caught(judge<Fault::label_out_of_range>("prime sizes"), "labels in range");
  EXPECT_EQ(judge<Fault::nan_centroid>("prime sizes").verdict, Verdict::failed);
}

TEST(Verify, SaysWhichLabelIsRightAndThatItIsTheLastPoint) {
  // 1009 points: the last one, and the last one after 63 full blocks of 16.
  expect_caught(judge<Fault::last_label_zero>("prime sizes"),
                "(only the last of the 1009 points, point 1008, label 0; the exact label is ");
  // 61 points and as many clusters, each its own: no point but the first has the label 0.
  expect_caught(judge<Fault::last_labels_zero>("k = n"),
                "(the last 13 of the 61 points; first: point 48, label 0; the exact label is 48)");
  expect_caught(judge<Fault::one_label>("k = n"), "(first: point 30, label ");
}

TEST(Verify, ExactVariantsAreHeldToBits) {
  // Off by one unit in the last place: within every rounding bound, yet not exact.
  const auto& test = battery_case("prime sizes");
  Traits traits;
  traits.exact = true;
  const Shape shape{test.n, test.d, test.k, Precision::f32};
  Session<float> session(
      require_variant("reference"),
      problem_of(shape, test.points, largest_abs(test.points.data(), test.n * test.d, 1)),
      test.centroids.data());
  Outcome<float> outcome = first_step(session);
  EXPECT_TRUE(certify_step(traits, session.evidence(test.centroids, outcome), {}).passed);
  outcome.centroids[3] = std::nextafter(outcome.centroids[3], 1e9F);
  EXPECT_FALSE(certify_step(traits, session.evidence(test.centroids, outcome), {}).passed);
  traits.exact = false;
  traits.sums = Sums::wide;
  EXPECT_TRUE(certify_step(traits, session.evidence(test.centroids, outcome), {}).passed);
}

// As docs/plugins.md and docs/adding-a-variant.md say.
TEST(Verify, SumsInFloat32PassUnlessTheyAreDeclaredWide) {
  const std::int64_t n = 50000;
  std::vector<float> points(n);
  float sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    points[i] = static_cast<float>((i * 7919) % 1000) / 7;
    sum += points[i];
  }
  const std::vector<float> centroids{0};
  Session<float> session(require_variant("reference"),
                         problem_of({n, 1, 1, Precision::f32}, points, 1000), centroids.data());
  Outcome<float> outcome = first_step(session);
  const float right = outcome.centroids[0];
  outcome.centroids[0] = sum / static_cast<float>(n);
  ASSERT_NE(outcome.centroids[0], right);
  Traits traits = require_variant("reference").traits;
  traits.exact = false;
  traits.sums = Traits{}.sums;
  EXPECT_TRUE(certify_step(traits, session.evidence(centroids, outcome), {}).passed);
  traits.sums = Sums::wide;
  EXPECT_FALSE(certify_step(traits, session.evidence(centroids, outcome), {}).passed);
}

// As scikit-learn does: sums of float32 differences from the mean. Of a coordinate that is 0 throughout a cluster, all
// that is added up is the mean.
TEST(Verify, SumsOfCentredPointsAreGrantedWhatTheirMeanRounds) {
  const std::int64_t n = 2000;  // half of them 0, half of them 12.2 to 16.2
  std::vector<float> points(n);
  for (std::int64_t i = n / 2; i < n; ++i) points[i] = 12.2F + static_cast<float>(i % 5);
  const std::vector<float> centroids{0, 14};
  Session<float> session(require_variant("reference"),
                         problem_of({n, 1, 2, Precision::f32}, points, 16.2F), centroids.data());
  Outcome<float> outcome = first_step(session);
  ASSERT_EQ(outcome.centroids[0], 0);
  const float mean = 7.1F;
  float sum = 0;
  for (std::int64_t i = 0; i < n / 2; ++i) sum += points[i] - mean;
  outcome.centroids[0] = sum / static_cast<float>(n / 2) + mean;
  ASSERT_GT(std::abs(outcome.centroids[0]), 1e-5);
  Traits traits = require_variant("reference").traits;
  traits.exact = false;
  traits.sums = Sums::working;
  for (const LabelsOf labels_of : {LabelsOf::starting, LabelsOf::returned}) {
    traits.labels_of = labels_of;
    traits.centres = true;
    EXPECT_TRUE(certify_step(traits, session.evidence(centroids, outcome), {}).passed);
    traits.centres = false;
    EXPECT_FALSE(certify_step(traits, session.evidence(centroids, outcome), {}).passed);
    // Not whatever it may be, nor in sums that round less.
    traits.centres = true;
    if (labels_of == LabelsOf::starting) {
      traits.sums = Sums::wide;
      EXPECT_FALSE(certify_step(traits, session.evidence(centroids, outcome), {}).passed);
      traits.sums = Sums::working;
    }
    Outcome<float> other = outcome;
    other.centroids[0] = 0.01F;
    EXPECT_FALSE(certify_step(traits, session.evidence(centroids, other), {}).passed);
  }
}

TEST(Verify, SampleSaysSoAndStillSeesADroppedTail) {
  const std::int64_t n = 50000;
  std::vector<float> points(n * 2);
  for (std::int64_t i = 0; i < 2 * n; ++i) points[i] = static_cast<float>((i * 7919) % 1000);
  std::vector<float> centroids{0, 0, 250, 250, 500, 500, 900, 900};
  Session<float> session(require_variant("reference"),
                         problem_of({n, 2, 4, Precision::f32}, points, 999), centroids.data());
  Outcome<float> outcome = first_step(session);
  VerifyOptions options;
  options.budget = 4 * 2 * 5000;
  const auto sound = certify_step(Traits{}, session.evidence(centroids, outcome), options);
  EXPECT_TRUE(sound.passed);
  EXPECT_EQ(sound.points_checked, 5000);
  EXPECT_EQ(sound.points_total, n);
  for (std::int64_t i = n - 100; i < n; ++i) outcome.labels[i] = (outcome.labels[i] + 1) % 4;
  const auto broken = certify_step(Traits{}, session.evidence(centroids, outcome), options);
  EXPECT_FALSE(broken.passed);
}

TEST(Verify, BoundsGrowWithThePrecisionsRoundoff) {
  Traits direct;
  Traits expanded;
  expanded.distance = Distance::expanded;
  const double f32 = distance_bound(direct, Precision::f32, 10, 1.0, 2.0);
  EXPECT_NEAR(f32, 16 * 0x1p-24, 1e-8);
  EXPECT_LT(distance_bound(direct, Precision::f64, 10, 1.0, 2.0), f32 * 1e-8);
  EXPECT_NEAR(distance_bound(expanded, Precision::f32, 10, 1.0, 2.0) / f32, 4, 1e-3);
  EXPECT_GT(distance_bound(direct, Precision::f16, 10, 1.0, 2.0), 0x1p-10);
  EXPECT_GT(distance_bound(direct, Precision::bf16, 10, 1.0, 2.0),
            distance_bound(direct, Precision::tf32, 10, 1.0, 2.0));
}

TEST(Verify, TrajectoryIsComparedWithinItsTolerance) {
  Certificate near;
  certify_trajectory(Traits{}, 100.5, 100, false, near);
  EXPECT_TRUE(near.passed);
  Certificate far;
  certify_trajectory(Traits{}, 102, 100, false, far);
  EXPECT_FALSE(far.passed);
  Traits relocating;
  relocating.empty_clusters = EmptyClusters::relocate;
  Certificate skipped;
  certify_trajectory(relocating, 90, 100, true, skipped);
  EXPECT_TRUE(skipped.passed);
  EXPECT_FALSE(skipped.inertia_relative_difference.has_value());
}

TEST(Verify, TrajectoryThatLeavesNothingButRoundingIsHeldToRounding) {
  // 60 points at three places, five clusters: the exact centroids are the places, or next to them.
  const Shape shape{60, 3, 5, Precision::f32};
  const TrajectoryScale scale{60, 30};
  for (const auto distance : {Distance::direct, Distance::expanded}) {
    Traits traits;
    traits.distance = distance;
    const InertiaFloor floor = trajectory_floor(traits, shape, ScalarType::f32, scale, 1.0);
    EXPECT_LT(floor.exact, 1e-10);
    EXPECT_GT(floor.granted, floor.exact);
    EXPECT_LT(floor.granted, 1e-2);  // a point at another place would cost more
    const auto judged = [&](double inertia, double exact) {
      Certificate certificate;
      certify_trajectory(traits, inertia, exact, false, certificate, floor);
      return certificate.passed;
    };
    EXPECT_TRUE(judged(0, 0));
    EXPECT_TRUE(judged(3e-14, 0));
    EXPECT_TRUE(judged(0, 2e-14));
    EXPECT_TRUE(judged(7e-14, 2e-14));
    EXPECT_FALSE(judged(0.1, 0));
    EXPECT_FALSE(judged(0.1, 2e-14));
    EXPECT_FALSE(judged(std::nan(""), 0));
    EXPECT_FALSE(judged(102, 100));  // and where there is more, nothing changes
    EXPECT_TRUE(judged(100.5, 100));
    EXPECT_FALSE(judged(2e-9, 1e-9));
  }
  Traits exact;
  exact.exact = true;
  Certificate certificate;
  certify_trajectory(exact, 3e-14, 2e-14, false, certificate,
                     trajectory_floor(exact, shape, ScalarType::f32, scale, 1.0));
  EXPECT_FALSE(certificate.passed);
  // No number that overflows grants anything.
  EXPECT_EQ(trajectory_floor(Traits{}, shape, ScalarType::f32, scale, 1e300).granted, 0);
}

// Points around `places` of a line, `apart` from each other and `offset` from the origin.
TrajectoryScale places_on_a_line(double offset, double apart, std::int64_t places,
                                 std::int64_t each, const std::vector<double>& outliers) {
  std::vector<double> centroids;
  std::vector<std::int32_t> labels;
  for (std::int64_t j = 0; j < places; ++j) {
    centroids.push_back(offset + apart * static_cast<double>(j));
    labels.insert(labels.end(), each, static_cast<std::int32_t>(j));
  }
  for (const double outlier : outliers) {
    labels.push_back(static_cast<std::int32_t>(centroids.size()));
    centroids.push_back(outlier);
  }
  const Shape shape{static_cast<std::int64_t>(labels.size()), 1,
                    static_cast<std::int64_t>(centroids.size()), Precision::f32};
  return trajectory_scale(centroids.data(), labels.data(), shape);
}

TEST(Verify, TheScaleOfATrajectoryLeavesOutClustersOfOnePoint) {
  const auto scale = places_on_a_line(100, 10, 3, 5, {1e30, -7});
  EXPECT_DOUBLE_EQ(scale.weight, 5 * (100.0 * 100 + 110.0 * 110 + 120.0 * 120));
  EXPECT_DOUBLE_EQ(scale.scatter, 5 * 200);
}

TEST(Verify, TrajectoriesFarFromTheOriginOrBesideAnOutlierAreStillCompared) {
  const auto judged = [](const TrajectoryScale& scale, double n, double max_abs, double inertia,
                         double exact) {
    const Shape shape{static_cast<std::int64_t>(n), 1, 10, Precision::f32};
    const auto floor = trajectory_floor(Traits{}, shape, ScalarType::f32, scale, max_abs);
    Certificate certificate;
    certify_trajectory(Traits{}, inertia, exact, false, certificate, floor);
    return certificate.passed;
  };
  // 10 000 points around 1e6 with a scatter of one: what is right leaves 252, of which rounding the
  // centroids explains 35; a float32 sum that puts all in one cluster leaves five millions.
  const auto far = places_on_a_line(1e6, 0.4, 10, 1000, {});
  EXPECT_FALSE(judged(far, 10000, 1e6, 5035929, 251.9));
  EXPECT_TRUE(judged(far, 10000, 1e6, 251.9 + 30, 251.9));
  // With a hundred clusters the right one is less than rounding explains; not so the wrong one.
  EXPECT_FALSE(judged(far, 10000, 1e6, 8498, 25.5));
  EXPECT_TRUE(judged(far, 10000, 1e6, 30, 25.5));
  // One point at 1e8 next to a thousand within one.
  const auto beside = places_on_a_line(0, 0.2, 9, 111, {1e8});
  EXPECT_FALSE(judged(beside, 1000, 1e8, 3215, 1002));
  EXPECT_FALSE(judged(beside, 1000, 1e8, 1020, 1002));
  EXPECT_TRUE(judged(beside, 1000, 1e8, 1002.1, 1002));
  // No number that overflows grants anything.
  const Shape shape{1000, 1, 10, Precision::f64};
  EXPECT_EQ(trajectory_floor(Traits{}, shape, ScalarType::f64, places_on_a_line(1e200, 1, 2, 5, {}),
                             1e200)
                .granted,
            0);
}

TEST(Verify, AFloat64TrajectoryIsTheOneOfTheFivePoints) {
  // In the second iteration 0 is as far from both, and goes to the first.
  const std::vector<double> points{0, 2, 4, -3, -1};
  for (const double scale : {1.0, 0x1p-500, 0x1p400}) {
    for (const int threads : {1, 3}) {
      std::vector<double> scaled;
      for (const double point : points) scaled.push_back(point * scale);
      std::vector<double> centroids{-2.5 * scale, 1 * scale};
      std::vector<std::int32_t> labels;
      float64_step(scaled.data(), {5, 1, 2, Precision::f64}, threads, centroids, labels);
      EXPECT_EQ(centroids, (std::vector<double>{-2 * scale, 2 * scale}));
      EXPECT_EQ(labels, (std::vector<std::int32_t>{1, 1, 1, 0, 0}));
      float64_step(scaled.data(), {5, 1, 2, Precision::f64}, threads, centroids, labels);
      EXPECT_EQ(labels, (std::vector<std::int32_t>{0, 1, 1, 0, 0}));
    }
  }
}

TEST(Quality, DoesNotDependOnThreads) {
  const auto& test = battery_case("one past a block");
  std::vector<std::int32_t> labels(test.n);
  for (std::int64_t i = 0; i < test.n; ++i) labels[i] = static_cast<std::int32_t>(i % test.k);
  const Shape shape{test.n, test.d, test.k, Precision::f32};
  const auto one = quality_of(test.points.data(), test.centroids.data(), labels.data(), shape, 1);
  const auto five = quality_of(test.points.data(), test.centroids.data(), labels.data(), shape, 5);
  EXPECT_EQ(one.inertia, five.inertia);
  EXPECT_EQ(one.loss, five.loss);
  EXPECT_EQ(one.empty_clusters, 0);
}

TEST(Hash, IsFnv1a) {
  EXPECT_EQ(fnv1a_hex("", 0), "cbf29ce484222325");
  EXPECT_EQ(fnv1a_hex("a", 1), "af63dc4c8601ec8c");
  EXPECT_EQ(fnv1a_hex("foobar", 6), "85944171f73967e8");
}

}  // namespace
}  // namespace kmeans
