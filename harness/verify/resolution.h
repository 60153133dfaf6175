// SPDX-License-Identifier: Apache-2.0
//
// Is the one fixed-point scale of the exact step (docs/exact-step.md) fine enough for these points?
#pragma once

#include <cstdint>
#include <string>

#include "harness/support/points_elsewhere.h"
#include "harness/support/resolution_rule.h"
#include "harness/variant.h"

namespace kmeans {

/// Empty where every column keeps its digits. Else a sentence: next to which value the coordinates
/// of which column are rounded too coarsely, and what would be right. Judges a sample of
/// kResolutionRows, the same for the same points.
std::string lost_by_fixed_point(const float* points, std::int64_t n, std::int64_t d, int threads);

/// The same where the largest |coordinate| is known: only the sample is read, unless there is a sentence.
std::string lost_by_fixed_point_at(const float* points, std::int64_t n, std::int64_t d,
                                   float max_abs, int threads);

/// The same of points that the host cannot read.
std::string lost_by_fixed_point_at(const PointsElsewhere<float>& points, std::int64_t n,
                                   std::int64_t d, float max_abs, int threads);

/// The same of points that count as their weights say: those of weight 0 are not looked at.
std::string lost_by_fixed_point_at(const float* points, std::int64_t n, std::int64_t d,
                                   const CountedPoints<float>& counted, int threads);

}  // namespace kmeans
