// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      Elkan's bounds: a point has an upper bound on the distance to its centroid and a lower
//            one on that to every other, which follow the centroids' movement; two centroids are
//            known to be apart. A distance is formed only where none of these shows that the
//            centroid is farther than the point's own
// Parallel:  a thread owns a contiguous range of points; then of centroids
// Memory:    points by rows, a float for each point and centroid, read and written for open points
//            only, and one for each pair of up to 4 096 centroids; 8 bytes a point are read and
//            written in each iteration
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads: bounds are rounded
//            to their safe side, and float64 decides among those that they leave open
// Source:    Elkan, Using the triangle inequality to accelerate k-means, ICML 2003; with Hamerly's
//            single lower bound before the many. docs/openmp-bounds.md has the bounds
#include <cstdint>
#include <string>

#include "implementations/openmp/_elkan_lloyd.h"

namespace {

class OpenmpElkan final : public kmeans::openmp::ElkanLloyd<kmeans::openmp::BoundRules> {};

}  // namespace

KMEANS_VARIANT(
    OpenmpElkan, .name = "openmp_elkan",
    .summary =
        "the exact Lloyd step behind Elkan's bounds: a lower bound for each point and centroid, "
        "and distances between centroids",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide,
    .supports =
        [](const Shape& s) {
          constexpr std::int64_t kMax = std::int64_t{1} << 32;
          if (s.n > kMax / s.k) {
            return Support::no("n k = " + std::to_string(s.n) + " x " + std::to_string(s.k) +
                               " bounds, but at most 2^32 are kept (16 GiB)");
          }
          return Support::yes();
        },
    .memory_bytes =
        [](const Shape& s, int threads) {
          return openmp::ElkanLloyd<openmp::BoundRules>::bytes(s, threads);
        })
