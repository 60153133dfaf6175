// SPDX-License-Identifier: Apache-2.0
//
// The frame of a variant whose threads stay together over all iterations: one parallel region a step, a
// stage to label and one to move the centroids, and the calls of the contract around them. A variant says
// what its threads do in a stage, and what each of them has of its own. How many threads there are is known
// in a region only, and may differ from one step to the next: nothing that a thread has of its own may
// matter beyond a step, unless it is forgotten or gathered from all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_barrier.h"
#include "implementations/openmp/_breaks.h"
#include "implementations/openmp/_crew.h"
#include "implementations/openmp/_family.h"
#include "implementations/openmp/_kept_memory.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// What a thread has of its own, at least.
struct Member {
  std::int64_t changed = 0;  // labels in the last iteration
};
/// The same where not every distance is formed.
struct CountingMember : Member {
  std::int64_t distances = 0;  // formed in this step
};

template <class T, class OwnMember = Member>
class Team : public Family<T> {
 public:
  void step(std::int64_t iterations) override { step_until({}, iterations); }

  Stopped step_until(const Stopping& when, std::int64_t iterations) override {
    begin_step();
    stopped_ = {};
    if (when.looks_at_shift()) {
      before_.resize(means_.size());
      shifts_.resize(problem_.shape.k);
    }
    in_team(threads_, [&](int thread, int threads) { iterate(thread, threads, when, iterations); });
    return stopped_;
  }

  void label_again() override { label_with_breaks({}); }

  void label_with_breaks(const std::function<void()>& between) override {
    begin_step();
    labels_only_ = true;
    breaks_.begin(between, problem_.shape);
    in_team(threads_, [&](int thread, int threads) {
      label(thread, threads);
      if (thread == 0) forget_absent(threads);
    });
    labels_only_ = false;
    breaks_.end();
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(means_.begin(), means_.end(), centroids);
    fetch_labels(labels);
  }

  [[nodiscard]] const T* centroids() const override { return means_.data(); }

  [[nodiscard]] const Frame<T>* frame() const override {
    return frame_.has_value() ? &*frame_ : nullptr;
  }

  void take_frame(const Frame<T>& other) override {
    frame_ = other;
    frame_is_given_ = true;
  }

  Progress progress() override { return {.movement = {}, .changed = changed(), .loss = {}}; }

  std::optional<std::int64_t> computed_distances() const override {
    if constexpr (kCounts) {
      std::int64_t distances = 0;
      for (const auto& member : team_) distances += member.value.distances;
      return distances;
    }
    return std::nullopt;
  }

 protected:
  /// Labels a thread's part of the points, up to where breaks_ end it. The others have done so when the next stage
  /// begins.
  virtual void label(int thread, int threads) = 0;

  /// Moves a thread's part of the centroids, and waits() for the others where it needs theirs.
  virtual void move(int thread, int threads) = 0;

  virtual void fetch_labels(std::int32_t* labels) = 0;

  /// Before the threads start.
  virtual void begin_step() { forget_distances(); }

  void forget_distances() {
    if constexpr (kCounts) {
      for (auto& member : team_) member.value.distances = 0;
    }
  }

  /// Is this another k for the same points? Then copies of them that do not depend on k are still good.
  [[nodiscard]] bool knows_points_of(const Problem<T>& problem) const {
    return problem_.points == problem.points && problem_.points != nullptr &&
           problem_.shape.n == problem.shape.n && problem_.shape.d == problem.shape.d &&
           problem_.whole_n() == problem.whole_n() &&  // which sums are scaled by
           problem_.max_abs == problem.max_abs;
  }

  /// That of the same points, or one that was given, or a new one. In setup.
  void form_frame(const Problem<T>& problem, bool same_points) {
    if (!std::exchange(frame_is_given_, false) && !same_points) frame_.emplace(problem);
  }

  void form_team(const Problem<T>& problem, int threads) {
    problem_ = problem;
    threads_ = threads;
    team_.resize(threads);
  }

  /// Until all threads are here; what they wrote is then seen.
  void wait(int threads) { barrier_.wait(threads); }

  Problem<T> problem_;
  int threads_ = 1;
  bool labels_only_ = false;       // label() need not bring the sums to date
  Breaks breaks_;                  // only while that is so
  KeptVector<T> means_;            // k x d, the centroids as the caller sees them
  std::optional<Frame<T>> frame_;  // of variants that need one
  std::vector<Padded<OwnMember>> team_;

 private:
  static constexpr bool kCounts = requires(OwnMember member) { member.distances; };

  Barrier barrier_;
  Stopped stopped_;
  bool frame_is_given_ = false;
  KeptVector<T> before_;        // the means before they moved; only where that is looked at
  std::vector<double> shifts_;  // k, the squares by which a cluster's has

  void iterate(int thread, int threads, const Stopping& when, std::int64_t iterations) {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      {
        const auto timed = stage_of(thread, "assign");
        if (when.looks_at_shift()) remember_means(part_of(means_size(), thread, threads));
        label(thread, threads);
        if (thread == 0) forget_absent(threads);
        wait(threads);
      }
      const auto timed = stage_of(thread, "update");
      // Of all members, who begin to count again once they have waited twice.
      const bool settled = when.settled && changed() == 0;
      move(thread, threads);
      wait(threads);
      const bool near = when.looks_at_shift() && shift(thread, threads) <= *when.shift;
      if (thread == 0) stopped_ = {iteration + 1, settled, near};
      if (settled || near) return;
    }
  }

  [[nodiscard]] std::int64_t means_size() const { return problem_.shape.k * problem_.shape.d; }

  void remember_means(Range part) {
    std::copy(means_.begin() + part.begin, means_.begin() + part.end, before_.begin() + part.begin);
  }

  /// By which the centroids have moved: a cluster's squares by one thread, their sum by each in one order.
  double shift(int thread, int threads) {
    const auto [n, d, k, precision] = problem_.shape;
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      if constexpr (sizeof(T) == 4) {  // all families are of float32 points
        shifts_[j] = moved_squares(before_.data() + j * d, means_.data() + j * d, d);
      }
    }
    wait(threads);
    double sum = 0;
    for (const double squares : shifts_) sum += squares;
    return sum;
  }

  [[nodiscard]] std::int64_t changed() const {
    std::int64_t changed = 0;
    for (const auto& member : team_) changed += member.value.changed;
    return changed;
  }

  /// OpenMP may give fewer threads than were asked for, and another number for every step. What a thread
  /// of an earlier team has changed was counted then.
  void forget_absent(int threads) {
    for (int thread = threads; thread < threads_; ++thread) team_[thread].value.changed = 0;
  }

  /// Stages are marked by one thread.
  StageScope stage_of(int thread, const char* name) {
    return thread == 0 ? this->stage(name) : StageScope(nullptr, name);
  }
};

}  // namespace kmeans::openmp
