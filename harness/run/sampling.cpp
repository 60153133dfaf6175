// SPDX-License-Identifier: Apache-2.0
#include "harness/run/sampling.h"

#include <algorithm>
#include <cmath>

#include "harness/record/agreement.h"
#include "harness/record/measures.h"

namespace kmeans {
namespace {

// Processes beyond those planned, of a cell whose processes disagree, may take so many times the
// time of the planned ones; all of a run's together this share of it, or so many seconds.
constexpr double kFurtherOfCell = 2;
constexpr double kFurtherOfCellAtLeast = 5;  // seconds
constexpr double kFurtherOfRun = 0.5;
constexpr double kFurtherAtLeast = 30;
// Set-up, verification and process start may take this many times the budget of the timed part
// before a cell gets fewer processes.
constexpr double kOverheadFactor = 6;
// A profiling pass of so many seconds is long; the sums of the stages of two agree within this factor.
constexpr double kLongPass = 0.1;
constexpr double kStagesAgree = 1.1;

double sum_of_stages(const JobResult& result) {
  double sum = 0;
  for (const auto& [stage, seconds] : result.stages) sum += seconds;
  return sum;
}

}  // namespace

int fewest_processes(double iteration_seconds) {
  constexpr double kLongIteration = kAgreeingProcesses * 1;
  return iteration_seconds < kLongIteration ? 3 : 2;
}

bool wants_stages(const std::vector<const ProcessRecord*>& processes, std::int64_t iterations) {
  std::vector<double> sums;
  for (const auto* process : processes) {
    if (process->result.status != "ok") continue;
    const double sum = sum_of_stages(process->result);
    // The first that was asked for them has none: the variant marks none, or they would take too long.
    if (sum == 0 && sums.size() < 2) return false;
    if (sum > 0) sums.push_back(sum);
  }
  if (sums.size() < 2) return true;
  const auto [fastest, slowest] = std::minmax_element(sums.begin(), sums.end());
  return *slowest > kStagesAgree * *fastest ||
         *fastest * static_cast<double>(iterations) < kLongPass;
}

SamplingDecision decide_sampling(const Sampling& wanted, std::int64_t iterations,
                                 const ProcessRecord& first) {
  SamplingDecision decision{wanted.processes, wanted.repetitions, false};
  const auto& samples = first.result.samples;
  const double sample = median_of(samples);
  if (!std::isfinite(sample)) return decision;
  const auto steps = static_cast<double>(first.result.executed_iterations.value_or(iterations));
  const double repetition = std::max(sample * steps, wanted.min_seconds);
  const double spent = repetition * static_cast<double>(samples.size());
  const double left = std::max(0.0, wanted.max_seconds - spent);
  const int others = wanted.processes - 1;
  const double affordable = repetition > 0 ? std::floor(left / repetition) : 1e9;
  if (affordable < others) {
    decision.repetitions = 1;
    decision.processes = 1 + static_cast<int>(affordable);
  } else if (others > 0) {
    decision.repetitions =
        static_cast<int>(std::min<double>(wanted.repetitions, std::floor(affordable / others)));
  }
  const double overhead = first.wall_seconds - spent;
  const double allowed = kOverheadFactor * wanted.max_seconds;
  if (overhead * decision.processes > allowed) {
    decision.processes = std::clamp(static_cast<int>(allowed / overhead), 1, decision.processes);
  }
  decision.processes =
      std::max(decision.processes, std::min(fewest_processes(sample), wanted.processes));
  decision.cut_short = decision.processes < wanted.processes ||
                       decision.repetitions < wanted.repetitions ||
                       static_cast<int>(samples.size()) < wanted.repetitions;
  return decision;
}

std::pair<double, double> planned_and_further_seconds(
    const std::vector<const ProcessRecord*>& processes, int planned) {
  std::pair<double, double> seconds{0, 0};
  for (const auto* process : processes) {
    (process->process < planned ? seconds.first : seconds.second) += process->wall_seconds;
  }
  return seconds;
}

bool wants_further_process(const std::vector<const ProcessRecord*>& processes, int planned) {
  // One process was asked for: nothing can disagree.
  if (planned < 2 || static_cast<int>(processes.size()) < planned) return false;
  std::vector<double> medians;
  for (const auto* process : processes) {
    medians.push_back(median_of(process->result.samples));
    if (!std::isfinite(medians.back())) return false;
  }
  if (agreement_of(medians).settled(static_cast<std::size_t>(planned))) return false;
  if (static_cast<int>(processes.size()) >= 2 * planned + 1) return false;
  const auto [of_planned, of_further] = planned_and_further_seconds(processes, planned);
  return of_further <= std::max(kFurtherOfCellAtLeast, kFurtherOfCell * of_planned);
}

bool affords_further_process(double planned_seconds, double further_seconds) {
  return further_seconds < std::max(kFurtherAtLeast, kFurtherOfRun * planned_seconds);
}

}  // namespace kmeans
