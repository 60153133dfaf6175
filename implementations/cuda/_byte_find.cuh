// SPDX-License-Identifier: Apache-2.0
//
// cuda_int8: the pass over the products of bytes, which leaves of each point the centroids that may be
// nearest.
#pragma once

#include <cstdint>

#include "implementations/cuda/_byte_lists.cuh"
#include "implementations/cuda/_byte_steps.cuh"
#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_tensor_state.h"
#include "implementations/cuda/_wgmma.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda::bytes {

constexpr int kColumns = 128;           // centroids of a tile
constexpr int kRowSums = kColumns / 4;  // a lane's, of a row
constexpr int kBlocks = kRowSums / kBlockSums;
constexpr int kFound = tuning::kFoundByLane;

/// Integers that may be such a number or less in a tile's units; of numbers below 2^25 units, for
/// the roundings here: so large is no sum of 2 080 columns, more than shared memory holds.
__device__ inline int limit_of(float upper, const float2& unit) {
  return __float2int_ru(__fmaf_ru(upper, unit.y, 4.0F));
}

/// The first pass: of each point the centroids whose lower bound is not above the least upper
/// bound.
struct FindCandidates {
  using Element = Byte;
  using Sum = int;
  static constexpr std::int64_t kWarpBytes = 0;
  static constexpr bool kSeedsBounds = true;
  static constexpr int kPrefetchWarps = 0;

  const float2* __restrict__ dev_point_lengths;
  const float4* __restrict__ dev_widths;  // of places
  const float2* __restrict__ dev_units;   // of tiles
  const std::int32_t* __restrict__ dev_order;
  const std::int32_t* __restrict__ dev_places;  // of centroids
  const std::int32_t* __restrict__ dev_labels;  // before
  std::int32_t* __restrict__ dev_found;         // kFound places a row of a lane
  std::int64_t room;                            // for all lists
  std::int32_t* __restrict__ dev_nearest;
  Pair* __restrict__ dev_pairs;
  Listed* __restrict__ dev_lists;
  std::int32_t* __restrict__ dev_listed;  // centroids
  std::int32_t* __restrict__ dev_others;  // points
  TensorState* __restrict__ dev_state;

  float2 lengths[2];  // of the lane's rows
  float upper[2];     // of half the squared distance to the nearest
  float spread[2];    // of a centroid's bounds, about
  int counts[2];
  int places[2];    // of the centroids that were nearest before, or -1
  bool has_bounds;  // the centroids have bounds

  __device__ std::int64_t tiles(const Extents& s) const { return s.point_tiles; }
  __device__ static int parts(const Extents& /*s*/, std::int64_t /*rounds*/) { return 1; }

  __device__ void start(const Extents& /*s*/, void* /*of_warp*/) {
    has_bounds = dev_state->too_far == 0;
  }

