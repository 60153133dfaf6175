// SPDX-License-Identifier: Apache-2.0
//
// The frame of a variant on the tile kernel: packed points and centroids, a division among threads, an
// update that touches only points whose label changed, and the calls of the contract around them. A
// variant says what becomes of a tile's labels and what it keeps of new centroids.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/_limits.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_moves.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_team.h"
#include "implementations/openmp/_tile.h"

namespace kmeans::openmp {

/// At most the threads given, but none that would wait longer at a barrier than it computes.
inline int useful_threads(const Shape& shape, int points_per_tile, int threads) {
  constexpr double kProductsPerThread = 65536;
  const Sizes s = shape;
  const std::int64_t tiles = (shape.n + points_per_tile - 1) / points_per_tile;
  const auto worth_while =
      static_cast<std::int64_t>(std::min(s.n * s.d * s.k / kProductsPerThread, 1e6));
  return static_cast<int>(std::clamp<std::int64_t>(
      threads, 1, std::max<std::int64_t>(1, std::min(tiles, worth_while))));
}

/// kFiltered: the kernel also finds each point's second lowest value, and the points have norms.
template <class T, bool kFiltered>
class TiledLloyd : public Team<T> {
 public:
  void setup(const Problem<T>& problem) override {
    const Shape& shape = problem.shape;
    const int group_size = choose_group_size(shape.k);
    const bool same_points = this->knows_points_of(problem);
    const bool same_tiles =
        same_points && packs_in_setup() && points_per_tile_ == tile_points<T>(group_size);
    points_per_tile_ = tile_points<T>(group_size);
    kernel_ = tile_kernel<T, kFiltered>(group_size);
    this->form_team(problem, useful_threads(shape, points_per_tile_, problem.threads));
    this->form_frame(problem, same_points);
    if (!same_tiles) {
      points_ = PackedPoints<T>(round_up(shape.n, points_per_tile_) / points_per_tile_, shape.d,
                                points_per_tile_, kFiltered);
      if (packs_in_setup()) points_.pack(problem, *frame_, threads_);
    }
    centroids_ = PackedCentroids<T>(shape.k, shape.d, group_size);
    prepare(same_points);
    sums_ = FixedPointSums<T>(problem, threads_);
    labels_.resize(points_.tiles() * points_per_tile_);
  }

  void reset(const T* centroids) override {
    means_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    fresh_ = true;
    pack_centroids(0, 1);
    fresh_ = false;
    std::fill(labels_.begin(), labels_.end(), -1);
    sums_.begin_empty();
  }

  [[nodiscard]] std::optional<Standing> standing() override {
    return Standing{{labels_.data(), static_cast<std::size_t>(problem_.shape.n)}, sums_.totals()};
  }

  void take_over(const Standing& other) override {
    copy_by_team(other.labels, labels_.data(), threads_);
    sums_.take_over(other.sums);
  }

 protected:
  /// Or does the variant pack tiles itself, when it first needs them?
  [[nodiscard]] virtual bool packs_in_setup() const { return true; }

  /// Allocates what the variant needs besides points, centroids, sums and labels. Of the same points as
  /// before, it may keep its own copies.
  virtual void prepare(bool /*same_points*/) {}

  /// Labels a range of tiles: label_tiles() with what the variant makes of a tile.
  virtual void assign(int thread, int threads, Range tiles) = 0;

  /// A thread's part of the means, by groups or own_clusters(), goes into what the variant labels by. May
  /// have barriers; reset() calls it on one thread.
  virtual void pack_centroids(int thread, int threads) = 0;

  /// `decide(tile, result)` may replace labels of the tile before they are taken over.
  template <class Decide>
  void label_tiles(int thread, Range tiles, const Decide& decide) {
    TileResult<T> result;
    MoveQueue<T> moves;
    std::int64_t changed = 0;
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      if (breaks_.now(thread, points_per_tile_)) break;
      kernel_(points_.tile(tile), points_.tile_after(tile), centroids_.data(), problem_.shape.d,
              centroids_.groups(), result);
      decide(tile, result);
      if (labels_only_) {
        put_labels(problem_, result.labels, tile * points_per_tile_, points_per_tile_,
                   labels_.data());
        continue;
      }
      moves.apply(sums_, thread);
      changed += take_labels(problem_, result.labels, tile * points_per_tile_, points_per_tile_,
                             labels_.data(), moves);
    }
    moves.apply(sums_, thread);
    team_[thread].value.changed = changed;
  }

