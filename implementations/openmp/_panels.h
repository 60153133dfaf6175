// SPDX-License-Identifier: Apache-2.0
//
// Centroids in the lanes, in groups: for variants that look at some centroids for some points. The
// values are those of _tile.h, v = |z|^2 + sum_t y_t (-2 z_t), t ascending, each step one fused
// multiply-add, so FilterBound holds for them too.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "implementations/openmp/_across_lanes.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// What a group of centroids is to a point.
struct GroupResult {
  float nearest = std::numeric_limits<float>::infinity();  ///< lowest value
  float second = std::numeric_limits<float>::infinity();   ///< lowest of all others
  std::int32_t label = 0;                                  ///< whose value the lowest is
};

/// Groups of centroids, each padded to whole panels of (1 + d) x kWidth: norms, then coordinates
/// times -2. Lanes without a centroid, and centroids beyond CentroidRange::kFar, have an infinite norm.
class Panels {
  using V = Lanes<float>::V;

 public:
  static constexpr int kWidth = Lanes<float>::kCount;  // a register
  static constexpr int kPoints = 12;                   // looked at together

  Panels() = default;
  /// groups[g] are the centroids of group g.
  Panels(const std::vector<std::vector<std::int32_t>>& groups, std::int64_t d) : d_(d) {
    for (const auto& group : groups) {
      starts_.push_back(static_cast<std::int64_t>(members_.size()) / kWidth);
      members_.insert(members_.end(), group.begin(), group.end());
      members_.resize(round_up(static_cast<std::int64_t>(members_.size()), kWidth), -1);
    }
    starts_.push_back(panels());
    lengths_ = AlignedArray<double>(panels() * kWidth);
    values_ = AlignedArray<float>(panels() * (d + 1) * kWidth);
  }

  [[nodiscard]] std::int64_t panels() const {
    return static_cast<std::int64_t>(members_.size()) / kWidth;
  }

  /// Takes over a range of panels from centroids k x d.
  CentroidRange pack(const float* centroids, const Frame<float>& frame, Range panels,
                     const Changes& changes = {}) {
    CentroidRange seen;
    for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
      for (int lane = 0; lane < kWidth; ++lane) {
        const std::int64_t place = panel * kWidth + lane;
        const std::int32_t j = members_[place];
        if (changes.of(std::max(j, 0))) {  // what is no centroid goes with the first one
          lengths_[place] = pack_lane(values_.data() + panel * (d_ + 1) * kWidth + lane,
                                      j < 0 ? nullptr : centroids + j * d_, frame);
        }
        if (j >= 0) seen.add(lengths_[place]);
      }
    }
    return seen;
  }

  /// A group's values for kPoints points (d coordinates each in the frame).
  void look(std::int64_t group, const std::array<const float*, kPoints>& points,
            std::array<GroupResult, kPoints>& results) const {
    using L = Lanes<float>;
    V best[kPoints];
    V second[kPoints];
    V place[kPoints];
    unrolled<kPoints>([&](auto p) __attribute__((always_inline)) {
      best[p] = second[p] = L::set(std::numeric_limits<float>::infinity());
      place[p] = L::set(0);
    });
    for (std::int64_t panel = starts_[group]; panel < starts_[group + 1]; ++panel) {
      const float* row = values_.data() + panel * (d_ + 1) * kWidth;
      const V norms = L::load(row);
      V value[kPoints];
      unrolled<kPoints>([&](auto p) __attribute__((always_inline)) { value[p] = norms; });
      for (std::int64_t t = 0; t < d_; ++t) {
        row += kWidth;
        const V z = L::load(row);
        unrolled<kPoints>([&](auto p) __attribute__((always_inline)) {
          value[p] = L::fma(L::set(points[p][t]), z, value[p]);
        });
      }
      const V own = L::set(static_cast<float>(panel - starts_[group]));
      unrolled<kPoints>([&](auto p) __attribute__((always_inline)) {
        place[p] = L::select(L::less(value[p], best[p]), own, place[p]);
        second[p] = L::min(second[p], L::max(best[p], value[p]));
        best[p] = L::min(best[p], value[p]);
      });
    }
    unrolled<kPoints>([&](auto p) __attribute__((always_inline)) {
      results[p] = best_lane(group, best[p], second[p], place[p]);
    });
  }

  static double bytes(const Sizes& s) { return (4 * (s.d + 1) + 12) * (1.5 * s.k + 64 * kWidth); }

 private:
  /// Returns the norm.
  double pack_lane(float* out, const float* centroid, const Frame<float>& frame) const {
    double squares = 0;
    for (std::int64_t t = 0; t < d_; ++t) {
      const float value = centroid == nullptr ? 0.0F : frame.apply(centroid[t], t);
      out[(1 + t) * kWidth] = -2 * value;
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double length = std::sqrt(squares);
    if (centroid != nullptr && length <= CentroidRange::kFar) {
      *out = static_cast<float>(squares);
      return length;
    }
    *out = std::numeric_limits<float>::infinity();
    for (std::int64_t t = 0; t < d_; ++t) out[(1 + t) * kWidth] = 0;
    return length;
  }

  [[nodiscard]] GroupResult best_lane(std::int64_t group, V best, V second, V place) const {
    using L = Lanes<float>;
    static constexpr auto kLane = [] {
      std::array<float, L::kCount> lanes{};
      for (int lane = 0; lane < L::kCount; ++lane) lanes[lane] = static_cast<float>(lane);
      return lanes;
    }();
    const V nearest = lowest_in_all(best);
    const int winner = lane_of(best, nearest);
    const auto there = L::equal(L::load(kLane.data()), L::set(static_cast<float>(winner)));
    const V others = lowest_in_all(L::select(there, second, best));
    alignas(64) std::array<float, L::kCount> places;
    L::store(places.data(), place);
    GroupResult result{any_lane(nearest), any_lane(others), 0};
    const auto within = static_cast<std::int64_t>(places[winner]) * L::kCount + winner;
    // Where all values are infinite any label will do: such points are decided otherwise.
    result.label = std::max(members_[starts_[group] * kWidth + within], 0);
    return result;
  }

  std::int64_t d_ = 0;
  std::vector<std::int64_t> starts_;   // a group's first panel
  std::vector<std::int32_t> members_;  // panels x kWidth; -1: none
  AlignedArray<double> lengths_;       // panels x kWidth, of the centroids in the frame
  AlignedArray<float> values_;
};

}  // namespace kmeans::openmp
