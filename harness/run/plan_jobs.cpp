// SPDX-License-Identifier: Apache-2.0
#include "harness/run/plan_jobs.h"

namespace kmeans {

namespace {

void give_data(const TaskFiles& files, std::int64_t k, JobData& job) {
  job.points_file = files.points.file.string();
  job.centroids_file = files.centroids.string();
  job.k = k;
}

}  // namespace

Job job_of(const CellKey& key, const TaskFiles& files) {
  Job job;
  give_data(files, key.shape.k, job);
  job.variant = key.variant;
  job.precision = key.shape.precision;
  job.iterations = key.iterations;
  job.threads = key.threads;
  job.ranks = key.ranks;
  job.gpus = key.gpus;
  return job;
}

void compare_with(const ExactTrajectory& exact, Job& job) {
  job.exact_inertia = exact.inertia;
  job.exact_had_empty_clusters = exact.met_empty_clusters;
  job.exact_scale = exact.scale;
  job.exact_scalar = exact.scalar;
}

TraceJob job_of(const PlannedTrace& trace, const TaskFiles& files, int verify_threads) {
  TraceJob job;
  give_data(files, trace.task.shape.k, job);
  job.variant = trace.spec.variant.name;
  job.precision = trace.precision;
  job.iterations = trace.spec.iterations;
  job.threads = trace.threads;
  job.keep_points = trace.spec.keep_points;
  job.keep_centroids = trace.spec.keep_centroids;
  job.expected = trace.spec.expected;
  if (job.expected.is_object() && !job.expected.contains("inertia")) {
    job.expected["inertia"] = nlohmann::json::array();
  }
  job.verify_threads = verify_threads;
  job.stop = trace.spec.stop;
  return job;
}

StudyJob job_of(const PlannedStudy& study, const TaskFiles* files, int threads) {
  StudyJob job;
  if (files != nullptr) give_data(*files, study.task->shape.k, job);
  job.study = study.spec.study;
  job.parameters = study.spec.parameters;
  job.threads = threads;
  return job;
}

FitJob job_of(const PlannedFit& fit, const TaskFiles& files, int threads) {
  FitJob job;
  give_data(files, fit.task.shape.k, job);
  job.threads = threads;
  job.estimators = fit.spec.estimators;
  job.seeds = fit.spec.seeds;
  job.processes = fit.spec.processes;
  job.max_seconds = fit.spec.max_seconds;
  job.from = fit.spec.from;
  job.iterations = fit.spec.iterations;
  job.starts = fit.spec.starts;
  job.problems = fit.spec.problems;
  job.known_inertia = fit.spec.known_inertia;
  return job;
}

}  // namespace kmeans
