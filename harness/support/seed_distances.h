// SPDX-License-Identifier: Apache-2.0
//
// What k-means++ (docs/seeding.md, datasets/plus_plus.h) asks of all points at once: squared distances from
// the seeds, and the bars that darts are thrown at. Header-only. A backend that forms distances faster
// derives from SeedDistances and says so to faster_seed_distances(); the bits are the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "harness/support/parallel.h"

namespace kmeans {

/// What seeds are chosen from. All memory outlives the choice.
template <class T>
struct SeedingProblem {
  const T* points = nullptr;              ///< n x d, row-major, finite.
  std::int64_t n = 0;                     ///< At least 1.
  std::int64_t d = 0;                     ///< At least 1.
  const std::int64_t* weights = nullptr;  ///< n, each at least 0; null: all are 1.
  T max_abs = 0;                          ///< Largest |coordinate|.
  int threads = 1;
};

/// Where a dart has come down.
struct Dart {
  std::int64_t row = 0;
  std::uint64_t height = 0;  ///< Below which the row's bar must still reach.
  double stale = 0;          ///< The row's S.
};

/// S, a squared distance a point: from the nearest of the seeds that there were at the last pass. Seeds
/// added since are the recent ones.
template <class T>
class SeedDistances {
 public:
  explicit SeedDistances(const SeedingProblem<T>& problem)
      : problem_(problem), stale_(problem.n, 1.0), sums_((problem.n + kSlice - 1) / kSlice + 1) {}
  virtual ~SeedDistances() = default;
  SeedDistances(const SeedDistances&) = delete;
  SeedDistances& operator=(const SeedDistances&) = delete;

  /// A pass: S takes the recent seeds into account, which then are recent no more. At least one seed has
  /// been added. `between` is called now and then, and may throw. Returns the largest S of the points
  /// that have a weight.
  double pass(const std::function<void()>& between) {
    const std::int64_t count = recent();
    double largest = 0;
    for (std::int64_t begin = 0; begin < count; begin += kAtOnce) {
      if (between) between();
      largest = lower_all(seeds_.data() + begin * problem_.d, std::min(kAtOnce, count - begin));
    }
    seeds_.clear();
    return largest;
  }

  /// From now on a row's bar is w * floor(S * scale) high. Returns the sum of all bars, which is below 2^63.
  std::uint64_t weigh(double scale) {
    scale_ = scale;
    for_blocks(problem_.n, problem_.threads,
               [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                 for (std::int64_t slice = begin; slice < end; slice += kSlice) {
                   std::uint64_t sum = 0;
                   const std::int64_t last = std::min(end, slice + kSlice);
                   for (std::int64_t i = slice; i < last; ++i) sum += bar(i, stale_[i]);
                   sums_[slice / kSlice + 1] = sum;
                 }
               });
    sums_[0] = 0;
    for (std::size_t slice = 1; slice < sums_.size(); ++slice) sums_[slice] += sums_[slice - 1];
    return sums_.back();
  }

  /// The dart at `position` of all bars laid end to end; position < weigh().
  [[nodiscard]] Dart locate(std::uint64_t position) const {
    const auto after = std::upper_bound(sums_.begin(), sums_.end(), position);
    const auto slice = static_cast<std::int64_t>(after - sums_.begin()) - 1;
    position -= sums_[slice];
    for (std::int64_t i = slice * kSlice;; ++i) {
      const std::uint64_t height = bar(i, stale_[i]);
      if (position < height) return {i, position, stale_[i]};
      position -= height;
    }
  }

  /// Does the dart hit what is left of its row's bar, all seeds considered?
  [[nodiscard]] bool hits(const Dart& dart) const {
    return dart.height < bar(dart.row, std::min(dart.stale, from_recent(row(dart.row))));
  }

  void add(std::int64_t row_of_seed) {
    const T* seed = row(row_of_seed);
    seeds_.insert(seeds_.end(), seed, seed + problem_.d);
    added(seed);
  }

 protected:
  /// Before lower() is called, on many threads, for all points: these are the seeds (count x d).
  virtual void begin_pass(const T* /*seeds*/, std::int64_t /*count*/) {}

  /// A range of at most kBlock points: S becomes the squared distance from the nearest of these seeds, where
  /// that is less.
  virtual void lower(const T* seeds, std::int64_t count, std::int64_t begin, std::int64_t end) = 0;

  /// A recent seed more.
  virtual void added(const T* /*seed*/) {}

  /// The squared distance of a point from the nearest recent seed; infinite if there is none.
  [[nodiscard]] virtual double from_recent(const T* point) const = 0;

  [[nodiscard]] const T* row(std::int64_t i) const { return problem_.points + i * problem_.d; }
  [[nodiscard]] std::int64_t recent() const {
    return static_cast<std::int64_t>(seeds_.size()) / problem_.d;
  }

  SeedingProblem<T> problem_;
  std::vector<double> stale_;  // S
  std::vector<T> seeds_;       // the recent ones, row-major

 private:
  static constexpr std::int64_t kSlice = 256;   // points that share a sum; kBlock is a multiple
  static constexpr std::int64_t kAtOnce = 512;  // seeds that a cache holds

  [[nodiscard]] std::uint64_t bar(std::int64_t i, double squared) const {
    const auto height = static_cast<std::uint64_t>(static_cast<std::int64_t>(squared * scale_));
    return problem_.weights == nullptr ? height
                                       : height * static_cast<std::uint64_t>(problem_.weights[i]);
  }

  double lower_all(const T* seeds, std::int64_t count) {
    begin_pass(seeds, count);
    std::vector<double> largest(block_count(problem_.n));
    const bool first = !passed_;
    for_blocks(problem_.n, problem_.threads,
               [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                 if (first) {
                   std::fill(stale_.begin() + begin, stale_.begin() + end,
                             std::numeric_limits<double>::infinity());
                 }
                 lower(seeds, count, begin, end);
                 double most = 0;
                 for (std::int64_t i = begin; i < end; ++i) {
                   if (problem_.weights != nullptr && problem_.weights[i] == 0) continue;
                   most = std::max(most, stale_[i]);
                 }
                 largest[block] = most;
               });
    passed_ = true;
    return *std::max_element(largest.begin(), largest.end());
  }

  std::vector<std::uint64_t> sums_;  // of the bars before each slice
  double scale_ = 1;
  bool passed_ = false;
};

/// Makes the fastest of this program, on float32 points.
using SeedDistancesFactory =
    std::unique_ptr<SeedDistances<float>> (*)(const SeedingProblem<float>& problem);

/// Set by a backend before main() begins; null: there is none but the plain one.
inline SeedDistancesFactory& faster_seed_distances() {
  static SeedDistancesFactory factory = nullptr;
  return factory;
}

}  // namespace kmeans
