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

/// A run of which nothing is known is expected to have as many; the library expects the same (kUntilSettled).
inline constexpr std::int64_t kExpectedIterations = 50;
/// `iterations` is 0 if they are not known.
inline std::int64_t iterations_or(std::int64_t iterations, std::int64_t expected) {
  return iterations > 0 ? iterations : expected;
}

/// Bytes do not pay where they leave a larger share of the points open.
inline constexpr double kMostOpen = 0.6;

/// Brute force of one of many threads takes longer: some share a core, whose multipliers it keeps busy, and all share
/// memory and clock. Boxes and bounds wait for data most of the time, and lose little. Sixteen of a Xeon's threads.
inline double crowded(int threads) { return 1 + 0.3 * std::clamp((threads - 2) / 14.0, 0.0, 1.0); }
/// But boxes of up to four coordinates lose twice as much, on the same machine.
inline double crowded_tree(int threads) { return 2 * crowded(threads) - 1; }

struct FamilyCosts {
  explicit FamilyCosts(const Shape& shape, int with_threads = 2,
                       bool knows_pairs = pairs_are_known())
      : s(shape), threads(with_threads), pairs_known(knows_pairs) {}

  /// openmp_exact: a multiply-add a coordinate, an epilogue a pair, points that change clusters.
  [[nodiscard]] double exact() const { return exact_pass() + 0.2 * s.d + 1.5; }
  [[nodiscard]] double exact_pass() const { return s.k * (0.0175 * s.d + 0.07); }

  /// openmp_int8, by the instructions that it has: with VNNI a quarter of the multiply-adds, with tiles an
  /// eighth; then what bytes leave open, a share of the points; and more barriers, 4 us for each thread.
  [[nodiscard]] double int8(const std::string& instructions, double open) const {
    return int8_pass(instructions) + 0.2 * s.d + std::min(22.0, 8 + s.k) + open * (0.5 * s.d + 35);
  }
  [[nodiscard]] double int8_pass(const std::string& instructions) const {
    const double product = instructions == "amx"    ? 0.0022
                           : instructions == "avx2" ? 0.0075
                                                    : 0.0044;
    return s.k * (product * s.d + 0.1) + 4000.0 * threads / s.n;
  }
  /// What bytes leave open after some iterations; from centroids that are points it is twice as much. Between few
  /// centroids in many dimensions it is nearly all, and openmp_exact's filter takes over.
  [[nodiscard]] double usual_open() const { return s.k < 16 && s.d >= 64 ? kMostOpen : 0.15; }

  /// Are bytes faster than float32 with these? Plain vectors and emulated instructions are slower; NEON was not timed.
  static bool is_fast(const std::string& instructions) {
    return instructions.starts_with("avx") || instructions == "amx";
  }

  /// Do bytes save, in so many iterations, what they take to set up beyond float32? By a fifth, as costs are estimates.
  [[nodiscard]] bool bytes_pay(const std::string& instructions, double open,
                               std::int64_t iterations) const {
    if (instructions == "avx2") return prefers_pairs();
    if (!is_fast(instructions) || open >= kMostOpen) return false;
    const double saved = exact() - int8(instructions, open);
    return static_cast<double>(iterations) * saved > 1.2 * int8_start();
  }
  [[nodiscard]] double int8_start() const {
    return 90 + 1.6 * crowded(threads) * s.d + 200 * s.k * threads / s.n;
  }

  /// By shape alone, for as many iterations as a run may have that stops by itself.
  [[nodiscard]] bool prefers_bytes(const std::string& instructions) const {
    return bytes_pay(instructions, usual_open(), kExpectedIterations);
  }
  /// One thread's, for `points` points in bytes and one iteration of theirs.
  [[nodiscard]] double bytes_look(const std::string& instructions, double points) const {
    return 60000 + s.k * (200 + 2 * s.d) + points * (4 * s.d + 100 + 2 * int8(instructions, 1));
  }
  /// Does it depend on what bytes leave open?
  [[nodiscard]] bool bytes_may_pay(const std::string& instructions, std::int64_t iterations) const {
    return instructions != "avx2" && bytes_pay(instructions, 0, iterations) &&
           !bytes_pay(instructions, 0.9 * kMostOpen, iterations);
  }

  /// The same of pairs of bytes, by nanoseconds of a Zen 3: seven bits leave more open than eight.
  [[nodiscard]] bool prefers_pairs() const {
    if (!pairs_known) return false;
    const double pairs = s.k * (0.015 * s.d + 0.3) + 0.95 * s.d + 70 + 20000 / s.n;
    return pairs < 0.95 * (s.k * (0.044 * s.d + 0.1) + 0.3 * s.d);
  }

