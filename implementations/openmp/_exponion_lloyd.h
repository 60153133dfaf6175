// SPDX-License-Identifier: Apache-2.0
//
// Lloyd's algorithm with Hamerly's bounds and Newling and Fleuret's search: of each centroid it is known which
// others are nearest to it, in rings that double in number. A point that its two bounds leave open is compared
// with the first rings around its own centroid alone.
//
// Bounds are on true distances, in the units of the frame; docs/openmp-bounds.md says why none is ever on the
// wrong side. Include only where -ffp-contract=off.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_distances_team.h"
#include "implementations/openmp/_lloyd.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

struct ExponionMember : DistancesMember {
  std::vector<float> lower;                             // of the open centroids
  std::vector<std::int32_t> left;                       // of these, those that may be nearest
  std::vector<std::pair<float, std::int32_t>> between;  // distance from a centroid, and which
};

template <class Rules>
class ExponionLloyd : public DistancesTeam<Rules, ExponionMember> {
  using Base = DistancesTeam<Rules, ExponionMember>;
  using Base::drift_;
  using Base::kEnough;
  using Base::labels_;
  using Base::means_;
  using Base::problem_;
  using Base::team_;
  using typename Base::Best;

 public:
  static constexpr std::int64_t kMaxCentroids = Base::kMaxBetween;

  void setup(const Problem<float>& problem) override {
    const auto [n, d, k, precision] = problem.shape;
    upper_ = AlignedArray<float>(n);
    lower_ = AlignedArray<float>(n);
    const int threads = useful_threads(problem.shape, kLeastPoints, problem.threads);
    this->place_points(problem, threads, n, [](std::int64_t) {});
    this->expect_distances();
    ends_.clear();
    for (std::int64_t end = kFirstRing; end < k - 1; end *= 2) ends_.push_back(end);
    order_.resize(k * (k - 1));
    beyond_.resize(k * static_cast<std::int64_t>(ends_.size()));
    next_.assign(k, 0.0F);
    all_.resize(k);
    std::iota(all_.begin(), all_.end(), 0);
  }

  void reset(const float* centroids) override {
    this->begin_at(centroids, problem_.shape.n);
    known_ = false;
    this->pack_rows(0, 1);
    pack_rings(0, 1);
  }

  static double bytes(const Shape& shape, int threads) {
    const Sizes s = shape;
    const int used = useful_threads(shape, kLeastPoints, threads);
    return 4 * s.n * (s.d + 4) + Float64Centroids::bytes(s) + 12 * s.k * s.d + 4 * s.k * s.k +
           FixedPointSums<float>::bytes(shape, used) + 16 * s.k * used;  // what workers list
  }

 private:
  static constexpr int kLeastPoints = 64;        // of a thread
  static constexpr std::int64_t kFirstRing = 4;  // centroids in it

  // ---- labels

  void label(int thread, int threads) override {
    ExponionMember& worker = team_[thread].value;
    worker.changed = 0;
    const bool comparable = Base::comparable();
    const float farthest = *std::max_element(drift_.begin(), drift_.end());
    const Range points = part_of(problem_.shape.n, thread, threads);
    for (std::int64_t i = points.begin; i < points.end; ++i) {
      if (!comparable) {
        label_by_float64(thread, i);
      } else if (known_) {
        label_by_bounds(thread, i, farthest);
      } else {
        worker.open = all_;
        decide(thread, i, kEnough);
      }
    }
  }

  void label_by_float64(int thread, std::int64_t i) {
    team_[thread].value.distances += problem_.shape.k;
    upper_[i] = std::numeric_limits<float>::infinity();
    lower_[i] = 0;
    this->relabel(thread, i, this->float64_centroids_.nearest(this->given(i)));
  }

  void label_by_bounds(int thread, std::int64_t i, float farthest) {
    const std::int32_t own = labels_[i];
    upper_[i] = (upper_[i] + drift_[own]) * Rules::kUp;
    lower_[i] = lower_[i] * Rules::kDown - farthest;
    // Equal bounds decide nothing: another centroid may be as near, and of a lower index.
    const float apart = std::max(lower_[i], Rules::kHalf * next_[own]);
    if (upper_[i] * Rules::kClear < apart) return;
    ExponionMember& worker = team_[thread].value;
    Best best;
    worker.open.assign(1, own);
    Base::measure(worker, i, best, [](std::int64_t, float) {});
    upper_[i] = best.upper;
    if (upper_[i] * Rules::kClear < apart) return;
    decide(thread, i, open_rings(worker, i, own));
  }

