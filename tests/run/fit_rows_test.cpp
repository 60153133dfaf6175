// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fit_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kmeans {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FitCall call(double seconds, double inertia, std::int64_t seed = 1) {
  FitCall made;
  made.seed = seed;
  made.seconds = seconds;
  made.judgement.inertia = inertia;
  return made;
}

FitRow row(const std::string& name, std::vector<FitCall> calls) {
  FitRow made;
  made.estimator = name;
  made.calls = std::move(calls);
  made.import_seconds = 0.1;
  made.first_calls = {1};
  return made;
}

FitRow failed(const std::string& name, const std::string& status, const std::string& reason) {
  FitRow made = row(name, {call(0.001, 0.001)});
  made.status = status;
  made.reason = reason;
  return made;
}

std::vector<std::string> front_of(const json& result) {
  std::vector<std::string> names;
  for (const auto& one : result.at("rows")) {
    if (one.at("front") == true) names.push_back(one.at("estimator"));
  }
  return names;
}

TEST(FitRows, BestIsTheLowestInertiaOfARightAnswer) {
  FitRow quick = row("quick", {call(1, 200), call(3, 120, 2)});
  quick.first_answers = {call(9, 100, 7)};
  const json result = fit_result({quick, failed("wrong", "wrong", "labels")}, {});
  EXPECT_EQ(result.at("best").at("inertia"), 100);  // of a first call, which is an answer too
  EXPECT_EQ(result.at("best").at("seed"), 7);
  const json& own = result.at("rows").at(0);
  EXPECT_EQ(own.at("seconds"), 2);
  EXPECT_DOUBLE_EQ(own.at("excess"), 0.6);
  EXPECT_DOUBLE_EQ(own.at("excess_worst"), 1.0);
  EXPECT_EQ(own.at("near_best"), 0);
  EXPECT_TRUE(own.at("seconds_to_near_best").is_null());
  EXPECT_TRUE(own.at("seconds_low").is_null()) << "two calls bound no median";
}

