// SPDX-License-Identifier: Apache-2.0
//
// Lloyd's algorithm with bounds kept between iterations. Of each point: `upper`, at least its distance to
// the centroid that it is labelled with, and lower bounds, at most its distance to any other: one for all,
// and one for each group of centroids where there are several. Centroids move, and the bounds with them;
// where the upper one stays below a lower one, no centroid behind that can have become the nearest.
//
// Bounds are on true distances, in the units of the frame; docs/openmp-bounds.md says why none is ever on the
// wrong side. Where they leave a point open, it is labelled as in openmp_exact.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_bounds_team.h"
#include "implementations/openmp/_centroid_groups.h"
#include "implementations/openmp/_filter_bound.h"
#include "implementations/openmp/_lloyd.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "implementations/openmp/_panels.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// An open point on its way through the groups.
struct OpenPoint {
  std::int64_t point = 0;
  std::uint64_t groups = 0;  // to look at, as bits
  GroupResult best;          // of all groups
  int group = 0;             // where the nearest is
  float second_there = 0;    // the second lowest value in it
};
struct GroupsMember : BoundsMember {
  std::vector<OpenPoint> open;
};

template <class Rules>
class BoundedLloyd : public BoundsTeam<GroupsMember> {
 public:
  static constexpr int kMaxGroups = 64;

  void setup(const Problem<float>& problem) override {
    const std::int64_t n = problem.shape.n;
    const std::int64_t padded = round_up(n, kLanes);
    upper_ = AlignedArray<float>(padded);
    lower_ = AlignedArray<float>(padded);
    group_count_ = groups(problem.shape);
    if (group_count_ > 1) group_lower_ = AlignedArray<float>(n * group_count_);
    const int threads = useful_threads(problem.shape, kBatch, problem.threads);
    place_points(problem, threads, padded, [](std::int64_t) {});
  }

  void reset(const float* centroids) override {
    begin_at(centroids, round_up(problem_.shape.n, kLanes));
    fresh_ = true;
    bounds_known_ = false;
    at_rest_ = false;
  }

  void take_over(const Standing& other) override {
    BoundsTeam::take_over(other);
    at_rest_ = other.at_rest;
  }

  static double bytes(const Shape& shape, double groups, int threads) {
    return bytes_without_sums(shape, groups) +
           FixedPointSums<float>::bytes(shape, useful_threads(shape, kBatch, threads));
  }

 protected:
  static double bytes_without_sums(const Shape& shape, double groups) {
    const Sizes s = shape;
    return s.n * (4 * s.d + 4 * 4 + (groups > 1 ? 4 * groups : 0)) + Panels::bytes(s) +
           Float64Centroids::bytes(s) + 12 * s.k * s.d;
  }

  /// The bounds move to these centroids (k x d); labels and computed distances are those of an iteration from there.
  /// By a team of all the problem's threads, or none: a smaller one would end threads that others then start again.
  void follow(const float* centroids) {
    const bool begins = fresh_;
    const int team = threads_ == 1 ? 1 : problem_.threads;
    if (begins) {
      std::copy_n(centroids, means_.size(), means_.begin());
      start(team);
    }
    begin_step();
    in_team(team, [&](int thread, int present) {
      const int threads = std::min(threads_, present);
      const bool works = thread < threads;  // else it waits with the others
      if (!begins) {
        if (works) move_centroids<Rules>(thread, threads, centroids);
        wait(present);
        if (works) pack(thread, threads, changes());
        wait(present);
      }
      if (works) label(thread, threads);
    });
    bounds_known_ = true;
  }

  /// How many groups of centroids have lower bounds of their own: 1 to kMaxGroups.
  [[nodiscard]] virtual int groups(const Shape& shape) const = 0;

 private:
  static constexpr int kLanes = Lanes<float>::kCount;
  static constexpr int kBatch = 256;  // points whose open ones are collected by group

  void begin_step() override {
    if (fresh_) start(threads_);
    forget_distances();
  }

  /// What depends on the first centroids; part of the first iteration. A team of `team` threads packs them, where they
  /// are worth it.
  void start(int team) {
    const auto [n, d, k, precision] = problem_.shape;
    groups_ = at_rest_ ? consecutive_groups(k, group_count_)
                       : balanced_groups(means_.data(), k, d, group_count_);
    group_of_.resize(k);
    for (int g = 0; g < group_count_; ++g) {
      for (const std::int32_t j : groups_[g]) group_of_[j] = g;
    }
    panels_ = Panels(groups_, d);
    drift_.assign(k, 0.0F);
    travelled_.assign(group_count_, 0.0F);
    largest_drift_.assign(group_count_, 0.0F);
    seen_.clear();
    constexpr std::int64_t kWorth = 8192;  // coordinates
    in_team(k * d < kWorth ? 1 : team, [&](int thread, int present) {
      const int threads = std::min(threads_, present);
      if (thread < threads) pack(thread, threads, {});
    });
    fresh_ = false;
  }

