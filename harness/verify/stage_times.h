// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "harness/machine/gpu.h"
#include "harness/support/clock.h"
#include "harness/variant.h"

namespace kmeans {

/// Sums the seconds of each stage. Work on a GPU is waited for at both ends, or a stage would only
/// hold the time that its launches take.
class StageTimes final : public StageRecorder {
 public:
  explicit StageTimes(bool on_our_gpu) : on_our_gpu_(on_our_gpu) {}

  void begin(const char* stage) override {
    if (on_our_gpu_) gpu_synchronize();
    stage_ = stage;
    start_ = Clock::now();
  }
  void end() override {
    if (on_our_gpu_) gpu_synchronize();
    seconds_[stage_] += seconds_since(start_);
  }
  [[nodiscard]] std::map<std::string, double> per_iteration(std::int64_t iterations) const {
    auto result = seconds_;
    for (auto& [stage, seconds] : result) seconds /= static_cast<double>(iterations);
    return result;
  }

 private:
  bool on_our_gpu_;
  std::string stage_;
  Clock::time_point start_;
  std::map<std::string, double> seconds_;
};

}  // namespace kmeans
