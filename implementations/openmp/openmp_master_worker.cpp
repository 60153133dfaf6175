// SPDX-License-Identifier: Apache-2.0
//
// Flags: -fno-tree-vectorize -fno-tree-slp-vectorize -ffp-contract=off
//
// Idea:      k-means on a shared-memory machine as the source divides it: all threads label, then
//            the master alone moves the centroids. Relative to cpu_scalar, compiled like it, only
//            the labelling is parallel
// Parallel:  each thread labels one contiguous part of the points; thread 0 is the master, which
//            goes over all labels while the others wait at a barrier
// Memory:    reads every point once for the labels and once more, by the master, for the means
// Numerics:  everything in the points' scalar, t and i ascending, each operation rounded on its
//            own: the bits of cpu_scalar, at any number of threads
// Source:    zechner2009, Algorithm 2. Drawing the first centroids and the test for convergence are
//            the harness's here
#include <omp.h>

#include <limits>
#include <vector>

#include "implementations/_stage_work.h"
#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_lloyd.h"
#include "implementations/cpu/_squared_distance.h"

namespace {

template <class T>
class OpenmpMasterWorker final : public kmeans::plain::PlainLloyd<T> {
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

  void step(std::int64_t iterations) override {
#pragma omp parallel num_threads(problem_.threads)
    {
      const int thread = omp_get_thread_num();
      const int threads = omp_get_num_threads();
      const std::int64_t n = problem_.shape.n;
      for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
        {
          const auto timed = stage_of(thread, "assign");
          label(n * thread / threads, n * (thread + 1) / threads);
#pragma omp barrier
        }
        const auto timed = stage_of(thread, "update");
        if (thread == 0) update();
#pragma omp barrier
      }
    }
  }

 protected:
  // Here the loop over iterations lies within the parallel region, in step().
  void iterate() override { step(1); }

 private:
  /// Stages are marked by the master alone.
  kmeans::StageScope stage_of(int thread, const char* name) {
    return thread == 0 ? stage(name) : kmeans::StageScope(nullptr, name);
  }

  void label(std::int64_t begin, std::int64_t end) {
    const std::int64_t d = problem_.shape.d;
    const std::int64_t k = problem_.shape.k;
    for (std::int64_t i = begin; i < end; ++i) {
      T nearest_distance = std::numeric_limits<T>::infinity();
      std::int32_t nearest = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const T distance = kmeans::plain::squared_distance_in_order(point(i), centroid(j), d);
        if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
          nearest_distance = distance;
          nearest = static_cast<std::int32_t>(j);
        }
      }
      labels_[i] = nearest;
    }
  }

  void update() {
    sums_.clear();
    for (std::int64_t i = 0; i < problem_.shape.n; ++i) {
      sums_.add(labels_[i], point(i));
    }
    movement_ = sums_.move(centroids_.data(), 0, problem_.shape.k);
  }

  kmeans::plain::ClusterSums<T> sums_;
  double movement_ = 0;
};

std::vector<kmeans::StageWork> stage_work(const kmeans::Sizes& s) {
  // Labelling: every point for every centroid; labels are written and not compared.
  const double distances = 2 * s.scalar * s.n * s.d * s.k;
  return {kmeans::assign_work(s, {.read_bytes = distances, .written_bytes = 4 * s.n}),
          kmeans::update_work(s, kmeans::update_traffic(s))};
}

}  // namespace

KMEANS_VARIANT(
    OpenmpMasterWorker, .name = "openmp_master_worker",
    .summary = "all threads label a part of the points each, then the master alone updates",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64}, .parallel = true,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + (2 * s.scalar * s.d + 8.0) * s.k; },
    .traffic = [](const Sizes& s) { return total_traffic(stage_work(s)); },
    .stage_work = stage_work)
