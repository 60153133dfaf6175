// SPDX-License-Identifier: Apache-2.0
//
// Flags: -fno-tree-vectorize -fno-tree-slp-vectorize -ffp-contract=off
//
// Idea:      cpu_scalar with its operations on vectors in SSE3: a register holds four consecutive
//            coordinates of a point (two in float64), in distances, additions and the scaling of
//            centroids. Relative to cpu_simd, whose lanes hold points, d decides what it gains: a
//            distance ends with its lanes being added up. With d below 4 asking in each distance
//            which registers it fills would take as long as the distance: cpu_scalar's loop labels
// Parallel:  none; 4 float32 lanes, 2 of float64, along d
// Memory:    row-major points as given, read once for the labels and once more for the means
// Numerics:  direct differences in the points' scalar; four registers of partial sums, then a
//            horizontal addition, then the d mod 4 coordinates that fill no register, one by one:
//            the same order whatever the processor. No fused multiply-add; deterministic; with d
//            below 4 the bits of cpu_scalar
// Source:    zechner2009, Algorithm 1, its Intel C++ build, of which the text says that distances,
//            additions and scaling were vectorised by SSE3 and loops unrolled. Vectors are dense
//            there, so the rows have no padding and loads no alignment; the four registers are ours
#include <limits>
#include <vector>

#include "implementations/_limits.h"
#include "implementations/_stage_work.h"
#include "implementations/_target.h"
#include "implementations/cpu/_label_in_order.h"
#include "implementations/cpu/_lloyd.h"
#include "implementations/cpu/_sse3_rows.h"

#if defined(__x86_64__)
KMEANS_BEGIN_TARGET("sse3,no-avx")  // as _sse3_rows.h
#endif
namespace kmeans::sse3 {
namespace {

constexpr std::int64_t kFewestInRegisters = 4;  // coordinates; fewer are labelled as in cpu_scalar
constexpr std::int64_t kRegisters = 4;          // of partial sums: hide the latency of an addition

using Floats = Register<float>::V;
using Doubles = Register<double>::V;

#if defined(__x86_64__)
float add_lanes(Floats v) {
  v = __builtin_ia32_haddps(v, v);
  v = __builtin_ia32_haddps(v, v);
  return v[0];
}
double add_lanes(Doubles v) { return __builtin_ia32_haddpd(v, v)[0]; }
#else
float add_lanes(Floats v) { return (v[0] + v[1]) + (v[2] + v[3]); }
double add_lanes(Doubles v) { return v[0] + v[1]; }
#endif

/// Of kFewestInRegisters coordinates or more.
template <class T>
T squared_distance(const T* point, const T* centroid, std::int64_t d) {
  using V = typename Register<T>::V;
  constexpr std::int64_t kLanes = Register<T>::kLanes;
  V partial[kRegisters] = {};
  std::int64_t t = 0;
  for (; t + kRegisters * kLanes <= d; t += kRegisters * kLanes) {
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kRegisters; ++r) {
      const V difference = load(point + t + r * kLanes) - load(centroid + t + r * kLanes);
      partial[r] += difference * difference;
    }
  }
  for (; t + kLanes <= d; t += kLanes) {
    const V difference = load(point + t) - load(centroid + t);
    partial[0] += difference * difference;
  }
  T sum = add_lanes((partial[0] + partial[1]) + (partial[2] + partial[3]));
  for (; t < d; ++t) {
    const T difference = point[t] - centroid[t];
    sum += difference * difference;
  }
  return sum;
}

/// Labels the points; returns how many labels changed. Not inlined, as update_centroids.
template <class T>
[[gnu::noinline]] std::int64_t label_points(const Problem<T>& problem, const T* centroids,
                                            std::int32_t* labels) {
  const auto [n, d, k, precision] = problem.shape;
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    T nearest_distance = std::numeric_limits<T>::infinity();
    std::int32_t nearest = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const T distance = squared_distance(problem.points + i * d, centroids + j * d, d);
      if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
        nearest_distance = distance;
        nearest = static_cast<std::int32_t>(j);
      }
    }
    changed += labels[i] != nearest ? 1 : 0;
    labels[i] = nearest;
  }
  return changed;
}

}  // namespace
}  // namespace kmeans::sse3
#if defined(__x86_64__)
KMEANS_END_TARGET
#endif

namespace {

template <class T>
class CpuSimdRows final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroids_, Base::labels_, Base::problem_, Base::stage;

 public:
  // The source stops when no label changes.
  kmeans::Progress progress() override { return {.movement = {}, .changed = changed_, .loss = {}}; }

 private:
  void iterate() override {
    {
      const auto timed = stage("assign");
      changed_ = problem_.shape.d < kmeans::sse3::kFewestInRegisters
                     ? kmeans::plain::label_in_order(problem_, centroids_.data(), labels_.data())
                     : kmeans::sse3::label_points(problem_, centroids_.data(), labels_.data());
    }
    const auto timed = stage("update");
    sums_.assign(problem_.shape.k * problem_.shape.d, T{0});
    counts_.assign(problem_.shape.k, 0);
    kmeans::sse3::update_centroids(problem_, labels_.data(), sums_.data(), counts_.data(),
                                   centroids_.data());
  }

  std::vector<T> sums_;               // k x d
  std::vector<std::int64_t> counts_;  // k
  std::int64_t changed_ = 0;
};

}  // namespace

KMEANS_VARIANT(
    CpuSimdRows, .name = "cpu_simd_rows",
    .summary = "sequential k-means with SSE3 along the coordinates of row-major points",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64}, .supports = sums_fit,
    .memory_bytes = [](const Sizes& s) { return 4 * s.n + (2 * s.scalar * s.d + 8.0) * s.k; },
    .traffic = [](const Sizes& s) { return total_traffic(label_and_update_work(s)); },
    .stage_work = label_and_update_work)
