// SPDX-License-Identifier: Apache-2.0
//
// The worker's path from a job to samples, in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <filesystem>
#include <vector>

#include "datasets/points.h"
#include "harness/run/follow.h"
#include "harness/run/job.h"
#include "harness/run/trace_job.h"
#include "harness/support/errors.h"
#include "harness/variants/registry.h"
#include "harness/verify/around_steps.h"
#include "tests/faults/variants/_slowed_steps.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using Clock = std::chrono::steady_clock;

void spin_for(Clock::duration span) {
  const auto end = Clock::now() + span;
  while (Clock::now() < end) continue;
}

// Spins for a fixed time per iteration.
class SpinTenMilliseconds final : public Variant<float> {
 public:
  void setup(const Problem<float>& problem) override { problem_ = problem; }
  void reset(const float* centroids) override {
    centroids_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
  }
  void step(std::int64_t iterations) override {
    spin_for(iterations * std::chrono::milliseconds(10));
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    // One cluster whose centroid starts as the mean: a right answer without any work.
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::fill(labels, labels + problem_.shape.n, 0);
  }

 private:
  Problem<float> problem_;
  std::vector<float> centroids_;
};

// Spins in every call, and writes down when each began and ended.
class NotesItsCalls final : public Variant<float> {
 public:
  enum class What { setup, reset, step, fetch };
  struct Call {
    What what;
    Clock::time_point begin;
    Clock::time_point end;
  };
  static std::vector<Call>& calls() {
    static std::vector<Call> all;
    return all;
  }

  void setup(const Problem<float>& problem) override {
    note(What::setup, [&] { inner_.setup(problem); });
  }
  void reset(const float* centroids) override {
    note(What::reset, [&] { inner_.reset(centroids); });
  }
  void step(std::int64_t /*iterations*/) override {
    note(What::step, [] {});
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    note(What::fetch, [&] { inner_.fetch(centroids, labels); });
  }

 private:
  template <class F>
  static void note(What what, F&& work) {
    const auto begin = Clock::now();
    work();
    spin_for(std::chrono::milliseconds(5));
    calls().push_back({what, begin, Clock::now()});
  }
  SpinTenMilliseconds inner_;  // of which nothing spins here
};

/// Its first setup in the process takes long, or leaves another locale.
class HasAFirstSetup final : public Variant<float> {
 public:
  static inline bool takes_long = false;
  static inline int setups = 0;

  void setup(const Problem<float>& problem) override {
    if (++setups == 1 && takes_long) spin_for(std::chrono::milliseconds(80));
    if (setups == 1 && !takes_long) std::setlocale(LC_ALL, "C.UTF-8");
    if (setups > 1) spin_for(std::chrono::milliseconds(setups));
    inner_.setup(problem);
  }
  void reset(const float* centroids) override { inner_.reset(centroids); }
  void step(std::int64_t iterations) override { inner_.step(iterations); }
  void fetch(float* centroids, std::int32_t* labels) override { inner_.fetch(centroids, labels); }

 private:
  SpinTenMilliseconds inner_;
};

class Throws final : public Variant<float> {
 public:
  void setup(const Problem<float>&) override { throw std::runtime_error("no such device"); }
  void reset(const float*) override {}
  void step(std::int64_t) override {}
  void fetch(float*, std::int32_t*) override {}
};

// The reference, for what says or does one thing otherwise.
class LikeTheReference : public Variant<float> {
 public:
  void setup(const Problem<float>& problem) override {
    inner_ = require_variant("reference").factory.make_float(Precision::f32);
    inner_->setup(problem);
    n_ = problem.shape.n;
  }
  void reset(const float* centroids) override { inner_->reset(centroids); }
  void step(std::int64_t iterations) override { inner_->step(iterations); }
  void fetch(float* centroids, std::int32_t* labels) override { inner_->fetch(centroids, labels); }

 protected:
  std::unique_ptr<Variant<float>> inner_;
  std::int64_t n_ = 0;
};

