// SPDX-License-Identifier: Apache-2.0
//
// cuda_onepass: the kernel that labels the points and adds those that changed cluster to the
// block's sums, in one pass; and the choice among its instances.
#pragma once

#include <cstdint>
#include <type_traits>

#include "implementations/cuda/_append.cuh"
#include "implementations/cuda/_block_sums.cuh"
#include "implementations/cuda/_onepass_candidates.cuh"
#include "implementations/cuda/_onepass_fallback.cuh"
#include "implementations/cuda/_onepass_plan.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda::onepass {

/// kChunks of a kernel that takes their number from its arguments.
constexpr int kAnyChunks = 0;

/// A warp's lists in shared memory: points that changed cluster, and points that are undecided.
struct WarpLists {
  Change* changes;
  UndecidedPoint* undecided;
  int change_count = 0;
  int undecided_count = 0;

  /// Each lane's point i, if it exists: a new label is stored and listed; undecided, it is listed.
  __device__ __forceinline__ void add(const PassArguments& args, const BlockSums& sums, unsigned i,
                                      std::int32_t before, const Nearest& nearest) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const bool exists = i < args.n;
    const int label = nearest.index();
    const bool decided = nearest.decided() && label < args.k;
    const bool changed = exists && decided && label != before;
    const unsigned all_changed = __ballot_sync(kAllLanes, changed);
    const unsigned all_undecided = __ballot_sync(kAllLanes, exists && !decided);
    if (changed) {
      args.dev_labels[i] = label;
      const Change change{static_cast<std::int32_t>(i), static_cast<std::uint16_t>(label),
                          static_cast<std::uint16_t>(before < 0 ? args.k : before)};
      sums.count(change);
      changes[change_count + rank_in(all_changed, lane)] = change;
    }
    if (exists && !decided) {
      const int2 two = nearest.is_pair() ? nearest.pair() : int2{kNoCandidate, kNoCandidate};
      undecided[undecided_count + rank_in(all_undecided, lane)] = {
          static_cast<std::int32_t>(i), static_cast<std::uint16_t>(two.x),
          static_cast<std::uint16_t>(two.y < args.k ? two.y : kNoCandidate)};
    }
    change_count += __popc(all_changed);
    undecided_count += __popc(all_undecided);
  }

  /// Empties each list that has more than `most` entries.
  template <int kMoveLanes>
  __device__ __forceinline__ void flush(const PassArguments& args, const BlockSums& sums,
                                        const UndecidedLists& lists, int most) {
    if (undecided_count > most) {
      lists.append(undecided, undecided_count);
      undecided_count = 0;
    }
    if (change_count > most) {
      sums.move<kMoveLanes>(changes, change_count, args.dev_points, args.scale);
      change_count = 0;
    }
  }
};

/// The warps of a group flush their lists in the same round, the one after a warp asked for it, so
/// that none waits for another's flush in a product.
struct FlushVote {
  int* asked;  // in shared memory: the last round in which a warp of the group asked
  int flushed = 0;
  int round = 0;

  [[nodiscard]] __device__ __forceinline__ int last_asked(unsigned lane) const {
    int last = 0;
    if (lane == 0) last = atomicMax(asked, -1);  // an atomic read
    return __shfl_sync(kAllLanes, last, 0);
  }
};

