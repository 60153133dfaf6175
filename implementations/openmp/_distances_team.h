// SPDX-License-Identifier: Apache-2.0
//
// What variants share that bound single distances, between a point and a centroid or between two centroids,
// from float32 differences. Include only where -ffp-contract=off.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "implementations/openmp/_bounds_team.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

struct DistancesMember : BoundsMember {
  std::vector<std::int32_t> open;  // centroids to look at, then those that may be the nearest
};

template <class Rules, class OwnMember>
class DistancesTeam : public BoundsTeam<OwnMember> {
 protected:
  using BoundsTeam<OwnMember>::problem_;
  using BoundsTeam<OwnMember>::team_;
  using BoundsTeam<OwnMember>::means_;
  using BoundsTeam<OwnMember>::norms_;
  using BoundsTeam<OwnMember>::centroid_rows_;
  using BoundsTeam<OwnMember>::float64_centroids_;

  static constexpr int kTogether = 4;        // centroids measured at once
  static constexpr float kEnough = 0x1p40F;  // what lies beyond CentroidRange::kFar is further
  static constexpr std::int64_t kMaxBetween = 4096;  // centroids whose distances are kept

  struct Best {
    float upper = std::numeric_limits<float>::infinity();
    std::int32_t label = 0;
  };

  void expect_distances() {
    rounding_ = static_cast<float>(problem_.shape.d + 8) * 0x1p-24F;
    centroid_norms_.resize(problem_.shape.k);
  }

  /// What rounding of coordinates can make of a distance between two of these norms.
  static float error_of(float norm, float other) {
    return (0x1p-22F * (norm + other) + 0x1p-50F) * Rules::kError;
  }
  [[nodiscard]] float upper_of(float squares, float error) const {
    return std::sqrt(squares) * (1 + rounding_) * Rules::kUp + error;
  }
  [[nodiscard]] float lower_of(float squares, float error) const {
    return std::min(kEnough, std::sqrt(squares) * (1 - rounding_) * Rules::kDown - error);
  }
  [[nodiscard]] bool is_far(std::int64_t j) const {
    return !(centroid_norms_[j] <= static_cast<float>(CentroidRange::kFar));
  }

  /// A centroid that is far is known to lose only against one that is near.
  [[nodiscard]] bool comparable() const {
    const CentroidRange seen = this->seen_.all();
    return (seen.any_near || !seen.any_far) && rounding_ < 0.25F;
  }

  /// Lower bounds on the distances of point i to the centroids that are open, passed to `take(place, bound)`, and
  /// the lowest upper one.
  template <class Take>
  void measure(OwnMember& worker, std::int64_t i, Best& best, const Take& take) {
    const std::int64_t d = problem_.shape.d;
    const auto count = static_cast<std::int64_t>(worker.open.size());
    worker.distances += count;
    for (std::int64_t first = 0; first < count; first += kTogether) {
      std::array<const float*, kTogether> rows;
      for (int c = 0; c < kTogether; ++c) {
        rows[c] = centroid_rows_.data() + worker.open[std::min(first + c, count - 1)] * d;
      }
      std::array<float, kTogether> squares;
      float32_distances<kTogether>(this->row(i), rows, d, squares);
      for (std::int64_t c = 0; c < std::min<std::int64_t>(kTogether, count - first); ++c) {
        const std::int32_t j = worker.open[first + c];
        float lower = kEnough;
        if (!is_far(j)) {
          const float error = error_of(norms_[i], centroid_norms_[j]);
          lower = lower_of(squares[c], error);
          const float upper = upper_of(squares[c], error);
          if (upper < best.upper) best = {upper, j};
        }
        take(first + c, lower);
      }
    }
  }

  /// A thread's part of the centroids, by rows in the frame.
  void pack_rows(int thread, int threads) {
    const auto [n, d, k, precision] = problem_.shape;
    CentroidRange seen;
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      centroid_norms_[j] =
          this->place_in_frame(means_.data() + j * d, centroid_rows_.data() + j * d);
      seen.any_near |= centroid_norms_[j] <= static_cast<float>(CentroidRange::kNear);
      seen.any_far |= is_far(j);
    }
    this->seen_.put(thread, threads, seen);
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads));
  }

  /// What centroid a is at least from every centroid, passed to `take(j, bound)`: 0 where one is far.
  template <class Take>
  void measure_between(std::int64_t a, const Take& take) const {
    const auto [n, d, k, precision] = problem_.shape;
    for (std::int64_t first = 0; first < k; first += kTogether) {
      std::array<const float*, kTogether> rows;
      for (int c = 0; c < kTogether; ++c) {
        rows[c] = centroid_rows_.data() + std::min(first + c, k - 1) * d;
      }
      std::array<float, kTogether> squares;
      float32_distances<kTogether>(centroid_rows_.data() + a * d, rows, d, squares);
      for (std::int64_t j = first; j < std::min(first + kTogether, k); ++j) {
        const float error = error_of(centroid_norms_[a], centroid_norms_[j]);
        take(j, is_far(a) || is_far(j) ? 0 : lower_of(squares[j - first], error));
      }
    }
  }

  float rounding_ = 0;                 // of a sum of squares, relative
  std::vector<float> centroid_norms_;  // k, never too short
};

}  // namespace kmeans::openmp
