// SPDX-License-Identifier: Apache-2.0
//
// The first pass of the float16 filter: the nearest centroid of each point by its bound, and the
// points for which that is undecided.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "implementations/cuda/_append.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_half_bounds.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

/// By what a row's upper bound is above its least lower one in a tile.
enum class Upper {
  own,  ///< The widths of the centroid that has it: exact, but an operation an element says which it is.
  widest,  ///< The largest of the lane's centroids.
  /// The same, and before the first tile the centroid that was the nearest before: warps of their
  /// own fetch those for the tiles of points to come, and sums that a point's bound by its own
  /// excludes are skipped.
  prefetched,
};

/// The first pass: the nearest centroid by its bound, and the points for which that may not be it.
/// kInParts: blocks share out the centroids, and join_parts_kernel() takes what each found. kKeeps:
/// bounds for the next iterations.
template <int kColumns_, Upper kUpper = Upper::own, bool kInParts_ = false, bool kKeeps = false>
struct FindNearest {
  static constexpr int kColumns = kColumns_;
  static constexpr bool kInParts = kInParts_;
  static constexpr bool kPrefetches = kUpper == Upper::prefetched;
  static_assert(!kInParts || (!kKeeps && kUpper == Upper::own));
  static_assert(kUpper == Upper::own || kColumns == kWidestColumns);

  using Element = __half;
  using Sum = float;
  static constexpr std::int64_t kWarpBytes = kPendingBytes;
  static constexpr bool kSeedsBounds = false;
  static constexpr int kPrefetchWarps = kPrefetches ? 2 : 0;

  HalfRows rows;
  const __half* __restrict__ dev_centroids;     // their copies, row by row
  const std::int32_t* __restrict__ dev_labels;  // of the iteration before, or -1
  const __half2* __restrict__ dev_widths;       // of centroids
  const __half2* __restrict__ dev_widest;       // the largest of each block of them
  BoundShares shares;
  std::int32_t* __restrict__ dev_nearest;
  std::int32_t* dev_undecided;         // rows
  std::int32_t* dev_undecided_points;  // theirs; the same array where points are rows
  float* __restrict__ dev_limits;      // of the undecided: what is above it is not the nearest
  Pair* __restrict__ dev_pairs;        // undecided, too, but between two
  TensorState* __restrict__ dev_state;
  Nearest* __restrict__ dev_found;  // kInParts: of each part's rows
  KeptBounds kept;                  // kKeeps
  unsigned key_mask = kKeyMask;

  Nearest nearest[2];
  float next[2];      // kKeeps: what is not above any lower bound but the least
  float2 lengths[2];  // of the lane's rows
  __half2 widest;     // of the lane's centroids of a tile
  uint4 coming;       // of four blocks of the next tile's, fetched
  int count;          // of rows
  int own_row;      // of a warp's: of four lanes that share two rows, the first two judge one each
  bool has_bounds;  // the centroids have bounds
  Undecided* pending;  // kPending, the warp's, in shared memory
  int pending_count;

  __device__ std::int64_t tiles(const Extents& s) const {
    return rows.dev_count == nullptr ? s.point_tiles
                                     : (rows.count(s.n) + kTileRows - 1) / kTileRows;
  }
  __device__ static int parts(const Extents& s, std::int64_t /*rounds*/) {
    return kInParts ? s.parts : 1;
  }

  __device__ void start(const Extents& s, void* of_warp) {
    count = static_cast<int>(rows.count(s.n));
    const int lane = static_cast<int>(threadIdx.x) % 32;
    own_row = lane % 2 * 8 + lane / 4;
    has_bounds = dev_state->too_far == 0;
    key_mask = __shfl_sync(kAllLanes, key_mask, 0);  // for key_of()
    pending = static_cast<Undecided*>(of_warp);
    pending_count = 0;
  }

