// SPDX-License-Identifier: Apache-2.0
//
// Exports against what their readers need; compare.py itself runs in tests/python/test_export.py.
#include "harness/compare/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/support/errors.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using nlohmann::json;
using testing::HasSubstr;

CellResult cell_of(const std::string& variant, std::vector<std::vector<double>> samples) {
  CellResult cell;
  cell.key = {variant, "uniform-100x2-s1", {100, 2, 4, Precision::f32}, 5, 1};
  cell.backend = "cpu";
  cell.status = "ok";
  cell.samples = std::move(samples);
  cell.median = 0.002;
  cell.gflops = 1.5;
  cell.compulsory_gbytes_per_second = 3.0;
  cell.data = {{"seconds_per_iteration", {{"ci95_low", 0.001}, {"ci95_high", 0.004}}}};
  return cell;
}

CellResult failed_cell(const std::string& status) {
  CellResult cell = cell_of("cpu_" + status, {});
  cell.status = status;
  cell.reason = "why, \"exactly\"";
  cell.median.reset();
  cell.gflops.reset();
  cell.compulsory_gbytes_per_second.reset();
  cell.data = json::object();
  return cell;
}

ResultFile file_of(const std::string& experiment, std::vector<CellResult> cells) {
  ResultFile file;
  file.path = experiment + ".json";
  file.experiment = experiment;
  file.scale = "quick";
  file.complete = true;
  file.machine = "xeon-2core-avx512";
  file.context = {
      {"started", "2026-11-21T08:40:00Z"},
      {"suite", {{"version", "0.1.0"}, {"git_commit", "abc"}, {"build_type", "Release"}}},
      {"machine",
       {{"cpu",
         {{"logical_cores", 2},
          {"caches", json::array({{{"bytes", 32768},
                                   {"level", 1},
                                   {"shared_by_threads", 2},
                                   {"type", "data"}}})}}}}}};
  file.cells = std::move(cells);
  return file;
}

std::vector<ResultFile> two_experiments() {
  return {file_of("first", {cell_of("cpu_naive", {{0.001, 0.003}, {0.002}}), failed_cell("wrong"),
                            failed_cell("skipped"), failed_cell("error")}),
          file_of("second", {cell_of("cpu_naive", {{0.002}}), cell_of("cpu_simd", {{0.001}})})};
}

TEST(Export, GoogleFormHasARowASample) {
  const Export exported = export_results(two_experiments(), ExportFormat::google_benchmark, "");
  const json document = json::parse(exported.text);
  EXPECT_EQ(document.at("context").at("json_schema_version"), 1);
  EXPECT_EQ(document.at("context").at("host_name"), "xeon-2core-avx512");
  EXPECT_EQ(document.at("context").at("num_cpus"), 2);
  EXPECT_EQ(document.at("context").at("caches").at(0).at("type"), "Data");
  EXPECT_EQ(exported.cells, 3U);

  const std::string name = "first/cpu_naive/f32/uniform-100x2-s1/k4/T5/t1";
  std::vector<double> samples;
  for (const auto& row : document.at("benchmarks")) {
    for (const char* key :
         {"name", "run_name", "run_type", "repetitions", "threads", "iterations", "family_index",
          "per_family_instance_index", "real_time", "cpu_time", "time_unit"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row.at("time_unit"), "ns");
    if (row.at("run_name") != name) continue;
    EXPECT_EQ(row.at("run_type"), "iteration");
    EXPECT_EQ(row.at("name"), name);
    EXPECT_EQ(row.at("repetition_index"), samples.size());
    EXPECT_EQ(row.at("repetitions"), 3);
    samples.push_back(row.at("real_time"));
  }
  EXPECT_EQ(samples, (std::vector<double>{1e6, 3e6, 2e6}));  // 1, 3 and 2 ms
  EXPECT_EQ(exported.omitted,
            (std::map<std::string, std::size_t>{{"error", 1}, {"skipped", 1}, {"wrong", 1}}));
}

TEST(Export, GoogleFormNumbersFamiliesAndTheirMembers) {
  auto other = cell_of("cpu_naive", {{0.001}});
  other.key.threads = 10;
  const Export exported = export_results(
      {file_of("first", {cell_of("cpu_naive", {{0.001}}), cell_of("cpu_simd", {{0.001}}), other})},
      ExportFormat::google_benchmark, "");
  std::vector<std::pair<int, int>> indices;
  const json document = json::parse(exported.text);
  for (const auto& row : document.at("benchmarks")) {
    indices.emplace_back(row.at("family_index"), row.at("per_family_instance_index"));
  }
  EXPECT_EQ(indices, (std::vector<std::pair<int, int>>{{0, 0}, {1, 0}, {0, 1}}));
}

TEST(Export, GoogleFormSaysWhatIsNotForPublication) {
  const auto context = [](const std::vector<ResultFile>& files) {
    return json::parse(export_results(files, ExportFormat::google_benchmark, "").text)
        .at("context");
  };
  auto files = two_experiments();
  EXPECT_FALSE(context(files).contains("not_for_publication"));
  files[0].context["suite"]["git_dirty"] = true;
  EXPECT_EQ(context(files).at("not_for_publication"),
            json::array({"first: built from a modified tree"}));
}

TEST(Export, UnsteadyCellsHaveNoNumber) {
  auto unsteady = cell_of("cpu_simd", {{0.0001}, {0.01}});
  unsteady.unsteady = {"its processes disagree"};
  const std::vector<ResultFile> files{
      file_of("first", {cell_of("cpu_naive", {{0.002}}), unsteady})};
  const Export exported = export_results(files, ExportFormat::google_benchmark, "");
  EXPECT_EQ(exported.cells, 1U);
  EXPECT_EQ(exported.omitted.at("ok, but unsteady"), 1U);
  EXPECT_THAT(exported.text, ::testing::Not(HasSubstr("cpu_simd")));
  const Export table = export_results(files, ExportFormat::csv, "cpu_simd");
  EXPECT_THAT(table.text, HasSubstr(",ok,,,,,2,2,,,"));
  EXPECT_THAT(table.text, HasSubstr("its processes disagree"));
  EXPECT_EQ(table.unsteady, 1U);
}

TEST(Export, CsvKeepsFailedCellsWithoutNumbers) {
  const Export exported = export_results(two_experiments(), ExportFormat::csv, "wrong|cpu_simd");
  std::vector<std::string> lines;
  std::istringstream stream(exported.text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], HasSubstr("seconds_per_iteration,ci95_low,ci95_high"));
  EXPECT_THAT(lines[1], HasSubstr("wrong,\"why, \"\"exactly\"\"\",,,,0,0,,,"));
  EXPECT_THAT(lines[2], HasSubstr("ok,,0.002,0.001,0.004,1,1,1.5,3.0"));
}

