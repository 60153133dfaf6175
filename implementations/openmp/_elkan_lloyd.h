// SPDX-License-Identifier: Apache-2.0
//
// Lloyd's algorithm with Elkan's bounds: of each point an upper bound on the distance to its own centroid,
// a lower one on that to every other, and of each pair of centroids a lower bound on half their distance.
// A centroid is looked at only if neither shows that it is farther than the point's own.
//
// Bounds are on true distances, in the units of the frame; docs/openmp-bounds.md says why none is ever on the
// wrong side. Include only where -ffp-contract=off.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_across_lanes.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_distances_team.h"
#include "implementations/openmp/_lloyd.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

template <class Rules>
class ElkanLloyd : public DistancesTeam<Rules, DistancesMember> {
  using Base = DistancesTeam<Rules, DistancesMember>;
  using Base::centroid_norms_;
  using Base::drift_;
  using Base::kEnough;
  using Base::labels_;
  using Base::means_;
  using Base::problem_;
  using Base::team_;
  using typename Base::Best;

 public:
  void setup(const Problem<float>& problem) override {
    const auto [n, d, k, precision] = problem.shape;
    stride_ = round_up(k, kLanes);
    upper_ = AlignedArray<float>(n);
    lower_ = AlignedArray<float>(n);
    bounds_ = AlignedArray<float>(n * stride_);
    const int threads = useful_threads(problem.shape, kLeastPoints, problem.threads);
    this->place_points(problem, threads, n, [this](std::int64_t i) {
      std::fill_n(bounds_.data() + i * stride_, stride_, 0.0F);
    });
    keeps_between_ = keeps_between(problem.shape);
    if (keeps_between_) between_ = AlignedArray<float>(k * stride_);
    nearest_.assign(k, 0.0F);
    this->expect_distances();
    all_.resize(k);
    std::iota(all_.begin(), all_.end(), 0);
  }

  void reset(const float* centroids) override {
    this->begin_at(centroids, problem_.shape.n);
    forget();
    this->pack_rows(0, 1);
    pack_between(0, 1);
  }

  /// Distances between centroids are kept where they are few compared with those to points.
  static bool keeps_between(const Shape& shape) {
    return shape.k <= Base::kMaxBetween && shape.k <= shape.n / 16;
  }

  static double bytes(const Shape& shape, int threads) {
    const Sizes s = shape;
    return 4 * s.n * (s.d + s.k + kLanes + 4) + Float64Centroids::bytes(s) + 12 * s.k * s.d +
           (keeps_between(shape) ? 4 * s.k * (s.k + kLanes) : 0) +
           FixedPointSums<float>::bytes(shape, useful_threads(shape, kLeastPoints, threads));
  }

 private:
  static constexpr int kLanes = Lanes<float>::kCount;
  static constexpr int kLeastPoints = 64;       // of a thread
  static constexpr float kFarTravel = 0x1p20F;  // bounds that have come so far say nothing

  /// No bound is known of any point.
  void forget() {
    travelled_.assign(stride_, 0.0F);
    std::fill(travelled_.begin() + problem_.shape.k, travelled_.end(), -kEnough);  // padding
    farthest_ = 0;
    known_ = false;
  }

  /// New lower bounds on the distances of point i to the centroids that are open, and the lowest upper one.
  void measure(DistancesMember& worker, std::int64_t i, Best& best) {
    Base::measure(worker, i, best, [&](std::int64_t place, float lower) {
      const std::int32_t j = worker.open[place];
      bounds_[i * stride_ + j] = (lower + travelled_[j]) * Rules::kDown;
    });
  }

  [[nodiscard]] float bound_of(std::int64_t i, std::int32_t j) const {
    return bounds_[i * stride_ + j] * Rules::kDown - travelled_[j];
  }

  // ---- labels

  void label(int thread, int threads) override {
    DistancesMember& worker = team_[thread].value;
    worker.changed = 0;
    const bool comparable = Base::comparable();
    const Range points = part_of(problem_.shape.n, thread, threads);
    for (std::int64_t i = points.begin; i < points.end; ++i) {
      if (!comparable) {
        label_by_float64(thread, i);
      } else if (known_) {
        label_by_bounds(thread, i);
      } else {
        worker.open = all_;
        Best best;
        measure(worker, i, best);
        decide(thread, i, best);
      }
    }
  }

  void label_by_float64(int thread, std::int64_t i) {
    team_[thread].value.distances += problem_.shape.k;
    std::fill_n(bounds_.data() + i * stride_, problem_.shape.k, 0.0F);
    upper_[i] = std::numeric_limits<float>::infinity();
    lower_[i] = 0;
    this->relabel(thread, i, this->float64_centroids_.nearest(this->given(i)));
  }

  void label_by_bounds(int thread, std::int64_t i) {
    DistancesMember& worker = team_[thread].value;
    const std::int32_t own = labels_[i];
    upper_[i] = (upper_[i] + drift_[own]) * Rules::kUp;
    lower_[i] = lower_[i] * Rules::kDown - farthest_;
    // Equal bounds decide nothing: another centroid may be as near, and of a lower index.
    const float apart = std::max(lower_[i], nearest_[own]);
    if (upper_[i] * Rules::kClear < apart) return;
    Best best;
    worker.open.assign(1, own);
    measure(worker, i, best);
    upper_[i] = best.upper;
    if (upper_[i] * Rules::kClear < apart) return;
    find_open(worker, i, own);
    if (worker.open.empty()) {
      lower_[i] = lowest_of_others(i);
      return;
    }
    measure(worker, i, best);
    worker.open.push_back(own);
    decide(thread, i, best);
  }

