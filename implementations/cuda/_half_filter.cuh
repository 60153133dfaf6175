// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroids of points by float16 products with a bound on all that they round, and by float32 and float64
// where that leaves more than one (docs/gpu-bounds.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "implementations/cuda/_append.cuh"
#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_search.cuh"
#include "implementations/cuda/_tensor_copies.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

/// A point that the first pass leaves open: what is above its nearest centroid's bound; and the two
/// centroids that are not, if it is known that there are no more (else -1).
struct Undecided {
  std::int32_t row;
  float limit;
  int2 pair;
};
/// Up to so many columns of a row the largest of some centroids' widths stand for each's own: then to reduce
/// products takes longer than the points that this leaves open (measured on one H100 at 64, 128, 200 and 512
/// coordinates).
constexpr int kWidestPadded = 144;
constexpr int kPending = 32;  // that a warp collects before it makes room for them: a lane each
constexpr std::int64_t kPendingBytes = kPending * sizeof(Undecided);

/// Points in float16, as copy_points_kernel() leaves them: all, row by row; or those that dev_map names, from entry
/// `first` on, as many as *dev_count says. Where so many would not have been gathered (`gathered`), none of those; and
/// of all, where that is given, all then and none else.
struct HalfRows {
  const __half* dev_copy;
  const float2* dev_lengths;
  const std::int32_t* dev_map = nullptr;
  const unsigned long long* dev_count = nullptr;
  std::int64_t first = 0;
  std::int64_t gathered = std::numeric_limits<std::int64_t>::max();

  /// At most `most`.
  [[nodiscard]] __device__ std::int64_t count(std::int64_t most) const {
    if (dev_count == nullptr) return most;
    const auto listed = static_cast<std::int64_t>(*dev_count);
    if (dev_map == nullptr) return listed > gathered ? most : 0;
    return listed > gathered ? 0 : min(max(listed - first, std::int64_t{0}), most);
  }
  [[nodiscard]] __device__ std::int32_t point_of(int row) const {
    return dev_map == nullptr ? row : dev_map[first + row];
  }
};

/// What is known of points' distances in the frame of their copies, from iteration to iteration: an upper bound of the
/// one to the own centroid, a lower bound of the one to any other.
struct KeptBounds {
  float* dev_upper;
  float* dev_lower;
  const float* dev_half_squares;  // of the points' lengths, rounded down
  float added;                    // to the accumulators' bounds

  /// Of a point by the bounds of the two nearest: of half the squared distances less half the point's squared length.
  __device__ void keep(std::int32_t point, float upper, float next) const {
    const float half_square = dev_half_squares[point];
    // Above its rounding, and float64's in the definition.
    const float above = __fmaf_ru(half_square, 1 + 0x1p-21F, 0x1p-100F);
    const float far = __fadd_ru(__fsub_ru(upper, added), above);
    const float near = __fadd_rd(__fsub_rd(next, added), half_square);
    dev_upper[point] = __fsqrt_ru(__fmul_ru(2, fmaxf(far, 0)));
    dev_lower[point] = __fsqrt_rd(__fmul_rd(2, fmaxf(near, 0)));
  }
  /// Nothing is known.
  __device__ void forget(std::int32_t point) const {
    dev_upper[point] = INFINITY;
    dev_lower[point] = 0;
  }
};

/// By what a row's upper bound is above its least lower one in a tile.
enum class Upper {
  own,  ///< The widths of the centroid that has it: exact, but an operation an element says which it is.
  widest,  ///< The largest of the lane's centroids.
  /// The same, and before the first tile the centroid that was the nearest before: warps of their own fetch those
  /// for the tiles of points to come, and what a point's bound by its own leaves out is not looked at closer.
  ahead,
};

/// The first pass: the nearest centroid by its bound, and the points for which that may not be it. kInParts: blocks
/// share out the centroids, and join_parts_kernel() takes what each found. kKeeps: bounds for the next iterations.
template <int kColumns, class Owner, Upper kUpper = Upper::own, bool kInParts = false,
          bool kKeeps = false>
