// SPDX-License-Identifier: Apache-2.0
//
// Flags: -Wno-uninitialized -Wno-maybe-uninitialized
//
// Idea:      whole-array expressions: each coordinate of the points, replicated k times over, minus
//            the centroids broadcast over the rows gives the n x k array of distances at once
// Parallel:  none
// Memory:    d replicas of n x k values are kept, so an iteration reads k times the points from
//            memory; the n x k distances are written, and read back row by row
// Numerics:  everything in the points' scalar; two coordinates per expression, pairs in ascending
//            order; deterministic
// Source:    goldsborough2017, Eigen version, there for d = 2 in double. Corrected: counts began at
//            one, which drew every mean towards the origin. (Its seeding, which gave both
//            coordinates of a mean one scalar, has no counterpart here)
// The flags silence g++ 12 on its own AVX-512 intrinsics, which Eigen calls.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/variant.h"
#include "implementations/_limits.h"

namespace {

template <class T>
class EigenBroadcast final : public kmeans::Variant<T> {
  using kmeans::Variant<T>::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    const auto [n, d, k, precision] = problem.shape;
    labels_.resize(n);
    distances_.resize(n, k);
    new (&points_) Points(problem.points, n, d);
    replicas_.clear();
    replicas_.reserve(d);
    for (std::int64_t t = 0; t < d; ++t) {
      replicas_.push_back(points_.col(t).rowwise().replicate(k));
    }
  }

  void reset(const T* centroids) override {
    centroids_ = Points(centroids, distances_.cols(), points_.cols());
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      compute_distances();
      assign_and_update();
    }
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    Eigen::Map<RowMajor>(centroids, centroids_.rows(), centroids_.cols()) = centroids_;
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 private:
  using Array = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic>;
  using RowMajor = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Points = Eigen::Map<const RowMajor>;

  /// Squared differences of coordinate t, n x k, as an expression that is evaluated later.
  auto squares(std::int64_t t) const {
    return (replicas_[t].rowwise() - centroids_.col(t).transpose()).square();
  }

  void compute_distances() {
    const auto timed = stage("assign");
    const std::int64_t d = points_.cols();
    // Two coordinates per pass over the array: for d = 2 the source's single expression.
    if (d == 1) {
      distances_ = squares(0);
    } else {
      distances_ = squares(0) + squares(1);
    }
    for (std::int64_t t = 2; t + 1 < d; t += 2) distances_ += squares(t) + squares(t + 1);
    if (d > 2 && d % 2 == 1) distances_ += squares(d - 1);
  }

  // As in the source, one loop finds the smallest of a row and sums up the points.
  void assign_and_update() {
    const auto timed = stage("update");
    Array sums = Array::Zero(centroids_.rows(), centroids_.cols());
    Eigen::Array<T, Eigen::Dynamic, 1> counts =
        Eigen::Array<T, Eigen::Dynamic, 1>::Zero(centroids_.rows());
    for (std::int64_t i = 0; i < points_.rows(); ++i) {
      Eigen::Index nearest = 0;
      distances_.row(i).minCoeff(&nearest);  // the first of equal ones: the lowest index
      labels_[i] = static_cast<std::int32_t>(nearest);
      sums.row(nearest) += points_.row(i);
      counts(nearest) += 1;
    }
    for (std::int64_t j = 0; j < centroids_.rows(); ++j) {
      if (counts(j) > 0) centroids_.row(j) = sums.row(j) / counts(j);  // else it stays
    }
  }

  Points points_{nullptr, 0, 0};      // n x d
  std::vector<Array> replicas_;       // d times n x k: column t of the points in every column
  Array distances_;                   // n x k
  Array centroids_;                   // k x d
  std::vector<std::int32_t> labels_;  // n
};

}  // namespace

KMEANS_VARIANT(
    EigenBroadcast, .name = "eigen_broadcast",
    .summary = "whole-array expressions on replicated points and broadcast centroids",
    .source = "goldsborough2017", .precisions = {Precision::f32, Precision::f64},
    .supports = sums_fit,
    .memory_bytes =
        [](const Sizes& s) {
          return s.scalar * s.n * s.k * (s.d + 1.0) + 4 * s.n + s.scalar * s.k * (2 * s.d + 1);
        },
    .traffic =
        [](const Sizes& s) {
          const double points = s.scalar * s.n * s.d;
          const double matrix = s.scalar * s.n * s.k;
          // Every pass over a pair of coordinates writes the distances, and each but the
          // first reads them; the search reads them once more.
          const double passes = std::floor((s.d + 1) / 2);
          return Traffic{.read_bytes = 2 * matrix * s.d + matrix * passes + 2 * points,
                         .written_bytes = matrix * passes + 4 * s.n + points};
        })
