// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      filtering (Kanungo et al. 2002) made exact: a kd-tree over the points is walked from
//            its root with the list of centroids that may be nearest to a point of a node's box.
//            Where one is left, all points of the node are its own, and what they add to its sum is
//            known: a cluster's sum is of integers, so sums of whole nodes go from cluster to
//            cluster without error. A node that stays where it was costs nothing below it. In a
//            leaf, points are compared with the few that are left
// Parallel:  threads take subtrees, the next one that is free, beginning each at a place of its own
// Memory:    points, labels and sums of nodes in the order of the tree; lists of candidates in
//            cache
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads: a centroid is left
//            out only where a proven bound says that it is further away, and points that float32
//            leaves open are decided by the float64 formula
// Source:    Kanungo et al., An efficient k-means clustering algorithm, IEEE TPAMI 24 (2002);
//            docs/openmp-bounds.md has the bounds
#include <cstdint>
#include <limits>
#include <string>

#include "implementations/_limits.h"
#include "implementations/openmp/_tree_lloyd.h"

namespace {

class OpenmpTree final : public kmeans::openmp::TreeLloyd {};

}  // namespace

KMEANS_VARIANT(
    OpenmpTree, .name = "openmp_tree",
    .summary =
        "the exact Lloyd step over a kd-tree of the points: boxes with one candidate move "
        "between clusters as a whole, by their integer sums",
    .exact = true, .parallel = true, .shards = true, .spherical = true, .skips_work = true,
    .sums = Sums::wide, .setup_note = "sorts the points into a kd-tree",
    .supports =
        [](const Shape& s) {
          if (s.d > openmp::kTreeMaxDimension) {
            return Support::no("d = " + std::to_string(s.d) +
                               ", but boxes tell centroids apart in few "
                               "dimensions only: at most " +
                               std::to_string(openmp::kTreeMaxDimension));
          }
          if (s.n > std::numeric_limits<std::int32_t>::max()) {
            return Support::no("n = " + std::to_string(s.n) +
                               ", but the tree numbers points in 32 bits");
          }
          return indices_fit(s, "float", std::int64_t{1} << 24);
        },
    .memory_bytes = [](const Shape& s,
                       int threads) { return openmp::TreeLloyd::bytes(s, threads); })