  __device__ void begin(const Extents& /*s*/, int first_row) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      nearest[row] = {};
      next[row] = INFINITY;
      const int i = first_row + row * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
      lengths[row] = i < count ? rows.dev_lengths[i] : float2{};
    }
  }

  /// What is known before of a row, a lane a row.
  struct Previous {
    std::int32_t label;  // of the iteration before, or -1
    float2 lengths;
  };
  [[nodiscard]] __device__ Previous previous_of(int first_row) const {
    const int i = first_row + static_cast<int>(threadIdx.x) % 32;
    if (i >= count) return {-1, {}};
    return {dev_labels[rows.point_of(i)], rows.dev_lengths[i]};
  }
  /// How far apart a row's bounds by that centroid are; infinitely if there is none.
  [[nodiscard]] __device__ float width_of_previous(const Previous& previous) const {
    return previous.label < 0 ? INFINITY
                              : bound_width(previous.lengths, dev_widths[previous.label], shares);
  }
  /// The centroids that were the nearest before of a warp's 32 rows, row by row, and those widths.
  /// Pieces are on their way then.
  __device__ void prefetch(const Extents& s, std::int32_t label, float width, __half* centroids,
                           float* widths) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Two lanes a row, of which they copy 32 bytes at a time.
#pragma unroll
    for (int pass = 0; pass < 2; ++pass) {
      const int row = pass * 16 + lane / 2;
      const std::int32_t its = __shfl_sync(kAllLanes, label, row);
      if (its < 0) continue;
      const __half* from = dev_centroids + std::int64_t{its} * s.padded + lane % 2 * kCoreHalves;
      __half* to = centroids + row * prefetch_pitch<__half>(s.padded) + lane % 2 * kCoreHalves;
#pragma unroll 3
      for (int t = 0; t < s.padded; t += 2 * kCoreHalves) copy_piece(to + t, from + t);
    }
    widths[lane] = width;
  }
  /// The upper bounds of the lane's rows: of all products of sixteen rows, the warp's, from `first`
  /// on, and the centroids that were theirs those on the diagonal. The bias is in the last two
  /// products at most.
  __device__ void take_prefetched(const Extents& s, const __half* points, const __half* centroids,
                                  const float* widths, int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int own_column = lane / 4;
    points += place_in_tile(kTileRows, first + lane % 16, lane / 16 * kCoreHalves);
    centroids += (first + lane % 16) * prefetch_pitch<__half>(s.padded) + lane / 16 * kCoreHalves;
    float products[2][4] = {};
    for (int t = 0; t < s.padded; t += kMmaDepth) {
      const uint4 x = load_pieces(points + t * kTileRows);
      const uint4 c = load_pieces(centroids + t);
      multiply_add(products[0], x, {c.x, c.z},
                   {products[0][0], products[0][1], products[0][2], products[0][3]});
      multiply_add(products[1], x, {c.y, c.w},
                   {products[1][0], products[1][1], products[1][2], products[1][3]});
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float* two = &products[row][2 * row];
      const float sum = __shfl_sync(kAllLanes, own_column % 2 == 0 ? two[0] : two[1],
                                    own_column * 4 + own_column / 2);
      const float width = widths[first + row * 8 + own_column];
      nearest[row].upper = width < INFINITY ? sum + width : INFINITY;
    }
  }

  /// What reduce() takes of a tile is on its way from the tile before on.
  __device__ void preload(int next_tile) {
    if constexpr (kUpper == Upper::widest) {
      widest = widest_of(coming);
      coming = widths_of(next_tile);
    }
  }
  /// Of the lane's centroids, by blocks.
  [[nodiscard]] __device__ uint4 widths_of(int tile) const {
    return reinterpret_cast<const uint4*>(dev_widest)[tile * 4 + static_cast<int>(threadIdx.x) % 4];
  }
  [[nodiscard]] __device__ static __half2 widest_of(const uint4& blocks) {
    const auto& widths = reinterpret_cast<const __half2(&)[4]>(blocks);
    return __hmax2(__hmax2(widths[0], widths[1]), __hmax2(widths[2], widths[3]));
  }

  __device__ void epilogue(const Extents& /*s*/, const float (&sums)[kColumns / 2], int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float counted = 0;
      if constexpr (kPrefetches) {
        int blocks[kColumns / 4 / kBlockSums];
        least_of_blocks(blocks, sums, row);
        const float least = __int_as_float(least_of(blocks));
        if (!__any_sync(kAllLanes, least <= limit_of(row))) {
          if constexpr (kKeeps) next[row] = fminf(next[row], least);
          continue;
        }
        update(sums, row, least, width_of(row, widest_of(widths_of(tile))));
        const float limit = limit_of(row);
#pragma unroll
        for (int b = 0; b < kColumns / 4 / kBlockSums; ++b) {
          if (!__any_sync(kAllLanes, __int_as_float(blocks[b]) <= limit)) continue;
          counted = count_near<kBlockSums>(sums, row, b * kBlockSums, limit, counted);
        }
      } else {
        update(sums, row, first);
        counted = count_near<kColumns / 4>(sums, row, 0, limit_of(row), counted);
      }
      nearest[row].add(counted, static_cast<float>(first));
    }
  }

  [[nodiscard]] __device__ float width_of(int row, const __half2& widths) const {
    return bound_width(lengths[row], widths, shares);
  }

  /// What may be a row's nearest is below: its upper bound, and above the roundings of that.
  [[nodiscard]] __device__ float limit_of(int row) const {
    return __fmaf_rn(fabsf(nearest[row].upper), 0x1p-22F, nearest[row].upper);
  }

  /// Bounds by the least of a row's sums: not the nearest for certain, but its upper bound holds.
  /// `first`: the lane's first centroid.
  __device__ __forceinline__ void update(const float (&sums)[kColumns / 2], int row, int first) {
    Least least[2];
#pragma unroll
    for (int e = 0; e < kColumns / 4; e += 2) {
      const float* two = &sums[e / 2 * 4 + 2 * row];
      if constexpr (kUpper == Upper::own) {
        least[e / 2 % 2].look(key_of(two[0], e, key_mask), key_of(two[1], e + 1, key_mask));
      } else {
        least[e / 2 % 2].look(two[0], two[1]);
      }
    }
    const float near = __int_as_float(min(least[0].bits, least[1].bits));
    if constexpr (kUpper == Upper::own) {
      const int column = column_of(near);
      update(sums, row, near, width_of(row, dev_widths[first + column / 2 * 8 + column % 2]));
    } else {
      update(sums, row, near, width_of(row, widest));
    }
  }
  /// The least is `near`, as far as its key shows if it has one.
  __device__ __forceinline__ void update(const float (&sums)[kColumns / 2], int row, float near,
                                         float width) {
    float lower = near;
    if constexpr (kUpper == Upper::own) {
      lower -= kKeyError * near;
      width = __fmaf_rn(near, kKeyError, width);
    }
    if constexpr (kKeeps) {
      const float least_of_both = fmaxf(nearest[row].lower, lower);
      next[row] = fminf(fminf(next[row], least_of_both), next_of(sums, row, near));
    }
    nearest[row].look(lower, near + width);
  }

  /// Of a lane's sums of a row, so many from one on, those below the limit, counted as Nearest
  /// does.
  template <int kSums>
  __device__ __forceinline__ static float count_near(const float (&sums)[kColumns / 2], int row,
                                                     int from, float limit, float counted) {
    const float large_limit = limit * kLarge;
#pragma unroll
    for (int e = from; e < from + kSums; ++e) {
      const float number = kOne + static_cast<float>(e / 2 * 8 + e % 2);
      counted = count_below(sums[e / 2 * 4 + 2 * row + e % 2], large_limit, number, counted);
    }
    return counted;
  }

  /// The least of a row's sums that are not as near as makes no difference to the least. Those that
  /// are, which the subtraction makes large, are counted with it, so the point stays undecided,
  /// unless what another tile or lane has is nearer: then the least of these bounds them, which
  /// update() and end() take, too.
  __device__ static float next_of(const float (&sums)[kColumns / 2], int row, float near) {
    constexpr unsigned kSame = kUpper == Upper::own ? (1U << kIndexBits) - 1 : 0;
    const unsigned above_near = (__float_as_uint(near) | kSame) + 1;
    unsigned least = 0xffffffff;
#pragma unroll
    for (int e = 0; e < kColumns / 4; ++e) {
      const float sum = sums[e / 2 * 4 + 2 * row + e % 2];
      least = __viaddmin_u32(__float_as_uint(sum), 0U - above_near, least);
    }
    return least < 0x80000000 ? __uint_as_float(above_near + least) : near;
  }

  __device__ void end(const Extents& s, int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool odd = lane % 2 != 0;
    Nearest own = odd ? nearest[1] : nearest[0];
    const Nearest others = odd ? nearest[0] : nearest[1];
    const Nearest given = others.from(1);
    [[maybe_unused]] float own_next = INFINITY;
    if constexpr (kKeeps) {
      own_next =
          fminf(odd ? next[1] : next[0], __shfl_xor_sync(kAllLanes, odd ? next[0] : next[1], 1));
      own_next = fminf(own_next, fmaxf(own.lower, given.lower));
    }
    own.join(given);
    const Nearest rest = own.from(2);
    if constexpr (kKeeps) {
      own_next = fminf(own_next, __shfl_xor_sync(kAllLanes, own_next, 2));
      own_next = fminf(own_next, fmaxf(own.lower, rest.lower));
    }
    own.join(rest);
    const int i = first_row + own_row;
    const bool writes = lane % 4 < 2 && i < count;
    if constexpr (kInParts) {
      const unsigned part = blockIdx.x / (gridDim.x / s.parts);
      if (writes) dev_found[part * s.n + i] = own;
    } else {
      conclude(own, i, writes, own_next);
    }
  }

  /// All that there is of a row is known.
  __device__ void conclude(const Nearest& own, int i, bool writes, float own_next) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool decided = has_bounds && own.decided();
    if (writes && decided) dev_nearest[rows.point_of(i)] = own.index();
    if constexpr (kKeeps) {
      if (writes && decided) {
        kept.keep(rows.point_of(i), own.upper, own_next);
      } else if (writes) {
        kept.forget(rows.point_of(i));
      }
    }
    const unsigned undecided = __ballot_sync(kAllLanes, writes && !decided);
    if (undecided == 0) return;
    // A place in memory for each at once would wait for an atomic addition in most tiles.
    if (pending_count + __popc(undecided) > kPending) finish();
    if (writes && !decided) {
      // Above the roundings here.
      pending[pending_count + rank_in(undecided, lane)] = {
          i, own.upper + 0x1p-20F * fabsf(own.upper),
          has_bounds && own.is_pair() ? own.pair() : int2{-1, -1}};
    }
    pending_count += __popc(undecided);
  }

  /// The pending points go to memory.
  __device__ void finish() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
    const Undecided own = pending[lane];
    const bool exists = lane < pending_count;
    const bool is_pair = exists && own.pair.x >= 0;
    const unsigned pairs = __ballot_sync(kAllLanes, is_pair);
    const unsigned others = __ballot_sync(kAllLanes, exists && !is_pair);
    unsigned long long firsts[2];
    append_lanes({&dev_state->pairs, &dev_state->undecided}, {pairs, others}, firsts);
    if (is_pair) {
      dev_pairs[firsts[0] + rank_in(pairs, lane)] = {rows.point_of(own.row), own.pair.x,
                                                     own.pair.y};
    } else if (exists) {
      const auto slot = firsts[1] + rank_in(others, lane);
      dev_undecided[slot] = own.row;
      dev_undecided_points[slot] = rows.point_of(own.row);
      dev_limits[slot] = own.limit;
    }
    __syncwarp();
    pending_count = 0;
  }
};

