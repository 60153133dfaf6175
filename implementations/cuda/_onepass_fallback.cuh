// SPDX-License-Identifier: Apache-2.0
//
// cuda_onepass: points that the float16 copies leave undecided. Each block lists its own and labels
// them at its end: two candidates by eight lanes a point; others against all centroids in float32,
// four points a warp, and as defined where that does not separate them either.
#pragma once

#include <cstdint>

#include "implementations/cuda/_append.cuh"
#include "implementations/cuda/_block_sums.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_onepass_plan.cuh"
#include "implementations/cuda/_pair.cuh"

namespace kmeans::cuda::onepass {

/// A block's undecided points in device memory: those with two known candidates from the front,
/// the others from the back.
struct UndecidedLists {
  UndecidedPoint* dev_points;
  unsigned room;
  unsigned* counts;  // of both, in shared memory

  [[nodiscard]] __device__ unsigned pairs() const { return counts[0]; }
  [[nodiscard]] __device__ unsigned others() const { return counts[1]; }
  [[nodiscard]] __device__ const UndecidedPoint& other(unsigned slot) const {
    return dev_points[room - 1 - slot];
  }

  /// A warp's list in shared memory.
  __device__ void append(const UndecidedPoint* listed, int count) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < count; first += kLanes) {
      const int e = first + lane;
      const UndecidedPoint own = listed[min(e, count - 1)];
      const bool is_pair = e < count && own.higher != kNoCandidate;
      const bool is_other = e < count && own.higher == kNoCandidate;
      const unsigned ballots[2] = {__ballot_sync(kAllLanes, is_pair),
                                   __ballot_sync(kAllLanes, is_other)};
      unsigned firsts[2];
      append_lanes<unsigned, 2>({&counts[0], &counts[1]}, ballots, firsts);
      if (is_pair) dev_points[firsts[0] + rank_in(ballots[0], lane)] = own;
      if (is_other) dev_points[room - 1 - firsts[1] - rank_in(ballots[1], lane)] = own;
    }
    __syncwarp();
  }
};

/// What points change in the sums, as a warp lists it in the fallback.
struct FallbackChanges {
  const PassArguments& args;
  const BlockSums& sums;
  Change* list;  // in shared memory
  int count = 0;

  /// Stores a lane's new label. before: -1 in the first iteration.
  __device__ void relabel(std::int64_t point, int label, int before, int place) const {
    args.dev_labels[point] = label;
    const Change change{static_cast<std::int32_t>(point), static_cast<std::uint16_t>(label),
                        static_cast<std::uint16_t>(before < 0 ? args.k : before)};
    sums.count(change);
    list[place] = change;
  }
  __device__ void flush() {
    __syncwarp();
    sums.move<kLanes>(list, count, args.dev_points, args.scale);
    count = 0;
  }
  __device__ void flush_if_full() {
    if (count + kFallbackPoints > kLanes) flush();
  }
};

/// The nearest of those centroids that the lanes' bits name, as defined; the lowest index wins.
__device__ inline int label_as_defined(const PassArguments& args, std::int64_t i,
                                       const float* centroids, int pitch, unsigned close) {
  double nearest = INFINITY;
  int label = 0x7fffffff;
  for (; close != 0; close &= close - 1) {
    const int j =
        (__ffs(static_cast<int>(close)) - 1) * kLanes + static_cast<int>(threadIdx.x) % kLanes;
    double distance = 0;
    for (int t = 0; t < args.d; ++t) {
      distance =
          add_exact_square(distance, args.dev_points[i * args.d + t], centroids[t * pitch + j]);
    }
    if (distance < nearest || label == 0x7fffffff) nearest = distance, label = j;
  }
#pragma unroll
  for (int apart = kLanes / 2; apart > 0; apart /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, nearest, apart);
    const int other_label = __shfl_xor_sync(kAllLanes, label, apart);
    if (other < nearest || (other == nearest && other_label < label)) {
      nearest = other;
      label = other_label;
    }
  }
  return label;
}

/// A warp: kFallbackPoints points with two candidates, from `first` of `count` on.
__device__ inline void label_pairs(const PassArguments& args, const UndecidedPoint* dev_pairs,
                                   unsigned first, unsigned count, FallbackChanges& changes) {
  static_assert(kFallbackPoints * kPairLanes == kLanes);
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned slot = first + lane / kPairLanes;
  const UndecidedPoint own = dev_pairs[min(slot, count - 1)];
  const std::int32_t before = args.dev_labels[own.point];
  const float* point = args.dev_points + std::uint64_t{static_cast<unsigned>(own.point)} *
                                             static_cast<unsigned>(args.d);
  const bool is_lower =
      one_is_nearer(point, args.dev_centroids + own.lower * args.d,
                    args.dev_centroids + own.higher * args.d, args.d, args.factor, kFilterTiny);
  const int label = is_lower ? own.lower : own.higher;
  const bool decides = lane % kPairLanes == 0 && slot < count;
  const bool changed = decides && label != before;
  const unsigned all_changed = __ballot_sync(kAllLanes, changed);
  if (changed) {
    changes.relabel(own.point, label, before,
                    changes.count + rank_in(all_changed, static_cast<int>(lane)));
  }
  changes.count += __popc(all_changed);
}

