// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      Hamerly's bounds: a point keeps an upper bound on the distance to its centroid and one
//            lower bound on that to all others. Both follow the centroids' movement; only where
//            they cross is the point's own distance recomputed, and only where they still cross
//            are all others
// Parallel:  a thread owns a contiguous range of points; then of centroids
// Memory:    points by rows, two bounds and a norm a point: 12 bytes a point are read in each
//            iteration, 8 written, and the rows of open points read
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads: bounds are rounded
//            to their safe side, points that they leave open are labelled as by openmp_exact
// Source:    Hamerly, Making k-means even faster, SDM 2010; without its test by half the distance
//            from the centroid to the next one. docs/openmp-bounds.md has the bounds
#include "implementations/openmp/_bounded_lloyd.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

class OpenmpHamerly final : public BoundedLloyd<BoundRules> {
 private:
  [[nodiscard]] int groups(const kmeans::Shape& /*shape*/) const override { return 1; }
};

}  // namespace

KMEANS_VARIANT(
    OpenmpHamerly, .name = "openmp_hamerly",
    .summary =
        "the exact Lloyd step behind Hamerly's bounds: two for each point, kept from "
        "iteration to iteration, and only open points look at all centroids",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide, .supports = openmp::tiled_supports,
    .memory_bytes = [](const Shape& s, int threads) {
      return BoundedLloyd<BoundRules>::bytes(s, 1, threads);
    })
