// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/record/measures.h"
#include "tests/compare/compared_files.h"

namespace kmeans::compare_tests {
namespace {

using ::testing::HasSubstr;

std::size_t count(const std::vector<TimeVerdict>& results, CellVerdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(),
                    [&](const TimeVerdict& one) { return one.verdict == verdict; }));
}

TEST(JudgeTimes, FlagsAlmostNothingBetweenEqualBuilds) {
  for (const double drift : {0.0, 0.02}) {
    for (const int processes : {3, 4, 8, 12}) {
      Machine machine(7);
      std::size_t flagged = 0;
      constexpr std::size_t kComparisons = 15;
      constexpr std::size_t kCells = 200;
      for (std::size_t i = 0; i < kComparisons; ++i) {
        std::vector<TimePair> pairs(kCells);
        for (auto& pair : pairs) {
          pair.base = machine.measure(0.01, processes);
          pair.changed = machine.measure(0.01 * (1 + drift), processes);
        }
        const auto results = judge_times(pairs, {});
        flagged += count(results, CellVerdict::slower) + count(results, CellVerdict::faster);
      }
      EXPECT_LE(static_cast<double>(flagged), 0.01 * kComparisons * kCells)
          << processes << " processes, drift " << drift;
    }
  }
}

TEST(JudgeTimes, FindsTenPercentWithTenProcesses) {
  Machine machine(3);
  std::vector<TimePair> pairs(1000);
  for (auto& pair : pairs) {
    pair.base = machine.measure(0.01, 10);
    pair.changed = machine.measure(0.011, 10);
  }
  EXPECT_GE(count(judge_times(pairs, {}), CellVerdict::slower), 950U);
}

TEST(JudgeTimes, FindsOneSlowCellAmongManyEqualOnes) {
  Machine machine(4);
  int found = 0;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<TimePair> pairs(200);
    for (auto& pair : pairs) {
      pair.base = machine.measure(0.01, 16);
      pair.changed = machine.measure(&pair == &pairs[17] ? 0.0115 : 0.01, 16);
    }
    found += judge_times(pairs, {})[17].verdict == CellVerdict::slower ? 1 : 0;
  }
  EXPECT_GE(found, 18);
}

/// Cells whose pairs are slowed by up to eight times, both processes alike.
std::vector<TimePair> slowed_in_pairs(double slowdown, bool in_turns, std::size_t cells) {
  std::mt19937 random(8);
  std::vector<TimePair> pairs(cells);
  for (auto& pair : pairs) {
    pair.in_turns = in_turns;
    for (int process = 0; process < 14; ++process) {
      const double neighbour = std::exp2((random() % 1000) * 0.003);
      const auto own = [&] { return 0.01 * neighbour * (1 + (random() % 1000) * 4e-5); };
      pair.base.push_back({own()});
      pair.changed.push_back({slowdown * own()});
    }
  }
  return pairs;
}

TEST(JudgeTimes, SeesThroughWhatMeetsBothOfAPair) {
  EXPECT_EQ(count(judge_times(slowed_in_pairs(1.1, true, 50), {}), CellVerdict::slower), 50U);
  EXPECT_LE(count(judge_times(slowed_in_pairs(1.1, false, 50), {}), CellVerdict::slower), 2U)
      << "without pairs nothing of it can be seen";
  EXPECT_EQ(count(judge_times(slowed_in_pairs(1, true, 50), {}), CellVerdict::same), 50U);
}

TEST(JudgeTimes, InTurnsAFewFarProcessesAreNotAVerdict) {
  TimePair pair{{{1}, {1.01}, {1.02}}, {{3}, {3.01}, {3.02}}};
  EXPECT_EQ(judge_times({pair}, {})[0].verdict, CellVerdict::slower);
  pair.in_turns = true;
  EXPECT_EQ(judge_times({pair}, {})[0].verdict, CellVerdict::unclear)
      << "a neighbour gives such a gap to three processes, and more are to be had";
}

TEST(JudgeTimes, AnOddProcessHasNoPartner) {
  auto pairs = slowed_in_pairs(1.1, true, 1);
  pairs[0].base.push_back({0.05});
  EXPECT_EQ(judge_times(pairs, {})[0].verdict, CellVerdict::slower);
}

