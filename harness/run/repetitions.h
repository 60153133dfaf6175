// SPDX-License-Identifier: Apache-2.0
//
// The timed part of a worker: repetitions by Google Benchmark, and where the time of an iteration goes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/machine/pace.h"
#include "harness/verify/session.h"

namespace kmeans {

inline constexpr const char* kNoDuration = "no positive duration was measured";

/// Seconds per iteration, one value per repetition, by the host's clock and by device events.
struct TimedRepetitions {
  std::vector<double> seconds;
  std::vector<double> device_seconds;          ///< empty without a GPU
  std::set<std::int64_t> executed_iterations;  ///< by step; empty where a step never stops early
};

template <class T>
TimedRepetitions time_repetitions(Session<T>& session, std::int64_t iterations, int repetitions,
                                  double min_seconds, QuietMoments& moments);

/// Another run, for the seconds of an iteration that each stage takes.
template <class T>
std::map<std::string, double> time_stages(Session<T>& session, std::int64_t iterations);

}  // namespace kmeans
