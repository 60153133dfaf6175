// SPDX-License-Identifier: Apache-2.0
//
// All centroids as bytes, in groups of words x kInt8Group whose centroids have one step and one
// bound: ordered by step, so that they lose little by that. Brought to date in every iteration, in three
// stages of a part for each thread, between which threads meet: measure, rank, pack; and where many
// points pay for it a fourth, bring_closer. The order does not depend on their number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_int8_differences.h"
#include "implementations/openmp/_int8_points.h"

namespace kmeans::openmp {

class Int8Centroids {
 public:
  Int8Centroids() = default;
  Int8Centroids(std::int64_t k, std::int64_t d, double radius, int threads, const Int8Bytes& bytes,
                bool with_tiles, bool with_differences)
      : bytes_(bytes),
        k_(k),
        d_(d),
        words_(round_up(d, 4) / 4),
        radius_(radius),
        steps_(k),
        norms_(k),
        by_step_(k),
        runs_(threads),
        ranks_(k),
        order_(round_up(k, kInt8Group)),
        values_(most_groups() * words_ * kInt8Group),
        terms_(most_groups()),
        tiling_(Int8Tiling::of(words_)),
        rows_(Int8Points::has_rows(d) ? Int16Centroids(k, d) : Int16Centroids()),
        with_differences_(with_differences),
        differences_(with_differences ? Int8Differences(k, d) : Int8Differences()) {
    for (std::int64_t g = 0; g < most_groups(); ++g) terms_[g].count = 0;
    if (with_tiles)
      tiles_.assign(round_up(most_groups(), 2) / 2 * tiling_.steps * kInt8TileWords, 0);
  }

  std::int64_t most_groups() const { return round_up(k_, kInt8Group) / kInt8Group; }
  std::int64_t groups() const { return round_up(included_, kInt8Group) / kInt8Group; }

  /// Do the groups hold every centroid that may be nearest to a point? One that is far away is left
  /// out, since it is farther than any that lies among the points; if there is none, nothing is known.
  bool usable() const { return any_near_ || included_ == k_; }

  void give_to(Int8Task& task) const {
    task.centroids = values_.data();
    task.groups = terms_.data();
    task.group_count = groups();
    task.order = order_.data();
    task.tiles = tiles_.data();
    task.tiling = tiling_;
  }
  const Int8Tiling& tiling() const { return tiling_; }
  /// All of them as rows, in the order of their indices, where points have rows.
  const Int16Centroids& rows() const { return rows_; }

  /// A thread's part of the centroids, ordered among themselves. `changes`: since they were measured last.
  void measure(int thread, const float* centroids, const Frame<float>& frame, Range clusters,
               const Changes& changes = {}) {
    std::vector<double> centroid(d_);
    Run run{{clusters.begin, clusters.begin}, false};
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      if (changes.of(j)) measure_one(j, centroids + j * d_, frame, centroid.data());
      run.any_near = run.any_near || norms_[j] <= radius_;
      if (norms_[j] <= kInt8Far * radius_) {
        by_step_[run.places.end++] = static_cast<std::int32_t>(j);
      }
    }
    std::sort(by_step_.begin() + run.places.begin, by_step_.begin() + run.places.end,
              [this](std::int32_t i, std::int32_t j) { return comes_first(i, j); });
    runs_[thread].value = run;
  }

  /// The ranks among all of those that this thread measured: each run is merged with its own.
  void rank(int thread, int threads) {
    const Range own = runs_[thread].value.places;
    std::fill(ranks_.begin() + own.begin, ranks_.begin() + own.end, 0);
    for (int other = 0; other < threads; ++other) {
      const Range run = runs_[other].value.places;
      std::int64_t before = run.begin;
      for (std::int64_t i = own.begin; i < own.end; ++i) {
        while (before < run.end && comes_first(by_step_[before], by_step_[i])) ++before;
        ranks_[i] += static_cast<std::int32_t>(before - run.begin);
      }
    }
  }

  /// Meanwhile, by one thread: how many there are.
  void count(int threads) {
    included_ = 0;
    any_near_ = false;
    for (int thread = 0; thread < threads; ++thread) {
      const Run& run = runs_[thread].value;
      included_ += run.places.end - run.places.begin;
      any_near_ = any_near_ || run.any_near;
    }
    // Groups beyond are packed when they are needed again.
    for (std::int64_t g = groups(); g < most_groups(); ++g) terms_[g].count = 0;
  }

