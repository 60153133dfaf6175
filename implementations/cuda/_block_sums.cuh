// SPDX-License-Identifier: Apache-2.0
//
// A block's changes to the fixed-point sums and counts of all clusters, collected in shared memory
// and added to global memory once.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

/// A point that joins a cluster and leaves another. Cluster k is a dummy: its sums are dropped.
struct Change {
  std::int32_t point;
  std::uint16_t to;
  std::uint16_t from;
};

/// 64-bit sums and counts as two arrays of 32-bit halves: neighbouring coordinates lie in different
/// banks, and the atomic additions are native.
struct BlockSums {
  unsigned* lows;   // (k + 1) x (d + 1), the count last
  unsigned* highs;  // the same
  int k;
  int d;

  __host__ __device__ static constexpr std::int64_t bytes(std::int64_t k, std::int64_t d) {
    return (8 * (k + 1) * (d + 1) + 15) / 16 * 16;
  }

  /// Clears the sums in `memory`, which is aligned to 16 bytes. The block must synchronise before
  /// it adds.
  __device__ BlockSums(void* memory, int clusters, int coordinates)
      : lows(static_cast<unsigned*>(memory)),
        highs(lows + (clusters + 1) * (coordinates + 1)),
        k(clusters),
        d(coordinates) {
    const int pieces = ((k + 1) * (d + 1) + 1) / 2;
    for (int e = static_cast<int>(threadIdx.x); e < pieces; e += static_cast<int>(blockDim.x)) {
      static_cast<uint4*>(memory)[e] = {};
    }
  }

  /// By one lane: counts a point that changed its cluster.
  __device__ void count(const Change& change) const {
    add({change.to * (d + 1) + d, change.from * (d + 1) + d}, {1, -1});
  }

  /// Adds several values at once, so that their atomics overlap. A thread whose addition makes the
  /// lower half wrap adds the carry.
  template <int kCount>
  __device__ void add(const int (&at)[kCount], const long long (&values)[kCount]) const {
    unsigned before[kCount];
#pragma unroll
    for (int a = 0; a < kCount; ++a) {
      before[a] = atomicAdd(&lows[at[a]], static_cast<unsigned>(values[a]));
    }
#pragma unroll
    for (int a = 0; a < kCount; ++a) {
      const unsigned carry = before[a] + static_cast<unsigned>(values[a]) < before[a] ? 1 : 0;
      atomicAdd(&highs[at[a]], static_cast<unsigned>(values[a] >> 32) + carry);
    }
  }

  /// By a warp: adds the changes of a list in shared memory, kWidth lanes a point, a lane a
  /// coordinate. The list needs room for kBatch entries past `count`.
  static constexpr int kBatch = 16;
  template <int kWidth>
  __device__ void move(Change* changes, int count, const float* __restrict__ dev_points,
                       double scale) const {
    constexpr int kTeams = kLanes / kWidth;  // of a warp
    constexpr int kAhead = 8;                // loads under way
    static_assert(kBatch % (kAhead * kTeams) == 0);
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const auto none = static_cast<std::uint16_t>(k);
    if (lane < kBatch) changes[count + lane] = {0, none, none};
    __syncwarp();
    for (int first = 0; first < count; first += kTeams * kAhead) {
      const float* rows[kAhead];
      Change own[kAhead];
      bool leaves = false;  // is there one that leaves a cluster?
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        own[a] = changes[first + a * kTeams + lane / kWidth];
        rows[a] = dev_points + static_cast<std::uint64_t>(static_cast<unsigned>(own[a].point)) *
                                   static_cast<unsigned>(d);
        leaves = leaves || own[a].from != none;
      }
      leaves = __any_sync(kAllLanes, leaves);
      for (int t = lane % kWidth; t < d; t += kWidth) {
        long long values[kAhead];
        float x[kAhead];
        int at[kAhead];
#pragma unroll
        for (int a = 0; a < kAhead; ++a) x[a] = rows[a][t];
#pragma unroll
        for (int a = 0; a < kAhead; ++a) values[a] = exact_fixed_point(x[a], scale);
#pragma unroll
        for (int a = 0; a < kAhead; ++a) at[a] = own[a].to * (d + 1) + t;
        add(at, values);
        if (!leaves) continue;
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          at[a] = own[a].from * (d + 1) + t;
          values[a] = -values[a];
        }
        add(at, values);
      }
    }
    __syncwarp();
  }

  /// By the block, synchronised before: adds its sums to dev_sums, k x (d + 1), the counts last.
  __device__ void flush(Integer* __restrict__ dev_sums) const {
    constexpr int kTogether = 4;  // reads that do not wait for one another
    const int stride = static_cast<int>(blockDim.x);
    const int end = k * (d + 1);
    for (int first = static_cast<int>(threadIdx.x); first < end; first += kTogether * stride) {
      Integer own[kTogether];
#pragma unroll
      for (int a = 0; a < kTogether; ++a) {
        const int e = first + a * stride;
        own[a] = e < end ? static_cast<Integer>(highs[e]) << 32 | lows[e] : 0;
      }
#pragma unroll
      for (int a = 0; a < kTogether; ++a) {
        if (own[a] != 0) atomicAdd(&dev_sums[first + a * stride], own[a]);
      }
    }
  }
};

}  // namespace kmeans::cuda
