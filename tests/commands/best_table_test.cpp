// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/best_table.h"
#include "tests/support/says.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kmeans {
namespace {

using nlohmann::json;
using test::Says;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

json cell(const std::string& variant, const std::string& precision, bool exact, double iteration,
          double setup) {
  return {{"variant", variant},
          {"backend", variant.substr(0, variant.find('_'))},
          {"precision", precision},
          {"exact", exact},
          {"n", 1000},
          {"d", 10},
          {"k", 50},
          {"threads", 2},
          {"processes", 3},
          {"iterations", 300},
          {"status", "ok"},
          {"reason", nullptr},
          {"unsteady", json::array()},
          {"gpu", nullptr},
          {"setup_seconds", setup},
          {"seconds_per_iteration", {{"median", iteration}}},
          {"verification", {{"labels_differing", 0.25}}}};
}

json fate(const std::string& variant, const std::string& status, const std::string& reason,
          int processes = 0) {
  json one = cell(variant, "f32", false, 1, 1);
  one["status"] = status;
  one["reason"] = reason;
  one["processes"] = processes;
  one["seconds_per_iteration"] = nullptr;
  return one;
}

json result_of(json cells) {
  return {{"context", {{"ceilings", {{"fma_gflops", {{"f32_all_threads", 10}}}}}}},
          {"cells", std::move(cells)}};
}

/// As timed over so many iterations.
json over(json cell, std::int64_t iterations) {
  cell["iterations"] = iterations;
  return cell;
}

std::size_t place(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  EXPECT_NE(at, std::string::npos) << word << " is not in\n" << text;
  return at;
}

TEST(BestTable, AWholeFitStandsForItsFirstIterations) {
  const json few = over(cell("cpu_a", "f32", true, 0.010, 0), 5);
  const json other = over(cell("cpu_b", "f32", true, 0.011, 0), 5);
  json left_out = over(fate("cpu_b", "skipped", "by its first iterations it is far behind"), 100);
  left_out["exact"] = true;
  const json whole = over(cell("cpu_a", "f32", true, 0.020, 0), 100);
  const BestAsked asked{100, std::nullopt};
  const auto table = best_table(result_of({few, other, whole, left_out}), asked, {});
  EXPECT_DOUBLE_EQ(table.exact_fits.at("cpu_a"), 2);
  EXPECT_DOUBLE_EQ(table.exact_fits.at("cpu_b"), 1.1);
  EXPECT_THAT(table.text, HasSubstr("timed"));
  EXPECT_THAT(table.text, Not(HasSubstr("far behind")));
  ASSERT_TRUE(table.winner);
  EXPECT_THAT(table.winner->sentence, HasSubstr("expected from its first 5 iterations"));
  // One that is wrong after all iterations is wrong.
  json wrong = over(fate("cpu_b", "wrong", "labels differ"), 100);
  const auto worse = best_table(result_of({few, other, whole, wrong}), asked, {});
  EXPECT_EQ(worse.winner->variant, "cpu_a");
  EXPECT_THAT(worse.text, HasSubstr("WRONG: labels differ"));
  EXPECT_THAT(worse.text, Not(HasSubstr("timed")));
}

TEST(BestTable, SaysWhatOneProcessAndNobodyElseCanSay) {
  json alone = cell("cpu_a", "f32", true, 0.010, 0);
  const auto sentence = [&](const BestAsked& asked) {
    return best_table(result_of({alone}), asked, {}).winner->sentence;
  };
  EXPECT_THAT(sentence({10, std::nullopt}), HasSubstr("more --seconds would show"));
  EXPECT_THAT(sentence({10, std::nullopt, "", true}), Not(HasSubstr("more --seconds")));
  EXPECT_THAT(sentence({10, std::nullopt}), Not(HasSubstr("One process")));
  alone["processes"] = 1;
  EXPECT_THAT(sentence({10, std::nullopt}), HasSubstr("One process has timed it."));
}

TEST(BestTable, RanksFitsOfTheIterationsAskedForEachKindByItself) {
  const auto table = best_table(
      result_of({cell("cpu_half", "f16", false, 0.001, 0), cell("cpu_late", "f32", true, 0.01, 1),
                 cell("cpu_soon", "f32", true, 0.1, 0),
                 cell("cpu_near", "f32", false, 0.001, 0.1)}),
      {100, std::nullopt}, {});
  const std::string& text = table.text;
  // A fit of 100: 2 s and 10 s, though of the three measured ones soon would be first.
  EXPECT_LT(place(text, "Exact:"), place(text, "cpu_late"));
  EXPECT_LT(place(text, "cpu_late"), place(text, "cpu_soon"));
  EXPECT_LT(place(text, "cpu_soon"), place(text, "Certified:"));
  EXPECT_LT(place(text, "Certified:"), place(text, "cpu_near"));
  EXPECT_LT(place(text, "cpu_near"), place(text, "Approximate:"));
  EXPECT_LT(place(text, "Approximate:"), place(text, "cpu_half"));
  EXPECT_THAT(text, HasSubstr("fit of 100 iterations"));
  // 2 n k d = 1e6 operations at 1e10 a second: 0.1 ms of 10 ms.
  EXPECT_THAT(text, HasSubstr("  1 %  "));
  EXPECT_THAT(text, HasSubstr("approximate, 25 % of labels differ"));
  ASSERT_TRUE(table.winner);
  EXPECT_EQ(table.winner->variant, "cpu_late") << "an exact one, where there is one";
  EXPECT_THAT(table.winner->sentence,
              Says({"cpu_late (f32)", "2 s", "100 iterations", "0.05", "approximate"}));
}

TEST(BestTable, HoldsIterationsAgainstScikitLearn) {
  const auto table = best_table(result_of({cell("cpu_naive", "f32", false, 0.04, 0),
                                           cell("python_sklearn_lloyd", "f32", false, 0.01, 1)}),
                                {10, std::nullopt}, {});
  EXPECT_THAT(table.text, HasSubstr("0.25 x"));
  EXPECT_THAT(table.text, HasSubstr("1 x"));
  EXPECT_THAT(table.text, HasSubstr("interpreter's start"));
  ASSERT_TRUE(table.winner);
  EXPECT_EQ(table.winner->variant, "cpu_naive");
  EXPECT_THAT(table.winner->sentence, Says({"No exact variant", "certified variant"}));
}

TEST(BestTable, RanksNoFitThatHoldsAnInterpretersStart) {
  // By the sum of setup and iterations a would be before b, and both before cpu_slow.
  const auto table = best_table(
      result_of({cell("python_a", "f32", false, 0.02, 0.1), cell("python_b", "f32", false, 0.01, 5),
                 cell("cpu_slow", "f32", false, 0.04, 9)}),
      {10, std::nullopt}, {});
  EXPECT_LT(place(table.text, "cpu_slow"), place(table.text, "python_b"));
  EXPECT_LT(place(table.text, "python_b"), place(table.text, "python_a"));
  EXPECT_THAT(table.text, Not(HasSubstr("5.1 s")));
  EXPECT_THAT(table.text, HasSubstr("no fit here"));
  ASSERT_TRUE(table.winner);
  EXPECT_EQ(table.winner->variant, "cpu_slow");
  EXPECT_THAT(table.winner->sentence,
              AllOf(Says({"9.4 s", "10 iterations", "python_b", "0.25", "fit is not known"}),
                    Not(HasSubstr("times as long"))));
}

TEST(BestTable, ComparesIterationsWhereNobodyHasAFit) {
  const auto table = best_table(result_of({cell("python_a", "f32", false, 0.012, 0.1),
                                           cell("python_b", "f32", false, 0.01, 5)}),
                                {10, std::nullopt}, {});
  ASSERT_TRUE(table.winner);
  EXPECT_EQ(table.winner->variant, "python_b");
  EXPECT_THAT(table.winner->sentence,
              Says({"python_b (f32)", "10 ms an iteration", "python_a", "1.20"}));
}

TEST(BestTable, SaysWhyNoneIsExact) {
  const auto sentence = [](json first) {
    return best_table(result_of({std::move(first), cell("cpu_naive", "f64", false, 0.04, 0)}),
                      {10, std::nullopt}, {})
        .winner->sentence;
  };
  EXPECT_THAT(sentence(cell("cpu_naive", "f64", false, 0.1, 0)),
              StartsWith("No exact variant takes f64"));
  json late = fate("cpu_late", "skipped", "not reached within --seconds 4");
  late["exact"] = true;
  EXPECT_THAT(sentence(late), StartsWith("No exact variant was measured"));
}

TEST(BestTable, EveryTimeComesWithItsSpread) {
  json few = cell("cpu_few", "f32", true, 0.00206, 0);
  few["seconds_per_iteration"].update({{"ci95_low", nullptr}, {"min", 0.000459}, {"max", 0.0022}});
  few["samples_seconds_per_iteration"] = {{0.000459}, {0.00206}, {0.0022}};
  json many = cell("cpu_many", "f32", true, 0.004, 0);
  many["seconds_per_iteration"].update({{"ci95_low", 0.0039}, {"ci95_high", 0.0045}, {"min", 0}});
  many["samples_seconds_per_iteration"] = {{0.0039, 0.004}, {0.004, 0.0045}};
  const auto table = best_table(result_of({few, many}), {10, std::nullopt}, {});
  EXPECT_THAT(table.text, HasSubstr("2.06 ms (459 us - 2.2 ms)"));
  EXPECT_THAT(table.text, HasSubstr("4 ms (3.9-4.5)"));
  ASSERT_TRUE(table.winner);
  EXPECT_THAT(table.winner->sentence, HasSubstr("1 of 3 processes"));
}

TEST(BestTable, SaysWhoIsFasterInLongerFits) {
  const auto sentence = [](double other) {
    return best_table(result_of({cell("cpu_soon", "f32", true, 0.010, 0.1),
                                 cell("cpu_late", "f32", true, other, 0.5),
                                 cell("cpu_near", "f32", false, 0.001, 0.6)}),
                      {10, std::nullopt}, {})
        .winner->sentence;
  };
  // 0.1 + 0.010 t = 0.5 + 0.002 t at t = 50. Of another kind nobody is.
  EXPECT_THAT(sentence(0.002), Says({"50 iterations", "cpu_late is faster"}));
  EXPECT_THAT(sentence(0.0099), Not(HasSubstr("is faster"))) << "after 4000";
}

TEST(BestTable, SaysWhoIsAsGoodAsTheFirst) {
  const auto sentence = [](double second) {
    return best_table(
               result_of({cell("a", "f32", true, 0.1, 0), cell("b", "f32", true, second, 0)}),
               {10, std::nullopt}, {})
        .winner->sentence;
  };
  EXPECT_THAT(sentence(0.125), HasSubstr("b takes 1.25 times"));
  EXPECT_THAT(sentence(0.135), Not(HasSubstr("b takes")));
}

/// Its processes took so long for an iteration.
json processes(json one, const std::vector<double>& medians, bool steady) {
  json samples = json::array();
  for (const double median : medians) samples.push_back({median});
  one["samples_seconds_per_iteration"] = samples;
  if (!steady) one["unsteady"] = {"its processes disagree"};
  return one;
}

TEST(BestTable, WhoIsUnsteadyCountsWithItsSlowestProcess) {
  const json wild = processes(cell("wild", "f32", true, 0.002, 0), {0.001, 0.002, 0.004}, false);
  const auto winner = [&](double other) {
    return best_table(result_of({wild, cell("calm", "f32", true, other, 0)}), {10, std::nullopt},
                      {});
  };
  const auto ahead = winner(0.005);
  EXPECT_EQ(ahead.winner->variant, "wild") << "its slowest process is before the other";
  EXPECT_THAT(ahead.winner->sentence,
              Says({"wild (f32)", "40 ms", "10 iterations", "1 process at 1 ms", "slowest"}));
  EXPECT_THAT(ahead.text, HasSubstr("up to 4 ms (from 1 ms)"));
  EXPECT_EQ(winner(0.003).winner->variant, "calm");
}

TEST(BestTable, OneRowIsNoRecommendation) {
  const auto sentence =
      best_table(
          result_of({cell("alone", "f32", true, 0.1, 0), cell("other", "f32", false, 0.09, 0)}),
          {10, std::nullopt}, {})
          .winner->sentence;
  EXPECT_THAT(sentence, Says({"Only one exact variant", "alone (f32)", "1 s", "--seconds"}));
}

TEST(BestTable, SaysHowFarAPluginIsBehindAndWhatFitRuns) {
  json yours = cell("mine", "f32", true, 0.5, 0);
  yours["backend"] = "plugin";
  const auto table =
      best_table(result_of({yours, cell("first", "f32", true, 0.1, 0),
                            cell("usual", "f32", true, 0.2, 0), cell("near", "f32", false, 1, 0)}),
                 {10, std::nullopt, "usual"}, {});
  EXPECT_THAT(table.text, Says({"yours", "5 times behind first"}));
  EXPECT_THAT(table.winner->sentence, AllOf(HasSubstr("mine: yours, 5 times behind first"),
                                            Says({"--variant", "usual", "2.00 times"})));
  yours["seconds_per_iteration"]["median"] = 0.05;
  EXPECT_THAT(
      best_table(result_of({yours, cell("first", "f32", true, 0.1, 0)}), {10, std::nullopt}, {})
          .text,
      Says({"yours", "2 times ahead of first"}));
}

TEST(BestTable, ListsEverybodyWithoutANumberByReason) {
  const auto table = best_table(
      result_of({fate("cpu_a", "skipped", "d = 3"), fate("cpu_b", "skipped", "d = 3"),
                 fate("cpu_c", "wrong", "3 ties", 1), fate("cpu_d", "error", "killed\nlog", 1)}),
      {10, std::nullopt}, {{{"cuda_x", "cuda_y"}, "not in this build: no compiler"}});
  EXPECT_EQ(table.text,
            "Not measured (`kmeans-bench list` names all)\n"
            "  cpu_a, cpu_b: d = 3\n"
            "  cpu_c: WRONG: 3 ties\n"
            "  cpu_d: failed: killed\n"
            "  cuda_x, cuda_y: not in this build: no compiler\n\n");
  EXPECT_FALSE(table.winner);
}

TEST(BestTable, ManyOfOneReasonAreCounted) {
  const auto text = [](std::vector<std::string> names) {
    return best_table(result_of(json::array()), {10, std::nullopt}, {{std::move(names), "no GPU"}})
        .text;
  };
  EXPECT_THAT(text({"a", "b", "c", "d"}), HasSubstr("  a, b, c, d: no GPU\n"));
  EXPECT_THAT(text({"a", "b", "c", "d", "e"}), HasSubstr("  a, b, c and 2 more: no GPU\n"));
}

TEST(BestTable, WithoutPythonsPackagesOneLineSaysSo) {
  const json lacking = {fate("python_a", "skipped", "lacks a"),
                        fate("python_sklearn_lloyd", "skipped", "lacks scikit-learn")};
  EXPECT_EQ(
      best_table(result_of(lacking), {10, std::nullopt}, {}).text,
      "Not measured (`kmeans-bench list` names all)\n"
      "  2 Python variants (python_sklearn_lloyd: lacks scikit-learn; `kmeans-bench list` has "
      "the others' reasons)\n\n");
  json tried = lacking;
  tried.push_back(fate("python_b", "skipped", "given up after 5 s", 1));
  EXPECT_EQ(best_table(result_of(tried), {10, std::nullopt}, {}).text,
            "Not measured (`kmeans-bench list` names all)\n"
            "  python_a: lacks a\n"
            "  python_sklearn_lloyd: lacks scikit-learn\n"
            "  python_b: given up after 5 s\n\n");
}

}  // namespace
}  // namespace kmeans
