// SPDX-License-Identifier: Apache-2.0
//
// What the misbehaving variants of the fault tests begin with: the reference, which is right.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "harness/variant.h"
#include "harness/variants/registry.h"

namespace kmeans::faults {

class WellBehaved : public Variant<float> {
 public:
  void setup(const Problem<float>& problem) override {
    problem_ = problem;
    inner_ = require_variant("reference").factory.make_float(Precision::f32);
    inner_->setup(problem);
  }
  void reset(const float* centroids) override {
    ++resets_;
    inner_->reset(centroids);
  }
  void step(std::int64_t iterations) override { inner_->step(iterations); }
  void fetch(float* centroids, std::int32_t* labels) override { inner_->fetch(centroids, labels); }

 protected:
  /// The harness certifies two runs, disturbs, then times.
  [[nodiscard]] bool timed() const { return resets_ > 3; }

  /// For longer than any time-out, without the processor.
  [[noreturn]] static void hang() {
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }

  Problem<float> problem_;

 private:
  std::unique_ptr<Variant<float>> inner_;
  int resets_ = 0;
};

}  // namespace kmeans::faults
