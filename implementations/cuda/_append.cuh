// SPDX-License-Identifier: Apache-2.0
//
// Warps append to lists: one atomic addition per warp and list makes room for the entries of all
// lanes.
#pragma once

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

/// How many of the lanes of a ballot come before `lane`.
__device__ inline int rank_in(unsigned ballot, int lane) {
  return __popc(ballot & ((1U << lane) - 1));
}

/// Grows a list by `count` entries, the same number in all lanes, and returns the index of the
/// first. All lanes call.
template <class Count>
__device__ __forceinline__ Count append_entries(Count* counter, Count count) {
  Count first = 0;
  if (threadIdx.x % kLanes == 0 && count != 0) first = atomicAdd(counter, count);
  return __shfl_sync(kAllLanes, first, 0);
}

/// Grows several lists, each by one entry per lane of its ballot. firsts: the indices of each
/// list's first entry, to which a lane adds its rank. All lanes call; lane l adds for list l, so
/// that the atomic additions overlap.
template <class Count, int kLists>
__device__ __forceinline__ void append_lanes(Count* const (&counters)[kLists],
                                             const unsigned (&ballots)[kLists],
                                             Count (&firsts)[kLists]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  Count* counter = counters[0];
  unsigned ballot = ballots[0];
#pragma unroll
  for (int l = 1; l < kLists; ++l) {
    if (lane == l) counter = counters[l], ballot = ballots[l];
  }
  Count first = 0;
  if (lane < kLists && ballot != 0) first = atomicAdd(counter, __popc(ballot));
#pragma unroll
  for (int l = 0; l < kLists; ++l) firsts[l] = __shfl_sync(kAllLanes, first, l);
}

}  // namespace kmeans::cuda
