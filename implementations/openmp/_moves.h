// SPDX-License-Identifier: Apache-2.0
//
// What a tile's labels say: which points change their cluster, and with it the sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "harness/variant.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_simd.h"
#include "implementations/openmp/_tile.h"

namespace kmeans::openmp {

/// Points on their way from one cluster's sum to another's. They wait here for the length of one
/// tile, until their rows, which lie anywhere in memory, have been fetched.
template <class T>
class MoveQueue {
 public:
  void push(const T* point, std::int64_t d, std::int32_t from, std::int32_t to) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    constexpr std::int64_t kMaxLines = 32;  // the processor itself follows a longer row
    const std::int64_t fetched = std::min(d, kMaxLines * kLine);
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

/// The same for `count` labels of a block that may be larger than what a queue holds.
template <class T>
std::int64_t take_block(const Problem<T>& problem, const std::int32_t* block, int count,
                        std::int64_t first, std::int32_t* labels, MoveQueue<T>& moves,
                        FixedPointSums<T>& sums, int thread) {
  TileResult<T> part;
  std::int64_t changed = 0;
  for (int begin = 0; begin < count && first + begin < problem.shape.n;
       begin += kMaxTilePoints<T>) {
    const int points = std::min(kMaxTilePoints<T>, count - begin);
    std::copy_n(block + begin, points, part.labels);
    moves.apply(sums, thread);
    changed += take_labels(problem, part, first + begin, points, labels, moves);
  }
  return changed;
}

}  // namespace kmeans::openmp
