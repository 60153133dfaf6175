// SPDX-License-Identifier: Apache-2.0
//
// How studies are found, run and kept; what they find is tested in studies_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "harness/run/study_job.h"
#include "harness/study.h"
#include "harness/support/errors.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

StudyOutput echo(const StudyInput& input) {
  StudyOutput output;
  if (input.parameters.contains("rows")) {
    for (const auto& row : input.parameters.at("rows")) output.rows.push_back(row);
  }
  output.findings = {{"n", input.n}, {"threads", input.threads}};
  output.notes = {"said back"};
  output.wrong = input.parameters.value("wrong", "");
  return output;
}

StudyOutput sum_first_row(const StudyInput& input) {
  StudyOutput output;
  double sum = 0;
  for (std::int64_t t = 0; t < input.d; ++t) sum += static_cast<double>(input.points[t]);
  output.findings = {{"sum", sum}};
  return output;
}

const detail::StudyRegistration register_echo{
    Study{.name = "test_echo", .summary = "gives back what it gets", .source = "", .run = echo}};
const detail::StudyRegistration register_sum{Study{.name = "test_with_data",
                                                   .summary = "adds up a row",
                                                   .source = "",
                                                   .needs_data = true,
                                                   .run = sum_first_row}};

TEST(StudyRegistry, IsSortedAndEveryStudySaysWhatItAsks) {
  const auto& studies = all_studies();
  ASSERT_GE(studies.size(), 2U);
  for (std::size_t i = 0; i < studies.size(); ++i) {
    EXPECT_FALSE(studies[i].summary.empty()) << studies[i].name;
    if (i > 0) {
      EXPECT_LT(studies[i - 1].name, studies[i].name);
    }
  }
}

TEST(StudyRegistry, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_THAT(test::message_of([] { require_study("test_eco"); }), HasSubstr("test_echo"));
}

TEST(RunStudy, HandsOutRowsFindingsAndNotes) {
  StudyJob job;
  job.study = "test_echo";
  job.threads = 3;
  job.parameters = {{"rows", {{{"a", 1}, {"b", "x"}}, {{"a", 2}, {"b", nullptr}}}}};
  const json result = run_study(study_job_from_json(to_json(job)));
  EXPECT_EQ(result.at("status"), "ok");
  EXPECT_TRUE(result.at("reason").is_null());
  EXPECT_EQ(result.at("rows"), job.parameters.at("rows"));
  EXPECT_EQ(result.at("findings").at("threads"), 3);
  EXPECT_EQ(result.at("findings").at("n"), 0);
  EXPECT_EQ(result.at("notes").at(0), "said back");
  EXPECT_GE(result.at("seconds").get<double>(), 0);
}

TEST(RunStudy, AContradictionIsWrongWithItsReason) {
  StudyJob job;
  job.study = "test_echo";
  job.parameters = {{"wrong", "one is not two"}};
  const json result = run_study(job);
  EXPECT_EQ(result.at("status"), "wrong");
  EXPECT_EQ(result.at("reason"), "one is not two");
}

TEST(RunStudy, RefusesNestedRowsAndMissingData) {
  StudyJob job;
  job.study = "test_echo";
  job.parameters = {{"rows", {{{"a", {1, 2}}}}}};
  EXPECT_THROW(run_study(job), std::logic_error);
  job.study = "test_with_data";
  EXPECT_THROW(run_study(job), InputError);
}

TEST(StudyWorker, AFailureLeavesNoResult) {
  const auto folder = std::filesystem::temp_directory_path();
  EXPECT_EQ(run_study_worker((folder / "no-such-study-job.json").string(),
                             (folder / "no-such-study-result.json").string()),
            1);
  EXPECT_FALSE(std::filesystem::exists(folder / "no-such-study-result.json"));
}

}  // namespace
}  // namespace kmeans
