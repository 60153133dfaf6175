// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// Idea:      float16 tensor cores leave out what cannot be nearest, with a bound on everything they
//            round; a centroid that is nearer than all others by more than the bounds is the label,
//            and the few points without one are decided in float32, or as defined
// Parallel:  of a block two warps feed shared memory and four groups of four (two for many
//            coordinates) multiply 64 points each with all centroids, some reducing while others do
// Memory:    a centred float16 copy of the points, made in setup in the order in which wgmma reads
//            shared memory, so that a tile is one bulk copy; the centroids alike, every iteration.
//            The float32 points are read only where undecided or where the label changed
// Numerics:  the accumulator is a lower bound of half a squared distance (less ||x||^2 / 2): four
//            more columns hold half the centroid's squared norm and the bound's two products. Sums
//            are 64-bit integers. Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu.md
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_tensor_copies.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kGroupWarps = 4;  // of a warp group
constexpr int kStepChunks = 2;  // of all columns in a product
constexpr int kMaxStages = 24;
constexpr int kMaxBuffers = 12;  // of points
constexpr std::int64_t kBarrierBytes = 1024;

/// A point that the first pass leaves open: what is above its nearest centroid's bound; and the two
/// centroids that are not, if it is known that there are no more (else -1).
struct Undecided {
  std::int32_t point;
  float limit;
  int2 pair;
};
constexpr int kPending = 32;  // that a warp collects before it makes room for them: a lane each

/// Of a block: warp groups that multiply, a warp that feeds centroids and one that feeds points.
__host__ __device__ constexpr int threads_for(int groups) {
  return (groups * kGroupWarps + 2) * 32;
}
__host__ __device__ constexpr std::int64_t pending_bytes(int groups) {
  return static_cast<std::int64_t>(groups * kGroupWarps * kPending * sizeof(Undecided));
}

/// How a tile of centroids is fed: stages of kSteps products, then one of kRest if that is not 0.
/// kAlone: a tile is one stage.
template <int kSteps_, int kRest_, bool kAlone_>
struct Cut {
  static constexpr int kSteps = kSteps_;
  static constexpr int kRest = kRest_;
  static constexpr bool kAlone = kAlone_;
};

/// The first pass: the nearest centroid by its bound, and the points for which that may not be it.
template <int kColumns>
struct FindNearest {
  const float2* __restrict__ dev_point_lengths;
  const __half2* __restrict__ dev_widths;  // of centroids
  BoundShares shares;
  std::int32_t* __restrict__ dev_nearest;
  std::int32_t* __restrict__ dev_undecided;
  float* __restrict__ dev_limits;  // of the undecided: what is above it is not the nearest
  Pair* __restrict__ dev_pairs;    // undecided, too, but between two
  TensorState* __restrict__ dev_state;

  Nearest nearest[2];
  float2 lengths[2];  // of the lane's rows
  int own_row;  // of a warp's: of four lanes that share two rows, the first two judge one each
  bool judges;  // the centroids have bounds
  Undecided* pending;  // kPending, the warp's, in shared memory
  int pending_count;

  __device__ std::int64_t tiles(const Extents& s) const { return s.point_tiles; }
  __device__ static int parts(const Extents& /*s*/, std::int64_t /*rounds*/) { return 1; }

