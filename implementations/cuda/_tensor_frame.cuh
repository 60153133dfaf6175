// SPDX-License-Identifier: Apache-2.0
//
// Points times centroids on Hopper's matrix units, a tile of points against all tiles of centroids: two warps
// of a block feed shared memory (two more where they look ahead), groups of four multiply, and some reduce their
// products while others multiply.
// What is multiplied, float16 or bytes, and what becomes of the products, are the variant's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "implementations/_limits.h"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_search.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

constexpr int kTileRows = 64;      // points of a tile, those of a matrix instruction
constexpr int kGroupWarps = 4;     // of a warp group
constexpr int kStepChunks = 2;     // of all columns in a product
constexpr int kStepBytes = 32;     // of a row in a product
constexpr int kHeldProducts = 16;  // whole stages of two
constexpr int kMaxStages = 24;
constexpr int kMaxBuffers = 12;  // of points
constexpr int kMaxParts = 32;
constexpr std::int64_t kMostProducts = 993;  // of a row: d up to 15 884 as float16
constexpr std::int64_t kBarrierBytes = 1024;

/// A shape as the kernels see it.
struct Extents {
  std::int64_t n;
  std::int64_t d;
  std::int64_t k;
  int padded;   // d and the extra columns, whole products
  int columns;  // centroids of a tile
  std::int64_t point_tiles;
  int centroid_tiles;
  int point_buffers;  // tiles of points in shared memory
  int stages;         // of shared memory for pieces of centroids
  bool stays;         // all centroids are in the stages, once and for all
  int turn;           // stages that a warp group multiplies before the next may; 0: no turns
  int parts;          // of the centroids' tiles, each other blocks'
};

__host__ __device__ inline std::int64_t tile_elements(const Extents& s) {
  return std::int64_t{kTileRows} * s.padded;
}

/// How a tile of centroids is fed: stages of kSteps products, then one of kRest if that is not 0.
/// kAlone: a tile is one stage. kHeld: of the products, so many have their rows in registers. kStreams: a stage brings
/// the points' columns with the centroids', since no tile of points has room.
template <int kSteps_, int kRest_, bool kAlone_, int kHeld_ = 0, bool kStreams_ = false>
struct Cut {
  static constexpr int kSteps = kSteps_;
  static constexpr int kRest = kRest_;
  static constexpr bool kAlone = kAlone_;
  static constexpr int kHeld = kHeld_;
  static constexpr bool kStreams = kStreams_;
};

/// Of a block: warp groups that multiply, a warp that feeds centroids and one that feeds points, and those that look
/// ahead.
__host__ __device__ constexpr int threads_for(int groups, int ahead_warps = 0) {
  return (groups * kGroupWarps + 2 + ahead_warps) * 32;
}

/// From row to row of what warps that look ahead leave in shared memory; an odd number of 16 bytes, so that the
/// pieces of eight rows are in different banks.
template <class Element>
__host__ __device__ std::int64_t ahead_pitch(std::int64_t padded) {
  return padded + kCoreElements<Element>;
}
/// Of that: a row for each of a tile, and a number.
template <class Element>
__host__ __device__ std::int64_t ahead_bytes(std::int64_t padded) {
  return kTileRows * (ahead_pitch<Element>(padded) * static_cast<std::int64_t>(sizeof(Element)) +
                      static_cast<std::int64_t>(sizeof(float)));
}

