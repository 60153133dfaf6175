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
// Source:    ours; docs/openmp.md proves the bound
#include <omp.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_blocked.h"
#include "implementations/openmp/_filter_bound.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_memory.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_tile.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

class OpenmpExact final : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override {
    problem_ = problem;
    const auto& shape = problem.shape;
    const int group_size = choose_group_size(shape.k);
    points_per_tile_ = tile_points<float>(group_size);
    kernel_ = tile_kernel<float, true>(group_size);
    threads_ = useful_threads(shape, points_per_tile_, problem.threads);
    frame_.emplace(problem);
    points_ = PackedPoints<float>(problem, *frame_, points_per_tile_, true, threads_);
    centroids_ = PackedCentroids<float>(shape.k, shape.d, group_size);
    float64_centroids_ = Float64Centroids(shape.k, shape.d);
    sums_ = FixedPointSums<float>(problem, threads_);
    labels_.resize(points_.tiles() * points_per_tile_);
    changed_.resize(threads_);
    seen_.resize(threads_);
  }

  void reset(const float* centroids) override {
    means_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    std::fill(seen_.begin(), seen_.end(), Padded<CentroidRange>{});
    seen_[0].value = centroids_.pack(means_.data(), *frame_, {0, centroids_.groups()});
    float64_centroids_.pack(means_.data(), {0, float64_centroids_.blocks()});
    std::fill(labels_.begin(), labels_.end(), -1);
    sums_.clear();
  }

  void step(std::int64_t iterations) override {
#pragma omp parallel num_threads(threads_)
    {
      const int thread = omp_get_thread_num();
      const int threads = omp_get_num_threads();
      for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
        {
          const auto timed = thread == 0 ? stage("assign") : kmeans::StageScope(nullptr, "");
          assign(thread, part_of(points_.tiles(), thread, threads));
#pragma omp barrier
        }
        const auto timed = thread == 0 ? stage("update") : kmeans::StageScope(nullptr, "");
        update(thread, threads);
#pragma omp barrier
      }
    }
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(means_.begin(), means_.end(), centroids);
    std::copy_n(labels_.begin(), problem_.shape.n, labels);
  }

  kmeans::Progress progress() override {
    kmeans::Progress progress;
    progress.changed = 0;
    for (const auto& count : changed_) *progress.changed += count.value;
    return progress;
  }

 private:
  void assign(int thread, Range tiles) {
    CentroidRange seen;
    for (const auto& part : seen_) seen.add(part.value);
    const FilterBound bound = FilterBound::of(problem_.shape.d, seen);
    TileResult<float> result;
    MoveQueue<float> moves;
    std::int64_t changed = 0;
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      const std::int64_t first = tile * points_per_tile_;
      kernel_(points_.tile(tile), points_.tile_after(tile), centroids_.data(), problem_.shape.d,
              centroids_.groups(), result);
      decide(bound, tile, first, result);
      moves.apply(sums_, thread);
      changed += take_labels(problem_, result, first, points_per_tile_, labels_.data(), moves);
    }
    moves.apply(sums_, thread);
    changed_[thread].value = changed;
  }

  /// Replaces the labels of the points that the bound leaves undecided.
  void decide(const FilterBound& bound, std::int64_t tile, std::int64_t first,
              TileResult<float>& result) const {
    const float* norms = points_.norms(tile);
    for (int begin = 0; begin < points_per_tile_; begin += Lanes<float>::kCount) {
      std::uint32_t undecided =
          undecided_points(bound, result.nearest + begin, result.second + begin, norms + begin);
      for (; undecided != 0; undecided &= undecided - 1) {
        const int p = begin + std::countr_zero(undecided);
        if (first + p >= problem_.shape.n) return;  // only padding follows
        result.labels[p] =
            float64_centroids_.nearest(problem_.points + (first + p) * problem_.shape.d);
      }
    }
  }

  void update(int thread, int threads) {
    const Range groups = part_of(centroids_.groups(), thread, threads);
    sums_.update(means_.data(), centroids_.clusters(groups));
    seen_[thread].value = centroids_.pack(means_.data(), *frame_, groups);
#pragma omp barrier
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads));
  }

  kmeans::Problem<float> problem_;
  int threads_ = 1;
  int points_per_tile_ = 0;
  TileKernel<float> kernel_ = nullptr;
  std::optional<Frame<float>> frame_;
  PackedPoints<float> points_;
  PackedCentroids<float> centroids_;
  Float64Centroids float64_centroids_;
  FixedPointSums<float> sums_;
  std::vector<float> means_;                   // k x d, the centroids as the caller sees them
  std::vector<std::int32_t> labels_;           // n, padded to whole tiles
  std::vector<Padded<std::int64_t>> changed_;  // a thread's labels that changed
  std::vector<Padded<CentroidRange>> seen_;    // what the bound needs of a thread's centroids
};

}  // namespace

KMEANS_VARIANT(
    OpenmpExact, .name = "openmp_exact",
    .summary =
        "the exact Lloyd step: a float32 filter with a proven bound, then float64 "
        "for undecided points; the update touches only points whose label changed",
    .exact = true, .engine = true, .parallel = true, .sums = Sums::wide,
    .supports = openmp::blocked_supports,
    .memory_bytes =
        [](const Shape& s) {
          return openmp::blocked_memory_bytes(s, true) + openmp::Float64Centroids::bytes(s);
        },
    .traffic = [](const Shape& s) { return openmp::blocked_traffic(s, true); })
