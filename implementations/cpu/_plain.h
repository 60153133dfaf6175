// SPDX-License-Identifier: Apache-2.0
//
// What the plain variants have in common, so that their files hold only what sets them apart.
// cpu_naive.cpp takes only the helpers for its traits: there the whole contract can be read in one
// file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "harness/variant.h"
#include "implementations/_stage_work.h"

namespace kmeans::plain {
// Unnamed on purpose: variants are compiled with different options, and of one inline function the
// linker would keep a single copy, with whichever options it had.
namespace {

/// Size of one coordinate.
[[maybe_unused]] inline double scalar_bytes(const Shape& shape) {
  return shape.precision == Precision::f64 ? 8.0 : 4.0;
}

/// Labels are 32-bit.
[[maybe_unused]] inline Support labels_fit(const Shape& shape) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (shape.k <= kMost) return Support::yes();
  return Support::no("k = " + std::to_string(shape.k) + " exceeds the " + std::to_string(kMost) +
                     " clusters that 32-bit labels can tell apart");
}

/// labels_fit, and the limit of variants that add points one by one to a sum of their own scalar:
/// in float32 a sum of 2^24 alike points no longer grows by one more.
[[maybe_unused]] inline Support sums_fit(const Shape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (shape.precision == Precision::f64 || shape.n / shape.k < kMost) return labels_fit(shape);
  return Support::no("n = " + std::to_string(shape.n) + ", k = " + std::to_string(shape.k) +
                     ": some cluster has " + std::to_string(kMost) +
                     " points or more, and a float32 sum of so many does not grow by another one");
}

/// What the update of row-major points moves: points and labels, and the sums that they are added
/// to.
[[maybe_unused]] inline Traffic update_traffic(const Shape& shape) {
  const double points = scalar_bytes(shape) * shape.n * shape.d;
  return {.read_bytes = 2 * points + 4.0 * shape.n, .written_bytes = points};
}

/// Labelling point by point and comparing each label with its predecessor, then the update.
[[maybe_unused]] inline std::vector<StageWork> label_and_update_work(const Shape& shape) {
  // Every point beside every centroid, old and new labels.
  const double distances = 2 * scalar_bytes(shape) * shape.n * shape.d * shape.k;
  return {
      assign_work(shape, {.read_bytes = distances + 4.0 * shape.n, .written_bytes = 4.0 * shape.n}),
      update_work(shape, update_traffic(shape))};
}

/// Sums and counts of the points of each cluster; Sum is the scalar that they are summed in.
template <class Sum>
class ClusterSums {
 public:
  void resize(std::int64_t k, std::int64_t d) {
    d_ = d;
    sums_.resize(k * d);
    counts_.resize(k);
  }

  void clear() {
    std::fill(sums_.begin(), sums_.end(), Sum{0});
    std::fill(counts_.begin(), counts_.end(), 0);
  }

  /// point: d coordinates.
  template <class T>
  void add(std::int64_t j, const T* point) {
    Sum* __restrict sum = sums_.data() + j * d_;
    for (std::int64_t t = 0; t < d_; ++t) sum[t] += point[t];
    counts_[j] += 1;
  }

  /// Adds another's sums of clusters begin <= j < end.
  void add(const ClusterSums& other, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * d_; at < end * d_; ++at) sums_[at] += other.sums_[at];
    for (std::int64_t j = begin; j < end; ++j) counts_[j] += other.counts_[j];
  }

  /// Moves the centroids (k x d) of clusters begin <= j < end to their means; an empty cluster
  /// keeps its centroid. Returns the sum of squared movements.
  template <class T>
  double move(T* centroids, std::int64_t begin, std::int64_t end) const {
    double movement = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      if (counts_[j] == 0) continue;
      for (std::int64_t at = j * d_; at < (j + 1) * d_; ++at) {
        const T mean = static_cast<T>(sums_[at] / static_cast<Sum>(counts_[j]));
        const double moved = static_cast<double>(mean) - static_cast<double>(centroids[at]);
        movement += moved * moved;
        centroids[at] = mean;
      }
    }
    return movement;
  }

 private:
  std::int64_t d_ = 0;
  std::vector<Sum> sums_;             // k x d
  std::vector<std::int64_t> counts_;  // k
};

/// Everything of the contract but the iteration itself.
template <class T>
class PlainLloyd : public Variant<T> {
 public:
  void setup(const Problem<T>& problem) override {
    problem_ = problem;
    labels_.resize(problem.shape.n);
  }

  void reset(const T* centroids) override {
    centroids_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    std::fill(labels_.begin(), labels_.end(), -1);  // no label yet: all will have changed
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) iterate();
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 protected:
  virtual void iterate() = 0;

  [[nodiscard]] const T* point(std::int64_t i) const {
    return problem_.points + i * problem_.shape.d;
  }
  [[nodiscard]] const T* centroid(std::int64_t j) const {
    return centroids_.data() + j * problem_.shape.d;
  }

  Problem<T> problem_;
  std::vector<T> centroids_;          // k x d
  std::vector<std::int32_t> labels_;  // n
};

/// Squared distance of two rows of d coordinates, summed in their own scalar, t ascending: one
/// coordinate after another.
template <class T>
T squared_distance_in_order(const T* point, const T* centroid, std::int64_t d) {
  T sum = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const T difference = point[t] - centroid[t];
    sum += difference * difference;
  }
  return sum;
}

/// The same. A sum in a fixed order may not be spread over SIMD lanes, but GCC subtracts and
/// squares in lanes and then adds up lane after lane. Up to three coordinates that costs more than
/// it gains, most in float32 (docs/variants.md), so these have loops of their own, which have known
/// lengths.
template <class T>
T squared_distance(const T* point, const T* centroid, std::int64_t d) {
  if (d == 1) return squared_distance_in_order(point, centroid, 1);
  if (d == 2) return squared_distance_in_order(point, centroid, 2);
  if (d == 3) return squared_distance_in_order(point, centroid, 3);
  return squared_distance_in_order(point, centroid, d);
}

}  // namespace
}  // namespace kmeans::plain
