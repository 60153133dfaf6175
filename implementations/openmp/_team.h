// SPDX-License-Identifier: Apache-2.0
//
// The frame of a variant whose threads stay together over all iterations: one parallel region a step, a
// stage to label and one to move the centroids, and the calls of the contract around them. A variant says
// what its threads do in a stage, and what each of them has of its own. How many threads there are is known
// in a region only, and may differ from one step to the next: nothing that a thread has of its own may
// matter beyond a step, unless it is forgotten or gathered from all.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_family.h"

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
  void step(std::int64_t iterations) override {
    begin_step();
    if (threads_ == 1) return iterate(0, 1, iterations);  // without a team's start
#pragma omp parallel num_threads(threads_)
    iterate(omp_get_thread_num(), omp_get_num_threads(), iterations);
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(means_.begin(), means_.end(), centroids);
    fetch_labels(labels);
  }

  [[nodiscard]] const T* centroids() const override { return means_.data(); }

  Progress progress() override {
    std::int64_t changed = 0;
    for (const auto& member : team_) changed += member.value.changed;
    return {.movement = {}, .changed = changed, .loss = {}};
  }

  std::optional<std::int64_t> computed_distances() const override {
    if constexpr (kCounts) {
      std::int64_t distances = 0;
      for (const auto& member : team_) distances += member.value.distances;
      return distances;
    }
    return std::nullopt;
  }

 protected:
  /// Labels a thread's part of the points. The others have done so when the next stage begins.
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

  void form_team(const Problem<T>& problem, int threads) {
    problem_ = problem;
    threads_ = threads;
    team_.resize(threads);
  }

  /// Until all threads are here; what they wrote is then seen.
  static void wait(int threads) {
    if (threads == 1) return;
#pragma omp barrier
  }

  Problem<T> problem_;
  int threads_ = 1;
  std::vector<T> means_;  // k x d, the centroids as the caller sees them
  std::vector<Padded<OwnMember>> team_;

 private:
  static constexpr bool kCounts = requires(OwnMember member) { member.distances; };

  void iterate(int thread, int threads, std::int64_t iterations) {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      {
        const auto timed = stage_of(thread, "assign");
        label(thread, threads);
        if (thread == 0) forget_absent(threads);
        wait(threads);
      }
      const auto timed = stage_of(thread, "update");
      move(thread, threads);
      wait(threads);
    }
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
