// SPDX-License-Identifier: Apache-2.0
//
// Filter, then decide: what a tile's float32 values do not settle is labelled by the float64
// definition. Include only where -ffp-contract=off.
#pragma once

#include <bit>
#include <cstdint>

#include "harness/variant.h"
#include "implementations/openmp/_filter_bound.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_tile.h"

namespace kmeans::openmp {

/// Replaces the labels of the tile's points that the bound leaves undecided.
inline void decide_tile(const Problem<float>& problem, const PackedPoints<float>& points,
                        int points_per_tile, const FilterBound& bound,
                        const Float64Centroids& centroids, std::int64_t tile,
                        TileResult<float>& result) {
  const float* norms = points.norms(tile);
  const std::int64_t first = tile * points_per_tile;
  for (int begin = 0; begin < points_per_tile; begin += Lanes<float>::kCount) {
    std::uint32_t undecided =
        undecided_points(bound, result.nearest + begin, result.second + begin, norms + begin);
    for (; undecided != 0; undecided &= undecided - 1) {
      const int p = begin + std::countr_zero(undecided);
      if (first + p >= problem.shape.n) return;  // only padding follows
      result.labels[p] = centroids.nearest(problem.points + (first + p) * problem.shape.d);
    }
  }
}

}  // namespace kmeans::openmp
