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
#include <omp.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_blocked.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_memory.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_tile.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

template <class T>
class OpenmpSimd final : public kmeans::Variant<T> {
 public:
  void setup(const kmeans::Problem<T>& problem) override {
    problem_ = problem;
    const auto& shape = problem.shape;
    const int group_size = choose_group_size(shape.k);
    points_per_tile_ = tile_points<T>(group_size);
    kernel_ = tile_kernel<T, false>(group_size);
    threads_ = useful_threads(shape, points_per_tile_, problem.threads);
    frame_.emplace(problem);
    points_ = PackedPoints<T>(problem, *frame_, points_per_tile_, false, threads_);
    centroids_ = PackedCentroids<T>(shape.k, shape.d, group_size);
    sums_ = FixedPointSums<T>(problem, threads_);
    labels_.resize(points_.tiles() * points_per_tile_);
    changed_.resize(threads_);
  }

  void reset(const T* centroids) override {
    means_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    centroids_.pack(means_.data(), *frame_, {0, centroids_.groups()});
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
          const auto timed = thread == 0 ? this->stage("assign") : kmeans::StageScope(nullptr, "");
          assign(thread, part_of(points_.tiles(), thread, threads));
#pragma omp barrier
        }
        const auto timed = thread == 0 ? this->stage("update") : kmeans::StageScope(nullptr, "");
        update(part_of(centroids_.groups(), thread, threads));
#pragma omp barrier
      }
    }
  }

  void fetch(T* centroids, std::int32_t* labels) override {
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
    TileResult<T> result;
    MoveQueue<T> moves;
    std::int64_t changed = 0;
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      kernel_(points_.tile(tile), points_.tile_after(tile), centroids_.data(), problem_.shape.d,
              centroids_.groups(), result);
      moves.apply(sums_, thread);
      changed += take_labels(problem_, result, tile * points_per_tile_, points_per_tile_,
                             labels_.data(), moves);
    }
    moves.apply(sums_, thread);
    changed_[thread].value = changed;
  }

  void update(Range groups) {
    sums_.update(means_.data(), centroids_.clusters(groups));
    centroids_.pack(means_.data(), *frame_, groups);
  }

  kmeans::Problem<T> problem_;
  int threads_ = 1;
  int points_per_tile_ = 0;
  TileKernel<T> kernel_ = nullptr;
  std::optional<Frame<T>> frame_;
  PackedPoints<T> points_;
  PackedCentroids<T> centroids_;
  FixedPointSums<T> sums_;
  std::vector<T> means_;                       // k x d, the centroids as the caller sees them
  std::vector<std::int32_t> labels_;           // n, padded to whole tiles
  std::vector<Padded<std::int64_t>> changed_;  // a thread's labels that changed
};

}  // namespace

KMEANS_VARIANT(
    OpenmpSimd, .name = "openmp_simd",
    .summary =
        "distances and argmin fused in registers, points in lanes; the update "
        "touches only points whose label changed",
    .precisions = {Precision::f32, Precision::f64}, .parallel = true,
    .distance = Distance::expanded, .centres = true, .sums = Sums::wide,
    .supports = openmp::blocked_supports,
    .memory_bytes = [](const Shape& s) { return openmp::blocked_memory_bytes(s, false); },
    .traffic = [](const Shape& s) { return openmp::blocked_traffic(s, false); })
