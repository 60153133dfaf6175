// SPDX-License-Identifier: Apache-2.0
#include "harness/run/coordinator.h"

#include <algorithm>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "datasets/python_sets.h"
#include "harness/run/estimate.h"
#include "harness/run/measuring.h"
#include "harness/run/out_folder.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/preparation.h"
#include "harness/run/run_state.h"
#include "harness/run/schedule.h"
#include "harness/run/trace_recorder.h"
#include "harness/run/workers.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/memory_left.h"
#include "harness/support/process.h"
#include "harness/support/sha256.h"

namespace kmeans {
namespace {

using nlohmann::json;

class Run {
 public:
  explicit Run(const RunRequest& asked)
      : asked_(asked),
        state_(asked),
        workers_(asked.settings.worker_command, state_.environment(),
                 asked.settings.keep_environment),
        preparation_(asked.settings.cache, state_.build()),
        trajectories_(preparation_, workers_, asked.settings.threads, asked.plan.timeout_seconds),
        recorder_(trajectories_, workers_, asked.plan, asked.settings.threads),
        measuring_(state_, workers_, preparation_) {}

  RunSummary run() {
    state_.begin();
    prepare();
    bool broken_off = false;
    try {
      broken_off = !measure_cells(state_, measuring_);
      if (!broken_off) carry_out_pending();
    } catch (const InputError&) {
      state_.assemble(false);  // what was measured before is on file
      throw;
    }
    broken_off = broken_off || InterruptGuard::interrupted();
    RunSummary summary = summary_of(state_.assemble(!broken_off));
    summary.interrupted = broken_off;
    summary.file = state_.result_file();
    return summary;
  }

 private:
  /// A trace, a study or a fit that is to be done.
  struct Pending {
    Part part;
    std::string name;
    std::optional<double> seconds;  ///< Estimated.
    std::function<json()> run;      ///< Its result as the journal has it; null when interrupted.
  };

  /// Before anything is measured, so that a broken file is found first.
  void prepare() {
    prepare_cells();
    const int threads = asked_.settings.threads;
    for (const auto& trace : asked_.plan.traces) {
      prepare_unit(
          trace, &trace.task, points_scalar(trace.precision),
          estimated_seconds(trace, asked_.plan.sampling),
          [this, &trace](const TaskFiles* files) { return recorder_.record(trace, *files); });
    }
    for (const auto& study : asked_.plan.studies) {
      prepare_unit(study, study.task ? &*study.task : nullptr, ScalarType::f32, std::nullopt,
                   [this, &study, threads](const TaskFiles* files) {
                     const auto reply =
                         workers_.run(job_of(study, files, threads), study.spec.timeout_seconds);
                     return reply.interrupted ? json() : reply.result;
                   });
    }
    for (const auto& fit : asked_.plan.fits) {
      prepare_unit(fit, &fit.task, ScalarType::f32, estimated_seconds(fit, threads),
                   [this, &fit, threads](const TaskFiles* files) {
                     const auto reply =
                         workers_.run(job_of(fit, *files, threads), fit.spec.timeout_seconds);
                     return reply.interrupted ? json() : reply.result;
                   });
    }
    if (!InterruptGuard::interrupted()) state_.agree_on_datasets(preparation_.datasets());
  }

  void prepare_cells() {
    std::map<std::string, std::optional<ExactTrajectory>> exact;
    std::size_t count = 0;
    for (auto& state : state_.cells()) {
      if (InterruptGuard::interrupted()) return;
      ++count;
      const Task& task = state.cell->task;
      if (state_.progress().rewrites()) {
        state_.progress().update(count, state_.cells().size(), "preparing " + task.label, -1);
      }
      try {
        const ScalarType scalar = points_scalar(task.shape.precision);
        state.files = files_of(task, scalar);
        if (state.finished()) continue;
        const std::int64_t iterations = state.cell->key.iterations;
        const std::string name = task.label + "/" + std::to_string(task.shape.k) + "/" +
                                 std::to_string(iterations) + "/" + to_string(scalar);
        auto found = exact.find(name);
        if (found == exact.end()) {
          found = exact.emplace(name, trajectories_.find(task, iterations, scalar)).first;
        }
        state.exact = found->second;
      } catch (const NotMeasurable& error) {
        state_.stop(state, unreported("skipped", error.what()));
      } catch (const PackageMissing& error) {
        state_.stop(state, unreported("skipped", error.what()));
      } catch (const EnvironmentError& error) {
        state_.stop(state, data_not_made(error.what()));
      } catch (const std::bad_alloc&) {
        state_.stop(state, data_not_made("out of host memory: needs more than " + memory_left()));
      }
    }
  }

