// SPDX-License-Identifier: Apache-2.0
#include "harness/run/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "harness/record/agreement.h"
#include "harness/record/measures.h"
#include "harness/run/sampling.h"
#include "harness/support/json_file.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(Percentile, InterpolatesBetweenNeighbours) {
  EXPECT_EQ(percentile({1, 2, 3, 4}, 0.5), 2.5);
  EXPECT_EQ(percentile({1, 2, 3, 4, 5}, 0.5), 3);
  EXPECT_EQ(percentile({1, 2, 3, 4, 5}, 0.25), 2);
  EXPECT_EQ(percentile({1, 2}, 0.75), 1.75);
  EXPECT_EQ(percentile({7}, 0.25), 7);
  EXPECT_EQ(percentile({1, 2, 3}, 0), 1);
  EXPECT_EQ(percentile({1, 2, 3}, 1), 3);
}

TEST(MedianInterval, HasTheTabulatedRanks) {
  // Ranks of the sign-test interval at 95 %, as tables print them: with r = 1 + the largest b for
  // which the binomial probability of at most b is no more than 0.025.
  const std::vector<std::pair<int, int>> rank_of_n{{6, 1},  {7, 1},  {8, 1},   {9, 2},
                                                   {10, 2}, {11, 2}, {12, 3},  {15, 4},
                                                   {20, 6}, {25, 8}, {50, 18}, {100, 40}};
  for (const auto& [n, rank] : rank_of_n) {
    const auto interval = median_ci95(one_to(n));
    ASSERT_TRUE(interval.has_value()) << n;
    EXPECT_EQ(interval->first, rank) << n;
    EXPECT_EQ(interval->second, n + 1 - rank) << n;
  }
}

TEST(MedianInterval, DoesNotExistBelowSixSamples) {
  for (int n = 0; n < 6; ++n) EXPECT_FALSE(median_ci95(one_to(n)).has_value()) << n;
}

TEST(MedianInterval, IsFiniteForManySamples) {
  const auto interval = median_ci95(one_to(5000));
  ASSERT_TRUE(interval.has_value());
  // The normal approximation: 2500 -+ 1.96 sqrt(5000) / 2.
  EXPECT_NEAR(interval->first, 2500 - 69.3, 2);
  EXPECT_NEAR(interval->second, 2501 + 69.3, 2);
}

TEST(Summary, SortsAndKeepsTheArithmeticMean) {
  const json summary = summarise({4, 1, 3, 2, 10, 4});
  EXPECT_EQ(summary.at("median"), 3.5);
  EXPECT_EQ(summary.at("mean"), 4.0);
  EXPECT_EQ(summary.at("min"), 1.0);
  EXPECT_EQ(summary.at("max"), 10.0);
  EXPECT_EQ(summary.at("p25"), 2.25);
  EXPECT_EQ(summary.at("p75"), 4.0);
  EXPECT_EQ(summary.at("ci95_low"), 1.0);
  EXPECT_EQ(summary.at("ci95_high"), 10.0);
  EXPECT_TRUE(summarise({1, 2, 3}).at("ci95_low").is_null());
}

TEST(Models, CountOperationsAndBytes) {
  const Shape shape{1000, 3, 10, Precision::f32};
  EXPECT_EQ(operations_zechner(shape), 1000.0 * 10 * 11 + 3 * 1010.0);
  EXPECT_EQ(operations_2nkd(shape), 60000.0);
  EXPECT_EQ(compulsory_bytes(shape), 12000.0 + 4000 + 2 * 10 * 3 * 4);
  const Shape wide{1000, 3, 10, Precision::f64};
  EXPECT_EQ(compulsory_bytes(wide), 24000.0 + 4000 + 2 * 10 * 3 * 8);
  // Beyond 2^31 and 2^63 alike.
  const Shape huge{std::int64_t{1} << 40, std::int64_t{1} << 20, 1 << 20, Precision::f32};
  EXPECT_EQ(operations_2nkd(huge), std::ldexp(1.0, 81));
}

