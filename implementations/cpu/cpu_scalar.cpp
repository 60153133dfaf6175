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
#include "implementations/_limits.h"
#include "implementations/_stage_work.h"
#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_label_in_order.h"
#include "implementations/cpu/_lloyd.h"

namespace {

template <class T>
class CpuScalar final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroids_, Base::labels_, Base::point, Base::problem_, Base::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    Base::setup(problem);
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
    const auto timed = stage("assign");
    changed_ = kmeans::plain::label_in_order(problem_, centroids_.data(), labels_.data());
  }

  void update() {
    const auto timed = stage("update");
    sums_.clear();
    for (std::int64_t i = 0; i < problem_.shape.n; ++i) {
      sums_.add(labels_[i], point(i));
    }
    movement_ = sums_.move(centroids_.data(), 0, problem_.shape.k);
  }

  kmeans::plain::ClusterSums<T> sums_;
  std::int64_t changed_ = 0;
  double movement_ = 0;
};

}  // namespace

KMEANS_VARIANT(
    CpuScalar, .name = "cpu_scalar",
    .summary = "sequential k-means with vectorisation off: one coordinate at a time",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64}, .supports = sums_fit,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + (2 * s.scalar * s.d + 8.0) * s.k; },
    .traffic = [](const Sizes& s) { return total_traffic(label_and_update_work(s)); },
    .stage_work = label_and_update_work)
