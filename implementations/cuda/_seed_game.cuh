// SPDX-License-Identifier: Apache-2.0
//
// The game of k-means++ on a GPU (docs/seeding.md): bars, darts that come down on them, and which
// of them hit. Its state stays there, so a round waits for the host once, at its end.
#pragma once

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "harness/support/seed_distances.h"
#include "implementations/cuda/_append.cuh"
#include "implementations/cuda/_seed_kernels.cuh"

namespace kmeans::cuda {

/// Between the kernels of a game.
struct SeedGame {
  double scale;       // of the bars
  Integer width;      // of all bars
  Integer dart;       // the number of the next one
  std::int64_t hits;  // which are left in this round
  std::int64_t misses;
  std::int64_t seeds;   // in all
  std::int64_t recent;  // of them, since the last pass
};

/// What a round begins with. weight_bits < 0: the scale is known; else that of the largest S.
struct RoundStart {
  double scale = 1;
  int weight_bits = -1;
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t recent = 0;  // seeds since the last pass
};

static __global__ void begin_round_kernel(RoundStart start, const Integer* __restrict__ dev_largest,
                                          SeedGame* __restrict__ dev_game) {
  double scale = start.scale;
  if (start.weight_bits >= 0) {
    const double largest = __longlong_as_double(static_cast<long long>(*dev_largest));
    scale = largest > 0 ? kmeans::bar_scale(largest, start.weight_bits) : 0;  // no bars
  }
  dev_game->scale = scale;
  dev_game->recent = start.recent;
  dev_game->hits = start.hits;
  dev_game->misses = start.misses;
}

static __global__ void set_limits_kernel(std::int64_t hits, std::int64_t misses,
                                         SeedGame* __restrict__ dev_game) {
  dev_game->hits = hits;
  dev_game->misses = misses;
}

/// How high the bar of a row is: floor(S * scale).
__device__ inline Integer bar_of(double squared, double scale) {
  return static_cast<Integer>(__double2ll_rz(__dmul_rn(squared, scale)));
}

constexpr int kSliceThreads = 256;
constexpr std::int64_t kSlice = 1024;  // points whose bars have a sum

__device__ inline Integer bars_of_row(const double* __restrict__ dev_stale,
                                      const std::int64_t* __restrict__ dev_weights, std::int64_t i,
                                      double scale) {
  const Integer height = bar_of(dev_stale[i], scale);
  return dev_weights == nullptr ? height : height * static_cast<Integer>(dev_weights[i]);
}

/// dev_sums[1 + slice]: of the bars of each slice.
static __global__ void __launch_bounds__(kSliceThreads)
    sum_slices_kernel(const double* __restrict__ dev_stale,
                      const std::int64_t* __restrict__ dev_weights, std::int64_t n,
                      const SeedGame* __restrict__ dev_game, Integer* __restrict__ dev_sums) {
  using Reduce = cub::BlockReduce<Integer, kSliceThreads>;
  __shared__ typename Reduce::TempStorage scratch;
  const double scale = dev_game->scale;
  const std::int64_t slices = (n + kSlice - 1) / kSlice;
  for (std::int64_t slice = blockIdx.x; slice < slices; slice += gridDim.x) {
    Integer sum = 0;
    const std::int64_t end = min((slice + 1) * kSlice, n);
    for (std::int64_t i = slice * kSlice + threadIdx.x; i < end; i += kSliceThreads) {
      sum += bars_of_row(dev_stale, dev_weights, i, scale);
    }
    sum = Reduce(scratch).Sum(sum);
    if (threadIdx.x == 0) dev_sums[slice + 1] = sum;
    __syncthreads();
  }
}

/// dev_sums[slice]: of the bars before each slice; the last one is that of all, their width. One
/// block.
static __global__ void __launch_bounds__(kSliceThreads)
    add_slices_kernel(std::int64_t slices, Integer* __restrict__ dev_sums,
                      SeedGame* __restrict__ dev_game) {
  using Scan = cub::BlockScan<Integer, kSliceThreads>;
  __shared__ typename Scan::TempStorage scratch;
  Integer before = 0;
  for (std::int64_t base = 1; base <= slices; base += kSliceThreads) {
    const std::int64_t slice = base + threadIdx.x;
    Integer sum = slice <= slices ? dev_sums[slice] : 0;
    Integer total = 0;
    Scan(scratch).InclusiveSum(sum, sum, total);
    if (slice <= slices) dev_sums[slice] = before + sum;
    before += total;
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  dev_sums[0] = 0;
  dev_game->width = before;
}

/// Where a dart has come down.
struct Landing {
  std::int64_t row;
  Integer height;
  double stale;
};

/// What darts come down on.
struct DartBoard {
  const float* dev_points;  // n x d
  std::int64_t n;
  std::int64_t d;
  const std::int64_t* dev_weights;  // or null
  const double* dev_stale;          // S
  const Integer* dev_sums;          // of the bars before each slice
  SeedGame* dev_game;
};

constexpr int kMostDarts = kmeans::kDartsAtOnce;

/// Darts that are thrown together; mostly they hit.
__device__ inline int darts_of(const SeedGame& game) {
  if (game.hits == 0 || game.misses == 0 || game.width == 0) return 0;
  const std::int64_t wanted = min(game.hits + game.hits / 2 + 32, game.hits + game.misses - 1);
  return static_cast<int>(min(wanted, std::int64_t{kMostDarts}));
}

/// The sum of this lane's and all lanes' before it.
__device__ inline Integer sum_up_to_lane(Integer own) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const Integer other = __shfl_up_sync(kAllLanes, own, distance);
    if (lane >= distance) own += other;
  }
  return own;
}