// Right in the certified runs and from other centroids, wrong later: what is timed must be what was
// certified.
class TiresWhenTimed final : public LikeTheReference {
 public:
  void reset(const float* centroids) override {
    ++resets_;
    inner_->reset(centroids);
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    inner_->fetch(centroids, labels);
    if (resets_ > 3) std::fill(labels, labels + n_, 0);
  }

 private:
  int resets_ = 0;
};

// Right after one step, wrong after more.
class ForgetsLater final : public LikeTheReference {
 public:
  void reset(const float* centroids) override {
    steps_ = 0;
    inner_->reset(centroids);
  }
  void step(std::int64_t iterations) override {
    steps_ += iterations;
    inner_->step(iterations);
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    inner_->fetch(centroids, labels);
    if (steps_ > 1) std::fill(labels, labels + n_, 0);
  }

 private:
  std::int64_t steps_ = 0;
};

// By its own sums: says that nothing moves and no label changes, from the second iteration on.
class Content final : public Variant<float> {
 public:
  void setup(const Problem<float>& problem) override { d_ = problem.shape.k * problem.shape.d; }
  void reset(const float* centroids) override {
    centroids_.assign(centroids, centroids + d_);
    iteration_ = 0;
  }
  void step(std::int64_t iterations) override {
    for (; iterations > 0; --iterations) {
      for (float& coordinate : centroids_) coordinate += 1;
      ++iteration_;
    }
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    for (int i = 0; i < 6; ++i) labels[i] = (iteration_ + i) % 2;
  }
  Progress progress() override {
    const bool content = iteration_ >= 2;
    return {.movement = content ? 0.0 : 1.0, .changed = content ? 0 : 6, .loss = 5.0};
  }

 private:
  std::int64_t d_ = 0;
  std::int64_t iteration_ = 0;
  std::vector<float> centroids_;
};

// Says that it formed one distance in each iteration.
class CountsDistances final : public LikeTheReference {
 public:
  void step(std::int64_t iterations) override {
    iterations_ = iterations;
    inner_->step(iterations);
  }
  std::optional<std::int64_t> computed_distances() const override { return iterations_; }

 private:
  std::int64_t iterations_ = 0;
};

// A library that stops after three iterations, whatever is asked for; each takes 10 ms.
class StopsAfterThree final : public Variant<float> {
 public:
  void setup(const Problem<float>& problem) override { inner_.setup(problem); }
  void reset(const float* centroids) override { inner_.reset(centroids); }
  void step(std::int64_t iterations) override {
    executed_ = std::min<std::int64_t>(iterations, 3);
    inner_.step(*executed_);
  }
  void fetch(float* centroids, std::int32_t* labels) override { inner_.fetch(centroids, labels); }
  std::optional<std::int64_t> executed_iterations() const override { return executed_; }

 private:
  SpinTenMilliseconds inner_;
  std::optional<std::int64_t> executed_;
};

/// As KMEANS_VARIANT, but of the backend "tests", whatever folder this file is in.
template <class V>
bool registered(Traits traits) {
  return register_variant(std::move(traits), detail::factory_of<V>(), "tests/worker_test.cpp");
}
[[maybe_unused]] const bool all_registered =
    registered<Content>({.name = "tests_content", .summary = "says that it has settled"}) &&
    registered<ForgetsLater>(
        {.name = "tests_forgets", .summary = "wrong from the second step on"}) &&
    registered<StopsAfterThree>({.name = "tests_stops_after_three", .summary = "stops early"}) &&
    registered<CountsDistances>({.name = "tests_counts", .summary = "counts distances"}) &&
    registered<SpinTenMilliseconds>(
        {.name = "tests_spin", .summary = "spins 10 ms an iteration"}) &&
    registered<NotesItsCalls>(
        {.name = "tests_notes_its_calls", .summary = "spins 5 ms a call and notes it"}) &&
    registered<HasAFirstSetup>({.name = "tests_first_setup", .summary = "of two setups"}) &&
    registered<Throws>({.name = "tests_throws", .summary = "throws in setup"}) &&
    registered<TiresWhenTimed>(
        {.name = "tests_tires", .summary = "wrong only when timed", .exact = true});

const std::vector<float> kLine{0, 1, 2, 10, 11, 12};

