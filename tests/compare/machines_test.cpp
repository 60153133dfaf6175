// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/record/measures.h"
#include "harness/support/errors.h"
#include "tests/support/result_cell.h"
#include "tests/support/says.h"

namespace kmeans {
namespace {

using nlohmann::json;
using test::Says;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// An exact cell on a GPU; processes differ by a thousandth.
json gpu_cell(const std::string& variant, std::int64_t n, std::int64_t d, std::int64_t k,
              double seconds, int processes = 3, bool exact = true) {
  std::vector<std::vector<double>> samples;
  for (int p = 0; p < processes; ++p) {
    samples.push_back({seconds * (1 + 0.001 * p), seconds * (1 + 0.001 * p)});
  }
  const std::string dataset = "blobs" + std::to_string(n) + "x" + std::to_string(d);
  json cell = timed_cell(variant, "cuda", dataset, n, d, k, exact, 1, samples);
  cell["gpu"] = {{"name", "a GPU"}};
  return cell;
}

// Points of 1 GB: an iteration reads them in 0.5 ms at 2 000 GB/s, in 0.25 ms at 4 000.
constexpr std::int64_t kMany = 2'500'000;
json reading(double seconds) { return gpu_cell("cuda_a", kMany, 100, 2, seconds); }
// 2nkd = 2e11 in 1 ms at 200 TFLOP/s.
json multiplying(double seconds) { return gpu_cell("cuda_a", 100'000, 1000, 1000, seconds); }
json tiny(double seconds) { return gpu_cell("cuda_a", 100, 2, 4, seconds); }

MachineResults machine(const std::string& label, const std::string& gpu, double gbytes,
                       const std::vector<json>& cells, const std::string& commit = "abc") {
  json file = result_file_of(cells);
  file["context"]["suite"]["git_commit"] = commit;
  file["context"]["ceilings"]["gpu"] = {
      {"fma_gflops", {{"f32", 50000}}},   {"gemm_gflops", {{"int8", 200000}}},
      {"read_gbytes_per_second", gbytes}, {"read_gbytes_per_second_l2", 8000},
      {"grid_barrier_seconds", 1e-6},     {"details", {{"bytes", {{"l2", 20000000}}}}}};
  file["context"]["datasets"] = json::object();
  if (!gpu.empty()) file["context"]["machine"]["gpus"].push_back({{"name", gpu}});
  for (const auto& cell : cells) {
    file["context"]["datasets"][cell.at("dataset").get<std::string>()] = {
        {"spec", json::object()},
        {"scalar", "f32"},
        {"sha256", "aaaaaaaaaaaaaaaa"},
        {"n", cell.at("n")},
        {"d", cell.at("d")}};
  }
  return {label, {parse_result_file(file.dump(), label + ".json")}};
}

MachineResults h100(const std::vector<json>& cells) {
  return machine("results/a", "NVIDIA H100 80GB HBM3", 2000, cells);
}
MachineResults h200(const std::vector<json>& cells, const std::string& commit = "abc") {
  return machine("results/b", "NVIDIA H200", 4000, cells, commit);
}

MachinePair compared_machines(const MachineResults& first, const MachineResults& second,
                              const MachinesSettings& settings = {}) {
  return compare_machines({first, second}, settings).front();
}

TEST(CompareMachines, SayInOneSentenceWhichIsFasterWhere) {
  const auto pair = compared_machines(h100({reading(0.00060), multiplying(0.002), tiny(1.0e-5)}),
                                      h200({reading(0.00040), multiplying(0.002), tiny(1.25e-5)}));
  EXPECT_THAT(pair.sentences.front(),
              Says({"The H200, against the H100", "1.50", "memory; ", "equal", "products", "slower",
                    "launches and barriers", "0.80"}));
  EXPECT_THAT(pair.sentences.at(1), Says({"all 3 exact cells", "agree"}));
  for (const auto& text : {machines_to_text({pair}, false), machines_to_markdown({pair}, true)}) {
    EXPECT_THAT(text, Says({"1.50", "points are read"}));
    EXPECT_THAT(text, Not(HasSubstr("ate: ")));  // no gate
    EXPECT_THAT(text, Not(HasSubstr("LOST")));
  }
  EXPECT_EQ(machines_to_text({pair}, false).find("The H200"), 0U) << "the answer comes first";
}

TEST(CompareMachines, GiveTheLimitsOfBothForEveryCell) {
  const auto pair = compared_machines(h100({reading(0.0006)}), h200({reading(0.0004)}));
  ASSERT_EQ(pair.cells.size(), 1U);
  const MachineCell& cell = pair.cells.front();
  EXPECT_EQ(cell.kind, WorkKind::memory);
  ASSERT_TRUE(cell.limits.first && cell.limits.second);
  EXPECT_NEAR(cell.limits.first->seconds / cell.limits.second->seconds, 2, 1e-9);
  EXPECT_EQ(pair.first.at("limits").at("gpu").at("read_gbytes_per_second"), 2000);
}

TEST(CompareMachines, CallWorkFarFromItsLimitByNoLimit) {
  const auto pair = compared_machines(h100({reading(0.006)}), h200({reading(0.006)}));
  EXPECT_EQ(pair.cells.front().kind, WorkKind::other);
}

TEST(CompareMachines, GiveEachRatioAnInterval) {
  const auto pair = compared_machines(h100({reading(0.0006)}), h200({reading(0.0004)}));
  const SpeedRatio& speed = pair.cells.front().speed;
  EXPECT_NEAR(speed.ratio, 1.5, 1e-9);
  ASSERT_TRUE(speed.low && speed.high);
  // Of three processes a side: the smallest and the largest quotient.
  EXPECT_NEAR(*speed.low, 1.5 / 1.002, 1e-9);
  EXPECT_NEAR(*speed.high, 1.5 * 1.002, 1e-9);
  EXPECT_NEAR(speed.confidence, 0.9, 1e-9);
  const auto many = compared_machines(h100({gpu_cell("cuda_a", kMany, 100, 2, 0.0006, 6)}),
                                      h200({gpu_cell("cuda_a", kMany, 100, 2, 0.0004, 6)}));
  EXPECT_EQ(many.cells.front().speed.confidence, 0.95);
  EXPECT_GT(*many.cells.front().speed.low, 1.5 / 1.005);
  const auto two = compared_machines(h100({gpu_cell("cuda_a", kMany, 100, 2, 0.0006, 2)}),
                                     h200({gpu_cell("cuda_a", kMany, 100, 2, 0.0004, 2)}));
  EXPECT_FALSE(two.cells.front().speed.low);
  EXPECT_EQ(two.cells.front().verdict, MachineVerdict::undecided);
}

TEST(CompareMachines, HoldADirectionOnlyWhereTheWholeIntervalLiesOnItsSide) {
  const auto verdict = [](double low, double high) {
    return verdict_of({(low + high) / 2, low, high, 0.95}, 0.05);
  };
  EXPECT_EQ(verdict(1.01, 1.2), MachineVerdict::faster);
  EXPECT_EQ(verdict(0.7, 0.99), MachineVerdict::slower);
  EXPECT_EQ(verdict(0.6, 1.38), MachineVerdict::undecided);
  EXPECT_EQ(verdict(0.97, 1.04), MachineVerdict::equal);
  EXPECT_EQ(verdict_of({1.5, std::nullopt, std::nullopt, 0}, 0.05), MachineVerdict::undecided);
}

TEST(CompareMachines, TakeTheFastestExactCellOfAShape) {
  const auto cells = [](double exact, double slow, double rounded) {
    return std::vector<json>{gpu_cell("cuda_slow", kMany, 100, 2, slow),
                             gpu_cell("cuda_exact_one", kMany, 100, 2, exact),
                             gpu_cell("cuda_rounds", kMany, 100, 2, rounded, 3, false)};
  };
  const auto pair =
      compared_machines(h100(cells(0.0006, 0.0009, 0.0005)), h200(cells(0.0004, 0.0009, 0.0005)));
  ASSERT_EQ(pair.cells.size(), 3U);
  EXPECT_EQ(std::count_if(pair.cells.begin(), pair.cells.end(),
                          [](const MachineCell& cell) { return cell.fastest; }),
            1);
  EXPECT_EQ(pair.cells.front().key.variant, "cuda_exact_one");
  ASSERT_EQ(pair.groups.size(), 1U);
  EXPECT_EQ(pair.groups.front().shapes, 1U);
}

TEST(CompareMachines, CountAShapeWithoutAnExactCellToo) {
  json rounds = gpu_cell("cuda_rounds", kMany, 100, 2, 0.0006, 3, false);
  const auto pair = compared_machines(h100({rounds}), h200({rounds}));
  ASSERT_EQ(pair.groups.size(), 1U);
  EXPECT_TRUE(pair.cells.front().fastest);
  // Of other precision, but of the same points: the exact one counts.
  rounds["precision"] = "f16";
  rounds["key"] = "cuda_rounds/f16/blobs2500000x100/k2/T5/t1";
  const auto both =
      compared_machines(h100({rounds, reading(0.0009)}), h200({rounds, reading(0.0009)}));
  ASSERT_EQ(both.cells.size(), 2U);
  EXPECT_EQ(both.cells.front().key.variant, "cuda_a");
  EXPECT_EQ(both.groups.front().shapes, 1U);
}

TEST(CompareMachines, HaveNoCommonRatioForShapesOfBothKinds) {
  const auto cells = [](double first, double second) {
    return std::vector<json>{gpu_cell("cuda_a", kMany, 100, 2, first),
                             gpu_cell("cuda_a", kMany, 110, 2, second)};
  };
  const auto pair = compared_machines(h100(cells(0.0006, 0.0006)), h200(cells(0.0004, 0.0009)));
  ASSERT_EQ(pair.groups.size(), 1U);
  EXPECT_EQ(pair.groups.front().verdict, MachineVerdict::mixed);
  EXPECT_THAT(pair.sentences.front(), Says({"faster at 1 and slower at 1 of 2 shapes", "memory",
                                            "0.67", "2.5M x 110, k 2"}));
}

TEST(CompareMachines, CallAGroupEqualWhereFewShapesAreNot) {
  std::vector<json> first;
  std::vector<json> second;
  for (int i = 0; i < 14; ++i) {
    first.push_back(gpu_cell("cuda_a", kMany, 100 + i, 2, 0.0006));
    second.push_back(gpu_cell("cuda_a", kMany, 100 + i, 2,
                              i == 0   ? 0.0005
                              : i == 1 ? 0.0007
                                       : 0.0006));
  }
  const auto pair = compared_machines(h100(first), h200(second));
  ASSERT_EQ(pair.groups.size(), 1U);
  EXPECT_EQ(pair.groups.front().verdict, MachineVerdict::equal);
  EXPECT_THAT(pair.sentences.front(), Says({"equal at 12 of 14 shapes", "memory (0.86 to 1.20)"}));
}

TEST(CompareMachines, SayInTheFirstSentenceThatCommitsDiffer) {
  const auto first = h100({reading(0.0006)});
  const auto second = h200({reading(0.0004)}, "0123456789abcdef");
  EXPECT_THAT(compared_machines(first, second).sentences.front(),
              HasSubstr("commits abc against 0123456"));
  MachinesSettings settings;
  settings.same_commit = true;
  EXPECT_THROW(compared_machines(first, second, settings), InputError);
  EXPECT_NO_THROW(compared_machines(first, h200({reading(0.0004)}), settings));
}

TEST(CompareMachines, MarkCellsThatAreAnotherProgramAtAnotherCommit) {
  const auto with_bytes = [](const std::string& variant, double seconds, double bytes) {
    json cell = gpu_cell(variant, kMany, 100, 2, seconds);
    const double median = cell["seconds_per_iteration"]["median"];
    cell["gbytes_per_second"] = {{"as_written", bytes / median * 1e-9}};
    return cell;
  };
  const auto first = h100({with_bytes("cuda_a", 0.0006, 2e9), with_bytes("cuda_b", 0.0009, 2e9)});
  // cuda_a is the fastest, but moves other bytes.
  const std::vector<json> cells{with_bytes("cuda_a", 0.0003, 1e9),
                                with_bytes("cuda_b", 0.0006, 2e9)};
  const auto pair = compared_machines(first, h200(cells, "def"));
  ASSERT_EQ(pair.cells.size(), 2U);
  EXPECT_EQ(pair.cells[0].key.variant, "cuda_b");
  EXPECT_TRUE(pair.cells[0].fastest);
  EXPECT_FALSE(pair.cells[0].changed);
  EXPECT_TRUE(pair.cells[1].changed);
  ASSERT_EQ(pair.groups.size(), 1U);
  EXPECT_NEAR(pair.groups.front().speed.ratio, 1.5, 1e-9);
  EXPECT_THAT(pair.notes,
              ElementsAre(HasSubstr("on file: cuda_a (1 cell);"), HasSubstr("no hash")));
  EXPECT_THAT(machines_to_text({pair}, true), HasSubstr("cuda_a f32 (changed)"));
  EXPECT_THAT(machines_to_markdown({pair}, true), HasSubstr("a f32 (changed)"));
  const json written = machines_to_json({pair}, {}).at("pairs").at(0);
  EXPECT_EQ(written.at("cells").at(1).at("changed"), true);
  EXPECT_EQ(written.at("notes"), pair.notes);
  // By one commit it is the machine.
  const auto same = compared_machines(first, h200(cells));
  EXPECT_EQ(same.cells[0].key.variant, "cuda_a");
  EXPECT_FALSE(same.cells[0].changed);
  EXPECT_THAT(same.notes, IsEmpty());
}

TEST(CompareMachines, MarkCellsOfOtherStagesAtAnotherCommit) {
  json one = reading(0.0006);
  json other = reading(0.0004);
  one["stages"] = json::object();
  other["stages"] = {{"assign", 0.0003}};
  other["stage_samples_seconds_per_iteration"] = {{"assign", {0.0003, 0.0003, 0.0003}}};
  const auto pair = compared_machines(h100({one}), h200({other}, "def"));
  EXPECT_TRUE(pair.cells.front().changed);
  EXPECT_TRUE(pair.cells.front().fastest) << "the shape has no other cell";
  EXPECT_FALSE(compared_machines(h100({one}), h200({one}, "def")).cells.front().changed);
}

TEST(CompareMachines, CallAGroupEqualThatIsSoTogether) {
  const auto cells = [] {
    std::vector<json> wide;
    for (int i = 0; i < 6; ++i) {
      json cell = gpu_cell("cuda_a", kMany, 100 + i, 2, 0.0006);
      const std::vector<std::vector<double>> samples{{0.00057}, {0.0006}, {0.00062}};
      cell["samples_seconds_per_iteration"] = samples;
      cell["seconds_per_iteration"] = summarise_processes(samples);
      wide.push_back(cell);
    }
    return wide;
  }();
  const auto pair = compared_machines(h100(cells), h200(cells));
  ASSERT_EQ(pair.groups.size(), 1U);
  EXPECT_EQ(pair.groups.front().equal, 0U);
  EXPECT_EQ(pair.groups.front().verdict, MachineVerdict::equal);
  EXPECT_THAT(pair.sentences.front(), Says({"equal", "memory (1.00"}));
}

TEST(CompareMachines, AreLoudWhereExactAnswersDisagree) {
  json wrong = reading(0.0004);
  wrong["label_hash"] = "ffffffffffffffff";
  const auto pair = compared_machines(h100({reading(0.0006)}), h200({wrong}));
  ASSERT_EQ(pair.disagreements.size(), 1U);
  EXPECT_THAT(pair.disagreements.front(),
              Says({"0123456789abcdef on H100", "ffffffffffffffff on H200"}));
  EXPECT_THAT(pair.sentences.at(1), HasSubstr("ANSWERS DISAGREE: 1 finding"));
  EXPECT_THAT(machines_to_markdown({pair}, false), HasSubstr("**ANSWERS DISAGREE"));
  // A variant that rounds may have other bits.
  json rounds = gpu_cell("cuda_a", kMany, 100, 2, 0.0004, 3, false);
  json other = rounds;
  other["label_hash"] = "ffffffffffffffff";
  EXPECT_THAT(compared_machines(h100({rounds}), h200({other})).disagreements, IsEmpty());
}

TEST(CompareMachines, AreLoudWhereOneIsWrong) {
  json wrong = tiny(0);
  wrong["status"] = "wrong";
  wrong["reason"] = "a label";
  wrong["samples_seconds_per_iteration"] = json::array();
  for (const char* key :
       {"seconds_per_iteration", "inertia", "label_hash", "centroid_hash", "empty_clusters"}) {
    wrong[key] = nullptr;
  }
  const auto one = [&](bool first_is_wrong) {
    const std::vector<json> broken{reading(0.0004), wrong};
    const std::vector<json> right{reading(0.0004), tiny(1e-5)};
    return compared_machines(h100(first_is_wrong ? broken : right),
                             h200(first_is_wrong ? right : broken));
  };
  for (const bool first : {true, false}) {
    const auto pair = one(first);
    EXPECT_EQ(pair.disagreements.size(), 1U) << first;
    EXPECT_EQ(pair.untimed, 1U);
  }
}

TEST(CompareMachines, CountWhatOnlyOneHas) {
  const auto pair = compared_machines(h100({reading(0.0006), tiny(1e-5)}),
                                      h200({reading(0.0004), multiplying(0.001)}));
  EXPECT_EQ(pair.cells.size(), 1U);
  EXPECT_EQ(pair.first_alone, 1U);
  EXPECT_EQ(pair.second_alone, 1U);
  EXPECT_THAT(machines_to_text({pair}, false),
              Says({"1 cell", "1 on H100 alone", "1 on H200 alone"}));
  EXPECT_THROW(compared_machines(h100({reading(0.0006)}), h200({tiny(1e-5)})), InputError);
}

TEST(CompareMachines, TakeAnyNumberAgainstTheFirst) {
  const auto third = machine("results/c", "NVIDIA A100-SXM4-40GB", 1000, {reading(0.0012)});
  const auto pairs =
      compare_machines({h100({reading(0.0006)}), h200({reading(0.0004)}), third}, {});
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[1].second.at("name"), "A100-SXM4-40GB");
  EXPECT_EQ(pairs[1].cells.front().verdict, MachineVerdict::slower);
  const json written = machines_to_json(pairs, {});
  EXPECT_EQ(written.at("machines_version"), 1);
  EXPECT_EQ(written.at("pairs").size(), 2U);
}

TEST(CompareMachines, SpeakOfTheProcessorsApart) {
  json processor = gpu_cell("cpu_a", 1000, 10, 4, 0.01);
  processor["gpu"] = nullptr;
  const auto both =
      compared_machines(h100({reading(0.0006), processor}), h200({reading(0.0006), processor}));
  EXPECT_THAT(both.sentences.front(), Says({"equal", "memory"}));
  EXPECT_THAT(both.sentences.back(), Says({"processors", "equal", "limit"}));
  const auto alone = compared_machines(h100({processor}), h200({processor}));
  EXPECT_THAT(alone.sentences.front(), Says({"The H200, against the H100", "equal", "limit"}));
}

TEST(CompareMachines, GoByTheirLabelsWhereTheGpuIsTheSame) {
  const auto other = machine("results/b", "NVIDIA H100 80GB HBM3", 2000, {reading(0.0006)});
  const auto pair = compared_machines(h100({reading(0.0006)}), other);
  EXPECT_EQ(pair.second.at("name"), "results/b");
  EXPECT_THAT(pair.sentences.front(), Says({"results/b, against results/a", "equal"}));
}

}  // namespace
}  // namespace kmeans
