// SPDX-License-Identifier: Apache-2.0
//
// A balanced kd-tree over the points: the points in its order, and of every node the box and the
// fixed-point sums of its points. Made once; boxes are of points, so no iteration changes them.
//
// The points are split again and again, and nodes numbered as in a heap: the root is 1, the parts of i
// are 2i and 2i + 1. All leaves lie at one depth. All but the last that has points hold kLeafPoints of them;
// what that one lacks repeats its last point. Nodes behind it are empty: they have no memory of points, and
// a box that is none. Users go down several halvings at once, from level to level: up to kFanOut
// children, which lie side by side, so that they can be tested in the lanes of a register.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "harness/exact_step.h"
#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_crew.h"
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

/// A coordinate in that frame. Denormal results become zero here, so that a processor set to flush
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
    order_ = AlignedArray<std::int32_t>(full_leaves() * kLeafPoints);
    sort_points(problem, threads);
    tiles_ = AlignedArray<float>(full_leaves() * d_ * kLeafPoints);
    boxes_ = AlignedArray<float>((2 * d_ + 1) * box_stride());
    sums_ = AlignedArray<std::int64_t>((leaves() + full_leaves()) * d_);
    const double sum_scale =
        exact::power_of_two(exact::sum_exponent(problem.whole_n(), problem.max_abs));
    std::fill_n(boxes_.data(), (2 * d_ + 1) * box_stride(), 0.0F);
    in_team(threads, [&](int thread, int present) {
      const Range leaves = part_of(full_leaves(), thread, present);
      for (std::int64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
        pack_leaf(problem, leaf, sum_scale);
      }
    });
    for (std::int64_t node = leaves() - 1; node >= 1; --node) join_children(node);
    for (std::int64_t node = leaves() + full_leaves() - 1; node >= 1; --node) {
      if (count(node) > 0) pack_box(node);
    }
  }

  [[nodiscard]] int depth() const { return depth_; }
  [[nodiscard]] std::int64_t leaves() const { return std::int64_t{1} << depth_; }
  /// Those that have points.
  [[nodiscard]] std::int64_t full_leaves() const { return (n_ + kLeafPoints - 1) / kLeafPoints; }
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
  /// The first node of the same level, behind or at a node, that has no points.
  [[nodiscard]] std::int64_t first_empty(std::int64_t node) const {
    const int level = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(node))) - 1;
    const std::int64_t leaves_of_one = std::int64_t{1} << (depth_ - level);
    return (std::int64_t{1} << level) + (full_leaves() + leaves_of_one - 1) / leaves_of_one;
  }
  /// The leaves below a node, or the node itself; of those that have points.
  [[nodiscard]] Range leaves_of(std::int64_t node) const {
    std::int64_t last = node;
    for (; !is_leaf(node); node *= 2) last = 2 * last + 1;
    return {std::min(full_leaves(), node - leaves()), std::min(full_leaves(), last - leaves() + 1)};
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
  [[nodiscard]] std::int64_t box_stride() const {
    return leaves() + full_leaves() + std::int64_t{2} * kFanOut;
  }
  /// d fixed-point sums of the node's points.
  [[nodiscard]] const std::int64_t* sums(std::int64_t node) const {
    return sums_.data() + node * d_;
  }
  /// The scaled coordinates of a leaf, d x kLeafPoints.
  [[nodiscard]] const float* tile(std::int64_t leaf) const {
    return tiles_.data() + leaf * d_ * kLeafPoints;
  }
  /// A point of a leaf as it was given, d coordinates; but those that underflow in the frame are 0, as they
  /// are in fixed point.
  void row(std::int64_t leaf, std::int64_t p, float* out) const {
    const float* scaled = tile(leaf) + p;
    for (std::int64_t t = 0; t < d_; ++t) {
      out[t] = static_cast<float>(scaled[t * kLeafPoints] / scale_);
    }
  }
  /// Which points these are.
  [[nodiscard]] const std::int32_t* order(std::int64_t leaf) const {
    return order_.data() + leaf * kLeafPoints;
  }

  static double bytes(const Sizes& s) {
    const double slots = s.n + kLeafPoints;
    const double nodes =
        3 * slots / kLeafPoints + 2 * kFanOut;  // at most twice as many leaves as are full
    return slots * 4 + std::max(8 * s.n, slots * 4 * s.d + nodes * (4 * (2 * s.d + 1) + 8 * s.d));
  }

 private:
  static constexpr int kHalvings = std::countr_zero(static_cast<unsigned>(kFanOut));

  /// A point by one of its coordinates, as a number that is in the order of these; no two are equal.
  using Key = std::uint64_t;
  static Key key_of(float value, std::int32_t point) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
    return std::uint64_t{ordered} << 32 | static_cast<std::uint32_t>(point);
  }

  /// As std::nth_element(), without branches that nobody can guess: those up to a pivot, from a sample, go
  /// before the others, until `middle` is where two parts meet.
  static void part(Key* begin, const Key* middle, Key* end) {
    constexpr std::int64_t kSample = 32;
    while (end - begin > 4 * kSample) {
      std::array<Key, kSample> sample;
      for (std::int64_t i = 0; i < kSample; ++i) sample[i] = begin[i * (end - begin) / kSample];
      std::sort(sample.begin(), sample.end());
      // Never the last: so there is a key behind it.
      const Key pivot = sample[(kSample - 1) * (middle - begin) / (end - begin)];
      Key* store = begin;
      for (Key* at = begin; at < end; ++at) {
        const Key key = *at;
        *at = *store;
        *store = key;
        store += key <= pivot ? 1 : 0;
      }
      if (store == middle) return;
      (middle < store ? end : begin) = store;
    }
    std::nth_element(begin, begin + (middle - begin), end);
  }

  [[nodiscard]] std::int64_t begin_of(std::int64_t place, int level) const {
    return std::min(n_, (place << (depth_ - level)) * kLeafPoints);
  }

  /// Places of a node's corners, until its box takes theirs.
  [[nodiscard]] float& low(std::int64_t node, std::int64_t t) {
    return boxes_[t * box_stride() + node];
  }
  [[nodiscard]] float& high(std::int64_t node, std::int64_t t) {
    return boxes_[(d_ + t) * box_stride() + node];
  }

  void sort_points(const Problem<float>& problem, int threads) {
    std::int32_t* order = order_.data();
    for (std::int64_t i = 0; i < n_; ++i) order[i] = static_cast<std::int32_t>(i);
    KeptVector<Key> keys(n_);
    // The first levels node by node, then whole subtrees.
    int level = 0;
    for (; level < depth_ && std::int64_t{1} << level < std::int64_t{8} * threads; ++level) {
      each_node(level, threads,
                [&](std::int64_t node) { split(problem, order, keys.data(), node); });
    }
    each_node(level, threads,
              [&](std::int64_t node) { sort(problem, order, keys.data(), node, level); });
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
    if (level == depth_ || count(node) == 0) return;
    split(problem, order, keys, node);
    sort(problem, order, keys, 2 * node, level + 1);
    sort(problem, order, keys, 2 * node + 1, level + 1);
  }

  /// The nodes of a level that have points, the next one by whoever is free.
  template <class Call>
  void each_node(int level, int threads, const Call& call) const {
    const std::int64_t first = std::int64_t{1} << level;
    std::atomic<std::int64_t> next{first};
    in_team(static_cast<int>(std::min<std::int64_t>(threads, first)), [&](int, int) {
      for (std::int64_t node = next++; node < first_empty(first); node = next++) call(node);
    });
  }

  /// What belongs to the first part of a node goes before the rest.
  void split(const Problem<float>& problem, std::int32_t* order, Key* keys,
             std::int64_t node) const {
    const Range range = points(node);
    const std::int64_t middle = points(2 * node).end;
    if (middle == range.end) return;
    const std::int64_t t = widest(problem, order, range);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      keys[i] = key_of(problem.points[order[i] * d_ + t], order[i]);
    }
    part(keys + range.begin, keys + middle, keys + range.end);
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      order[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(keys[i]));
    }
  }

  void pack_leaf(const Problem<float>& problem, std::int64_t leaf, double sum_scale) {
    const Range range = points(leaves() + leaf);
    std::int64_t* sums = sums_.data() + (leaves() + leaf) * d_;
    for (std::int64_t place = range.end; place < (leaf + 1) * kLeafPoints; ++place) {
      order_[place] = order_[range.end - 1];
    }
    for (std::int64_t t = 0; t < d_; ++t) {
      float lowest = std::numeric_limits<float>::infinity();
      float highest = -lowest;
      sums[t] = 0;
      for (std::int64_t p = 0; p < kLeafPoints; ++p) {
        const float given = problem.points[order_[leaf * kLeafPoints + p] * d_ + t];
        const float value = scaled_coordinate(given, scale_);
        tiles_[(leaf * d_ + t) * kLeafPoints + p] = value;
        lowest = std::min(lowest, value);
        highest = std::max(highest, value);
        if (range.begin + p < range.end) sums[t] += exact::to_fixed_point(given, sum_scale);
      }
      low(leaves() + leaf, t) = lowest;
      high(leaves() + leaf, t) = highest;
    }
  }

  void join_children(std::int64_t node) {
    const std::int64_t left = 2 * node;
    const std::int64_t right = left + 1;
    if (count(left) == 0) return;
    const bool both = count(right) > 0;
    for (std::int64_t t = 0; t < d_; ++t) {
      low(node, t) = both ? std::min(low(left, t), low(right, t)) : low(left, t);
      high(node, t) = both ? std::max(high(left, t), high(right, t)) : high(left, t);
      sums_[node * d_ + t] = sums_[left * d_ + t] + (both ? sums_[right * d_ + t] : 0);
    }
  }

  /// Any centre will do as long as the extents, rounded up, reach both corners from it.
  void pack_box(std::int64_t node) {
    double half_diagonal = 0;
    for (std::int64_t t = 0; t < d_; ++t) {
      const double lowest = low(node, t);
      const double highest = high(node, t);
      const auto centre = static_cast<float>((lowest + highest) / 2);
      const double half = std::max(highest - centre, centre - lowest) * 1.000001;
      boxes_[t * box_stride() + node] = centre;
      boxes_[(d_ + t) * box_stride() + node] = static_cast<float>(2 * half);
      half_diagonal += half * half;
    }
    boxes_[2 * d_ * box_stride() + node] = static_cast<float>(half_diagonal * 1.000001);
  }

  std::int64_t n_ = 0;
  std::int64_t d_ = 0;
  double scale_ = 1;
  int depth_ = 0;
  AlignedArray<std::int32_t> order_;
  AlignedArray<float> tiles_;
  AlignedArray<float> boxes_;
  AlignedArray<std::int64_t> sums_;
};

}  // namespace kmeans::openmp
