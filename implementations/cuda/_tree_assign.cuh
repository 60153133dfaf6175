// SPDX-License-Identifier: Apache-2.0
//
// cuda_tree: the kernels that label the points, and add those that changed cluster.
#pragma once

#include <cstdint>

#include "implementations/cuda/_tree_layout.cuh"
#include "implementations/cuda/_tree_search.cuh"
#include "implementations/cuda/_tree_update.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda::tree {

/// Of all lanes; one instruction from compute capability 8.0 on.
__device__ inline unsigned warp_max(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
  for (int distance = 16; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
#endif
}
__device__ inline unsigned warp_min(unsigned value) { return ~warp_max(~value); }

/// The points of a warp, i that of the lane, are deferred.
__device__ __forceinline__ void defer_points(const DeferredPoints& deferred, std::int64_t i,
                                             std::int64_t n) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  unsigned place = 0;
  const std::int64_t first = i - lane;
  const auto count = static_cast<unsigned>(min(n - first, std::int64_t{kLanes}));
  if (lane == 0) place = atomicAdd(deferred.dev_count, count);
  place = __shfl_sync(kAllLanes, place, 0);
  if (i < n) {
    deferred.dev_points[place + static_cast<unsigned>(lane)] = static_cast<std::int32_t>(i);
  }
}

/// The slot nearest to the lane's point x: `nearest` if float32 distinguishes it from the second nearest, else
/// by float64 as defined. best, second: their squared distances in float32. All lanes call.
template <int D>
__device__ __forceinline__ std::int32_t decide(const Tree& tree, const Box<D>& leaf, float limit,
                                               const float (&x)[D], std::int32_t nearest,
                                               float best, float second) {
  const bool decided = second > pruning_limit<D>(best);
  if (__any_sync(kAllLanes, !decided)) {
    Nearest exactly{INFINITY, INT32_MAX, nearest};
    visit_near<D>(tree, leaf, limit, tuning::kMaxVisits,
                  [&](std::int32_t slot, const float(&c)[D]) {
                    if (decided) return;
                    exactly.offer(exact_distance<D>(x, c), tree.dev_indices[slot], slot);
                  });
    nearest = exactly.slot;
  }
  return nearest;
}

/// The centroid nearest to x, one point for all lanes, by those that are not farther than the limit:
/// a lane a centroid of a group.
template <int D>
__device__ __forceinline__ Nearest nearest_by_warp(const Tree& tree, const float (&x)[D],
                                                   float limit) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const Box<D> point = point_box(x);
  float best = INFINITY;
  float second = INFINITY;  // of this lane's
  std::int32_t own = 0;
  visit_groups<D>(tree, point, limit, [&](std::int64_t slot) {
    if (slot + lane >= tree.k) return true;
    float c[D];
    load_centroid<D>(tree, slot + lane, c);
    const float distance = squared_distance<D>(x, c);
    if (distance < best) own = static_cast<std::int32_t>(slot + lane);
    second = fminf(second, fmaxf(best, distance));
    best = fminf(best, distance);
    return true;
  });
  const float least = __uint_as_float(warp_min(__float_as_uint(best)));
  // Whatever float32 cannot separate from the nearest, as defined.
  const float close = pruning_limit<D>(least);
  const unsigned close_lanes = __ballot_sync(kAllLanes, !(best > close));
  Nearest nearest{INFINITY, INT32_MAX, -1};
  if (__popc(close_lanes) == 1 && !__any_sync(kAllLanes, !(second > close))) {
    nearest.slot = __shfl_sync(kAllLanes, own, __ffs(static_cast<int>(close_lanes)) - 1);
    nearest.index = tree.dev_indices[nearest.slot];
  } else {
    visit_groups<D>(tree, point, close, [&](std::int64_t slot) {
      if (slot + lane >= tree.k) return true;
      float c[D];
      load_centroid<D>(tree, slot + lane, c);
      if (squared_distance<D>(x, c) > close) return true;
      nearest.offer(exact_distance<D>(x, c), tree.dev_indices[slot + lane],
                    static_cast<std::int32_t>(slot + lane));
      return true;
    });
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      nearest.offer(__shfl_xor_sync(kAllLanes, nearest.distance, distance),
                    __shfl_xor_sync(kAllLanes, nearest.index, distance),
                    __shfl_xor_sync(kAllLanes, nearest.slot, distance));
    }
  }
  return nearest;
}