class WorkerTest : public testing::Test {
 protected:
  Job job(const std::string& variant, const std::vector<float>& points, std::int64_t d,
          const std::vector<float>& centroids) {
    const auto n = static_cast<std::int64_t>(points.size()) / d;
    const auto k = static_cast<std::int64_t>(centroids.size()) / d;
    Job result;
    result.variant = variant;
    result.points_file = folder_ / "points.npy";
    result.centroids_file = folder_ / "centroids.npy";
    write_npy(result.points_file, make_points(points.data(), n, d));
    write_npy(result.centroids_file, make_points(centroids.data(), k, d));
    result.k = k;
    return result;
  }

  /// Two clusters of the six points on a line, whose first centroids are 0 and 1.
  TraceJob trace_on_line(const std::string& variant, std::int64_t iterations) {
    TraceJob trace;
    static_cast<VariantJob&>(trace) = job(variant, kLine, 1, {0, 1});
    trace.iterations = iterations;
    return trace;
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(WorkerTest, TimesAndCertifiesTheReference) {
  Job work = job("reference", kLine, 1, {0, 1});
  work.iterations = 2;
  work.repetitions = 3;
  work.min_seconds = 0.001;
  work.profile = true;
  const JobResult result = run_job(work);
  EXPECT_EQ(result.status, "ok") << result.reason;
  ASSERT_EQ(result.samples.size(), 3U);
  for (const double sample : result.samples) EXPECT_GT(sample, 0);
  // Iteration 2 starts from centroids 0 and 7.2 and labels 0 0 0 1 1 1.
  EXPECT_NEAR(result.inertia, 0 + 1 + 4 + 2.8 * 2.8 + 3.8 * 3.8 + 4.8 * 4.8, 1e-5);
  EXPECT_EQ(result.empty_clusters, 0);
  EXPECT_TRUE(result.verification.at("passed").get<bool>());
  EXPECT_EQ(result.verification.at("points_checked"), 6);
  EXPECT_TRUE(result.stages.count("assign") == 1 && result.stages.count("update") == 1);
  EXPECT_EQ(result.stopping, "complete");
}

TEST_F(WorkerTest, ReusesACertificateForTheSameOutcome) {
  Job work = job("reference", kLine, 1, {0, 1});
  work.repetitions = 1;
  const JobResult first = run_job(work);
  work.certified_outcomes = {first.outcome};
  const JobResult second = run_job(work);
  EXPECT_EQ(second.status, "ok");
  EXPECT_EQ(second.verification.at("reused"), first.outcome);
  EXPECT_EQ(second.label_hash, first.label_hash);
}

TEST_F(WorkerTest, OracleOnlyComputes) {
  Job work = job("reference", kLine, 1, {0, 1});
  work.repetitions = 0;
  work.iterations = 1;
  const JobResult result = run_job(work);
  EXPECT_EQ(result.status, "ok");
  EXPECT_TRUE(result.samples.empty());
  EXPECT_EQ(result.inertia, 0 + 0 + 1 + 81 + 100 + 121);
}

TEST_F(WorkerTest, WhatIsWrongLosesItsTimes) {
  Job far = job("reference", kLine, 1, {0, 1});
  far.exact_inertia = 1000;
  Job tired = job("tests_tires", kLine, 1, {0, 1});  // wrong only when timed
  tired.iterations = 2;
  for (const auto& [work, reason] : {std::pair{far, "trajectory"}, std::pair{tired, "timed"}}) {
    const JobResult result = run_job(work);
    EXPECT_EQ(result.status, "wrong");
    EXPECT_TRUE(result.samples.empty());
    EXPECT_THAT(result.reason, testing::HasSubstr(reason));
  }
}

TEST_F(WorkerTest, ErrorsAndLimitsAreStatuses) {
  EXPECT_EQ(run_job(job("tests_throws", kLine, 1, {0, 1})).reason, "no such device");
  Job double_precision = job("reference", kLine, 1, {0, 1});
  double_precision.precision = Precision::f64;
  const JobResult skipped = run_job(double_precision);
  EXPECT_EQ(skipped.status, "skipped");
  EXPECT_EQ(skipped.reason, "reference takes f32, not f64");
  EXPECT_EQ(run_job(job("no_such", kLine, 1, {0, 1})).status, "error");
}

TEST_F(WorkerTest, LongCellsGetFewerRepetitions) {
  Job work = job("tests_spin", {1, 3}, 1, {2});
  work.repetitions = 5;
  work.max_seconds = 0.02;
  const JobResult result = run_job(work);
  EXPECT_EQ(result.status, "ok") << result.reason;
  EXPECT_EQ(result.stopping, "time budget");
  EXPECT_LT(result.samples.size(), 5U);
}

TEST_F(WorkerTest, TimesOfALibraryAreThoseOfTheIterationsThatItRan) {
  Job work = job("tests_stops_after_three", {1, 3}, 1, {2});
  work.iterations = 100;
  const JobResult result = run_job(work);
  ASSERT_EQ(result.status, "ok") << result.reason;
  EXPECT_EQ(result.executed_iterations, 3);
  // It spins 10 ms in each of three iterations; divided by 100 it would be 0.3 ms.
  for (const double sample : result.samples) EXPECT_GE(sample, 0.010);
  EXPECT_EQ(job_result_from_json(to_json(result)).executed_iterations, 3);
  work.iterations = 2;
  EXPECT_EQ(run_job(work).executed_iterations, 2);
  EXPECT_FALSE(run_job(job("tests_spin", {1, 3}, 1, {2})).executed_iterations.has_value());
}

TEST_F(WorkerTest, DistancesAreThoseOfATimedStepOfAllIterations) {
  Job work = job("tests_counts", {1, 3}, 1, {2});
  work.iterations = 7;
  const JobResult result = run_job(work);
  ASSERT_EQ(result.status, "ok") << result.reason;
  EXPECT_EQ(result.computed_distances, 7);
  EXPECT_EQ(job_result_from_json(to_json(result)).computed_distances, 7);
  EXPECT_FALSE(run_job(job("tests_spin", {1, 3}, 1, {2})).computed_distances.has_value());
}

/// What a sample and the step behind it took.
struct TimedStep {
  double sample;  ///< Of all its iterations.
  double own;     ///< By the step's own clock.
  double room;    ///< From the call before the step to the call after it.
};

/// The timed steps of tests_notes_its_calls, one for each sample.
void time_steps(Job work, int samples, std::vector<TimedStep>& timed) {
  using What = NotesItsCalls::What;
  auto& calls = NotesItsCalls::calls();
  calls.clear();
  work.iterations = 2;
  work.repetitions = samples;
  work.min_seconds = 0.001;  // less than a step
  const JobResult result = run_job(work);
  ASSERT_EQ(result.status, "ok") << result.reason;
  ASSERT_EQ(result.samples.size(), samples);
  // The first with what a process does once, and up to five whose median counts: the clock says how many.
  const auto setups = std::count_if(calls.begin(), calls.end(),
                                    [](const auto& call) { return call.what == What::setup; });
  EXPECT_GE(setups, 2);
  EXPECT_LE(setups, 6);
  // The timed part ends where its answer is fetched.
  ASSERT_GT(calls.size(), 2 * result.samples.size());
  ASSERT_EQ(calls.back().what, What::fetch);
  const auto seconds = [](Clock::duration span) {
    return std::chrono::duration<double>(span).count();
  };
  std::size_t step = calls.size() - 2 * result.samples.size();
  for (const double sample : result.samples) {
    ASSERT_EQ(calls[step - 1].what, What::reset);
    ASSERT_EQ(calls[step].what, What::step);
    timed.push_back({.sample = sample * static_cast<double>(work.iterations),
                     .own = seconds(calls[step].end - calls[step].begin),
                     .room = seconds(calls[step + 1].begin - calls[step - 1].end)});
    step += 2;
  }
}

// However slow or disturbed the machine.
TEST_F(WorkerTest, ASampleIsTheTimeOfItsStepAlone) {
  std::vector<TimedStep> timed;
  time_steps(job("tests_notes_its_calls", {1, 3}, 1, {2}), 9, timed);
  ASSERT_EQ(timed.size(), 9U);
  double least = 1;
  for (const TimedStep& one : timed) {
    EXPECT_GE(one.sample, one.own);
    EXPECT_LE(one.sample, one.room);
    least = std::min(least, one.sample - one.own);
  }
  // Shown and not asserted: other processes may step between the two clocks.
  RecordProperty("least_nanoseconds_of_the_harness_in_a_sample", std::to_string(least * 1e9));
}

TEST_F(WorkerTest, ABriefSetupIsTimedAgainAndItsDoubtsStay) {
  using What = HasAFirstSetup;
  Job work = job("tests_first_setup", {1, 3}, 1, {2});
  for (const bool takes_long : {false, true}) {
    for (const int repetitions : {1, 0}) {
      What::takes_long = takes_long;
      What::setups = 0;
      work.repetitions = repetitions;
      const JobResult result = run_job(work);
      ASSERT_EQ(result.status, "ok") << result.reason;
      const bool again = !takes_long && repetitions > 0;
      EXPECT_EQ(What::setups > 1, again) << takes_long << ", " << repetitions;
      EXPECT_LE(What::setups, 6);
      if (What::setups == 6) {
        EXPECT_GE(result.setup_seconds, 0.004) << "of 2, 3, 4, 5 and 6 ms";
      }
      EXPECT_EQ(result.setup_seconds > 0.05, takes_long);
      EXPECT_EQ(std::ranges::count_if(
                    result.doubts,
                    [](const std::string& doubt) { return doubt.find("locale") != doubt.npos; }),
                again ? 1 : 0);
    }
  }
}

TEST_F(WorkerTest, StepsAroundTheVariantsAreInEverySample) {
  around_steps<float> = [](Variant<float>& variant) -> std::unique_ptr<Variant<float>> {
    return std::make_unique<SlowedSteps<float>>(variant, 3);
  };
  std::vector<TimedStep> timed;
  time_steps(job("tests_notes_its_calls", {1, 3}, 1, {2}), 3, timed);
  around_steps<float> = nullptr;
  ASSERT_EQ(timed.size(), 3U);
  for (const TimedStep& one : timed) {
    EXPECT_GE(one.sample, 4 * one.own);
    EXPECT_LE(one.sample, one.room);
  }
}

TEST_F(WorkerTest, WaitsForAQuietMomentNoLongerThanItsPatience) {
  Job work = job("tests_spin", {1, 3}, 1, {2});
  work.repetitions = 3;
  work.best_pace = 1e-9;  // no moment is as quiet as that
  work.patience = 0.3;
  const auto begin = Clock::now();
  const JobResult result = run_job(work);
  EXPECT_EQ(result.status, "ok") << result.reason;
  EXPECT_EQ(result.samples.size(), 3U);
  EXPECT_EQ(result.pace.size(), 2U);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(300));
}

TEST_F(WorkerTest, JobsAndResultsSurviveJson) {
  Job work = job("reference", kLine, 1, {0, 1});
  work.exact_inertia = 0.1;
  work.certified_outcomes = {"a", "b"};
  work.best_pace = 1e-4;
  work.patience = 0.5;
  work.precision = Precision::bf16;
  EXPECT_EQ(to_json(job_from_json(to_json(work))), to_json(work));
  work.precision = Precision::f32;
  work.exact_inertia.reset();
  const JobResult result = run_job(work);
  EXPECT_EQ(to_json(job_result_from_json(to_json(result))), to_json(result));
}

TEST_F(WorkerTest, TraceKnowsItsAnswer) {
  TraceJob trace = trace_on_line("reference", 10);
  trace.stop = "labels";
  trace.keep_points = 4;
  trace.keep_centroids = true;
  trace.expected = {
      {"inertia", {303.0}}, {"relative_tolerance", 1e-12}, {"labels_begin", {0, 0, 0, 1}}};
  const auto json = run_trace(trace_job_from_json(to_json(trace)));
  EXPECT_EQ(json.at("status"), "ok") << json.dump();
  // 0 1 1 1 1 1, then 0 0 0 1 1 1, then the same again: stopped after three.
  ASSERT_EQ(json.at("iterations").size(), 3U);
  EXPECT_EQ(json.at("iterations")[0].at("changed"), 6);
  EXPECT_EQ(json.at("iterations")[1].at("changed"), 2);
  EXPECT_EQ(json.at("iterations")[2].at("changed"), 0);
  EXPECT_EQ(json.at("iterations")[0].at("loss"), 0 + 0 + 1 + 9 + 10 + 11);
  EXPECT_EQ(json.at("iterations")[2].at("movement"), 0);
  EXPECT_EQ(json.at("iterations")[2].at("inertia"), 4);
  EXPECT_EQ(json.at("points").at("rows").size(), 4U);
  trace.expected["inertia"] = {304.0};
  EXPECT_EQ(run_trace(trace).at("status"), "wrong");
}

TEST_F(WorkerTest, TraceKnowsCentroids) {
  TraceJob trace = trace_on_line("reference", 2);
  // 0 | 1 2 10 11 12 has its mean at 7.2 after the first iteration.
  const auto expect = [&](std::int64_t iteration, double second, double tolerance) {
    trace.expected = {{"inertia", nlohmann::json::array()},
                      {"centroids",
                       {{{"iteration", iteration},
                         {"values", {{0.0}, {second}}},
                         {"absolute_tolerance", tolerance}}}}};
    return run_trace(trace_job_from_json(to_json(trace)));
  };
  auto json = expect(1, 7.2, 1e-6);
  EXPECT_EQ(json.at("status"), "ok") << json.at("reason");
  EXPECT_LE(json.at("expected").at("centroid_error_of_tolerance"), 1.0);
  json = expect(1, 7.3, 1e-2);
  EXPECT_EQ(json.at("status"), "wrong");
  EXPECT_NEAR(json.at("expected").at("centroid_error_of_tolerance").get<double>(), 10, 1e-3);
  EXPECT_THAT(json.at("reason").get<std::string>(), testing::HasSubstr("centroid"));
  // An iteration that never came proves nothing.
  EXPECT_EQ(expect(3, 7.2, 1e-6).at("status"), "wrong");
}

TEST_F(WorkerTest, TraceIsCertifiedAsACellIs) {
  const auto right = run_trace(trace_on_line("reference", 3));
  EXPECT_EQ(right.at("status"), "ok") << right.dump();
  EXPECT_TRUE(right.at("verification").at("passed").get<bool>());
  EXPECT_EQ(right.at("verification").at("points_checked"), 6);
  EXPECT_GT(right.at("seconds_per_iteration"), 0.0);
  // Wrong from the second step on: only the certificate of the last one sees it.
  TraceJob trace = trace_on_line("tests_forgets", 4);
  trace.stop = "labels";
  trace.runs = 2;
  const auto wrong = run_trace(trace);
  EXPECT_EQ(wrong.at("status"), "wrong") << wrong.dump();
  EXPECT_THAT(wrong.at("reason").get<std::string>(), testing::HasSubstr("last iteration"));
  EXPECT_FALSE(wrong.at("verification").at("passed").get<bool>());
  EXPECT_TRUE(wrong.at("seconds_per_iteration").is_null());
  EXPECT_TRUE(wrong.at("runs_seconds").is_null());
}

TEST_F(WorkerTest, AKnownAnswerOfZeroIsMissedInWords) {
  TraceJob trace = trace_on_line("reference", 2);
  trace.expected = {{"inertia", {0.0}}, {"relative_tolerance", 1e300}};
  const auto json = run_trace(trace);
  EXPECT_EQ(json.at("status"), "wrong");
  EXPECT_THAT(json.at("reason").get<std::string>(), testing::HasSubstr("inertia infinite"));
  EXPECT_TRUE(json.at("seconds_per_iteration").is_null());
}

TEST_F(WorkerTest, TraceIsTimedAgainWarm) {
  TraceJob trace = trace_on_line("reference", 10);
  trace.stop = "labels";
  EXPECT_TRUE(run_trace(trace).at("runs_seconds").is_null());
  trace.runs = 4;
  const auto json = run_trace(trace_job_from_json(to_json(trace)));
  EXPECT_EQ(json.at("iterations").size(), 3U);
  ASSERT_EQ(json.at("runs_seconds").size(), 1U);
  EXPECT_EQ(json.at("runs_seconds")[0].size(), 4U);
  for (const double seconds : json.at("runs_seconds")[0]) EXPECT_GT(seconds, 0);
  trace.runs_of = 3;
  trace.max_seconds = 0;  // at least one all the same
  const auto again = run_trace(trace_job_from_json(to_json(trace)));
  EXPECT_EQ(again.size(), 1U);
  EXPECT_EQ(again.at("runs_seconds")[0].size(), 1U);
}

TEST_F(WorkerTest, RulesGoByWhatTheVariantItselfSays) {
  TraceJob trace = trace_on_line("tests_content", 5);
  for (const char* stop : {"movement:0.5", "labels", "loss:0.1"}) {
    trace.stop = stop;
    const auto json = run_trace(trace);
    ASSERT_EQ(json.at("iterations").size(), 2U) << stop;
    EXPECT_EQ(json.at("iterations")[1].at("movement"), 2) << stop;  // what really happened
    EXPECT_EQ(json.at("iterations")[1].at("changed"), 6) << stop;
    EXPECT_EQ(json.at("iterations")[1].at("own_changed"), 0) << stop;
    EXPECT_EQ(json.at("iterations")[1].at("own_loss"), 5.0) << stop;
  }
  trace.stop.clear();
  EXPECT_EQ(run_trace(trace).at("iterations").size(), 5U);
}

TEST(Stop, RulesAreParsed) {
  EXPECT_EQ(parse_stop("labels").kind, StopRule::Kind::labels);
  EXPECT_EQ(parse_stop("movement:1e-3").threshold, 1e-3);
  EXPECT_EQ(parse_stop("loss:0.5").kind, StopRule::Kind::loss);
  EXPECT_EQ(parse_stop("").kind, StopRule::Kind::never);
  EXPECT_THROW(parse_stop("movement:x"), std::exception);
  EXPECT_THROW(parse_stop("movement:-1"), std::exception);
  EXPECT_THROW(parse_stop("never"), std::exception);
}

TEST(JobResults, WhatNoWorkerWritesIsRefused) {
  const nlohmann::json whole = to_json(JobResult{});
  const auto read = [&](const nlohmann::json& change) {
    nlohmann::json message = whole;
    message["status"] = "ok";
    message.update(change);
    return job_result_from_json(message);
  };
  EXPECT_EQ(read(nlohmann::json::object()).status, "ok");
  EXPECT_THROW(read({{"status", "fine"}}), InputError);  // it would be taken for right
  EXPECT_THROW(read({{"samples", {"fast"}}}), nlohmann::json::exception);
  EXPECT_THROW(read({{"empty_clusters", 0.5}}), InputError);
  EXPECT_THROW(read({{"inertia", "small"}}), nlohmann::json::exception);
  EXPECT_THROW(job_result_from_json(nlohmann::json::array()), nlohmann::json::exception);
}

TEST(JobResults, NumbersThatBecameNullAreNotNumbersAgain) {
  JobResult odd;
  odd.status = "wrong";
  odd.inertia = std::nan("");
  odd.samples = {1.0, std::nan("")};
  const JobResult read = job_result_from_json(nlohmann::json::parse(to_json(odd).dump()));
  EXPECT_TRUE(std::isnan(read.inertia));
  ASSERT_EQ(read.samples.size(), 2U);
  EXPECT_EQ(read.samples[0], 1.0);
  EXPECT_TRUE(std::isnan(read.samples[1]));
}

TEST(JobResults, WithoutAWorkersWordThereAreStatusAndReason) {
  const nlohmann::json message = to_json(unreported("error", "killed"));
  EXPECT_EQ(message,
            nlohmann::json(
                {{"status", "error"}, {"reason", "killed"}, {"samples", nlohmann::json::array()}}));
  EXPECT_TRUE(job_result_from_json(message).unreported);
}

}  // namespace
}  // namespace kmeans
