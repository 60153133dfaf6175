// SPDX-License-Identifier: Apache-2.0
//
// Distances for k-means++ (docs/seeding.md), fast: the float32 filter of docs/openmp-bounds.md, with the seeds in
// the lanes, says for most points which of the new seeds is nearest, or that none comes nearer than one
// before; the float64 formula of the exact step then gives the squared distance. Points are read as they
// lie, so nothing is copied but what a thread looks at. Include only where -ffp-contract=off.
//
// Threads are those of harness/support/parallel.h, not OpenMP's: a fork may come before a choice of seeds.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/faster_seeding.h"
#include "harness/support/seed_distances.h"
#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_filter_bound.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_panels.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// Seeds that come one by one, in the lanes: the least of the exact step's squared distances to them.
class GrowingSeeds {
 public:
  explicit GrowingSeeds(std::int64_t d) : d_(d) {}

  void clear() {
    count_ = 0;
    values_.clear();
  }

  void add(const float* seed) {
    const std::int64_t lane = count_++ % kWidth;
    if (lane == 0) {
      values_.resize(values_.size() + d_ * kWidth, std::numeric_limits<double>::infinity());
    }
    double* out = values_.data() + values_.size() - d_ * kWidth + lane;
    for (std::int64_t t = 0; t < d_; ++t) out[t * kWidth] = seed[t];
  }

  [[nodiscard]] double least(const float* point) const {
    V best = L::set(std::numeric_limits<double>::infinity());
    const std::int64_t blocks = (count_ + kWidth - 1) / kWidth;
    std::int64_t block = 0;
    for (; block + kBlocks <= blocks; block += kBlocks) visit<kBlocks>(point, block, best);
    for (; block < blocks; ++block) visit<1>(point, block, best);
    alignas(64) std::array<double, kWidth> lanes;
    L::store(lanes.data(), best);
    return *std::min_element(lanes.begin(), lanes.end());
  }

 private:
  using L = Lanes<double>;
  using V = L::V;
  static constexpr int kWidth = L::kCount;
  static constexpr int kBlocks = 4;  // at once: the order of a sum is fixed, so it waits for itself

  template <int kCount>
  void visit(const float* point, std::int64_t first, V& best) const {
    V sums[kCount];
    squared_distances_of_blocks<kCount>(point, values_.data() + first * d_ * kWidth, d_, sums);
    unrolled<kCount>([&](auto b) __attribute__((always_inline)) { best = L::min(best, sums[b]); });
  }

  std::int64_t d_;
  std::int64_t count_ = 0;
  std::vector<double>
      values_;  // blocks of d x kWidth; lanes without a seed are infinitely far away
};

/// A point and the seed that may have come nearest to it.
struct NearSeed {
  std::int64_t row;
  std::int64_t seed;
};

/// Squared distances of kCount pairs by the exact step's formula: the sums, whose order is fixed, do not wait
/// for each other.
template <int kCount>
inline void squared_distances(const float* points, const float* seeds, const NearSeed* pairs,
                              std::int64_t d, double* out) {
  double sums[kCount] = {};
  for (std::int64_t t = 0; t < d; ++t) {
    unrolled<kCount>([&](auto p) __attribute__((always_inline)) {
      const double difference = static_cast<double>(points[pairs[p].row * d + t]) -
                                static_cast<double>(seeds[pairs[p].seed * d + t]);
      const double product = difference * difference;
      sums[p] = sums[p] + product;
    });
  }
  unrolled<kCount>([&](auto p) __attribute__((always_inline)) { out[p] = sums[p]; });
}

class FilteredSeedDistances final : public SeedDistances<float> {
 public:
  explicit FilteredSeedDistances(const SeedingProblem<float>& problem)
      : SeedDistances(problem), frame_(frame_of(problem)), growing_(problem.d) {}

 private:
  static constexpr int kPoints = Panels::kPoints;
  // Of so few seeds the formula itself takes no longer than the filter.
  static constexpr std::int64_t kFew = 2;

  /// About the mean of some points: the bound holds for every shift.
  static Frame<float> frame_of(const SeedingProblem<float>& problem) {
    constexpr std::int64_t kSample = 1024;
    const std::int64_t count = std::min(kSample, problem.n);
    std::vector<float> rows(count * problem.d);
    for (std::int64_t s = 0; s < count; ++s) {
      // n may be 2^40: no product of s and n.
      const std::int64_t i = problem.n / count * s + problem.n % count * s / count;
      std::copy_n(problem.points + i * problem.d, problem.d, rows.data() + s * problem.d);
    }
    Problem<float> sample;
    sample.shape = {count, problem.d, 1, Precision::f32};
    sample.points = rows.data();
    sample.max_abs = problem.max_abs;
    return Frame<float>(sample);
  }