constexpr int kJoinThreads = 256;

/// What the parts found of each row, a lane a row.
template <class Pass>
static __global__ void __launch_bounds__(kJoinThreads)
    join_parts_kernel(Extents s, const Nearest* __restrict__ dev_found, Pass pass) {
  __shared__ Undecided pending[kJoinThreads / 32][kPending];
  await_kernels_before();
  pass.start(s, pending[threadIdx.x / 32]);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t stride = std::int64_t{gridDim.x} * kJoinThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kJoinThreads + threadIdx.x;
       i - lane < pass.count; i += stride) {
    Nearest own;
    if (i < pass.count) {
      for (int part = 0; part < s.parts; ++part) own.join(dev_found[part * s.n + i]);
    }
    pass.conclude(own, static_cast<int>(i), i < pass.count, INFINITY);
  }
  pass.finish();
}

template <bool kKeeps, class Use>
void HalfFilter::with_first_pass(const Use& use) const {
  with_own_pipeline([&](auto columns, auto groups, auto pipeline) {
    using Pipeline = decltype(pipeline);
    if constexpr (!(kKeeps && Pipeline::kStreamsPoints)) {  // those leave no bounds
      if constexpr (columns == kWidestColumns && groups == 4 && !Pipeline::kStreamsPoints) {
        if (plan_.prefetches) {
          using Pass = FindNearest<columns, Upper::prefetched, false, kKeeps>;
          return use(multiply_kernel<columns, groups, Pipeline, Pass>, groups, Pass());
        }
        if (Pipeline::kOneStage || extents_.padded <= tuning::kWidestPadded) {
          using Pass = FindNearest<columns, Upper::widest, false, kKeeps>;
          return use(multiply_kernel<columns, groups, Pipeline, Pass>, groups, Pass());
        }
      }
      if constexpr (!(Pipeline::kOneStage && columns == kWidestColumns)) {
        using Pass = FindNearest<columns, Upper::own, Pipeline::kStreamsPoints, kKeeps>;
        use(multiply_kernel<columns, groups, Pipeline, Pass>, groups, Pass());
      }
    }
  });
}

