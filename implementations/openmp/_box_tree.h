// SPDX-License-Identifier: Apache-2.0
//
// A balanced kd-tree over the points: the points in its order, and of every node the box and the
// fixed-point sums of its points. Made once; boxes are of points, so no iteration changes them.
//
// The points are halved again and again, and nodes numbered as in a heap: the root is 1, the halves of i
// are 2i and 2i + 1. All leaves lie at one depth and hold at most kLeafPoints points; missing ones repeat
// the leaf's last point. Users go down several halvings at once, from level to level: up to kFanOut
// children, which lie side by side, so that they can be tested in the lanes of a register.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "harness/exact_step.h"
#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

inline constexpr int kLeafPoints = 32;
inline constexpr int kTreeMaxDimension = 8;
inline constexpr int kFanOut = 16;

/// The power of two that brings all points into [-1, 1]. A product by it is exact, unless it
/// underflows.
inline double unit_scale(float max_abs) {
  return max_abs > 0 ? std::ldexp(1.0, -(std::ilogb(static_cast<double>(max_abs)) + 1)) : 1.0;
}

/// A coordinate in that frame. Denormal results become zero here, so that a processor told to flush
/// them computes the same.
inline float scaled_coordinate(float coordinate, double scale) {
  const auto value = static_cast<float>(coordinate * scale);
  return std::abs(value) < std::numeric_limits<float>::min() ? 0.0F : value;
}

class BoxTree {
 public:
  BoxTree() = default;
  BoxTree(const Problem<float>& problem, int threads)
      : n_(problem.shape.n), d_(problem.shape.d), scale_(unit_scale(problem.max_abs)) {
    while ((n_ + leaves() - 1) / leaves() > kLeafPoints) ++depth_;
    std::vector<std::int32_t> order(n_);
    for (std::int64_t i = 0; i < n_; ++i) order[i] = static_cast<std::int32_t>(i);
    std::vector<Key> keys(n_);
#pragma omp parallel num_threads(threads)
#pragma omp single
    sort(problem, order.data(), keys.data(), 1, 0);
    order_ = AlignedArray<std::int32_t>(leaves() * kLeafPoints);
    tiles_ = AlignedArray<float>(leaves() * d_ * kLeafPoints);
    rows_ = AlignedArray<float>(leaves() * d_ * kLeafPoints);
    boxes_ = AlignedArray<float>((2 * d_ + 1) * box_stride());
    sums_ = AlignedArray<std::int64_t>(2 * leaves() * d_);
    const double sum_scale =
        exact::power_of_two(exact::sum_exponent(problem.whole_n(), problem.max_abs));
    std::vector<Corners> corners(2 * leaves());
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t leaf = 0; leaf < leaves(); ++leaf) {
      pack_leaf(problem, order.data(), leaf, sum_scale, corners[leaves() + leaf]);
    }
    std::fill_n(boxes_.data(), (2 * d_ + 1) * box_stride(), 0.0F);
    for (std::int64_t node = 2 * leaves() - 1; node >= 1; --node) {
      if (node < leaves()) join_children(node, corners);
      pack_box(node, corners[node]);
    }
  }

  [[nodiscard]] int depth() const { return depth_; }
  [[nodiscard]] std::int64_t leaves() const { return std::int64_t{1} << depth_; }
  [[nodiscard]] bool is_leaf(std::int64_t node) const { return node >= leaves(); }
  [[nodiscard]] double scale() const { return scale_; }

  /// The points of a node, counted in the tree's order without missing ones.
  [[nodiscard]] Range points(std::int64_t node) const {
    const int level = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(node))) - 1;
    const std::int64_t place = node - (std::int64_t{1} << level);
    return {begin_of(place, level), begin_of(place + 1, level)};
  }
  [[nodiscard]] std::int64_t count(std::int64_t node) const {
    const Range range = points(node);
    return range.end - range.begin;
  }
  /// The leaves below a node, or the node itself.
  [[nodiscard]] Range leaves_of(std::int64_t node) const {
    std::int64_t last = node;
    for (; !is_leaf(node); node *= 2) last = 2 * last + 1;
    return {node - leaves(), last - leaves() + 1};
  }

  /// Levels of users, the root's included, and how many nodes one has.
  [[nodiscard]] int levels() const { return (depth_ + kHalvings - 1) / kHalvings + 1; }
  [[nodiscard]] std::int64_t nodes(int level) const {
    return std::int64_t{1} << std::max(0, depth_ - kHalvings * (levels() - 1 - level));
  }
  /// The children of a node of a level.
  [[nodiscard]] Range children(std::int64_t node, int level) const {
    const std::int64_t count = nodes(level + 1) / nodes(level);
    return {node * count, node * count + count};
  }

  /// Of a node and the kFanOut behind it: rows of box_stride() floats, d of centres of the boxes, d of
  /// whole extents, and one of squared half diagonals.
  [[nodiscard]] const float* boxes(std::int64_t node) const { return boxes_.data() + node; }
  [[nodiscard]] std::int64_t box_stride() const { return 2 * leaves() + kFanOut; }
  /// d fixed-point sums of the node's points.
  [[nodiscard]] const std::int64_t* sums(std::int64_t node) const {
    return sums_.data() + node * d_;
  }
  /// The scaled coordinates of a leaf, d x kLeafPoints.
  [[nodiscard]] const float* tile(std::int64_t leaf) const {
    return tiles_.data() + leaf * d_ * kLeafPoints;
  }
  /// The coordinates of a leaf as they were given, kLeafPoints x d.
  [[nodiscard]] const float* rows(std::int64_t leaf) const {
    return rows_.data() + leaf * d_ * kLeafPoints;
  }
  /// Which points these are.
  [[nodiscard]] const std::int32_t* order(std::int64_t leaf) const {
    return order_.data() + leaf * kLeafPoints;
  }

  static double bytes(const Sizes& s) {
    const double slots = 2 * s.n + kLeafPoints;  // leaves are at least half full
    return slots * (4 + 8 * s.d) + 12 * s.n +
           slots / kLeafPoints * 2 * (4 * (2 * s.d + 1) + 8 * s.d + 8 * kTreeMaxDimension);
  }

 private:
  static constexpr int kHalvings = std::countr_zero(static_cast<unsigned>(kFanOut));

  struct Key {
    float value;
    std::int32_t point;
  };
  struct Corners {
    std::array<float, kTreeMaxDimension> low;
    std::array<float, kTreeMaxDimension> high;
  };

  [[nodiscard]] std::int64_t begin_of(std::int64_t place, int level) const {
    return static_cast<std::int64_t>(
        (static_cast<unsigned __int128>(n_) * static_cast<unsigned __int128>(place)) >> level);
  }

  /// The coordinate in which a sample of a range is widest.
  std::int64_t widest(const Problem<float>& problem, const std::int32_t* order, Range range) const {
    constexpr std::int64_t kSample = 128;
    const std::int64_t size = range.end - range.begin;
    const std::int64_t stride = std::max<std::int64_t>(1, size / kSample);
    std::int64_t chosen = 0;
    double most = -1;
    for (std::int64_t t = 0; t < d_; ++t) {
      float low = std::numeric_limits<float>::infinity();
      float high = -low;
      for (std::int64_t i = range.begin; i < range.end; i += stride) {
        const float value = problem.points[order[i] * d_ + t];
        low = std::min(low, value);
        high = std::max(high, value);
      }
      const double extent = static_cast<double>(high) - static_cast<double>(low);
      if (extent > most) {
        most = extent;
        chosen = t;
      }
    }
    return chosen;
  }

  /// Brings the points of a node into the order of the tree.
  void sort(const Problem<float>& problem, std::int32_t* order, Key* keys, std::int64_t node,
            int level) const {
    if (level == depth_) return;
    const Range range = points(node);
    const std::int64_t middle = points(2 * node).end;
    const std::int64_t t = widest(problem, order, range);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      keys[i] = {problem.points[order[i] * d_ + t], order[i]};
    }
    std::nth_element(keys + range.begin, keys + middle, keys + range.end,
                     [](const Key& a, const Key& b) { return a.value < b.value; });
    for (std::int64_t i = range.begin; i < range.end; ++i) order[i] = keys[i].point;
    constexpr std::int64_t kWorthATask = 8192;