  __device__ void start(const Extents& /*s*/, Undecided* warp_pending) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    own_row = lane % 2 * 8 + lane / 4;
    judges = dev_state->too_far == 0;
    pending = warp_pending;
    pending_count = 0;
  }

  __device__ void begin(const Extents& s, int first_row) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      nearest[row] = {};
      const int i = first_row + row * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
      lengths[row] = i < static_cast<int>(s.n) ? dev_point_lengths[i] : float2{};
    }
  }

  __device__ void reduce(const Extents& /*s*/, const float (&sums)[kColumns / 2], int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
    const auto offset = static_cast<float>(first);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      Least least[2];
#pragma unroll
      for (int e = 0; e < kColumns / 4; e += 2) {
        const float* two = &sums[e / 2 * 4 + 2 * row];
        least[e / 2 % 2].look(key_of(two[0], e), key_of(two[1], e + 1));
      }
      // Not the nearest for certain, but its upper bound holds.
      const float near = __int_as_float(min(least[0].bits, least[1].bits));
      const int column = column_of(near);
      const __half2 widths = dev_widths[first + column / 2 * 8 + column % 2];
      const float width = __fmaf_rn(near, kKeyError, bound_width(lengths[row], widths, shares));
      nearest[row].look(near - kKeyError * near, near + width);
      // Above the roundings here.
      const float limit = __fmaf_rn(fabsf(nearest[row].upper), 0x1p-22F, nearest[row].upper);
      const float large_limit = limit * kLarge;
      float counted = 0;
#pragma unroll
      for (int e = 0; e < kColumns / 4; ++e) {
        const float number = kOne + static_cast<float>(e / 2 * 8 + e % 2);
        counted = count_below(sums[e / 2 * 4 + 2 * row + e % 2], large_limit, number, counted);
      }
      nearest[row].add(counted, offset);
    }
  }

  __device__ void end(const Extents& s, int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool odd = lane % 2 != 0;
    Nearest own = odd ? nearest[1] : nearest[0];
    const Nearest given = odd ? nearest[0] : nearest[1];
    own.join(given.from(1));
    own.join(own.from(2));
    const int i = first_row + own_row;
    const bool writes = lane % 4 < 2 && i < static_cast<int>(s.n);
    const bool decided = judges && own.decided();
    if (writes && decided) dev_nearest[i] = own.index();
    const unsigned open = __ballot_sync(kAllLanes, writes && !decided);
    if (open == 0) return;
    // A place in memory for each at once would wait for an atomic addition in most tiles.
    if (pending_count + __popc(open) > kPending) finish();
    if (writes && !decided) {
      // Above the roundings here.
      pending[pending_count + __popc(open & ((1U << lane) - 1))] = {
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
    const unsigned pairs = __ballot_sync(kAllLanes, exists && own.pair.x >= 0);
    const unsigned others = __ballot_sync(kAllLanes, exists && own.pair.x < 0);
    unsigned long long place = 0;
    if (lane == 0) place = atomicAdd(&dev_state->pairs, __popc(pairs));
    if (lane == 1) place = atomicAdd(&dev_state->undecided, __popc(others));
    const unsigned long long first_pair = __shfl_sync(kAllLanes, place, 0);
    const unsigned long long first_other = __shfl_sync(kAllLanes, place, 1);
    const unsigned below = (1U << lane) - 1;
    if (exists && own.pair.x >= 0) {
      dev_pairs[first_pair + __popc(pairs & below)] = {own.point, own.pair.x, own.pair.y};
    } else if (exists) {
      dev_undecided[first_other + __popc(others & below)] = own.point;
      dev_limits[first_other + __popc(others & below)] = own.limit;
    }
    __syncwarp();
    pending_count = 0;
  }
};

/// The second pass, over the undecided points: all centroids whose bound is not above the limit.
template <int kColumns>
struct ListCandidates {
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
        min(max(blocks / rounds, std::int64_t{1}), std::int64_t{s.centroid_tiles}));
  }

  __device__ void start(const Extents& /*s*/, Undecided* /*pending*/) {}

  __device__ void begin(const Extents& /*s*/, int first_row) {
    const std::int64_t end = count();
    first_slot = first_row + threadIdx.x % 32 / 4;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t slot = first_slot + row * 8;
      limits[row] = slot < end ? dev_limits[slot] : -INFINITY;
    }
  }

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

