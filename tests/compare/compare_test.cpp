// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "harness/record/measures.h"
#include "harness/run/results.h"
#include "harness/support/errors.h"
#include "tests/support/result_cell.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// --- Verdicts on synthetic times ---

/// Times of a cell as machines give them: processes differ more than the repetitions of one, and
/// now and then a process is disturbed.
class Machine {
 public:
  explicit Machine(std::uint32_t seed) : random_(seed) {}

  std::vector<std::vector<double>> measure(double seconds, int processes) {
    std::vector<std::vector<double>> samples;
    for (int p = 0; p < processes; ++p) {
      double own = seconds * std::exp(0.02 * normal());
      if (random_() % 12 == 0) own *= 1 + 0.3 * uniform();
      std::vector<double> repetitions(3);
      for (double& value : repetitions) {
        value = own * std::exp(0.008 * normal());
        if (random_() % 20 == 0) value *= 1 + uniform();
      }
      samples.push_back(std::move(repetitions));
    }
    return samples;
  }

 private:
  double uniform() { return (random_() + 0.5) / 4294967296.0; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  std::mt19937 random_;
};

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

TimeVerdict judged(const TimePair& pair, const CompareSettings& settings = {}) {
  return judge_times({pair}, settings).front();
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

// --- Whole files ---

json cell(const std::string& variant, double seconds, int processes = 6, int threads = 1) {
  std::vector<std::vector<double>> samples;
  for (int p = 0; p < processes; ++p) {
    samples.push_back({seconds * (1 + 0.001 * p), seconds * (1.0005 + 0.001 * p)});
  }
  const bool exact = variant == "reference" || variant == "openmp_exact";
  return timed_cell(variant, "cpu", "blobs", 100, 2, 4, exact, threads, samples);
}

void fail_cell(json& one, const char* status, const char* reason) {
  one["status"] = status;
  one["reason"] = reason;
  one["samples_seconds_per_iteration"] = json::array();
  for (const char* key : {"seconds_per_iteration", "gflops", "inertia", "label_hash",
                          "centroid_hash", "empty_clusters"}) {
    one[key] = nullptr;
  }
}

json result(const std::vector<json>& cells) { return result_file_of(cells); }

Comparison compared(const json& base, const json& changed, const CompareSettings& settings = {}) {
  return compare_results({parse_result_file(base.dump(), "base.json")}, "results/a",
                         {parse_result_file(changed.dump(), "new.json")}, "results/b", settings);
}

TEST(CompareResults, OfOneFileWithItselfAreTheSame) {
  const json file = result({cell("cpu_naive", 0.01), cell("reference", 0.02)});
  const auto comparison = compared(file, file);
  EXPECT_EQ(comparison.count(CellVerdict::same), 2U);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::passed);
  EXPECT_THAT(comparison.differences, IsEmpty());
  EXPECT_THAT(to_text(comparison, false), HasSubstr("Gate: passed"));
  EXPECT_THAT(to_text(comparison, false), Not(HasSubstr("cpu_naive"))) << "quiet about the same";
  EXPECT_THAT(to_text(comparison, true), HasSubstr("cpu_naive"));
}

TEST(CompareResults, OrdersTheWorstFirst) {
  const json base = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01), cell("cpu_c", 0.01),
                            cell("cpu_d", 0.01), cell("cpu_e", 0.01, 1)});
  const json changed = result({cell("cpu_a", 0.01), cell("cpu_b", 0.008), cell("cpu_c", 0.011),
                               cell("cpu_d", 0.013), cell("cpu_e", 0.02, 1)});
  const auto comparison = compared(base, changed);
  std::vector<std::string> order;
  for (const auto& one : comparison.cells) order.push_back(one.key.variant);
  EXPECT_THAT(order, ElementsAre("cpu_d", "cpu_c", "cpu_b", "cpu_e", "cpu_a"));
  EXPECT_NE(comparison.gate.outcome, GateOutcome::passed);
  EXPECT_THAT(comparison.gate.reasons, ElementsAre("2 cells are slower"));
}

TEST(CompareResults, LetsImprovementsPass) {
  const auto comparison = compared(result({cell("cpu_a", 0.01)}), result({cell("cpu_a", 0.005)}));
  EXPECT_EQ(comparison.count(CellVerdict::faster), 1U);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::passed);
}

TEST(CompareResults, MayTakeAChangedClockOutOfTheTimes) {
  // Everything took 1.2 times as long, a fixed computation too; and one cell 1.1 times more.
  json base =
      result({cell("cpu_a", 0.01), cell("cpu_b", 0.01), cell("cpu_c", 0.01), cell("cuda_d", 0.01)});
  json changed = result(
      {cell("cpu_a", 0.012), cell("cpu_b", 0.0132), cell("cpu_c", 0.012), cell("cuda_d", 0.012)});
  for (json* side : {&base, &changed}) (*side)["cells"][3]["gpu"] = {{"name", "NVIDIA H200"}};
  for (std::size_t i :
       {0, 1, 3}) {  // nothing is known of cpu_c's pace, and a GPU has its own clock
    base["cells"][i]["pace"] = {
        {"best_seconds", 1e-4}, {"ratios", std::vector<double>(6, 1.0)}, {"retries", 0}};
    changed["cells"][i]["pace"] = {
        {"best_seconds", 1e-4}, {"ratios", std::vector<double>(6, 1.2)}, {"retries", 0}};
  }
  EXPECT_EQ(compared(base, changed).count(CellVerdict::slower), 4U);
  CompareSettings settings;
  settings.steady_clock = true;
  const auto comparison = compared(base, changed, settings);
  for (const auto& one : comparison.cells) {
    if (one.key.variant == "cpu_a") {
      EXPECT_EQ(one.verdict, CellVerdict::same) << one.why;
      EXPECT_NEAR(one.times->ratio, 1, 1e-12);
      EXPECT_NEAR(*one.changed.seconds, *one.base.seconds, 1e-12);
    } else {
      EXPECT_EQ(one.verdict, CellVerdict::slower) << one.why;
      EXPECT_NEAR(one.times->ratio, one.key.variant == "cpu_b" ? 1.1 : 1.2, 1e-9);
    }
  }
  EXPECT_THAT(comparison.differences,
              Contains("times are relative to a fixed computation next to them, as asked for, in 2 "
                       "cells of 4"));
  EXPECT_EQ(to_json(comparison).at("settings").at("steady_clock"), true);
}