ProcessRecord first_process(const std::vector<double>& samples, double wall_seconds) {
  JobResult result;
  result.status = "ok";
  result.samples = samples;
  return {"cell", 0, result, wall_seconds, 0, 0};
}

TEST(SamplingDecision, KeepsShortCellsWhole) {
  const Sampling wanted{3, 3, 0.02, 10, 300};
  const auto decision = decide_sampling(wanted, 10, first_process({0.01, 0.01, 0.01}, 0.5));
  EXPECT_EQ(decision.processes, 3);
  EXPECT_EQ(decision.repetitions, 3);
  EXPECT_FALSE(decision.cut_short);
}

TEST(SamplingDecision, CutsRepetitionsFirstThenProcesses) {
  const Sampling wanted{3, 3, 0.02, 10, 300};
  // A repetition takes 10 x 0.12 = 1.2 s: 2.4 s are spent, 7.6 s hold 6 more; all 3 fit.
  auto decision = decide_sampling(wanted, 10, first_process({0.12, 0.12}, 4));
  EXPECT_EQ(decision.processes, 3);
  EXPECT_EQ(decision.repetitions, 3);
  EXPECT_TRUE(decision.cut_short);
  // 2 s each: 2 s are spent, 8 s hold 4 more: 2 in each of the others.
  decision = decide_sampling(wanted, 10, first_process({0.2}, 4));
  EXPECT_EQ(decision.processes, 3);
  EXPECT_EQ(decision.repetitions, 2);
  // 1 s each, of 8 processes: 9 s hold 9 more, one in each.
  const Sampling many{8, 3, 0.02, 10, 300};
  decision = decide_sampling(many, 10, first_process({0.1}, 2));
  EXPECT_EQ(decision.processes, 8);
  EXPECT_EQ(decision.repetitions, 1);
  // 2 s each: 8 s hold 4 more.
  decision = decide_sampling(many, 10, first_process({0.2}, 4));
  EXPECT_EQ(decision.processes, 5);
  EXPECT_EQ(decision.repetitions, 1);
}

TEST(SamplingDecision, LeavesNoCellToOneProcess) {
  const Sampling wanted{3, 3, 0.02, 10, 300};
  // 9.9 s each: the first one was all, but one process decides nothing.
  auto decision = decide_sampling(wanted, 10, first_process({0.99}, 20));
  EXPECT_EQ(decision.processes, 3);
  EXPECT_EQ(decision.repetitions, 1);
  EXPECT_TRUE(decision.cut_short);
  // Just above a second: a process that agrees may take less, and such cells have three.
  decision = decide_sampling(wanted, 10, first_process({1.06}, 20));
  EXPECT_EQ(decision.processes, 3);
  // Of iterations of a second and more, two have to do.
  decision = decide_sampling(wanted, 10, first_process({kAgreeingProcesses}, 20));
  EXPECT_EQ(decision.processes, 2);
  decision = decide_sampling(wanted, 10, first_process({10}, 110));
  EXPECT_EQ(decision.processes, 2);
  EXPECT_TRUE(decision.cut_short);
  // Unless fewer are asked for.
  const Sampling one{1, 3, 0.02, 10, 300};
  EXPECT_EQ(decide_sampling(one, 10, first_process({0.99}, 20)).processes, 1);
}

TEST(Stages, AreProfiledUntilTwoLongPassesAgree) {
  const auto pass = [](double assign, double update) {
    ProcessRecord record = first_process({assign + update}, 1);
    if (assign > 0) record.result.stages = {{"assign", assign}, {"update", update}};
    return record;
  };
  const auto wanted = [](const std::vector<ProcessRecord>& records) {
    std::vector<const ProcessRecord*> processes;
    for (const auto& record : records) processes.push_back(&record);
    return wants_stages(processes, 10);
  };
  EXPECT_TRUE(wanted({}));
  EXPECT_TRUE(wanted({pass(0.1, 0.01)}));
  EXPECT_FALSE(wanted({pass(0.1, 0.01), pass(0.104, 0.012)}));
  EXPECT_FALSE(wanted({pass(0.1, 0.01), pass(0.104, 0.012), pass(0, 0)}));
  // One of them was disturbed.
  EXPECT_TRUE(wanted({pass(0.1, 0.01), pass(0.115, 0.01)}));
  // Short passes cost nothing: ten iterations of 9 ms take less than a tenth of a second.
  EXPECT_TRUE(wanted({pass(0.008, 0.001), pass(0.008, 0.001)}));
  EXPECT_FALSE(wanted({pass(0.009, 0.0011), pass(0.009, 0.0011)}));
  // Of a variant without stages nobody asks again.
  EXPECT_FALSE(wanted({pass(0, 0)}));
}