struct FindNearest {
  static constexpr bool kLooks = kUpper == Upper::ahead;
  static_assert(!kInParts || (!kKeeps && kUpper == Upper::own));
  static_assert(kUpper == Upper::own || kColumns == kWidestColumns);

  using Element = __half;
  using Sum = float;
  static constexpr std::int64_t kWarpBytes = kPendingBytes;
  static constexpr bool kLooksFirst = false;
  static constexpr int kAheadWarps = kLooks ? 2 : 0;

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
  int own_row;  // of a warp's: of four lanes that share two rows, the first two judge one each
  bool judges;  // the centroids have bounds
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
    judges = dev_state->too_far == 0;
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
  struct Known {
    std::int32_t label;  // of the iteration before, or -1
    float2 lengths;
  };
  [[nodiscard]] __device__ Known known_ahead(int first_row) const {
    const int i = first_row + static_cast<int>(threadIdx.x) % 32;
    if (i >= count) return {-1, {}};
    return {dev_labels[rows.point_of(i)], rows.dev_lengths[i]};
  }
  /// How far apart a row's bounds by that centroid are; infinitely if there is none.
  [[nodiscard]] __device__ float width_ahead(const Known& known) const {
    return known.label < 0 ? INFINITY : bound_width(known.lengths, dev_widths[known.label], shares);
  }
  /// The centroids that were the nearest before of a warp's 32 rows, row by row, and those widths. Pieces are on their
  /// way then.
  __device__ void look_ahead(const Extents& s, std::int32_t label, float width, __half* centroids,
                             float* widths) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Two lanes a row, of which they copy 32 bytes at a time.
#pragma unroll
    for (int pass = 0; pass < 2; ++pass) {
      const int row = pass * 16 + lane / 2;
      const std::int32_t its = __shfl_sync(kAllLanes, label, row);
      if (its < 0) continue;
      const __half* from = dev_centroids + std::int64_t{its} * s.padded + lane % 2 * kCoreHalves;
      __half* to = centroids + row * ahead_pitch<__half>(s.padded) + lane % 2 * kCoreHalves;
#pragma unroll 3
      for (int t = 0; t < s.padded; t += 2 * kCoreHalves) copy_piece(to + t, from + t);
    }
    widths[lane] = width;
  }
  /// The upper bounds of the lane's rows: of all products of sixteen rows, the warp's, from `first` on, and the
  /// centroids that were theirs those on the diagonal. The bias is in the last two products at most.
  __device__ void take_ahead(const Extents& s, const __half* points, const __half* centroids,
                             const float* widths, int first) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int own_column = lane / 4;
    points += place_in_tile(kTileRows, first + lane % 16, lane / 16 * kCoreHalves);
    centroids += (first + lane % 16) * ahead_pitch<__half>(s.padded) + lane / 16 * kCoreHalves;
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
  __device__ void fetch(int next_tile) {
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

  __device__ void reduce(const Extents& /*s*/, const float (&sums)[kColumns / 2], int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float counted = 0;
      if constexpr (kLooks) {
        int blocks[kColumns / 4 / kBlockSums];
        least_of_blocks(blocks, sums, row);
        const float least = __int_as_float(least_of(blocks));
        if (!__any_sync(kAllLanes, least <= limit_of(row))) {
          if constexpr (kKeeps) next[row] = fminf(next[row], least);
          continue;
        }
        look(sums, row, least, width_of(row, widest_of(widths_of(tile))));
        const float limit = limit_of(row);
#pragma unroll
        for (int b = 0; b < kColumns / 4 / kBlockSums; ++b) {
          if (!__any_sync(kAllLanes, __int_as_float(blocks[b]) <= limit)) continue;
          counted = count_near<kBlockSums>(sums, row, b * kBlockSums, limit, counted);
        }
      } else {
        look(sums, row, first);
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

  /// Bounds by the least of a row's sums: not the nearest for certain, but its upper bound holds. `first`: the
  /// lane's first centroid.
  __device__ __forceinline__ void look(const float (&sums)[kColumns / 2], int row, int first) {
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
      look(sums, row, near, width_of(row, dev_widths[first + column / 2 * 8 + column % 2]));
    } else {
      look(sums, row, near, width_of(row, widest));
    }
  }
  /// The least is `near`, as far as its key shows if it has one.
  __device__ __forceinline__ void look(const float (&sums)[kColumns / 2], int row, float near,
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

  /// Of a lane's sums of a row, so many from one on, those below the limit, counted as Nearest does.
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

  /// The least of a row's sums that are not as near as makes no difference to the least. Those that are, which the
  /// subtraction makes large, are counted with it, so they leave the point open, unless what another tile or lane has
  /// is nearer: then the least of these bounds them, which look() and end() take, too.
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
    const bool decided = judges && own.decided();
    if (writes && decided) dev_nearest[rows.point_of(i)] = own.index();
    if constexpr (kKeeps) {
      if (writes && decided) {
        kept.keep(rows.point_of(i), own.upper, own_next);
      } else if (writes) {
        kept.forget(rows.point_of(i));
      }
    }
    const unsigned open = __ballot_sync(kAllLanes, writes && !decided);
    if (open == 0) return;
    // A place in memory for each at once would wait for an atomic addition in most tiles.
    if (pending_count + __popc(open) > kPending) finish();
    if (writes && !decided) {
      // Above the roundings here.
      pending[pending_count + rank_in(open, lane)] = {
          i, own.upper + 0x1p-20F * fabsf(own.upper),
          judges && own.is_pair() ? own.pair() : int2{-1, -1}};
    }
    pending_count += __popc(open);
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

/// The second pass, over the undecided points: all centroids whose bound is not above the limit.
template <int kColumns, class Owner>
struct ListCandidates {
  using Element = __half;
  using Sum = float;
  static constexpr std::int64_t kWarpBytes = kPendingBytes;
  static constexpr bool kLooksFirst = false;
  static constexpr int kAheadWarps = 0;

  const float* __restrict__ dev_limits;
  const TensorState* __restrict__ dev_state;
  std::int64_t listed;  // undecided points that have a list
  std::int32_t* __restrict__ dev_candidate_counts;
  std::int32_t* __restrict__ dev_candidates;

  float limits[2];
  std::int64_t first_slot;

  __device__ std::int64_t count() const {
    return min(static_cast<std::int64_t>(dev_state->undecided), listed);
  }
  __device__ std::int64_t tiles(const Extents& /*s*/) const {
    return dev_state->too_far != 0 ? 0 : (count() + kTileRows - 1) / kTileRows;
  }
  /// Of the centroids: few points would leave most blocks without work.
  __device__ static int parts(const Extents& s, std::int64_t rounds) {
    if (s.stays || rounds == 0) return 1;
    const auto blocks = static_cast<std::int64_t>(gridDim.x);
    return static_cast<int>(
        min(max(blocks / rounds, std::int64_t{s.parts}), std::int64_t{s.centroid_tiles}));
  }

  __device__ void start(const Extents& /*s*/, void* /*of_warp*/) {}

  __device__ void begin(const Extents& /*s*/, int first_row) {
    const std::int64_t end = count();
    first_slot = first_row + threadIdx.x % 32 / 4;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t slot = first_slot + row * 8;
      limits[row] = slot < end ? dev_limits[slot] : -INFINITY;
    }
  }

  __device__ void fetch(int /*tile*/) {}
  __device__ void reduce(const Extents& s, const float (&sums)[kColumns / 2], int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      // First which, then where they go: the lanes' additions to the counts wait together.
      unsigned close = 0;
#pragma unroll
      for (int c = 0; c < kColumns / 4; ++c) {
        if (sums[c / 2 * 4 + row * 2 + c % 2] <= limits[row]) close |= 1U << c;
      }
      const std::int64_t slot = first_slot + row * 8;
      for (; close != 0; close &= close - 1) {
        const int c = __ffs(static_cast<int>(close)) - 1;
        const int j = first + c / 2 * 8 + c % 2;
        if (j >= s.k) break;
        const std::int32_t place = atomicAdd(&dev_candidate_counts[slot], 1);
        if (place < kMaxCandidates) dev_candidates[slot * kMaxCandidates + place] = j;
      }
    }
  }

  __device__ void end(const Extents& /*s*/, int /*first_row*/) {}
  __device__ void finish() {}
};

/// Warps look ahead where there are so many tiles of centroids that what points' bounds by their old centroids save
/// in them exceeds what those take, more where rows have more products, less where bounds are kept, for which all
/// sums are looked at once more (times at d = 12, 32, 64, 100 and 128 on one H100, docs/lab/gpu.md); and where
/// three tiles of centroids still have room, so that groups that wait one after the other need not wait for each other.
inline Plan half_plan_of(const Shape& shape, const GpuDevice& gpu, bool keeps) {
  const std::int64_t padded = padded_for(shape.d);
  const auto with_bytes = [&](std::int64_t of_block) {
    return plan_for<__half>(padded, shape.k, gpu.shared_bytes_per_block, kPendingBytes, of_block);
  };
  Plan plan = with_bytes(0);
  const std::int64_t products = padded * static_cast<std::int64_t>(sizeof(__half)) / kStepBytes;
  const std::int64_t tiles = plan.columns > 0 ? ceil_div(shape.k, plan.columns) : 0;
  if (plan.groups != 4 || plan.columns != kWidestColumns || plan.streams) return plan;
  // Few tiles that are a stage each: where ordering would begin and end again for a few, they cost 1 to 4 %.
  if (plan.steps == products && tiles <= (keeps ? 8 : 4)) plan.turn = 0;
  if (tiles < (keeps ? 5 + products * products / 8 : 9 + products * products / 5)) return plan;
  Plan looking = with_bytes(ahead_bytes<__half>(padded));
  if (looking.groups != plan.groups || looking.streams) return plan;
  const std::int64_t tile_stages = ceil_div(products, looking.steps);
  if (!looking.stays && (looking.stages < 3 * tile_stages || looking.buffers < plan.buffers)) {
    return plan;
  }
  looking.looks = true;
  // Turns would make all wait for what one waits for.
  looking.turn = 0;
  return looking;
}

/// Bytes of device memory, without what is copied and mapped of the points.
inline double half_filter_bytes(const Shape& s, double rows) {
  const auto padded = static_cast<double>(padded_for(s.d));
  // Wider points than that stream, in parts, where a block has 227 KiB of shared memory.
  const double parts =
      padded > 1040 ? std::min(static_cast<double>(s.k) / 128 + 1, double{kMaxParts}) : 0;
  const double k = static_cast<double>(s.k) + 256;
  const double open = rows / 8 + 4352;
  return (28 + sizeof(Nearest) * parts) * rows + open * (2 * padded + 4 * kMaxCandidates + 4) +
         k * (4 * padded + 4.0 * static_cast<double>(s.d) + 24);
}

/// The passes, and what they need on the GPU: find(), of all rows or of some after others, then settle(). Owner: the
/// variant, whose own the kernels are, since each source allows its kernels their shared memory. kKeeps: find() leaves
/// bounds, where points do not stream.
template <class Owner, bool kKeeps = false>
class HalfFilter {
 public:
  HalfFilter() = default;
  /// `rows`: of the shape's points, at a time, at most; mapped: HalfRows::dev_map is given.
  HalfFilter(const Shape& shape, std::int64_t rows, bool mapped, const GpuDevice& gpu)
      : plan_(half_plan_of(shape, gpu, kKeeps)),
        extents_(in_parts(
            extents_of({rows, shape.d, shape.k, shape.precision}, plan_, padded_for(shape.d)),
            plan_, gpu)),
        listed_(std::max<std::int64_t>(std::min<std::int64_t>(rows, 4096), rows / 8)),
        blocks_(static_cast<unsigned>(std::min<std::int64_t>(
            gpu.multiprocessors, extents_.point_tiles / plan_.groups * extents_.parts))),
        fill_(static_cast<unsigned>(4 * gpu.multiprocessors)),
        pitch_(ceil_div(shape.k, kSearchThreads) * kSearchThreads),
        dev_centroids_copy_(std::int64_t{extents_.centroid_tiles} * plan_.columns *
                            extents_.padded),
        dev_centroid_rows_(plan_.looks ? shape.k * extents_.padded : 0),
        dev_widths_(std::int64_t{extents_.centroid_tiles} * plan_.columns),
        dev_widest_(dev_widths_.size() / kWidthBlock),
        dev_columns_(pitch_ * shape.d),
        dev_undecided_(rows),
        dev_undecided_points_(mapped ? rows : 0),
        dev_crowded_(rows),
        dev_limits_(rows),
        dev_pairs_(rows),
        dev_rows_(ceil_div(listed_, plan_.groups * kTileRows) * plan_.groups *
                  tile_elements(extents_)),
        dev_candidate_counts_(listed_),
        dev_candidates_(listed_ * kMaxCandidates),
        dev_found_(plan_.streams ? extents_.parts * rows : 0),
        dev_state_(1) {
    dev_rows_.zero();
    with_own_kernels([this](auto columns, auto groups, auto cut) {
      using Stages = decltype(cut);
      with_first_pass(columns, groups, cut, [this](auto* kernel, const auto& /*kind*/) {
        allow_shared_bytes(kernel, plan_.shared_bytes);
      });
      allow_shared_bytes(multiply_kernel<columns, groups, Stages, ListCandidates<columns, Owner>>,
                         plan_.shared_bytes);
    });
  }

  /// Of the rows.
  [[nodiscard]] const Extents& extents() const { return extents_; }
  [[nodiscard]] std::int64_t copy_elements() const {
    return extents_.point_tiles * tile_elements(extents_);
  }
  [[nodiscard]] TensorState* dev_state() const { return dev_state_.data(); }
  /// From now on so many centroids, at most the shape's; not where points stream, whose parts follow from it.
  void narrow(std::int64_t k) {
    extents_.k = k;
    extents_.centroid_tiles = static_cast<int>(ceil_div(k, plan_.columns));
    if (!plan_.stays) return;
    // Those that stay are fed once, a stage each.
    const std::int64_t products =
        extents_.padded * static_cast<std::int64_t>(sizeof(__half)) / kStepBytes;
    extents_.stages = extents_.centroid_tiles * static_cast<int>(ceil_div(products, plan_.steps));
  }
  void restart() const { dev_state_.zero(); }
  /// Of all points' copies.
  void set_bias(const Bias& bias) { bias_ = bias; }
  /// kKeeps: where bounds go; of it the bias is set.
  void set_kept(const KeptBounds& kept) { kept_ = kept; }

  /// dev_totals: sums and counts to divide, or null, and the centroids are copied as they are.
  void move_centroids(const Integer* dev_totals, double inverse_scale, float* dev_centroids,
                      const CopyFrame& frame, cudaStream_t stream) const {
    launch_early(divide_and_copy_kernel, static_cast<unsigned>(dev_widest_.size()), kCopyThreads, 0,
                 stream, dev_totals, inverse_scale, dev_centroids, extents_, frame.dev_mean.data(),
                 frame.scale, bias_, dev_centroids_copy_.data(), dev_centroid_rows_.data(),
                 dev_widths_.data(), dev_widest_.data(), dev_state_.data());
  }

  /// dev_labels: of all points, those of the iteration before, or -1.
  void find(const HalfRows& rows, const std::int32_t* dev_labels, std::int32_t* dev_nearest,
            cudaStream_t stream) const {
    with_own_kernels([&](auto columns, auto groups, auto cut) {
      using Stages = decltype(cut);
      with_first_pass(columns, groups, cut, [&](auto* kernel, const auto& kind) {
        launch_early(
            kernel, blocks_, threads_for(groups, std::decay_t<decltype(kind)>::kAheadWarps),
            plan_.shared_bytes, stream, extents_, rows.dev_copy, dev_centroids_copy_.data(),
            first_pass<std::decay_t<decltype(kind)>>(rows, dev_labels, dev_nearest));
      });
      if constexpr (Stages::kStreams) {
        join_parts<decltype(columns)::value>(rows, dev_labels, dev_nearest, stream);
      }
    });
  }

  /// The rows that find() left undecided; in a graph, pairs next to the others. `last`: of the rows of an iteration.
  void settle(const HalfRows& rows, const float* dev_points, const float* dev_centroids,
              std::int32_t* dev_nearest, bool last, cudaStream_t stream) const {
    const std::int64_t d = extents_.d;
    const std::int64_t k = extents_.k;
    const float factor = filter_factor(d);
    Fork fork(stream);
    decide_pairs_kernel<<<2 * fill_, 256, 0, fork.beside()>>>(
        dev_points, dev_centroids, d, factor, dev_pairs_.data(), dev_state_.data(), dev_nearest);
    KMEANS_CUDA_LAUNCHED(decide_pairs_kernel);
    // Of the others some may have to be searched for.
    transpose_centroids_kernel<<<fill_, 256, 0, fork.beside()>>>(
        dev_centroids, k, d, pitch_, &dev_state_.data()->undecided, dev_columns_.data());
    KMEANS_CUDA_LAUNCHED(transpose_centroids_kernel);
    launch_early(gather_rows_kernel<__half>, fill_, 256, 0, stream, extents_, listed_,
                 rows.dev_copy, dev_undecided_.data(), dev_state_.data(), dev_rows_.data(),
                 dev_candidate_counts_.data());
    with_own_kernels([&](auto columns, auto groups, auto cut) {
      const ListCandidates<columns, Owner> pass{
          .dev_limits = dev_limits_.data(),
          .dev_state = dev_state_.data(),
          .listed = listed_,
          .dev_candidate_counts = dev_candidate_counts_.data(),
          .dev_candidates = dev_candidates_.data(),
          .limits = {},
          .first_slot = 0};
      launch_early(multiply_kernel<columns, groups, decltype(cut), ListCandidates<columns, Owner>>,
                   blocks_, threads_for(groups), plan_.shared_bytes, stream, extents_,
                   dev_rows_.data(), dev_centroids_copy_.data(), pass);
    });
    launch_early(decide_kernel, 2 * fill_, 256, 0, stream, dev_points, dev_centroids, d, factor,
                 listed_, undecided_points(rows), dev_candidate_counts_.data(),
                 dev_candidates_.data(), dev_nearest, dev_crowded_.data(), dev_state_.data());
    fork.join();
    search_kernel<<<fill_, kSearchThreads, 0, stream>>>(dev_points, d, dev_columns_.data(), k,
                                                        pitch_, factor, last, dev_state_.data(),
                                                        dev_crowded_.data(), dev_nearest);
    KMEANS_CUDA_LAUNCHED(search_kernel);
  }

 private:
  static Extents in_parts(Extents extents, const Plan& plan, const GpuDevice& gpu) {
    if (plan.streams) {
      extents.parts =
          parts_for(extents.point_tiles / plan.groups, extents.centroid_tiles, gpu.multiprocessors);
    }
    return extents;
  }

  template <int kColumns>
  void join_parts(const HalfRows& rows, const std::int32_t* dev_labels, std::int32_t* dev_nearest,
                  cudaStream_t stream) const {
    using Pass = FindNearest<kColumns, Owner>;
    launch_early(join_parts_kernel<Pass>, fill_, kJoinThreads, 0, stream, extents_,
                 dev_found_.data(), first_pass<Pass>(rows, dev_labels, dev_nearest));
  }

  /// Calls use() with the kernel of a first pass of the kind that the shape takes, and such a pass.
  template <class Columns, class Groups, class Stages, class Use>
  void with_first_pass(Columns /*columns*/, Groups /*groups*/, Stages /*cut*/,
                       const Use& use) const {
    constexpr int kColumns = Columns::value;
    constexpr int kGroups = Groups::value;
    constexpr bool kOwnKeeps = kKeeps && !Stages::kStreams;
    if constexpr (kColumns == kWidestColumns && kGroups == 4 && !Stages::kStreams) {
      if (plan_.looks) {
        using Pass = FindNearest<kColumns, Owner, Upper::ahead, false, kOwnKeeps>;
        return use(multiply_kernel<kColumns, kGroups, Stages, Pass>, Pass());
      }
      if (Stages::kAlone || extents_.padded <= kWidestPadded) {
        using Pass = FindNearest<kColumns, Owner, Upper::widest, false, kOwnKeeps>;
        return use(multiply_kernel<kColumns, kGroups, Stages, Pass>, Pass());
      }
    }
    if constexpr (!(Stages::kAlone && kColumns == kWidestColumns)) {
      using Pass = FindNearest<kColumns, Owner, Upper::own, Stages::kStreams, kOwnKeeps>;
      use(multiply_kernel<kColumns, kGroups, Stages, Pass>, Pass());
    }
  }

  template <class Pass>
  [[nodiscard]] Pass first_pass(const HalfRows& rows, const std::int32_t* dev_labels,
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
    pass.dev_undecided_points = kKeeps ? dev_undecided_.data() : undecided_points(rows);
    pass.dev_limits = dev_limits_.data();
    pass.dev_pairs = dev_pairs_.data();
    pass.dev_state = dev_state_.data();
    pass.dev_found = dev_found_.data();
    pass.kept = kept_;
    return pass;
  }

  template <class Use>
  void with_own_kernels(const Use& use) const {
    const auto bytes = extents_.padded * static_cast<int>(sizeof(__half));
    with_kernels<__half>(plan_, bytes / kStepBytes, use);
  }
  /// Points that are rows need no second list.
  [[nodiscard]] std::int32_t* undecided_points(const HalfRows& rows) const {
    return rows.dev_map == nullptr ? dev_undecided_.data() : dev_undecided_points_.data();
  }

  Plan plan_;
  Extents extents_{};
  std::int64_t listed_ = 0;  // undecided rows that may have a list
  unsigned blocks_ = 0;
  unsigned fill_ = 0;  // blocks that occupy the GPU
  std::int64_t pitch_ = 0;
  Bias bias_;
  KeptBounds kept_{};
  DeviceBuffer<__half> dev_centroids_copy_;
  DeviceBuffer<__half> dev_centroid_rows_;  // the same, row by row, where warps look ahead
  DeviceBuffer<__half2> dev_widths_;        // of centroids
  DeviceBuffer<__half2> dev_widest_;        // the largest of each block of them
  DeviceBuffer<float> dev_columns_;         // the centroids, column-major, pitch_ of them
  DeviceBuffer<std::int32_t> dev_undecided_;
  DeviceBuffer<std::int32_t> dev_undecided_points_;
  DeviceBuffer<std::int32_t> dev_crowded_;
  DeviceBuffer<float> dev_limits_;
  DeviceBuffer<Pair> dev_pairs_;
  DeviceBuffer<__half> dev_rows_;  // of the undecided
  DeviceBuffer<std::int32_t> dev_candidate_counts_;
  DeviceBuffer<std::int32_t> dev_candidates_;
  DeviceBuffer<Nearest> dev_found_;  // of the parts
  DeviceBuffer<TensorState> dev_state_;
};

}  // namespace kmeans::cuda
