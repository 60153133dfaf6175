// SPDX-License-Identifier: Apache-2.0
//
// Idea:      Lloyd's algorithm by the book, for any d: assign every point, then recompute every
//            mean. The file to copy for a new variant: it shows the whole contract
// Parallel:  none
// Memory:    reads every point once for the assignment and once more for the update; centroids and
//            sums are small and stay in cache
// Numerics:  everything in the points' scalar, t and i ascending; deterministic
// Source:    goldsborough2017, the idea of its plain C++; the program itself is cpu_naive_2d
#include <algorithm>
#include <limits>
#include <vector>

#include "harness/variant.h"
#include "implementations/_limits.h"
#include "implementations/cpu/_squared_distance.h"

namespace {

template <class T>
class CpuNaive final : public kmeans::Variant<T> {
  using kmeans::Variant<T>::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    problem_ = problem;
    labels_.resize(problem.shape.n);
    sums_.resize(problem.shape.k * problem.shape.d);
    counts_.resize(problem.shape.k);
  }

  void reset(const T* centroids) override {
    centroids_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      assign();
      update();
    }
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 private:
  void assign() {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = problem_.shape;
    for (std::int64_t i = 0; i < n; ++i) {
      const T* point = problem_.points + i * d;
      T nearest_distance = std::numeric_limits<T>::infinity();
      std::int64_t nearest = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const T* centroid = centroids_.data() + j * d;
        const T distance = kmeans::plain::squared_distance(point, centroid, d);
        if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
          nearest_distance = distance;
          nearest = j;
        }
      }
      labels_[i] = static_cast<std::int32_t>(nearest);
    }
  }

  void update() {
    const auto timed = stage("update");
    const auto [n, d, k, precision] = problem_.shape;
    std::fill(sums_.begin(), sums_.end(), T{0});
    std::fill(counts_.begin(), counts_.end(), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const T* point = problem_.points + i * d;
      T* __restrict sum = sums_.data() + labels_[i] * d;
      for (std::int64_t t = 0; t < d; ++t) sum[t] += point[t];
      counts_[labels_[i]] += 1;
    }
    for (std::int64_t j = 0; j < k; ++j) {
      if (counts_[j] == 0) continue;  // an empty cluster keeps its centroid
      for (std::int64_t t = 0; t < d; ++t) {
        centroids_[j * d + t] = sums_[j * d + t] / static_cast<T>(counts_[j]);
      }
    }
  }

  kmeans::Problem<T> problem_;
  std::vector<T> centroids_;          // k x d
  std::vector<T> sums_;               // k x d
  std::vector<std::int64_t> counts_;  // k
  std::vector<std::int32_t> labels_;  // n
};

}  // namespace

KMEANS_VARIANT(
    CpuNaive, .name = "cpu_naive",
    .summary = "assign every point, then recompute every mean, in two passes",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .supports = sums_fit,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + (2 * s.scalar * s.d + 8.0) * s.k; },
    .traffic =
        [](const Sizes& s) {
          const double points = s.scalar * s.n * s.d;
          const double labels = 4 * s.n;
          // Assignment: every point for every centroid. Update: points and labels,
          // and the sums that they are added to.
          return Traffic{.read_bytes = 2 * points * s.k + 2 * points + labels,
                         .written_bytes = labels + points};
        })
