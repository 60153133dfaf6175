// SPDX-License-Identifier: Apache-2.0
#include "harness/run/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/variants/registry.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json description() {
  return json::parse(R"({
    "name": "demo",
    "title": "Demo",
    "data": {"generator": "uniform", "seed": 1},
    "init": "random:1",
    "variants": ["reference"],
    "scales": {"quick": {"sweep": {"n": [100, 200], "d": [2], "k": [3, 150]}, "iterations": 4}},
    "traces": [{"name": "path", "variant": "reference", "n": 50, "d": 2, "k": 4, "iterations": 3}]
  })");
}

PlanOptions roomy() {
  PlanOptions options;
  options.threads = 2;
  options.memory_bytes = 1e12;
  return options;
}

Plan plan(const json& value, const PlanOptions& options = roomy()) {
  return plan_experiment(parse_experiment(parse_json(value.dump(1), "demo.json")), options);
}

TEST(Plan, ExpandsShapesTimesVariants) {
  const Plan result = plan(description());
  ASSERT_EQ(result.cells.size(), 4U);
  const Cell& first = result.cells.front();
  EXPECT_EQ(first.key.text(), "reference/f32/" + first.task.label + "/k3/T4/t1");
  EXPECT_EQ(first.backend, "cpu");
  EXPECT_TRUE(first.exact);
  EXPECT_EQ(first.task.shape.n, 100);
  EXPECT_EQ(first.sampling.processes, 3);
  EXPECT_THAT(first.skip_reason, IsEmpty());
  ASSERT_EQ(result.traces.size(), 1U);
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST(Plan, SkipsMoreClustersThanPoints) {
  const Plan result = plan(description());
  EXPECT_EQ(result.cells[1].task.shape.k, 150);
  EXPECT_THAT(result.cells[1].skip_reason, HasSubstr("n = 100"));
  EXPECT_THAT(result.cells[3].skip_reason, IsEmpty());
}

TEST(Plan, SkipsWhatDoesNotFitWithNeedAndHave) {
  PlanOptions options = roomy();
  options.memory_bytes = 100;
  const Plan result = plan(description(), options);
  EXPECT_THAT(result.cells[0].skip_reason, HasSubstr("needs "));
  EXPECT_THAT(result.cells[0].skip_reason, HasSubstr("has 100 B"));
  EXPECT_THAT(result.traces[0].skip_reason, HasSubstr("needs "));
}

// Every thread of openmp_exact has sums of its own: 8 k d bytes and some.
TEST(Plan, MemoryIsThatOfTheThreadsOfTheCell) {
  json value = description();
  const std::string name = "openmp_exact";
  if (find_variant(name) == nullptr) GTEST_SKIP() << "no OpenMP in this build";
  value["variants"] = json::array({{{"variant", name}, {"threads", 1}},
                                   {{"variant", name}, {"threads", 32}},
                                   {{"variant", name}, {"threads", 3000}}});
  value["scales"]["quick"]["sweep"] = json::array({{{"n", 100000}, {"d", 64}, {"k", 1000}}});
  value["traces"] = json::array({{{"name", "wide"},
                                  {"variant", name},
                                  {"threads", 32},
                                  {"n", 100000},
                                  {"d", 64},
                                  {"k", 1000},
                                  {"iterations", 3}}});
  PlanOptions options = roomy();
  options.memory_bytes = 75e6;  // points and their packed copy take 51 MB, the sums of a thread 0.5
  const Plan result = plan(value, options);
  ASSERT_EQ(result.cells.size(), 3U);
  EXPECT_THAT(result.cells[0].skip_reason, IsEmpty());
  EXPECT_THAT(result.cells[1].skip_reason, IsEmpty());
  EXPECT_THAT(result.cells[2].skip_reason, HasSubstr("of memory, has 71.5 MiB"));
  EXPECT_THAT(result.traces[0].skip_reason, IsEmpty());
}

TEST(Plan, PointsBeyondMemoryAreStreamedWhereTheDiskHoldsThem) {
  json value = description();
  if (find_variant("openmp_blocks") == nullptr) GTEST_SKIP() << "no OpenMP in this build";
  value["variants"] = json::array({{{"variant", "openmp_blocks"}},
                                   {{"variant", "openmp_exact"}},
                                   {{"variant", "openmp_blocks"}, {"threads", 1}, {"ranks", 2}}});
  value["scales"]["quick"]["sweep"] = json::array({{{"n", 100000000}, {"d", 32}, {"k", 8}}});
  PlanOptions options = roomy();
  options.memory_bytes = 4e9;  // points take 12.8 GB, labels of variant and verifier 1.6
  const Plan result = plan(value, options);
  ASSERT_EQ(result.cells.size(), 3U);
  EXPECT_THAT(result.cells[0].skip_reason, IsEmpty());
  EXPECT_TRUE(result.cells[0].task.beyond_memory);
  EXPECT_THAT(result.cells[1].skip_reason, HasSubstr("of memory, has 3.73 GiB"));
  EXPECT_FALSE(result.cells[1].task.beyond_memory);
  EXPECT_THAT(result.cells[2].skip_reason, testing::Not(IsEmpty()));
  options.problem_with_mapping = [](const DatasetSpec&, double bytes) {
    return bytes == 12.8e9 ? "the disk is full" : "";
  };
  EXPECT_EQ(plan(value, options).cells[0].skip_reason, "the disk is full");
  options.memory_bytes = 1e9;
  EXPECT_THAT(plan(value, options).cells[0].skip_reason, HasSubstr("of memory, has 954 MiB"));
  options.memory_bytes = 1e11;
  EXPECT_FALSE(plan(value, options).cells[0].task.beyond_memory);
}

TEST(Plan, ShapesBeyondAllMemoryAreSkippedNotAllocated) {
  json value = description();
  value["scales"]["quick"]["sweep"] = json::array({{{"n", 1000000000000}, {"d", 1000}, {"k", 8}}});
  EXPECT_THAT(plan(value).cells[0].skip_reason, HasSubstr("needs "));
}

TEST(Plan, SkipsPrecisionsThatAVariantDoesNotTake) {
  json value = description();
  value["variants"] = json::array({{{"variant", "reference"}, {"precision", "bf16"}}});
  const Plan result = plan(value);
  EXPECT_THAT(result.cells[0].skip_reason, HasSubstr("not bf16"));
}

TEST(Plan, StarStandsForAllThatTakeTheShape) {
  json value = description();
  value["variants"] = {"*", "reference"};
  value["scales"]["quick"]["sweep"] = json::array({{{"n", 100}, {"d", 2}, {"k", 3}}});
  const Plan result = plan(value);
  EXPECT_GE(result.cells.size(), 1U);
  EXPECT_LE(result.cells.size(), all_variants().size());
  EXPECT_THAT(result.warnings, IsEmpty());  // "*" and a name may overlap
  value["variants"] = json::array({{{"variant", "*"}, {"precision", "bf16"}}});
  EXPECT_THAT(plan(value).cells, IsEmpty());
}

TEST(Plan, TwiceTheSameRunsOnceAndSaysSo) {
  json value = description();
  value["variants"] = {"reference", {{"variant", "reference"}, {"precision", "f32"}}};
  const Plan result = plan(value);
  EXPECT_EQ(result.cells.size(), 4U);
  ASSERT_EQ(result.warnings.size(), 4U);
  EXPECT_THAT(result.warnings[0], HasSubstr("asked for twice"));
}

TEST(Plan, SingleThreadedVariantsRecordOneThread) {
  json value = description();
  value["variants"] = json::array({{{"variant", "reference"}, {"threads", 2}}});
  EXPECT_EQ(plan(value).cells[0].key.threads, 1);
}

TEST(Plan, AVariantIsLeftOutOfShapesThatTheExperimentThinksTooLargeForIt) {
  json value = description();
  value["variants"] = json::array({{{"variant", "reference"}, {"at_most_nkd", 1}}, "cpu_naive"});
  value["scales"]["quick"]["sweep"]["k"] = {3};
  const auto cells = plan(value).cells;
  ASSERT_FALSE(cells.empty());
  for (const auto& cell : cells) {
    if (cell.key.variant == "reference") {
      EXPECT_THAT(cell.skip_reason, HasSubstr("left out by the experiment: n k d = "));
      EXPECT_THAT(cell.skip_reason, HasSubstr("is more than 1"));
    } else {
      EXPECT_EQ(cell.skip_reason, "");
    }
  }
}

TEST(Plan, ManyCellsNeedAYes) {
  json value = description();
  json many = json::array();
  for (int n = 1; n <= 5001; ++n) many.push_back(n + 10);
  value["scales"]["quick"]["sweep"] = {{"n", many}, {"d", {1}}, {"k", {1}}};
  EXPECT_THAT(test::message_of([&] { plan(value); }),
              AllOf(HasSubstr("5 001 cells"), HasSubstr("--yes")));
  PlanOptions options = roomy();
  options.allow_many = true;
  EXPECT_EQ(plan(value, options).cells.size(), 5001U);
}

TEST(Plan, WrongDataIsRefusedWithItsPlace) {
  json value = description();
  value["data"]["sead"] = 3;
  EXPECT_THAT(test::message_of([&] { plan(value); }),
              AllOf(HasSubstr("demo.json:"), HasSubstr("sead")));
}

TEST(Plan, OverridesReplaceProcessesAndRepetitions) {
  PlanOptions options = roomy();
  options.processes = 7;
  options.repetitions = 9;
  const Plan result = plan(description(), options);
  EXPECT_EQ(result.cells[0].sampling.processes, 7);
  EXPECT_EQ(result.cells[0].sampling.repetitions, 9);
}

TEST(Plan, DataFilesGiveTheirOwnSize) {
  json value = description();
  value["data"] = {{"file", "/data/x.npy"}};
  value["scales"]["quick"]["sweep"] = {{"k", {3}}};
  value.erase("traces");
  PlanOptions options = roomy();
  options.size_of_file = [](const DatasetSpec&) {
    return std::pair<std::int64_t, std::int64_t>{40, 6};
  };
  const Plan result = plan(value, options);
  EXPECT_EQ(result.cells[0].task.shape.n, 40);
  EXPECT_EQ(result.cells[0].task.shape.d, 6);
}

TEST(Select, MatchesKeysTracesAndTheExperiment) {
  Plan whole = plan(description());
  EXPECT_EQ(select(whole, "demo", Pattern("k150")), 2U);
  EXPECT_FALSE(whole.cells[0].selected);
  EXPECT_TRUE(whole.cells[1].selected);
  EXPECT_FALSE(whole.traces[0].selected);
  EXPECT_EQ(select(whole, "demo", Pattern("^path$")), 1U);
  EXPECT_TRUE(whole.traces[0].selected);
  EXPECT_EQ(select(whole, "demo", Pattern("^demo$")), 5U);
  EXPECT_EQ(select(whole, "demo", Pattern("nothing")), 0U);
}

}  // namespace
}  // namespace kmeans