TEST(CompareResults, TakesNoMoreThanAClockOutOfTheTimes) {
  // One process was stopped next to its timed part, for 25 times the fixed computation.
  json base = result({cell("cpu_a", 0.01)});
  json changed = result({cell("cpu_a", 0.01)});
  for (json* side : {&base, &changed}) {
    (*side)["cells"][0]["pace"] = {
        {"best_seconds", 1e-4}, {"ratios", std::vector<double>(6, 1.0)}, {"retries", 0}};
  }
  changed["cells"][0]["pace"]["ratios"][2] = 25;
  CompareSettings settings;
  settings.steady_clock = true;
  const auto comparison = compared(base, changed, settings);
  const auto plain = compared(base, changed);
  ASSERT_TRUE(comparison.cells[0].times && plain.cells[0].times);
  EXPECT_NEAR(comparison.cells[0].times->ratio, 1, 0.01);
  // The six processes differ by less than 1 %; a sixth of the time would be 0.17.
  EXPECT_GT(*comparison.cells[0].times->low, 0.49);
}

TEST(CompareResults, NameWhatIsBrokenOnBothSides) {
  json base = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01), cell("cpu_c", 0.01)});
  json changed = base;
  fail_cell(base["cells"][0], "wrong", "a label");
  fail_cell(changed["cells"][0], "wrong", "two labels");
  fail_cell(base["cells"][1], "wrong", "as printed");
  base["cells"][1]["wrong_because"] = "the second launch reads the wrong sums";
  changed["cells"][1] = base["cells"][1];
  const auto comparison = compared(base, changed);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::passed);
  EXPECT_THAT(comparison.gate.notes,
              ElementsAre("1 cell is wrong or failed on both sides, which is not a regression"));
  for (const auto& text :
       {to_text(comparison, false), to_markdown(comparison, false, 10'000, "")}) {
    EXPECT_THAT(text, HasSubstr("Wrong or failed on both sides"));
    EXPECT_THAT(text, HasSubstr("two labels"));
    EXPECT_THAT(text, Not(HasSubstr("as printed"))) << "known to be wrong";
  }
}

TEST(CompareResults, TellMissingTracesFromMissingCells) {
  json base = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)});
  base["traces"] = json::array({{{"name", "path"}, {"status", "ok"}}});
  const auto comparison = compared(base, result({cell("cpu_a", 0.01)}));
  EXPECT_THAT(comparison.gate.reasons,
              ElementsAre("1 cell and 1 trace or study of base are missing or not comparable"));
  base["cells"].erase(1);
  base["planned_cells"] = 1;
  EXPECT_THAT(compared(base, result({cell("cpu_a", 0.01)})).gate.reasons,
              ElementsAre("1 trace or study of base is missing or not comparable"));
}

TEST(CompareResults, SayWhoseADifferenceIsUnlessAllHaveIt) {
  const auto file = [](const char* experiment, const char* compiler, const char* variable) {
    json one = result({cell("cpu_a", 0.01)});
    one["experiment"] = experiment;
    one["spec"]["name"] = experiment;
    for (json& each : one["cells"]) each["experiment"] = experiment;
    one["context"]["suite"]["compiler"] = compiler;
    if (*variable != 0) one["context"]["environment"]["variables"]["OMP_PROC_BIND"] = variable;
    return parse_result_file(one.dump(), std::string(experiment) + ".json");
  };
  const auto comparison =
      compare_results({file("a", "GNU 12", ""), file("b", "GNU 12", "")}, "base",
                      {file("a", "GNU 13", ""), file("b", "GNU 13", "close")}, "new", {});
  EXPECT_THAT(comparison.differences,
              ElementsAre(R"(compiler: "GNU 12" in base, "GNU 13" in new)",
                          R"(b: environment OMP_PROC_BIND: nothing in base, "close" in new)"));
}

