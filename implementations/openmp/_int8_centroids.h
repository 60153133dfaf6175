// SPDX-License-Identifier: Apache-2.0
//
// All centroids as bytes, in groups of words x kInt8Group whose centroids have one step and one
// bound: ordered by step, so that they lose little by that. Made anew in every iteration, in three
// stages between which threads meet: measure (a part each), arrange (one thread), pack (a part each).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "implementations/openmp/_int8_points.h"

namespace kmeans::openmp {

class Int8Centroids {
 public:
  Int8Centroids() = default;
  Int8Centroids(std::int64_t k, std::int64_t d, double radius, int most, bool with_tiles)
      : most_(most),
        k_(k),
        d_(d),
        words_(round_up(d, 4) / 4),
        radius_(radius),
        steps_(k),
        norms_(k),
        values_(most_groups() * words_ * kInt8Group),
        terms_(most_groups()),
        tiling_(Int8Tiling::of(words_)),
        rows_(Int8Points::has_rows(d) ? Int16Centroids(k, d) : Int16Centroids()) {
    order_.reserve(k);
    if (with_tiles)
      tiles_.assign(round_up(most_groups(), 2) / 2 * tiling_.steps * kInt8TileWords, 0);
  }

  std::int64_t most_groups() const { return round_up(k_, kInt8Group) / kInt8Group; }
  std::int64_t groups() const { return groups_; }

  /// Do the groups hold every centroid that may be nearest to a point? One that is far away is left
  /// out, since it is farther than any that lies among the points; if there is none, nothing is known.
  bool usable() const { return any_near_ || order_.size() == steps_.size(); }

  void tell(Int8Task& task) const {
    task.centroids = values_.data();
    task.groups = terms_.data();
    task.group_count = groups_;
    task.order = order_.data();
    task.tiles = tiles_.data();
    task.tiling = tiling_;
  }
  const Int8Tiling& tiling() const { return tiling_; }
  /// All of them as rows, in the order of their indices, where points have rows.
  const Int16Centroids& rows() const { return rows_; }

  void measure(const float* centroids, const Frame<float>& frame, Range clusters) {
    std::vector<double> centroid(d_);
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      to_frame(centroids + j * d_, frame, d_, centroid.data());
      const Int8Extent extent = extent_of(centroid.data(), d_);
      steps_[j] = int8_step(extent, d_, least_centroid_step(radius_));
      norms_[j] = extent.norm;
      if (!Int8Points::has_rows(d_)) continue;
      quantise_int16_centroid(centroid.data(), d_, extent.norm, radius_, rows_.row(j),
                              rows_.terms(j));
    }
  }

  void arrange() {
    order_.clear();
    any_near_ = false;
    for (std::int64_t j = 0; j < k_; ++j) {
      any_near_ = any_near_ || norms_[j] <= radius_;
      if (norms_[j] <= kInt8Far * radius_) order_.push_back(static_cast<std::int32_t>(j));
    }
    std::sort(order_.begin(), order_.end(), [this](std::int32_t i, std::int32_t j) {
      return steps_[i] < steps_[j] || (steps_[i] == steps_[j] && i < j);
    });
    groups_ = round_up(static_cast<std::int64_t>(order_.size()), kInt8Group) / kInt8Group;
  }

  void pack(const float* centroids, const Frame<float>& frame, Range groups) {
    std::vector<double> centroid(d_);
    const auto included = static_cast<std::int64_t>(order_.size());
    for (std::int64_t g = groups.begin; g < groups.end; ++g) {
      std::uint32_t* words = values_.data() + g * words_ * kInt8Group;
      std::fill_n(words, words_ * kInt8Group, 0);
      Int8GroupTerms& group = terms_[g];
      group = {};
      group.count =
          static_cast<std::int32_t>(std::min<std::int64_t>(kInt8Group, included - g * kInt8Group));
      const double largest = steps_[order_[g * kInt8Group + group.count - 1]];
      group.step = static_cast<float>(largest * 1.0000002);  // not below the float64 step
      for (int c = 0; c < group.count; ++c) {
        to_frame(centroids + order_[g * kInt8Group + c] * d_, frame, d_, centroid.data());
        quantise_centroid(centroid.data(), d_, c, words, group, {}, most_);
      }
      for (int c = group.count; c < kInt8Group; ++c) pad_centroid(c, group);
      if (!tiles_.empty()) copy_to_tiles(words, words_, tiling_, g, tiles_.data());
    }
  }

  static double bytes(const Sizes& s) {
    return (s.k + 2 * kInt8Group) * (s.d + 3 + 44 + s.d + 63) + Int16Centroids::bytes(s.k, s.d);
  }

 private:
  int most_ = kInt8Most;  // of a point's byte
  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  std::int64_t words_ = 0;
  double radius_ = 1;
  std::int64_t groups_ = 0;
  bool any_near_ = false;
  std::vector<double> steps_;
  std::vector<double> norms_;
  std::vector<std::int32_t> order_;  // of the centroids that are not left out, by step
  AlignedArray<std::uint32_t> values_;
  AlignedArray<Int8GroupTerms> terms_;
  Int8Tiling tiling_;
  Int16Centroids rows_;
  std::vector<std::uint32_t> tiles_;  // the values once more, where the filter has tiles
};

}  // namespace kmeans::openmp
