// SPDX-License-Identifier: Apache-2.0
//
// What k-means++ (docs/seeding.md, datasets/plus_plus.h) asks of all points at once: squared
// distances from the seeds, and the bars that darts are thrown at. Header-only. A backend that
// forms distances faster derives from SeedDistances (harness/support/faster_seeding.h), one with
// its own memory from SeedingBoard.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "harness/support/own_pages.h"
#include "harness/support/parallel.h"
#include "harness/support/points_elsewhere.h"
#include "harness/support/random.h"
#include "harness/support/ward_costs.h"

namespace kmeans {

/// What seeds are chosen from. All memory outlives the choice.
template <class T>
struct SeedingProblem {
  const T* points = nullptr;              ///< n x d, row-major, finite.
  std::int64_t n = 0;                     ///< Of a rank's part it may be 0.
  std::int64_t d = 0;                     ///< At least 1.
  const std::int64_t* weights = nullptr;  ///< n, each at least 0; null: all are 1.
  T max_abs = 0;                          ///< Largest |coordinate|.
  int threads = 1;
  bool gpu = false;  ///< Choose on the GPU in use, if it takes the points.
  /// Null: `points` can be read. Else they are for boards that know by them whose points are meant.
  const PointsElsewhere<T>* elsewhere = nullptr;
};

/// These rows, one after the other.
template <class T>
std::vector<T> rows_at(const SeedingProblem<T>& problem, const std::vector<std::int64_t>& rows) {
  std::vector<T> all(rows.size() * static_cast<std::size_t>(problem.d));
  if (problem.elsewhere != nullptr) {
    problem.elsewhere->copy_rows(rows, 0, problem.d, all.data());
    return all;
  }
  T* to = all.data();
  for (const auto row : rows) to = std::copy_n(problem.points + row * problem.d, problem.d, to);
  return all;
}

template <class T>
std::int64_t weight_of(const SeedingProblem<T>& problem, std::int64_t i) {
  return problem.weights == nullptr ? 1 : problem.weights[i];
}

/// Of all points, at most 2^53.
template <class T>
std::uint64_t total_weight(const SeedingProblem<T>& problem) {
  if (problem.weights == nullptr) return problem.n;
  const auto all = std::accumulate(problem.weights, problem.weights + problem.n, std::int64_t{0});
  return static_cast<std::uint64_t>(all);
}

/// Where a dart has come down.
template <class T>
struct Dart {
  std::int64_t row = 0;
  std::uint64_t height = 0;  ///< In one of its row's w equal bars.
  double stale = 0;          ///< The row's S.
  const T* point = nullptr;  ///< d; until the next darts are located.
};

/// Darts that are located, and thrown, together at most: what their number changes is time alone.
inline constexpr std::int64_t kDartsAtOnce = 1024;

/// floor(u * width / 2^128), u being the 128 bits of values 2 number and 2 number + 1 of a stream:
/// each place has its chance to within 2^-64 of it.
KMEANS_HOST_DEVICE constexpr std::uint64_t place_of_dart(std::uint64_t key, std::uint64_t number,
                                                         std::uint64_t width) {
  using Wide = unsigned __int128;
  const Wide high = static_cast<Wide>(bits_of_stream(key, 2 * number)) * width;
  const Wide low = static_cast<Wide>(bits_of_stream(key, 2 * number + 1)) * width;
  return static_cast<std::uint64_t>((high + (low >> 64)) >> 64);
}

/// How long a round goes on with the distances that it began with, by the number of seeds then. A
/// pass costs a look at all points, a dart one at the round's own seeds; what was hit often is
/// missed often.
struct RoundLimits {
  std::int64_t hits;
  std::int64_t misses;

  constexpr RoundLimits(std::int64_t seeds, std::int64_t k)
      : hits(std::min(k - seeds, std::max<std::int64_t>(3 * seeds, 15))),
        misses(std::max<std::int64_t>(2 * seeds, 32)) {}
};

/// 2^s with a sum of bars below 2^62: `largest` times the weights' sum, both rounded up to powers
/// of two. weight_bits: std::bit_width(weights' sum - 1).
KMEANS_HOST_DEVICE inline double bar_scale(double largest, int weight_bits) {
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  const int places = 62 - weight_bits - exponent;
  return std::ldexp(1.0, places < 1000 ? places : 1000);
}

/// The cells of all seeds, each with points, on the board that has formed them.
template <class T>
class KeptCells {
 public:
  KeptCells() = default;
  virtual ~KeptCells() = default;
  KeptCells(const KeptCells&) = delete;
  KeptCells& operator=(const KeptCells&) = delete;

