// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/fit_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace kmeans {
namespace {

using testing::HasSubstr;

// Four points of a line, and two centroids that are the means of their halves.
class FitAnswer : public testing::Test {
 protected:
  FitJudgement judge() {
    const Shape shape{4, 1, 2, Precision::f32};
    return FitJudge(points_.data(), shape, 1).judge(claims_, centroids_.data(), labels_.data());
  }
  std::string failure() { return judge().certificate.failure(); }

  std::vector<float> points_{0, 2, 10, 14};
  std::vector<float> centroids_{1, 12};
  std::vector<std::int32_t> labels_{0, 0, 1, 1};
  FitClaims claims_{};

  void SetUp() override { claims_.traits.labels_of = LabelsOf::returned; }
};

TEST_F(FitAnswer, OfARightOneIsTheInertiaAndThatNothingIsLeft) {
  claims_.settled = true;
  const FitJudgement found = judge();
  EXPECT_TRUE(found.certificate.passed) << found.certificate.failure();
  EXPECT_EQ(found.inertia, 1 + 1 + 4 + 4);
  EXPECT_EQ(found.left, 0);
  EXPECT_EQ(found.empty_clusters, 0);
}

TEST_F(FitAnswer, ThatIsNotSettledHasSomethingLeft) {
  centroids_ = {0, 12};
  const FitJudgement found = judge();
  EXPECT_TRUE(found.certificate.passed) << found.certificate.failure();
  EXPECT_EQ(found.inertia, 0 + 4 + 4 + 4);
  EXPECT_DOUBLE_EQ(found.left, 1 - 10.0 / 12);
}

TEST_F(FitAnswer, ThatClaimsToBeSettledIsHeldToIt) {
  centroids_ = {0, 12};
  claims_.settled = true;
  EXPECT_THAT(failure(), HasSubstr("nothing changes any more"));
}

TEST_F(FitAnswer, WithALabelOfAnotherCentroidIsWrong) {
  labels_ = {0, 1, 1, 1};
  EXPECT_THAT(failure(), HasSubstr("first: point 1, label 1; the exact label is 0"));
}

TEST_F(FitAnswer, OfTheIterationBeforeIsTakenOnlyWhereItIsSaid) {
  // From centroids 0 and 5: the third point is nearer to the second, and the means are theirs.
  points_ = {0, 2, 4, 20};
  centroids_ = {1, 12};
  labels_ = {0, 0, 1, 1};
  EXPECT_THAT(failure(), HasSubstr("labels within rounding"));
  claims_.traits.labels_of = LabelsOf::starting;
  const FitJudgement found = judge();
  EXPECT_TRUE(found.certificate.passed) << found.certificate.failure();
  EXPECT_EQ(found.labels_of, LabelsOf::starting);
  EXPECT_EQ(found.inertia, 1 + 1 + 64 + 64);
  centroids_ = {1, 11};
  EXPECT_THAT(failure(), HasSubstr("centroids are the means of their points"));
}

TEST_F(FitAnswer, OutOfRangeOrNotFiniteIsWrongAndHasNoInertia) {
  labels_ = {0, 0, 2, -1};
  EXPECT_THAT(failure(), HasSubstr("2 of 4 labels are outside [0, 2)"));
  EXPECT_EQ(judge().inertia, 0);
  labels_ = {0, 0, 1, 1};
  centroids_[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(failure(), HasSubstr("coordinate 0 of centroid 1 is not finite"));
}

TEST_F(FitAnswer, OfSeveralProblemsIsTheirSumAndTheWorstOfThem) {
  const FitJudgement settled = judge();
  centroids_ = {0, 12};
  const FitJudgement moving = judge();
  const FitJudgement both = joined({settled, moving});
  EXPECT_TRUE(both.certificate.passed);
  EXPECT_EQ(both.inertia, 10 + 12);
  EXPECT_DOUBLE_EQ(both.left, 1 - 20.0 / 22);
  EXPECT_NE(both.centroid_hash, joined({moving, settled}).centroid_hash);
  EXPECT_EQ(joined({moving}).centroid_hash, moving.centroid_hash);
  labels_ = {0, 1, 1, 1};
  EXPECT_THAT(joined({settled, judge()}).certificate.failure(), HasSubstr("problem 1: "));
}

TEST_F(FitAnswer, OfManyPointsIsLookedAtWhole) {
  // More multiply-adds than the definition is asked for: the exact engine labels all points.
  constexpr std::int64_t kN = 300'000;
  constexpr std::int64_t kK = 700;
  std::vector<float> points(kN);
  std::vector<float> centroids(kK);
  std::vector<std::int32_t> labels(kN);
  for (std::int64_t j = 0; j < kK; ++j) centroids[j] = static_cast<float>(j);
  for (std::int64_t i = 0; i < kN; ++i) {
    labels[i] = static_cast<std::int32_t>(i % kK);
    points[i] = static_cast<float>(i % kK) + 0.25F;
  }
  FitJudge judge(points.data(), {kN, 1, kK, Precision::f32}, 2);
  EXPECT_TRUE(judge.judge(claims_, centroids.data(), labels.data()).certificate.passed);
  labels[123'457] = (labels[123'457] + 1) % kK;
  const FitJudgement found = judge.judge(claims_, centroids.data(), labels.data());
  EXPECT_THAT(found.certificate.failure(), HasSubstr("point 123457"));
}

}  // namespace
}  // namespace kmeans