/// A stage of kSteps times sixteen columns. One block of code, without a branch: else the compiler
/// waits for every product.
template <int kColumns, int kSteps>
__device__ __forceinline__ void multiply_stage(float (&sums)[kColumns / 2], const __half* rows,
                                               const __half* columns, bool add) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    multiply(sums, descriptor(rows + step * kStepChunks * kCoreHalves * kTileRows, kTileRows),
             descriptor(columns + step * kStepChunks * kCoreHalves * kColumns, kColumns),
             add || step > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// All points, or the undecided ones, times all centroids. kColumns: centroids of a tile; kGroups:
/// warp groups that multiply, each a tile of points; Pass: what becomes of the products.
template <int kColumns, int kGroups, class Cut, class Pass>
__global__ void __launch_bounds__(threads_for(kGroups), 1)
    multiply_kernel(Extents s, const __half* __restrict__ dev_points,
                    const __half* __restrict__ dev_centroids, Pass pass) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char memory[];
  auto* full = reinterpret_cast<std::uint64_t*>(memory);  // per stage
  auto* empty = full + kMaxStages;
  auto* points_full = empty + kMaxStages;  // per buffer of points
  auto* points_empty = points_full + kMaxBuffers;
  auto* pending = reinterpret_cast<Undecided*>(memory + kBarrierBytes);
  auto* buffers = reinterpret_cast<__half*>(memory + kBarrierBytes + pending_bytes(kGroups));
  auto* stages = buffers + s.point_buffers * tile_halves(s);
  static_assert(!Cut::kAlone || Cut::kRest == 0);
  constexpr int kStageChunks = Cut::kSteps * kStepChunks;
  constexpr int kStageHalves = kStageChunks * kCoreHalves * kColumns;
  constexpr int kStageRows = kStageChunks * kCoreHalves * kTileRows;
  const int chunks = s.padded / kCoreHalves;
  const int whole = chunks / kStageChunks;  // stages of a tile of centroids
  // The groups have the same centroids at hand, so they go on together; the last may have no points.
  const std::int64_t rounds = (pass.tiles(s) + kGroups - 1) / kGroups;
  // Blocks that share out the centroids, each a part of the tiles, take the same rounds.
  const int parts = Pass::parts(s, rounds);
  const unsigned blocks = gridDim.x / parts;
  const int part = static_cast<int>(blockIdx.x / blocks);
  const std::int64_t first_round = part < parts ? blockIdx.x % blocks : rounds;
  const int first_tile = s.centroid_tiles * part / parts;
  const int last_tile = s.centroid_tiles * (part + 1) / parts;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < s.stages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], kGroups);
    }
    for (int buffer = 0; buffer < s.point_buffers; ++buffer) {
      barrier_init(&points_full[buffer], 1);
      barrier_init(&points_empty[buffer], 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  await_kernels_before();
  __syncthreads();

  // From a shuffle, so that the compiler knows it to be the same in all lanes.
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 32, 0);
  // A barrier that nobody has arrived at yet counts as past its phase of odd parity.
  if (warp == kGroups * kGroupWarps) {  // feeds centroids
    if (threadIdx.x % 32 != 0) return;
    Place stage{.index = 0, .parity = 1};
    for (std::int64_t round = first_round; round < rounds; round += blocks) {
      const __half* source = dev_centroids + std::int64_t{first_tile} * kColumns * s.padded;
      for (int c = first_tile; c < last_tile; ++c) {
        for (int first = 0; first < chunks; first += kStageChunks) {
          barrier_wait(&empty[stage.index], stage.parity);
          const int halves = min(kStageChunks, chunks - first) * kCoreHalves * kColumns;
          const auto bytes = static_cast<unsigned>(halves * sizeof(__half));
          barrier_expect(&full[stage.index], bytes);
          copy_bulk(stages + stage.index * kStageHalves, source, bytes, &full[stage.index]);
          source += halves;
          stage.advance(s.stages);
        }
      }
      if (s.stays) return;
    }
    return;
  }
  if (warp > kGroups * kGroupWarps) {  // feeds points
    if (threadIdx.x % 32 != 0) return;
    Place buffer{.index = 0, .parity = 1};
    const auto bytes = static_cast<unsigned>(tile_halves(s) * sizeof(__half));
    for (std::int64_t round = first_round; round < rounds; round += blocks) {
      for (int group = 0; group < kGroups; ++group) {
        barrier_wait(&points_empty[buffer.index], buffer.parity);
        barrier_expect(&points_full[buffer.index], bytes);
        copy_bulk(buffers + buffer.index * tile_halves(s),
                  dev_points + (round * kGroups + group) * tile_halves(s), bytes,
                  &points_full[buffer.index]);
        buffer.advance(s.point_buffers);
      }
    }
    return;
  }

  const int group = warp / kGroupWarps;
  const int next_group = group + 1 == kGroups ? 0 : group + 1;
  const bool speaks = threadIdx.x % (kGroupWarps * 32) == 0;
  Place stage;
  Place buffer{.index = group, .parity = 0};
  bool waits = s.turn > 0 && group > 0;
  float sums[kColumns / 2];
#pragma unroll
  for (int e = 0; e < kColumns / 2; ++e) sums[e] = 0;
  pass.start(s, pending + warp * kPending);
  const int own_rounds =
      static_cast<int>(rounds > first_round ? (rounds - first_round + blocks - 1) / blocks : 0);
  const int row_stride = static_cast<int>(blocks) * kGroups * kTileRows;
  int first_row =
      (static_cast<int>(first_round) * kGroups + group) * kTileRows + warp % kGroupWarps * 16;
  for (int left = own_rounds; left > 0; --left, first_row += row_stride) {
    pass.begin(s, first_row);
    const __half* rows = buffers + buffer.index * tile_halves(s);
    barrier_wait(&points_full[buffer.index], buffer.parity);
    for (int c = first_tile; c < last_tile; ++c) {
      // In turn: while one group's products run, the others reduce theirs.
      if (waits) turn_wait(group);
      waits = s.turn > 0;
      const bool last_turn = left == 1 && c + 1 == last_tile;
      const int turn = group + 1 < kGroups || !last_turn ? s.turn : 0;
      int before = 0;
      pin(sums);
      if constexpr (Cut::kAlone) {
        barrier_wait(&full[stage.index], stage.parity);
        multiply_stage<kColumns, Cut::kSteps>(sums, rows, stages + stage.index * kStageHalves,
                                              false);
        if (turn > 0) turn_pass(next_group);
        before = stage.index;
        stage.advance(s.stages);
        if (s.stays) stage.parity = 0;
      } else {
        for (int step = 0; step < whole; ++step) {
          barrier_wait(&full[stage.index], stage.parity);
          multiply_stage<kColumns, Cut::kSteps>(sums, rows + step * kStageRows,
                                                stages + stage.index * kStageHalves, step > 0);
          // The stage before has been read; this one's products stay under way.
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (step > 0 && speaks) barrier_arrive(&empty[before]);
          if (step + 1 == turn) turn_pass(next_group);
          before = stage.index;
          stage.advance(s.stages);
          if (s.stays) stage.parity = 0;
        }
        if constexpr (Cut::kRest > 0) {  // what is left of the columns
          barrier_wait(&full[stage.index], stage.parity);
          multiply_stage<kColumns, Cut::kRest>(sums, rows + whole * kStageRows,
                                               stages + stage.index * kStageHalves, whole > 0);
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (whole > 0 && speaks) barrier_arrive(&empty[before]);
          if (whole + 1 == turn) turn_pass(next_group);
          before = stage.index;
          stage.advance(s.stages);
          if (s.stays) stage.parity = 0;
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      pin(sums);
      if (speaks) barrier_arrive(&empty[before]);
      if (c + 1 == last_tile && speaks) barrier_arrive(&points_empty[buffer.index]);
      pass.reduce(s, sums, c);
    }
    buffer.advance(s.point_buffers, kGroups);
    pass.end(s, first_row);
  }
  pass.finish();
#else
  (void)s, (void)dev_points, (void)dev_centroids, (void)pass;
#endif
}

/// Undecided points' rows of the copy, as tiles of their own, a thread 16 bytes; their lists are
/// empty.
__global__ void gather_rows_kernel(Extents s, std::int64_t listed,
                                   const __half* __restrict__ dev_points_copy,
                                   const std::int32_t* __restrict__ dev_undecided,
                                   const TensorState* __restrict__ dev_state,
                                   __half* __restrict__ dev_rows,
                                   std::int32_t* __restrict__ dev_candidate_counts) {
  const std::int64_t pieces = tile_halves(s) / kCoreHalves;  // of a tile
  await_kernels_before();
  const std::int64_t count = min(static_cast<std::int64_t>(dev_state->undecided), listed);
  const std::int64_t end = (count + kTileRows - 1) / kTileRows * pieces;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < end;
       index += stride) {
    const auto piece = static_cast<int>(index % pieces);
    const int row = piece % kTileRows;  // neighbours: many of them are from one tile
    const int column = piece / kTileRows * kCoreHalves;
    const std::int64_t slot = index / pieces * kTileRows + row;
    if (slot >= count) continue;
    const std::int64_t i = dev_undecided[slot];
    const __half* source = dev_points_copy + i / kTileRows * tile_halves(s) +
                           place_in_tile(kTileRows, static_cast<int>(i % kTileRows), column);
    *reinterpret_cast<uint4*>(dev_rows + index * kCoreHalves) =
        *reinterpret_cast<const uint4*>(source);
    if (column == 0) dev_candidate_counts[slot] = 0;
  }
}

/// How a shape is cut up.
struct Plan {
  int columns = 0;  // centroids of a tile
  int groups = 0;   // that multiply; 0: nothing fits
  int buffers = 0;  // of points
  int steps = 0;    // products of a stage
  int stages = 0;
  bool stays = false;  // the centroids in shared memory
  int turn = 0;
  std::size_t shared_bytes = 0;
};

/// kSteps of the Cut that with_cut() takes.
int stage_steps(std::int64_t d, int columns, int groups) {
  const std::int64_t steps = padded_for(d) / (kCoreHalves * kStepChunks);
  if (groups == 2) return 2;
  // Whole tiles where that is one block of code: a stage costs fifty instructions of each warp.
  return steps <= 3 || (steps == 9 && columns == 128) ? static_cast<int>(steps) : 4;
}

Plan plan_for(std::int64_t d, std::int64_t k, std::int64_t shared_bytes) {
  const std::int64_t rows_bytes = std::int64_t{kTileRows} * padded_for(d) * 2;
  for (const int groups : {4, 2}) {
    // Fewer columns than a tile of 128 are worth kernels of their own where points are read fast.
    const int columns = groups == 2 || k > 64 ? 128 : (k > 16 ? 64 : 16);
    Plan plan{.columns = columns, .groups = groups, .steps = stage_steps(d, columns, groups)};
    const std::int64_t stage_bytes =
        std::int64_t{plan.steps} * kStepChunks * kCoreHalves * columns * 2;
    // Stages of a tile of centroids, and of all.
    const std::int64_t tile_stages =
        ceil_div(padded_for(d), plan.steps * kStepChunks * kCoreHalves);
    const std::int64_t all_stages = ceil_div(k, columns) * tile_stages;
    const std::int64_t room = shared_bytes - kBarrierBytes - pending_bytes(groups);
    // Centroids that stay leave the room to points, which come from memory.
    plan.stays =
        all_stages <= kMaxStages && room >= all_stages * stage_bytes + (groups + 1) * rows_bytes;
    if (plan.stays) {
      plan.stages = static_cast<int>(all_stages);
      plan.buffers = static_cast<int>(
          std::min<std::int64_t>(kMaxBuffers, (room - all_stages * stage_bytes) / rows_bytes));
    } else {
      // One buffer more than there are groups, if that leaves two tiles of centroids.
      const std::int64_t more =
          room - (groups + 1) * rows_bytes >= 2 * tile_stages * stage_bytes ? 1 : 0;
      plan.buffers = groups + static_cast<int>(more);
      plan.stages = static_cast<int>(
          std::min<std::int64_t>(kMaxStages, (room - plan.buffers * rows_bytes) / stage_bytes));
      if (plan.stages < 3) continue;
    }
    // The next group begins when this one has its share of a tile behind it, so that they do not all
    // reduce at once, or as soon as the stages let it.
    if (columns > 16) {
      plan.turn = static_cast<int>(
          std::max<std::int64_t>(1, std::min<std::int64_t>(tile_stages / groups, plan.stages - 3)));
    }
    plan.shared_bytes =
        static_cast<std::size_t>(kBarrierBytes + pending_bytes(groups) + plan.buffers * rows_bytes +
                                 plan.stages * stage_bytes);
    return plan;
  }
  return {};
}

kmeans::Support runs_on_hopper(const kmeans::Shape& shape) {
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (gpu == nullptr) return counts_fit(shape);
  if (gpu->major != 9 || gpu->minor != 0) {
    return kmeans::Support::no(
        "its matrix instructions are those of compute capability 9.0; this is " +
        std::to_string(gpu->major) + "." + std::to_string(gpu->minor));
  }
  if (plan_for(shape.d, shape.k, gpu->shared_bytes_per_block).groups == 0) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": a tile of points exceeds the shared memory of a block");
  }
  if (shape.n >= std::int64_t{1} << 30) {
    return kmeans::Support::no(
        "n = " + std::to_string(shape.n) +
        " points: their moves between clusters are counted in 32 bits, two a "
        "point, so at most 1073741823");
  }
  return counts_fit(shape);
}