  /// The means of a thread's groups to the layout of the kernel.
  CentroidRange pack_groups(int thread, int threads) {
    return centroids_.pack(means_.data(), *frame_, part_of(centroids_.groups(), thread, threads),
                           changes());
  }

  /// Those whose means a thread forms: those of its groups, or where these are few, a part of all.
  [[nodiscard]] Range own_clusters(int thread, int threads) const {
    if (splits_groups(threads)) return part_of(problem_.shape.k, thread, threads);
    return centroids_.clusters(part_of(centroids_.groups(), thread, threads));
  }

  /// Of the means, since they were packed last. A thread knows those of its groups, and after a barrier all.
  [[nodiscard]] Changes changes() const { return fresh_ ? Changes() : sums_.changes(); }

  using Team<T>::problem_;
  using Team<T>::threads_;
  using Team<T>::labels_only_;
  using Team<T>::breaks_;
  using Team<T>::means_;
  using Team<T>::frame_;
  using Team<T>::team_;

  int points_per_tile_ = 0;
  PackedPoints<T> points_;
  // For a variant that labels in another way than label_tiles():
  PackedCentroids<T> centroids_;
  FixedPointSums<T> sums_;
  KeptVector<std::int32_t> labels_;  // n, padded to whole tiles

 private:
  void label(int thread, int threads) final {
    assign(thread, threads, part_of(points_.tiles(), thread, threads));
  }

  void move(int thread, int threads) final {
    sums_.update(means_.data(), own_clusters(thread, threads));
    if (splits_groups(threads)) this->wait(threads);
    pack_centroids(thread, threads);
  }

  /// Are there fewer groups than threads, and do the means take longer than one more barrier?
  [[nodiscard]] bool splits_groups(int threads) const {
    return centroids_.groups() < threads && problem_.shape.k * problem_.shape.d >= 4096;
  }

  void fetch_labels(std::int32_t* labels) final {
    std::copy_n(labels_.begin(), problem_.shape.n, labels);
  }

  TileKernel<T> kernel_ = nullptr;
  bool fresh_ = true;  // means_ are given ones
};

inline Support tiled_supports(const Shape& shape) {
  return shape.precision == Precision::f64 ? indices_fit(shape, "double", kMaxClusters<double>)
                                           : indices_fit(shape, "float", kMaxClusters<float>);
}

/// The threads that TiledLloyd uses of those that it is given.
inline int tiled_threads(const Shape& shape, int threads) {
  const int group_size = choose_group_size(shape.k);
  const bool wide = shape.precision == Precision::f64;
  return useful_threads(
      shape, wide ? tile_points<double>(group_size) : tile_points<float>(group_size), threads);
}

template <class T>
double tiled_memory_bytes_of(const Shape& shape, bool filtered, int threads) {
  const Sizes s = shape;
  return PackedPoints<T>::bytes(s, filtered) + PackedCentroids<T>::bytes(s) +
         FixedPointSums<T>::bytes(shape, tiled_threads(shape, threads)) + s.scalar * s.k * s.d +
         4 * s.n;
}

inline double tiled_memory_bytes(const Shape& shape, bool filtered, int threads) {
  return shape.precision == Precision::f64 ? tiled_memory_bytes_of<double>(shape, filtered, threads)
                                           : tiled_memory_bytes_of<float>(shape, filtered, threads);
}

/// One pass over the packed points; the centroids once a tile; labels read and compared. What
/// points with a new label cost depends on the data and is left out.
inline Traffic tiled_traffic(const Shape& shape, bool filtered) {
  const Sizes s = shape;
  const int group_size = choose_group_size(shape.k);
  const double points_per_tile = shape.precision == Precision::f64 ? tile_points<double>(group_size)
                                                                   : tile_points<float>(group_size);
  return {.read_bytes = s.scalar * s.n * (s.d + (filtered ? 1 : 0)) + 4 * s.n +
                        s.scalar * s.k * (s.d + 1) * s.n / points_per_tile,
          .written_bytes = s.scalar * s.k * s.d};
}

}  // namespace kmeans::openmp
