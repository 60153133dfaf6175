// SPDX-License-Identifier: Apache-2.0
//
// The worker: one cell's configuration in a process of its own. Certifies first, then times.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <new>

#include "harness/job.h"
#include "harness/json_file.h"
#include "harness/machine.h"
#include "harness/session.h"
#include "harness/text.h"

namespace kmeans {
namespace {

// Receives the runs that Google Benchmark times; the truth file is ours (docs/results.md).
class SampleReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.iterations == 0) continue;
      samples_.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }
  [[nodiscard]] const std::vector<double>& samples() const { return samples_; }

 private:
  std::vector<double> samples_;  // seconds per repetition of T iterations
};

// Seconds of T iterations, one value per repetition; Google Benchmark decides how often to repeat
// inside a repetition until min_seconds are reached.
template <class T>
std::vector<double> time_repetitions(Session<T>& session, std::int64_t iterations, int repetitions,
                                     double min_seconds) {
  benchmark::ClearRegisteredBenchmarks();
  std::exception_ptr failure;
  benchmark::RegisterBenchmark("cell",
                               [&](benchmark::State& state) {
                                 try {
                                   while (state.KeepRunning()) {
                                     session.reset();
                                     state.SetIterationTime(session.step(iterations));
                                   }
                                 } catch (...) {
                                   failure = std::current_exception();
                                   state.SkipWithError("the variant failed");
                                 }
                               })
      ->UseManualTime()
      ->MinTime(min_seconds)
      ->Repetitions(repetitions);
  SampleReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, ".*");
  if (failure) std::rethrow_exception(failure);
  return reporter.samples();
}

