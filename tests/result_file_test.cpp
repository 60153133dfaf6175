// SPDX-License-Identifier: Apache-2.0
#include "harness/result_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/errors.h"

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
 "schema_version": 1, "experiment": "small", "scale": "quick", "complete": true,
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
  "seconds_per_iteration": {"median": 2.0}, "gflops": 1.5,
  "gbytes_per_second": {"compulsory": 0.5, "as_written": null}, "suspect": ["busy"],
  "inertia": 12.5, "label_hash": "0123456789abcdef", "centroid_hash": null,
  "empty_clusters": 0, "verification": {"passed": true}}],
 "traces": []})");
}

ResultFile parsed(const json& file) { return parse_result_file(file.dump(1), "r.json"); }

std::string complaint(const json& file) {
  try {
    parsed(file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
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
  EXPECT_THAT(complaint(file), HasSubstr("ratios/0: times best_seconds is no time"));
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
  EXPECT_EQ(cell.key, "cpu_naive/f32/blobs/k4/T5/t1");
  EXPECT_EQ(cell.n, 100);
  EXPECT_EQ(cell.iterations, 5);
  EXPECT_EQ(cell.samples, (std::vector<std::vector<double>>{{1, 3}, {2}}));
  EXPECT_EQ(cell.median, 2.0);
  EXPECT_EQ(cell.gflops, 1.5);
  EXPECT_EQ(cell.compulsory_gbytes_per_second, 0.5);
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

TEST(ResultFileReader, NamesBothVersionsOfAnUnknownSchema) {
  json file = small_file();
  file["schema_version"] = 3;
  EXPECT_THAT(complaint(file), HasSubstr("schema version 3, this program reads versions 1 to 2"));
}

TEST(ResultFileReader, JudgesTheSpreadOfVersion1AsLaterOnesWould) {
  json file = small_file();
  json& cell = file["cells"][0];
  cell["suspect"] = {"busy", "samples spread widely: the slowest is 3.00 times the fastest"};
  EXPECT_EQ(parsed(file).cells.at(0).noted.size(), 2U);
  EXPECT_THAT(parsed(file).cells.at(0).unsteady, IsEmpty()) << "2 s and 2 s";
  cell["samples_seconds_per_iteration"] = {{1.0, 3.0}, {2.0, 2.0}, {20.0}, {30.0}};
  cell["seconds_per_iteration"]["median"] = 2.5;
  EXPECT_THAT(parsed(file).cells.at(0).unsteady,
              ElementsAre("its processes disagree: 2 processes near 2 s, 1 at 20 s, 1 at 30 s"));
}

TEST(ResultFileReader, Version2HasTheMedianOfTheProcessesAndTwoLists) {
  json file = small_file();
  file["schema_version"] = 2;
  json& cell = file["cells"][0];
  EXPECT_THAT(complaint(file), HasSubstr("lacks \"unsteady\""));
  cell.erase("suspect");
  cell["unsteady"] = json::array();
  cell["noted"] = {"busy"};
  cell["samples_seconds_per_iteration"] = {{1.0, 1.0, 9.0}, {1.0, 9.0, 1.0}, {9.0, 9.0, 9.0}};
  cell["seconds_per_iteration"]["median"] = 9.0;
  EXPECT_THAT(complaint(file), HasSubstr("is not the median of the processes' medians, 1.0"));
  cell["seconds_per_iteration"]["median"] = 1.0;
  EXPECT_EQ(parsed(file).cells.at(0).median, 1.0);
  EXPECT_THAT(parsed(file).cells.at(0).noted, ElementsAre("busy"));
}

TEST(ResultFileReader, SaysWhereAndWhat) {
  const std::string text = "{\n \"schema_version\": \"one\"\n}";
  try {
    parse_result_file(text, "r.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "r.json:2:2: /schema_version: \"one\" must be an integer");
  }
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
        Damage{"Scale", "/scale", "huge", "one of quick, paper"},
        Damage{"Complete", "/complete", "yes", "true or false"},
        Damage{"Planned", "/planned_cells", 2, "holds 1 of 2 planned cells"},
        Damage{"Context", "/context", json::array(), "must be an object"},
        Damage{"Gpus", "/context/machine/gpus", json::object(), "must be a list"},
        Damage{"Dataset", "/context/datasets/x", 1, "must be an object"},
        Damage{"Cells", "/cells", json::object(), "must be a list"},
        Damage{"Cell", "/cells/0", 7, "must be an object"},
        Damage{"Key", "/cells/0/key", "cpu_naive/f32/blobs/k5/T5/t1", "does not fit"},
        Damage{"Status", "/cells/0/status", "fine", "one of ok, wrong, skipped, error"},
        Damage{"Reason", "/cells/0/reason", "but", "has no reason"},
        Damage{"NoReason", "/cells/0/status", "wrong", "must say why"},
        Damage{"Fraction", "/cells/0/n", 2.5, "must be an integer"},
        Damage{"Nothing", "/cells/0/k", 0, "an integer from 1"},
        Damage{"Huge", "/cells/0/n", 18446744073709551615U, "must be an integer"},
        Damage{"Precision", "/cells/0/precision", "f8", "one of f64"},
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
        Damage{"Suspect", "/cells/0/suspect", "busy", "must be a list"},
        Damage{"Failed", "/cells/0/verification/passed", false, "the certificate failed"},
        Damage{"Uncertified", "/cells/0/verification", nullptr, "no certificate"},
        Damage{"Traces", "/traces", 5, "must be a list"}),
    [](const auto& one) { return std::string(one.param.name); });

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
  const json original = small_file();
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
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("result-folder-" + std::to_string(static_cast<long>(::getpid())) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const json& value) const {
    std::ofstream(folder_ / name) << value.dump();
  }
  [[nodiscard]] std::string complaint() const {
    try {
      load_results(folder_);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  fs::path folder_;
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
  EXPECT_THAT(complaint(), HasSubstr("small (quick) a second time, beside a.json"));
}

TEST_F(ResultFolder, RefusesAFolderWithoutResults) {
  write("schema.json", {{"title", "x"}});
  EXPECT_THAT(complaint(), HasSubstr("holds no result file"));
  EXPECT_THROW(load_results(folder_ / "absent"), InputError);
}

}  // namespace
}  // namespace kmeans
