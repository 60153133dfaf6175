// SPDX-License-Identifier: Apache-2.0
//
// What a worker is asked for a cell, a trace, a study or a fit: the same by `run` and by `reproduce`.
#pragma once

#include "harness/record/cell_key.h"
#include "harness/run/fit_job.h"
#include "harness/run/job.h"
#include "harness/run/preparation.h"
#include "harness/run/study_job.h"
#include "harness/run/sweep.h"
#include "harness/run/trace_job.h"

namespace kmeans {

Job job_of(const CellKey& key, const TaskFiles& files);

/// Lets the worker hold the inertia against an exact trajectory.
void compare_with(const ExactTrajectory& exact, Job& job);

TraceJob job_of(const PlannedTrace& trace, const TaskFiles& files, int verify_threads);

/// `files`: null for a study that takes no data.
StudyJob job_of(const PlannedStudy& study, const TaskFiles* files, int threads);

FitJob job_of(const PlannedFit& fit, const TaskFiles& files, int threads);

}  // namespace kmeans