TEST(CompareResults, SayWhichSideIsInDoubt) {
  json base = result({cell("cpu_a", 0.01)});
  json changed = result({cell("cpu_a", 0.02)});
  base["cells"][0]["noted"] = {"load", "heat"};
  changed["cells"][0]["noted"] = {"load"};
  EXPECT_THAT(to_markdown(compared(base, changed), false, 10'000, ""),
              HasSubstr("noted: base: load; heat; new: load"));
}

// --- The gate's three outcomes ---

constexpr const char* kDisagree = "its processes disagree: 3 processes near 9 ms, 3 near 12 ms";

/// New against base, of one cell with 6 processes, whose measurement somebody doubts.
Comparison doubted(double factor, const char* sentence, bool turns = false) {
  json base = result({cell("cpu_a", 0.01)});
  json changed = result({cell("cpu_a", 0.01 * factor)});
  changed["cells"][0][std::string_view(sentence) == kDisagree ? "unsteady" : "noted"] = {sentence};
  if (turns) {
    // The slowest process of the one next to the fastest of the other: pairs differ as cells do.
    json& samples = changed["cells"][0]["samples_seconds_per_iteration"];
    std::reverse(samples.begin(), samples.end());
    for (json* file : {&base, &changed}) {
      (*file)["context"]["turns"] = "0123456789abcdef";
    }
  }
  return compared(base, changed);
}

TEST(CompareGate, DoesNotPassASlowerCellForItsDoubts) {
  for (const char* sentence : {"the GPU was throttled", kDisagree}) {
    const auto comparison = doubted(1.4, sentence);
    EXPECT_EQ(comparison.count(CellVerdict::slower), 1U);
    EXPECT_EQ(comparison.gate.outcome, GateOutcome::undecided);
    EXPECT_EQ(comparison.cells[0].outcome, GateOutcome::undecided);
    EXPECT_THAT(comparison.gate.undecided,
                ElementsAre("1 cell is slower by a doubtful measurement: "
                            "cpu_a/f32/blobs/k4/T5/t1"));
    EXPECT_THAT(to_text(comparison, false), HasSubstr("Gate: undecided: 1 cell is slower"));
    EXPECT_THAT(to_markdown(comparison, false, 10'000, ""), HasSubstr("gate undecided"));
    EXPECT_EQ(to_json(comparison).at("gate").at("outcome"), "undecided");
  }
}

TEST(CompareGate, TakesNoSpreadAsAnExcuseWhereAllProcessesAreFarSlower) {
  EXPECT_EQ(doubted(1.6, kDisagree).gate.outcome, GateOutcome::failed);
  EXPECT_EQ(doubted(1e3, "the GPU was throttled").gate.outcome, GateOutcome::failed);
}

TEST(CompareGate, BlamesNoConditionThatMetBothSidesInTurns) {
  EXPECT_EQ(doubted(1.2, "the machine was busy").gate.outcome, GateOutcome::undecided);
  EXPECT_EQ(doubted(1.2, "the machine was busy", true).gate.outcome, GateOutcome::failed);
  EXPECT_EQ(doubted(1.2, kDisagree).gate.outcome, GateOutcome::undecided);
  EXPECT_EQ(doubted(1.2, kDisagree, true).gate.outcome, GateOutcome::failed) << "1.19 to 1.21";
  EXPECT_EQ(doubted(1.052, kDisagree, true).gate.outcome, GateOutcome::undecided)
      << "an interval from below 1.05 is not evidence where processes disagree";
}

TEST(CompareGate, PassesOnlyWhatIsShown) {
  const auto outcome = [](double factor, int processes) {
    return compared(result({cell("cpu_a", 0.01, processes)}),
                    result({cell("cpu_a", 0.01 * factor, processes)}))
        .gate.outcome;
  };
  EXPECT_EQ(outcome(1, 6), GateOutcome::passed);
  EXPECT_EQ(outcome(0.5, 6), GateOutcome::passed) << "improvements pass";
  EXPECT_EQ(outcome(1, 3), GateOutcome::undecided) << "one cell of 3 processes has no interval";
  EXPECT_EQ(outcome(1.2, 3), GateOutcome::undecided);
  EXPECT_EQ(outcome(2, 3), GateOutcome::failed);
}

TEST(CompareGate, IsUndecidedWithoutAnyTime) {
  json file = result({cell("cpu_a", 0.01)});
  fail_cell(file["cells"][0], "skipped", "no GPU");
  const auto comparison = compared(file, file);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::undecided);
  EXPECT_THAT(comparison.gate.undecided, ElementsAre("no cell has a time on both sides"));
}

/// Cells of a few variants on a machine whose processes differ by `spread`.
json measured(Machine& machine, int variants, int cells, int processes, double slow_factor) {
  std::vector<json> list;
  for (int v = 0; v < variants; ++v) {
    for (int c = 0; c < cells; ++c) {
      json one = cell("cpu_" + std::to_string(v), 0.01);
      one["key"] = "cpu_" + std::to_string(v) + "/f32/blobs/k4/T5/t" + std::to_string(c + 1);
      one["threads"] = c + 1;
      const auto samples = machine.measure(v == 0 ? 0.01 * slow_factor : 0.01, processes);
      one["samples_seconds_per_iteration"] = samples;
      one["seconds_per_iteration"] = summarise_processes(samples);
      list.push_back(std::move(one));
    }
  }
  return result(list);
}

TEST(CompareGate, FindsTenPercentThatAVariantsCellsShareInThreeProcesses) {
  Machine machine(21);
  constexpr int kTrials = 40;
  int failed = 0;
  int named = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto comparison =
        compared(measured(machine, 4, 6, 3, 1), measured(machine, 4, 6, 3, 1.10));
    failed += comparison.gate.outcome == GateOutcome::failed ? 1 : 0;
    const auto& group = comparison.groups.front();
    named += group.variant == "cpu_0" && group.verdict == CellVerdict::slower ? 1 : 0;
    EXPECT_NE(comparison.gate.outcome, GateOutcome::passed) << trial;
  }
  EXPECT_GE(failed, 0.95 * kTrials);
  EXPECT_GE(named, 0.95 * kTrials);
}

TEST(CompareGate, FailsEqualBuildsSeldomAndPassesManyOfThem) {
  Machine machine(22);
  constexpr int kTrials = 100;
  int failed = 0;
  int passed_with_many = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto comparison = compared(measured(machine, 4, 6, 3, 1), measured(machine, 4, 6, 3, 1));
    failed += comparison.gate.outcome == GateOutcome::failed ? 1 : 0;
    const auto many = compared(measured(machine, 2, 3, 12, 1), measured(machine, 2, 3, 12, 1));
    failed += many.gate.outcome == GateOutcome::failed ? 1 : 0;
    passed_with_many += many.gate.outcome == GateOutcome::passed ? 1 : 0;
  }
  // 5 % of the findings may be false; what has to be beyond the effect as well is found more
  // seldom.
  EXPECT_LE(failed, 0.02 * 2 * kTrials);
  EXPECT_GE(passed_with_many, 0.7 * kTrials);
}

TEST(CompareGate, SeldomPassesOneSlowCellAmongEqualOnes) {
  // 10 % in one cell of 24 is more than three processes show: undecided, and hardly ever passed.
  Machine machine(23);
  constexpr int kTrials = 100;
  int passed = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const json base = measured(machine, 4, 6, 3, 1);
    json changed = measured(machine, 4, 6, 3, 1);
    changed["cells"][20] = measured(machine, 1, 1, 3, 1.10)["cells"][0];
    for (const char* key : {"key", "variant", "threads"}) {
      changed["cells"][20][key] = base["cells"][20][key];
    }
    passed += compared(base, changed).gate.outcome == GateOutcome::passed ? 1 : 0;
  }
  EXPECT_LE(passed, 0.05 * kTrials);
}

