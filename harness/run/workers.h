// SPDX-License-Identifier: Apache-2.0
//
// Hands jobs to worker processes: what the coordinator and `reproduce` share.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/environment.h"
#include "harness/run/fit_job.h"
#include "harness/run/job.h"
#include "harness/run/study_job.h"
#include "harness/run/trace_job.h"

namespace kmeans {

/// A folder for job and result files that goes when its owner does. Those of owners that were
/// killed go when the next one is made: a lock that the owner holds distinguishes them from living ones.
class ScratchFolder {
 public:
  /// Throws OutputError.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// The words that start a program as so many ranks: $KMEANS_BENCH_LAUNCHER, where "{ranks}" stands for
/// their number, or those of Open MPI. Throws InputError where that has no place for the number.
std::vector<std::string> launcher_words(int ranks);

/// Runs one worker process at a time.
class Workers {
 public:
  /// `command`: the program and its first arguments. `keep_environment`: as worker_environment
  /// takes it.
  Workers(std::vector<std::string> command, EnvironmentReport environment, bool keep_environment)
      : command_(std::move(command)),
        environment_(std::move(environment)),
        keep_environment_(keep_environment) {}

  struct Answer {
    JobResult result;  ///< With status `error` where the worker gave none that is whole.
    double wall_seconds = 0;
    bool interrupted = false;
    bool timed_out = false;
  };

  struct Record {
    nlohmann::json result;  ///< As in docs/results.md; with status `error` where there is none.
    bool interrupted = false;
  };

  /// Of a cell, or of a trajectory. An InterruptGuard should live. Throws OutputError when the job
  /// cannot be written.
  Answer run(const Job& job, double timeout_seconds);
  /// Of a trace, a study or a fit.
  Record run(const TraceJob& job, double timeout_seconds);
  Record run(const StudyJob& job, double timeout_seconds);
  Record run(const FitJob& job, double timeout_seconds);

 private:
  struct Reply {
    nlohmann::json result;  ///< Null unless the worker wrote one.
    std::string problem;    ///< Why there is no result.
    double wall_seconds = 0;
    bool interrupted = false;
    bool timed_out = false;
  };

  /// `role`: "worker", "trace-worker", "study-worker" or "fit-worker".
  Reply run(const char* role, const nlohmann::json& job, int threads, double timeout_seconds,
            int ranks = 1);
  static Record record_of(const Reply& reply);

  std::vector<std::string> command_;
  EnvironmentReport environment_;
  bool keep_environment_;
  ScratchFolder scratch_;
};

}  // namespace kmeans
