// SPDX-License-Identifier: Apache-2.0
//
// What an iteration of each family of exact variants costs, by shape and by what was counted, and when it
// pays to change the family. Nanoseconds of one thread and point; only their ratios decide. The constants
// were measured (docs/openmp.md has where); no clock is read, so the same problem takes the same way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "harness/variant.h"

namespace kmeans::openmp {

struct FamilyCosts {
  explicit FamilyCosts(const Shape& shape) : s(shape) {}

  /// openmp_exact: a multiply-add a coordinate, an epilogue a pair, points that change clusters.
  [[nodiscard]] double exact() const { return s.k * (0.0175 * s.d + 0.09) + 0.38 * s.d + 2; }

  /// openmp_int8 with VNNI instructions: a quarter of the multiply-adds, then what is left open; and
  /// more barriers, 8 us in all.
  [[nodiscard]] double int8() const {
    return s.k * (0.0044 * s.d + 0.12) + 0.5 * s.d + 8 + 8000 / s.n;
  }

  /// openmp_tree; `computed` is the share of the distances that it forms. Tests of boxes go with them.
  [[nodiscard]] double tree(double computed) const {
    return 4 + computed * s.k * 0.045 * s.d * s.d;
  }

  /// openmp_hamerly and openmp_yinyang: bounds follow their centroids; where they cross, a row is read
  /// and distances are formed, which costs more where groups are looked at one by one.
  [[nodiscard]] double bounded(double computed, bool groups) const {
    const double pair = groups ? 0.021 * s.d + 0.8 : 0.0184 * s.d + 0.095;
    const double opened = std::min(1.0, computed * s.k / (groups ? 1 : 8));  // points
    return 8 + opened * (40 + 0.5 * s.d) + computed * s.k * pair;
  }

  Sizes s;
};

/// Byte products of the processor's own, by the names that openmp_int8 has for them. Plain vectors and
/// whatever is emulated are slower than float32.
inline bool has_fast_bytes(const std::string& instructions) {
  return instructions.starts_with("avx") || instructions == "amx";
}

/// The family for points that nothing is known of.
inline std::string brute_family(const Shape& shape, const std::string& int8_instructions) {
  const FamilyCosts costs(shape);
  return has_fast_bytes(int8_instructions) && costs.int8() < costs.exact() ? "openmp_int8"
                                                                           : "openmp_exact";
}

/// Boxes tell centroids apart whatever the points are.
inline bool surely_tree(const Shape& shape) { return shape.d <= 4; }

/// Whether boxes do is to be seen from some of the points. Few points are not worth the look.
inline bool perhaps_tree(const Shape& shape) {
  return !surely_tree(shape) && shape.d <= 8 && shape.n >= 16384;
}

/// The tree's estimate is the coarser one: what is seen are its first iterations, the dearest.
inline bool prefers_tree(const FamilyCosts& costs, double brute, double computed) {
  return 0.75 * costs.tree(computed) < brute;
}

/// Groups of centroids with bounds of their own pay for themselves where there are many.
inline bool prefers_groups(const Shape& shape) { return shape.d >= 32 && shape.k > 32; }

/// Points behind bounds beside the brute force, to see what bounds would save; none where an iteration
/// is shorter than what the look costs in barriers. One of them takes as long as `threads` of the others,
/// since one thread looks while all wait.
inline std::int64_t scouts(const Shape& shape, int threads) {
  const Sizes s = shape;
  const std::int64_t points = std::min<std::int64_t>(shape.n / (std::int64_t{128} * threads), 4096);
  const bool worth_while = shape.k >= 4 && shape.d > 8 && s.n * s.k * s.d > 2e7;
  return worth_while && points >= 32 ? points : 0;
}

/// Does another family pay, which begins with an iteration of cost `start` and goes on with `then`,
/// over one that costs `now`, if `left` iterations are to come?
inline bool change_pays(double now, double start, double then, std::int64_t left) {
  return static_cast<double>(left) * now > start + static_cast<double>(left - 1) * then;
}

}  // namespace kmeans::openmp
