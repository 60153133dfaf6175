// SPDX-License-Identifier: Apache-2.0
//
// Variants that are wrong, or right without having worked, or say untrue things about time.
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "tests/faults/variants/_well_behaved.h"

namespace {

using kmeans::faults::WellBehaved;

class GarbageLabels final : public WellBehaved {
  void fetch(float* centroids, std::int32_t* labels) override {
    WellBehaved::fetch(centroids, labels);
    for (std::int64_t i = 0; i < problem_.shape.n; i += 2) labels[i] = 0x7FFFFFF0;
  }
};

class WritesNoLabels final : public WellBehaved {
  void fetch(float* centroids, std::int32_t* /*labels*/) override {
    std::vector<std::int32_t> own(static_cast<std::size_t>(problem_.shape.n));
    WellBehaved::fetch(centroids, own.data());
  }
};

class NanCentroids final : public WellBehaved {
  void fetch(float* centroids, std::int32_t* labels) override {
    WellBehaved::fetch(centroids, labels);
    centroids[0] = std::numeric_limits<float>::quiet_NaN();
  }
};

class WrongWhenTimed final : public WellBehaved {
  void fetch(float* centroids, std::int32_t* labels) override {
    WellBehaved::fetch(centroids, labels);
    if (timed()) std::fill(labels, labels + problem_.shape.n, 0);
  }
};

// The answer is still there from earlier runs: from some reset on, it does nothing any more.
template <int kResets>
class Idle : public WellBehaved {
  void reset(const float* centroids) override {
    if (++resets_ <= kResets) WellBehaved::reset(centroids);
  }
  void step(std::int64_t iterations) override {
    if (resets_ <= kResets) WellBehaved::step(iterations);
  }
  int resets_ = 0;
};
class IdleWhenTimed final : public Idle<3> {};
class RepeatsItself final : public Idle<2> {};

class NoTime : public WellBehaved {
 public:
  [[nodiscard]] std::optional<double> remote_step_seconds() const override { return 0.0; }
};

class BackwardTime final : public WellBehaved {
  [[nodiscard]] std::optional<double> remote_step_seconds() const override { return -1.0; }
};

class NanTime final : public WellBehaved {
  [[nodiscard]] std::optional<double> remote_step_seconds() const override {
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// The one point is the one centroid: right without any work, in less time than a clock's tick.
class Instant final : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override { point_ = problem.points[0]; }
  void reset(const float* /*centroids*/) override {}
  void step(std::int64_t /*iterations*/) override {}
  void fetch(float* centroids, std::int32_t* labels) override {
    centroids[0] = point_;
    labels[0] = 0;
  }

 private:
  float point_ = 0;
};

}  // namespace

KMEANS_VARIANT(GarbageLabels, .name = "fault_garbage_labels",
               .summary = "labels far outside [0, k)")
KMEANS_VARIANT(WritesNoLabels, .name = "fault_writes_no_labels",
               .summary = "hands out no labels at all")
KMEANS_VARIANT(NanCentroids, .name = "fault_nan_centroids", .summary = "a centroid that is NaN")
KMEANS_VARIANT(WrongWhenTimed, .name = "fault_wrong_when_timed",
               .summary = "right while it is verified, wrong when it is timed")
KMEANS_VARIANT(IdleWhenTimed, .name = "fault_idle_when_timed",
               .summary = "does nothing when it is timed: the answer is there already")
KMEANS_VARIANT(RepeatsItself, .name = "fault_repeats_itself",
               .summary = "gives the certified answer again, whatever it is asked")
KMEANS_VARIANT(NoTime, .name = "fault_no_time", .summary = "its steps take exactly 0 s")
KMEANS_VARIANT(BackwardTime, .name = "fault_backward_time", .summary = "its steps take -1 s")
KMEANS_VARIANT(NanTime, .name = "fault_nan_time", .summary = "its steps take NaN s")
KMEANS_VARIANT(
    Instant, .name = "fault_instant", .summary = "needs less time than a clock's tick",
    .supports = [](const Shape& s) {
      return s.n == 1 && s.d == 1 ? Support::yes() : Support::no("only 1 x 1");
    })
