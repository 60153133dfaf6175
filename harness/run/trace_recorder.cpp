// SPDX-License-Identifier: Apache-2.0
#include "harness/run/trace_recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "harness/record/measures.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/run_result.h"
#include "harness/run/sampling.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/variants/registry.h"
#include "harness/verify/verify.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr int kRunsOfTrace = 5;  // timed in each process, of a trace that ends by a rule

}  // namespace

std::optional<ExactTrajectory> ExactTrajectories::find(const Task& task, std::int64_t iterations,
                                                       ScalarType scalar) {
  const TaskFiles files = preparation_.files(task, scalar);
  if (auto kept = preparation_.kept_trajectory(task, files, iterations)) return kept;
  const auto job = Preparation::trajectory_job(task, files, iterations, threads_);
  if (!job) {
    if (scalar == ScalarType::f32) return std::nullopt;
    try {
      return find(task, iterations, ScalarType::f32);
    } catch (const InputError&) {
      return std::nullopt;  // the points leave float32's range
    } catch (const NotMeasurable&) {
      return std::nullopt;
    }
  }
  const JobResult found = workers_.run(*job, timeout_seconds_).result;
  if (found.status != "ok" || !std::isfinite(found.inertia)) return std::nullopt;
  const ExactTrajectory trajectory{found.inertia, found.any_empty_clusters, found.scale, scalar};
  preparation_.keep_trajectory(task, files, iterations, trajectory);
  return trajectory;
}

void TraceRecorder::check_trajectory(const PlannedTrace& trace, json& result) {
  const auto trajectory = result.find("trajectory");
  const auto* variant = find_variant(trace.spec.variant.name);
  if (trajectory == result.end() || variant == nullptr || status_of(result) == "wrong") return;
  const json& iterations = result.at("iterations");
  const ScalarType scalar = points_scalar(trace.precision);
  std::optional<ExactTrajectory> exact;
  try {
    exact = trajectories_.find(trace.task, static_cast<std::int64_t>(iterations.size()), scalar);
  } catch (const InputError&) {
    // Beyond float32, as the preparation has said.
  } catch (const NotMeasurable&) {
    // The same.
  }
  const json& inertia = iterations.back().at("inertia");
  if (!exact) return;
  if (scalar != exact->scalar && rounding_points_matters(exact->scale, exact->inertia)) return;
  Shape shape = trace.task.shape;
  shape.precision = trace.precision;
  Certificate certificate;
  certify_trajectory(variant->traits, inertia.is_number() ? inertia.get<double>() : std::nan(""),
                     exact->inertia, exact->met_empty_clusters, certificate,
                     trajectory_floor(variant->traits, shape, exact->scalar, exact->scale,
                                      trajectory->at("max_abs").get<double>()));
  const json compared = to_json(certificate);
  json& verification = result["verification"];
  for (const auto& check : compared.at("checks")) verification["checks"].push_back(check);
  verification["inertia_relative_difference"] = compared.at("inertia_relative_difference");
  if (certificate.passed) return;
  verification["passed"] = false;
  result["status"] = "wrong";
  result["reason"] = certificate.failure();
}

json TraceRecorder::record(const PlannedTrace& trace, const TaskFiles& files) {
  TraceJob job = job_of(trace, files, threads_);
  // A trace that ends by a rule stands for a program whose time is asked for; one cold run of it
  // says little, so it is run again, in several processes as a cell is.
  const Sampling& sampling = plan_.sampling;
  if (!job.stop.empty()) {
    job.runs = sampling.processes * sampling.repetitions > 1 ? kRunsOfTrace : 1;
    job.max_seconds = sampling.max_seconds;
  }
  int processes = job.stop.empty() ? 1 : sampling.processes;
  json result;
  json runs = json::array();
  for (int process = 0; process < processes; ++process) {
    const auto reply = workers_.run(job, plan_.timeout_seconds);
    if (reply.interrupted) return nullptr;
    if (!reply.result.contains("runs_seconds") && process > 0) return reply.result;
    if (process == 0) {
      result = reply.result;
      check_trajectory(trace, result);
      if (InterruptGuard::interrupted()) return nullptr;
      if (status_of(result) != "ok" || job.runs == 0) return result;
      job.runs_of = static_cast<std::int64_t>(result.at("iterations").size());
    }
    const json& timed = runs.emplace_back(reply.result.at("runs_seconds").at(0));
    // A run that takes the whole budget is timed in as few processes as a long iteration of a cell.
    const double run = timed.at(0).get<double>();
    if (run > sampling.max_seconds) processes = std::min(processes, fewest_processes(run));
  }
  std::vector<double> seconds;
  for (const auto& process : runs) {
    for (const double run : process) seconds.push_back(run);
  }
  std::sort(seconds.begin(), seconds.end());
  result["seconds_per_iteration"] =
      percentile(seconds, 0.5) / static_cast<double>(result.at("iterations").size());
  result["runs_seconds"] = std::move(runs);
  return result;
}

}  // namespace kmeans