TEST(SamplingDecision, GoesByTheIterationsThatALibraryRan) {
  const Sampling wanted{3, 3, 0.02, 10, 300};
  ProcessRecord first = first_process({0.4}, 8);
  first.result.executed_iterations = 4;
  // 1.6 s each instead of 4 s: 8.4 s hold 5 more, 2 in each of the others.
  const auto decision = decide_sampling(wanted, 10, first);
  EXPECT_EQ(decision.processes, 3);
  EXPECT_EQ(decision.repetitions, 2);
}

TEST(SamplingDecision, CountsSetUpAndVerification) {
  const Sampling wanted{8, 3, 0.02, 10, 300};
  // 12 s next to 0.3 s of timing; six times the budget of 10 s hold five of them.
  auto decision = decide_sampling(wanted, 10, first_process({0.01, 0.01, 0.01}, 12.3));
  EXPECT_EQ(decision.processes, 5);
  EXPECT_TRUE(decision.cut_short);
  decision = decide_sampling(wanted, 10, first_process({0.01, 0.01, 0.01}, 50));
  EXPECT_EQ(decision.processes, 3);
}

class CellTest : public ::testing::Test {
 protected:
  CellTest() {
    cell_.key = {"cpu_demo", "uniform", {1000, 3, 10, Precision::f32}, 10, 1};
    cell_.backend = "cpu";
    cell_.task.label = "uniform";
    cell_.task.init = "random:1";
    cell_.task.shape = cell_.key.shape;
    cell_.sampling = {3, 3, 0.02, 10, 300};
    limits_.cpus = 2;
  }

  void add(const json& changes = json::object()) {
    json result = to_json(JobResult{});
    result.update(
        {{"status", "ok"},
         {"samples", {1e-3, 1.1e-3, 1.2e-3}},
         {"stopping", "complete"},
         {"setup_seconds", 0.5},
         {"stages", {{"assign", 8e-4}, {"update", 1e-4}}},
         {"inertia", 123.5},
         {"label_hash", "0123456789abcdef"},
         {"centroid_hash", "fedcba9876543210"},
         {"empty_clusters", 0},
         {"verification", {{"passed", true}}},
         {"traffic", {{"read_bytes", 1e6}, {"written_bytes", 5e5}, {"atomic_bytes", 5e5}}},
         {"library", {{"blas", "1.0"}}}});
    result.update(changes);
    const auto process = static_cast<int>(records_.size());
    records_.push_back({cell_.key.text(), process, job_result_from_json(result), 1, 0.5, 0.75,
                        result.value("activity", json())});
  }

  /// Another process with what the last one found: one alone is worth a note.
  void again() {
    ProcessRecord record = records_.back();
    ++record.process;
    records_.push_back(record);
  }

  json assemble(bool finished = true) {
    CellEvidence evidence;
    for (const auto& record : records_) evidence.processes.push_back(&record);
    evidence.finished = finished;
    evidence.best_pace = best_pace_;
    return assemble_cell("demo", cell_, evidence, limits_);
  }

  static void expect_no_speed(const json& cell) {
    EXPECT_THAT(cell.at("samples_seconds_per_iteration"), IsEmpty());
    for (const char* key : {"seconds_per_iteration", "device_seconds_per_iteration", "gflops",
                            "gflops_2nkd", "inertia", "setup_seconds", "label_hash"}) {
      EXPECT_TRUE(cell.at(key).is_null()) << key;
    }
    EXPECT_TRUE(cell.at("gbytes_per_second").at("compulsory").is_null());
    EXPECT_TRUE(cell.at("gbytes_per_second").at("as_written").is_null());
    EXPECT_TRUE(cell.at("reason").is_string());
  }