  // ---- labels

  void label(int thread, int threads) override {
    GroupsMember& worker = team_[thread].value;
    worker.changed = 0;
    const CentroidRange seen = seen_.all();
    const FilterBound bound = FilterBound::of(problem_.shape.d, seen);
    const std::int64_t n = problem_.shape.n;
    const Range batches = part_of(round_up(n, kBatch) / kBatch, thread, threads);
    for (std::int64_t batch = batches.begin; batch < batches.end; ++batch) {
      const Range points{batch * kBatch, std::min(n, (batch + 1) * kBatch)};
      worker.open.clear();
      if (!bounds_known_) {
        for (std::int64_t i = points.begin; i < points.end; ++i) open(worker, i, ~std::uint64_t{0});
      } else {
        move_bounds(worker, points, seen);
      }
      for (int g = 0; g < group_count_; ++g) look_at(worker, g);
      for (const OpenPoint& point : worker.open) close(thread, bound, point);
    }
  }

  static void open(GroupsMember& worker, std::int64_t i, std::uint64_t groups) {
    worker.open.push_back({i, groups, {}, 0, std::numeric_limits<float>::infinity()});
  }

  /// Bounds follow the centroids; what they leave open is collected.
  void move_bounds(GroupsMember& worker, Range points, const CentroidRange& seen) {
    using L = Lanes<float>;
    const float farthest = *std::max_element(largest_drift_.begin(), largest_drift_.end());
    for (std::int64_t i = points.begin; i < points.end; i += kLanes) {
      alignas(64) std::array<float, kLanes> own;
      for (int lane = 0; lane < kLanes; ++lane) {
        const std::int32_t label = labels_[i + lane];
        own[lane] = label < 0 ? 0.0F : drift_[label];
      }
      const auto upper = (L::load(upper_.data() + i) + L::load(own.data())) * L::set(Rules::kUp);
      const auto lower = L::load(lower_.data() + i) * L::set(Rules::kDown) - L::set(farthest);
      L::store(upper_.data() + i, upper);
      L::store(lower_.data() + i, lower);
      // Equal bounds decide nothing: another centroid may be as near, and of a lower index.
      const auto stays = L::less(upper * L::set(Rules::kClear), lower);
      const auto count = std::min<std::int64_t>(kLanes, points.end - i);
      std::uint32_t left = ~L::bits(stays) & static_cast<std::uint32_t>((1ULL << count) - 1);
      for (; left != 0; left &= left - 1) examine(worker, i + std::countr_zero(left), seen);
    }
  }

  /// Is a point open still if its upper bound is made tight, and in which groups?
  void examine(GroupsMember& worker, std::int64_t i, const CentroidRange& seen) {
    upper_[i] = own_distance(i, seen);
    worker.distances += 1;
    const float upper = upper_[i] * Rules::kClear;
    if (upper < lower_[i]) return;
    if (group_count_ == 1) return open(worker, i, 1);
    const float* bounds = group_lower_.data() + i * group_count_;
    std::uint64_t groups = 0;
    float lowest = std::numeric_limits<float>::infinity();
    for (int g = 0; g < group_count_; ++g) {
      const float lower = bounds[g] * Rules::kDown - travelled_[g];
      lowest = std::min(lowest, lower);
      groups |= static_cast<std::uint64_t>(!(upper < lower)) << g;
    }
    if (groups != 0) return open(worker, i, groups | std::uint64_t{1} << group_of_[labels_[i]]);
    lower_[i] = lowest;
  }

  /// At least the distance between a point and the centroid that it is labelled with.
  [[nodiscard]] float own_distance(std::int64_t i, const CentroidRange& seen) const {
    const std::int64_t d = problem_.shape.d;
    std::array<float, 1> squares;
    float32_distances<1>(row(i), {centroid_rows_.data() + labels_[i] * d}, d, squares);
    const float rounding = static_cast<float>(d + 8) * 0x1p-24F;
    const float coordinates = 0x1p-22F * (norms_[i] + static_cast<float>(seen.largest_norm));
    return std::sqrt(squares[0]) * (1 + rounding) * Rules::kUp + coordinates + 0x1p-50F;
  }

  /// The values of a group for all points that are open there.
  void look_at(GroupsMember& worker, int g) {
    std::array<const float*, Panels::kPoints> rows;
    std::array<OpenPoint*, Panels::kPoints> points;
    std::array<GroupResult, Panels::kPoints> results;
    int filled = 0;
    const auto look = [&] {
      if (filled == 0) return;
      std::fill(rows.begin() + filled, rows.end(), rows[0]);
      panels_.look(g, rows, results);
      worker.distances += filled * static_cast<std::int64_t>(groups_[g].size());
      for (int p = 0; p < filled; ++p) merge(*points[p], g, results[p]);
      filled = 0;
    };
    for (OpenPoint& point : worker.open) {
      if ((point.groups >> g & 1) == 0) continue;
      if (g == 0 && !bounds_known_) fetch_row(point.point + Panels::kPoints);
      rows[filled] = row(point.point);
      points[filled++] = &point;
      if (filled == Panels::kPoints) look();
    }
    look();
  }