/// dev_slots: of the ordered points, -1 before the first iteration. Labels go to the points' own
/// places.
template <int D, bool kFirst>
__global__ void __launch_bounds__(kThreads)
    assign_near_kernel(const float* __restrict__ dev_ordered, std::int64_t n,
                       const std::int32_t* __restrict__ dev_order, Tree tree, Cube cube,
                       double scale, std::int32_t* __restrict__ dev_slots,
                       std::int32_t* __restrict__ dev_labels, DeferredPoints deferred) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i / kLanes * kLanes >= n) return;  // whole warps: the others' lanes work together
  const std::int64_t own = min(i, n - 1);
  float x[D];
#pragma unroll
  for (int t = 0; t < D; ++t) x[t] = dev_ordered[t * n + own];
  const Box<D> leaf = enclosing_box(point_box(x));

  const std::int32_t before = kFirst ? -1 : dev_slots[own];
  const float known = upper_bound<D, kFirst>(tree, cube, x, before);
  // All centroids beyond the limit are farther from every point here than one that it knows.
  const float farthest = __uint_as_float(warp_max(__float_as_uint(known)));
  const float limit = pruning_limit<D>(farthest);

  float best = INFINITY;
  float second = INFINITY;
  std::int32_t nearest = -1;
  const bool visited = visit_near<D>(tree, leaf, limit, tuning::kMaxVisits,
                                     [&](std::int32_t slot, const float(&c)[D]) {
                                       const float distance = squared_distance<D>(x, c);
                                       nearest = distance < best || nearest < 0 ? slot : nearest;
                                       second = fminf(second, fmaxf(best, distance));
                                       best = fminf(best, distance);
                                     });
  if (!visited) return defer_points(deferred, i, n);
  nearest = decide<D>(tree, leaf, limit, x, nearest, best, second);
  const bool moves = i < n && nearest != before;
  if (moves) {
    dev_slots[i] = nearest;
    dev_labels[dev_order[i]] = tree.dev_indices[nearest];
  }
  move_points<D>(tree, x, scale, moves, before, nearest);
}

/// The points that were deferred, a warp for each.
template <int D, bool kFirst>
__global__ void __launch_bounds__(kThreads)
    assign_deferred_kernel(const float* __restrict__ dev_ordered, std::int64_t n,
                           const std::int32_t* __restrict__ dev_order, Tree tree, Cube cube,
                           double scale, std::int32_t* __restrict__ dev_slots,
                           std::int32_t* __restrict__ dev_labels, DeferredPoints deferred) {
  constexpr int kWarps = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned count = *deferred.dev_count;
  for (unsigned entry = blockIdx.x * kWarps + threadIdx.x / kLanes; entry < count;
       entry += gridDim.x * kWarps) {
    const std::int64_t i = deferred.dev_points[entry];
    float x[D];
#pragma unroll
    for (int t = 0; t < D; ++t) x[t] = dev_ordered[t * n + i];
    const std::int32_t before = kFirst ? -1 : dev_slots[i];
    const float limit = pruning_limit<D>(upper_bound<D, kFirst>(tree, cube, x, before));

    const Nearest nearest = nearest_by_warp<D>(tree, x, limit);
    const bool moves = nearest.slot != before;
    if (moves && lane == 0) {
      dev_slots[i] = nearest.slot;
      dev_labels[dev_order[i]] = nearest.index;
    }
    move_points<D>(tree, x, scale, moves && lane == 0, before, nearest.slot);
  }
}

}  // namespace kmeans::cuda::tree