#pragma omp task if (range.end - range.begin > kWorthATask) default(shared)
    sort(problem, order, keys, 2 * node, level + 1);
    sort(problem, order, keys, 2 * node + 1, level + 1);
#pragma omp taskwait
  }

  void pack_leaf(const Problem<float>& problem, const std::int32_t* order, std::int64_t leaf,
                 double sum_scale, Corners& corners) {
    const Range range = points(leaves() + leaf);
    std::int64_t* sums = sums_.data() + (leaves() + leaf) * d_;
    const bool any = range.begin < range.end;  // a shard may have no points
    for (std::int64_t t = 0; t < d_; ++t) {
      float low = std::numeric_limits<float>::infinity();
      float high = -low;
      sums[t] = 0;
      for (std::int64_t p = 0; p < kLeafPoints; ++p) {
        const std::int64_t place = std::min(range.begin + p, range.end - 1);
        const std::int32_t point = any ? order[place] : 0;
        const float given = any ? problem.points[point * d_ + t] : 0.0F;
        const float value = scaled_coordinate(given, scale_);
        const std::int64_t slot = leaf * kLeafPoints + p;
        order_[slot] = point;
        rows_[slot * d_ + t] = given;
        tiles_[(leaf * d_ + t) * kLeafPoints + p] = value;
        low = std::min(low, value);
        high = std::max(high, value);
        if (range.begin + p < range.end) sums[t] += exact::to_fixed_point(given, sum_scale);
      }
      corners.low[t] = low;
      corners.high[t] = high;
    }
  }

  void join_children(std::int64_t node, std::vector<Corners>& corners) {
    const Corners& left = corners[2 * node];
    const Corners& right = corners[2 * node + 1];
    for (std::int64_t t = 0; t < d_; ++t) {
      corners[node].low[t] = std::min(left.low[t], right.low[t]);
      corners[node].high[t] = std::max(left.high[t], right.high[t]);
      sums_[node * d_ + t] = sums_[2 * node * d_ + t] + sums_[(2 * node + 1) * d_ + t];
    }
  }

  /// Any centre will do as long as the extents, rounded up, reach both corners from it.
  void pack_box(std::int64_t node, const Corners& corners) {
    float* box = boxes_.data() + node;
    double half_diagonal = 0;
    for (std::int64_t t = 0; t < d_; ++t) {
      const double low = corners.low[t];
      const double high = corners.high[t];
      const auto centre = static_cast<float>((low + high) / 2);
      const double half = std::max(high - centre, centre - low) * 1.000001;
      box[t * box_stride()] = centre;
      box[(d_ + t) * box_stride()] = static_cast<float>(2 * half);
      half_diagonal += half * half;
    }
    box[2 * d_ * box_stride()] = static_cast<float>(half_diagonal * 1.000001);
  }

  std::int64_t n_ = 0;
  std::int64_t d_ = 0;
  double scale_ = 1;
  int depth_ = 0;
  AlignedArray<std::int32_t> order_;
  AlignedArray<float> tiles_;
  AlignedArray<float> rows_;
  AlignedArray<float> boxes_;
  AlignedArray<std::int64_t> sums_;
};

}  // namespace kmeans::openmp
