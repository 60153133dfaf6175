// SPDX-License-Identifier: Apache-2.0
//
// Steps of a variant that take longer on purpose, to see what `compare` finds.
#pragma once

#include <chrono>
#include <optional>

#include "harness/variant.h"

namespace kmeans {

template <class T>
class SlowedSteps final : public Variant<T> {
 public:
  /// `share`: of a step's own time, that it takes longer.
  SlowedSteps(Variant<T>& variant, double share) : variant_(variant), share_(share) {}

  void setup(const Problem<T>& problem) override { variant_.setup(problem); }
  void reset(const T* centroids) override { variant_.reset(centroids); }
  void fetch(T* centroids, std::int32_t* labels) override { variant_.fetch(centroids, labels); }

  void step(std::int64_t iterations) override {
    const auto start = std::chrono::steady_clock::now();
    variant_.step(iterations);
    const auto own = std::chrono::steady_clock::now() - start;
    const auto end = start + own * (1 + share_);
    while (std::chrono::steady_clock::now() < end) continue;
  }

  [[nodiscard]] std::optional<double> remote_step_seconds() const override {
    const auto seconds = variant_.remote_step_seconds();
    return seconds ? std::optional(*seconds * (1 + share_)) : std::nullopt;
  }

 private:
  Variant<T>& variant_;
  double share_;
};

}  // namespace kmeans
