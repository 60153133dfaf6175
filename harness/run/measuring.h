// SPDX-License-Identifier: Apache-2.0
//
// One worker process of a cell: what it is asked, what is kept of its answer, and what is said of it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "harness/machine/machine.h"
#include "harness/machine/machine_check.h"
#include "harness/run/coordinator.h"
#include "harness/run/preparation.h"
#include "harness/run/run_state.h"
#include "harness/run/workers.h"

namespace kmeans {

/// What shows that a file was written to, without reading it.
struct FileStamp {
  std::uintmax_t bytes = 0;
  std::filesystem::file_time_type modified;

  explicit FileStamp(const std::filesystem::path& file);
  bool operator==(const FileStamp& other) const = default;
};

class Measuring {
 public:
  Measuring(RunState& run, Workers& workers, Preparation& preparation)
      : run_(run), workers_(workers), preparation_(preparation) {}

  /// A process that is done already is measured again, and the better of both answers kept. `choice`: as
  /// a chooser made it. Throws InputError where a process wrote to the user's own points.
  void run_process(CellState& state, int process, const Choice* choice = nullptr);

  /// More than planned, because processes disagree?
  [[nodiscard]] bool wants_further(const CellState& state) const;

  /// A line on a cell, by its last answer.
  void show(const CellState& state, int process);

 private:
  [[nodiscard]] Job job_for(const CellState& state, int process);
  double best_pace(int threads);
  void keep_better(const CellState& state, const ProcessRecord& earlier,
                   ProcessRecord& again) const;
  [[nodiscard]] bool others_rely_on(const CellState& state, const ProcessRecord& earlier,
                                    const ProcessRecord& again) const;
  void restore_inputs(CellState& state);
  void show(const std::string& what);
  [[nodiscard]] std::string headline_of(const CellState& state) const;
  [[nodiscard]] std::string description(const CellState& state, const JobResult& result) const;

  RunState& run_;
  Workers& workers_;
  Preparation& preparation_;
  CheckScope metered_{{}, allowed_cpus(), 1, {}};
  std::map<std::filesystem::path, FileStamp> stamps_;  ///< Of files of points, when first used.
};

}  // namespace kmeans