  /// The centroids that no bound puts beyond the point's own.
  void find_open(DistancesMember& worker, std::int64_t i, std::int32_t own) const {
    using L = Lanes<float>;
    const float* bounds = bounds_.data() + i * stride_;
    const float* between = keeps_between_ ? between_.data() + own * stride_ : nullptr;
    const auto upper = L::set(upper_[i] * Rules::kClear);
    worker.open.clear();
    for (std::int64_t j = 0; j < stride_; j += kLanes) {
      auto lower = L::load(bounds + j) * L::set(Rules::kDown) - L::load(travelled_.data() + j);
      if (between != nullptr) lower = L::max(lower, L::load(between + j));
      std::uint32_t open = ~L::bits(L::less(upper, lower)) & ((1U << kLanes) - 1);
      for (; open != 0; open &= open - 1) {
        const auto centroid = static_cast<std::int32_t>(j + std::countr_zero(open));
        if (centroid != own && centroid < problem_.shape.k) worker.open.push_back(centroid);
      }
    }
  }

  /// The label of a point whose nearest centroid is among the open ones, and its bounds.
  void decide(int thread, std::int64_t i, Best best) {
    DistancesMember& worker = team_[thread].value;
    const std::int64_t d = problem_.shape.d;
    const float clear = best.upper * Rules::kClear;
    std::erase_if(worker.open, [&](std::int32_t j) { return clear < bound_of(i, j); });
    const auto left = static_cast<std::int32_t>(worker.open.size());
    std::int32_t label = best.label;
    if (left > 1) {
      worker.distances += left;
      label = float64_nearest_of_few(this->given(i), means_.data(), d, worker.open.data(), left);
    }
    if (label != best.label) {
      worker.open.assign(1, label);
      best = {};
      measure(worker, i, best);
    }
    upper_[i] = best.upper;
    this->relabel(thread, i, label);
    lower_[i] = lowest_of_others(i);
  }

  /// At most the distance to the nearest but the own.
  float lowest_of_others(std::int64_t i) {
    using L = Lanes<float>;
    float* bounds = bounds_.data() + i * stride_;
    const float own = std::exchange(bounds[labels_[i]], kEnough * 2);
    auto lowest = L::set(kEnough);
    for (std::int64_t j = 0; j < stride_; j += kLanes) {
      const auto lower =
          L::load(bounds + j) * L::set(Rules::kDown) - L::load(travelled_.data() + j);
      lowest = L::min(lowest, lower);
    }
    bounds[labels_[i]] = own;
    return any_lane(lowest_in_all(lowest));
  }

  // ---- centroids

  void move(int thread, int threads) override {
    this->template move_centroids<Rules>(thread, threads);
    this->wait(threads);
    this->pack_rows(thread, threads);
    if (thread == 0) follow_movement();
    this->wait(threads);
    pack_between(thread, threads);
  }

  /// What centroids have travelled since bounds were first known. Beyond some distance, which only
  /// centroids from far away come to, all bounds start over.
  void follow_movement() {
    known_ = true;
    farthest_ = 0;
    for (std::int64_t j = 0; j < problem_.shape.k; ++j) {
      farthest_ = std::max(farthest_, drift_[j]);
      travelled_[j] = (travelled_[j] + drift_[j]) * (drift_[j] > 0 ? Rules::kUp : 1);
      known_ &= travelled_[j] <= kFarTravel;
    }
    if (!known_) forget();
  }

  /// Half of what a thread's part of the centroids is at least from every other.
  void pack_between(int thread, int threads) {
    if (!keeps_between_) return;
    const std::int64_t k = problem_.shape.k;
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t a = clusters.begin; a < clusters.end; ++a) {
      float* half = between_.data() + a * stride_;
      float lowest = kEnough;
      this->measure_between(a, [&](std::int64_t j, float lower) {
        half[j] = Rules::kHalf * lower;
        if (j != a) lowest = std::min(lowest, half[j]);
      });
      std::fill(half + k, half + stride_, 0.0F);
      nearest_[a] = k > 1 ? lowest : 0;
    }
  }

  std::int64_t stride_ = 0;  // k, padded to whole registers
  bool known_ = false;       // are there bounds?
  bool keeps_between_ = false;
  AlignedArray<float> upper_;      // n
  AlignedArray<float> lower_;      // n, at most the distance to any but the own
  AlignedArray<float> bounds_;     // n x k padded, plus what the centroid had travelled
  AlignedArray<float> between_;    // k x k padded, halved
  std::vector<float> nearest_;     // k, the lowest of between_ but the own
  std::vector<float> travelled_;   // k padded, the sum of these; never too small
  float farthest_ = 0;             // the largest of drift_
  std::vector<std::int32_t> all_;  // 0, 1, ... k - 1
};

}  // namespace kmeans::openmp