TEST(CompareGate, SaysWhatItCouldHaveSeen) {
  const auto comparison = compared(result({cell("cpu_a", 0.01, 3), cell("cpu_b", 0.01, 3)}),
                                   result({cell("cpu_a", 0.01, 3), cell("cpu_b", 0.01, 3)}));
  // Three processes reject nothing alone: a gap of 1.5 times, and the spread of 0.25 % besides.
  ASSERT_TRUE(comparison.cells[0].times->sees.has_value());
  EXPECT_NEAR(*comparison.cells[0].times->sees, 0.5 * 1.0025 + 0.0025, 0.002);
  ASSERT_EQ(comparison.groups.size(), 1U);
  EXPECT_NEAR(comparison.groups[0].sees.value(), 0.05, 1e-12) << "the effect is the least";
  EXPECT_THAT(to_text(comparison, false),
              HasSubstr("This pair sees a slowdown from 50 % on in one cell alone"));
  EXPECT_THAT(to_text(comparison, false), HasSubstr("from 5 % on in all cells"));
  EXPECT_THAT(to_markdown(comparison, false, 10'000, ""), HasSubstr("This pair sees a slowdown"));
  EXPECT_EQ(to_json(comparison).at("sees"), sees_line(comparison));
}

TEST(CompareGate, SeesWhatItSaysItWouldHaveSeen) {
  // New made slower by what it says finds the cell; by less than that does not.
  Machine machine(24);
  for (const int processes : {3, 6, 12}) {
    TimePair pair{machine.measure(0.01, processes), machine.measure(0.01, processes)};
    const auto as_it_is = judged(pair);
    ASSERT_TRUE(as_it_is.sees.has_value());
    const auto slower_by = [&](double share) {
      TimePair moved = pair;
      for (auto& process : moved.changed) {
        for (double& sample : process) sample *= (1 + share) / as_it_is.ratio;
      }
      return judged(moved).verdict;
    };
    EXPECT_EQ(slower_by(*as_it_is.sees * 1.001), CellVerdict::slower) << processes;
    EXPECT_NE(slower_by(*as_it_is.sees * 0.98), CellVerdict::slower) << processes;
  }
}

TEST(CompareGate, FailsWhereAnAnswerIsMissing) {
  const json base = result({cell("reference", 0.01)});
  for (const char* key : {"label_hash", "centroid_hash", "empty_clusters"}) {
    json changed = base;
    changed["cells"][0][key] = nullptr;
    const auto comparison = compared(base, changed);
    EXPECT_EQ(comparison.gate.outcome, GateOutcome::failed) << key;
    EXPECT_EQ(comparison.correctness_regressions(), 1U) << key;
  }
  json unchecked = base;
  unchecked["cells"][0]["verification"]["checks"] =
      json::array({{{"name", "labels"}, {"passed", false}}});
  EXPECT_THAT(compared(base, unchecked).cells[0].correctness,
              Contains("called verified although a check did not pass: labels"));
  EXPECT_EQ(compared(base, unchecked).gate.outcome, GateOutcome::failed);
  json without_data = base;
  without_data["context"]["datasets"] = json::object();
  const auto comparison = compared(base, without_data);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::failed);
  ASSERT_EQ(comparison.missing.size(), 1U);
  EXPECT_THAT(comparison.missing[0].reason, HasSubstr("not on record in new"));
}

TEST(CompareGate, FailsWhereATracesLabelsAreMissing) {
  json base = result({cell("reference", 0.01)});
  base["traces"] = json::array({{{"name", "t"},
                                 {"variant", "reference"},
                                 {"status", "ok"},
                                 {"reason", nullptr},
                                 {"iterations", json::array({1, 2})},
                                 {"label_hash", "0123456789abcdef"}}});
  json changed = base;
  changed["traces"][0]["label_hash"] = nullptr;
  const auto comparison = compared(base, changed);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::failed);
  ASSERT_EQ(comparison.records.size(), 1U);
  EXPECT_THAT(comparison.records[0].correctness, ElementsAre("the hash of its labels is missing"));
}

TEST(CompareResults, MatchTheSameFileAtAnotherPlace) {
  const auto from = [](const std::string& label, const std::string& path, const char* hash) {
    json one = cell("cpu_a", 0.01);
    one["dataset"] = label;
    one["key"] = "cpu_a/f32/" + label + "/k4/T5/t1";
    json file = result({one});
    file["context"]["datasets"] = {{label,
                                    {{"spec", {{"file", path}, {"n", 0}}},
                                     {"scalar", "f32"},
                                     {"sha256", hash},
                                     {"n", 100},
                                     {"d", 2}}}};
    return file;
  };
  const json base = from("x-aaaaaa", "/a/x.npy", "1111111111111111");
  const auto moved = compared(base, from("x-bbbbbb", "/b/x.npy", "1111111111111111"));
  ASSERT_EQ(moved.cells.size(), 1U);
  EXPECT_EQ(moved.cells[0].new_key.text(), "cpu_a/f32/x-bbbbbb/k4/T5/t1");
  EXPECT_THAT(moved.missing, IsEmpty());
  EXPECT_THAT(to_text(moved, true), HasSubstr("x-aaaaaa/k4/T5/t1 (new: x-bbbbbb)"));
  const auto other = compared(base, from("x-bbbbbb", "/b/x.npy", "2222222222222222"));
  EXPECT_THAT(other.cells, IsEmpty());
  EXPECT_EQ(other.missing.size(), 1U);
}

struct AnswerCase {
  const char* name;
  const char* variant;
  std::function<void(json&)> change;
  bool regression;
  const char* says;
};

class ChangedAnswer : public ::testing::TestWithParam<AnswerCase> {};

