// SPDX-License-Identifier: Apache-2.0
//
// How often a cell is measured, once its processes show how long things take and whether they agree. Every
// function depends on nothing but its arguments, so that a resumed run decides alike.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "harness/run/experiment.h"
#include "harness/run/journal.h"

namespace kmeans {

/// How a cell is sampled once its first process has shown how long things take.
struct SamplingDecision {
  int processes = 1;    ///< In all, the first one included.
  int repetitions = 1;  ///< In each of the others.
  bool cut_short = false;
};
/// No budget takes a cell below so many: one process cannot show how far processes differ, and one
/// sample decides nothing. Iterations of a second and more get fewer: the first process decides, and
/// where the others agree with it, none of them is then below a second.
int fewest_processes(double iteration_seconds);

/// Does the next process of a cell profile its stages? Not where one had none to profile, nor where a pass
/// takes long and two of them agree. `processes`: all so far; `iterations`: of a pass.
bool wants_stages(const std::vector<const ProcessRecord*>& processes, std::int64_t iterations);

SamplingDecision decide_sampling(const Sampling& wanted, std::int64_t iterations,
                                 const ProcessRecord& first);

/// Does a cell whose processes disagree get one more, as far as its own budget goes: as many again as planned and
/// one more, and twice their time? `processes`: all so far, in order; `planned`: how many were.
bool wants_further_process(const std::vector<const ProcessRecord*>& processes, int planned);

/// Seconds of the processes that were planned, and of those beyond.
std::pair<double, double> planned_and_further_seconds(
    const std::vector<const ProcessRecord*>& processes, int planned);

/// Does a run that spent so long on planned and on further processes afford one more of them?
bool affords_further_process(double planned_seconds, double further_seconds);

}  // namespace kmeans
