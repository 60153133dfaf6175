// SPDX-License-Identifier: Apache-2.0
//
// What an iteration of each family of exact variants costs, by shape and by what was counted, and when it
// pays to change the family. Nanoseconds of one thread and point; only their ratios decide. The constants
// were measured (docs/openmp.md says where); no clock is read, so the same problem takes the same way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "harness/variant.h"

namespace kmeans::openmp {

/// Is the processor one of a kind on which AVX2's pairs of bytes were measured against float32, a Zen 3? AMD's
/// without AVX-512, whose multiply-adds are wider.
inline bool pairs_are_known() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && !__builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

struct FamilyCosts {
  explicit FamilyCosts(const Shape& shape, bool knows_pairs = pairs_are_known())
      : s(shape), pairs_known(knows_pairs) {}

  /// openmp_exact: a multiply-add a coordinate, an epilogue a pair, points that change clusters.
  [[nodiscard]] double exact() const { return exact_pass() + 0.38 * s.d + 2; }
  [[nodiscard]] double exact_pass() const { return s.k * (0.0175 * s.d + 0.09); }

  /// openmp_int8, by the instructions that it has: with VNNI a quarter of the multiply-adds, with tiles an
  /// eighth; then what is left open; and more barriers, 8 us in all.
  [[nodiscard]] double int8(const std::string& instructions) const {
    return int8_pass(instructions) + 0.3 * s.d + std::min(28.0, 8 + s.k);
  }
  [[nodiscard]] double int8_pass(const std::string& instructions) const {
    const double product = instructions == "amx"    ? 0.0022
                           : instructions == "avx2" ? 0.0075
                                                    : 0.0044;
    return s.k * (product * s.d + 0.1) + 8000 / s.n;
  }

  /// Do bytes suit points that nothing is known of? Plain vectors and whatever is emulated are slower than
  /// float32; NEON's products are not measured. Where both cost about the same, bytes, from 16 centroids and
  /// 4 096 points on also where they cost up to a third more: between clusters apart they leave little open and
  /// take down to 0.7 of the time, and where they leave much they are paused, which costs some 5 %, seldom 10.
  [[nodiscard]] bool prefers_bytes(const std::string& instructions) const {
    if (instructions == "avx2") return prefers_pairs();
    const bool fast = instructions.starts_with("avx") || instructions == "amx";
    return fast && int8(instructions) < (s.k < 16 || s.n < 4096 ? 1.1 : 1.35) * exact();
  }
  /// The same of pairs of bytes, by nanoseconds of a Zen 3: seven bits leave more open than eight.
  [[nodiscard]] bool prefers_pairs() const {
    if (!pairs_known) return false;
    const double pairs = s.k * (0.015 * s.d + 0.3) + 0.95 * s.d + 70 + 20000 / s.n;
    return pairs < 0.95 * (s.k * (0.044 * s.d + 0.1) + 0.3 * s.d);
  }

  /// Of the family that prefers_bytes() says.
  [[nodiscard]] double brute(const std::string& instructions) const {
    return prefers_bytes(instructions) ? std::min(int8(instructions), 1.05 * exact()) : exact();
  }

  /// Rows of a share of the points, in float32, which are at hand already where a cache holds them.
  [[nodiscard]] double rows(double share) const {
    constexpr double kCache = 0x1p24;  // bytes
    return share * s.d * (4 * s.n * s.d * share > kCache ? 0.17 : 0.03);
  }

  /// The same when hardly a point changes clusters any more, since those that do cost every family the
  /// same. Of the points, bytes left the share `open` to be looked at again; of more than half they are
  /// paused before long.
  [[nodiscard]] double settled(const std::string& instructions, double open) const {
    const double by_exact = exact_pass() + 1 + rows(1);
    if (!prefers_bytes(instructions)) return by_exact;
    const double of_open = open * (0.4 * s.d + 22);
    return std::min(by_exact, int8_pass(instructions) + std::min(8.0, 4 + s.k / 16) + of_open);
  }

  /// openmp_tree; `computed` is the share of the distances that it forms. Tests of boxes go with them,
  /// and with the length of the lists near the root. Of 5 to 8 coordinates.
  [[nodiscard]] double tree(double computed) const {
    return 3 + std::min(0.04 * s.k, 12.0) + computed * s.k * 0.6;
  }