/// The lane whose share a position is in, which then counts from its beginning. up_to:
/// sum_up_to_lane(own).
__device__ inline int lane_of(Integer& position, Integer own, Integer up_to) {
  const int its = __ffs(static_cast<int>(__ballot_sync(kAllLanes, position < up_to))) - 1;
  position -= __shfl_sync(kAllLanes, up_to - own, its);
  return its;
}

/// The last slice whose bars begin at `position` or before; by a warp, which tries 32 places at a
/// time.
__device__ inline std::int64_t slice_of(const DartBoard& board, Integer position) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  std::int64_t slice = 0;
  for (std::int64_t count = (board.n + kSlice - 1) / kSlice; count > 1;) {
    const std::int64_t stride = (count + kLanes - 1) / kLanes;
    const bool is_before =
        lane * stride < count && board.dev_sums[slice + lane * stride] <= position;
    // They ascend, and the first one is.
    const std::int64_t last = __popc(__ballot_sync(kAllLanes, is_before)) - 1;
    slice += last * stride;
    count = min(stride, count - last * stride);
  }
  return slice;
}

/// Where a position of all bars is; by a warp.
__device__ inline Landing locate(const DartBoard& board, Integer position, double scale) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t slice = slice_of(board, position);
  position -= board.dev_sums[slice];
  const auto bars = [&](std::int64_t i) {
    return i < board.n ? bars_of_row(board.dev_stale, board.dev_weights, i, scale) : 0;
  };
  // 32 rows of the slice a lane, then a row a lane.
  std::int64_t first = slice * kSlice;
  Integer own = 0;
#pragma unroll 8
  for (int r = 0; r < kSlice / kLanes; ++r) own += bars(first + lane * (kSlice / kLanes) + r);
  first += lane_of(position, own, sum_up_to_lane(own)) * (kSlice / kLanes);
  own = bars(first + lane);
  const std::int64_t row = first + lane_of(position, own, sum_up_to_lane(own));
  const double stale = board.dev_stale[row];
  return {row, position % bar_of(stale, scale), stale};
}
static_assert(kSlice == kLanes * kLanes);

