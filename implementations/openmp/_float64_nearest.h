// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroid by the formula of the exact Lloyd step (docs/exact-step.md): float64, t
// ascending, each difference, product and sum rounded on its own. Centroids lie in the lanes, so
// every lane computes what the plain loop would, in its order. Include only where
// -ffp-contract=off.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// Squared distances of a point from kCount blocks of centroids, each block d x lanes.
template <int kCount>
[[gnu::always_inline]] inline void squared_distances_of_blocks(const float* point,
                                                               const double* blocks, std::int64_t d,
                                                               Lanes<double>::V* sums) {
  using L = Lanes<double>;
  unrolled<kCount>([&](auto b) __attribute__((always_inline)) { sums[b] = L::set(0); });
  for (std::int64_t t = 0; t < d; ++t) {
    const L::V x = L::set(point[t]);
    unrolled<kCount>([&](auto b) __attribute__((always_inline)) {
      const L::V difference = x - L::load(blocks + (b * d + t) * L::kCount);
      sums[b] = sums[b] + difference * difference;
    });
  }
}

/// The centroids in float64, in groups of d x W lanes; lanes beyond k are infinitely far away.
class Float64Centroids {
 public:
  Float64Centroids() = default;
  Float64Centroids(std::int64_t k, std::int64_t d)
      : k_(k), d_(d), blocks_(round_up(k, kWidth) / kWidth), values_(blocks_ * d * kWidth) {}

  std::int64_t blocks() const { return blocks_; }

  /// Takes over the blocks of a range from centroids k x d.
  void pack(const float* centroids, Range blocks, const Changes& changes = {}) {
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      if (!changes.any_of(block * kWidth, std::min(k_, (block + 1) * kWidth))) continue;
      double* out = values_.data() + block * d_ * kWidth;
      for (int lane = 0; lane < kWidth; ++lane) {
        const std::int64_t j = block * kWidth + lane;
        for (std::int64_t t = 0; t < d_; ++t) {
          out[t * kWidth + lane] =
              j < k_ ? centroids[j * d_ + t] : std::numeric_limits<double>::infinity();
        }
      }
    }
  }

  /// The lowest index among the nearest centroids of a point (d coordinates).
  std::int32_t nearest(const float* point) const {
    V best = L::set(std::numeric_limits<double>::infinity());
    V winner = L::set(0);
    std::int64_t block = 0;
    // Several blocks at once hide the latency of the additions, whose order is fixed.
    for (; block + kBlocks <= blocks_; block += kBlocks) visit<kBlocks>(point, block, best, winner);
    for (; block < blocks_; ++block) visit<1>(point, block, best, winner);

    double distances[kWidth];
    double indices[kWidth];
    L::store(distances, best);
    L::store(indices, winner);
    int lowest = 0;
    for (int lane = 1; lane < kWidth; ++lane) {
      if (distances[lane] < distances[lowest] ||
          (distances[lane] == distances[lowest] && indices[lane] < indices[lowest])) {
        lowest = lane;
      }
    }
    return static_cast<std::int32_t>(indices[lowest]);
  }

  /// Squared distances of a point (d coordinates) from all centroids, k of them.
  void squares(const float* point, double* out) const {
    std::int64_t block = 0;
    for (; block + kBlocks <= blocks_; block += kBlocks) write<kBlocks>(point, block, out);
    for (; block < blocks_; ++block) write<1>(point, block, out);
  }

  static double bytes(const Sizes& s) { return 8 * (s.k + kWidth) * s.d; }

 private:
  using L = Lanes<double>;
  using V = L::V;
  static constexpr int kWidth = L::kCount;
  static constexpr int kBlocks = 4;

  template <int kCount>
  void visit(const float* point, std::int64_t first, V& best, V& winner) const {
    V sums[kCount];
    squared_distances_of_blocks<kCount>(point, values_.data() + first * d_ * kWidth, d_, sums);
    unrolled<kCount>([&](auto b) __attribute__((always_inline)) {
      alignas(64) double indices[kWidth];
      for (int lane = 0; lane < kWidth; ++lane) {
        indices[lane] = static_cast<double>((first + b) * kWidth + lane);
      }
      const auto nearer = L::less(sums[b], best);  // strictly: the lowest index wins a tie
      winner = L::select(nearer, L::load(indices), winner);
      best = L::select(nearer, sums[b], best);
    });
  }

  template <int kCount>
  void write(const float* point, std::int64_t first, double* out) const {
    V sums[kCount];
    squared_distances_of_blocks<kCount>(point, values_.data() + first * d_ * kWidth, d_, sums);
    unrolled<kCount>([&](auto b) __attribute__((always_inline)) {
      alignas(64) double squares[kWidth];
      L::store(squares, sums[b]);
      const std::int64_t begin = (first + b) * kWidth;
      std::copy_n(squares, std::min<std::int64_t>(kWidth, k_ - begin), out + begin);
    });
  }

  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  std::int64_t blocks_ = 0;
  AlignedArray<double> values_;
};

}  // namespace kmeans::openmp
