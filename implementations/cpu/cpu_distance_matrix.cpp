// SPDX-License-Identifier: Apache-2.0
//
// Idea:      keep the full n x k matrix of distances, square roots included; update one cluster
//            after the other, each by its own pass over all labels
// Parallel:  none
// Memory:    writes n x k distances and reads back one in k of them; the update reads all labels k
//            times and every point once
// Numerics:  distances and sums in the points' scalar, t and i ascending; the loss in float64;
//            deterministic
// Source:    zhihu2023, CPU class. Corrected: ties went to the highest index (<=); a point farther
//            than 10^4 from every centroid got the label -1; an empty cluster divided 0 by 0; the
//            loss was summed in one float, whose spacing exceeds the stopping threshold
#include <cmath>
#include <limits>

#include "implementations/_limits.h"
#include "implementations/cpu/_lloyd.h"
#include "implementations/cpu/_squared_distance.h"

namespace {

template <class T>
class CpuDistanceMatrix final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroid, Base::centroids_, Base::labels_, Base::point, Base::problem_, Base::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    Base::setup(problem);
    distances_.resize(problem.shape.n * problem.shape.k);
    sum_.resize(problem.shape.d);
  }

  // The source stops when the loss hardly changes: this one but for its sum, a float there.
  kmeans::Progress progress() override { return {.movement = {}, .changed = {}, .loss = loss_}; }

 private:
  void iterate() override {
    assign();
    update();
  }

  void assign() {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = problem_.shape;
    loss_ = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      T nearest_square = std::numeric_limits<T>::infinity();
      std::int64_t nearest = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const T square = kmeans::plain::squared_distance(point(i), centroid(j), d);
        distances_[i * k + j] = std::sqrt(square);
        if (square < nearest_square) {  // strictly: the lowest index wins a tie
          nearest_square = square;
          nearest = j;
        }
      }
      labels_[i] = static_cast<std::int32_t>(nearest);
      loss_ += static_cast<double>(distances_[i * k + nearest]);
    }
  }

  void update() {
    const auto timed = stage("update");
    const auto [n, d, k, precision] = problem_.shape;
    for (std::int64_t j = 0; j < k; ++j) {
      std::fill(sum_.begin(), sum_.end(), T{0});
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        if (labels_[i] != j) continue;
        const T* coordinates = point(i);
        for (std::int64_t t = 0; t < d; ++t) sum_[t] += coordinates[t];
        count += 1;
      }
      if (count == 0) continue;  // an empty cluster keeps its centroid
      for (std::int64_t t = 0; t < d; ++t) {
        centroids_[j * d + t] = sum_[t] / static_cast<T>(count);
      }
    }
  }

  std::vector<T> distances_;  // n x k
  std::vector<T> sum_;        // d: of the cluster in turn
  double loss_ = 0;
};

}  // namespace

KMEANS_VARIANT(
    CpuDistanceMatrix, .name = "cpu_distance_matrix",
    .summary = "full n x k matrix of distances, then one pass over the data per cluster",
    .source = "zhihu2023", .precisions = {Precision::f32, Precision::f64}, .supports = sums_fit,
    .memory_bytes =
        [](const Sizes& s) {
          return s.scalar * s.n * s.k + 4 * s.n + s.scalar * (s.k + 1.0) * s.d;
        },
    .traffic =
        [](const Sizes& s) {
          const double points = s.scalar * s.n * s.d;
          // Assignment: every point for every centroid, one distance read back.
          // Update: all labels once per cluster; each point and the sum it is added to.
          return Traffic{
              .read_bytes = 2 * points * s.k + s.scalar * s.n + 4 * s.n * s.k + 2 * points,
              .written_bytes = s.scalar * s.n * s.k + 4 * s.n + points};
        })