  Cell cell_;
  MachineLimits limits_;
  std::vector<ProcessRecord> records_;
  std::optional<double> best_pace_;
};

TEST_F(CellTest, PoolsTheSamplesOfAllProcesses) {
  for (int process = 0; process < 3; ++process) add();
  const json cell = assemble();
  EXPECT_EQ(cell.at("status"), "ok");
  EXPECT_TRUE(cell.at("reason").is_null());
  EXPECT_EQ(cell.at("samples_seconds_per_iteration").size(), 3U);
  EXPECT_EQ(cell.at("processes"), 3);
  EXPECT_EQ(cell.at("repetitions"), 3);
  EXPECT_EQ(cell.at("stopping"), "complete");
  EXPECT_EQ(cell.at("seconds_per_iteration").at("median"), 1.1e-3);
  EXPECT_EQ(cell.at("seconds_per_iteration").at("ci95_low"), 1e-3);
  EXPECT_DOUBLE_EQ(cell.at("gflops").get<double>(), 113030.0 / 1.1e-3 * 1e-9);
  EXPECT_DOUBLE_EQ(cell.at("gflops_2nkd").get<double>(), 60000.0 / 1.1e-3 * 1e-9);
  EXPECT_DOUBLE_EQ(cell.at("gbytes_per_second").at("compulsory").get<double>(),
                   16240.0 / 1.1e-3 * 1e-9);
  EXPECT_DOUBLE_EQ(cell.at("gbytes_per_second").at("as_written").get<double>(),
                   2e6 / 1.1e-3 * 1e-9);
  EXPECT_EQ(cell.at("inertia"), 123.5);
  EXPECT_EQ(cell.at("setup_seconds"), 0.5);
  EXPECT_EQ(cell.at("bit_equal_across_processes"), true);
  EXPECT_THAT(cell.at("unsteady"), IsEmpty());
  EXPECT_THAT(cell.at("noted"), IsEmpty());
  EXPECT_EQ(cell.at("load_average").at("after"), 0.75);
}

TEST_F(CellTest, StagesAreMediansOverTheProcesses) {
  add({{"stage_work",
        {{"assign", {{"operations", 5.0}, {"bytes_as_written", 7.0}, {"gpu", true}}}}}});
  add({{"stages", {{"assign", 5e-4}, {"update", 2e-4}}}});
  add({{"stages", {{"assign", 6e-4}, {"update", 3e-4}}}});
  const json cell = assemble();
  EXPECT_EQ(cell.at("stages").at("assign"), 6e-4);
  EXPECT_EQ(cell.at("stages").at("update"), 2e-4);
  EXPECT_EQ(cell.at("stage_samples_seconds_per_iteration").at("assign"), json({8e-4, 5e-4, 6e-4}));
  EXPECT_EQ(cell.at("stage_work").at("assign").at("operations"), 5.0);
  EXPECT_TRUE(cell.at("executed_iterations").is_null());
}

TEST_F(CellTest, SaysAfterHowManyIterationsALibraryStopped) {
  add({{"executed_iterations", 4}});
  add({{"executed_iterations", 4}});
  EXPECT_EQ(assemble().at("executed_iterations"), 4);
  EXPECT_THAT(assemble().at("noted"), IsEmpty());
  add({{"executed_iterations", 5}});
  EXPECT_EQ(assemble().at("executed_iterations"), 4);
  EXPECT_THAT(assemble().at("noted")[0].get<std::string>(),
              HasSubstr("stopped after different numbers of iterations"));
}

TEST_F(CellTest, DistancesAreAShareOfThoseOfBruteForce) {
  add();
  EXPECT_TRUE(assemble().at("computed_share").is_null());
  records_.clear();
  add({{"computed_distances", 2500}});  // of 1000 x 10 x 10 iterations
  again();
  EXPECT_DOUBLE_EQ(assemble().at("computed_share").get<double>(), 0.025);
}