/// The block: the centroids' copy, half norms and margins to shared memory. A chunk's margin is the
/// largest of its columns'.
template <int kTiles>
__device__ __forceinline__ void load_centroids(const PassArguments& args, const LaunchPlan& plan,
                                               unsigned char* memory, const SharedMap& map,
                                               unsigned warp) {
  const int threads = plan.threads();
  const unsigned lane = threadIdx.x % kLanes;
  auto* columns = reinterpret_cast<uint4*>(memory + map.columns);
  const auto* dev_columns = reinterpret_cast<const uint4*>(args.dev_columns);
#pragma unroll 4
  for (int e = static_cast<int>(threadIdx.x); e < args.columns * plan.column_bytes() / 16;
       e += threads) {
    columns[e] = __ldg(dev_columns + e);
  }
  auto* half_norms = reinterpret_cast<float4*>(memory + map.half_norms);
  for (int e = static_cast<int>(threadIdx.x); !plan.wide && e < args.columns / 2; e += threads) {
    const float2 two = reinterpret_cast<const float2*>(args.dev_half_norms)[e];
    half_norms[e] = {two.x, two.y, two.x, two.y};
  }
  auto* margins = reinterpret_cast<float4*>(memory + map.margins);
  for (unsigned chunk = warp; chunk < static_cast<unsigned>(args.chunks); chunk += plan.warps()) {
    float4 margin{};
    constexpr unsigned kOwn = kTiles * kMmaColumns;
#pragma unroll
    for (unsigned first = 0; first < kOwn; first += kLanes) {
      const float4 own = args.dev_margins[chunk * kOwn + min(first + lane, kOwn - 1)];
      margin = {fmaxf(margin.x, own.x), fmaxf(margin.y, own.y), fmaxf(margin.z, own.z), 0};
    }
    // None is negative: as integers they have the same order.
    margins[chunk] = {__uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(margin.x))),
                      __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(margin.y))),
                      __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(margin.z))), 0};
  }
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if (plan.wide) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// The fallback with as many centroids of a lane as k asks for.
template <int kTiles, int kChunks, bool kWide>
__device__ __forceinline__ void label_undecided_for_k(const PassArguments& args,
                                                      const LaunchPlan& plan,
                                                      const UndecidedLists& lists,
                                                      unsigned char* memory,
                                                      const BlockSums& sums) {
  if constexpr (kWide) {
    label_undecided<4 * kChunks>(args, plan, lists, memory, sums);
  } else if constexpr (kTiles < 8) {
    label_undecided<1>(args, plan, lists, memory, sums);
  } else if (centroids_of_lane(args.k) == 2) {
    label_undecided<2>(args, plan, lists, memory, sums);
  } else if (centroids_of_lane(args.k) == 4) {
    label_undecided<4>(args, plan, lists, memory, sums);
  } else {
    label_undecided<8>(args, plan, lists, memory, sums);
  }
}