TimePair steady(double base, double changed, int processes) {
  TimePair pair;
  for (int p = 0; p < processes; ++p) {
    pair.base.push_back({base * (1 + 0.001 * p), base * (1.0005 + 0.001 * p)});
    pair.changed.push_back({changed * (1 + 0.001 * p), changed * (1.0005 + 0.001 * p)});
  }
  return pair;
}

TEST(JudgeTimes, GivesRatioAndIntervalNewOverBase) {
  const auto result = judged(steady(0.010, 0.011, 6));
  EXPECT_EQ(result.verdict, CellVerdict::slower);
  EXPECT_NEAR(result.ratio, 1.1, 1e-9);
  ASSERT_TRUE(result.low.has_value());
  EXPECT_GT(*result.low, 1.09);
  EXPECT_LT(*result.high, 1.11);
  EXPECT_NEAR(result.p, 2.0 / 924, 1e-12);
  EXPECT_THAT(result.why, HasSubstr("takes 1.1 times as long"));
  EXPECT_EQ(judged(steady(0.011, 0.010, 6)).verdict, CellVerdict::faster);
  EXPECT_THAT(judged(steady(0.011, 0.010, 6)).why, HasSubstr("1.1 times as fast"));
}

TEST(JudgeTimes, CallsEqualOnlyWhatTheIntervalShows) {
  EXPECT_EQ(judged(steady(0.010, 0.0101, 6)).verdict, CellVerdict::same);
  EXPECT_EQ(judged(steady(0.010, 0.0101, 3)).verdict, CellVerdict::unclear) << "no interval";
}

TEST(JudgeTimes, WantsTheEffectAsWell) {
  CompareSettings settings;
  settings.effect = 0.15;
  EXPECT_EQ(judged(steady(0.010, 0.011, 6), settings).verdict, CellVerdict::same);
  settings.effect = 0.01;
  EXPECT_EQ(judged(steady(0.010, 0.0103, 6), settings).verdict, CellVerdict::slower);
}

TEST(JudgeTimes, WithThreeProcessesSeesOnlyAWideGap) {
  const auto small = judged(steady(0.010, 0.012, 3));
  EXPECT_EQ(small.verdict, CellVerdict::unclear);
  EXPECT_FALSE(small.low.has_value());
  EXPECT_FALSE(small.p_adjusted.has_value());
  EXPECT_THAT(small.why, HasSubstr("p cannot be below 0.1 with 3 and 3 processes"));

  const auto large = judged(steady(0.010, 0.020, 3));
  EXPECT_EQ(large.verdict, CellVerdict::slower);
  EXPECT_THAT(large.why, HasSubstr("times apart"));
  EXPECT_EQ(judged(steady(0.020, 0.010, 2)).verdict, CellVerdict::faster);

  const auto alone = judged(steady(0.010, 0.100, 1));
  EXPECT_EQ(alone.verdict, CellVerdict::unclear);
  EXPECT_THAT(alone.why, HasSubstr("one process"));
}

TEST(JudgeTimes, DoesNotLetHopelessCellsBluntTheOthers) {
  // 300 cells of 3 processes can never be significant; one of 4 can, alone.
  std::vector<TimePair> pairs(300, steady(0.01, 0.01, 3));
  pairs.push_back(steady(0.010, 0.012, 4));
  const auto results = judge_times(pairs, {});
  EXPECT_EQ(results.back().verdict, CellVerdict::slower);
  EXPECT_NEAR(results.back().p_adjusted.value(), 2.0 / 70, 1e-12);
}

TEST(JudgeTimes, SaysHowManyProcessesWouldDo) {
  std::vector<TimePair> pairs(200, steady(0.01, 0.01, 5));
  pairs[0] = steady(0.010, 0.011, 5);
  EXPECT_THAT(judge_times(pairs, {})[0].why, HasSubstr("8 processes a side can show it alone"));
}

TEST(JudgeTimes, CountsProcessesAndNotRepetitions) {
  // A thousand repetitions in two processes are two.
  TimePair pair;
  pair.base.assign(2, std::vector<double>(1000, 0.010));
  pair.changed.assign(2, std::vector<double>(1000, 0.012));
  EXPECT_EQ(judged(pair).verdict, CellVerdict::unclear);
}

}  // namespace
}  // namespace kmeans::compare_tests
