// SPDX-License-Identifier: Apache-2.0
//
// How long a plan will take, said before it is carried out.
#pragma once

#include <string>

#include "harness/run/sweep.h"

namespace kmeans {

/// Seconds that the selected cells, traces and fits of a plan take, with so many CPU threads for what the
/// suite itself computes: by the budgets of the cells, and by rates that the kinds of variants
/// reach on a processor with vector instructions. Studies and further processes are not in it.
double estimated_seconds(const Plan& plan, int threads);

/// The same of one trace, and of one fit.
double estimated_seconds(const PlannedTrace& trace, const Sampling& sampling);
double estimated_seconds(const PlannedFit& fit, int threads);

/// The same of the first process of a cell alone, without the exact trajectory.
double estimated_seconds_of_first(const Cell& cell, int threads);

/// An iteration of a variant of this program on the processor, by the rates that its kind reaches.
double estimated_iteration_seconds(const std::string& variant, const Shape& shape, int threads);

}  // namespace kmeans