  /// As SeedingBoard::merges() of the cells' means and weights.
  virtual std::vector<Merge> merges(std::int64_t wanted, const std::function<void()>& between) = 0;
  /// k x d: the means of clusters of cells. numbers: of each cell its cluster's.
  virtual std::vector<T> centroids(const std::vector<std::int32_t>& numbers, std::int64_t k) = 0;
};

/// What the game of k-means++ is played on. S is a squared distance a point: from the nearest of
/// the seeds that there were at the last pass. Seeds added since are the recent ones.
template <class T>
class SeedingBoard {
 public:
  SeedingBoard() = default;
  virtual ~SeedingBoard() = default;
  SeedingBoard(const SeedingBoard&) = delete;
  SeedingBoard& operator=(const SeedingBoard&) = delete;

  /// A pass: S takes the recent seeds into account, which then are recent no more. At least one
  /// seed has been added. `between` is called now and then, and may throw. Returns the largest S of
  /// the points that have a weight. Before the first pass every S is 1.
  virtual double pass(const std::function<void()>& between) = 0;

  /// Before the first pass: passes are to know, too, which seed is the nearest.
  virtual void keep_nearest() = 0;

  /// From now on a row has w bars of floor(S * scale). Returns the sum of all bars, below 2^63.
  virtual std::uint64_t weigh(double scale) = 0;

  /// The darts at these positions of all bars laid end to end; each position < weigh().
  virtual std::vector<Dart<T>> locate(const std::vector<std::uint64_t>& positions) = 0;

  /// Throws these darts one after another, until so many have hit what is left of their bars, all
  /// seeds considered, or so many have missed. The row of a dart that hits is a seed at once.
  /// Returns for each dart that was thrown whether it hit.
  virtual std::vector<bool> throw_darts(const std::vector<Dart<T>>& darts, std::int64_t hits,
                                        std::int64_t misses) = 0;

  /// Only after keep_nearest(), and a pass since the last seed was added. `seeds`: all (count x d),
  /// in the order in which they were added. For each the points that are nearest to it, the lowest
  /// number on a tie: the sum of weight * r((coordinate - seed's) * scale) for each coordinate, r
  /// rounding to the nearest integer, and the sum of the weights. count x (d + 1); the caller sees
  /// to it that no sum leaves 63 bits.
  virtual std::vector<std::int64_t> cells(const T* seeds, std::int64_t count, double scale) = 0;

  /// cells() of the seeds in these rows, by a board that keeps them, and merges there; null if it cannot, or if a
  /// cell has no points.
  virtual std::unique_ptr<KeptCells<T>> keep_cells(const std::vector<std::int64_t>& /*rows*/,
                                                   double /*scale*/) {
    return nullptr;
  }

  /// The whole game at once, by a board that can: the rows of k seeds, or fewer, if no other point
  /// has a bar. `key`: of the darts' stream. Else the caller plays.
  virtual std::optional<std::vector<std::int64_t>> play(std::int64_t /*k*/, std::uint64_t /*key*/,
                                                        const std::function<void()>& /*between*/) {
    return {};
  }

