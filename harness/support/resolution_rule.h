// SPDX-License-Identifier: Apache-2.0
//
// What the look at the points' resolution (harness/verify/resolution.h) goes by, on a CPU and on a GPU.
#pragma once

#include <cstdint>

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

}  // namespace kmeans