  /// `changes`: since they were packed last. A group of the same centroids as then, none of which changed, is right.
  void pack(int threads, const float* centroids, const Frame<float>& frame, Range groups,
            const Changes& changes = {}) {
    std::vector<double> centroid(d_);
    const std::vector<std::int32_t> before(order_.begin() + groups.begin * kInt8Group,
                                           order_.begin() + groups.end * kInt8Group);
    list(threads, groups);
    for (std::int64_t g = groups.begin; g < groups.end; ++g) {
      const auto count =
          static_cast<std::int32_t>(std::min<std::int64_t>(kInt8Group, included_ - g * kInt8Group));
      const std::int32_t* const members = order_.data() + g * kInt8Group;
      if (terms_[g].count == count && !with_differences_ &&
          std::equal(members, members + count, before.begin() + (g - groups.begin) * kInt8Group) &&
          std::none_of(members, members + count, [&](std::int32_t j) { return changes.of(j); })) {
        continue;
      }
      std::uint32_t* words = values_.data() + g * words_ * kInt8Group;
      std::fill_n(words, words_ * kInt8Group, 0);
      Int8GroupTerms& group = terms_[g];
      group = {};
      group.count = count;
      const double largest = steps_[order_[g * kInt8Group + group.count - 1]];
      group.step = static_cast<float>(largest * 1.0000002);  // not below the float64 step
      for (int c = 0; c < group.count; ++c) {
        to_frame(centroids + order_[g * kInt8Group + c] * d_, frame, d_, centroid.data());
        quantise_centroid(centroid.data(), d_, c, words, group, {}, bytes_);
        if (with_differences_) differences_.put(g, c, centroid.data(), group, words);
      }
      for (int c = group.count; c < kInt8Group; ++c) pad_centroid(c, group);
      if (!tiles_.empty()) copy_to_tiles(words, words_, tiling_, g, tiles_.data());
    }
  }

  /// Is there a last stage, when all threads have packed: bring_closer()?
  [[nodiscard]] bool with_differences() const { return with_differences_; }
  void bring_closer(Range groups_of_thread) {
    differences_.bring_closer(terms_.data(), groups(), groups_of_thread);
  }

  static double bytes(const Sizes& s) {
    return (s.k + 2 * kInt8Group) * (s.d + 3 + 52 + s.d + 63) + Int16Centroids::bytes(s.k, s.d) +
           Int8Differences::bytes(s);
  }

 private:
  /// What a thread has measured.
  struct Run {
    Range places;  // of by_step_
    bool any_near = false;
  };

  void measure_one(std::int64_t j, const float* given, const Frame<float>& frame,
                   double* centroid) {
    to_frame(given, frame, d_, centroid);
    const Int8Extent extent = extent_of(centroid, d_);
    steps_[j] = int8_step(extent, d_, least_centroid_step(radius_));
    norms_[j] = extent.norm;
    if (!Int8Points::has_rows(d_)) return;
    quantise_int16_centroid(centroid, d_, extent.norm, radius_, rows_.row(j), rows_.terms(j));
  }

  bool comes_first(std::int32_t i, std::int32_t j) const {
    return steps_[i] < steps_[j] || (steps_[i] == steps_[j] && i < j);
  }

  /// The centroids of some groups. A thread looks for those of its own, as lines of memory into which all
  /// write would go to and fro.
  void list(int threads, Range groups) {
    const Range wanted{groups.begin * kInt8Group, groups.end * kInt8Group};
    for (int thread = 0; thread < threads; ++thread) {
      const Range run = runs_[thread].value.places;
      for (std::int64_t i = run.begin; i < run.end; ++i) {
        if (wanted.begin <= ranks_[i] && ranks_[i] < wanted.end) order_[ranks_[i]] = by_step_[i];
      }
    }
  }

  Int8Bytes bytes_ = kInt8Unsigned;  // of points
  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  std::int64_t words_ = 0;
  double radius_ = 1;
  std::vector<double> steps_;          // k
  std::vector<double> norms_;          // k
  std::vector<std::int32_t> by_step_;  // of those that are not left out, each run in order
  std::vector<Padded<Run>> runs_;
  std::vector<std::int32_t> ranks_;  // of by_step_, among those of all runs
  std::vector<std::int32_t> order_;  // by rank
  std::int64_t included_ = 0;
  bool any_near_ = false;
  AlignedArray<std::uint32_t> values_;
  AlignedArray<Int8GroupTerms> terms_;
  Int8Tiling tiling_;
  Int16Centroids rows_;
  bool with_differences_ = false;
  Int8Differences differences_;
  KeptVector<std::uint32_t> tiles_;  // the values once more, where the filter has tiles
};

}  // namespace kmeans::openmp