TEST_F(CellTest, OneWrongProcessMakesTheCellWrong) {
  add();
  add({{"status", "wrong"}, {"reason", "labels are stale"}, {"verification", {{"passed", false}}}});
  add({{"status", "error"}, {"reason", "killed by SIGSEGV"}});
  const json cell = assemble();
  EXPECT_EQ(cell.at("status"), "wrong");
  EXPECT_EQ(cell.at("reason"), "labels are stale");
  EXPECT_EQ(cell.at("verification").at("passed"), false);
  expect_no_speed(cell);
}

TEST_F(CellTest, OneBrokenProcessMakesTheCellAnError) {
  add();
  add({{"status", "error"}, {"reason", "killed by SIGSEGV"}});
  const json cell = assemble();
  EXPECT_EQ(cell.at("status"), "error");
  EXPECT_EQ(cell.at("reason"), "killed by SIGSEGV");
  expect_no_speed(cell);
}

TEST_F(CellTest, SkippedCellsCarryTheirReason) {
  cell_.skip_reason = "needs 2 TiB of memory, has 3 GiB";
  const json cell = assemble();
  EXPECT_EQ(cell.at("status"), "skipped");
  EXPECT_EQ(cell.at("reason"), cell_.skip_reason);
  EXPECT_EQ(cell.at("processes"), 0);
  EXPECT_TRUE(cell.at("verification").is_null());
  expect_no_speed(cell);
}

TEST_F(CellTest, DurationsThatAreNoneNeverBecomeASpeed) {
  for (const json& sample : {json(0.0), json(-1.0), json(nullptr)}) {
    records_.clear();
    add({{"samples", {1e-3, sample}}});
    const json cell = assemble();
    EXPECT_EQ(cell.at("status"), "error") << sample;
    EXPECT_EQ(cell.at("reason"), "process 0 measured no positive duration") << sample;
    expect_no_speed(cell);
  }
}

TEST_F(CellTest, NoNumberOfACellIsNanOrInfinite) {
  add({{"inertia", std::numeric_limits<double>::infinity()},
       {"setup_seconds", std::numeric_limits<double>::quiet_NaN()},
       {"traffic", nullptr}});
  again();
  const json cell = assemble();
  EXPECT_TRUE(cell.at("inertia").is_null());
  EXPECT_TRUE(cell.at("setup_seconds").is_null());
  EXPECT_TRUE(cell.at("gbytes_per_second").at("as_written").is_null());
  // Its times are sound; of the rest it says which number was due.
  EXPECT_EQ(cell.at("status"), "ok");
  EXPECT_EQ(cell.at("noted"), json({"the inertia is not finite"}));
  EXPECT_EQ(presentable(cell), cell);
  // A file of it names no number that JSON lacks, and reading it back changes nothing.
  EXPECT_EQ(json::parse(cell.dump()), cell);
}

TEST_F(CellTest, TellsWhySamplingStopped) {
  add();
  EXPECT_EQ(assemble(false).at("stopping"), "interrupted");
  EXPECT_EQ(assemble(true).at("stopping"), "time budget");
  add();
  add({{"samples", {1e-3}}});
  EXPECT_EQ(assemble(true).at("stopping"), "time budget");
  EXPECT_EQ(assemble(true).at("repetitions"), 3);
}

TEST_F(CellTest, FullCertificateIsPreferredToAReusedOne) {
  add({{"verification", {{"passed", true}, {"reused", "x"}}}});
  add({{"verification", {{"passed", true}, {"points_checked", 1000}}}});
  EXPECT_EQ(assemble().at("verification").at("points_checked"), 1000);
}

TEST_F(CellTest, DoubtsWhatExceedsTheMachine) {
  limits_.ceilings = {{"read_gbytes_per_second", 1e-3},
                      {"read_gbytes_per_second_cache", 2e-3},
                      {"fma_gflops", {{"f32_one_thread", 0.04}, {"f32_all_threads", 0.08}}}};
  add();
  again();
  const json noted = assemble().at("noted");
  ASSERT_EQ(noted.size(), 2U);  // 0.0545 GFLOP/s, 0.0148 GB/s
  EXPECT_THAT(noted[0].get<std::string>(), HasSubstr("GFLOP/s is above the measured ceiling"));
  EXPECT_THAT(noted[1].get<std::string>(), HasSubstr("GB/s is above the measured ceiling"));
  cell_.skips_work = true;
  EXPECT_THAT(assemble().at("noted"), IsEmpty());
}

