// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      the exact Lloyd step (docs/exact-step.md), written to be read, not to be fast
// Parallel:  none
// Memory:    reads every point twice and every centroid once per point; nothing blocked
// Numerics:  labels by float64 distances, t ascending, no fused multiply-add; sums in 64-bit fixed
//            point, times weights where there are any, so no order of summation can change them
// Source:    docs/exact-step.md
#include <limits>
#include <vector>

#include "harness/exact_step.h"
#include "harness/variant.h"

namespace {

class Reference final : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override {
    problem_ = problem;
    const auto& counted = problem.counted;
    const int s = counted.weights != nullptr
                      ? kmeans::exact::sum_exponent(counted.scale_n, counted.max_abs)
                      : kmeans::exact::sum_exponent(problem.shape.n, problem.max_abs);
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    labels_.resize(problem.shape.n);
  }

  void reset(const float* centroids) override {
    centroids_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      assign();
      update();
    }
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 private:
  void assign() {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = problem_.shape;
    for (std::int64_t i = 0; i < n; ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < k; ++j) {
        const double distance =
            kmeans::exact::squared_distance(problem_.points + i * d, centroids_.data() + j * d, d);
        if (distance < nearest) {  // strictly: the lowest index wins a tie
          nearest = distance;
          labels_[i] = static_cast<std::int32_t>(j);
        }
      }
    }
  }

  void update() {
    const auto timed = stage("update");
    const auto [n, d, k, precision] = problem_.shape;
    std::vector<__int128> sums(k * d, 0);  // without weights, 64 bits hold them
    std::vector<std::int64_t> counts(k, 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t j = labels_[i];
      const std::int64_t weight = problem_.counted.weight(i);
      counts[j] += weight;
      for (std::int64_t t = 0; t < d; ++t) {
        const float coordinate = problem_.points[i * d + t];
        sums[j * d + t] += __int128{weight} * kmeans::exact::to_fixed_point(coordinate, scale_);
      }
    }
    for (std::int64_t j = 0; j < k; ++j) {
      if (counts[j] == 0) continue;  // an empty cluster keeps its centroid
      if (problem_.spherical) {
        const auto sum_of = [&](std::int64_t t) { return static_cast<double>(sums[j * d + t]); };
        kmeans::exact::direction_of(sum_of, d, centroids_.data() + j * d);
        continue;
      }
      for (std::int64_t t = 0; t < d; ++t) {
        const auto sum = static_cast<double>(sums[j * d + t]);
        centroids_[j * d + t] = kmeans::exact::mean_of(sum, counts[j], inverse_scale_);
      }
    }
  }

  kmeans::Problem<float> problem_;
  double scale_ = 1;
  double inverse_scale_ = 1;
  std::vector<float> centroids_;      // k x d
  std::vector<std::int32_t> labels_;  // n
};

}  // namespace

KMEANS_VARIANT(
    Reference, .name = "reference",
    .summary = "the exact Lloyd step, slow and obvious; defines every right answer", .exact = true,
    .engine = true, .weights = true, .spherical = true,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + 20.0 * s.k * s.d; },
    .traffic =
        [](const Sizes& s) {
          return Traffic{.read_bytes = 4 * s.n * s.d * (1.0 + s.k) + 4 * s.n * s.k * s.d,
                         .written_bytes = 4 * s.n};
        })