  /// The same by shape alone, where points have no structure and coordinates are few: boxes that a border between
  /// clusters crosses, fewer the more points a cluster has. Of an AVX-512 Xeon.
  [[nodiscard]] double tree_of_few() const {
    const double clusters_a_point = s.k / std::max(s.n, 1.0);
    return 1 + 12 * std::pow(s.k, 0.25) * std::pow(clusters_a_point, 0.75 / s.d);
  }

  /// openmp_hamerly and openmp_yinyang: bounds follow their centroids; where they cross, a row is read
  /// and the point's own distance formed, and where they still cross those to others: to all, or to
  /// those of some groups, which costs more.
  [[nodiscard]] double bounded(double computed, bool groups) const {
    if (groups) {
      const double crossed = std::min(1.0, computed * s.k / 3);
      return 1 + crossed * (15 + 2 * group_count()) + rows(crossed) +
             computed * s.k * (1.4 + 0.024 * s.d);
    }
    return 1 + 13 * computed / (computed + 0.12) + rows(std::min(1.0, 4 * computed)) +
           computed * (17 + 0.1 * s.d + s.k * (0.095 + 0.0196 * s.d));
  }
  /// In their first iteration there are no bounds to follow. Where centroids are few, memory is waited for:
  /// points in float32, labels, and the bounds of all points.
  [[nodiscard]] double bounded_first(bool groups) const {
    const double compared = s.k * (groups ? 0.6 + 0.024 * s.d : 0.095 + 0.0196 * s.d);
    return std::max(15 + compared, 10 + 0.5 * s.d);
  }

  /// What copies of the points take to make; the tree's, beyond those of brute force.
  [[nodiscard]] double brute_setup() const { return 2 * s.d; }
  [[nodiscard]] double tree_setup() const { return 120 + 22 * s.d; }
  [[nodiscard]] double bounded_setup() const { return 5 + 1.3 * s.d; }

  /// One thread's, for bounds of `points` points that follow the centroids: new layouts of these, their
  /// movement, and the points; and 10 us until all threads are at work again.
  [[nodiscard]] double look(std::int64_t points, double computed, bool groups) const {
    return 10000 + 5 * s.k * s.d + static_cast<double>(points) * bounded(computed, groups);
  }

  /// One thread's, for the groups that bounds begin with.
  [[nodiscard]] double grouping(bool groups) const {
    return groups ? 2.5 * s.k * s.d * std::log2(group_count()) : 0;
  }

  /// Of openmp_yinyang, with registers of 16 centroids.
  [[nodiscard]] double group_count() const { return std::clamp(s.k / 16, 2.0, 64.0); }