  /// In a first iteration nobody has read the rows before, and several at once are more than what the
  /// processor itself fetches ahead, unless they are short.
  void fetch_row(std::int64_t i) const {
    constexpr std::int64_t kLine = 16;  // floats
    const std::int64_t d = problem_.shape.d;
    if (d <= 2 * kLine || i >= problem_.shape.n) return;
    for (std::int64_t t = 0; t < d; t += kLine) __builtin_prefetch(row(i) + t, 0, 2);
  }

  void merge(OpenPoint& point, int g, const GroupResult& found) {
    if (group_count_ > 1) group_lower_[point.point * group_count_ + g] = found.nearest;
    point.best.second =
        std::min({point.best.second, found.second, std::max(point.best.nearest, found.nearest)});
    if (!(found.nearest < point.best.nearest)) return;
    point.best.nearest = found.nearest;
    point.best.label = found.label;
    point.group = g;
    point.second_there = found.second;
  }

  /// Label and bounds of a point that was open.
  void close(int thread, const FilterBound& bound, const OpenPoint& point) {
    const std::int64_t i = point.point;
    const float norm = norms_[i];
    const float margin = (bound.c * norm + bound.b) * norm + bound.a;
    const bool decided = point.best.second - point.best.nearest > margin;
    if (!decided) team_[thread].value.distances += problem_.shape.k;
    const std::int32_t label = decided ? point.best.label : float64_centroids_.nearest(given(i));
    const float error = margin * Rules::kError / 2;
    // The norm is too long by 1.2e-6 at most.
    const float most = norm * norm * Rules::kUp + error;
    const float least = norm * norm * (1 - 0x1p-18F) - error;
    const auto lower = [&](float value) {
      constexpr float kEnough = 0x1p40F;  // what lies beyond CentroidRange::kFar is further
      return std::min(kEnough, std::sqrt(std::max(0.0F, value + least)) * Rules::kDown);
    };
    upper_[i] = std::sqrt(std::max(0.0F, point.best.nearest + most)) * Rules::kUp;
    lower_[i] = lower(decided ? point.best.second : point.best.nearest);
    if (group_count_ > 1) {
      float* bounds = group_lower_.data() + i * group_count_;
      for (int g = 0; g < group_count_; ++g) {
        if ((point.groups >> g & 1) != 0) {
          const bool own = decided && g == point.group;
          bounds[g] = (lower(own ? point.second_there : bounds[g]) + travelled_[g]) * Rules::kDown;
        }
        lower_[i] = std::min(lower_[i], bounds[g] * Rules::kDown - travelled_[g]);
      }
    }
    relabel(thread, i, label);
  }

  // ---- centroids

  void move(int thread, int threads) override {
    if (thread == 0) bounds_known_ = true;
    move_centroids<Rules>(thread, threads);
    wait(threads);
    pack(thread, threads, changes());
  }

  /// A thread's part of the centroids in the layouts that they are looked at in, and its groups' drift.
  void pack(int thread, int threads, const Changes& changes) {
    const auto [n, d, k, precision] = problem_.shape;
    seen_.put(
        thread, threads,
        panels_.pack(means_.data(), *frame_, part_of(panels_.panels(), thread, threads), changes));
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads),
                            changes);
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      if (!changes.of(j)) continue;
      frame_->apply(means_.data() + j * d, 0, d, centroid_rows_.data() + j * d);
    }
    const Range groups = part_of(group_count_, thread, threads);
    for (std::int64_t g = groups.begin; g < groups.end; ++g) {
      float farthest = 0;
      for (const std::int32_t j : groups_[g]) farthest = std::max(farthest, drift_[j]);
      largest_drift_[g] = farthest;
      travelled_[g] = (travelled_[g] + farthest) * (farthest > 0 ? Rules::kUp : 1);
    }
  }

  int group_count_ = 1;
  bool fresh_ = true;
  bool at_rest_ = false;             // no centroid moves, neighbours or not
  bool bounds_known_ = false;        // labels may be, without bounds
  AlignedArray<float> upper_;        // n, padded
  AlignedArray<float> lower_;        // n, padded
  AlignedArray<float> group_lower_;  // n x groups, plus what the group had travelled
  std::vector<std::vector<std::int32_t>> groups_;
  std::vector<int> group_of_;         // k
  std::vector<float> largest_drift_;  // of a group, in the last update
  std::vector<float> travelled_;      // of a group, the sum of these; never too small
  Panels panels_;
};

}  // namespace kmeans::openmp