// Sums the seconds of each stage.
class StageTimes final : public StageRecorder {
 public:
  void begin(const char* stage) override {
    stage_ = stage;
    start_ = std::chrono::steady_clock::now();
  }
  void end() override {
    seconds_[stage_] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  [[nodiscard]] std::map<std::string, double> per_iteration(std::int64_t iterations) const {
    auto result = seconds_;
    for (auto& [stage, seconds] : result) seconds /= static_cast<double>(iterations);
    return result;
  }

 private:
  std::string stage_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, double> seconds_;
};

// Repetitions that fit the budget, when one repetition of T iterations takes `seconds`.
int affordable_repetitions(const Job& job, double seconds) {
  const double each = std::max(seconds, job.min_seconds);
  const double affordable = std::floor(job.max_seconds / each);
  return static_cast<int>(std::clamp(affordable, 1.0, static_cast<double>(job.repetitions)));
}

// The timed run must have computed what was certified. Non-deterministic variants (atomics, races
// that are allowed) are judged by the quality of what they found instead.
template <class T>
void check_timed_outcome(Session<T>& session, const CertifiedRun<T>& run,
                         const VerifyOptions& options, Certificate& certificate) {
  static const char* const kName = "timed run found what was certified";
  const Outcome<T> timed = session.fetch();
  if (timed.labels == run.last.labels && timed.centroid_hash() == run.last.centroid_hash()) {
    certificate.add(kName, true, "same labels and centroids, bit for bit");
    return;
  }
  const Traits& traits = session.traits();
  if (traits.exact) {
    certificate.add(kName, false, "an exact variant gave other bits when timed");
    return;
  }
  for (const std::int32_t label : timed.labels) {
    if (label < 0 || label >= session.problem().shape.k) {
      certificate.add(kName, false, "labels are outside [0, k)");
      return;
    }
  }
  if (traits.labels_of == LabelsOf::starting) {
    // Its own centroids of the last-but-one iteration are not to be had, but they differ by
    // rounding from the certified run's; the means of its own labels are checked as they are.
    StepEvidence<T> step = session.evidence(run.before, timed);
    Certificate means = certify_step(traits, step, options);
    for (const auto& check : means.checks) {
      if (check.name == "centroids are the means of their points") {
        certificate.add(std::string("timed run: ") + check.name, check.passed, check.detail);
      }
    }
  }
  const T* owner =
      traits.labels_of == LabelsOf::returned ? timed.centroids.data() : run.before.data();
  const Quality quality = quality_of(session.problem().points, owner, timed.labels.data(),
                                     session.problem().shape, session.problem().threads);
  const double difference =
      run.quality.inertia > 0 ? quality.inertia / run.quality.inertia - 1 : quality.inertia;
  char detail[96];
  std::snprintf(detail, sizeof detail, "other bits; inertia differs by a relative %.3g",
                difference);
  certificate.add(kName, std::abs(difference) <= 1e-2, detail);
}

template <class T>
JobResult run_typed(const Job& job, const RegisteredVariant& registered) {
  JobResult result;
  LoadOptions as_stored;
  as_stored.scalar = scalar_of<T>;
  as_stored.check_finite = false;  // checked when the data set was made
  const Points points = load_points(job.points_file, as_stored);
  const Points centroids = load_points(job.centroids_file, as_stored);

  Problem<T> problem;
  problem.shape = {points.n(), points.d(), job.k, job.precision};
  problem.points = points.data<T>();
  problem.threads = job.threads;
  problem.points_file = job.points_file;
  if (centroids.n() != job.k || centroids.d() != points.d()) {
    result.status = "error";
    result.reason = job.centroids_file + " holds " + std::to_string(centroids.n()) + " x " +
                    std::to_string(centroids.d()) + " coordinates, not k x d";
    return result;
  }
  if (const Support support = supports(registered, problem.shape); !support.ok) {
    result.status = "skipped";
    result.reason = support.reason;
    return result;
  }
  problem.max_abs = largest_abs(problem.points, points.n() * points.d(), job.threads);
  if (registered.traits.traffic) result.traffic = registered.traits.traffic(problem.shape);

  Session<T> session(registered, problem, centroids.data<T>());
  result.setup_seconds = session.setup_seconds();
  result.library = session.variant().library_info();

  const bool timed = job.repetitions > 0;
  const VerifyOptions options{job.verify_budget, job.verify_seed};
  bool reused = false;
  auto run = certified_run(
      session, job.iterations, options, result.outcome, [&](const std::string& outcome) {
        reused = std::find(job.certified_outcomes.begin(), job.certified_outcomes.end(), outcome) !=
                 job.certified_outcomes.end();
        return timed && !reused;
      });
  result.label_hash = run.last.label_hash();
  result.centroid_hash = run.last.centroid_hash();
  result.inertia = run.quality.inertia;
  result.empty_clusters = run.quality.empty_clusters;
  result.any_empty_clusters = run.any_empty;
  result.status = "ok";
  if (!timed) return result;

  if (job.exact_inertia && run.labels_in_range) {
    certify_trajectory(registered.traits, run.quality.inertia, *job.exact_inertia,
                       job.exact_had_empty_clusters || run.any_empty, run.certificate);
  }
  if (run.certificate.passed) {
    const int repetitions = affordable_repetitions(job, run.seconds);
    if (repetitions < job.repetitions) result.stopping = "time budget";
    const auto seconds = time_repetitions(session, job.iterations, repetitions, job.min_seconds);
    for (const double value : seconds) {
      result.samples.push_back(value / static_cast<double>(job.iterations));
    }
    check_timed_outcome(session, run, options, run.certificate);
    const bool measurable =
        !result.samples.empty() && std::all_of(result.samples.begin(), result.samples.end(),
                                               [](double s) { return std::isfinite(s) && s > 0; });
    if (!measurable) {
      result.status = "error";
      result.reason = "no positive duration was measured";
      result.samples.clear();
    }
    if (job.profile) {
      StageTimes stages;
      session.variant().set_stage_recorder(&stages);
      session.reset();
      session.step(job.iterations);
      session.variant().set_stage_recorder(nullptr);
      result.stages = stages.per_iteration(job.iterations);
    }
  }
  if (!run.certificate.passed) {
    result.status = "wrong";
    result.reason = run.certificate.failure();
    result.samples.clear();
    result.stages.clear();
  }
  result.verification = to_json(run.certificate);
  if (reused) result.verification["reused"] = result.outcome;
  return result;
}

}  // namespace

JobResult run_job(const Job& job) {
  JobResult failed;
  failed.status = "error";
  try {
    const RegisteredVariant& registered = require_variant(job.variant);
    return job.precision == Precision::f64 ? run_typed<double>(job, registered)
                                           : run_typed<float>(job, registered);
  } catch (const std::bad_alloc&) {
    failed.reason = "out of host memory";
  } catch (const std::exception& error) {
    failed.reason = error.what();
  }
  return failed;
}

int run_worker(const std::string& job_file, const std::string& result_file) {
  honour_denormals();
  try {
    const JobResult result = run_job(job_from_json(read_json_file(job_file)));
    write_json_file(result_file, to_json(result));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kmeans-bench worker: %s\n", error.what());
    return 1;
  }
}

}  // namespace kmeans