TEST_P(ChangedAnswer, IsToldFirstAndFailsTheGateWhereItIsWrong) {
  const json base = result({cell(GetParam().variant, 0.01)});
  json changed = base;
  GetParam().change(changed["cells"][0]);
  const auto comparison = compared(base, changed);
  ASSERT_EQ(comparison.cells.size(), 1U);
  ASSERT_FALSE(comparison.cells[0].correctness.empty());
  EXPECT_THAT(comparison.cells[0].correctness[0], HasSubstr(GetParam().says));
  EXPECT_EQ(comparison.cells[0].correctness_regression, GetParam().regression);
  EXPECT_EQ(comparison.gate.outcome == GateOutcome::passed, !GetParam().regression);
  const std::string text = to_text(comparison, false);
  EXPECT_LT(text.find("Answers that changed"), text.find("cells timed on both sides"));
  EXPECT_THAT(text, HasSubstr(GetParam().regression ? "REGRESSION" : "news"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ChangedAnswer,
    ::testing::Values(
        AnswerCase{"Wrong", "cpu_naive", [](json& c) { fail_cell(c, "wrong", "a label"); }, true,
                   "was ok, is wrong: a label"},
        AnswerCase{"Error", "cpu_naive", [](json& c) { fail_cell(c, "error", "killed"); }, true,
                   "was ok, is error: killed"},
        AnswerCase{"ExactLabels", "reference",
                   [](json& c) { c["label_hash"] = "0000000000000000"; }, true, "of an exact"},
        AnswerCase{"ExactCentroids", "openmp_exact",
                   [](json& c) { c["centroid_hash"] = "0000000000000000"; }, true, "of an exact"},
        AnswerCase{"ExactInertia", "reference", [](json& c) { c["inertia"] = 12.5000001; }, true,
                   "inertia 12.5 in base"},
        AnswerCase{"ExactEmpty", "reference", [](json& c) { c["empty_clusters"] = 1; }, true,
                   "0 in base, 1 in new"},
        AnswerCase{"RoundedLabels", "cpu_naive",
                   [](json& c) { c["label_hash"] = "0000000000000000"; }, false, "both certified"},
        AnswerCase{"RoundedEmpty", "cpu_naive", [](json& c) { c["empty_clusters"] = 1; }, false,
                   "empty clusters"},
        AnswerCase{"Inertia", "cpu_naive", [](json& c) { c["inertia"] = 13.0; }, true,
                   "at most 0.02 is rounding"},
        AnswerCase{"NoInertia", "cpu_naive", [](json& c) { c["inertia"] = nullptr; }, true,
                   "no longer finite"},
        AnswerCase{"Bits", "cpu_naive", [](json& c) { c["bit_equal_across_processes"] = false; },
                   false, "no longer agree"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(CompareResults, ExpectNoBitsThatEvenProcessesOfOneRunDoNotAgreeOn) {
  const auto varying = [](const char* variant, const char* hash) {
    json one = cell(variant, 0.01);
    one["bit_equal_across_processes"] = false;
    one["label_hash"] = hash;
    one["centroid_hash"] = hash;
    return one;
  };
  const json base = result({varying("cuda_a", "0000000000000001"), cell("cpu_b", 0.01)});
  json changed = result({varying("cuda_a", "0000000000000002"), cell("cpu_b", 0.01)});
  const auto quiet = compared(base, changed);
  EXPECT_THAT(quiet.cells[0].correctness, IsEmpty());
  EXPECT_THAT(quiet.cells[1].correctness, IsEmpty());
  EXPECT_EQ(quiet.bits_vary, 1U);
  const char* const kSaid =
      "Bits differ from process to process in 1 cell of 2: there the inertia alone is compared";
  EXPECT_THAT(to_text(quiet, false), HasSubstr(kSaid));
  EXPECT_THAT(to_markdown(quiet, false, 10'000, ""), HasSubstr(kSaid));
  changed["cells"][0]["inertia"] = 13.0;
  EXPECT_EQ(compared(base, changed).correctness_regressions(), 1U);
  // What was equal in all processes and is not any more is news once, not three times.
  const auto news =
      compared(result({cell("cuda_a", 0.01)}), result({varying("cuda_a", "0000000000000001")}));
  EXPECT_THAT(news.cells[0].correctness, ElementsAre("its processes no longer agree bit for bit"));
  // The bits of exact variants are defined.
  const auto broken = compared(result({cell("reference", 0.01)}),
                               result({varying("reference", "0000000000000001")}));
  EXPECT_EQ(broken.cells[0].correctness.size(), 3U);
  EXPECT_TRUE(broken.cells[0].correctness_regression);
}

TEST(CompareResults, CallRoundingOfInertiaNothing) {
  json changed = result({cell("cpu_naive", 0.01)});
  changed["cells"][0]["inertia"] = 12.51;
  EXPECT_THAT(compared(result({cell("cpu_naive", 0.01)}), changed).cells[0].correctness, IsEmpty());
}

TEST(CompareResults, TellARepairedCellAsNews) {
  json base = result({cell("cpu_naive", 0.01), cell("reference", 0.01)});
  fail_cell(base["cells"][0], "wrong", "a label");
  const auto comparison =
      compared(base, result({cell("cpu_naive", 0.01), cell("reference", 0.01)}));
  EXPECT_THAT(comparison.cells[1].correctness, ElementsAre("was wrong, is ok"));
  EXPECT_EQ(comparison.cells[1].verdict, CellVerdict::untimed);
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::passed);
}

TEST(CompareResults, NameMissingCellsAndFailTheGateUnlessAllowed) {
  const json base = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)});
  const json changed = result({cell("cpu_a", 0.01), cell("cpu_c", 0.01)});
  CompareSettings settings;
  const auto strict = compared(base, changed, settings);
  ASSERT_EQ(strict.missing.size(), 1U);
  EXPECT_EQ(strict.missing[0].key, "cpu_b/f32/blobs/k4/T5/t1");
  ASSERT_EQ(strict.added.size(), 1U);
  EXPECT_NE(strict.gate.outcome, GateOutcome::passed);
  EXPECT_THAT(to_text(strict, false), HasSubstr("cpu_b/f32/blobs/k4/T5/t1: not in new"));
  settings.allow_missing = true;
  EXPECT_EQ(compared(base, changed, settings).gate.outcome, GateOutcome::passed);
}

TEST(CompareResults, FailTheGateWhereNothingIsInBoth) {
  CompareSettings settings;
  settings.allow_missing = true;
  const auto comparison =
      compared(result({cell("cpu_a", 0.01)}), result({cell("cpu_b", 0.01)}), settings);
  EXPECT_THAT(comparison.gate.reasons, Contains("no cell is in both"));
}

TEST(CompareResults, CountASkippedCellAsLost) {
  json changed = result({cell("cpu_a", 0.01)});
  fail_cell(changed["cells"][0], "skipped", "no GPU");
  const auto comparison = compared(result({cell("cpu_a", 0.01)}), changed);
  EXPECT_FALSE(comparison.cells[0].correctness_regression);
  EXPECT_THAT(comparison.gate.reasons, ElementsAre("1 cell measured in base is skipped in new"));
  // What fails the gate is not news.
  EXPECT_THAT(to_text(comparison, false), HasSubstr("  LOST        e: cpu_a/f32"));
  EXPECT_THAT(to_markdown(comparison, false, 1 << 20, "-"), HasSubstr("| **LOST** | e: cpu"));
}

TEST(CompareResults, CountOneBrokenAnswerAsOne) {
  json changed = result({cell("reference", 0.01)});
  changed["cells"][0]["label_hash"] = "0000000000000000";
  const auto comparison = compared(result({cell("reference", 0.01)}), changed);
  EXPECT_THAT(comparison.gate.reasons, ElementsAre("1 answer is no longer what it was"));
  EXPECT_THAT(to_text(comparison, false), HasSubstr("1 cell timed on both sides"));
}

TEST(CompareResults, NameWhatWasChangedInAnExperiment) {
  json base = result({cell("cpu_a", 0.01)});
  base["spec"] = {{"name", "e"},
                  {"title", "t"},
                  {"init", "random:1"},
                  {"scales", {{"quick", {{"repetitions", 3}, {"processes", 3}}}, {"paper", {}}}}};
  json changed = base;
  changed["spec"]["title"] = "another text";
  changed["spec"]["scales"]["paper"] = {{"repetitions", 9}};
  EXPECT_THAT(compared(base, changed).differences, IsEmpty()) << "neither is run";
  json& scale = changed["spec"]["scales"]["quick"];
  scale["repetitions"] = 30;
  EXPECT_THAT(compared(base, changed).differences,
              ElementsAre("e: repetitions 3 in base, 30 in new"));
  scale["sweep"] = json::array({1});
  scale["max_seconds"] = 2;
  scale["processes"] = 5;
  scale["iterations"] = 7;
  changed["spec"]["init"] = "random:2";
  EXPECT_THAT(compared(base, changed).differences,
              ElementsAre("e: iterations nothing in base, 7 in new; max_seconds nothing in base, 2 "
                          "in new; processes 3 in base, 5 in new; repetitions 3 in base, 30 in "
                          "new; and 2 more"));
}

TEST(CompareResults, SayThatAFileIsIncomplete) {
  json changed = result({cell("cpu_a", 0.01)});
  changed["complete"] = false;
  changed["planned_cells"] = 3;
  changed["context"]["finished"] = nullptr;
  auto comparison = compared(result({cell("cpu_a", 0.01)}), changed);
  EXPECT_THAT(comparison.differences, Contains("new: e (quick) is incomplete, 1 of 3 cells"));
  EXPECT_NE(comparison.gate.outcome, GateOutcome::passed);
  // Narrowed by --only, it came to its end: what is asked for is there.
  changed["context"]["finished"] = "2026-01-01T00:00:00Z";
  comparison = compared(result({cell("cpu_a", 0.01)}), changed);
  EXPECT_THAT(comparison.differences, Contains("new: e (quick) is incomplete, 1 of 3 cells"));
  EXPECT_EQ(comparison.gate.outcome, GateOutcome::passed)
      << testing::PrintToString(comparison.gate.reasons);
  comparison = compared(result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)}), changed);
  EXPECT_NE(comparison.gate.outcome, GateOutcome::passed);
}

