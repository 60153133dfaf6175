// SPDX-License-Identifier: Apache-2.0
//
// From the verdicts of single cells to one of three: passed, failed, undecided (docs/comparing.md).
#pragma once

#include <cstddef>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/record/result_file.h"

namespace kmeans {

/// Do all process medians of new exceed all of base by the factor of a clear gap, in so many
/// processes that chance is not an excuse?
bool clearly_slower(const TimePair& pair, const CompareSettings& settings);

/// Judges the cells of each variant, and all cells, together. `pairs` are the times of the cells
/// whose places in `comparison.cells` are `timed`.
void judge_groups(const std::vector<TimePair>& pairs, const std::vector<std::size_t>& timed,
                  Comparison& comparison);

/// Sets the outcome of every cell with times, and the gate. After judge_groups.
void judge_gate(Comparison& comparison);

}  // namespace kmeans
