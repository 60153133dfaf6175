// SPDX-License-Identifier: Apache-2.0
//
// Is the one fixed-point scale of the exact step (docs/exact-step.md) fine enough for these points?
#pragma once

#include <cstdint>
#include <string>

#include "harness/support/points_elsewhere.h"
#include "harness/variant.h"

namespace kmeans {

/// Rows that are judged at most, evenly spaced: row i * n / count is the i-th of `count`.
inline constexpr std::int64_t kResolutionRows = 4096;
/// A coordinate may be rounded by this share of its column's spread. Means are then off by no more, and inertia by
/// its square, 1e-12; float32 centroids of the size of eight spreads cost as much.
inline constexpr double kResolutionShare = 0x1p-20;
/// The quick look at a column sorts what is sampled of it, from the lowest to the highest, into so many bins: if they
/// are wider than four times the least spread that is good enough, and no two neighbours hold half of it, then its
/// median distance from the median is at least that spread, as all that is nearer lies in two neighbours.
inline constexpr int kResolutionBins = 64;

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