template <class Pass>
Pass HalfFilter::first_pass(const HalfRows& rows, const std::int32_t* dev_labels,
                            std::int32_t* dev_nearest) const {
  Pass pass;
  pass.rows = rows;
  pass.dev_centroids = dev_centroid_rows_.data();
  pass.dev_labels = dev_labels;
  pass.dev_widths = dev_widths_.data();
  pass.dev_widest = dev_widest_.data();
  pass.shares = bound_shares(extents_.d, bias_);
  pass.dev_nearest = dev_nearest;
  pass.dev_undecided = dev_undecided_.data();
  pass.dev_undecided_points = keeps_bounds_ ? dev_undecided_.data() : undecided_points(rows);
  pass.dev_limits = dev_limits_.data();
  pass.dev_pairs = dev_pairs_.data();
  pass.dev_state = dev_state_.data();
  pass.dev_found = dev_found_.data();
  pass.kept = kept_;
  return pass;
}

template <bool kKeeps>
void HalfFilter::allow_first_pass() const {
  with_first_pass<kKeeps>([this](auto* kernel, auto /*groups*/, const auto& /*kind*/) {
    allow_shared_bytes(kernel, plan_.shared_bytes);
  });
}

template <bool kKeeps>
void HalfFilter::launch_first_pass(const HalfRows& rows, const std::int32_t* dev_labels,
                                   std::int32_t* dev_nearest, cudaStream_t stream) const {
  with_first_pass<kKeeps>([&](auto* kernel, auto groups, const auto& kind) {
    using Pass = std::decay_t<decltype(kind)>;
    const Pass pass = first_pass<Pass>(rows, dev_labels, dev_nearest);
    launch_early(kernel, blocks_, threads_for(groups, Pass::kPrefetchWarps), plan_.shared_bytes,
                 stream, extents_, rows.dev_copy, dev_centroids_copy_.data(), pass);
    if constexpr (Pass::kInParts) {
      using Joined = FindNearest<Pass::kColumns, Upper::own>;
      launch_early(join_parts_kernel<Joined>, fill_, kJoinThreads, 0, stream, extents_,
                   dev_found_.data(), first_pass<Joined>(rows, dev_labels, dev_nearest));
    }
  });
}

}  // namespace kmeans::cuda