  /// The point's own centroid and the first rings around it, so many that no other can be nearest or, as far as
  /// can be said, second. Returns what all others are at least from the point.
  float open_rings(ExponionMember& worker, std::int64_t i, std::int32_t own) const {
    const std::int64_t k = problem_.shape.k;
    const auto rings = static_cast<std::int64_t>(ends_.size());
    const float enough = (upper_[i] + next_[own]) * Rules::kClear;
    std::int64_t count = k - 1;
    float others = kEnough;
    for (std::int64_t ring = 0; ring < rings; ++ring) {
      const float lower = beyond_[own * rings + ring] * Rules::kDown - upper_[i];
      if (!(enough < lower)) continue;
      count = ends_[ring];
      others = lower;
      break;
    }
    const auto first = order_.begin() + own * (k - 1);
    worker.open.assign(first, first + count);
    worker.open.push_back(own);
    return others;
  }

  /// The label of a point whose nearest centroid is among the open ones, and its bounds. `others`: what all that
  /// are not open are at least from it.
  void decide(int thread, std::int64_t i, float others) {
    ExponionMember& worker = team_[thread].value;
    worker.lower.resize(worker.open.size());
    Best best;
    Base::measure(worker, i, best,
                  [&](std::int64_t place, float lower) { worker.lower[place] = lower; });
    const std::int32_t label = nearest_of_open(worker, i, best);
    upper_[i] = best.upper;
    lower_[i] = others;
    for (std::size_t place = 0; place < worker.open.size(); ++place) {
      if (worker.open[place] != label) lower_[i] = std::min(lower_[i], worker.lower[place]);
    }
    this->relabel(thread, i, label);
  }

  /// `best` becomes that of the label.
  std::int32_t nearest_of_open(ExponionMember& worker, std::int64_t i, Best& best) {
    const float clear = best.upper * Rules::kClear;
    std::vector<std::int32_t>& left = worker.left;
    left.clear();
    for (std::size_t place = 0; place < worker.open.size(); ++place) {
      if (!(clear < worker.lower[place])) left.push_back(worker.open[place]);
    }
    if (left.size() <= 1) return best.label;
    const auto count = static_cast<std::int32_t>(left.size());
    worker.distances += count;
    const std::int32_t label =
        float64_nearest_of_few(this->given(i), means_.data(), problem_.shape.d, left.data(), count);
    if (label == best.label) return label;
    best = {};
    std::swap(worker.open, left);
    worker.open.assign(1, label);
    Base::measure(worker, i, best, [](std::int64_t, float) {});
    std::swap(worker.open, left);
    return label;
  }

  // ---- centroids

  void move(int thread, int threads) override {
    this->template move_centroids<Rules>(thread, threads);
    this->wait(threads);
    this->pack_rows(thread, threads);
    if (thread == 0) known_ = true;
    this->wait(threads);
    pack_rings(thread, threads);
  }

  /// The others around each of a thread's centroids, ring after ring.
  void pack_rings(int thread, int threads) {
    const std::int64_t k = problem_.shape.k;
    const auto rings = static_cast<std::int64_t>(ends_.size());
    auto& between = team_[thread].value.between;
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t a = clusters.begin; a < clusters.end; ++a) {
      between.clear();
      this->measure_between(a, [&](std::int64_t j, float lower) {
        if (j != a) between.emplace_back(lower, static_cast<std::int32_t>(j));
      });
      auto end = between.end();
      for (std::int64_t ring = rings - 1; ring >= 0; --ring) {
        const auto first_beyond = between.begin() + ends_[ring];
        std::nth_element(between.begin(), first_beyond, end);
        beyond_[a * rings + ring] = first_beyond->first * Rules::kReach;
        end = first_beyond;
      }
      next_[a] = k > 1 ? std::min_element(between.begin(), end)->first : 0;
      std::int32_t* order = order_.data() + a * (k - 1);
      for (const auto& [distance, j] : between) *order++ = j;
    }
  }

  bool known_ = false;               // are there bounds?
  AlignedArray<float> upper_;        // n
  AlignedArray<float> lower_;        // n, at most the distance to any but the own
  std::vector<std::int64_t> ends_;   // centroids in the first rings: 4, 8, 16 ...
  std::vector<std::int32_t> order_;  // k x (k - 1): the others around each centroid
  std::vector<float> beyond_;        // k x rings: at most the distance to any beyond the ring
  std::vector<float> next_;          // k: at most the distance to the nearest other
  std::vector<std::int32_t> all_;    // 0, 1, ... k - 1
};

}  // namespace kmeans::openmp
