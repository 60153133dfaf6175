// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/interleave.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace kmeans {
namespace {

/// Pairs of processes on a machine with a neighbour: bursts and pauses longer than a process, so
/// both of a pair are mostly disturbed alike, at times only one.
class SharedMachine {
 public:
  explicit SharedMachine(std::uint32_t seed) : random_(seed) {}

  void measure_pair(double slowdown, TimePair& pair) {
    const bool base_first = random_() % 2 == 0;
    const double first = process(base_first ? 1 : slowdown);
    const double second = process(base_first ? slowdown : 1);
    pair.base.push_back({base_first ? first : second});
    pair.changed.push_back({base_first ? second : first});
  }

 private:
  double process(double seconds) {
    if (random_() % 8 == 0) disturbed_ = !disturbed_;
    const double own = seconds * std::exp(0.02 * normal_(random_));
    return disturbed_ ? own * (1.2 + 0.6 * uniform_(random_)) : own;
  }

  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  bool disturbed_ = false;
};

struct Ending {
  std::size_t different = 0;  ///< Cells called slower or faster at the end.
  std::size_t rounds = 0;     ///< Of all cells together.
};

/// What `compare --run` does until `rounds` are over; without looks, all cells get all rounds.
Ending compare_in_turns(const std::vector<double>& slowdowns, int rounds, bool look, double effect,
                        std::uint32_t seed) {
  CompareSettings settings;
  settings.effect = effect;
  SharedMachine machine(seed);
  std::vector<TimePair> pairs(slowdowns.size());
  for (auto& pair : pairs) pair.in_turns = true;
  std::vector<Looks> looks(pairs.size());
  std::vector<char> decided(pairs.size(), 0);
  Ending ending;
  int wanted = next_look();
  for (int round = 1; round <= rounds; ++round) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (decided[i] != 0) continue;
      machine.measure_pair(slowdowns[i], pairs[i]);
      ++ending.rounds;
    }
    if (!look || round < wanted) continue;
    const auto verdicts = judge_times(pairs, settings);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      decided[i] = looks[i].decide(verdicts[i], settings) ? 1 : 0;
    }
    wanted = next_look(wanted);
  }
  for (const auto& verdict : judge_times(pairs, settings)) {
    if (verdict.verdict == CellVerdict::slower || verdict.verdict == CellVerdict::faster) {
      ++ending.different;
    }
  }
  return ending;
}

TEST(Looks, GrowRarer) {
  std::vector<int> rounds;
  for (int round = next_look(); round < 60; round = next_look(round)) rounds.push_back(round);
  EXPECT_EQ(rounds, (std::vector<int>{5, 7, 9, 12, 16, 22, 30, 42, 58}));
}

TEST(Looks, BelieveASlowdownThatIsThereTwice) {
  const CompareSettings settings;
  TimeVerdict slow;
  slow.verdict = CellVerdict::slower;
  slow.p_adjusted = 0.01;
  slow.low = 1.06;
  slow.high = 1.12;
  TimeVerdict open = slow;
  open.low = 1.02;
  TimeVerdict uncorrected = slow;  // one cell's interval, which no test of all cells confirms
  uncorrected.verdict = CellVerdict::unclear;
  TimeVerdict hardly = slow;  // enough at the end, not to end
  hardly.p_adjusted = 0.04;
  Looks looks;
  EXPECT_FALSE(looks.decide(slow, settings));
  EXPECT_FALSE(looks.decide(open, settings));
  EXPECT_FALSE(looks.decide(slow, settings));
  EXPECT_FALSE(looks.decide(uncorrected, settings));
  EXPECT_FALSE(looks.decide(slow, settings));
  EXPECT_FALSE(looks.decide(hardly, settings));
  EXPECT_FALSE(looks.decide(slow, settings));
  EXPECT_TRUE(looks.decide(slow, settings));
  TimeVerdict inside;
  inside.low = 0.9;
  inside.high = 1.04;
  EXPECT_TRUE(Looks().decide(inside, settings));
}

/// In how many of so many comparisons of equal builds a cell is called different at the end.
int false_findings(std::size_t cells, int comparisons, double effect) {
  int found = 0;
  for (int i = 0; i < comparisons; ++i) {
    const std::vector<double> equal(cells, 1.0);
    const auto seed = static_cast<std::uint32_t>(1000 + i);
    found += compare_in_turns(equal, 42, true, effect, seed).different > 0 ? 1 : 0;
  }
  return found;
}

TEST(Looks, CallFewEqualCellsDifferent) {
  // Eight looks until round 42, and yet no more than the nominal 5 % of comparisons: at the default
  // effect, and at one so small that only chance ends a cell early.
  EXPECT_LE(false_findings(1, 400, 0.05), 20);
  EXPECT_LE(false_findings(1, 400, 0.001), 20);
  EXPECT_LE(false_findings(20, 20, 0.05), 1);
}

TEST(Looks, FindASharedSlowdownAndSaveRounds) {
  const std::vector<double> slower(20, 1.1);
  const auto ending = compare_in_turns(slower, 42, true, 0.05, 1);
  EXPECT_GE(ending.different, 18U);
  const std::vector<double> equal(20, 1.0);
  EXPECT_LT(compare_in_turns(equal, 42, true, 0.05, 1).rounds, 20U * 42U * 3 / 4);
}

}  // namespace
}  // namespace kmeans