  /// Merges of Ward's method (datasets/ward.h), the `wanted` lowest ones among them, in the order
  /// in which rounds make them, by a board that can.
  virtual std::optional<std::vector<Merge>> merges(const WeightedMeans& /*clusters*/,
                                                   std::int64_t /*wanted*/,
                                                   const std::function<void()>& /*between*/) {
    return {};
  }
};

/// Where boards share the points: for each, by the ends of their bars laid end to end, which of the
/// positions are on it.
inline std::vector<std::vector<std::size_t>> positions_by_board(
    const std::vector<std::uint64_t>& ends, const std::vector<std::uint64_t>& positions) {
  std::vector<std::vector<std::size_t>> of_board(ends.size());
  for (std::size_t t = 0; t < positions.size(); ++t) {
    const auto after = std::upper_bound(ends.begin(), ends.end(), positions[t]);
    of_board[after - ends.begin()].push_back(t);
  }
  return of_board;
}

/// The board of points in memory; how distances are formed is left to others.
template <class T>
class SeedDistances : public SeedingBoard<T> {
 public:
  explicit SeedDistances(const SeedingProblem<T>& problem)
      : problem_(problem), stale_(problem.n, 1.0), sums_((problem.n + kSlice - 1) / kSlice + 1) {}

  double pass(const std::function<void()>& between) final {
    const std::int64_t count = recent();
    double largest = 0;
    for (std::int64_t begin = 0; begin < count; begin += kAtOnce) {
      if (between) between();
      largest = lower_all(seeds_.data() + begin * problem_.d, std::min(kAtOnce, count - begin));
    }
    seeds_.clear();
    return largest;
  }

  void keep_nearest() final { nearest_.resize(problem_.n); }

  std::uint64_t weigh(double scale) final {
    scale_ = scale;
    for_blocks(problem_.n, worth(problem_.n),
               [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                 for (std::int64_t slice = begin; slice < end; slice += kSlice) {
                   std::uint64_t sum = 0;
                   const std::int64_t last = std::min(end, slice + kSlice);
                   for (std::int64_t i = slice; i < last; ++i) sum += weight(i) * bar(stale_[i]);
                   sums_[slice / kSlice + 1] = sum;
                 }
               });
    sums_[0] = 0;
    for (std::size_t slice = 1; slice < sums_.size(); ++slice) sums_[slice] += sums_[slice - 1];
    return sums_.back();
  }

  std::vector<Dart<T>> locate(const std::vector<std::uint64_t>& positions) final {
    constexpr std::int64_t kEach = 128;
    const auto count = static_cast<std::int64_t>(positions.size());
    std::vector<Dart<T>> darts(positions.size());
    for_each_part((count + kEach - 1) / kEach, worth(count * kSlice / 2), [&](std::int64_t part) {
      const std::int64_t end = std::min(count, (part + 1) * kEach);
      for (std::int64_t t = part * kEach; t < end; ++t) darts[t] = locate(positions[t]);
    });
    return darts;
  }

  std::vector<bool> throw_darts(const std::vector<Dart<T>>& darts, std::int64_t hits,
                                std::int64_t misses) final {
    std::vector<bool> thrown;
    for (const Dart<T>& dart : darts) {
      if (hits == 0 || misses == 0) break;
      const bool hit = dart.height < bar(std::min(dart.stale, from_recent(dart.point)));
      thrown.push_back(hit);
      --(hit ? hits : misses);
      if (!hit) continue;
      seeds_.insert(seeds_.end(), dart.point, dart.point + problem_.d);
      added(dart.point);
    }
    return thrown;
  }

  std::vector<std::int64_t> cells(const T* seeds, std::int64_t count, double scale) final {
    const std::int64_t d = problem_.d;
    const std::int64_t length = count * (d + 1);
    constexpr std::int64_t kMostBytes = 128 << 20;
    const auto parts = static_cast<int>(
        std::clamp<std::int64_t>(kMostBytes / (8 * length), 1, worth(problem_.n * (d + 1))));
    std::vector<std::vector<std::int64_t>> sums(parts);
    for_each_part(parts, parts, [&](std::int64_t p) {
      sums[p].resize(length);
      const std::int64_t end = problem_.n * (p + 1) / parts;
      for (std::int64_t i = problem_.n * p / parts; i < end; ++i) {
        const std::int64_t weight = weight_of(problem_, i);
        if (weight == 0) continue;
        std::int64_t* sum = sums[p].data() + nearest_[i] * (d + 1);
        const T* point = row(i);
        const T* seed = seeds + nearest_[i] * d;
        for (std::int64_t t = 0; t < d; ++t) {
          const double difference = static_cast<double>(point[t]) - static_cast<double>(seed[t]);
          sum[t] += weight * static_cast<std::int64_t>(std::nearbyint(difference * scale));
        }
        sum[d] += weight;
      }
    });
    for (int p = 1; p < parts; ++p) {
      for (std::int64_t v = 0; v < length; ++v) sums[0][v] += sums[p][v];
    }
    return std::move(sums[0]);
  }