/// Where these positions are: a warp each.
static __global__ void __launch_bounds__(kPairThreads)
    locate_kernel(DartBoard board, const Integer* __restrict__ dev_positions, int count,
                  Landing* __restrict__ dev_landings) {
  const int dart = static_cast<int>((blockIdx.x * kPairThreads + threadIdx.x) / kLanes);
  if (dart >= count) return;
  const Landing landing = locate(board, dev_positions[dart], board.dev_game->scale);
  if (threadIdx.x % kLanes == 0) dev_landings[dart] = landing;
}

/// The next darts of a stream: a warp each.
static __global__ void __launch_bounds__(kPairThreads)
    aim_kernel(DartBoard board, std::uint64_t key, Landing* __restrict__ dev_landings,
               float* __restrict__ dev_darts, unsigned* __restrict__ dev_gone) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int dart = static_cast<int>((blockIdx.x * kPairThreads + threadIdx.x) / kLanes);
  const SeedGame game = *board.dev_game;
  if (dart >= darts_of(game)) return;
  const Landing landing =
      locate(board, kmeans::place_of_dart(key, game.dart + dart, game.width), game.scale);
  for (std::int64_t t = lane; t < board.d; t += kLanes) {
    dev_darts[dart * board.d + t] = board.dev_points[landing.row * board.d + t];
  }
  if (lane != 0) return;
  dev_landings[dart] = landing;
  dev_gone[dart] = 0;
}

/// Darts that are thrown together.
struct Volley {
  SeedGame* dev_game;
  std::int64_t d;
  const Landing* dev_landings;
  const float* dev_darts;  // the rows on which they came down
  float* dev_seeds;        // the recent ones
  unsigned* dev_words;     // words x kMostDarts
  unsigned* dev_gone;
  std::int32_t* dev_rows;       // of all seeds, or null
  unsigned char* dev_outcomes;  // of each dart, or null
};
constexpr int kDartWords = kMostDarts / kLanes;

/// Which seeds take from a dart's bar the place on which it came down: of the darts before it a bit
/// each, 32 a word (blockIdx.x < kDartWords); whether any of the recent seeds does (the blocks
/// after). known: the number of darts, or negative: as many as the game throws.
static __global__ void __launch_bounds__(kPairThreads) taken_kernel(Volley volley, int known) {
  __shared__ PairTile row_tile;
  __shared__ PairTile column_tile;
  const SeedGame game = *volley.dev_game;
  const int darts = known >= 0 ? known : darts_of(game);
  const bool by_darts = blockIdx.x < kDartWords;
  const std::int64_t first_row = std::int64_t{blockIdx.y} * kPairTile;
  const std::int64_t first_column =
      std::int64_t{by_darts ? blockIdx.x : blockIdx.x - kDartWords} * kPairTile;
  const std::int64_t columns = by_darts ? darts : game.recent;
  if (first_row >= darts || first_column >= columns) return;
  if (by_darts && first_column > first_row) return;  // nobody asks for these words
  double sums[kPairRows];
  squared_distances_of_tile(volley.dev_darts, nullptr, darts, first_row,
                            by_darts ? volley.dev_darts : volley.dev_seeds, nullptr, columns,
                            first_column, volley.d, row_tile, column_tile, sums);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int r = 0; r < kPairRows; ++r) {
    const std::int64_t row = first_row + threadIdx.x / kLanes * kPairRows + r;
    if (row >= darts) continue;
    const std::int64_t column = first_column + lane;
    const Landing landing = volley.dev_landings[row];
    const bool counts = column < (by_darts ? row : columns);
    // A bar of S has a height; one of a larger distance may not have.
    const bool takes =
        counts && sums[r] < landing.stale && bar_of(sums[r], game.scale) <= landing.height;
    const unsigned word = __ballot_sync(kAllLanes, takes);
    if (lane != 0) continue;
    if (by_darts) {
      volley.dev_words[blockIdx.x * kMostDarts + row] = word;
    } else if (word != 0) {
      volley.dev_gone[row] = 1;
    }
  }
}

