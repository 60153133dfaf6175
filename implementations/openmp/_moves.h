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
/// tile or block, of kMost points, until their rows, which lie anywhere in memory, have been fetched:
/// at once, or by whoever asks for rows().
template <class T, int kMost = kMaxTilePoints<T>, bool kFetchAtOnce = true>
class MoveQueue {
 public:
  void push(const T* point, [[maybe_unused]] std::int64_t d, std::int32_t from, std::int32_t to) {
    if constexpr (kFetchAtOnce) {
      constexpr std::int64_t kLine = 64 / sizeof(T);
      constexpr std::int64_t kMaxLines = 32;  // the processor itself follows a longer row
      const std::int64_t fetched = std::min(d, kMaxLines * kLine);
      for (std::int64_t t = 0; t < fetched; t += kLine) __builtin_prefetch(point + t, 0, 2);
    }
    points_[count_] = point;
    moves_[count_++] = {from, to};
  }

  void apply(FixedPointSums<T>& sums, int thread) {
    for (int index = 0; index < count_; ++index) {
      sums.move(thread, points_[index], moves_[index].from, moves_[index].to);
    }
    count_ = 0;
  }

  const T* const* rows() const { return points_; }
  int count() const { return count_; }

 private:
  struct Move {
    std::int32_t from;  // -1: none
    std::int32_t to;
  };
  int count_ = 0;
  const T* points_[kMost];
  Move moves_[kMost];
};

/// Of `points` points from `first` on the labels alone.
template <class T>
void put_labels(const Problem<T>& problem, const std::int32_t* found, std::int64_t first,
                int points, std::int32_t* labels) {
  std::copy_n(found, std::min<std::int64_t>(points, problem.shape.n - first), labels + first);
}

/// Takes over the labels of `points` points from `first` on, of a tile or block whose array is whole
/// registers of 16, and queues every point whose label changed. Returns how many there were that count.
template <class T, class Moves>
std::int64_t take_labels(const Problem<T>& problem, const std::int32_t* found, std::int64_t first,
                         int points, std::int32_t* labels, Moves& moves) {
  const std::int64_t d = problem.shape.d;
  const int valid = static_cast<int>(std::min<std::int64_t>(points, problem.shape.n - first));
  std::int64_t count = 0;
  for (int begin = 0; begin < valid; begin += 16) {
    std::int32_t* old_labels = labels + first + begin;
    const std::int32_t* new_labels = found + begin;
    std::uint32_t changed = different_labels(new_labels, old_labels, std::min(16, valid - begin));
    count += std::popcount(changed);
    if (problem.counted.weights != nullptr) {
      for (std::uint32_t left = changed; left != 0; left &= left - 1) {
        if (!problem.counted.counts(first + begin + std::countr_zero(left))) --count;
      }
    }
    for (; changed != 0; changed &= changed - 1) {
      const int p = std::countr_zero(changed);
      moves.push(problem.points + (first + begin + p) * d, d, old_labels[p], new_labels[p]);
      old_labels[p] = new_labels[p];
    }
  }
  return count;
}

}  // namespace kmeans::openmp
