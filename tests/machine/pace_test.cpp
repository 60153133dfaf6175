// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace kmeans {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// No computation takes that, so every moment is slow next to the first, and quiet next to the second.
constexpr double kImpossiblyFast = 1e-9;
constexpr double kImpossiblySlow = 1e3;

TEST(MeasurePace, IsTheTimeOfAComputationAndNotOfTheWait) {
  for (const int threads : {1, 2}) {
    const auto begin = std::chrono::steady_clock::now();
    const double pace = measure_pace(threads);
    const double all =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_GT(pace, 1e-6);  // half a million additions and products
    EXPECT_LT(pace, all);
  }
}

TEST(QuietMoments, WithoutAKnownPaceThereIsNothingToWaitFor) {
  QuietMoments moments(1, 0, 100);
  EXPECT_FALSE(moments.patient());
  EXPECT_THAT(moments.paces(), IsEmpty());
  moments.wait();
  moments.finish();
  EXPECT_THAT(moments.paces(), SizeIs(2));
  EXPECT_THAT(moments.paces(), Each(Gt(0)));
}

TEST(QuietMoments, TakeWhatIsFastEnoughAtOnce) {
  QuietMoments moments(1, kImpossiblySlow, 0.001);
  moments.wait();
  EXPECT_FALSE(moments.should_repeat(100));
  EXPECT_TRUE(moments.patient()) << "nothing was waited for";
  EXPECT_THAT(moments.paces(), SizeIs(2));
}

TEST(QuietMoments, EndTheirWaitingWhenPatienceEnds) {
  QuietMoments moments(1, kImpossiblyFast, 0.02);
  const auto begin = std::chrono::steady_clock::now();
  moments.wait();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_FALSE(moments.patient());
  EXPECT_FALSE(moments.should_repeat(1)) << "slow, but it has to do";
  EXPECT_THAT(moments.paces(), SizeIs(2));
}

TEST(QuietMoments, HaveAStepRepeatedForWhatThatCosts) {
  QuietMoments moments(1, kImpossiblyFast, 3600);
  EXPECT_TRUE(moments.should_repeat(10));
  EXPECT_THAT(moments.paces(), IsEmpty()) << "what is repeated does not count";
  EXPECT_TRUE(moments.should_repeat(3590));
  EXPECT_FALSE(moments.patient());
  EXPECT_FALSE(moments.should_repeat(10));
}

}  // namespace
}  // namespace kmeans
