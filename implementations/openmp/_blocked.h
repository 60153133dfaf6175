// SPDX-License-Identifier: Apache-2.0
//
// What the variants built on the tile kernel share beside it: how many threads are worth while,
// taking over a tile's labels, and what to say about memory and traffic.
#pragma once

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "harness/variant.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_tile.h"

namespace kmeans::openmp {

/// At most the threads given, but none that would wait longer at a barrier than it computes.
inline int useful_threads(const Shape& shape, int points_per_tile, int threads) {
  constexpr double kProductsPerThread = 65536;
  const double products =
      static_cast<double>(shape.n) * static_cast<double>(shape.d) * static_cast<double>(shape.k);
  const std::int64_t tiles = (shape.n + points_per_tile - 1) / points_per_tile;
  const auto worth_while = static_cast<std::int64_t>(std::min(products / kProductsPerThread, 1e6));
  return static_cast<int>(std::clamp<std::int64_t>(
      threads, 1, std::max<std::int64_t>(1, std::min(tiles, worth_while))));
}

/// Points on their way from one cluster's sum to another's. They wait here for the length of one
/// tile, until their rows, which lie anywhere in memory, have been fetched.
template <class T>
class MoveQueue {
 public:
  void push(const T* point, std::int64_t d, std::int32_t from, std::int32_t to) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    constexpr std::int64_t kMostLines = 32;  // the processor itself follows a longer row
    const std::int64_t fetched = std::min(d, kMostLines * kLine);
    for (std::int64_t t = 0; t < fetched; t += kLine) __builtin_prefetch(point + t, 0, 2);
    moves_[count_++] = {point, from, to};
  }

  void apply(FixedPointSums<T>& sums, int thread) {
    for (int index = 0; index < count_; ++index) {
      sums.move(thread, moves_[index].point, moves_[index].from, moves_[index].to);
    }
    count_ = 0;
  }

 private:
  struct Move {
    const T* point;
    std::int32_t from;  // -1: none
    std::int32_t to;
  };
  int count_ = 0;
  Move moves_[kMaxTilePoints<T>];
};

/// Takes over the labels of a tile that begins with point `first`, and queues every point whose
/// label changed. Returns how many there were.
template <class T>
std::int64_t take_labels(const Problem<T>& problem, const TileResult<T>& tile, std::int64_t first,
                         int points_per_tile, std::int32_t* labels, MoveQueue<T>& moves) {
  const std::int64_t d = problem.shape.d;
  const int valid =
      static_cast<int>(std::min<std::int64_t>(points_per_tile, problem.shape.n - first));
  std::int64_t count = 0;
  for (int begin = 0; begin < valid; begin += 16) {
    std::int32_t* old_labels = labels + first + begin;
    const std::int32_t* new_labels = tile.labels + begin;
    std::uint32_t changed = different_labels(new_labels, old_labels, std::min(16, valid - begin));
    count += std::popcount(changed);
    for (; changed != 0; changed &= changed - 1) {
      const int p = std::countr_zero(changed);
      moves.push(problem.points + (first + begin + p) * d, d, old_labels[p], new_labels[p]);
      old_labels[p] = new_labels[p];
    }
  }
  return count;
}

inline Support blocked_supports(const Shape& shape) {
  const bool single = shape.precision != Precision::f64;
  const std::int64_t limit = single ? kMaxClusters<float> : kMaxClusters<double>;
  if (shape.k < limit) return Support::yes();
  return Support::no("k = " + std::to_string(shape.k) + ", but labels are found in " +
                     (single ? "float" : "double") + " lanes, which hold integers below " +
                     std::to_string(limit));
}

inline double blocked_memory_bytes(const Shape& shape, bool with_norms) {
  const bool single = shape.precision != Precision::f64;
  const double scalar = single ? sizeof(float) : sizeof(double);
  return (single
              ? PackedPoints<float>::bytes(shape, with_norms) + PackedCentroids<float>::bytes(shape)
              : PackedPoints<double>::bytes(shape, with_norms) +
                    PackedCentroids<double>::bytes(shape)) +
         FixedPointSums<float>::bytes(shape, omp_get_num_procs()) +
         scalar * static_cast<double>(shape.k) * static_cast<double>(shape.d) +
         4.0 * static_cast<double>(shape.n);
}

/// One pass over the packed points; the centroids once a tile; labels read and compared. What
/// points with a new label cost depends on the data and is left out.
inline Traffic blocked_traffic(const Shape& shape, bool with_norms) {
  const double n = static_cast<double>(shape.n);
  const double d = static_cast<double>(shape.d);
  const double k = static_cast<double>(shape.k);
  const bool single = shape.precision != Precision::f64;
  const double scalar = single ? sizeof(float) : sizeof(double);
  const int group_size = choose_group_size(shape.k);
  const double points_per_tile =
      single ? tile_points<float>(group_size) : tile_points<double>(group_size);
  return {.read_bytes = scalar * n * (d + (with_norms ? 1 : 0)) + 4 * n +
                        scalar * k * (d + 1) * n / points_per_tile,
          .written_bytes = scalar * k * d};
}

}  // namespace kmeans::openmp