json calm_gpu() { return {{"throttled", false}, {"other_processes", 0}, {"sm_mhz", 1980}}; }

TEST_F(CellTest, GpuCellsHaveASecondClockAndTheirOwnCeilings) {
  cell_.gpu = true;
  cell_.backend = "cuda";
  // The processor's ceilings do not bound a GPU: these would raise a doubt.
  limits_.ceilings = {{"read_gbytes_per_second", 1e-3},
                      {"fma_gflops", {{"f32_one_thread", 1e-3}, {"f32_all_threads", 1e-3}}},
                      {"gpu",
                       {{"read_gbytes_per_second", 100},
                        {"gemm_gflops", {{"f32", 100}, {"f16", 1e-3}}},
                        {"fma_gflops", {{"f32", 50}}}}}};
  const json gpu{{"index", 0},         {"name", "Test GPU"},       {"uuid", "GPU-a"},
                 {"cache", "warm"},    {"warm_up_iterations", 21}, {"before", calm_gpu()},
                 {"after", calm_gpu()}};
  add({{"device_samples", {1e-3, 1.1e-3, 1.2e-3}}, {"gpu", gpu}});
  again();
  json cell = assemble();
  EXPECT_THAT(cell.at("noted"), IsEmpty());
  EXPECT_EQ(cell.at("device_seconds_per_iteration").at("median"), 1.1e-3);
  EXPECT_EQ(cell.at("gpu").at("uuid"), "GPU-a");

  // 0.8 of the host's 1.1 ms in steps of 11 ms.
  for (auto& record : records_) record.result.device_samples = {8e-4, 8.8e-4, 9.6e-4};
  EXPECT_THAT(assemble().at("noted").dump(), HasSubstr("device events say"));
  // In steps of 1.1 ms a launch more or less explains that.
  cell_.key.iterations = 1;
  EXPECT_THAT(assemble().at("noted"), IsEmpty());

  limits_.ceilings["gpu"]["gemm_gflops"]["f32"] = 0.04;  // 2nkd is 0.0545 GFLOP/s
  limits_.ceilings["gpu"]["fma_gflops"]["f32"] = 0.03;
  limits_.ceilings["gpu"]["read_gbytes_per_second"] = 0.01;  // 0.0148 GB/s
  const json noted = assemble().at("noted");
  ASSERT_EQ(noted.size(), 2U) << noted;
  EXPECT_THAT(noted[0].get<std::string>(), HasSubstr("GFLOP/s is above the measured ceiling"));
  EXPECT_THAT(noted[1].get<std::string>(), HasSubstr("GB/s is above the measured ceiling"));

  cell_.key.gpus = 2;  // can do twice as much
  EXPECT_THAT(assemble().at("noted"), IsEmpty());

  // An exact variant may filter with float16; it, too, has a ceiling.
  cell_.key.gpus = 1;
  cell_.exact = true;
  limits_.ceilings["gpu"]["read_gbytes_per_second"] = 100;
  limits_.ceilings["gpu"]["gemm_gflops"]["f16"] = 1;
  EXPECT_THAT(assemble().at("noted"), IsEmpty());
  limits_.ceilings["gpu"]["gemm_gflops"]["f16"] = 0.045;
  EXPECT_THAT(assemble().at("noted").dump(), HasSubstr("ceiling of 0.045 GFLOP/s"));
  limits_.ceilings["gpu"]["gemm_gflops"] = nullptr;  // nothing was measured: nothing is said
  limits_.ceilings["gpu"]["fma_gflops"] = nullptr;
  EXPECT_THAT(assemble().at("noted"), IsEmpty());
}

