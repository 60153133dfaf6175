// SPDX-License-Identifier: Apache-2.0
#include "harness/record/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/support/errors.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

json small_file() {
  return json::parse(R"({
 "schema_version": 2, "experiment": "small", "scale": "quick", "complete": true,
 "planned_cells": 1,
 "context": {
  "suite": {"version": "0.1.0", "git_commit": "abc", "git_dirty": false, "build_type": "Release",
            "sanitizers": "", "compiler": "GNU", "variant_flags": "", "march": "native",
            "cuda": ""},
  "command_line": "kmeans-bench run small", "started": "2026-01-01T00:00:00Z", "finished": null,
  "machine": {"id": "m", "cpu": {"model": "c", "usable_threads": 2}, "memory": {}, "gpus": [],
              "os": {}, "libraries": {}},
  "ceilings": null,
  "environment": {"variables": {}, "neutralised": [], "warnings": []},
  "threads": 2, "datasets": {}, "seeds": {}, "run_order": []},
 "spec": {"name": "small", "title": "t"},
 "cells": [{
  "key": "cpu_naive/f32/blobs/k4/T5/t1", "experiment": "small", "variant": "cpu_naive",
  "backend": "cpu", "dataset": "blobs", "n": 100, "d": 2, "k": 4, "precision": "f32",
  "exact": false, "threads": 1, "init": "random:1", "iterations": 5, "status": "ok",
  "reason": null, "samples_seconds_per_iteration": [[1.0, 3.0], [2.0]],
  "seconds_per_iteration": {"median": 2.0}, "gflops": 1.704e-6,
  "gbytes_per_second": {"compulsory": 6.32e-7, "as_written": null}, "unsteady": [],
  "noted": ["busy"],
  "inertia": 12.5, "label_hash": "0123456789abcdef", "centroid_hash": null,
  "empty_clusters": 0, "verification": {"passed": true}}],
 "traces": []})");
}

/// The same with all that is formed from samples.
json whole_file() {
  json file = small_file();
  json& cell = file["cells"][0];
  cell.update(json::parse(R"({
    "samples_seconds_per_iteration": [[1.0, 3.0], [2.0, 2.0], [2.0, 8.0]],
    "seconds_per_iteration": {"median": 2.0, "ci95_low": 1.0, "ci95_high": 8.0, "min": 1.0,
                              "max": 8.0, "p25": 2.0, "p75": 2.75, "mean": 3.0},
    "processes": 3, "repetitions": 2, "noted": [],
    "gflops_2nkd": 8e-7, "setup_seconds": 0.5,
    "whole_call_seconds": {"1": 2.5, "20": 40.5, "300": 600.5},
    "stages": {"assign": 1.5, "update": 0.25},
    "stage_samples_seconds_per_iteration": {"assign": [1.25, 1.5, 9.0], "update": [0.25]}})"));
  file["traces"] = json::parse(R"([{"name": "end", "status": "ok", "iterations": [{}, {}],
    "seconds_per_iteration": 1.5, "runs_seconds": [[2.0, 3.0], [4.0]]}])");
  return file;
}

/// With the rates of the models: 3408 operations and 1264 bytes.
void set_median(json& cell, double seconds) {
  cell["seconds_per_iteration"]["median"] = seconds;
  cell["gflops"] = 3408e-9 / seconds;
  cell["gbytes_per_second"]["compulsory"] = 1264e-9 / seconds;
}

ResultFile parsed(const json& file) { return parse_result_file(file.dump(1), "r.json"); }

std::string complaint(const json& file) {
  return test::message_of([&] { parsed(file); });
}