TEST(Export, CsvFieldsNeverAreFormulas) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field(""), "");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"x\""), "\"say \"\"x\"\"\"");
  for (const char* formula : {"=1+1", "+1", "-1", "@SUM(A1)"}) {
    EXPECT_EQ(csv_field(formula), std::string("'") + formula);
  }
  EXPECT_EQ(csv_field("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
  // What stands before the sign does not help: spreadsheets trim it, too.
  EXPECT_EQ(csv_field("\t=1"), "\"' =1\"");
  EXPECT_EQ(csv_field("two\r\nlines\x1b[31m"), "two  lines [31m");
  EXPECT_EQ(csv_field("broken \xff"), "broken \xEF\xBF\xBD");
}

TEST(Export, HostileNamesStayValidJson) {
  auto file = file_of("first", {cell_of("cpu_naive", {{0.002}})});
  file.machine = "host\xff";
  file.cells[0].key.dataset += "\xC3";
  export_results({file}, ExportFormat::csv, "");
  const auto exported = export_results({file}, ExportFormat::google_benchmark, "");
  EXPECT_TRUE(json::accept(exported.text));
}

TEST(Export, DerivedFactsAreThoseOfWholeFiles) {
  const auto file = file_of("first", {cell_of("cpu_naive", {{0.002}})});
  EXPECT_THROW(export_results({file}, ExportFormat::derived, "cpu"), InputError);
}

TEST(Export, OnlyNarrowsByKeyOrExperiment) {
  EXPECT_EQ(export_results(two_experiments(), ExportFormat::google_benchmark, "^second$").cells,
            2U);
  EXPECT_EQ(export_results(two_experiments(), ExportFormat::google_benchmark, "cpu_naive").cells,
            2U);
  EXPECT_THROW(export_results(two_experiments(), ExportFormat::csv, "nobody"), InputError);
  EXPECT_THROW(export_results(two_experiments(), ExportFormat::csv, "("), InputError);
}

TEST(Export, RefusesWhatItsReaderWouldMistake) {
  const auto refusal = [](const std::vector<ResultFile>& files) {
    return test::message_of([&] { export_results(files, ExportFormat::google_benchmark, ""); });
  };
  auto there = file_of("second", {cell_of("cpu_naive", {{0.002}})});
  there.machine = "elsewhere";
  const auto here = file_of("first", {cell_of("cpu_naive", {{0.002}})});
  EXPECT_THAT(refusal({here, there}), HasSubstr("two machines"));
  EXPECT_THAT(refusal({here, here}), HasSubstr("two cells are called"));
  EXPECT_THAT(refusal({file_of("first", {failed_cell("error")})}), HasSubstr("none is ok"));
  EXPECT_THAT(refusal({file_of("first", {})}), HasSubstr("hold no cells"));
  EXPECT_THROW(parse_export_format("json"), InputError);
  // A table may hold several machines: it has a column for them.
  EXPECT_EQ(export_results({here, there}, ExportFormat::csv, "").cells, 2U);
}

}  // namespace
}  // namespace kmeans