TEST_F(CellTest, DeviceEventsThatTellNothingAreNull) {
  cell_.gpu = true;
  add({{"device_samples", {1e-3, std::nan(""), 1e-3}},
       {"samples", {1, 1, 1}},
       {"stages", json::object()}});
  again();
  const json cell = assemble();
  EXPECT_EQ(cell.at("status"), "ok");
  EXPECT_TRUE(cell.at("device_seconds_per_iteration").is_null());
  EXPECT_THAT(cell.at("noted"), ElementsAre("device events measured no duration"));
}

TEST_F(CellTest, SlowCoresCastDoubtOnAGpuOnlyWhereItsTimesFollowThem) {
  best_pace_ = 1e-4;
  const auto process = [&](double pace, double seconds) {
    add({{"pace", {1e-4, pace}}, {"samples", {seconds, seconds, seconds}}});
  };
  const auto doubts = [&](bool gpu) {
    cell_.gpu = gpu;
    return assemble().at("noted").dump();
  };
  process(1e-4, 1e-3);
  process(1.7e-4, 1.02e-3);
  EXPECT_THAT(doubts(true), HasSubstr("1.70 times")) << "two processes say too little";
  process(1.3e-4, 1.04e-3);
  EXPECT_EQ(doubts(true), "[]");
  EXPECT_THAT(doubts(false), HasSubstr("1.70 times")) << "work on those cores";
  process(1.4e-4, 1.06e-3);
  EXPECT_THAT(doubts(true), HasSubstr("1.70 times")) << "6 % between processes";
}

TEST_F(CellTest, AThrottledGpuIsToldOnce) {
  cell_.gpu = true;
  json hot = calm_gpu();
  hot["throttled"] = true;
  hot["throttle_reasons"] = {"sw_power_cap"};
  const json gpu{{"before", calm_gpu()}, {"after", hot}};
  add({{"gpu", gpu}});
  add({{"gpu", gpu}});
  const json noted = assemble().at("noted");
  ASSERT_EQ(noted.size(), 1U) << noted;
  EXPECT_THAT(noted[0].get<std::string>(), HasSubstr("sw_power_cap"));
}

TEST_F(CellTest, AVariantThatIsKeptWrongSaysWhyInEveryCell) {
  add({{"status", "wrong"}, {"reason", "centroids are not means"}, {"samples", json::array()}});
  EXPECT_TRUE(assemble().at("wrong_because").is_null());
  cell_.wrong_because = "the second launch reads the wrong sums";
  const json cell = assemble();
  EXPECT_EQ(cell.at("wrong_because"), "the second launch reads the wrong sums");
  EXPECT_EQ(cell.at("status"), "wrong");
  expect_no_speed(cell);
}

TEST_F(CellTest, ProcessesInTwoHalvesMakeItUnsteady) {
  for (const double seconds : {9e-5, 1e-2, 9.1e-5, 1.01e-2}) {
    add({{"samples", {seconds, seconds, seconds}}, {"stages", json::object()}});
  }
  const json cell = assemble();
  EXPECT_EQ(cell.at("status"), "ok");
  ASSERT_EQ(cell.at("unsteady").size(), 1U);
  EXPECT_THAT(cell.at("unsteady")[0].get<std::string>(),
              HasSubstr("2 processes near 90.5 us, 2 near 10.1 ms"));
  EXPECT_THAT(cell.at("noted"), IsEmpty());
  for (const char* iterations : {"1", "20", "300"}) {
    EXPECT_TRUE(cell.at("whole_call_seconds").at(iterations).is_null()) << iterations;
  }
}

TEST_F(CellTest, AnOutlyingProcessIsANoteAndNoPartOfTheHeadline) {
  for (const double seconds : {1e-2, 9e-5, 9.1e-5, 9.2e-5}) {
    add({{"samples", {seconds, seconds, seconds}}, {"stages", json::object()}});
  }
  const json cell = assemble();
  EXPECT_THAT(cell.at("unsteady"), IsEmpty());
  EXPECT_THAT(cell.at("noted").dump(), HasSubstr("1 of 4 processes lies apart"));
  EXPECT_DOUBLE_EQ(cell.at("seconds_per_iteration").at("median").get<double>(), 9.15e-5);
  EXPECT_EQ(cell.at("seconds_per_iteration").at("max"), 1e-2) << "no sample is dropped";
}