/// A warp: float32 distances of its points in shared memory to all centroids there. Lane l has
/// centroid c * kLanes + l.
template <int kOwn>
__device__ __forceinline__ void measure_all(int d, const float4* points, const float* centroids,
                                            float (&distances)[kFallbackPoints][kOwn]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll 4
  for (int t = 0; t < d; ++t) {
    const float4 four = points[t];
    const float x[kFallbackPoints] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int c = 0; c < kOwn; ++c) {
      const float coordinate = centroids[t * (kOwn * kLanes) + c * kLanes + lane];
#pragma unroll
      for (int p = 0; p < kFallbackPoints; ++p) {
        const float difference = __fsub_rn(x[p], coordinate);
        distances[p][c] = __fmaf_rn(difference, difference, distances[p][c]);
      }
    }
  }
}

/// A warp: the label of point i, of its float32 distances, or as defined where several are close.
template <int kOwn>
__device__ __forceinline__ int label_of_distances(const PassArguments& args, std::int64_t i,
                                                  const float (&distances)[kOwn],
                                                  const float* centroids) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float least = distances[0];
#pragma unroll
  for (int c = 1; c < kOwn; ++c) least = fminf(least, distances[c]);
  // Squared distances are not negative: as integers they have the same order.
  least = __uint_as_float(__reduce_min_sync(kAllLanes, __float_as_uint(least)));
  const float limit = __fmaf_rn(least, args.factor, kFilterTiny);
  int close = 0;
  unsigned own_close = 0;
  int label = 0;
#pragma unroll
  for (int c = 0; c < kOwn; ++c) {
    const bool may_be = c * kLanes + lane < args.k && !(distances[c] > limit);
    const unsigned all = __ballot_sync(kAllLanes, may_be);
    close += __popc(all);
    own_close |= may_be ? 1U << c : 0U;
    if (all != 0) label = c * kLanes + __ffs(static_cast<int>(all)) - 1;
  }
  if (close > 1) label = label_as_defined(args, i, centroids, kOwn * kLanes, own_close);
  return label;
}

/// A warp: kFallbackPoints points against all centroids, from `first` of `count` on. points: room
/// for their coordinates in shared memory.
template <int kOwn>
__device__ __forceinline__ void label_others(const PassArguments& args, const UndecidedLists& lists,
                                             unsigned first, unsigned count, float4* points,
                                             const float* centroids, FallbackChanges& changes) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned slot = min(first + static_cast<unsigned>(lane) % kFallbackPoints, count - 1);
  const std::int32_t own = lists.other(slot).point;
  std::int64_t indices[kFallbackPoints];
#pragma unroll
  for (int p = 0; p < kFallbackPoints; ++p) indices[p] = __shfl_sync(kAllLanes, own, p);
  const std::int32_t own_before = args.dev_labels[own];
  for (int t = lane; t < args.d; t += kLanes) {
    points[t] = {args.dev_points[indices[0] * args.d + t], args.dev_points[indices[1] * args.d + t],
                 args.dev_points[indices[2] * args.d + t],
                 args.dev_points[indices[3] * args.d + t]};
  }
  __syncwarp();
  float distances[kFallbackPoints][kOwn] = {};
  measure_all<kOwn>(args.d, points, centroids, distances);
#pragma unroll
  for (int p = 0; p < kFallbackPoints; ++p) {
    if (first + p >= count) break;
    const int label = label_of_distances<kOwn>(args, indices[p], distances[p], centroids);
    const int before = __shfl_sync(kAllLanes, own_before, p);
    if (label == before) continue;
    if (lane == 0) changes.relabel(indices[p], label, before, changes.count);
    ++changes.count;
  }
  __syncwarp();
}

/// The block: labels of its undecided points, and what they change in the sums. kOwn: centroids of
/// a lane.
template <int kOwn>
__device__ __forceinline__ void label_undecided(const PassArguments& args, const LaunchPlan& plan,
                                                const UndecidedLists& lists, unsigned char* memory,
                                                const BlockSums& sums) {
  const SharedMap map(plan, args.columns, args.chunks, kOwn, args.k, args.d);
  const unsigned pairs = lists.pairs();
  const unsigned others = lists.others();
  const unsigned warp = threadIdx.x / kLanes;
  const auto warps = static_cast<unsigned>(plan.warps());
  auto* centroids = reinterpret_cast<float*>(memory + map.centroids);
  float4* points = reinterpret_cast<float4*>(memory + map.points) + warp * args.d;
  if (others > 0) {
    const auto* dev_transposed = reinterpret_cast<const float4*>(args.dev_transposed);
#pragma unroll 4
    for (int e = static_cast<int>(threadIdx.x); e < args.d * kOwn * kLanes / 4;
         e += static_cast<int>(blockDim.x)) {
      reinterpret_cast<float4*>(centroids)[e] = dev_transposed[e];
    }
    __syncthreads();
  }
  auto* lists_of_changes = reinterpret_cast<Change*>(memory + map.fallback_changes);
  FallbackChanges changes{args, sums, lists_of_changes + warp * kFallbackChanges};
  const unsigned stride = warps * kFallbackPoints;
  for (unsigned first = warp * kFallbackPoints; first < pairs; first += stride) {
    label_pairs(args, lists.dev_points, first, pairs, changes);
    changes.flush_if_full();
  }
  // The last warps have fewer pairs, so they begin with the others.
  for (unsigned first = (warps - 1 - warp) * kFallbackPoints; first < others; first += stride) {
    label_others<kOwn>(args, lists, first, others, points, centroids, changes);
    changes.flush_if_full();
  }
  changes.flush();
}

}  // namespace kmeans::cuda::onepass