struct OtherWork {
  const char* name;
  std::function<void(json&)> change;
  const char* says;
};

class IncomparableCell : public ::testing::TestWithParam<OtherWork> {};

TEST_P(IncomparableCell, IsNamedAndGetsNoRatio) {
  const json base = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)});
  json changed = base;
  GetParam().change(changed);
  const auto comparison = compared(base, changed);
  ASSERT_FALSE(comparison.missing.empty());
  EXPECT_THAT(comparison.missing[0].reason, HasSubstr(GetParam().says));
  EXPECT_NE(comparison.gate.outcome, GateOutcome::passed);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, IncomparableCell,
    ::testing::Values(
        OtherWork{"Data",
                  [](json& f) { f["context"]["datasets"]["blobs"]["sha256"] = "bbbbbbbbbbbbbbbb"; },
                  "the data differ: SHA-256 aaaaaaaaaaaa in base"},
        OtherWork{"Init", [](json& f) { f["cells"][0]["init"] = "random:2"; },
                  "first centroids differ: random:1 in base, random:2 in new"},
        OtherWork{"Size", [](json& f) { f["cells"][0]["n"] = 101; }, "other sizes"},
        OtherWork{"Exact", [](json& f) { f["cells"][0]["exact"] = true; }, "exact in new"},
        OtherWork{"Iterations",
                  [](json& f) {
                    f["cells"][0]["iterations"] = 6;
                    f["cells"][0]["key"] = "cpu_a/f32/blobs/k4/T6/t1";
                  },
                  "which has cpu_a/f32/blobs/k4/T6/t1"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(CompareResults, RefuseOtherHardware) {
  const json base = result({cell("cpu_a", 0.01)});
  for (const auto& [pointer, value] : std::vector<std::pair<std::string, json>>{
           {"/context/machine/cpu/model", "B"},
           {"/context/machine/cpu/logical_cores", 4},
           {"/context/machine/memory/total_bytes", 2000},
           {"/context/machine/gpus", json::array({{{"name", "NVIDIA H200"}}})}}) {
    json changed = base;
    changed[json::json_pointer(pointer)] = value;
    try {
      compared(base, changed);
      ADD_FAILURE() << pointer;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("--cross-hardware"));
    }
    CompareSettings settings;
    settings.cross_hardware = true;
    EXPECT_THAT(compared(base, changed, settings).differences, Not(IsEmpty()));
  }
}

TEST(CompareResults, AllowAndListOtherBuildsAndLibraries) {
  const json base = result({cell("cpu_a", 0.01)});
  json changed = base;
  changed["context"]["suite"]["compiler"] = "GNU 13";
  changed["context"]["suite"]["git_dirty"] = true;
  changed["context"]["machine"]["libraries"]["eigen"] = "3.4.1";
  changed["context"]["machine"]["cpu"]["governor"] = "performance";
  changed["context"]["environment"]["variables"]["KMEANS_BENCH_SIMD"] = "sse2";
  changed["cells"][0]["library"] = {{"numpy", "2.4"}};
  EXPECT_THAT(compared(base, changed).differences,
              ElementsAre("new was built from a changed tree",
                          R"(compiler: "GNU 12" in base, "GNU 13" in new)",
                          R"(cpu governor: nothing in base, "performance" in new)",
                          R"(library eigen: "3.4.0" in base, "3.4.1" in new)",
                          R"(environment KMEANS_BENCH_SIMD: nothing in base, "sse2" in new)",
                          R"(library behind cpu_a: numpy: nothing in base, "2.4" in new)"));
}

TEST(CompareResults, MatchParallelCellsAcrossHardwareWithoutTheirThreads) {
  const json base = result({cell("openmp_simd", 0.02, 6, 2), cell("cpu_a", 0.01)});
  json changed = result({cell("openmp_simd", 0.01, 6, 16), cell("cpu_a", 0.01)});
  changed["context"]["machine"]["cpu"]["logical_cores"] = 16;
  CompareSettings settings;
  settings.cross_hardware = true;
  const auto comparison = compared(base, changed, settings);
  ASSERT_EQ(comparison.cells.size(), 2U);
  EXPECT_EQ(comparison.cells[0].key.text(), "openmp_simd/f32/blobs/k4/T5/t2");
  EXPECT_EQ(comparison.cells[0].new_key.text(), "openmp_simd/f32/blobs/k4/T5/t16");
  EXPECT_THAT(to_text(comparison, false), HasSubstr("(new: t16)"));
  EXPECT_THAT(comparison.missing, IsEmpty());

  // Two candidates: which one is meant nobody knows.
  json several = result({cell("openmp_simd", 0.01, 6, 8), cell("openmp_simd", 0.01, 6, 16)});
  several["context"]["machine"]["cpu"]["logical_cores"] = 16;
  EXPECT_EQ(compared(base, several, settings).cells.size(), 0U);
}

TEST(CompareResults, RefuseFilesOfDifferentExperiments) {
  json changed = result({cell("cpu_a", 0.01)});
  changed["scale"] = "paper";
  try {
    compared(result({cell("cpu_a", 0.01)}), changed);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("base holds e (quick), new holds e (paper)"));
  }
}

