// SPDX-License-Identifier: Apache-2.0
//
// A part of an experiment, for one of several machines of a kind (docs/running.md).
#pragma once

#include <cstddef>
#include <string>

#include "harness/run/sweep.h"

namespace kmeans {

/// Part `index` (from 1) of `count`.
struct PlanPart {
  std::size_t index = 1;
  std::size_t count = 1;
};

/// "2/8". Throws InputError for what is not a part of a whole.
PlanPart parse_plan_part(const std::string& text);

/// Leaves only this part selected, of what is selected: a problem (data set, first centroids, k, T)
/// with all its variants and precisions, a trace or a study belongs to one part, dealt out in the
/// plan's order. The same on every machine, whatever it can run. Returns how many cells, traces and
/// studies are left.
std::size_t keep_part(Plan& plan, const PlanPart& part);

}  // namespace kmeans