enum DartOutcome : unsigned char { kNotThrown, kMissed, kHit };

/// Throws the darts one after another: one hits if no seed, and none of the darts before it that
/// hit, takes its place. A warp decides 32 of them at a time; then the others know whose seeds are
/// new. A block, a thread a dart.
static __global__ void __launch_bounds__(kMostDarts) throw_kernel(Volley volley, int known) {
  __shared__ std::int64_t hits;
  __shared__ std::int64_t misses;
  __shared__ int count;  // of new seeds
  __shared__ unsigned new_seeds[kDartWords];
  __shared__ int slots[kMostDarts];
  const SeedGame game = *volley.dev_game;
  const int darts = known >= 0 ? known : darts_of(game);
  const int t = static_cast<int>(threadIdx.x);
  const int lane = t % kLanes;
  const bool exists = t < darts;
  const auto takers_of = [&](int g) {  // of these 32 darts
    return exists && g <= t / kLanes ? volley.dev_words[g * kMostDarts + t] : 0;
  };
  bool is_free = exists && volley.dev_gone[t] == 0;
  if (t == 0) {
    hits = game.hits;
    misses = game.misses;
    count = 0;
  }
  int slot = -1;
  DartOutcome outcome = kNotThrown;
  __syncthreads();
  unsigned next = takers_of(0);
  for (int g = 0; g * kLanes < darts; ++g) {
    const unsigned takers = next;
    next = takers_of(g + 1);
    if (t / kLanes == g) {
      // Who hits depends on those before alone: what no longer changes is right.
      unsigned hitting = __ballot_sync(kAllLanes, is_free);
      for (unsigned before = ~hitting; before != hitting;) {
        before = hitting;
        hitting = __ballot_sync(kAllLanes, is_free && (takers & before) == 0);
      }
      const unsigned missing = __ballot_sync(kAllLanes, exists) & ~hitting;
      const bool is_thrown =
          exists && rank_in(hitting, lane) < hits && rank_in(missing, lane) < misses;
      const unsigned thrown = __ballot_sync(kAllLanes, is_thrown);
      hitting &= thrown;
      const bool has_hit = ((hitting >> lane) & 1U) != 0;
      if (is_thrown) outcome = has_hit ? kHit : kMissed;
      if (has_hit) slot = count + rank_in(hitting, lane);
      __syncwarp();
      if (lane == 0) {
        hits -= __popc(hitting);
        misses -= __popc(missing & thrown);
        count += __popc(hitting);
        new_seeds[g] = hitting;
      }
    }
    __syncthreads();
    if ((takers & new_seeds[g]) != 0) is_free = false;
  }
  slots[t] = slot;
  if (volley.dev_outcomes != nullptr) volley.dev_outcomes[t] = outcome;
  if (slot >= 0 && volley.dev_rows != nullptr) {
    volley.dev_rows[game.seeds + slot] = static_cast<std::int32_t>(volley.dev_landings[t].row);
  }
  __syncthreads();
  for (int dart = t / kLanes; dart < darts; dart += kMostDarts / kLanes) {
    if (slots[dart] < 0) continue;
    float* seed = volley.dev_seeds + (game.recent + slots[dart]) * volley.d;
    for (std::int64_t c = lane; c < volley.d; c += kLanes) {
      seed[c] = volley.dev_darts[dart * volley.d + c];
    }
  }
  if (t != 0) return;
  volley.dev_game->dart = game.dart + static_cast<Integer>(game.hits - hits + game.misses - misses);
  volley.dev_game->hits = hits;
  volley.dev_game->misses = misses;
  volley.dev_game->seeds = game.seeds + count;
  volley.dev_game->recent = game.recent + count;
}

}  // namespace kmeans::cuda
