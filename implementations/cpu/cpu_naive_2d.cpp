// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cpu_naive for points that are a structure of two coordinates: the distance is two
//            differences written out, so that no loop over d remains. What a first program in C++
//            looks like whose author knows that the data are planar
// Parallel:  none
// Memory:    setup copies the points into an array of structures. An iteration reads every point
//            once for the assignment and once more for the update; it writes and reads a label of
//            64 bits a point, and allocates its sums and counts again
// Numerics:  everything in the points' scalar, x before y, i ascending; deterministic
// Source:    goldsborough2017, plain C++, there in double. Corrected: an empty cluster's centroid
//            was set to the origin (0/1); here it stays
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "harness/variant.h"
#include "implementations/_limits.h"

namespace {

template <class T>
struct Point {
  T x{0};
  T y{0};
};

template <class T>
T squared_distance(Point<T> first, Point<T> second) {
  const T x = first.x - second.x;
  const T y = first.y - second.y;
  T sum = x * x;
  sum += y * y;
  return sum;
}

template <class T>
class CpuNaive2d final : public kmeans::Variant<T> {
  using kmeans::Variant<T>::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    points_.resize(problem.shape.n);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      points_[i] = {problem.points[2 * i], problem.points[2 * i + 1]};
    }
    labels_.resize(problem.shape.n);
    centroids_.resize(problem.shape.k);
  }

  void reset(const T* centroids) override {
    for (std::size_t j = 0; j < centroids_.size(); ++j) {
      centroids_[j] = {centroids[2 * j], centroids[2 * j + 1]};
    }
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      assign();
      update();
    }
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    for (std::size_t j = 0; j < centroids_.size(); ++j) {
      centroids[2 * j] = centroids_[j].x;
      centroids[2 * j + 1] = centroids_[j].y;
    }
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      labels[i] = static_cast<std::int32_t>(labels_[i]);
    }
  }

 private:
  void assign() {
    const auto timed = stage("assign");
    for (std::size_t i = 0; i < points_.size(); ++i) {
      T nearest_distance = std::numeric_limits<T>::infinity();
      std::size_t nearest = 0;
      for (std::size_t j = 0; j < centroids_.size(); ++j) {
        const T distance = squared_distance(points_[i], centroids_[j]);
        if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
          nearest_distance = distance;
          nearest = j;
        }
      }
      labels_[i] = nearest;
    }
  }

  void update() {
    const auto timed = stage("update");
    std::vector<Point<T>> sums(centroids_.size());
    std::vector<std::size_t> counts(centroids_.size(), 0);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const std::size_t label = labels_[i];
      sums[label].x += points_[i].x;
      sums[label].y += points_[i].y;
      counts[label] += 1;
    }
    for (std::size_t j = 0; j < centroids_.size(); ++j) {
      if (counts[j] == 0) continue;  // an empty cluster keeps its centroid
      centroids_[j].x = sums[j].x / static_cast<T>(counts[j]);
      centroids_[j].y = sums[j].y / static_cast<T>(counts[j]);
    }
  }

  std::vector<Point<T>> points_;     // n
  std::vector<Point<T>> centroids_;  // k
  std::vector<std::size_t> labels_;  // n
};

}  // namespace

KMEANS_VARIANT(
    CpuNaive2d, .name = "cpu_naive_2d",
    .summary = "assign every point, then recompute every mean; points are pairs x, y: d = 2 only",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .supports =
        [](const Shape& s) {
          if (s.d == 2) return sums_fit(s);
          return Support::no("d = " + std::to_string(s.d) +
                             ": its points are pairs of coordinates x and y, d = 2");
        },
    .memory_bytes =
        [](const Sizes& s) {
          const double point = 2 * s.scalar;
          return (point + 12.0) * s.n + (2 * point + 8.0) * s.k;
        },
    .traffic =
        [](const Sizes& s) {
          const double points = 2 * s.scalar * s.n;
          const double labels = 8 * s.n;
          // Assignment: every point once, every centroid for each. Update: points and labels,
          // and the sums and counts that they are added to.
          return Traffic{.read_bytes = points + points * s.k + 2 * points + 2 * labels,
                         .written_bytes = labels + points + 8 * s.n};
        })