  /// `task`: null for a unit that takes no data. A unit without data is done with: the journal records why.
  template <class PlannedUnit>
  void prepare_unit(const PlannedUnit& unit, const Task* task, ScalarType scalar,
                    std::optional<double> seconds, std::function<json(const TaskFiles*)> run) {
    const std::string& name = unit.name();
    if (InterruptGuard::interrupted() || !unit.to_run() || !state_.wants(unit.kPart, name)) return;
    const auto skip = [&](const std::string& reason) {
      state_.remember(unit.kPart, name, {{"status", "skipped"}, {"reason", reason}});
    };
    std::optional<TaskFiles> files;
    try {
      if (task != nullptr) files = files_of(*task, scalar);
      if (unit.kPart == Part::trace) prepare_comparison(*task);
    } catch (const NotMeasurable& error) {
      return skip(error.what());
    } catch (const PackageMissing& error) {
      return skip(error.what());
    } catch (const EnvironmentError& error) {
      return state_.remember(unit.kPart, name, to_json(data_not_made(error.what())));
    }
    pending_.push_back(
        {unit.kPart, name, seconds, [run = std::move(run), files = std::move(files)] {
           return run(files ? &*files : nullptr);
         }});
  }

  static JobResult data_not_made(const std::string& why) {
    return unreported("error", "the data could not be made: " + why);
  }

  /// Points that float32 cannot hold cost float32 cells only, but where nothing is float64 the
  /// experiment asks for what cannot be had.
  TaskFiles files_of(const Task& task, ScalarType scalar) {
    try {
      return preparation_.files(task, scalar);
    } catch (const PointsBeyondFloat32& error) {
      bool any_wide = false;
      for (const auto& state : state_.cells()) {
        any_wide = any_wide || state.cell->task.shape.precision == Precision::f64;
      }
      for (const auto& trace : asked_.plan.traces) {
        any_wide = any_wide || (trace.selected && trace.precision == Precision::f64);
      }
      if (!any_wide) throw InputError(error.what());
      throw;
    }
  }

  /// The points that the exact trajectory follows. Where they cannot be had there is none.
  void prepare_comparison(const Task& task) {
    try {
      preparation_.files(task, ScalarType::f32);
    } catch (const PointsBeyondFloat32&) {
      state_.progress().note("warning: " + task.label + " does not fit float32: its traces are " +
                             "not compared with the exact trajectory");
    } catch (const NotMeasurable&) {
      // Float64 traces are compared with a trajectory in float64.
    }
  }

  void carry_out_pending() {
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      if (InterruptGuard::interrupted()) return;
      const auto& [part, name, seconds, run] = pending_[i];
      state_.progress().update(i, pending_.size(),
                               state_.name() + ": " + to_string(part) + " " + name,
                               estimated_seconds_from(i));
      const json result = run();
      if (result.is_null()) return;
      state_.remember(part, name, result);
    }
  }

  /// Of this and all behind it; below 0 where one of them is not estimated.
  [[nodiscard]] double estimated_seconds_from(std::size_t first) const {
    double all = 0;
    for (std::size_t i = first; i < pending_.size(); ++i) {
      if (!pending_[i].seconds) return -1;
      all += *pending_[i].seconds;
    }
    return all;
  }

  const RunRequest& asked_;
  RunState state_;
  Workers workers_;
  Preparation preparation_;
  ExactTrajectories trajectories_;
  TraceRecorder recorder_;
  Measuring measuring_;
  std::vector<Pending> pending_;
};

}  // namespace

RunSummary run_experiment(const Experiment& experiment, const Plan& plan,
                          const RunSurroundings& surroundings, const RunSettings& settings) {
  check_writable(settings.out);
  const auto file = settings.out / (experiment.name + ".json");
  if (std::filesystem::is_directory(file)) {
    throw OutputError(file.string() + " is a folder, where the result file belongs; move it, or " +
                      "choose another --out");
  }
  try {
    const RunRequest asked{experiment, plan, surroundings, settings};
    Run run(asked);
    remove_abandoned_files(settings.out);
    return run.run();
  } catch (const json::exception& error) {
    if (!settings.resume) throw;
    throw InputError("the journal of " + file.string() +
                     " holds what this program does not write (" + error.what() +
                     "); start over without --resume");
  }
}

std::string build_identity() {
  const BuildInfo& build = build_info();
  if (!build.git_dirty) return build.git_commit;
  // The commit does not say what this program was built from.
  static const std::string hash = sha256_file("/proc/self/exe");
  return build.git_commit + "+" + hash.substr(0, 16);
}

}  // namespace kmeans