  /// Of openmp_int8, whose bytes leave so much open, or of openmp_exact.
  [[nodiscard]] double brute(bool bytes, const std::string& instructions, double open) const {
    return bytes ? std::min(int8(instructions, open), 1.05 * exact()) : exact();
  }
  /// Of the family that prefers_bytes() says.
  [[nodiscard]] double brute(const std::string& instructions) const {
    return brute(prefers_bytes(instructions), instructions, usual_open());
  }

  /// Rows of a share of the points, in float32, which are at hand already where a cache holds them.
  [[nodiscard]] double rows(double share) const {
    constexpr double kCache = 0x1p24;  // bytes
    return share * s.d * (4 * s.n * s.d * share > kCache ? 0.17 : 0.03);
  }

  /// The same when hardly a point changes clusters any more, since those that do cost every family the
  /// same. Of the points, bytes left the share `open` to be looked at again; of more than half they are
  /// paused before long. Without instructions: float32.
  [[nodiscard]] double settled(const std::string& instructions, double open) const {
    const double by_exact = exact_pass() + 1 + rows(1);
    const bool bytes = instructions == "avx2" ? prefers_pairs() : is_fast(instructions);
    if (!bytes) return by_exact;
    const double of_open = open * (0.5 * s.d + 35);
    return std::min(by_exact, int8_pass(instructions) + std::min(22.0, 4 + s.k / 6) + of_open);
  }

  /// openmp_tree; `computed` is the share of the distances that it forms. Tests of boxes go with them,
  /// and with the length of the lists near the root. Of 5 to 8 coordinates.
  [[nodiscard]] double tree(double computed) const {
    return 1.5 + std::min(0.02 * s.k, 6.0) + computed * s.k * 0.6;
  }

  /// That share, by the one that is seen in neighbourhoods in a first iteration. The latter is larger: so are boxes at
  /// their edges, and where centroids are many, the reach of points is not known yet.
  [[nodiscard]] double tree_share(double seen) const {
    const double many = std::clamp((s.k - 64) / 192, 0.0, 1.0);
    return seen * ((1 - many) * (0.5 + 0.5 * seen) + many * (0.25 + 0.45 * seen));
  }

  /// The same by shape alone, where points have no structure and coordinates are few: boxes that a border between
  /// clusters crosses, fewer the more points a cluster has. Of an AVX-512 Xeon.
  [[nodiscard]] double tree_of_few() const {
    const double clusters_a_point = s.k / std::max(s.n, 1.0);
    const double crossed = s.d < 4 ? 5.3 * std::pow(clusters_a_point, 0.75 / s.d)
                                   : 20 * std::pow(clusters_a_point, 0.3);
    return 1 + std::pow(s.k, 0.25) * crossed;
  }
  /// Of the threads, where it uses fewer if each had little to do; then what it waits longer than brute force at
  /// barriers.
  [[nodiscard]] double tree_of_team() const {
    const int used = tree_threads();
    const double barriers = 900.0 * (used - 1);
    const double points = crowded_tree(used) * tree_of_few() * s.n / used;
    return (points + barriers) * threads / std::max(s.n, 1.0);
  }
  /// Each gets several times as much work as its barriers cost.
  [[nodiscard]] int tree_threads() const {
    constexpr double kNanoseconds = 10000;  // of a thread's points
    const double worth = s.n * tree_of_few() / kNanoseconds;
    return static_cast<int>(std::clamp(worth, 1.0, static_cast<double>(threads)));
  }

  /// openmp_hamerly and openmp_yinyang: bounds follow their centroids; where they cross, a row is read
  /// and the point's own distance formed, and where they still cross those to others: to all, or to
  /// those of some groups, which costs more.
  [[nodiscard]] double bounded(double computed, bool groups) const {
    return bounded_point(computed, groups) + (20000 + 2 * s.k * s.d) / s.n;
  }
  /// When no label changes any more: no centroid moves, so only points are open that bounds cannot decide. A point that
  /// is not takes 1.2 ns; barriers take 1.5 us longer than brute force's.
  [[nodiscard]] double bounded_at_rest(double computed, bool groups) const {
    return bounded_point(computed, groups) - 3.8 + 1500.0 * threads / s.n;
  }
  /// Without what is done once an iteration for the centroids: new layouts, and their movement.
  [[nodiscard]] double bounded_point(double computed, bool groups) const {
    if (groups) {
      const double crossed = std::min(1.0, computed * s.k / 3);
      return 5 + crossed * (20 + 2.6 * group_count()) + 1.3 * rows(crossed) +
             computed * s.k * (1.8 + 0.031 * s.d);
    }
    return 5 + 17 * computed / (computed + 0.12) + 1.3 * rows(std::min(1.0, 4 * computed)) +
           computed * (22 + 0.13 * s.d + s.k * (0.124 + 0.0255 * s.d));
  }
  /// In their first iteration there are no bounds to follow. Where centroids are few, memory is waited for:
  /// points in float32, labels, and the bounds of all points.
  [[nodiscard]] double bounded_first(bool groups) const {
    const double compared = s.k * (groups ? 0.8 + 0.034 * s.d : 0.133 + 0.0274 * s.d);
    return std::max(25 + compared, 20 + 0.9 * s.d);
  }

