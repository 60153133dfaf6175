// SPDX-License-Identifier: Apache-2.0
#include "harness/run/repetitions.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <stdexcept>

#include "harness/machine/gpu.h"
#include "harness/verify/stage_times.h"

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

/// Iterations that the last step of this many ran.
template <class T>
std::int64_t executed_in_last_step(Session<T>& session, std::int64_t asked) {
  return std::clamp<std::int64_t>(session.variant().executed_iterations().value_or(asked), 1,
                                  asked);
}

constexpr std::int64_t kMaxTimelessSteps = 100'000;
// A look at the pace takes most of a millisecond, and empties the nearest cache.
constexpr double kWatchEverySeconds = 4e-3;

}  // namespace

// Google Benchmark decides how often to repeat inside a repetition until min_seconds are reached.
template <class T>
TimedRepetitions time_repetitions(Session<T>& session, std::int64_t iterations, int repetitions,
                                  double min_seconds, QuietMoments& moments) {
  benchmark::ClearRegisteredBenchmarks();
  std::exception_ptr failure;
  TimedRepetitions timed;
  struct Round {
    double device_seconds;
    double steps;
    double iterations;  // executed in all steps
  };
  std::vector<Round> rounds;
  benchmark::RegisterBenchmark(
      "cell",
      [&](benchmark::State& state) {
        double device_sum = 0;
        double sum = 0;
        std::int64_t executed = 0;
        double unwatched = 0;  // seconds of steps since the last look at the pace
        std::int64_t steps = 0;
        try {
          while (state.KeepRunning()) {
            if (unwatched == 0) moments.wait();
            session.reset();
            double seconds = session.step(iterations);
            // Done again until it was not disturbed; many short steps are left as they are.
            while (moments.patient() && seconds >= kWatchEverySeconds && unwatched == 0 &&
                   moments.should_repeat(seconds)) {
              moments.wait();
              session.reset();
              seconds = session.step(iterations);
            }
            unwatched += seconds;
            if (unwatched >= kWatchEverySeconds) unwatched = 0;
            sum += seconds;
            ++steps;
            // Google Benchmark would repeat what takes no time a billion times.
            if (!std::isfinite(seconds) || seconds < 0 ||
                (steps >= kMaxTimelessSteps && sum <= 0)) {
              throw std::runtime_error(kNoDuration);
            }
            state.SetIterationTime(seconds);
            device_sum += session.device_seconds().value_or(0);
            executed += executed_in_last_step(session, iterations);
            if (const auto own = session.variant().executed_iterations()) {
              timed.executed_iterations.insert(*own);
            }
          }
          rounds.push_back(
              {device_sum, static_cast<double>(state.iterations()), static_cast<double>(executed)});
        } catch (...) {
          failure = std::current_exception();
          state.SkipWithError("the variant failed");
        }
      })
      ->UseManualTime()
      ->MinTime(std::max(min_seconds, 1e-9))  // zero, which an experiment may say, it refuses
      ->Repetitions(repetitions);
  SampleReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, ".*");
  if (failure) std::rethrow_exception(failure);
  timed.seconds = reporter.samples();
  // Before the repetitions come rounds that find out how many iterations they need.
  if (rounds.size() < timed.seconds.size()) throw std::logic_error("a repetition was not counted");
  const std::size_t first = rounds.size() - timed.seconds.size();
  for (std::size_t i = 0; i < timed.seconds.size(); ++i) {
    const Round& round = rounds[first + i];
    timed.seconds[i] *= round.steps / round.iterations;
    if (session.device_seconds()) {
      timed.device_seconds.push_back(round.device_seconds / round.iterations);
    }
  }
  return timed;
}

template <class T>
std::map<std::string, double> time_stages(Session<T>& session, std::int64_t iterations) {
  StageTimes stages(session.on_our_gpu());
  session.variant().set_stage_recorder(&stages);
  session.reset();
  session.step(iterations);
  session.variant().set_stage_recorder(nullptr);
  auto seconds = stages.per_iteration(executed_in_last_step(session, iterations));
  if (const auto times = session.rank_times()) {
    seconds["communication"] = times->communication.front() / static_cast<double>(iterations);
  }
  return seconds;
}

template TimedRepetitions time_repetitions(Session<float>&, std::int64_t, int, double,
                                           QuietMoments&);
template TimedRepetitions time_repetitions(Session<double>&, std::int64_t, int, double,
                                           QuietMoments&);
template std::map<std::string, double> time_stages(Session<float>&, std::int64_t);
template std::map<std::string, double> time_stages(Session<double>&, std::int64_t);

}  // namespace kmeans