class CudaTensor final : public CudaLloyd<float> {
 public:
  CudaTensor() : CudaLloyd<float>(Layout::rows) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const kmeans::GpuDevice& gpu = *kmeans::current_gpu();
    plan_ = plan_for(d, k, gpu.shared_bytes_per_block);
    extents_ = {.n = n,
                .d = d,
                .k = k,
                .padded = static_cast<int>(padded_for(d)),
                .columns = plan_.columns,
                .point_tiles = ceil_div(n, plan_.groups * kTileRows) * plan_.groups,
                .centroid_tiles = static_cast<int>(ceil_div(k, plan_.columns)),
                .point_buffers = plan_.buffers,
                .stages = plan_.stages,
                .stays = plan_.stays,
                .turn = plan_.turn};
    blocks_ = static_cast<unsigned>(
        std::min<std::int64_t>(gpu.multiprocessors, extents_.point_tiles / plan_.groups));
    listed_ = std::max<std::int64_t>(std::min<std::int64_t>(n, 4096), n / 8);
    pitch_ = ceil_div(k, kSearchThreads) * kSearchThreads;
    sums_ = MovingSums(problem_, n, gpu.multiprocessors);
    dev_points_copy_ = DeviceBuffer<__half>(extents_.point_tiles * tile_halves(extents_));
    dev_rows_ = DeviceBuffer<__half>(ceil_div(listed_, plan_.groups * kTileRows) * plan_.groups *
                                     tile_halves(extents_));
    dev_rows_.zero();
    dev_centroids_copy_ = DeviceBuffer<__half>(std::int64_t{extents_.centroid_tiles} *
                                               plan_.columns * extents_.padded);
    dev_point_lengths_ = DeviceBuffer<float2>(n);
    dev_widths_ = DeviceBuffer<__half2>(std::int64_t{extents_.centroid_tiles} * plan_.columns);
    dev_columns_ = DeviceBuffer<float>(pitch_ * d);
    dev_nearest_ = DeviceBuffer<std::int32_t>(n);
    dev_undecided_ = DeviceBuffer<std::int32_t>(n);
    dev_crowded_ = DeviceBuffer<std::int32_t>(n);
    dev_limits_ = DeviceBuffer<float>(n);
    dev_pairs_ = DeviceBuffer<Pair>(n);
    dev_candidate_counts_ = DeviceBuffer<std::int32_t>(listed_);
    dev_candidates_ = DeviceBuffer<std::int32_t>(listed_ * kMaxCandidates);
    dev_state_ = DeviceBuffer<TensorState>(1);
    with_kernels([this](auto columns, auto groups, auto cut) {
      using Stages = decltype(cut);
      allow_shared_bytes(multiply_kernel<columns, groups, Stages, FindNearest<columns>>,
                         plan_.shared_bytes);
      allow_shared_bytes(multiply_kernel<columns, groups, Stages, ListCandidates<columns>>,
                         plan_.shared_bytes);
    });
    copy_points();
    iteration_.record([this](cudaStream_t stream) { launch(stream); });
  }

  void copy_points() {
    const auto [n, d, k, precision] = shape();
    frame_ = frame_of(dev_points_, n, d);
    const DeviceBuffer<unsigned> dev_largest(1);
    dev_largest.zero();
    copy_points_kernel<<<blocks_for(extents_.point_tiles * kTileRows * 32, 256), 256>>>(
        dev_points_.data(), extents_, frame_.dev_mean.data(), frame_.scale, dev_points_copy_.data(),
        dev_point_lengths_.data(), dev_largest.data());
    KMEANS_CUDA_LAUNCHED(copy_points_kernel);
    bias_ = Bias::of(dev_largest);
  }

  void restart() override {
    sums_.restart();
    dev_state_.zero();
    move_centroids(nullptr, nullptr);
  }

  void iterate() override { launch(nullptr); }  // to profile it

  void iterate_times(std::int64_t iterations) override {
    if (profiled()) return CudaLloyd::iterate_times(iterations);
    iteration_.launch(iterations);
  }

  void launch(cudaStream_t stream) {
    {
      const auto timed = stage("assign");
      find_nearest(stream);
    }
    {
      const auto timed = stage("settle");
      settle(stream);
    }
    {
      const auto timed = stage("update");
      sums_.move(dev_points_.data(), shape().n, dev_nearest_.data(), dev_labels_.data(), stream);
      if (!sums_.shared())
        return move_centroids(sums_.add_up(dev_centroids_.data(), stream), stream);
    }
    const Integer* dev_totals = nullptr;
    {
      const auto timed = stage("communication");
      dev_totals = sums_.add_up(dev_centroids_.data(), stream);
    }
    const auto timed = stage("copy centroids");
    move_centroids(dev_totals, stream);
  }

  /// dev_totals: sums and counts to divide, or null, and the centroids are copied as they are.
  void move_centroids(const Integer* dev_totals, cudaStream_t stream) {
    launch_early(divide_and_copy_kernel,
                 blocks_for(std::int64_t{extents_.centroid_tiles} * plan_.columns * 32, 256), 256,
                 0, stream, dev_totals, sums_.inverse_scale(), dev_centroids_.data(), extents_,
                 frame_.dev_mean.data(), frame_.scale, bias_, dev_centroids_copy_.data(),
                 dev_widths_.data(), dev_state_.data());
  }

  /// Calls use(columns, groups, cut) with what plan_ and d say as constants.
  template <class Use>
  void with_kernels(const Use& use) const {
    using std::integral_constant;
    if (plan_.groups == 2) {
      const auto columns = integral_constant<int, 128>();
      const auto groups = integral_constant<int, 2>();
      if (products() % 2 == 0) {
        use(columns, groups, Cut<2, 0, false>());
      } else {
        use(columns, groups, Cut<2, 1, false>());
      }
    } else if (plan_.columns == 128) {
      with_cut(integral_constant<int, 128>(), use);
    } else if (plan_.columns == 64) {
      with_cut(integral_constant<int, 64>(), use);
    } else {
      with_cut(integral_constant<int, 16>(), use);
    }
  }
  template <class Columns, class Use>
  void with_cut(Columns columns, const Use& use) const {
    const std::integral_constant<int, 4> groups;
    if constexpr (columns == 128) {
      if (plan_.steps == 9) return use(columns, groups, Cut<9, 0, true>());
    }
    if (plan_.steps == 1) return use(columns, groups, Cut<1, 0, true>());
    if (plan_.steps == 2) return use(columns, groups, Cut<2, 0, true>());
    if (plan_.steps == 3) return use(columns, groups, Cut<3, 0, true>());
    switch (products() % 4) {
      case 0: return use(columns, groups, Cut<4, 0, false>());
      case 1: return use(columns, groups, Cut<4, 1, false>());
      case 2: return use(columns, groups, Cut<4, 2, false>());
      default: return use(columns, groups, Cut<4, 3, false>());
    }
  }
  /// Of sixteen columns each, in a row of the copies.
  [[nodiscard]] int products() const { return extents_.padded / (kCoreHalves * kStepChunks); }

  void find_nearest(cudaStream_t stream) {
    with_kernels([&](auto columns, auto groups, auto cut) {
      const FindNearest<columns> pass{.dev_point_lengths = dev_point_lengths_.data(),
                                      .dev_widths = dev_widths_.data(),
                                      .shares = bound_shares(shape().d, bias_),
                                      .dev_nearest = dev_nearest_.data(),
                                      .dev_undecided = dev_undecided_.data(),
                                      .dev_limits = dev_limits_.data(),
                                      .dev_pairs = dev_pairs_.data(),
                                      .dev_state = dev_state_.data(),
                                      .nearest = {},
                                      .lengths = {},
                                      .own_row = 0,
                                      .judges = false,
                                      .pending = nullptr,
                                      .pending_count = 0};
      launch_early(multiply_kernel<columns, groups, decltype(cut), FindNearest<columns>>, blocks_,
                   threads_for(groups), plan_.shared_bytes, stream, extents_,
                   dev_points_copy_.data(), dev_centroids_copy_.data(), pass);
    });
  }

  /// The points that find_nearest left undecided; in a graph, pairs beside the others.
  void settle(cudaStream_t stream) {
    const auto [n, d, k, precision] = shape();
    const auto fill = static_cast<unsigned>(4 * kmeans::current_gpu()->multiprocessors);
    const float factor = filter_factor(d);
    Fork fork(stream);
    decide_pairs_kernel<<<2 * fill, 256, 0, fork.beside()>>>(
        dev_points_.data(), dev_centroids_.data(), d, factor, dev_pairs_.data(), dev_state_.data(),
        dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(decide_pairs_kernel);
    // Of the others some may have to be searched for.
    transpose_centroids_kernel<<<fill, 256, 0, fork.beside()>>>(
        dev_centroids_.data(), k, d, pitch_, &dev_state_.data()->undecided, dev_columns_.data());
    KMEANS_CUDA_LAUNCHED(transpose_centroids_kernel);
    launch_early(gather_rows_kernel, fill, 256, 0, stream, extents_, listed_,
                 dev_points_copy_.data(), dev_undecided_.data(), dev_state_.data(),
                 dev_rows_.data(), dev_candidate_counts_.data());
    with_kernels([&](auto columns, auto groups, auto cut) {
      const ListCandidates<columns> pass{.dev_limits = dev_limits_.data(),
                                         .dev_state = dev_state_.data(),
                                         .listed = listed_,
                                         .dev_candidate_counts = dev_candidate_counts_.data(),
                                         .dev_candidates = dev_candidates_.data(),
                                         .limits = {},
                                         .first_slot = 0};
      launch_early(multiply_kernel<columns, groups, decltype(cut), ListCandidates<columns>>,
                   blocks_, threads_for(groups), plan_.shared_bytes, stream, extents_,
                   dev_rows_.data(), dev_centroids_copy_.data(), pass);
    });
    launch_early(decide_kernel, 2 * fill, 256, 0, stream, dev_points_.data(), dev_centroids_.data(),
                 d, factor, listed_, dev_undecided_.data(), dev_candidate_counts_.data(),
                 dev_candidates_.data(), dev_nearest_.data(), dev_crowded_.data(),
                 dev_state_.data());
    fork.join();
    search_kernel<<<fill, kSearchThreads, 0, stream>>>(dev_points_.data(), d, dev_columns_.data(),
                                                       k, pitch_, factor, dev_state_.data(),
                                                       dev_crowded_.data(), dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(search_kernel);
  }

  Plan plan_;
  Extents extents_{};
  std::int64_t listed_ = 0;  // undecided points that may have a list
  unsigned blocks_ = 0;
  CopyFrame frame_;
  Bias bias_;
  std::int64_t pitch_ = 0;
  IterationGraph iteration_;
  DeviceBuffer<__half> dev_points_copy_;
  DeviceBuffer<__half> dev_centroids_copy_;
  DeviceBuffer<float2> dev_point_lengths_;
  DeviceBuffer<__half2> dev_widths_;  // of centroids
  DeviceBuffer<float> dev_columns_;   // the centroids, column-major, pitch_ of them
  DeviceBuffer<std::int32_t> dev_nearest_;
  DeviceBuffer<std::int32_t> dev_undecided_;
  DeviceBuffer<std::int32_t> dev_crowded_;
  DeviceBuffer<float> dev_limits_;
  DeviceBuffer<Pair> dev_pairs_;
  DeviceBuffer<__half> dev_rows_;  // of the undecided points
  DeviceBuffer<std::int32_t> dev_candidate_counts_;
  DeviceBuffer<std::int32_t> dev_candidates_;
  DeviceBuffer<TensorState> dev_state_;
  MovingSums sums_;
};

}  // namespace

KMEANS_VARIANT(
    CudaTensor, .name = "cuda_tensor",
    .summary =
        "the exact step: float16 tensor cores with a proven bound, then float32, then as defined",
    .exact = true, .gpu_shards = true, .sums = Sums::wide,
    .setup_note = "makes a centred float16 copy of the points", .supports = runs_on_hopper,
    .device_bytes = [](const Shape& s) {
      const double padded = 16.0 * std::ceil((static_cast<double>(s.d) + kExtra) / 16);
      const double n = static_cast<double>(s.n) + 256;
      const double k = static_cast<double>(s.k) + 256;
      const double open = n / 8 + 4352;
      return plain_device_bytes(s) + MovingSums::device_bytes(s) + n * (2 * padded + 36) +
             open * (2 * padded + 4 * kMaxCandidates + 4) + k * (2 * padded + 4.0 * s.d + 24);
    })