  /// What copies of the points take to make; the tree's, beyond those of brute force.
  [[nodiscard]] double brute_setup() const { return 2 * s.d; }
  /// Some of its order is one thread's.
  [[nodiscard]] double tree_setup() const { return 90 + 25 * s.d + 30.0 * threads; }
  [[nodiscard]] double bounded_setup() const { return 5 + 1.3 * s.d; }

  /// One thread's, for bounds of `points` points that follow the centroids: new layouts of these, their
  /// movement, and the points; and 10 us until all threads are at work again.
  [[nodiscard]] double look(std::int64_t points, double computed, bool groups) const {
    return 10000 + 5 * s.k * s.d + static_cast<double>(points) * bounded_point(computed, groups);
  }

  /// One thread's, for centroids and sums that a family hands over to another.
  [[nodiscard]] double handing_over() const { return 3 * s.k * s.d; }

  /// One thread's, for the groups that bounds begin with.
  [[nodiscard]] double grouping(bool groups) const {
    return groups ? 1.3 * s.k * s.d * std::log2(group_count()) : 0;
  }

  /// Of openmp_yinyang, with registers of 16 centroids.
  [[nodiscard]] double group_count() const { return std::clamp(s.k / 16, 2.0, 64.0); }

  Sizes s;
  int threads;  ///< By default 2, for costs that do not depend on them.
  bool pairs_known;
};

/// The family for points that nothing is known of.
inline std::string brute_family(const Shape& shape, const std::string& int8_instructions,
                                std::int64_t iterations = kExpectedIterations, int threads = 2,
                                bool pairs_known = pairs_are_known()) {
  const FamilyCosts costs(shape, threads, pairs_known);
  const bool bytes = costs.bytes_pay(int8_instructions, costs.usual_open(), iterations);
  return bytes ? "openmp_int8" : "openmp_exact";
}

/// Is the problem too small for any other family than openmp_exact to pay?
inline bool is_tiny(const Sizes& s) { return s.n * s.k * s.d < 5000; }

/// With few coordinates boxes separate centroids whatever the points are, unless each centroid has few points.
inline bool surely_tree(const Shape& shape, const std::string& int8_instructions, int threads) {
  const FamilyCosts costs(shape, threads);
  return shape.d <= 4 && costs.tree_of_team() < crowded(threads) * costs.brute(int8_instructions);
}

/// What an iteration of the tree costs in the mean, of what one of the first does: later, fewer nodes change clusters.
inline double in_long_runs(std::int64_t iterations) {
  return 1 - 0.15 * std::clamp((static_cast<double>(iterations) - 50) / 150, 0.0, 1.0);
}

/// Does the tree of surely_tree() save more in so many iterations than it takes to set up? By a tenth, as costs are
/// estimates.
inline bool tree_pays(const Shape& shape, const std::string& int8_instructions, int threads,
                      std::int64_t iterations) {
  const FamilyCosts costs(shape, threads);
  const double brute = crowded(threads) * costs.brute(int8_instructions);
  const double saved = brute - 1.1 * in_long_runs(iterations) * costs.tree_of_team();
  return static_cast<double>(iterations) * saved > costs.tree_setup();
}

/// Whether boxes do is to be seen from some of the points. Few points are not worth the look, and few
/// centroids not the boxes.
inline bool perhaps_tree(const Shape& shape) {
  return shape.d > 4 && shape.d <= 8 && shape.k > 8 && shape.n >= 4096;
}

/// The same, within so many iterations: if boxes left nothing, would they pay for their order and for the look, which
/// takes every point's distances to some places and a small tree? brute: with many threads crowded().
inline bool boxes_may_pay(const FamilyCosts& costs, double brute, std::int64_t iterations) {
  const double look = 50 + 4e5 * costs.threads / costs.s.n;
  const double saved = static_cast<double>(iterations) * (brute - costs.tree(0));
  return saved > 1.2 * costs.tree_setup() + 3 * look;
}