TEST(ResultFileReader, KnowsThePaceOfEveryProcessOrOfNone) {
  json file = small_file();
  EXPECT_THAT(parsed(file).cells.at(0).paces, IsEmpty());
  json& pace = file["cells"][0]["pace"];
  pace = {{"best_seconds", 2e-4}, {"ratios", {1.0, 1.5}}, {"retries", 2}};
  EXPECT_THAT(parsed(file).cells.at(0).paces, ElementsAre(2e-4, DoubleEq(3e-4)));
  pace["ratios"] = {1.0, nullptr};
  EXPECT_THAT(parsed(file).cells.at(0).paces, IsEmpty());
  pace["ratios"] = {1.0};
  EXPECT_THAT(complaint(file), HasSubstr("ratios: one number a process is wanted, 2"));
  pace["ratios"] = {1.0, -1.0};
  EXPECT_THAT(complaint(file), HasSubstr("-1.0 must be a positive number"));
  pace = {{"best_seconds", 1e300}, {"ratios", {1e9, 1.0}}, {"retries", 0}};
  EXPECT_THAT(complaint(file), HasSubstr("ratios/0: times best_seconds is not a time"));
  pace["best_seconds"] = 0;
  EXPECT_THAT(complaint(file), HasSubstr("0 must be a positive number"));
}

TEST(ResultFileReader, GivesTheCellsTyped) {
  const ResultFile file = parsed(small_file());
  EXPECT_EQ(file.experiment, "small");
  EXPECT_EQ(file.scale, "quick");
  EXPECT_TRUE(file.complete);
  EXPECT_EQ(file.machine, "m");
  EXPECT_TRUE(file.studies.is_array()) << "absent in older files";
  ASSERT_EQ(file.cells.size(), 1U);
  const CellResult& cell = file.cells[0];
  EXPECT_EQ(cell.key.text(), "cpu_naive/f32/blobs/k4/T5/t1");
  EXPECT_EQ(cell.key.shape.n, 100);
  EXPECT_EQ(cell.key.iterations, 5);
  EXPECT_EQ(cell.samples, (std::vector<std::vector<double>>{{1, 3}, {2}}));
  EXPECT_EQ(cell.median, 2.0);
  EXPECT_EQ(cell.gflops, 1.704e-6);
  EXPECT_EQ(cell.compulsory_gbytes_per_second, 6.32e-7);
  EXPECT_EQ(cell.inertia, 12.5);
  EXPECT_EQ(cell.label_hash, "0123456789abcdef");
  EXPECT_FALSE(cell.centroid_hash.has_value());
  EXPECT_EQ(cell.empty_clusters, 0);
  EXPECT_EQ(cell.noted, (std::vector<std::string>{"busy"}));
  EXPECT_THAT(cell.unsteady, IsEmpty());
  EXPECT_EQ(cell.data.at("exact"), false);
}

TEST(ResultFileReader, ReadsEveryCommittedFile) {
  std::size_t cells = 0;
  for (const char* machine : {"nvidia-h200", "reference-epyc-2core-avx512"}) {
    for (const auto& file : load_results(fs::path(KMEANS_SOURCE_DIR) / "results" / machine)) {
      cells += file.cells.size();
      for (const auto& cell : file.cells) EXPECT_EQ(cell.status == "ok", cell.median.has_value());
    }
  }
  EXPECT_GT(cells, 1000U);
}

TEST(ResultFileReader, NamesBothVersionsOfAnotherSchema) {
  for (const int version : {1, 3}) {
    json file = small_file();
    file["schema_version"] = version;
    EXPECT_THAT(complaint(file), HasSubstr("schema version " + std::to_string(version) +
                                           ", this program reads version 2"));
  }
}

TEST(ResultFileReader, HasTheMedianOfTheProcessesAndTwoLists) {
  json file = small_file();
  json& cell = file["cells"][0];
  cell.erase("unsteady");
  EXPECT_THAT(complaint(file), HasSubstr("lacks \"unsteady\""));
  cell["unsteady"] = json::array();
  cell["samples_seconds_per_iteration"] = {{1.0, 1.0, 9.0}, {1.0, 9.0, 1.0}, {9.0, 9.0, 9.0}};
  cell["seconds_per_iteration"]["median"] = 9.0;
  EXPECT_THAT(complaint(file), HasSubstr("is not the median of the processes' medians, 1.0"));
  set_median(cell, 1.0);
  EXPECT_EQ(parsed(file).cells.at(0).median, 1.0);
  EXPECT_THAT(parsed(file).cells.at(0).noted, ElementsAre("busy"));
}

TEST(ResultFileReader, SaysWhereAndWhat) {
  const std::string text = "{\n \"schema_version\": \"one\"\n}";
  EXPECT_THAT(test::message_of([&] { parse_result_file(text, "r.json"); }),
              HasSubstr("r.json:2:2: /schema_version: \"one\""));
}

