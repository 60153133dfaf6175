// SPDX-License-Identifier: Apache-2.0
//
// cuda_tree: the search of the centroids that may be nearest to a box of points, or to a point.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tree_curve.cuh"
#include "implementations/cuda/_tree_layout.cuh"

namespace kmeans::cuda::tree {

/// Squared distance between two boxes. As q in filter_factor(): never above what that allows.
template <int D>
__device__ float squared_gap(const Box<D>& a, const Box<D>& b) {
  float sum = 0;
#pragma unroll
  for (int t = 0; t < D; ++t) {
    const float gap =
        fmaxf(fmaxf(__fsub_rn(b.low[t], a.high[t]), __fsub_rn(a.low[t], b.high[t])), 0.0F);
    sum = __fmaf_rn(gap, gap, sum);
  }
  return sum;
}

template <int D>
__device__ float squared_distance(const float (&x)[D], const float (&c)[D]) {
  float sum = 0;
#pragma unroll
  for (int t = 0; t < D; ++t) {
    const float difference = __fsub_rn(x[t], c[t]);
    sum = __fmaf_rn(difference, difference, sum);
  }
  return sum;
}

/// Lanes whose box, `first` + lane, is not farther from the leaf than the limit.
template <int D>
__device__ unsigned near_boxes(const Boxes& boxes, std::int64_t first, const Box<D>& leaf,
                               float limit) {
  const std::int64_t index = first + threadIdx.x % kLanes;
  const bool near = index < boxes.count && !(squared_gap(load_box<D>(boxes, index), leaf) > limit);
  return __ballot_sync(kAllLanes, near);
}

/// Calls visit(first slot) with every group that is not farther from the leaf than the limit, until
/// it says false.
template <int D, class Visit>
__device__ void visit_groups(const Tree& tree, const Box<D>& leaf, float limit, Visit visit) {
  for (std::int64_t first = 0; first < tree.supers.count; first += kLanes) {
    unsigned supers = tree.supers.count == 1 ? 1 : near_boxes(tree.supers, first, leaf, limit);
    for (; supers != 0; supers &= supers - 1) {
      const std::int64_t super = first + __ffs(static_cast<int>(supers)) - 1;
      for (unsigned groups = near_boxes(tree.groups, super * kLanes, leaf, limit); groups != 0;
           groups &= groups - 1) {
        const std::int64_t group = super * kLanes + __ffs(static_cast<int>(groups)) - 1;
        if (!visit(group * kLanes)) return;
      }
    }
  }
}

/// Calls visit(slot, centroid), the same for all lanes, with every centroid that is not farther
/// from the leaf than the limit. False where there are more than `most` of them.
template <int D, class Visit>
__device__ bool visit_near(const Tree& tree, const Box<D>& leaf, float limit, int most,
                           Visit visit) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  visit_groups<D>(tree, leaf, limit, [&](std::int64_t slot) {
    float own[D] = {};
    bool near = false;
    if (slot + lane < tree.k) {
      load_centroid<D>(tree, slot + lane, own);
      near = !(squared_gap(point_box(own), leaf) > limit);
    }
    unsigned slots = __ballot_sync(kAllLanes, near);
    most -= __popc(slots);
    if (most < 0) return false;
    for (; slots != 0; slots &= slots - 1) {
      const int from = __ffs(static_cast<int>(slots)) - 1;
      float c[D];
#pragma unroll
      for (int t = 0; t < D; ++t) c[t] = __shfl_sync(kAllLanes, own[t], from);
      visit(static_cast<std::int32_t>(slot + from), c);
    }
    return true;
  });
  return most >= 0;
}

/// Where no label is known: squared distance to the nearest of the centroids next to the point on the
/// curve. Any centroids would do; near ones leave fewer to visit. `on_curve`: the lane whose point's
/// key counts.
template <int D>
__device__ float distance_on_curve(const Tree& tree, const Cube& cube, const float (&x)[D],
                                   int on_curve) {
  constexpr int kFirstBit = first_key_bit(D);
  const std::uint64_t key = __shfl_sync(kAllLanes, hilbert_key<D>(x, cube), on_curve) >> kFirstBit;
  std::int64_t low = 0;
  for (std::int64_t high = tree.k; low < high;) {
    const std::int64_t middle = (low + high) / 2;
    if (tree.dev_keys[middle] >> kFirstBit < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const std::int64_t first = max(min(low - kLanes / 2, tree.k - kLanes), std::int64_t{0});
  float best = INFINITY;
  for (std::int64_t slot = first; slot < min(first + kLanes, tree.k); ++slot) {
    float c[D];
    load_centroid<D>(tree, slot, c);
    best = fminf(best, squared_distance<D>(x, c));
  }
  return best;
}

/// Of the squared distance to the nearest centroid: that to some centroid that lies near.
template <int D, bool kFirst>
__device__ float upper_bound(const Tree& tree, const Cube& cube, const float (&x)[D],
                             std::int32_t before) {
  if constexpr (kFirst) {
    return distance_on_curve<D>(tree, cube, x, kLanes / 2);
  } else {
    float c[D];
    load_centroid<D>(tree, before, c);
    return squared_distance<D>(x, c);
  }
}

/// What is farther than this in float32 is farther than `distance`, rounding included.
template <int D>
__device__ float pruning_limit(float distance) {
  return __fmaf_rn(distance, filter_factor(D), kFilterTiny);
}

template <int D>
__device__ double exact_distance(const float (&x)[D], const float (&c)[D]) {
  double distance = 0;
#pragma unroll
  for (int t = 0; t < D; ++t) distance = add_exact_square(distance, x[t], c[t]);
  return distance;
}

/// The nearest of the centroids that were offered, by their distances as defined, which are finite.
struct Nearest {
  double distance;
  std::int32_t index;  // the lowest wins a tie
  std::int32_t slot;

  __device__ void offer(double its_distance, std::int32_t its_index, std::int32_t its_slot) {
    if (its_distance < distance || (its_distance == distance && its_index < index)) {
      distance = its_distance;
      index = its_index;
      slot = its_slot;
    }
  }
};

}  // namespace kmeans::cuda::tree