/// Does the tree pay within so many iterations, if it forms the share `computed` of the distances? By a tenth again.
/// brute: as above.
inline bool prefers_tree(const FamilyCosts& costs, double brute, double computed,
                         std::int64_t iterations) {
  const double setup = costs.tree_setup() / static_cast<double>(iterations);
  return 1.1 * in_long_runs(iterations) * costs.tree(computed) + setup < brute;
}

/// Groups of centroids with bounds of their own pay for themselves where distances to all cost much.
inline bool prefers_groups(const Shape& shape) {
  return shape.d >= 32 && shape.k > 32 && shape.k >= 16384 / shape.d;
}

/// May bounds serve while points move, in so many iterations (0: nobody knows how many)? Not where these are too few to
/// pay for them, or hardly longer than what is done for the bounds of all points.
inline bool bounds_may_serve(const Shape& shape, std::int64_t iterations) {
  const Sizes s = shape;
  const double each = FamilyCosts(shape).exact();
  const std::int64_t fewest = shape.d > 8 || each > 60 ? 16 : 100;
  const bool in_question = iterations == 0 || iterations >= fewest;
  return in_question && shape.k >= 4 && (shape.d > 8 || each > 9) && s.n * s.k * s.d > 2e6;
}

/// The same once no label changes, wherever they may serve before. What they cost then is known, so only the smallest
/// problems are left out.
inline bool bounds_may_serve_at_rest(const Shape& shape, std::int64_t iterations) {
  const Sizes s = shape;
  constexpr std::int64_t kFewest = 16;
  return shape.k >= 4 && s.n * s.k * s.d > 2e4 && (iterations == 0 || iterations >= kFewest);
}

/// Points behind bounds next to the brute force, to see what bounds would save; none where they would be few, or
/// iterations short. Looks() lets them take but a small share of the time, though all threads wait where the points are
/// too few for several.
inline std::int64_t scouts(const Shape& shape, std::int64_t iterations) {
  if (!bounds_may_serve(shape, iterations)) return 0;
  const std::int64_t points = std::max(shape.n / 128, std::min<std::int64_t>(64, shape.n / 16));
  return points >= 32 ? std::min<std::int64_t>(points, 1024) : 0;
}

/// The share of distances that bounds come to leave, by the one that they left when the centroids had moved `moved`
/// times, at least once, since the bounds of points with small gaps were exact. The gap of a point is by how much its
/// nearest centroid is nearer than the next. At first only gaps below one movement are used up, later those of m
/// movements too, every m-th time. If all gaps are equally frequent, the share grows in the mean as the harmonic
/// numbers, until it reaches the widest gap. Twelve iterations are looked ahead: a change begins with exact bounds, and
/// movements become smaller.
inline double coming_share(double share, std::int64_t moved) {
  const auto harmonic = [](std::int64_t count) {
    double sum = 0;
    for (std::int64_t i = 1; i <= count; ++i) sum += 1.0 / static_cast<double>(i);
    return sum;
  };
  constexpr std::int64_t kAhead = 12;
  const double once = share / harmonic(std::clamp<std::int64_t>(moved, 1, kAhead));
  if (once <= 0 || once >= 1) return share;
  return std::max(share, std::min(once * harmonic(kAhead), once * (1 - std::log(once))));
}

/// When the sample is looked at: after two iterations in a row at least, since the first look brings its
/// bounds to date and the second counts what they leave; and so seldom that it takes a small share of the
/// time. Times are of the clock, by the model: all threads' for an iteration, one thread's for a look, which is
/// what several take at most.
class Looks {
 public:
  static constexpr double kShare = 0.02;  ///< Of the time of iterations, saved for looks.

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

  /// The next look is a first one again.
  void break_off() { in_a_row_ = 0; }

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

/// Another family begins with an iteration of cost `start` and goes on with `then`, in place of one that costs `now`;
/// `left` iterations are to come. By what share it is dearer, if it takes a tenth longer than estimated; below 0 it
/// pays.
inline double excess_of_change(double now, double start, double then, std::int64_t left) {
  constexpr double kSpare = 1.1;
  const double all = start + static_cast<double>(left - 1) * then;
  return kSpare * all / (static_cast<double>(left) * now) - 1;
}
inline bool change_pays(double now, double start, double then, std::int64_t left) {
  return left > 0 && excess_of_change(now, start, then, left) < 0;
}

/// Do bounds? In their first iteration they save nothing: it alone is no reason to set them up, even where
/// the estimate of what it costs is low.
inline bool bounds_pay(double now, double start, double then, std::int64_t left) {
  return left > 1 && change_pays(now, start, then, left);
}

}  // namespace kmeans::openmp
