// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      Yinyang's bounds: as openmp_hamerly, but neighbouring centroids form groups, and a
//            point has a lower bound for each: what one fast centroid costs stays in its group. An
//            open point looks only at groups whose bound its own distance crosses
// Parallel:  a thread owns a contiguous range of points; then of centroids
// Memory:    as openmp_hamerly, and a float for each point and group, read and written for open
//            points only. Points that are open in a group are looked at together
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads, as openmp_hamerly
// Source:    Ding et al., Yinyang k-means, ICML 2015; groups by halving the first centroids instead
//            of clustering them, so that all are one register wide. docs/openmp-bounds.md has the bounds
#include <algorithm>

#include "implementations/openmp/_bounded_lloyd.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

class OpenmpYinyang final : public BoundedLloyd<BoundRules> {
 private:
  [[nodiscard]] int groups(const kmeans::Shape& shape) const override {
    const std::int64_t full = round_up(shape.k, Panels::kWidth) / Panels::kWidth;
    return static_cast<int>(std::min<std::int64_t>(full, kMaxGroups));
  }
};

}  // namespace

KMEANS_VARIANT(
    OpenmpYinyang, .name = "openmp_yinyang",
    .summary =
        "the exact Lloyd step behind Yinyang's bounds: a lower bound for each point and "
        "group of centroids, and open points look only at groups that may hold the nearest",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide, .supports = openmp::tiled_supports,
    .memory_bytes = [](const Shape& s, int threads) {
      const double full = static_cast<double>(s.k) / Panels::kWidth + 1;
      return BoundedLloyd<BoundRules>::bytes(
          s, std::min<double>(full, BoundedLloyd<BoundRules>::kMaxGroups), threads);
    })
