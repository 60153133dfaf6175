// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      the exponion: Hamerly's two bounds a point, and where they leave it open, only the
//            centroids around its own are looked at. Of each centroid the others are known in rings
//            that double in number; the point's bound says how many of them matter
// Parallel:  a thread owns a contiguous range of points; then of centroids
// Memory:    points by rows and two bounds a point, read and written in each iteration; the order
//            of k others around each of up to 4 096 centroids, rebuilt in each iteration
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads: bounds are rounded
//            to their safe side, and float64 decides among those that they leave open
// Source:    Newling and Fleuret, Fast k-means with accurate bounds, ICML 2016. docs/openmp-bounds.md
//            has the bounds
#include <cstdint>
#include <string>

#include "implementations/openmp/_exponion_lloyd.h"

namespace {

class OpenmpExponion final : public kmeans::openmp::ExponionLloyd<kmeans::openmp::BoundRules> {};

}  // namespace

KMEANS_VARIANT(
    OpenmpExponion, .name = "openmp_exponion",
    .summary =
        "the exact Lloyd step behind Hamerly's bounds, where open points look only at the "
        "centroids around their own (the exponion)",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide,
    .supports =
        [](const Shape& s) {
          constexpr std::int64_t kMax = openmp::ExponionLloyd<openmp::BoundRules>::kMaxCentroids;
          if (s.k > kMax) {
            return Support::no("k = " + std::to_string(s.k) +
                               ", but the order of all others around each centroid is kept for at "
                               "most " +
                               std::to_string(kMax));
          }
          return Support::yes();
        },
    .memory_bytes =
        [](const Shape& s, int threads) {
          return openmp::ExponionLloyd<openmp::BoundRules>::bytes(s, threads);
        })