 protected:
  /// Before lower() is called, on many threads, for all points: these are the seeds (count x d).
  virtual void begin_pass(const T* /*seeds*/, std::int64_t /*count*/) {}

  /// A range of at most kBlock points: offers each its nearest of these seeds, unless that is no
  /// nearer than S.
  virtual void lower(const T* seeds, std::int64_t count, std::int64_t begin, std::int64_t end) = 0;

  /// Of seed `number` of those of lower(); of several at one distance the lowest first.
  void offer(std::int64_t i, double squared, std::int64_t number) {
    if (!(squared < stale_[i])) return;
    stale_[i] = squared;
    if (!nearest_.empty()) nearest_[i] = static_cast<std::int32_t>(passed_ + number);
  }

  /// A recent seed more.
  virtual void added(const T* /*seed*/) {}

  /// The squared distance of a point from the nearest recent seed; infinite if there is none.
  [[nodiscard]] virtual double from_recent(const T* point) const = 0;

  [[nodiscard]] const T* row(std::int64_t i) const { return problem_.points + i * problem_.d; }
  [[nodiscard]] std::int64_t recent() const {
    return static_cast<std::int64_t>(seeds_.size()) / problem_.d;
  }

  SeedingProblem<T> problem_;
  LargeVector<double> stale_;  // S
  std::vector<T> seeds_;       // the recent ones, row-major

 private:
  static constexpr std::int64_t kSlice = 256;   // points that share a sum; kBlock is a multiple
  static constexpr std::int64_t kAtOnce = 512;  // seeds that a cache holds

  [[nodiscard]] Dart<T> locate(std::uint64_t position) const {
    const auto after = std::upper_bound(sums_.begin(), sums_.end(), position);
    const auto slice = static_cast<std::int64_t>(after - sums_.begin()) - 1;
    position -= sums_[slice];
    for (std::int64_t i = slice * kSlice;; ++i) {
      const std::uint64_t height = bar(stale_[i]);
      const std::uint64_t all = weight(i) * height;
      if (position < all) return {i, position % height, stale_[i], row(i)};
      position -= all;
    }
  }

  /// Threads for so many numbers to look at, each of them for a nanosecond or so.
  [[nodiscard]] int worth(std::int64_t numbers) const {
    return worth_threads(static_cast<double>(numbers), 1 << 15, problem_.threads);
  }

  [[nodiscard]] std::uint64_t weight(std::int64_t i) const {
    return static_cast<std::uint64_t>(weight_of(problem_, i));
  }

  [[nodiscard]] std::uint64_t bar(double squared) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(squared * scale_));
  }

  double lower_all(const T* seeds, std::int64_t count) {
    begin_pass(seeds, count);
    std::vector<double> largest(block_count(problem_.n));
    const bool first = passed_ == 0;
    for_blocks(problem_.n, worth(problem_.n * (1 + problem_.d * count / 4)),
               [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                 if (first) {
                   std::fill(stale_.begin() + begin, stale_.begin() + end,
                             std::numeric_limits<double>::infinity());
                 }
                 lower(seeds, count, begin, end);
                 double most = 0;
                 for (std::int64_t i = begin; i < end; ++i) {
                   if (weight(i) > 0) most = std::max(most, stale_[i]);
                 }
                 largest[block] = most;
               });
    passed_ += count;
    return largest.empty() ? 0 : *std::max_element(largest.begin(), largest.end());
  }

  std::vector<std::uint64_t> sums_;  // of the bars before each slice
  double scale_ = 1;
  std::int64_t passed_ = 0;  // seeds that passes have taken into account
  // After keep_nearest(): of each point's nearest seed the number, in the order in which they were
  // added.
  LargeVector<std::int32_t> nearest_;
};

/// On float32 points.
using SeedDistancesFactory =
    std::unique_ptr<SeedDistances<float>> (*)(const SeedingProblem<float>& problem);

}  // namespace kmeans