  __device__ void begin(const Extents& s, int first_row) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int i = first_row + row * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
      const bool exists = i < static_cast<int>(s.n);
      lengths[row] = exists ? dev_point_lengths[i] : float2{};
      // What cannot be decided here anyway has no candidates.
      const bool bounded = exists && has_bounds && lengths[row].x < INFINITY;
      upper[row] = bounded ? INFINITY : -INFINITY;
      spread[row] = 0;
      counts[row] = 0;
      const std::int32_t label = bounded ? dev_labels[i] : -1;
      places[row] = label >= 0 ? dev_places[label] : -1;
    }
  }

  /// The first upper bound is that of the previous nearest centroid, so that few others are below.
  __device__ void seed_bounds(const Extents& s, const Byte* rows, const Byte* dev_centroids) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int tile_row = static_cast<int>(threadIdx.x) / 32 % kGroupWarps * 16 + lane / 4;
    constexpr int kCore = kCoreElements<Byte>;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      int sum = 0;
      if (places[row] >= 0) {
        const Byte* own = rows + (tile_row + row * 8) * kCore;
        const Byte* before = dev_centroids +
                             std::int64_t{places[row] / kColumns} * kColumns * s.padded +
                             places[row] % kColumns * kCore;
#pragma unroll 2
        for (int chunk = lane % 4; chunk < s.padded / kCore; chunk += 4) {
          const int4 x = *reinterpret_cast<const int4*>(own + chunk * kTileRows * kCore);
          const int4 c = *reinterpret_cast<const int4*>(before + chunk * kColumns * kCore);
          sum = __dp4a(x.x, c.x, __dp4a(x.y, c.y, __dp4a(x.z, c.z, __dp4a(x.w, c.w, sum))));
        }
      }
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      if (places[row] < 0) continue;
      upper[row] = upper_of(row, sum, places[row]);
      spread[row] = upper[row] - static_cast<float>(sum) * dev_units[places[row] / kColumns].x;
    }
  }

  /// Of half the squared distance of a row and the centroid at a place, by their product.
  __device__ float upper_of(int row, int sum, int place) const {
    const float4 widths = dev_widths[place];
    const float2 own = lengths[row];
    // The float64 definition's own rounding is 2^-40 of the squared lengths at most.
    const float rest = __fmaf_ru(__fmul_ru(own.x, own.x), 0x1p-29F, widths.z);
    const float width = __fmaf_ru(own.x, widths.x, __fmaf_ru(own.y, widths.y, rest));
    return __fmaf_ru(__int2float_ru(sum), dev_units[place / kColumns].x, width);
  }

  __device__ std::int32_t* found(int row, int slot) const {
    return dev_found + ((blockIdx.x * kFound + slot) * 2 + row) * blockDim.x + threadIdx.x;
  }

  __device__ void preload(int /*tile*/) {}
  __device__ void epilogue(const Extents& s, const int (&sums)[kColumns / 2], int tile) {
    const float2 unit = dev_units[tile];
    int least[2][kBlocks];
    bool near[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      least_of_blocks(least[row], sums, row);
      const int all = least_of(least[row]);
      near[row] = all <= limit_of(upper[row], unit);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if (__any_sync(kAllLanes, near[row])) list_near(s, row, sums, least[row], unit, tile);
    }
  }

  /// Some lane of the warp has a centroid that may be the row's nearest.
  __device__ __forceinline__ void list_near(const Extents& s, int row,
                                            const int (&sums)[kColumns / 2],
                                            const int (&least)[kBlocks], const float2& unit,
                                            int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
    const int limit = limit_of(upper[row], unit);
    unsigned near = 0;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (!__any_sync(kAllLanes, least[b] <= limit)) continue;
#pragma unroll
      for (int e = b * kBlockSums; e < (b + 1) * kBlockSums; ++e) {
        if (sums[e / 2 * 4 + 2 * row + e % 2] <= limit) near |= 1U << e;
      }
    }
    // One that is nearer than what was known leaves less of those that follow.
    const int all = least_of(least);
    const bool nearer =
        near != 0 && __fmaf_rn(static_cast<float>(all), unit.x, spread[row]) < upper[row];
    if (__any_sync(kAllLanes, nearer)) {
      if (nearer) {
        int e_of_all = 0;
#pragma unroll
        for (int e = 0; e < kRowSums; ++e) {
          if (sums[e / 2 * 4 + 2 * row + e % 2] == all) e_of_all = e;
        }
        upper[row] = fminf(upper[row], upper_of(row, all, first + e_of_all / 2 * 8 + e_of_all % 2));
      }
      upper[row] = fminf(upper[row], __shfl_xor_sync(kAllLanes, upper[row], 1));
      upper[row] = fminf(upper[row], __shfl_xor_sync(kAllLanes, upper[row], 2));
    }
    for (; near != 0; near &= near - 1) {
      const int e = __ffs(static_cast<int>(near)) - 1;
      const int place = first + e / 2 * 8 + e % 2;
      if (place >= static_cast<int>(s.k)) break;  // past the last centroid
      if (counts[row] < kFound) *found(row, counts[row]) = place;
      ++counts[row];
    }
    if (counts[row] > kFound) upper[row] = -INFINITY;  // it is left to float16
  }

  /// What the four lanes of a row found.
  struct RowCounts {
    int before;  // lanes before this one
    int total;
    bool all;  // none found more than it wrote down
  };
  __device__ __forceinline__ RowCounts counts_of_row(int own, int lane) const {
    RowCounts row{.before = 0, .total = own, .all = has_bounds && own <= kFound};
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
      const int other = __shfl_xor_sync(kAllLanes, row.total, distance);
      if ((lane & distance) != 0) row.before += other;
      row.total += other;
      row.all = __shfl_xor_sync(kAllLanes, row.all ? 1 : 0, distance) != 0 && row.all;
    }
    return row;
  }

  /// Room for the lists of all rows of the warp.
  struct Entries {
    std::int64_t first;  // of the warp
    int before;          // of the rows before this one
    bool fit;
  };
  /// entries: what the row needs, in its first lane.
  __device__ __forceinline__ Entries reserve_entries(int entries, int lane) const {
    int before = 0;
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
      const int other = __shfl_xor_sync(kAllLanes, entries, distance);
      if ((lane & distance) != 0) before += other;
      entries += other;
    }
    before = __shfl_sync(kAllLanes, before, lane / 4 * 4);
    entries = __shfl_sync(kAllLanes, entries, 0);
    unsigned long long place = 0;
    if (lane == 0 && entries > 0) place = atomicAdd(&dev_state->listed, entries);
    const auto first = static_cast<std::int64_t>(__shfl_sync(kAllLanes, place, 0));
    return {.first = first, .before = before, .fit = first + entries <= room};
  }

  /// Where the row's point goes: among the pairs, the lists, or the points that are left to float16.
  struct Slots {
    unsigned long long pair;
    unsigned long long list;
    unsigned long long other;
  };
  /// pairs, lists, others: the rows of the warp that go there, as the bits of their first lanes.
  __device__ __forceinline__ Slots reserve_slots(unsigned pairs, unsigned lists, unsigned others,
                                                 int lane) const {
    unsigned long long place = 0;
    if (lane == 0 && pairs != 0) place = atomicAdd(&dev_state->pairs, __popc(pairs));
    if (lane == 1 && lists != 0) place = atomicAdd(&dev_state->lists, __popc(lists));
    if (lane == 2 && others != 0) place = atomicAdd(&dev_state->undecided, __popc(others));
    const unsigned below = (1U << lane / 4 * 4) - 1;
    return {.pair = __shfl_sync(kAllLanes, place, 0) + __popc(pairs & below),
            .list = __shfl_sync(kAllLanes, place, 1) + __popc(lists & below),
            .other = __shfl_sync(kAllLanes, place, 2) + __popc(others & below)};
  }

  __device__ void end(const Extents& s, int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool leads = lane % 4 == 0;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int i = first_row + row * 8 + lane / 4;
      const bool exists = i < static_cast<int>(s.n);
      const int own = counts[row];
      const RowCounts found_here = counts_of_row(own, lane);
      const int total = found_here.total;
      const bool known = exists && found_here.all && total > 0 && total <= kMaxCandidates;
      const unsigned pairs = __ballot_sync(kAllLanes, leads && known && total == 2);
      bool listed = known && total > 2;
      const Entries entries = reserve_entries(leads && listed ? total : 0, lane);
      if (!entries.fit) listed = false;
      const unsigned lists = __ballot_sync(kAllLanes, leads && listed);
      const unsigned others =
          __ballot_sync(kAllLanes, leads && exists && !listed && !(known && total <= 2));
      const Slots slots = reserve_slots(pairs, lists, others, lane);
      if (leads && exists) {
        if (known && total == 2) {
          dev_pairs[slots.pair].point = i;
        } else if (listed) {
          dev_lists[slots.list] = {i, total, entries.first + entries.before};
        } else if (!known || total > 2) {
          dev_others[slots.other] = i;
        }
      }
      if (!known || (total > 2 && !listed)) continue;
      for (int slot = 0, before = found_here.before; slot < own; ++slot, ++before) {
        const std::int32_t j = dev_order[*found(row, slot)];
        if (total == 1) {
          dev_nearest[i] = j;
        } else if (total == 2) {
          (before == 0 ? dev_pairs[slots.pair].one : dev_pairs[slots.pair].other) = j;
        } else {
          dev_listed[entries.first + entries.before + before] = j;
        }
      }
    }
    __syncwarp();
  }

  __device__ void finish() {}
};

}  // namespace kmeans::cuda::bytes