/// Labels by the float16 copies, then those of the undecided points, and sums of the points that
/// changed cluster. kSteps, kTiles, kChunks, kWide: LaunchPlan's; kChunks may be kAnyChunks.
template <int kSteps, int kTiles, int kChunks, bool kWide>
__global__ void __launch_bounds__(threads_for(kSteps, kTiles), 1)
    label_and_add_kernel(const __grid_constant__ PassArguments args) {
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr LaunchPlan kPlan{.steps = kSteps, .tiles = kTiles, .chunks = kChunks, .wide = kWide};
  constexpr int kWarps = kPlan.warps();
  constexpr unsigned kTogether = kPlan.warps_together();  // the copy has whole groups of pairs
  constexpr bool kAhead = kSteps <= 3;  // more registers than that are not held during a flush
  const SharedMap map(kPlan, args.columns, args.chunks, centroids_of_lane(args.k), args.k, args.d);
  const BlockSums sums(memory + SharedMap::kSums, args.k, args.d);
  auto* counts = reinterpret_cast<unsigned*>(memory + SharedMap::kCounters);
  static_assert(8 + kWarps / kGroupWarps * 4 <= SharedMap::kSums);
  const unsigned lane = threadIdx.x % kLanes;
  // From a shuffle, so that the compiler knows it to be the same in all lanes.
  const unsigned warp = __shfl_sync(kAllLanes, threadIdx.x / kLanes, 0);
  WarpLists own{
      reinterpret_cast<Change*>(memory + map.changes) + warp * change_room(kWide),
      reinterpret_cast<UndecidedPoint*>(memory + map.undecided) + warp * undecided_room(kWide)};
  FlushVote vote{reinterpret_cast<int*>(counts + 2) + warp / kGroupWarps};
  if (warp % kGroupWarps == 0 && lane == 0) *vote.asked = -1;
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  const auto pairs =
      static_cast<unsigned>((args.n + kTogether * kPairRows - 1) / (kTogether * kPairRows)) *
      kTogether;
  const unsigned stride = gridDim.x * kWarps;
  const unsigned room = (pairs + stride - 1) / stride * (kWarps * kPairRows);  // points_of_block()
  const UndecidedLists lists{args.dev_undecided + std::uint64_t{blockIdx.x} * room, room, counts};

  // Groups are numbered across blocks, so that the multiprocessors share the last round evenly.
  unsigned pair = ((warp / kTogether) * gridDim.x + blockIdx.x) * kTogether + warp % kTogether;
  RowOperand<kSteps> rows;
  RowFacts facts;
  const auto prefetch = [&](unsigned next) {
    if (next >= pairs) return;
    if (kAhead) rows.load(args, next, lane);
    facts.load(args, next, lane);
  };
  prefetch(pair);
  load_centroids<kTiles>(args, kPlan, memory, map, warp);
  __syncthreads();

  for (;; pair += stride) {
    const bool more = pair < pairs;
    if (more) {
      if (!kAhead) rows.load(args, pair, lane);
      const std::int32_t before = facts.label;
      const unsigned lengths[4] = {facts.lengths.x, facts.lengths.y, facts.lengths.z,
                                   facts.lengths.w};
      const auto* margins = reinterpret_cast<const float4*>(memory + map.margins);
      const auto prefetch_next = [&] { prefetch(pair + stride); };
      Nearest nearest[4];
      if constexpr (kWide) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // else not launched: plan_for()
        find_candidates_wide<kSteps, kChunks>(rows, lengths,
                                              descriptor(memory + map.columns, args.columns),
                                              margins, nearest, prefetch_next);
#endif
      } else {
        find_candidates<kChunks == 1, kSteps, kTiles>(
            args, rows, lengths, memory + map.columns,
            reinterpret_cast<const float4*>(memory + map.half_norms), margins, nearest,
            prefetch_next);
      }
      own.add(args, sums, pair * kPairRows + row_of(lane), before,
              join_lanes<kChunks == 1>(nearest));
    }
    bool flush = !more;
    if constexpr (kWide) {  // inline: as a function it takes more registers than there are
      const int last_asked = vote.last_asked(lane);
      flush = flush || (last_asked >= vote.flushed && last_asked < vote.round);
      if (flush) vote.flushed = vote.round;
      const bool too_many = max(own.undecided_count, own.change_count) > kFlushAt;
      if (!flush && too_many && last_asked < vote.flushed && lane == 0)
        atomicMax(vote.asked, vote.round);
      ++vote.round;
    }
    own.flush<(kSteps == 1 ? 16 : 32)>(args, sums, lists,
                                       flush ? 0 : undecided_room(kWide) - kLanes);
    if (!more) break;
  }
  __syncthreads();
  label_undecided_for_k<kTiles, kChunks, kWide>(args, kPlan, lists, memory, sums);
  __syncthreads();
  sums.flush(args.dev_sums);
}

/// Calls use(kernel) with the one for the plan's tiles and chunks.
template <int kSteps, class Use>
void with_kernel_of_steps(const LaunchPlan& plan, const Use& use) {
  if constexpr (kSteps <= tuning::kMaxWideSteps) {
    if (plan.wide && plan.chunks == 1)
      return use(label_and_add_kernel<kSteps, kWideTiles, 1, true>);
    if (plan.wide) return use(label_and_add_kernel<kSteps, kWideTiles, 2, true>);
  }
  switch (plan.tiles) {
    case 1: return use(label_and_add_kernel<kSteps, 1, 1, false>);
    case 2: return use(label_and_add_kernel<kSteps, 2, 1, false>);
    case 4: return use(label_and_add_kernel<kSteps, 4, 1, false>);
    default: break;
  }
  if (plan.chunks == 1) return use(label_and_add_kernel<kSteps, 8, 1, false>);
  use(label_and_add_kernel<kSteps, 8, kAnyChunks, false>);
}

/// Calls use(kernel) with the one for the plan.
template <int kSteps = kMaxSteps, class Use>
void with_kernel(const LaunchPlan& plan, const Use& use) {
  if constexpr (kSteps > 1) {
    if (plan.steps < kSteps) return with_kernel<kSteps - 1>(plan, use);
  }
  with_kernel_of_steps<kSteps>(plan, use);
}

}  // namespace kmeans::cuda::onepass
