// SPDX-License-Identifier: Apache-2.0
//
// cuda_tree: the sums of points that changed cluster, and new centroids with the boxes around them.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tree_layout.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda::tree {

/// Adds the points of the lanes that take part (or takes them away) to their slots. All lanes call.
template <int D>
__device__ void add_points(const Tree& tree, const long long (&values)[D + 1], bool takes_part,
                           std::int32_t slot) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned matching =
      __match_any_sync(kAllLanes, takes_part ? slot : -1 - lane);  // no slot is negative
  const bool many = takes_part && __popc(matching) >= tuning::kMinMatching;
  if (takes_part && !many) {
#pragma unroll
    for (int t = 0; t <= D; ++t) {
      atomicAdd(&tree.dev_sums[std::int64_t{slot} * (D + 1) + t], static_cast<Integer>(values[t]));
    }
  }
  for (unsigned left = __ballot_sync(kAllLanes, many); left != 0;) {
    const int leader = __ffs(static_cast<int>(left)) - 1;
    const unsigned own = __shfl_sync(kAllLanes, matching, leader);
    const std::int64_t to = __shfl_sync(kAllLanes, slot, leader);
    const bool counts = (own >> lane & 1) != 0;
    Integer mine = 0;  // the sum that this lane adds to memory
#pragma unroll
    for (int t = 0; t <= D; ++t) {
      Integer sum = counts ? static_cast<Integer>(values[t]) : 0;
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, distance);
      }
      mine = lane == t ? sum : mine;
    }
    if (lane <= D) atomicAdd(&tree.dev_sums[to * (D + 1) + lane], mine);
    left &= ~own;
  }
}

/// The points of a warp change from slot to slot (-1: from none). All lanes call.
template <int D>
__device__ void move_points(const Tree& tree, const float (&x)[D], double scale, bool moves,
                            std::int32_t from, std::int32_t to) {
  if (!__any_sync(kAllLanes, moves)) return;
  long long values[D + 1];
#pragma unroll
  for (int t = 0; t < D; ++t) values[t] = exact_fixed_point(x[t], scale);
  values[D] = 1;
  add_points<D>(tree, values, moves, to);
#pragma unroll
  for (int t = 0; t <= D; ++t) values[t] = -values[t];
  add_points<D>(tree, values, moves && from >= 0, from);
}

/// New centroids from the sums, an empty cluster keeping its own, and the boxes around them: a
/// thread a slot, a warp a group, a block of kSuperSlots threads a super. A single super is left out,
/// and blocks are smaller.
template <int D>
__global__ void __launch_bounds__(kSuperSlots)
    refit_kernel(Tree tree, double inverse_scale, float* __restrict__ dev_centroids,
                 unsigned* __restrict__ dev_deferred_count) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *dev_deferred_count = 0;
  const std::int64_t slot = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  Box<D> box;
#pragma unroll
  for (int t = 0; t < D; ++t) box.low[t] = INFINITY, box.high[t] = -INFINITY;
  if (slot < tree.k) {
    const Integer* sums = tree.dev_sums + slot * (D + 1);
    const auto count = static_cast<long long>(sums[D]);
    const std::int64_t j = tree.dev_indices[slot];
    float c[D];
    load_centroid<D>(tree, slot, c);
#pragma unroll
    for (int t = 0; t < D; ++t) {
      if (count > 0) {
        c[t] = exact_mean(static_cast<long long>(sums[t]), count, inverse_scale);
        tree.dev_centroids[slot * stride_of(D) + t] = c[t];
        dev_centroids[j * D + t] = c[t];
      }
      box.low[t] = box.high[t] = c[t];
    }
  }
  __shared__ Box<D> group_boxes[kLanes];
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  box = enclosing_box(box);
  if (lane == 0) {
    group_boxes[warp] = box;
    const std::int64_t group = slot / kLanes;
    if (group < tree.groups.count) store_box<D>(tree.groups, group, box);
  }
  if (tree.supers.count == 1) return;
  __syncthreads();
  if (warp != 0) return;
  box = enclosing_box(group_boxes[lane]);
  if (lane == 0) store_box<D>(tree.supers, blockIdx.x, box);
}

}  // namespace kmeans::cuda::tree