/// A stage of kSteps products. One block of code, without a branch: else the compiler
/// waits for every product.
template <int kColumns, int kSteps, class Sum, class Element>
__device__ __forceinline__ void multiply_stage(Sum (&sums)[kColumns / 2], const Element* rows,
                                               const Element* columns, bool add) {
  const std::uint64_t row_operand = descriptor(rows, kTileRows);
  const std::uint64_t column_operand = descriptor(columns, kColumns);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    multiply(sums, further(row_operand, step * kStepBytes * kTileRows),
             further(column_operand, step * kStepBytes * kColumns), add || step > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// The same with the rows in registers.
template <int kColumns, int kSteps>
__device__ __forceinline__ void multiply_held_stage(float (&sums)[kColumns / 2], const uint4* held,
                                                    const __half* columns, bool add) {
  const std::uint64_t column_operand = descriptor(columns, kColumns);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    multiply_rows(sums, held[step], further(column_operand, step * kStepBytes * kColumns),
                  add || step > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// A lane's part of the first products' rows, as the instruction takes them.
template <int kHeld>
__device__ __forceinline__ void hold_rows(uint4 (&held)[kHeld], const __half* __restrict__ dev_tile,
                                          int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const __half* own = dev_tile + (warp % kGroupWarps * 16 + lane / 4) * kCoreHalves + lane % 4 * 2;
  const auto two = [&](int chunk, int row) {
    return *reinterpret_cast<const unsigned*>(own + (chunk * kTileRows + row) * kCoreHalves);
  };
#pragma unroll
  for (int step = 0; step < kHeld; ++step) {
    held[step] = {two(2 * step, 0), two(2 * step, 8), two(2 * step + 1, 0), two(2 * step + 1, 8)};
  }
}

/// All points, or the undecided ones, times all centroids. kColumns: centroids of a tile; kGroups:
/// warp groups that multiply, each a tile of points; Pass: what becomes of the products.
template <int kColumns, int kGroups, class Cut, class Pass>
static __global__ void __launch_bounds__(threads_for(kGroups, Pass::kAheadWarps), 1)
    multiply_kernel(Extents s, const typename Pass::Element* __restrict__ dev_points,
                    const typename Pass::Element* __restrict__ dev_centroids, Pass pass) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Element = typename Pass::Element;
  constexpr int kCore = kCoreElements<Element>;
  extern __shared__ __align__(128) unsigned char memory[];
  auto* full = reinterpret_cast<std::uint64_t*>(memory);  // per stage
  auto* empty = full + kMaxStages;
  auto* points_full = empty + kMaxStages;  // per buffer of points
  auto* points_empty = points_full + kMaxBuffers;
  auto* ahead_full = points_empty + kMaxBuffers;  // per group
  auto* ahead_empty = ahead_full + kGroups;
  static_assert((2 * (kMaxStages + kMaxBuffers) + kGroups + 1) * sizeof(std::uint64_t) <=
                kBarrierBytes);
  constexpr std::int64_t kWarpsBytes = kGroups * kGroupWarps * Pass::kWarpBytes;
  auto* ahead = reinterpret_cast<Element*>(memory + kBarrierBytes + kWarpsBytes);
  const std::int64_t ahead_elements =
      Pass::kAheadWarps > 0 ? ahead_bytes<Element>(s.padded) / std::int64_t{sizeof(Element)} : 0;
  auto* buffers = ahead + ahead_elements;
  [[maybe_unused]] auto* ahead_numbers =
      reinterpret_cast<float*>(ahead + kTileRows * ahead_pitch<Element>(s.padded));
  constexpr int kHeldElements = Cut::kHeld * kStepChunks * kCore * kTileRows;
  const std::int64_t buffer_elements = tile_elements(s) - kHeldElements;
  auto* stages = buffers + s.point_buffers * buffer_elements;
  static_assert(!Cut::kAlone || (Cut::kRest == 0 && Cut::kHeld == 0));
  static_assert(Cut::kHeld % Cut::kSteps == 0);
  static_assert((Cut::kHeld == 0 && !Cut::kStreams) || !Pass::kLooksFirst,
                "what is held or streams is not in the rows it would look at");
  static_assert(!Cut::kStreams || (Cut::kHeld == 0 && !Cut::kAlone));
  static_assert(
      (Cut::kHeld == 0 && !Cut::kStreams) || Pass::kAheadWarps == 0,
      "what is held or streams is not in the rows that the old centroids are multiplied by");
  constexpr int kStageChunks = Cut::kSteps * kStepChunks;
  constexpr int kStageColumns = kStageChunks * kCore * kColumns;
  constexpr int kStageRows = kStageChunks * kCore * kTileRows;
  constexpr int kStageElements = kStageColumns + (Cut::kStreams ? kGroups * kStageRows : 0);
  const int chunks = s.padded / kCore;
  const int whole = chunks / kStageChunks;  // stages of a tile of centroids

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < s.stages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], kGroups);
    }
    for (int buffer = 0; buffer < s.point_buffers; ++buffer) {
      barrier_init(&points_full[buffer], 1);
      barrier_init(&points_empty[buffer], 1);
    }
    if constexpr (Pass::kAheadWarps > 0) {
      for (int group = 0; group < kGroups; ++group) {
        barrier_init(&ahead_full[group], Pass::kAheadWarps * 32);
      }
      barrier_init(ahead_empty, kGroupWarps * 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  await_kernels_before();
  // The groups have the same centroids at hand, so they go on together; the last may have no points.
  const std::int64_t rounds = (pass.tiles(s) + kGroups - 1) / kGroups;
  // Blocks that share out the centroids, each a part of the tiles, take the same rounds.
  const int parts = Pass::parts(s, rounds);
  const unsigned blocks = gridDim.x / parts;
  const int part = static_cast<int>(blockIdx.x / blocks);
  const std::int64_t first_round = part < parts ? blockIdx.x % blocks : rounds;
  const int first_tile = s.centroid_tiles * part / parts;
  const int last_tile = s.centroid_tiles * (part + 1) / parts;
  __syncthreads();

  // From a shuffle, so that the compiler knows it to be the same in all lanes.
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 32, 0);
  // A barrier that nobody has arrived at yet counts as past its phase of odd parity.
  if (warp == kGroups * kGroupWarps) {  // feeds centroids
    if (threadIdx.x % 32 != 0) return;
    Place stage{.index = 0, .parity = 1};
    for (std::int64_t round = first_round; round < rounds; round += blocks) {
      const Element* source = dev_centroids + std::int64_t{first_tile} * kColumns * s.padded;
      for (int c = first_tile; c < last_tile; ++c) {
        for (int first = 0; first < chunks; first += kStageChunks) {
          barrier_wait(&empty[stage.index], stage.parity);
          const int elements = min(kStageChunks, chunks - first) * kCore * kColumns;
          const auto bytes = static_cast<unsigned>(elements * sizeof(Element));
          if constexpr (Cut::kStreams) {
            Element* rows = stages + stage.index * kStageElements + kStageColumns;
            const Element* row_source =
                dev_points + round * kGroups * tile_elements(s) + first * kCore * kTileRows;
            const unsigned row_bytes = bytes / kColumns * kTileRows;
            barrier_expect(&full[stage.index], bytes + kGroups * row_bytes);
            for (int group = 0; group < kGroups; ++group) {
              copy_bulk(rows + group * kStageRows, row_source + group * tile_elements(s), row_bytes,
                        &full[stage.index]);
            }
          } else {
            barrier_expect(&full[stage.index], bytes);
          }
          copy_bulk(stages + stage.index * kStageElements, source, bytes, &full[stage.index]);
          source += elements;
          stage.advance(s.stages);
        }
      }
      if (s.stays) return;
    }
    return;
  }
  if constexpr (Pass::kAheadWarps > 0) {
    if (warp > kGroups * kGroupWarps + 1) {  // looks ahead
      const int own = (warp - kGroups * kGroupWarps - 2) * (kTileRows / Pass::kAheadWarps);
      unsigned parity = 1;
      pass.start(s, nullptr);
      auto known = pass.known_ahead(static_cast<int>(first_round) * kGroups * kTileRows + own);
      for (std::int64_t round = first_round; round < rounds; round += blocks) {
        for (int group = 0; group < kGroups; ++group) {
          const float width = pass.width_ahead(known);
          barrier_wait(ahead_empty, parity);
          parity ^= 1;
          pass.look_ahead(s, known.label, width, ahead + own * ahead_pitch<Element>(s.padded),
                          ahead_numbers + own);
          const std::int64_t next_tile = group + 1 < kGroups
                                             ? round * kGroups + group + 1
                                             : (round + static_cast<int>(blocks)) * kGroups;
          known = pass.known_ahead(static_cast<int>(min(next_tile, rounds * kGroups)) * kTileRows +
                                   own);
          finish_pieces();
          barrier_arrive(&ahead_full[group]);
        }
      }
      return;
    }
  }
  if (warp > kGroups * kGroupWarps) {  // feeds points
    if (Cut::kStreams || threadIdx.x % 32 != 0) return;
    Place buffer{.index = 0, .parity = 1};
    const auto bytes = static_cast<unsigned>(buffer_elements * sizeof(Element));
    for (std::int64_t round = first_round; round < rounds; round += blocks) {
      for (int group = 0; group < kGroups; ++group) {
        barrier_wait(&points_empty[buffer.index], buffer.parity);
        barrier_expect(&points_full[buffer.index], bytes);
        copy_bulk(buffers + buffer.index * buffer_elements,
                  dev_points + (round * kGroups + group) * tile_elements(s) + kHeldElements, bytes,
                  &points_full[buffer.index]);
        buffer.advance(s.point_buffers);
      }
    }
    return;
  }

  const int group = warp / kGroupWarps;
  const int next_group = group + 1 == kGroups ? 0 : group + 1;
  const bool speaks = threadIdx.x % (kGroupWarps * 32) == 0;
  const bool gives_back =
      speaks && !s.stays;  // stages, which nobody waits for to fill again if they stay
  Place stage;
  Place buffer{.index = group, .parity = 0};
  [[maybe_unused]] unsigned ahead_parity = 0;
  bool waits = s.turn > 0 && group > 0;
  typename Pass::Sum sums[kColumns / 2];
#pragma unroll
  for (int e = 0; e < kColumns / 2; ++e) sums[e] = 0;
  pass.start(s, memory + kBarrierBytes + warp * Pass::kWarpBytes);
  const int own_rounds =
      static_cast<int>(rounds > first_round ? (rounds - first_round + blocks - 1) / blocks : 0);
  const int row_stride = static_cast<int>(blocks) * kGroups * kTileRows;
  int first_row =
      (static_cast<int>(first_round) * kGroups + group) * kTileRows + warp % kGroupWarps * 16;
  pass.fetch(first_tile);
  for (int left = own_rounds; left > 0; --left, first_row += row_stride) {
    pass.begin(s, first_row);
    if constexpr (!Cut::kAlone) {
      // So that begin() has their registers: the compiler does not see that the first products do not read them.
#pragma unroll
      for (int e = 0; e < kColumns / 2; ++e) sums[e] = 0;
    }
    const Element* rows = buffers + buffer.index * buffer_elements;
    [[maybe_unused]] uint4 held[Cut::kHeld > 0 ? Cut::kHeld : 1];
    if constexpr (Cut::kHeld > 0) {
      hold_rows(held, dev_points + first_row / kTileRows * tile_elements(s), warp);
    }
    if constexpr (!Cut::kStreams) {
      // Until the group before has given the buffer back: only then its filling is over, too, and the next odd or even
      // one the group's own. Groups that take turns would not get ahead of it.
      barrier_wait(&points_empty[buffer.index], buffer.parity ^ 1);
      barrier_wait(&points_full[buffer.index], buffer.parity);
    }
    if constexpr (Pass::kLooksFirst) pass.look_first(s, rows, dev_centroids);
    if constexpr (Pass::kAheadWarps > 0) {
      barrier_wait(&ahead_full[group], ahead_parity);
      ahead_parity ^= 1;
      pass.take_ahead(s, rows, ahead, ahead_numbers, warp % kGroupWarps * 16);
      barrier_arrive(ahead_empty);
    }
    for (int c = first_tile; c < last_tile; ++c) {
      // In turn: while one group's products run, the others reduce theirs.
      if (waits) turn_wait(group);
      waits = s.turn > 0;
      const bool last_turn = left == 1 && c + 1 == last_tile;
      const int turn = group + 1 < kGroups || !last_turn ? s.turn : 0;
      int before = 0;
      pass.fetch(c + 1 < last_tile ? c + 1 : first_tile);
      pin(sums);
      if constexpr (Cut::kAlone) {
        barrier_wait(&full[stage.index], stage.parity);
        multiply_stage<kColumns, Cut::kSteps>(sums, rows, stages + stage.index * kStageElements,
                                              false);
        if (turn > 0) turn_pass(next_group);
        before = stage.index;
        stage.advance(s.stages);
        if (s.stays) stage.parity = 0;
      } else {
        constexpr int kHeldStages = Cut::kHeld / Cut::kSteps;
        // After the products of a stage have been given in: the stage before has been read, this one's products stay
        // under way.
        const auto go_on = [&](int step) {
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          if (step > 0 && gives_back) barrier_arrive(&empty[before]);
          if (step + 1 == turn) turn_pass(next_group);
          before = stage.index;
          stage.advance(s.stages);
          if (s.stays) stage.parity = 0;
        };
        // Where the points' columns of a stage are.
        const auto rows_of = [&](int step, const Element* columns) {
          return Cut::kStreams ? columns + kStageColumns + group * kStageRows
                               : rows + (step - kHeldStages) * kStageRows;
        };
        if constexpr (kHeldStages > 0) {
#pragma unroll
          for (int step = 0; step < kHeldStages; ++step) {
            barrier_wait(&full[stage.index], stage.parity);
            multiply_held_stage<kColumns, Cut::kSteps>(
                sums, held + step * Cut::kSteps, stages + stage.index * kStageElements, step > 0);
            go_on(step);
          }
        }
        for (int step = kHeldStages; step < whole; ++step) {
          barrier_wait(&full[stage.index], stage.parity);
          const Element* columns = stages + stage.index * kStageElements;
          multiply_stage<kColumns, Cut::kSteps>(sums, rows_of(step, columns), columns, step > 0);
          go_on(step);
        }
        if constexpr (Cut::kRest > 0) {  // what is left of the columns
          barrier_wait(&full[stage.index], stage.parity);
          const Element* columns = stages + stage.index * kStageElements;
          multiply_stage<kColumns, Cut::kRest>(sums, rows_of(whole, columns), columns, whole > 0);
          go_on(whole);
        }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      pin(sums);
      if (gives_back) barrier_arrive(&empty[before]);
      if (!Cut::kStreams && c + 1 == last_tile && speaks) {
        barrier_arrive(&points_empty[buffer.index]);
      }
      pass.reduce(s, sums, c);
    }
    if constexpr (!Cut::kStreams) buffer.advance(s.point_buffers, kGroups);
    pass.end(s, first_row);
  }
  pass.finish();
#else
  (void)s, (void)dev_points, (void)dev_centroids, (void)pass;
#endif
}

/// Rows of a copy, one for each of `count` listed points, as tiles of their own; every thread of the grid copies
/// pieces of 16 bytes, and of each row one calls begun(slot, point).
template <class Element, class Begun>
static __device__ void gather_rows(const Extents& s, std::int64_t count, const Element* dev_copy,
                                   const std::int32_t* dev_list, Element* dev_rows, Begun begun) {
  constexpr int kCore = kCoreElements<Element>;
  const std::int64_t pieces = tile_elements(s) / kCore;  // of a tile
  const std::int64_t end = (count + kTileRows - 1) / kTileRows * pieces;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < end;
       index += stride) {
    const auto piece = static_cast<int>(index % pieces);
    const int row = piece % kTileRows;  // neighbours: many of them are from one tile
    const int column = piece / kTileRows * kCore;
    const std::int64_t slot = index / pieces * kTileRows + row;
    if (slot >= count) continue;
    const std::int64_t i = dev_list[slot];
    const Element* source =
        dev_copy + i / kTileRows * tile_elements(s) +
        place_in_tile<Element>(kTileRows, static_cast<int>(i % kTileRows), column);
    *reinterpret_cast<uint4*>(dev_rows + index * kCore) = *reinterpret_cast<const uint4*>(source);
    if (column == 0) begun(slot, i);
  }
}

/// Undecided points' rows of the copy; their lists are empty.
template <class Element>
static __global__ void gather_rows_kernel(Extents s, std::int64_t listed,
                                          const Element* __restrict__ dev_points_copy,
                                          const std::int32_t* __restrict__ dev_undecided,
                                          const TensorState* __restrict__ dev_state,
                                          Element* __restrict__ dev_rows,
                                          std::int32_t* __restrict__ dev_candidate_counts) {
  await_kernels_before();
  const std::int64_t count = min(static_cast<std::int64_t>(dev_state->undecided), listed);
  gather_rows(s, count, dev_points_copy, dev_undecided, dev_rows,
              [&](std::int64_t slot, std::int64_t /*point*/) { dev_candidate_counts[slot] = 0; });
}

/// How a shape is cut up.
struct Plan {
  int columns = 0;  // centroids of a tile
  int groups = 0;   // that multiply; 0: nothing fits
  int buffers = 0;  // of points
  int steps = 0;    // products of a stage
  int held = 0;     // of those of a row, in registers
  int stages = 0;
  bool streams = false;  // points come with the centroids
  bool stays = false;    // the centroids in shared memory
  bool looks = false;    // warps look ahead
  int turn = 0;
  std::size_t shared_bytes = 0;
};

/// Of so many products in a row, of float16 or bytes: is a tile of 128 centroids a stage of its own where it is
/// longer than three? A stage costs fifty instructions of each warp.
template <class Element>
constexpr bool is_whole(std::int64_t products) {
  return products == 9 || (sizeof(Element) == 1 && products == 5);
}

/// How many warp groups, how many products of a row in registers, and how many stages at least.
struct Division {
  int groups;
  int held;
  int least_stages;
};

/// Where a block has no room for points: their columns stream with those of the centroids. Turns among the groups,
/// which reduce for a small part of their time there, cost more than they save.
inline Plan streaming_plan(std::int64_t products, std::int64_t shared_bytes,
                           std::int64_t own_bytes) {
  Plan plan{.columns = 128, .groups = 4, .steps = 2, .streams = true};
  const std::int64_t warps_bytes = plan.groups * kGroupWarps * own_bytes;
  const std::int64_t stage_bytes =
      std::int64_t{plan.steps} * kStepBytes * (plan.columns + plan.groups * kTileRows);
  plan.stages = static_cast<int>(std::min<std::int64_t>(
      kMaxStages, (shared_bytes - kBarrierBytes - warps_bytes) / stage_bytes));
  // What every product cuts off adds up (_tensor_copies.cuh).
  if (plan.stages < 3 || products < plan.steps || products > kMostProducts) return {};
  plan.shared_bytes =
      static_cast<std::size_t>(kBarrierBytes + warps_bytes + plan.stages * stage_bytes);
  return plan;
}

/// In how many parts blocks share out so many tiles of centroids, if the points come in so many rounds: as many as may
/// be, since the blocks of a round read its points together, unless more of them would leave blocks without work.
inline int parts_for(std::int64_t rounds, std::int64_t tiles, std::int64_t blocks) {
  const auto passes = [&](std::int64_t parts) {
    return ceil_div(rounds, blocks / parts) * ceil_div(tiles, parts);
  };
  const std::int64_t most = std::min({tiles, blocks, std::int64_t{kMaxParts}});
  std::int64_t least = passes(1);
  for (std::int64_t parts = 2; parts <= most; ++parts) least = std::min(least, passes(parts));
  for (std::int64_t parts = most; parts > 1; --parts) {
    if (10 * passes(parts) <= 11 * least) return static_cast<int>(parts);
  }
  return 1;
}

/// `padded` elements a row, `own_bytes` of shared memory for each warp that multiplies, `block_bytes` for what else
/// a block has. Fewer columns than a tile of 128 have kernels of their own for float16, where points are read fast.
template <class Element>
Plan plan_for(std::int64_t padded, std::int64_t k, std::int64_t shared_bytes,
              std::int64_t own_bytes, std::int64_t block_bytes = 0) {
  constexpr bool kHalf = sizeof(Element) == 2;
  const std::int64_t products = padded * static_cast<std::int64_t>(sizeof(Element)) / kStepBytes;
  // Where there are two groups registers are free, and where there are few stages centroids on their way are waited
  // for.
  for (const Division& division :
       {Division{4, 0, 3}, Division{2, 0, kHalf ? 8 : 3}, Division{2, kHeldProducts, 3}}) {
    const int groups = division.groups;
    if (division.held > 0 && (!kHalf || products <= division.held)) continue;
    const int columns = groups == 2 || k > 64 || !kHalf ? 128 : (k > 16 ? 64 : 16);
    Plan plan{.columns = columns, .groups = groups, .steps = 4, .held = division.held};
    if (groups == 2) {
      plan.steps = 2;
    } else if ((kHalf && products <= 3) || (columns == 128 && is_whole<Element>(products))) {
      plan.steps = static_cast<int>(products);
    }
    const std::int64_t rows_bytes = kTileRows * (products - plan.held) * kStepBytes;
    const std::int64_t stage_bytes = std::int64_t{plan.steps} * kStepBytes * columns;
    // Stages of a tile of centroids, and of all.
    const std::int64_t tile_stages = ceil_div(products, plan.steps);
    const std::int64_t all_stages = ceil_div(k, columns) * tile_stages;
    const std::int64_t warps_bytes = groups * kGroupWarps * own_bytes + block_bytes;
    const std::int64_t room = shared_bytes - kBarrierBytes - warps_bytes;
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
      if (plan.stages < division.least_stages) continue;
    }
    // The next group begins when this one has its share of a tile behind it, so that they do not all
    // reduce at once, or as soon as the stages let it. Where some tiles take longer to reduce than others,
    // as what becomes of bytes does, turns would make all wait.
    if (kHalf && columns > 16) {
      plan.turn = static_cast<int>(
          std::max<std::int64_t>(1, std::min<std::int64_t>(tile_stages / groups, plan.stages - 3)));
    }
    plan.shared_bytes = static_cast<std::size_t>(
        kBarrierBytes + warps_bytes + plan.buffers * rows_bytes + plan.stages * stage_bytes);
    return plan;
  }
  if constexpr (kHalf) return streaming_plan(products, shared_bytes, own_bytes);
  return {};
}