  void begin_pass(const float* seeds, std::int64_t count) override {
    growing_.clear();
    if (count <= kFew) return;
    std::vector<std::int32_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    panels_ = Panels({all}, problem_.d);
    bound_ = FilterBound::of(problem_.d, panels_.pack(seeds, frame_, {0, panels_.panels()}));
    float64_seeds_ = Float64Centroids(count, problem_.d);
    float64_seeds_.pack(seeds, {0, float64_seeds_.blocks()});
  }

  void added(const float* seed) override { growing_.add(seed); }
  [[nodiscard]] double from_recent(const float* point) const override {
    return growing_.least(point);
  }

  void lower(const float* seeds, std::int64_t count, std::int64_t begin,
             std::int64_t end) override {
    std::vector<NearSeed> pairs;
    pairs.reserve(kBlock * (count <= kFew ? count : 1));
    if (count <= kFew) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::int64_t j = 0; j < count; ++j) pairs.push_back({i, j});
      }
    } else {
      AlignedArray<float> framed(kPoints * problem_.d);
      for (std::int64_t i = begin; i < end; i += kPoints) {
        filter(i, std::min<std::int64_t>(kPoints, end - i), framed.data(), pairs);
      }
    }
    lower_by(seeds, pairs);
  }

  /// Appends the points from `first` on to which one of the seeds may be nearer than all before.
  void filter(std::int64_t first, std::int64_t count, float* framed,
              std::vector<NearSeed>& pairs) const {
    const std::int64_t d = problem_.d;
    std::array<const float*, kPoints> points;
    std::array<double, kPoints> squares{};
    for (std::int64_t p = 0; p < kPoints; ++p) {
      if (p >= count) {  // what is looked at in place of a point
        points[p] = framed;
        continue;
      }
      float* y = framed + p * d;
      const float* x = row(first + p);
      frame_.apply(x, 0, d, y);
      squares[p] = sum_of_squares(y, d);
      points[p] = y;
    }
    std::array<GroupResult, kPoints> results;
    panels_.look(0, points, results);
    for (std::int64_t p = 0; p < count; ++p) {
      const GroupResult& result = results[p];
      const double length = std::sqrt(squares[p]);
      const double margin = bound_.a + (bound_.b + bound_.c * length) * length;
      // In the frame; a power of two changes no digit of S.
      const double before = stale_[first + p] * frame_.scale * frame_.scale;
      if (result.nearest + squares[p] - margin > before) continue;
      const bool decided = margin < static_cast<double>(result.second) - result.nearest;
      const std::int32_t label = decided ? result.label : float64_seeds_.nearest(row(first + p));
      pairs.push_back({first + p, label});
    }
  }

  static double sum_of_squares(const float* y, std::int64_t d) {
    std::array<double, 8> sums{};
    std::int64_t t = 0;
    for (; t + 8 <= d; t += 8) {
      for (std::int64_t lane = 0; lane < 8; ++lane) {
        sums[lane] += static_cast<double>(y[t + lane]) * static_cast<double>(y[t + lane]);
      }
    }
    for (; t < d; ++t) sums[0] += static_cast<double>(y[t]) * static_cast<double>(y[t]);
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  void lower_by(const float* seeds, const std::vector<NearSeed>& pairs) {
    constexpr int kPairs = 8;
    const auto count = static_cast<std::int64_t>(pairs.size());
    std::array<double, kPairs> distances;
    std::int64_t first = 0;
    for (; first + kPairs <= count; first += kPairs) {
      squared_distances<kPairs>(problem_.points, seeds, pairs.data() + first, problem_.d,
                                distances.data());
      for (int p = 0; p < kPairs; ++p) {
        offer(pairs[first + p].row, distances[p], pairs[first + p].seed);
      }
    }
    for (; first < count; ++first) {
      squared_distances<1>(problem_.points, seeds, pairs.data() + first, problem_.d,
                           distances.data());
      offer(pairs[first].row, distances[0], pairs[first].seed);
    }
  }

  Frame<float> frame_;
  Panels panels_;
  FilterBound bound_;
  Float64Centroids float64_seeds_;
  GrowingSeeds growing_;
};

/// Unnamed on purpose: compiled with different options.
namespace {

struct OwnRegisters;

inline FasterSeeding seeding() {
  return {.distances =
              [](const SeedingProblem<float>& problem) {
                return std::unique_ptr<SeedDistances<float>>(
                    std::make_unique<FilteredSeedDistances>(problem));
              },
          .merge_costs = BlockedMergeCosts<OwnRegisters>::make};
}

}  // namespace
}  // namespace kmeans::openmp
