// SPDX-License-Identifier: Apache-2.0
//
// Flags: -fno-tree-vectorize -fno-tree-slp-vectorize -ffp-contract=off
//
// Idea:      sequential k-means as a compiler without vectorisation builds it: one coordinate at a
//            time, no SIMD, no fused multiply-add. The baseline under cpu_simd_rows and cpu_simd
// Parallel:  none
// Memory:    reads every point once for the labels and once more for the means
// Numerics:  everything in the points' scalar, t and i ascending; each operation rounded on its
//            own; deterministic
// Source:    zechner2009, Algorithm 1, its Visual C++ build. The source's model counts a square
//            root per distance; the nearest centroid does not depend on it, so it is left out. An
//            empty cluster, on which the source is silent, keeps its centroid
#include "implementations/cpu/_plain.h"

namespace {

template <class T>
class CpuScalar final : public kmeans::plain::PlainLloyd<T> {
 public:
  void setup(const kmeans::Problem<T>& problem) override {
    kmeans::plain::PlainLloyd<T>::setup(problem);
    sums_.resize(problem.shape.k, problem.shape.d);
  }

  // The source stops when no label changes.
  kmeans::Progress progress() override {
    return {.movement = movement_, .changed = changed_, .loss = {}};
  }

 private:
  void iterate() override {
    label();
    update();
  }

  void label() {
    const auto timed = this->stage("assign");
    const auto [n, d, k, precision] = this->problem_.shape;
    changed_ = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      T nearest_distance = std::numeric_limits<T>::infinity();
      std::int32_t nearest = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const T distance =
            kmeans::plain::squared_distance_in_order(this->point(i), this->centroid(j), d);
        if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
          nearest_distance = distance;
          nearest = static_cast<std::int32_t>(j);
        }
      }
      changed_ += this->labels_[i] != nearest ? 1 : 0;
      this->labels_[i] = nearest;
    }
  }

  void update() {
    const auto timed = this->stage("update");
    sums_.clear();
    for (std::int64_t i = 0; i < this->problem_.shape.n; ++i) {
      sums_.add(this->labels_[i], this->point(i));
    }
    movement_ = sums_.move(this->centroids_.data(), 0, this->problem_.shape.k);
  }

  kmeans::plain::ClusterSums<T> sums_;
  std::int64_t changed_ = 0;
  double movement_ = 0;
};

}  // namespace

KMEANS_VARIANT(
    CpuScalar, .name = "cpu_scalar",
    .summary = "sequential k-means with vectorisation off: one coordinate at a time",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
    .supports = plain::sums_fit,
    .memory_bytes =
        [](const Shape& s) { return 4.0 * s.n + (2 * plain::scalar_bytes(s) * s.d + 8.0) * s.k; },
    .traffic = [](const Shape& s) { return total_traffic(plain::label_and_update_work(s)); },
    .stage_work = plain::label_and_update_work)
