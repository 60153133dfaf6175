// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cpu_naive in one pass: a point is added to its cluster's sum as soon as its label is
//            known, while its coordinates are still at hand
// Parallel:  none
// Memory:    reads every point once an iteration; k x d sums live in cache next to the centroids
// Numerics:  everything in the points' scalar, t and i ascending; deterministic. The movement is
//            summed in float64
// Source:    marinai2023, sequential version, with its sum of squared movements for the stop rule.
//            Corrected: the source leaves the "old" centroid of an empty cluster as it was when the
//            cluster last had points, so its movement never falls to 0 and the loop never stops;
//            sums and counts are cleared in every iteration (printed: never)
#include <limits>

#include "implementations/_limits.h"
#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_lloyd.h"
#include "implementations/cpu/_squared_distance.h"

namespace {

template <class T>
class CpuFused final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroid, Base::centroids_, Base::labels_, Base::point, Base::problem_, Base::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    Base::setup(problem);
    sums_.resize(problem.shape.k, problem.shape.d);
  }

  kmeans::Progress progress() override {
    return {.movement = movement_, .changed = {}, .loss = {}};
  }

 private:
  void iterate() override {
    sums_.clear();
    assign_and_accumulate();
    const auto timed = stage("update");
    movement_ = sums_.move(centroids_.data(), 0, problem_.shape.k);
  }

  void assign_and_accumulate() {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = problem_.shape;
    for (std::int64_t i = 0; i < n; ++i) {
      const T* coordinates = point(i);
      T nearest_distance = std::numeric_limits<T>::infinity();
      std::int64_t nearest = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const T distance = kmeans::plain::squared_distance(coordinates, centroid(j), d);
        if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
          nearest_distance = distance;
          nearest = j;
        }
      }
      labels_[i] = static_cast<std::int32_t>(nearest);
      sums_.add(nearest, coordinates);
    }
  }

  kmeans::plain::ClusterSums<T> sums_;
  double movement_ = 0;
};

}  // namespace

KMEANS_VARIANT(
    CpuFused, .name = "cpu_fused",
    .summary = "one pass: each point is added to its cluster as soon as it is labelled",
    .source = "marinai2023", .precisions = {Precision::f32, Precision::f64}, .supports = sums_fit,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + (2 * s.scalar * s.d + 8.0) * s.k; },
    .traffic =
        [](const Sizes& s) {
          const double points = s.scalar * s.n * s.d;
          // Every point for every centroid, then the sum that it is added to.
          return Traffic{.read_bytes = 2 * points * s.k + points,
                         .written_bytes = 4 * s.n + points};
        })
