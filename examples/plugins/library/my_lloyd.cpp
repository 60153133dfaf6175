// SPDX-License-Identifier: Apache-2.0
//
// A variant outside of the suite, to start from (docs/plugins.md). The calls are those of
// harness/variant.h: setup once, then reset, step and fetch.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "harness/variant.h"

namespace {

class MyLloyd final : public kmeans::Variant<float> {
 public:
  void setup(const kmeans::Problem<float>& problem) override {
    problem_ = problem;
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
  /// The label of every point: its nearest centroid, of equally near ones the first.
  void assign() {
    const auto timed = stage("assign");
    const std::int64_t d = problem_.shape.d;
    for (std::int64_t i = 0; i < problem_.shape.n; ++i) {
      float smallest = std::numeric_limits<float>::infinity();
      for (std::int64_t j = 0; j < problem_.shape.k; ++j) {
        float distance = 0;
        for (std::int64_t t = 0; t < d; ++t) {
          const float difference = problem_.points[i * d + t] - centroids_[j * d + t];
          distance += difference * difference;
        }
        if (distance < smallest) {
          smallest = distance;
          labels_[i] = static_cast<std::int32_t>(j);
        }
      }
    }
  }

  /// Every centroid: the mean of its points.
  void update() {
    const auto timed = stage("update");
    const std::int64_t d = problem_.shape.d;
    std::vector<double> sums(problem_.shape.k * d);
    std::vector<std::int64_t> counts(problem_.shape.k);
    for (std::int64_t i = 0; i < problem_.shape.n; ++i) {
      for (std::int64_t t = 0; t < d; ++t) {
        sums[labels_[i] * d + t] += static_cast<double>(problem_.points[i * d + t]);
      }
      ++counts[labels_[i]];
    }
    for (std::int64_t c = 0; c < problem_.shape.k * d; ++c) {
      const auto count = static_cast<double>(counts[c / d]);
      if (count > 0) centroids_[c] = static_cast<float>(sums[c] / count);  // else it stays
    }
  }

  kmeans::Problem<float> problem_;
  std::vector<float> centroids_;      // k x d
  std::vector<std::int32_t> labels_;  // n
};

}  // namespace

KMEANS_VARIANT(
    MyLloyd, .name = "my_lloyd", .summary = "Lloyd's algorithm in plain C++", .sums = Sums::wide,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + (12 * s.d + 8) * s.k; })
