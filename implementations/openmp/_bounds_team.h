// SPDX-License-Identifier: Apache-2.0
//
// What variants with bounds on distances share: points and centroids as rows in the frame, in whose units
// the bounds are, and how far the centroids moved. Include only where -ffp-contract=off.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_bound_rules.h"
#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_team.h"

namespace kmeans::openmp {

struct BoundsMember : CountingMember {
  std::vector<float> before;  // its centroids before they moved
};

template <class OwnMember>
class BoundsTeam : public Team<float, OwnMember> {
 public:
  [[nodiscard]] std::optional<Standing> standing() override {
    return Standing{{labels_.data(), static_cast<std::size_t>(problem_.shape.n)}, sums_.totals()};
  }

  void take_over(const Standing& other) override {
    copy_by_team(other.labels, labels_.data(), threads_);
    sums_.take_over(other.sums);
  }

 protected:
  using Team<float, OwnMember>::problem_;
  using Team<float, OwnMember>::threads_;
  using Team<float, OwnMember>::labels_only_;
  using Team<float, OwnMember>::means_;
  using Team<float, OwnMember>::frame_;
  using Team<float, OwnMember>::team_;

  /// Does it move the centroids? Else it needs no sums.
  [[nodiscard]] virtual bool moves_centroids() const { return true; }

  /// Memory for `padded` labels. `place` does what else there is to do for a point, on the thread that will
  /// have it.
  template <class Place>
  void place_points(const Problem<float>& problem, int threads, std::int64_t padded,
                    const Place& place) {
    const auto [n, d, k, precision] = problem.shape;
    const bool same_points = this->knows_points_of(problem);
    this->form_team(problem, threads);
    seen_ = SeenCentroids(threads);
    this->form_frame(problem, same_points);
    if (!same_points) {
      rows_ = AlignedArray<float>(n * d);
      norms_ = AlignedArray<float>(n);
    }
    labels_ = AlignedArray<std::int32_t>(padded);
    in_team(threads, [&](int thread, int present) {
      const Range points = part_of(problem.shape.n, thread, present);
      for (std::int64_t i = points.begin; i < points.end; ++i) {
        if (!same_points) {
          norms_[i] = place_in_frame(problem.points + i * problem.shape.d,
                                     rows_.data() + i * problem.shape.d);
        }
        place(i);
      }
    });
    centroid_rows_.resize(k * d);
    drift_.resize(k);
    changed_.resize(k);
    float64_centroids_ = Float64Centroids(k, d);
    with_sums_ = moves_centroids();
    if (with_sums_) sums_ = FixedPointSums<float>(problem, threads);
  }

  void begin_at(const float* centroids, std::int64_t padded) {
    means_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    std::fill_n(labels_.data(), padded, -1);
    if (with_sums_) sums_.begin_empty();
    seen_.clear();
  }

  void fetch_labels(std::int32_t* labels) override {
    std::copy_n(labels_.data(), problem_.shape.n, labels);
  }

  /// A row (d) in the frame; its norm, never too short.
  float place_in_frame(const float* given, float* row) const {
    const std::int64_t d = problem_.shape.d;
    frame_->apply(given, 0, d, row);
    // Sums that do not wait for one another.
    std::array<double, 8> sums{};
    constexpr auto kSums = static_cast<std::int64_t>(sums.size());
    const auto square = [](float value) {
      return static_cast<double>(value) * static_cast<double>(value);
    };
    std::int64_t t = 0;
    for (; t + kSums <= d; t += kSums) {
      for (std::int64_t u = 0; u < kSums; ++u) sums[u] += square(row[t + u]);
    }
    for (; t < d; ++t) sums[0] += square(row[t]);
    const double squares = std::accumulate(sums.begin(), sums.end(), 0.0);
    return static_cast<float>(std::sqrt(squares) * 1.000001);
  }

  [[nodiscard]] const float* row(std::int64_t i) const {
    return rows_.data() + i * problem_.shape.d;
  }
  [[nodiscard]] const float* given(std::int64_t i) const {
    return problem_.points + i * problem_.shape.d;
  }

  void relabel(int thread, std::int64_t i, std::int32_t label) {
    if (label == labels_[i]) return;
    if (with_sums_ && !labels_only_) sums_.move(thread, given(i), labels_[i], label);
    labels_[i] = label;
    team_[thread].value.changed += problem_.counted.counts(i) ? 1 : 0;
  }

  /// New means of a thread's clusters, or the centroids (k x d) in their place, and how far they moved.
  template <class Rules>
  void move_centroids(int thread, int threads, const float* in_place = nullptr) {
    const std::int64_t d = problem_.shape.d;
    const Range clusters = part_of(problem_.shape.k, thread, threads);
    auto& before = team_[thread].value.before;
    before.assign(means_.begin() + clusters.begin * d, means_.begin() + clusters.end * d);
    if (in_place == nullptr) {
      sums_.update(means_.data(), clusters);
    } else {
      std::copy(in_place + clusters.begin * d, in_place + clusters.end * d,
                means_.begin() + clusters.begin * d);
    }
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      const float* const old = before.data() + (j - clusters.begin) * d;
      const float* const mean = means_.data() + j * d;
      const bool changed = in_place == nullptr ? sums_.changed(j) : !std::equal(old, old + d, mean);
      changed_[j] = changed ? 1 : 0;
      drift_[j] = changed ? drift_between<Rules>(old, mean, d, frame_->scale) : 0;
    }
  }
  /// By move_centroids(), for all threads after a barrier.
  [[nodiscard]] Changes changes() const { return Changes(changed_.data()); }

  SeenCentroids seen_;         // by the threads that packed them
  AlignedArray<float> rows_;   // n x d, in the frame
  AlignedArray<float> norms_;  // n
  AlignedArray<std::int32_t> labels_;
  KeptVector<float> centroid_rows_;  // k x d, in the frame
  std::vector<float> drift_;         // k, in the frame, in the last update
  std::vector<char> changed_;        // k, in the last update
  Float64Centroids float64_centroids_;
  FixedPointSums<float> sums_;
  bool with_sums_ = true;
};

}  // namespace kmeans::openmp