TEST(CompareResults, CompareTracesByTheirIterations) {
  json base = result({cell("reference", 0.01)});
  json trace{{"name", "stops"},
             {"variant", "reference"},
             {"status", "ok"},
             {"iterations", json::array({1, 2, 3})},
             {"label_hash", "0123456789abcdef"}};
  base["traces"].push_back(trace);
  json changed = base;
  changed["traces"][0]["iterations"].push_back(4);
  const auto comparison = compared(base, changed);
  ASSERT_EQ(comparison.records.size(), 1U);
  EXPECT_THAT(comparison.records[0].correctness, ElementsAre("3 iterations in base, 4 in new"));
  EXPECT_NE(comparison.gate.outcome, GateOutcome::passed) << "an exact variant";
  changed["traces"] = json::array();
  EXPECT_EQ(compared(base, changed).missing.at(0).key, "trace stops");
}

TEST(CompareResults, CompareFitsByTheBitsOfExactEstimators) {
  json base = result({cell("cpu_a", 0.01)});
  const auto row = [](const char* name, bool exact) {
    return json{{"estimator", name},
                {"status", "ok"},
                {"reason", nullptr},
                {"exact", exact},
                {"seconds", 2.0}};
  };
  const auto call = [](const char* name, const char* hash) {
    return json{{"estimator", name},
                {"seed", 3},
                {"seconds", 2.0},
                {"label_hash", hash},
                {"centroid_hash", "0123456789abcdef"}};
  };
  json fit{{"name", "words-k9"}, {"status", "ok"}, {"k", 9}};
  fit["rows"] = json::array({row("ours", true), row("theirs", false)});
  fit["calls"] =
      json::array({call("ours", "aaaaaaaaaaaaaaaa"), call("theirs", "bbbbbbbbbbbbbbbb")});
  base["fits"] = json::array({fit});
  EXPECT_TRUE(compared(base, base).records.empty());
  json changed = base;
  changed["fits"][0]["calls"][1]["label_hash"] = "cccccccccccccccc";
  EXPECT_TRUE(compared(base, changed).records.empty()) << "another library's bits are its own";
  changed["fits"][0]["calls"][0]["label_hash"] = "dddddddddddddddd";
  const auto other_bits = compared(base, changed);
  ASSERT_EQ(other_bits.records.size(), 1U);
  EXPECT_THAT(other_bits.records[0].correctness.at(0), HasSubstr("ours, seed 3: "));
  EXPECT_NE(other_bits.gate.outcome, GateOutcome::passed);
  changed = base;
  changed["fits"][0]["k"] = 8;
  EXPECT_THAT(compared(base, changed).records.at(0).correctness.at(0), HasSubstr("other work"));
  changed = base;
  changed["fits"][0]["status"] = "skipped";
  changed["fits"][0]["reason"] = "no library";
  EXPECT_TRUE(compared(base, changed).records.at(0).lost);
}