TEST(FitRows, SeedingIsTakenFromTheFitsWithTheSameSeed) {
  FitRow one = row("one", {call(1, 100), call(5, 100, 2), call(9, 100, 3)});
  one.calls[0].seeding_seconds = 0.25;
  one.calls[2].seeding_seconds = 0.75;
  const json result = fit_result({one, row("other", {call(1, 100)})}, {});
  EXPECT_DOUBLE_EQ(result.at("rows").at(0).at("seeding_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(result.at("rows").at(0).at("iterating_seconds"), (0.75 + 8.25) / 2);
  EXPECT_TRUE(result.at("rows").at(1).at("seeding_seconds").is_null());
}

TEST(FitRows, WhatWasKnownBeforeCanBeTheBest) {
  FitJob job;
  job.known_inertia = 99;
  const json result = fit_result({row("one", {call(1, 100)})}, job);
  EXPECT_EQ(result.at("best").at("inertia"), 99);
  EXPECT_TRUE(result.at("best").at("estimator").is_null());
  job.known_inertia = 101;
  EXPECT_EQ(fit_result({row("one", {call(1, 100)})}, job).at("best").at("estimator"), "one");
}

TEST(FitRows, ExpectedSecondsCountTheCallsThatMissTheBest) {
  const json result = fit_result({row("lucky", {call(1, 100), call(3, 130), call(2, 100.9)}),
                                  row("sure", {call(4, 100), call(4, 100), call(4, 100)})},
                                 {});
  const json& lucky = result.at("rows").at(0);
  EXPECT_DOUBLE_EQ(lucky.at("near_best"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(lucky.at("seconds_to_near_best"), 3);
  EXPECT_EQ(lucky.at("over_quickest"), 1);
  EXPECT_DOUBLE_EQ(result.at("rows").at(1).at("over_quickest"), 4.0 / 3);
}

TEST(FitRows, TheFrontHasWhatNobodyBeats) {
  EXPECT_THAT(
      front_of(fit_result(
          {row("slow and good", {call(9, 100)}), row("beaten", {call(9.1, 101)}),
           row("quick and bad", {call(1, 150)}), row("equal but for rounding", {call(2, 100.001)})},
          {})),
      ElementsAre("quick and bad", "equal but for rounding"));
}

TEST(FitRows, WhatLeavesWorkOutsideItsClockPushesNobodyOff) {
  FitRow kept = row("kept", {call(1, 100)});
  kept.said["outside"] = "points are prepared before";
  const json result = fit_result({kept, row("whole", {call(2, 100)})}, {});
  EXPECT_THAT(front_of(result), ElementsAre("kept", "whole"));
  EXPECT_EQ(result.at("rows").at(1).at("over_quickest"), 1);
  EXPECT_EQ(result.at("rows").at(0).at("over_quickest"), 0.5);
  EXPECT_THAT(result.at("notes").at(0).get<std::string>(), HasSubstr("kept: outside the clock"));
}

TEST(FitRows, PointsThatKCentroidsHoldHaveNoExcessButInfinity) {
  const json result = fit_result({row("all", {call(2, 0)}), row("most", {call(1, 3)})}, {});
  EXPECT_EQ(result.at("rows").at(0).at("excess"), 0);
  EXPECT_TRUE(result.at("rows").at(1).at("excess").is_null());
  EXPECT_EQ(result.at("rows").at(1).at("near_best"), 0);
  EXPECT_THAT(front_of(result), ElementsAre("all", "most"));
}

TEST(FitRows, ALibrarysOwnWordIsSaidWhereItIsAnother) {
  FitRow honest = row("honest", {call(1, 100)});
  honest.calls[0].objective = 100.05;
  FitRow half = row("half", {call(1, 100)});
  half.calls[0].objective = 50;
  FitRow sampled = half;
  sampled.estimator = "sampled";
  sampled.said["objective"] = "its sample";
  const json result = fit_result({honest, half, sampled, row("silent", {call(1, 100)})}, {});
  EXPECT_THAT(
      result.at("notes"),
      ElementsAre("half reports 0.5 times the inertia of its answer.",
                  "sampled reports 0.5 times the inertia of its answer: that of its sample."));
  EXPECT_TRUE(result.at("rows").at(3).at("reported_over_inertia").is_null());
}

TEST(FitRows, AWrongAnswerDecidesTheStatusAndHasNeitherTimeNorCall) {
  const FitRow good = row("good", {call(1, 100)});
  const FitRow wrong = failed("bad", "wrong", "seed 1: labels");
  const FitRow broken = failed("broken", "error", "it died");
  const FitRow absent = failed("absent", "skipped", "not installed");
  EXPECT_EQ(fit_result({good, absent}, {}).at("status"), "ok");
  EXPECT_EQ(fit_result({good, broken}, {}).at("reason"), "broken: it died");
  const json result = fit_result({broken, good, wrong}, {});
  EXPECT_EQ(result.at("status"), "wrong");
  EXPECT_EQ(result.at("reason"), "bad: seed 1: labels");
  EXPECT_EQ(result.at("calls").size(), 1U);
  for (const auto& one : {result.at("rows").at(0), result.at("rows").at(2)}) {
    EXPECT_TRUE(one.at("seconds").is_null());
    EXPECT_TRUE(one.at("inertia").is_null());
    EXPECT_EQ(one.at("seeds"), 0);
  }
  const json nobody = fit_result({absent}, {});
  EXPECT_EQ(nobody.at("status"), "skipped");
  EXPECT_TRUE(nobody.at("best").is_null());
  EXPECT_THAT(nobody.at("calls"), IsEmpty());
}

TEST(FitRows, ARowWithoutACallIsAnError) {
  EXPECT_EQ(fit_result({row("none", {})}, {}).at("rows").at(0).at("reason"),
            "no call came to an end");
}

}  // namespace
}  // namespace kmeans