TEST_F(CellTest, OneProcessAndStagesThatContradictItsTimeAreNoted) {
  add({{"samples", {3e-3}}});  // stages of 0.9 ms: the timed part was held up
  const json noted = assemble().at("noted");
  ASSERT_EQ(noted.size(), 2U) << noted;
  EXPECT_THAT(noted[0].get<std::string>(), HasSubstr("its stages take 0.3 times"));
  EXPECT_THAT(noted[1].get<std::string>(), HasSubstr("measured in one process"));
  records_.clear();
  add({{"samples", {2.5e-4}}});
  EXPECT_THAT(assemble().at("noted").dump(), HasSubstr("its stages take 3.6 times"));
  // Stages on a GPU wait at both ends, which decides the time of short iterations.
  cell_.gpu = true;
  EXPECT_THAT(assemble().at("noted").dump(), Not(HasSubstr("its stages")));
}

TEST_F(CellTest, TellsWholeCallsAndWhatIsInside) {
  for (int process = 0; process < 3; ++process) add();
  cell_.includes = "setup: packing";
  const json cell = assemble();
  const json& calls = cell.at("whole_call_seconds");
  EXPECT_DOUBLE_EQ(calls.at("1").get<double>(), 0.5 + 1.1e-3);
  EXPECT_DOUBLE_EQ(calls.at("20").get<double>(), 0.5 + 20 * 1.1e-3);
  EXPECT_DOUBLE_EQ(calls.at("300").get<double>(), 0.5 + 300 * 1.1e-3);
  EXPECT_EQ(cell.at("setup_includes"), "setup: packing");
  records_.back().result.setup_seconds = std::nan("");
  records_.front().result.setup_seconds = std::nan("");
  records_[1].result.setup_seconds = std::nan("");
  EXPECT_TRUE(assemble().at("whole_call_seconds").at("20").is_null()) << "no setup was reported";
}

TEST_F(CellTest, PacesAreNotedWhereTheyExplainMoreThanTheIntervalDoes) {
  best_pace_ = 1e-4;
  for (int process = 0; process < 3; ++process) add({{"pace", {1e-4, 1.45e-4}}});
  EXPECT_THAT(assemble().at("noted"), IsEmpty());
  records_.back().result.pace = {1e-4, 1.55e-4};
  EXPECT_THAT(assemble().at("noted").dump(), HasSubstr("take 1.55 times"));
}

TEST_F(CellTest, DoubtsSpreadLoadAndUnequalBits) {
  add({{"samples", {1e-3, 2.6e-3, 1e-3}}});
  EXPECT_THAT(assemble().at("noted").dump(), HasSubstr("2.60 times the fastest"));
  records_.clear();
  add();
  add({{"label_hash", "0000000000000000"}});
  const json unequal = assemble();
  EXPECT_EQ(unequal.at("bit_equal_across_processes"), false);
  EXPECT_THAT(unequal.at("noted").dump(), HasSubstr("declared deterministic"));
  records_.clear();
  add();
  records_.back().load_before = 5;
  EXPECT_THAT(assemble().at("noted").dump(), HasSubstr("load average 5.0 on 2 processors"));
}

TEST(Trace, TakesWhatWasRecorded) {
  PlannedTrace trace;
  trace.spec.name = "path";
  trace.spec.variant.name = "reference";
  trace.task.label = "line";
  trace.task.shape = {10, 1, 2, Precision::f32};
  trace.skip_reason = "not in this build";
  EXPECT_EQ(assemble_trace(trace, nullptr).at("status"), "skipped");
  EXPECT_EQ(assemble_trace(trace, nullptr).at("reason"), "not in this build");
  trace.skip_reason.clear();
  const json done = assemble_trace(
      trace, {{"status", "ok"}, {"reason", ""}, {"iterations", {{{"iteration", 1}}}}});
  EXPECT_EQ(done.at("dataset"), "line");
  EXPECT_EQ(done.at("iterations").size(), 1U);
  EXPECT_TRUE(done.at("reason").is_null());
}

}  // namespace
}  // namespace kmeans