TEST(CompareResults, CountASkippedTraceAndStudyAsLost) {
  json base = result({cell("cpu_a", 0.01)});
  base["traces"].push_back({{"name", "stops"}, {"variant", "reference"}, {"status", "ok"}});
  base["studies"].push_back({{"name", "step"}, {"status", "ok"}});
  json changed = base;
  for (const char* list : {"traces", "studies"}) {
    changed[list][0]["status"] = "skipped";
    changed[list][0]["reason"] = "no GPU";
  }
  CompareSettings settings;
  const auto strict = compared(base, changed, settings);
  EXPECT_THAT(strict.gate.reasons, ElementsAre("2 traces and studies of base are skipped in new"));
  EXPECT_THAT(to_text(strict, false),
              HasSubstr("  LOST        e: trace stops: was ok, is skipped: no GPU"));
  EXPECT_TRUE(to_json(strict).at("records").at(1).at("lost"));
  settings.allow_missing = true;
  EXPECT_EQ(compared(base, changed, settings).gate.outcome, GateOutcome::passed);
  EXPECT_EQ(compared(changed, base).gate.outcome, GateOutcome::passed) << "found again";
}

TEST(CompareResults, HaveAGeometricMeanOnlyOnRequest) {
  const json base = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)});
  const json changed = result({cell("cpu_a", 0.02), cell("cpu_b", 0.005)});
  EXPECT_FALSE(compared(base, changed).geometric_mean_ratio.has_value());
  CompareSettings settings;
  settings.geometric_mean = true;
  EXPECT_NEAR(compared(base, changed, settings).geometric_mean_ratio.value(), 1, 1e-12);
}

TEST(CompareResults, NarrowToACellsKey) {
  const json file = result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)});
  CompareSettings settings;
  settings.only = Pattern("cpu_b");
  EXPECT_EQ(compared(file, file, settings).cells.size(), 1U);
}

TEST(CompareJson, HasWhatReadersNeed) {
  json changed = result({cell("cpu_a", 0.012), cell("cpu_b", 0.01)});
  fail_cell(changed["cells"][1], "error", "killed by SIGSEGV");
  const json value = to_json(compared(result({cell("cpu_a", 0.01), cell("cpu_b", 0.01)}), changed));
  EXPECT_EQ(value.at("comparison_version"), 2);
  EXPECT_EQ(value.at("base").at("label"), "results/a");
  EXPECT_EQ(value.at("new").at("files").at(0).at("experiment"), "e");
  EXPECT_EQ(value.at("counts").at("slower"), 1);
  EXPECT_EQ(value.at("counts").at("correctness"), 1);
  EXPECT_EQ(value.at("geometric_mean_ratio"), nullptr);
  const json& slow = value.at("cells").at(0);
  EXPECT_EQ(slow.at("verdict"), "slower");
  EXPECT_NEAR(slow.at("ratio").get<double>(), 1.2, 1e-9);
  EXPECT_EQ(slow.at("base").at("processes"), 6);
  EXPECT_EQ(slow.at("base").at("samples"), 12);
  EXPECT_LT(slow.at("base").at("ci95_low").get<double>(), 0.0101);
  const json& failed = value.at("cells").at(1);
  EXPECT_EQ(failed.at("verdict"), "untimed");
  EXPECT_EQ(failed.at("ratio"), nullptr);
  EXPECT_EQ(failed.at("new").at("seconds"), nullptr);
  EXPECT_EQ(failed.at("new").at("reason"), "killed by SIGSEGV");
  EXPECT_EQ(failed.at("correctness_regression"), true);
  EXPECT_EQ(value.at("gate").at("outcome"), "failed");
}

// --- Markdown ---

TEST(MarkdownEscape, LeavesNothingThatActs) {
  EXPECT_EQ(markdown_escaped("cpu_naive/f32 k4"), "cpu\\_naive/f32 k4");
  for (const char* hostile : {"a|b", "`x`", "<script>", "@somebody", "=1+1", "+1", "-1", "[x](y)",
                              "#12", "\x1b[31m", "a\nb", "\xE2\x80\xAEtxt", "![i](u)", "**b**"}) {
    const std::string safe = markdown_escaped(hostile);
    EXPECT_EQ(safe.find_first_of("|`<>@[]*!\x1b\n"), std::string::npos) << safe;
    EXPECT_EQ(std::string("=+-").find(safe.front()), std::string::npos) << safe;
    EXPECT_EQ(safe.find("\xE2\x80\xAE"), std::string::npos) << "direction of writing";
  }
  EXPECT_THAT(markdown_escaped("https://x.y"), Not(HasSubstr("://")));
  EXPECT_THAT(markdown_escaped("www.x.y"), Not(HasSubstr("www.")));
  EXPECT_EQ(markdown_escaped("\xFF"), "\xEF\xBF\xBD");
}

TEST(CompareMarkdown, IsCutBetweenRowsAndSaysSo) {
  std::vector<json> before;
  std::vector<json> after;
  for (int i = 0; i < 200; ++i) {
    before.push_back(cell("cpu_" + std::to_string(i), 0.01));
    after.push_back(cell("cpu_" + std::to_string(i), 0.02));
  }
  const auto comparison = compared(result(before), result(after));
  const std::string whole = to_markdown(comparison, false, 1 << 20, "all.json");
  EXPECT_THAT(whole, Not(HasSubstr("Cut for size")));
  constexpr std::size_t kLimit = 8192;
  const std::string cut = to_markdown(comparison, false, kLimit, "all.json");
  EXPECT_LE(cut.size(), kLimit);
  EXPECT_GT(cut.size(), kLimit / 2);
  EXPECT_THAT(cut, HasSubstr("gate failed"));
  EXPECT_THAT(cut, HasSubstr("all.json has all of them"));
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = cut.find("\n| slower", at)) != std::string::npos; ++at) ++rows;
  EXPECT_THAT(cut, HasSubstr("Cut for size: " + std::to_string(200 - rows) + " rows"));
  const auto line = cut.rfind("\n| slower");
  EXPECT_EQ(cut[cut.find('\n', line + 1) - 1], '|') << "the last row is whole";
}

TEST(CompareText, ShowsNoControlCharacters) {
  json changed = result({cell("cpu_a", 0.01)});
  fail_cell(changed["cells"][0], "error", "\x1b[2Jgone\r\n::set-output");
  const std::string text = to_text(compared(result({cell("cpu_a", 0.01)}), changed), true);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\n::"), std::string::npos);
}

}  // namespace
}  // namespace kmeans
