// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      filter, then decide: openmp_simd's float32 pass, which also keeps the second lowest
//            value; where a proven error bound cannot separate the two, the point is decided by the
//            float64 formula of the exact Lloyd step, vectorised over the centroids
// Parallel:  a thread owns a contiguous range of tiles; then a range of centroids
// Memory:    as openmp_simd, and a norm a point; an undecided point reads its own row and all
//            centroids in float64. The update skips points whose label did not change: integer sums
//            can be corrected exactly
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads
// Source:    ours; docs/openmp-bounds.md proves the bound
#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/exact_step.h"
#include "implementations/openmp/_decide.h"
#include "implementations/openmp/_filter_bound.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_lloyd.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

class OpenmpExact final : public TiledLloyd<float, true> {
 public:
  void reset(const float* centroids) override {
    seen_.clear();
    TiledLloyd::reset(centroids);
  }

 private:
  void prepare(bool /*same_points*/) override {
    float64_centroids_ = Float64Centroids(problem_.shape.k, problem_.shape.d);
    seen_ = SeenCentroids(threads_);
  }

  void assign(int thread, int /*threads*/, Range tiles) override {
    const FilterBound bound = FilterBound::of(problem_.shape.d, seen_.all());
    label_tiles(thread, tiles, [&](std::int64_t tile, TileResult<float>& result) {
      decide_tile(problem_, points_, points_per_tile_, bound, float64_centroids_, tile, result);
    });
  }

  void pack_centroids(int thread, int threads) override {
    seen_.put(thread, threads, pack_groups(thread, threads));
    wait(threads);
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads),
                            changes());
  }

  Float64Centroids float64_centroids_;
  SeenCentroids seen_;  // what the bound needs of them
};

}  // namespace

double kmeans::openmp::moved_squares(const float* before, const float* after, std::int64_t d) {
  return exact::squared_distance(before, after, d);
}

KMEANS_VARIANT(
    OpenmpExact, .name = "openmp_exact",
    .summary =
        "the exact Lloyd step: a float32 filter with a proven bound, then float64 "
        "for undecided points; the update touches only points whose label changed",
    .exact = true, .engine = true, .parallel = true, .shards = true, .weights = true,
    .spherical = true, .sums = Sums::wide, .supports = openmp::tiled_supports,
    .memory_bytes =
        [](const Shape& s, int threads) {
          return openmp::tiled_memory_bytes(s, true, threads) + openmp::Float64Centroids::bytes(s);
        },
    .traffic = [](const Shape& s) { return openmp::tiled_traffic(s, true); })
