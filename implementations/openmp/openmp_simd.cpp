// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      distances and their minimum never leave the registers: a tile of points times a group
//            of centroids is accumulated by fused multiply-adds (_tile.h)
// Parallel:  a thread owns a contiguous range of tiles; then a range of centroids
// Memory:    reads the packed points once and all centroids (cached) once a tile; the points are
//            centred, scaled and packed once, in setup. Points whose label changed are read again
//            from their own rows: the update skips all others
// Numerics:  |c|^2 - 2 x.c in the points' precision, t ascending; sums in 64-bit fixed point, exact
//            but for one rounding a coordinate, so bits do not depend on the number of threads
// Source:    ours; docs/openmp.md
#include "implementations/openmp/_lloyd.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

template <class T>
class OpenmpSimd final : public TiledLloyd<T, false> {
  void assign(int thread, int /*threads*/, Range tiles) override {
    this->label_tiles(thread, tiles, [](std::int64_t, TileResult<T>&) {});
  }

  void pack_centroids(int thread, int threads) override { this->pack_groups(thread, threads); }
};

}  // namespace

KMEANS_VARIANT(
    OpenmpSimd, .name = "openmp_simd",
    .summary =
        "distances and argmin fused in registers, points in lanes; the update "
        "touches only points whose label changed",
    .precisions = {Precision::f32, Precision::f64}, .parallel = true,
    .distance = Distance::expanded, .centres = true, .sums = Sums::wide,
    .supports = openmp::tiled_supports,
    .memory_bytes = [](const Shape& s,
                       int threads) { return openmp::tiled_memory_bytes(s, false, threads); },
    .traffic = [](const Shape& s) { return openmp::tiled_traffic(s, false); })
