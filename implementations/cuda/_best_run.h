// SPDX-License-Identifier: Apache-2.0
//
// The family at work, and one that keeps bounds: it goes on from the centroids of the first when the iterations to come
// are enough for that to pay. Every family has the same bits, so that no bit shows when.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "harness/variant.h"

namespace kmeans::cuda {

/// By trying, in seconds.
struct GoingOn {
  std::int64_t after;  ///< Iterations of the first family.
  double saved;        ///< In each later iteration.
  double start;  ///< What the first one takes beyond a later one, with the copies of the centroids.

  /// Within so many iterations?
  [[nodiscard]] bool pays(std::int64_t iterations) const {
    return static_cast<double>(iterations) * saved > start;
  }
};

class BestRun {
 public:
  using Family = Variant<float>;

  BestRun() = default;
  BestRun(std::unique_ptr<Family> first, std::int64_t k, std::int64_t d)
      : first_(std::move(first)), centroids_(static_cast<std::size_t>(k * d)) {}

  [[nodiscard]] Family& first() const { return *first_; }
  void begin_with(std::unique_ptr<Family> family) { first_ = std::move(family); }
  void go_on_with(std::unique_ptr<Family> family, GoingOn going_on) {
    later_ = std::move(family);
    going_on_ = going_on;
  }

  void reset(const float* centroids) {
    changed_ = false;
    made_ = 0;
    first_->reset(centroids);
  }

  void step(std::int64_t iterations, StageRecorder* recorder) {
    if (later_ != nullptr && !changed_) {
      // To come are those that were asked for; or, one step after the other, as many again as there have been.
      const std::int64_t before = std::clamp<std::int64_t>(going_on_.after - made_, 0, iterations);
      if (before < iterations && going_on_.pays(std::max(iterations - before, made_))) {
        run(before, recorder);
        iterations -= before;
        change();
      }
    }
    run(iterations, recorder);
  }

  void fetch(float* centroids, std::int32_t* labels) { at_work().fetch(centroids, labels); }

  /// The first iteration of the second family has no labels before it to compare with.
  [[nodiscard]] Progress progress() {
    Progress progress = at_work().progress();
    if (changed_ && since_change_ == 1) progress.changed.reset();
    return progress;
  }

 private:
  [[nodiscard]] Family& at_work() { return changed_ ? *later_ : *first_; }

  void run(std::int64_t iterations, StageRecorder* recorder) {
    if (iterations == 0) return;
    at_work().set_stage_recorder(recorder);
    at_work().step(iterations);
    at_work().set_stage_recorder(nullptr);
    made_ += iterations;
    since_change_ += iterations;
  }

  void change() {
    first_->fetch(centroids_.data(), nullptr);
    later_->reset(centroids_.data());
    changed_ = true;
    since_change_ = 0;
  }

  std::unique_ptr<Family> first_;
  std::unique_ptr<Family> later_;  // null: the first makes all iterations
  GoingOn going_on_{};
  std::vector<float> centroids_;  // k x d
  bool changed_ = false;          // since reset
  std::int64_t made_ = 0;         // iterations since reset
  std::int64_t since_change_ = 0;
};

}  // namespace kmeans::cuda
