// SPDX-License-Identifier: Apache-2.0
//
// Runs a trace and holds it against the exact trajectory.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/run/preparation.h"
#include "harness/run/sweep.h"
#include "harness/run/workers.h"

namespace kmeans {

/// Exact trajectories of tasks: kept ones, else followed by a worker.
class ExactTrajectories {
 public:
  ExactTrajectories(Preparation& preparation, Workers& workers, int threads, double timeout_seconds)
      : preparation_(preparation),
        workers_(workers),
        threads_(threads),
        timeout_seconds_(timeout_seconds) {}

  /// Float64 cells get a trajectory of their own, or, where that would take too long, that of the
  /// points rounded to float32. Throws what Preparation::files throws.
  std::optional<ExactTrajectory> find(const Task& task, std::int64_t iterations, ScalarType scalar);

 private:
  Preparation& preparation_;
  Workers& workers_;
  int threads_;
  double timeout_seconds_;
};

class TraceRecorder {
 public:
  TraceRecorder(ExactTrajectories& trajectories, Workers& workers, const Plan& plan, int threads)
      : trajectories_(trajectories), workers_(workers), plan_(plan), threads_(threads) {}

  /// The trace as the journal has it; null when interrupted.
  nlohmann::json record(const PlannedTrace& trace, const TaskFiles& files);

 private:
  /// Holds the inertia after the last iteration against the exact trajectory's, as for a cell.
  void check_trajectory(const PlannedTrace& trace, nlohmann::json& result);

  ExactTrajectories& trajectories_;
  Workers& workers_;
  const Plan& plan_;
  int threads_;
};

}  // namespace kmeans
