// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "harness/support/errors.h"
#include "tests/compare/compared_files.h"
#include "tests/support/message_of.h"
#include "tests/support/says.h"

namespace kmeans::compare_tests {
namespace {

using test::Says;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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
  EXPECT_THAT(comparison.differences, Contains(Says({"fixed computation", "2 cells of 4"})));
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
  EXPECT_THAT(comparison.gate.notes, ElementsAre(Says({"1 cell", "both sides"})));
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
              ElementsAre(Says({"1 cell and 1 trace or study", "missing"})));
  base["cells"].erase(1);
  base["planned_cells"] = 1;
  EXPECT_THAT(compared(base, result({cell("cpu_a", 0.01)})).gate.reasons,
              ElementsAre(AllOf(StartsWith("1 trace or study"), HasSubstr("missing"))));
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
  EXPECT_THAT(to_text(quiet, false), Says({"Bits differ", "1 cell of 2"}));
  EXPECT_THAT(to_markdown(quiet, false, 10'000, ""), Says({"Bits differ", "1 cell of 2"}));
  changed["cells"][0]["inertia"] = 13.0;
  EXPECT_EQ(compared(base, changed).correctness_regressions(), 1U);
  // What was equal in all processes and is not any more is news once, not three times.
  const auto news =
      compared(result({cell("cuda_a", 0.01)}), result({varying("cuda_a", "0000000000000001")}));
  EXPECT_THAT(news.cells[0].correctness, ElementsAre(HasSubstr("no longer agree")));
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
  EXPECT_THAT(comparison.gate.reasons, ElementsAre(Says({"1 cell", "skipped in new"})));
  // What fails the gate is not news.
  EXPECT_THAT(to_text(comparison, false), HasSubstr("  LOST        e: cpu_a/f32"));
  EXPECT_THAT(to_markdown(comparison, false, 1 << 20, "-"), HasSubstr("| **LOST** | e: cpu"));
}

TEST(CompareResults, CountOneBrokenAnswerAsOne) {
  json changed = result({cell("reference", 0.01)});
  changed["cells"][0]["label_hash"] = "0000000000000000";
  const auto comparison = compared(result({cell("reference", 0.01)}), changed);
  EXPECT_THAT(comparison.gate.reasons, ElementsAre(HasSubstr("1 answer")));
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
              ElementsAre(Says({"e: iterations nothing in base, 7 in new", "max_seconds",
                                "processes", "repetitions 3 in base, 30 in new", "2 more"})));
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
    EXPECT_THAT(test::message_of([&] { compared(base, changed); }), HasSubstr("--cross-hardware"))
        << pointer;
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
  EXPECT_THAT(test::message_of([&] { compared(result({cell("cpu_a", 0.01)}), changed); }),
              HasSubstr("base holds e (quick), new holds e (paper)"));
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
}  // namespace kmeans::compare_tests