struct Damage {
  const char* name;
  const char* pointer;
  json value;
  const char* says;
};

class DamagedResultFile : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedResultFile, IsRefusedWithItsPlace) {
  json file = small_file();
  file[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_THAT(complaint(file), MatchesRegex("r\\.json:[0-9]+:[0-9]+: .*"));
  EXPECT_THAT(complaint(file), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DamagedResultFile,
    ::testing::Values(
        Damage{"Experiment", "/experiment", 3, "must be a string"},
        Damage{"Scale", "/scale", "huge", "known: quick, paper"},
        Damage{"Complete", "/complete", "yes", "true or false"},
        Damage{"Planned", "/planned_cells", 2, "holds 1 of 2 planned cells"},
        Damage{"Context", "/context", json::array(), "must be an object"},
        Damage{"Gpus", "/context/machine/gpus", json::object(), "must be a list"},
        Damage{"Dataset", "/context/datasets/x", 1, "must be an object"},
        Damage{"Cells", "/cells", json::object(), "must be a list"},
        Damage{"Cell", "/cells/0", 7, "must be an object"},
        Damage{"Key", "/cells/0/key", "cpu_naive/f32/blobs/k5/T5/t1", "does not fit"},
        Damage{"Status", "/cells/0/status", "fine", "known: ok, wrong, skipped, error"},
        Damage{"Reason", "/cells/0/reason", "but", "has no reason"},
        Damage{"NoReason", "/cells/0/status", "wrong", "must say why"},
        Damage{"Fraction", "/cells/0/n", 2.5, "must be an integer"},
        Damage{"Nothing", "/cells/0/k", 0, "0 is not within [1,"},
        Damage{"Huge", "/cells/0/n", 18446744073709551615U, "is not within [1,"},
        Damage{"Precision", "/cells/0/precision", "f8", "known: f64"},
        Damage{"NoSamples", "/cells/0/samples_seconds_per_iteration", json::array(), "no samples"},
        Damage{"FlatSamples", "/cells/0/samples_seconds_per_iteration", {1, 2}, "must be a list"},
        Damage{"EmptyProcess", "/cells/0/samples_seconds_per_iteration/0", json::array(),
               "without samples"},
        Damage{"ZeroTime", "/cells/0/samples_seconds_per_iteration/0/0", 0, "positive number"},
        Damage{"NegativeTime", "/cells/0/samples_seconds_per_iteration/0/0", -1.0, "positive"},
        Damage{"NoTime", "/cells/0/samples_seconds_per_iteration/0/0", nullptr, "a number"},
        Damage{"Median", "/cells/0/seconds_per_iteration/median", 2.1, "not the median"},
        Damage{"NoSummary", "/cells/0/seconds_per_iteration", nullptr, "missing or null"},
        Damage{"Hash", "/cells/0/label_hash", "0123456789ABCDEF", "16 hexadecimal digits"},
        Damage{"Inertia", "/cells/0/inertia", -1, "not negative"},
        Damage{"Noted", "/cells/0/noted", "busy", "must be a list"},
        Damage{"Failed", "/cells/0/verification/passed", false, "the certificate failed"},
        Damage{"Uncertified", "/cells/0/verification", nullptr, "no certificate"},
        Damage{"Traces", "/traces", 5, "must be a list"}),
    [](const auto& one) { return std::string(one.param.name); });

class ContradictoryResultFile : public ::testing::TestWithParam<Damage> {};

TEST_P(ContradictoryResultFile, IsRefusedWithBothNumbers) {
  json file = whole_file();
  ASSERT_EQ(complaint(file), "");
  file[json::json_pointer(GetParam().pointer)] = GetParam().value;
  EXPECT_THAT(complaint(file), MatchesRegex("r\\.json:[0-9]+:[0-9]+: .*"));
  EXPECT_THAT(complaint(file),
              ::testing::AnyOf(HasSubstr(": cell cpu_naive/f32/blobs/k4/T5/t1: "),
                               HasSubstr(": trace \"end\": "), HasSubstr("not negative")));
  EXPECT_THAT(complaint(file), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ContradictoryResultFile,
    ::testing::Values(
        Damage{"Median", "/cells/0/seconds_per_iteration/median", 2e-3,
               "0.002 is not the median of the processes' medians, 2.0"},
        Damage{"Min", "/cells/0/seconds_per_iteration/min", 9.0,
               "9.0 is not the min of the samples, 1.0"},
        Damage{"Max", "/cells/0/seconds_per_iteration/max", 0.5,
               "0.5 is not the max of the samples, 8.0"},
        Damage{"Mean", "/cells/0/seconds_per_iteration/mean", 2.0, "2.0 is not the mean"},
        Damage{"Quartile", "/cells/0/seconds_per_iteration/p75", 2.0, "2.0 is not the p75"},
        Damage{"Low", "/cells/0/seconds_per_iteration/ci95_low", 1.5, "1.5 is not the ci95_low"},
        Damage{"High", "/cells/0/seconds_per_iteration/ci95_high", 3.0, "3.0 is not the ci95_high"},
        Damage{"NoMin", "/cells/0/seconds_per_iteration/min", nullptr,
               "null, but its samples give a number"},
        Damage{"NoRate", "/cells/0/gflops", nullptr, "null, but its samples give a number"},
        Damage{"OneSample", "/cells/0/samples_seconds_per_iteration/2/1", 8.1, "is not the"},
        Damage{"TooFewForAnInterval",
               "/cells/0/samples_seconds_per_iteration",
               {{1.0, 3.0}, {2.0}, {2.0, 8.0}},
               ", but so few samples bound no median"},
        Damage{"Processes", "/cells/0/processes", 99,
               "99 is not the number of processes with samples, 3"},
        Damage{"Repetitions", "/cells/0/repetitions", 3, "3 is not the largest number of samples"},
        Damage{"Rate", "/cells/0/gflops", 1e9, "1000000000.0 is not nk(3d+2) + d(n+k)"},
        Damage{"Rate2nkd", "/cells/0/gflops_2nkd", 8.1e-7, "is not 2nkd over the median, 8"},
        Damage{"Bytes", "/cells/0/gbytes_per_second/compulsory", 0.5,
               "is not the compulsory traffic"},
        Damage{"Traffic", "/cells/0/gbytes_per_second/as_written", -0.5, "not negative"},
        Damage{"NegativeStage", "/cells/0/stages/update", -0.25, "not negative"},
        Damage{"Stage", "/cells/0/stages/assign", 9.0,
               "9.0 is not the median of the stage's samples, 1.5"},
        Damage{"LongStages", "/cells/0/stages/distances", 5000.0,
               "its stages take 5001.75 s, the slowest whole step 8.0 s"},
        Damage{"Setup", "/cells/0/setup_seconds", -0.5, "not negative"},
        Damage{"WholeCall", "/cells/0/whole_call_seconds/20", 20.5,
               "20.5 is not setup and 20 iterations of the median, 40.5"},
        Damage{"WholeCallOfNothing", "/cells/0/setup_seconds", nullptr, "has no setup_seconds"},
        Damage{"WholeCallUnsteady", "/cells/0/unsteady", {"its processes disagree"}, "is unsteady"},
        Damage{"Trace", "/traces/0/seconds_per_iteration", 0.15,
               "0.15 is not the median of its runs over its iterations, 1.5"},
        Damage{"TraceWithoutRuns", "/traces/0/runs_seconds", json::array(), "times without runs"},
        Damage{"TraceWithoutTime", "/traces/0/seconds_per_iteration", nullptr, "is missing"}),
    [](const auto& one) { return std::string(one.param.name); });

// Of the slowest step, 8 s, a hundred times, and a tenth of a second: that is what a pause takes, which
// would be a thousand steps of a microsecond.
TEST(ResultFileReader, AllowsStagesAPauseBeyondAHundredSteps) {
  json file = whole_file();
  auto& distances = file["/cells/0/stages/distances"_json_pointer];
  distances = 798.3;  // with the other stages 800.05
  EXPECT_EQ(complaint(file), "");
  distances = 798.5;
  EXPECT_THAT(complaint(file), HasSubstr("its stages take 800.25 s"));
}

TEST(ResultFileReader, RefusesWhatIsDerivedFromTimesThatACellHasNot) {
  json file = whole_file();
  json& cell = file["cells"][0];
  cell.update({{"status", "wrong"}, {"reason", "its labels"}});
  cell["samples_seconds_per_iteration"] = json::array();
  cell["seconds_per_iteration"] = cell["gflops"] = cell["gflops_2nkd"] = nullptr;
  const json timeless{{"gbytes_per_second", {{"compulsory", nullptr}}},
                      {"whole_call_seconds", {{"20", nullptr}}},
                      {"stages", json::object()}};
  for (const auto& item : timeless.items()) {
    EXPECT_THAT(complaint(file), HasSubstr("times and rates belong to status \"ok\" alone"));
    cell[item.key()] = item.value();
  }
  EXPECT_EQ(complaint(file), "");
  file["traces"][0].update({{"status", "wrong"}, {"reason", "its labels"}});
  EXPECT_THAT(complaint(file), HasSubstr("/traces/0/seconds_per_iteration: times belong"));
}

TEST(ResultFileReader, RefusesTimesOfACellThatIsNotOk) {
  json file = small_file();
  file["cells"][0]["status"] = "wrong";
  file["cells"][0]["reason"] = "its labels";
  EXPECT_THAT(complaint(file), HasSubstr("times belong to status \"ok\" alone"));
}

TEST(ResultFileReader, RefusesACellTwice) {
  json file = small_file();
  file["cells"].push_back(file["cells"][0]);
  file["planned_cells"] = 2;
  EXPECT_THAT(complaint(file), HasSubstr("appears twice"));
}

TEST(ResultFileReader, RefusesEveryValueOfAnotherTypeWithoutAnyOtherError) {
  // Whatever is damaged, the answer is InputError or a reading, never another exception.
  const json original = whole_file();
  const json leaves = original.flatten();
  for (const auto& item : leaves.items()) {
    for (const json& value : {json(), json(-3), json(1e300), json("x"), json::array({1}),
                              json::object({{"a", 1}}), json(true)}) {
      json file = original;
      file[json::json_pointer(item.key())] = value;
      EXPECT_NO_THROW(static_cast<void>(complaint(file))) << item.key() << " = " << value;
    }
    json file = original;
    const json::json_pointer pointer(item.key());
    file[pointer.parent_pointer()] = nullptr;
    EXPECT_NO_THROW(static_cast<void>(complaint(file))) << item.key();
  }
}

class ResultFolder : public ::testing::Test {
 protected:
  void write(const std::string& name, const json& value) const {
    std::ofstream(folder_ / name) << value.dump();
  }
  [[nodiscard]] std::string complaint() const {
    return test::message_of([&] { load_results(folder_); });
  }
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(ResultFolder, ReadsItsResultFilesByNameAndPassesOverOthers) {
  json other = small_file();
  other["experiment"] = "another";
  write("b.json", small_file());
  write("a.json", other);
  write("comparison.json", {{"comparison_version", 1}, {"cells", json::array()}});
  write("tracker.json", json::array());
  write("small.journal.jsonl", {{"kind", "header"}});
  const auto files = load_results(folder_);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].experiment, "another");
  EXPECT_EQ(files[1].experiment, "small");
  EXPECT_EQ(files[1].path, folder_ / "b.json");
}

TEST_F(ResultFolder, RefusesADamagedFileAmongGoodOnes) {
  write("a.json", small_file());
  std::ofstream(folder_ / "b.json") << small_file().dump().substr(0, 200);
  EXPECT_THAT(complaint(), HasSubstr("b.json:1:"));
}

TEST_F(ResultFolder, RefusesOneExperimentTwice) {
  write("a.json", small_file());
  write("b.json", small_file());
  EXPECT_THAT(complaint(), HasSubstr("small (quick) a second time, next to a.json"));
}

TEST_F(ResultFolder, RefusesAFolderWithoutResults) {
  write("schema.json", {{"title", "x"}});
  EXPECT_THAT(complaint(), HasSubstr("holds no result file"));
  EXPECT_THROW(load_results(folder_ / "absent"), InputError);
}

}  // namespace
}  // namespace kmeans