  Sizes s;
  bool pairs_known;
};

/// The family for points that nothing is known of.
inline std::string brute_family(const Shape& shape, const std::string& int8_instructions,
                                bool pairs_known = pairs_are_known()) {
  const FamilyCosts costs(shape, pairs_known);
  return costs.prefers_bytes(int8_instructions) ? "openmp_int8" : "openmp_exact";
}

/// With few coordinates boxes separate centroids whatever the points are, unless each centroid has few points.
inline bool surely_tree(const Shape& shape, const std::string& int8_instructions) {
  const FamilyCosts costs(shape);
  return shape.d <= 4 && costs.tree_of_few() < costs.brute(int8_instructions);
}

/// Does the tree of surely_tree() save more in so many iterations than it takes to set up?
inline bool tree_pays(const Shape& shape, const std::string& int8_instructions,
                      std::int64_t iterations) {
  const FamilyCosts costs(shape);
  const double saved = costs.brute(int8_instructions) - costs.tree_of_few();
  return static_cast<double>(iterations) * saved > costs.tree_setup();
}

/// Whether boxes do is to be seen from some of the points. Few points are not worth the look, and few
/// centroids not the boxes.
inline bool perhaps_tree(const Shape& shape) {
  return shape.d > 4 && shape.d <= 8 && shape.k > 8 && shape.n >= 4096;
}

/// What is seen in neighbourhoods is more than what the tree comes to: half to three quarters of it, as
/// boxes at their edges are larger, and the reach of its points is not known in a first iteration.
inline bool prefers_tree(const FamilyCosts& costs, double brute, double computed) {
  constexpr double kWorthASetup =
      2;  // nanoseconds: a hundred iterations that save so much pay for the setup
  return 1.1 * (costs.tree(0.5 * computed) + kWorthASetup) < brute;
}

/// Groups of centroids with bounds of their own pay for themselves where distances to all cost much.
inline bool prefers_groups(const Shape& shape) {
  return shape.d >= 32 && shape.k > 32 && shape.k >= 16384 / shape.d;
}

/// Points behind bounds next to the brute force, to see what bounds would save; none where they would be
/// few, or iterations short. So few that they take a small share of the time by one thread, while all wait;
/// where they are enough for several, these share them.
inline std::int64_t scouts(const Shape& shape, int threads) {
  const Sizes s = shape;
  const std::int64_t points = std::min<std::int64_t>(shape.n / (std::int64_t{128} * threads), 1024);
  const bool worth_while = shape.k >= 4 && shape.d > 8 && s.n * s.k * s.d > 2e6;
  return worth_while && points >= 32 ? points : 0;
}

/// When the sample is looked at: after two iterations in a row at least, since the first look brings its
/// bounds to date and the second counts what they leave; and so seldom that it takes a small share of the
/// time. Times are of the clock, by the model: all threads' for an iteration, one thread's for a look, which is
/// what several take at most.
class Looks {
 public:
  static constexpr double kShare = 0.03;  ///< Of the time of iterations, saved for looks.

  Looks() = default;
  /// `beginning`: what the first look costs once more.
  Looks(double iteration, double beginning) : iteration_(iteration), beginning_(beginning) {}

  /// What an iteration takes from now on.
  void takes(double iteration) { iteration_ = iteration; }

  /// Iterations until the next look, if it takes `both` to look twice; at least 1.
  [[nodiscard]] std::int64_t next(double both) const {
    if (in_a_row_ > 0) return 1;
    const double missing = beginning_ + both - saved_;
    constexpr double kMax = 1e9;
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(std::min(kMax, missing / (kShare * iteration_)))));
  }

  /// So many iterations are asked for at once: a third of what they will save is lent, since an early
  /// look serves more of them.
  void begin(std::int64_t iterations) {
    const double lent = kShare * iteration_ * static_cast<double>(iterations) / 3;
    owed_ += lent;
    saved_ += lent;
  }

  void passed(std::int64_t iterations) {
    const double income = kShare * iteration_ * static_cast<double>(iterations);
    const double back = std::min(owed_, income / 3);
    owed_ -= back;
    saved_ += income - back;
  }

  /// After an iteration: is it followed by a look, that costs `one`, the next one too `both`?
  [[nodiscard]] bool due(double one, double both) {
    if (in_a_row_ == 1 || (in_a_row_ > 1 && saved_ >= one)) return true;
    in_a_row_ = 0;
    return saved_ >= beginning_ + both;
  }

  void looked(double cost) {
    saved_ -= cost + beginning_;
    beginning_ = 0;
    in_a_row_ += 1;
  }

  /// Has the last iteration been looked at, and the one before?
  [[nodiscard]] bool seen_twice() const { return in_a_row_ > 1; }
  [[nodiscard]] std::int64_t in_a_row() const { return in_a_row_; }

 private:
  double iteration_ = 1;
  double beginning_ = 0;
  double saved_ = 0;
  double owed_ = 0;
  std::int64_t in_a_row_ = 0;
};

/// Does another family pay, which begins with an iteration of cost `start` and goes on with `then`,
/// over one that costs `now`, if `left` iterations are to come? By a tenth, as costs are estimates.
inline bool change_pays(double now, double start, double then, std::int64_t left) {
  return static_cast<double>(left) * now > 1.1 * (start + static_cast<double>(left - 1) * then);
}

/// Do bounds? In their first iteration they save nothing: it alone is no reason to set them up, even where
/// the estimate of what it costs is low.
inline bool bounds_pay(double now, double start, double then, std::int64_t left) {
  return left > 1 && change_pays(now, start, then, left);
}

}  // namespace kmeans::openmp