/// A shape by its plan.
inline Extents extents_of(const Shape& shape, const Plan& plan, std::int64_t padded) {
  return {.n = shape.n,
          .d = shape.d,
          .k = shape.k,
          .padded = static_cast<int>(padded),
          .columns = plan.columns,
          .point_tiles = ceil_div(shape.n, plan.groups * kTileRows) * plan.groups,
          .centroid_tiles = static_cast<int>(ceil_div(shape.k, plan.columns)),
          .point_buffers = plan.buffers,
          .stages = plan.stages,
          .stays = plan.stays,
          .turn = plan.turn,
          .parts = 1};
}

/// Why a family on these matrix units does not take a shape, that of its plan.
inline Support supports_on_hopper(const GpuDevice& gpu, const Shape& shape, const Plan& plan) {
  if (gpu.major != 9 || gpu.minor != 0) {
    return Support::no("its matrix instructions are those of compute capability 9.0; this is " +
                       std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
  }
  if (plan.groups == 0) {
    return Support::no(
        "d = " + std::to_string(shape.d) +
        ": a tile of points exceeds the shared memory of a block, or what its products "
        "may lose by rounding exceeds what the bound allows for");
  }
  if (shape.n >= std::int64_t{1} << 30) {
    return Support::no("n = " + std::to_string(shape.n) +
                       " points: their moves between clusters are counted in 32 bits, two a "
                       "point, so at most 1073741823");
  }
  return counts_fit(shape);
}

/// Calls use(columns, groups, cut) with what the plan and the products of a row say as constants.
template <class Element, class Use>
void with_kernels(const Plan& plan, int products, const Use& use) {
  using std::integral_constant;
  const integral_constant<int, 128> wide;
  if (plan.groups == 2) {
    const integral_constant<int, 2> groups;
    if constexpr (sizeof(Element) == 2) {
      if (plan.held > 0) {
        if (products % 2 == 0) return use(wide, groups, Cut<2, 0, false, kHeldProducts>());
        return use(wide, groups, Cut<2, 1, false, kHeldProducts>());
      }
    }
    if (products % 2 == 0) return use(wide, groups, Cut<2, 0, false>());
    return use(wide, groups, Cut<2, 1, false>());
  }
  const integral_constant<int, 4> groups;
  if constexpr (sizeof(Element) == 2) {
    if (plan.streams) {
      if (products % 2 == 0) return use(wide, groups, Cut<2, 0, false, 0, true>());
      return use(wide, groups, Cut<2, 1, false, 0, true>());
    }
  }
  const auto with_cut = [&](auto columns) {
    if constexpr (columns == 128) {
      if (plan.steps == 9) return use(columns, groups, Cut<9, 0, true>());
      if constexpr (is_whole<Element>(5)) {
        if (plan.steps == 5) return use(columns, groups, Cut<5, 0, true>());
      }
    }
    if constexpr (sizeof(Element) == 2) {
      if (plan.steps == 1) return use(columns, groups, Cut<1, 0, true>());
      if (plan.steps == 2) return use(columns, groups, Cut<2, 0, true>());
      if (plan.steps == 3) return use(columns, groups, Cut<3, 0, true>());
    }
    switch (products % 4) {
      case 0: return use(columns, groups, Cut<4, 0, false>());
      case 1: return use(columns, groups, Cut<4, 1, false>());
      case 2: return use(columns, groups, Cut<4, 2, false>());
      default: return use(columns, groups, Cut<4, 3, false>());
    }
  };
  if constexpr (sizeof(Element) == 2) {
    if (plan.columns == 64) return with_cut(integral_constant<int, 64>());
    if (plan.columns == 16) return with_cut(integral_constant<int, 16>());
  }
  with_cut(wide);
}

}  // namespace kmeans::cuda
