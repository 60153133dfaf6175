// SPDX-License-Identifier: Apache-2.0
//
// Verdicts of `reproduce`; the command itself runs in tests/python/test_reproduce.py.
#include "harness/run/reproduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "harness/machine/machine.h"
#include "harness/support/build_info.h"

namespace kmeans {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json trace_of(std::initializer_list<double> inertias) {
  json iterations = json::array();
  for (const double inertia : inertias) {
    iterations.push_back({{"iteration", iterations.size() + 1},
                          {"inertia", inertia},
                          {"loss", inertia / 2},
                          {"movement", 0.5},
                          {"changed", 3},
                          {"empty_clusters", 0},
                          {"centroids", {{1.0, 2.0}}}});
  }
  return {{"status", "ok"}, {"iterations", iterations}, {"label_hash", "00"}};
}

TEST(Reproduce, AnswersAreComparedBitForBit) {
  CellResult recorded;
  recorded.label_hash = "aa";
  recorded.centroid_hash = "bb";
  recorded.inertia = 0.1;
  recorded.empty_clusters = 0;
  JobResult here;
  here.label_hash = "aa";
  here.centroid_hash = "bb";
  here.inertia = 0.1;
  EXPECT_THAT(differences_of(recorded, here), IsEmpty());
  here.inertia = 0.1 + 1e-16 + 1e-17;  // the next double
  EXPECT_THAT(differences_of(recorded, here), ElementsAre(HasSubstr("inertia")));
  here.inertia = 0.1;
  here.label_hash = "ab";
  here.empty_clusters = 1;
  EXPECT_THAT(differences_of(recorded, here),
              ElementsAre("labels: aa on record, ab here", "empty clusters: 0 on record, 1 here"));
}

TEST(Reproduce, AnAbsentAnswerIsNotAnAnswer) {
  CellResult recorded;
  recorded.label_hash = "aa";
  recorded.centroid_hash = "bb";
  recorded.empty_clusters = 0;
  EXPECT_THAT(absent_answers(recorded), IsEmpty());
  recorded.label_hash.reset();
  recorded.empty_clusters.reset();
  EXPECT_THAT(absent_answers(recorded),
              ElementsAre("the hash of its labels", "its empty clusters"));

  json trace = trace_of({5.0, 4.0});
  const json here = trace;
  trace["label_hash"] = nullptr;
  for (const bool promised : {true, false}) {
    const auto judgement = judge_trace(trace, here, promised);
    EXPECT_EQ(judgement.verdict, Reproduced::differs);
    EXPECT_EQ(judgement.detail, "not on record: the hash of its labels");
  }
}

TEST(Reproduce, EqualTracesAreEqual) {
  const json trace = trace_of({5.0, 4.0, 3.5});
  EXPECT_EQ(judge_trace(trace, trace, true).verdict, Reproduced::equal);
  EXPECT_EQ(judge_trace(trace, trace, false).verdict, Reproduced::equal);
}

TEST(Reproduce, AnyBitOfAPromisedTraceCounts) {
  const json trace = trace_of({5.0, 4.0, 3.5});
  for (const char* key : {"inertia", "loss", "movement", "changed", "empty_clusters"}) {
    json here = trace;
    here["iterations"][1][key] = here["iterations"][1][key].get<double>() + 1;
    const auto judgement = judge_trace(trace, here, true);
    EXPECT_EQ(judgement.verdict, Reproduced::differs) << key;
    EXPECT_THAT(judgement.detail, HasSubstr(std::string(key) + " of iteration 2"));
  }
  json here = trace;
  here["iterations"][2]["centroids"][0][1] = 2.5;
  EXPECT_THAT(judge_trace(trace, here, true).detail, HasSubstr("centroids of iteration 3"));
  here = trace;
  here["label_hash"] = "01";
  EXPECT_EQ(judge_trace(trace, here, true).verdict, Reproduced::differs);
  here = trace;
  here["iterations"].erase(2);
  EXPECT_THAT(judge_trace(trace, here, true).detail, HasSubstr("iterations: 3 on record, 2 here"));
}

TEST(Reproduce, OtherTracesAgreeWithinTheVerifiersBound) {
  const json trace = trace_of({5.0, 4.0, 3.5});
  const auto near = judge_trace(trace, trace_of({5.0, 4.0, 3.5 * 1.005}), false);
  EXPECT_EQ(near.verdict, Reproduced::agrees);
  EXPECT_THAT(near.detail, HasSubstr("inertia of iteration 3"));
  EXPECT_EQ(judge_trace(trace, trace_of({5.0, 4.0, 3.5 * 1.02}), false).verdict,
            Reproduced::differs);
  // Rounding may end a run earlier or later.
  EXPECT_EQ(judge_trace(trace, trace_of({5.0, 4.0}), false).verdict, Reproduced::agrees);
  EXPECT_EQ(judge_trace(trace, trace_of({}), false).verdict, Reproduced::differs);
}

TEST(Reproduce, InertiaThatIsRoundingAloneAgrees) {
  // Every point stands on its centroid but for rounding: ten times as much of nearly nothing.
  const json trace = trace_of({5.0, 1e-14});
  const json here = trace_of({5.0, 1e-13});
  EXPECT_EQ(judge_trace(trace, here, false).verdict, Reproduced::differs);
  const auto floor_at = [](double exact, double granted) {
    return [=] {
      InertiaFloor floor;
      floor.exact = exact;
      floor.granted = granted;
      return floor;
    };
  };
  EXPECT_EQ(judge_trace(trace, here, false, floor_at(1e-13, 1e-12)).verdict, Reproduced::agrees);
  EXPECT_EQ(judge_trace(trace, here, false, floor_at(1e-13, 1e-14)).verdict, Reproduced::differs);
  EXPECT_EQ(judge_trace(trace, here, false, floor_at(1e-15, 1e-12)).verdict, Reproduced::differs);
  // Bits were promised: no allowance.
  EXPECT_EQ(judge_trace(trace, here, true, floor_at(1e-13, 1e-12)).verdict, Reproduced::differs);
}

TEST(Reproduce, LargeCoordinatesExcuseNoOtherAnswer) {
  // 10 000 points around 10 places, all about 1e6 from the origin: rounding of float32 moves a
  // centroid by 0.06, and an answer that leaves two places in one cluster costs far more.
  const Shape shape{10000, 1, 10, Precision::f32};
  const TrajectoryScale scale{1e16, 8.25e10};  // places 1000 apart
  const InertiaFloor floor = repetition_floor(Traits{}, shape, scale, 1e6);
  EXPECT_LT(floor.granted, 1e-2 * scale.scatter * 1.001);
  EXPECT_GT(floor.granted, 1.0);
  const auto judged = [&](double recorded, double here) {
    return judge_trace(trace_of({recorded}), trace_of({here}), false, [&] { return floor; })
        .verdict;
  };
  EXPECT_EQ(judged(20, 0.5 * floor.granted), Reproduced::agrees) << "rounding of means at 1e6";
  EXPECT_EQ(judged(20, 1.5 * floor.granted), Reproduced::differs);
  // A record that is more than rounding is held to 1 % and the rounding of centroids.
  EXPECT_EQ(judged(1000, 1050), Reproduced::agrees);
  EXPECT_EQ(judged(1000, 2000), Reproduced::differs);
  EXPECT_EQ(judged(1.5 * floor.granted, 100), Reproduced::differs);
}

json study_of(json rows, json findings) {
  return {{"status", "ok"}, {"rows", std::move(rows)}, {"findings", std::move(findings)}};
}

TEST(Reproduce, StudiesAreTheSameEverywhere) {
  const json rows{{{"n", 1}, {"error", 0.5}}, {{"n", 2}, {"error", 0.25}}};
  const json study = study_of(rows, {{"largest", 0.5}});
  EXPECT_EQ(judge_study(study, study).verdict, Reproduced::equal);
  json here = study;
  here["rows"][1]["error"] = 0.125;
  EXPECT_EQ(judge_study(study, here).detail, "row 2 of 2: error: 0.25 on record, 0.125 here");
  EXPECT_EQ(judge_study(study, here).verdict, Reproduced::differs);
  here = study;
  here["findings"]["largest"] = 1.0;
  EXPECT_THAT(judge_study(study, here).detail, HasSubstr("findings: largest"));
  here = study;
  here["rows"].erase(1);
  EXPECT_EQ(judge_study(study, here).verdict, Reproduced::differs);
  here = study;
  here["status"] = "wrong";
  EXPECT_EQ(judge_study(study, here).verdict, Reproduced::differs);
}

TEST(Reproduce, RowsOfVariantsAreNotPartOfAStudysPromise) {
  const json own{{"by", "emulated"}, {"error", 0.5}};
  const json foreign{{"by", "cpu_naive"}, {"error", 0.1}};
  const json other{{"by", "cpu_naive"}, {"error", 0.2}};
  const auto judgement = judge_study(study_of({own, foreign}, {}), study_of({other, own}, {}));
  EXPECT_EQ(judgement.verdict, Reproduced::equal);
  EXPECT_THAT(judgement.detail, HasSubstr("cpu_naive"));
}

TEST(Reproduce, StudiesWithoutTimesAndRowsOfLibraries) {
  const json own{{"way", "random"}, {"library", nullptr}, {"inertia", 5}, {"seconds", 0.1}};
  const json theirs{{"way", "greedy"}, {"library", "scikit-learn"}, {"inertia", 4}, {"seconds", 9}};
  json recorded = study_of({own, theirs}, {});
  recorded["varying"] = {"seconds"};
  json here = recorded;
  here["rows"][0]["seconds"] = 0.2;
  here["rows"][1]["inertia"] = nullptr;
  const auto judgement = judge_study(recorded, here);
  EXPECT_EQ(judgement.verdict, Reproduced::equal) << judgement.detail;
  EXPECT_THAT(judgement.detail, HasSubstr("without the rows of scikit-learn"));
  here["rows"][0]["inertia"] = 6;
  EXPECT_EQ(judge_study(recorded, here).detail, "row 1 of 1: inertia: 5 on record, 6 here");
  recorded.erase("varying");  // then a time is compared as every other number
  here = recorded;
  here["rows"][0]["seconds"] = 0.2;
  EXPECT_EQ(judge_study(recorded, here).verdict, Reproduced::differs);
}

TEST(Reproduce, BuildAndMachineAreNamedWhereTheyDiffer) {
  const BuildInfo& build = build_info();
  json context{{"suite",
                {{"git_commit", build.git_commit},
                 {"git_dirty", false},
                 {"build_type", build.build_type},
                 {"sanitizers", build.sanitizers},
                 {"compiler", build.compiler},
                 {"variant_flags", build.variant_flags},
                 {"cuda", build.cuda}}},
               {"machine", machine_fingerprint()}};
  if (build.git_dirty) {
    EXPECT_THAT(surroundings_differences(context), ElementsAre("local changes here"));
  } else {
    EXPECT_THAT(surroundings_differences(context), IsEmpty());
  }
  context["suite"]["compiler"] = "none";
  context["machine"]["cpu"]["flags"] = json::array({"altivec"});
  context["machine"]["gpus"] = {{{"name", "NVIDIA Nothing"}}};
  const auto differences = surroundings_differences(context);
  EXPECT_THAT(differences, testing::Contains(HasSubstr("compiler: none on record")));
  EXPECT_THAT(differences, testing::Contains("other instruction sets"));
  EXPECT_THAT(differences, testing::Contains(HasSubstr("GPUs: NVIDIA Nothing on record")));
  // A file that says nothing promises nothing.
  EXPECT_FALSE(surroundings_differences(json::object()).empty());
}

}  // namespace
}  // namespace kmeans
