// SPDX-License-Identifier: Apache-2.0
//
// Points times centroids on Hopper's matrix units, a tile of points against all tiles of
// centroids, warp-specialised: two producer warps fill shared memory (two more prefetch where the
// pass asks for it), consumer warp groups multiply, and some run their epilogue while others
// multiply. What is multiplied, float16 or bytes, and what becomes of the products, are the pass's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

/// The products of a stage. One block of code, without a branch: else the compiler waits for every
/// product.
template <int kColumns, int kProducts, class Sum, class Element>
__device__ __forceinline__ void multiply_stage(Sum (&sums)[kColumns / 2], const Element* rows,
                                               const Element* columns, bool add) {
  const std::uint64_t row_operand = descriptor(rows, kTileRows);
  const std::uint64_t column_operand = descriptor(columns, kColumns);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int product = 0; product < kProducts; ++product) {
    multiply(sums, further(row_operand, product * kProductBytes * kTileRows),
             further(column_operand, product * kProductBytes * kColumns), add || product > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// The same with the rows in registers.
template <int kColumns, int kProducts>
__device__ __forceinline__ void multiply_register_stage(float (&sums)[kColumns / 2],
                                                        const uint4* rows, const __half* columns,
                                                        bool add) {
  const std::uint64_t column_operand = descriptor(columns, kColumns);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int product = 0; product < kProducts; ++product) {
    multiply_rows(sums, rows[product], further(column_operand, product * kProductBytes * kColumns),
                  add || product > 0);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// A lane's part of the first products' rows, as the instruction takes them.
template <int kProducts>
__device__ __forceinline__ void load_rows(uint4 (&rows)[kProducts],
                                          const __half* __restrict__ dev_tile, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const __half* own = dev_tile + (warp % kGroupWarps * 16 + lane / 4) * kCoreHalves + lane % 4 * 2;
  const auto two = [&](int chunk, int row) {
    return *reinterpret_cast<const unsigned*>(own + (chunk * kTileRows + row) * kCoreHalves);
  };
#pragma unroll
  for (int p = 0; p < kProducts; ++p) {
    rows[p] = {two(2 * p, 0), two(2 * p, 8), two(2 * p + 1, 0), two(2 * p + 1, 8)};
  }
}

/// A block's shared memory, and how stages are cut.
template <int kColumns_, int kGroups_, class Pipeline_, class Pass>
struct Block {
  using Pipeline = Pipeline_;
  using Element = typename Pass::Element;
  using Sum = typename Pass::Sum;
  static constexpr int kColumns = kColumns_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kConsumerWarps = kGroups * kGroupWarps;
  static constexpr int kCore = kCoreElements<Element>;
  static constexpr int kRegisterElements =
      Pipeline::kInRegisters * kProductChunks * kCore * kTileRows;
  static constexpr int kStageChunks = Pipeline::kProducts * kProductChunks;
  static constexpr int kStageColumns = kStageChunks * kCore * kColumns;
  static constexpr int kStageRows = kStageChunks * kCore * kTileRows;
  static constexpr int kStageElements =
      kStageColumns + (Pipeline::kStreamsPoints ? kGroups * kStageRows : 0);
  static_assert((2 * (kMaxStages + kMaxPointBuffers) + kGroups + 1) * sizeof(std::uint64_t) <=
                kBarrierBytes);
  static_assert((Pipeline::kInRegisters == 0 && !Pipeline::kStreamsPoints) ||
                    (!Pass::kSeedsBounds && Pass::kPrefetchWarps == 0),
                "bounds by old centroids need whole rows in shared memory");

  std::uint64_t* full;  // per stage
  std::uint64_t* empty;
  std::uint64_t* points_full;  // per buffer of points
  std::uint64_t* points_empty;
  std::uint64_t* prefetch_full;  // per group
  std::uint64_t* prefetch_empty;
  unsigned char* of_warps;
  Element* prefetched;  // rows of centroids
  float* prefetched_widths;
  Element* points;
  Element* stages;
  std::int64_t point_buffer_elements;
  int chunks;
  int whole_stages;  // of a tile of centroids

  __device__ __forceinline__ Block(unsigned char* memory, const Extents& s) {
    constexpr std::int64_t kElementBytes = sizeof(Element);
    const SharedLayout layout = shared_layout(
        std::int64_t{kConsumerWarps} * Pass::kWarpBytes,
        Pass::kPrefetchWarps > 0 ? prefetch_bytes<Element>(s.padded) : 0,
        s.point_buffers * point_buffer_bytes(s.padded * kElementBytes, Pipeline::kInRegisters), 0);
    full = reinterpret_cast<std::uint64_t*>(memory);
    empty = full + kMaxStages;
    points_full = empty + kMaxStages;
    points_empty = points_full + kMaxPointBuffers;
    prefetch_full = points_empty + kMaxPointBuffers;
    prefetch_empty = prefetch_full + kGroups;
    of_warps = memory + kBarrierBytes;
    prefetched = reinterpret_cast<Element*>(memory + layout.prefetched);
    prefetched_widths =
        reinterpret_cast<float*>(prefetched + kTileRows * prefetch_pitch<Element>(s.padded));
    points = reinterpret_cast<Element*>(memory + layout.points);
    stages = reinterpret_cast<Element*>(memory + layout.stages);
    point_buffer_elements = tile_elements(s) - kRegisterElements;
    chunks = s.padded / kCore;
    whole_stages = chunks / kStageChunks;
  }

  /// One thread does.
  __device__ __forceinline__ void init_barriers(const Extents& s) const {
    for (int stage = 0; stage < s.stages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], kGroups);
    }
    for (int buffer = 0; buffer < s.point_buffers; ++buffer) {
      barrier_init(&points_full[buffer], 1);
      barrier_init(&points_empty[buffer], 1);
    }
    if constexpr (Pass::kPrefetchWarps > 0) {
      for (int group = 0; group < kGroups; ++group) {
        barrier_init(&prefetch_full[group], Pass::kPrefetchWarps * 32);
      }
      barrier_init(prefetch_empty, kGroupWarps * 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  [[nodiscard]] __device__ __forceinline__ Element* stage(int index) const {
    return stages + index * kStageElements;
  }
};

/// What a block multiplies: in each round a tile of points per group, and a part of the centroids.
/// The groups share the centroids, so they go on together; in the last round some may have no
/// points.
struct Work {
  std::int64_t rounds;
  std::int64_t first_round;
  unsigned stride;  // blocks that have the same centroids
  int first_tile;   // of centroids
  int last_tile;

  template <class Pass>
  __device__ __forceinline__ Work(const Extents& s, const Pass& pass, int groups) {
    rounds = (pass.tiles(s) + groups - 1) / groups;
    // Blocks that share out the centroids, each a part of the tiles, take the same rounds.
    const int parts = Pass::parts(s, rounds);
    stride = gridDim.x / parts;
    const int part = static_cast<int>(blockIdx.x / stride);
    first_round = part < parts ? blockIdx.x % stride : rounds;
    first_tile = s.centroid_tiles * part / parts;
    last_tile = s.centroid_tiles * (part + 1) / parts;
  }
};

/// The producer of centroids, one thread: bulk copies into the ring of stages. A barrier that
/// nobody has arrived at yet counts as past its phase of odd parity.
template <class Block>
__device__ __forceinline__ void produce_centroids(
    const Block& block, const Work& work, const Extents& s,
    const typename Block::Element* __restrict__ dev_points,
    const typename Block::Element* __restrict__ dev_centroids) {
  using Element = typename Block::Element;
  Place stage{.index = 0, .parity = 1};
  for (std::int64_t round = work.first_round; round < work.rounds; round += work.stride) {
    const Element* source =
        dev_centroids + std::int64_t{work.first_tile} * Block::kColumns * s.padded;
    for (int c = work.first_tile; c < work.last_tile; ++c) {
      for (int first = 0; first < block.chunks; first += Block::kStageChunks) {
        barrier_wait(&block.empty[stage.index], stage.parity);
        const int elements =
            min(Block::kStageChunks, block.chunks - first) * Block::kCore * Block::kColumns;
        const auto bytes = static_cast<unsigned>(elements * sizeof(Element));
        if constexpr (Block::Pipeline::kStreamsPoints) {
          Element* rows = block.stage(stage.index) + Block::kStageColumns;
          const Element* row_source = dev_points + round * Block::kGroups * tile_elements(s) +
                                      first * Block::kCore * kTileRows;
          const unsigned row_bytes = bytes / Block::kColumns * kTileRows;
          barrier_expect(&block.full[stage.index], bytes + Block::kGroups * row_bytes);
          for (int group = 0; group < Block::kGroups; ++group) {
            copy_bulk(rows + group * Block::kStageRows, row_source + group * tile_elements(s),
                      row_bytes, &block.full[stage.index]);
          }
        } else {
          barrier_expect(&block.full[stage.index], bytes);
        }
        copy_bulk(block.stage(stage.index), source, bytes, &block.full[stage.index]);
        source += elements;
        stage.advance(s.stages);
      }
    }
    if (s.resident) return;
  }
}

/// The producer of points, one thread: bulk copies into the ring of buffers.
template <class Block>
__device__ __forceinline__ void produce_points(
    const Block& block, const Work& work, const Extents& s,
    const typename Block::Element* __restrict__ dev_points) {
  Place buffer{.index = 0, .parity = 1};
  const auto bytes =
      static_cast<unsigned>(block.point_buffer_elements * sizeof(typename Block::Element));
  for (std::int64_t round = work.first_round; round < work.rounds; round += work.stride) {
    for (int group = 0; group < Block::kGroups; ++group) {
      barrier_wait(&block.points_empty[buffer.index], buffer.parity);
      barrier_expect(&block.points_full[buffer.index], bytes);
      copy_bulk(block.points + buffer.index * block.point_buffer_elements,
                dev_points + (round * Block::kGroups + group) * tile_elements(s) +
                    Block::kRegisterElements,
                bytes, &block.points_full[buffer.index]);
      buffer.advance(s.point_buffers);
    }
  }
}

/// The warps that prefetch: for each tile of points the centroids that were nearest before.
/// `own`: the warp's first row of a tile.
template <class Block, class Pass>
__device__ __forceinline__ void prefetch_previous(const Block& block, const Work& work,
                                                  const Extents& s, Pass& pass, int own) {
  constexpr int kGroups = Block::kGroups;
  unsigned parity = 1;
  pass.start(s, nullptr);
  auto previous = pass.previous_of(static_cast<int>(work.first_round) * kGroups * kTileRows + own);
  for (std::int64_t round = work.first_round; round < work.rounds; round += work.stride) {
    for (int group = 0; group < kGroups; ++group) {
      const float width = pass.width_of_previous(previous);
      barrier_wait(block.prefetch_empty, parity);
      parity ^= 1;
      pass.prefetch(s, previous.label, width,
                    block.prefetched + own * prefetch_pitch<typename Block::Element>(s.padded),
                    block.prefetched_widths + own);
      const std::int64_t next_tile = group + 1 < kGroups
                                         ? round * kGroups + group + 1
                                         : (round + static_cast<int>(work.stride)) * kGroups;
      previous = pass.previous_of(
          static_cast<int>(min(next_tile, work.rounds * kGroups)) * kTileRows + own);
      finish_pieces();
      barrier_arrive(&block.prefetch_full[group]);
    }
  }
}

/// Of a consumer warp: where it stands in the rings, and whether it releases stages.
struct Consumer {
  int group;
  int next_group;
  bool releases;  // stages; nobody waits for those that are resident
  Place stage;
};

/// Multiplies a tile of centroids by the group's points, stage by stage, and waits for the sums.
/// rows: in shared memory; order_after: stages until the next group may begin. Returns the last
/// stage, which is not released yet.
template <class Block>
__device__ __forceinline__ int multiply_tile(const Block& block, const Extents& s, Consumer& own,
                                             typename Block::Sum (&sums)[Block::kColumns / 2],
                                             const typename Block::Element* rows,
                                             const uint4* register_rows, int order_after) {
  using Pipeline = typename Block::Pipeline;
  using Element = typename Block::Element;
  constexpr int kColumns = Block::kColumns;
  constexpr int kProducts = Pipeline::kProducts;
  Place& stage = own.stage;
  int before = 0;
  if constexpr (Pipeline::kOneStage) {
    barrier_wait(&block.full[stage.index], stage.parity);
    multiply_stage<kColumns, kProducts>(sums, rows, block.stage(stage.index), false);
    if (order_after > 0) order_arrive(own.next_group);
    before = stage.index;
    stage.advance(s.stages);
    if (s.resident) stage.parity = 0;
  } else {
    constexpr int kRegisterStages = Pipeline::kInRegisters / kProducts;
    // The products of a stage have been issued: the stage before has been read, while this one's
    // products are under way.
    const auto go_on = [&](int step) {
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (step > 0 && own.releases) barrier_arrive(&block.empty[before]);
      if (step + 1 == order_after) order_arrive(own.next_group);
      before = stage.index;
      stage.advance(s.stages);
      if (s.resident) stage.parity = 0;
    };
    // Where the points' columns of a stage are.
    const auto rows_of = [&](int step, const Element* columns) {
      return Pipeline::kStreamsPoints
                 ? columns + Block::kStageColumns + own.group * Block::kStageRows
                 : rows + (step - kRegisterStages) * Block::kStageRows;
    };
    if constexpr (kRegisterStages > 0) {
#pragma unroll
      for (int step = 0; step < kRegisterStages; ++step) {
        barrier_wait(&block.full[stage.index], stage.parity);
        multiply_register_stage<kColumns, kProducts>(sums, register_rows + step * kProducts,
                                                     block.stage(stage.index), step > 0);
        go_on(step);
      }
    }
    const auto multiply_whole = [&](int step) {
      barrier_wait(&block.full[stage.index], stage.parity);
      const Element* columns = block.stage(stage.index);
      multiply_stage<kColumns, kProducts>(sums, rows_of(step, columns), columns, step > 0);
      go_on(step);
    };
    if constexpr (kRegisterStages > 0) {
#pragma unroll 1
      for (int step = kRegisterStages; step < block.whole_stages; ++step) multiply_whole(step);
    } else {
      for (int step = 0; step < block.whole_stages; ++step) multiply_whole(step);
    }
    if constexpr (Pipeline::kRest > 0) {  // what is left of the columns
      barrier_wait(&block.full[stage.index], stage.parity);
      const Element* columns = block.stage(stage.index);
      multiply_stage<kColumns, Pipeline::kRest>(sums, rows_of(block.whole_stages, columns), columns,
                                                block.whole_stages > 0);
      go_on(block.whole_stages);
    }
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  return before;
}

/// A consumer warp: its group's tiles of points times all tiles of centroids; the pass has the
/// epilogue of each.
template <class Block, class Pass>
__device__ __forceinline__ void consume(const Block& block, const Work& work, const Extents& s,
                                        Pass& pass, int warp,
                                        const typename Block::Element* __restrict__ dev_points,
                                        const typename Block::Element* __restrict__ dev_centroids) {
  using Pipeline = typename Block::Pipeline;
  using Element = typename Block::Element;
  constexpr int kColumns = Block::kColumns;
  constexpr int kGroups = Block::kGroups;
  const int group = warp / kGroupWarps;
  const bool is_leader = threadIdx.x % (kGroupWarps * 32) == 0;
  Consumer own{.group = group,
               .next_group = group + 1 == kGroups ? 0 : group + 1,
               .releases = is_leader && !s.resident,
               .stage = {}};
  Place buffer{.index = group, .parity = 0};
  [[maybe_unused]] unsigned prefetch_parity = 0;
  bool waits = s.order_after > 0 && group > 0;
  typename Pass::Sum sums[kColumns / 2];
#pragma unroll
  for (int e = 0; e < kColumns / 2; ++e) sums[e] = 0;
  pass.start(s, block.of_warps + warp * Pass::kWarpBytes);
  const int own_rounds =
      static_cast<int>(work.rounds > work.first_round
                           ? (work.rounds - work.first_round + work.stride - 1) / work.stride
                           : 0);
  const int row_stride = static_cast<int>(work.stride) * kGroups * kTileRows;
  int first_row =
      (static_cast<int>(work.first_round) * kGroups + group) * kTileRows + warp % kGroupWarps * 16;
  pass.preload(work.first_tile);
  for (int left = own_rounds; left > 0; --left, first_row += row_stride) {
    pass.begin(s, first_row);
    if constexpr (!Pipeline::kOneStage) {
      // So that begin() has their registers: the compiler does not see that the first products do
      // not read them.
#pragma unroll
      for (int e = 0; e < kColumns / 2; ++e) sums[e] = 0;
    }
    const Element* rows = block.points + buffer.index * block.point_buffer_elements;
    [[maybe_unused]] uint4 register_rows[Pipeline::kInRegisters > 0 ? Pipeline::kInRegisters : 1];
    if constexpr (Pipeline::kInRegisters > 0) {
      load_rows(register_rows, dev_points + first_row / kTileRows * tile_elements(s), warp);
    }
    if constexpr (!Pipeline::kStreamsPoints) {
      // First until the group before has released the buffer, so that the phase of this parity is
      // the group's own. Groups that are ordered would not get ahead of it.
      barrier_wait(&block.points_empty[buffer.index], buffer.parity ^ 1);
      barrier_wait(&block.points_full[buffer.index], buffer.parity);
    }
    if constexpr (Pass::kSeedsBounds) pass.seed_bounds(s, rows, dev_centroids);
    if constexpr (Pass::kPrefetchWarps > 0) {
      barrier_wait(&block.prefetch_full[group], prefetch_parity);
      prefetch_parity ^= 1;
      pass.take_prefetched(s, rows, block.prefetched, block.prefetched_widths,
                           warp % kGroupWarps * 16);
      barrier_arrive(block.prefetch_empty);
    }
    for (int c = work.first_tile; c < work.last_tile; ++c) {
      // While one group's products run, the others are in their epilogues.
      if (waits) order_wait(group);
      waits = s.order_after > 0;
      const bool last = left == 1 && c + 1 == work.last_tile;
      const int order_after = group + 1 < kGroups || !last ? s.order_after : 0;
      pass.preload(c + 1 < work.last_tile ? c + 1 : work.first_tile);
      pin(sums);
      const int stage = multiply_tile(block, s, own, sums, rows, register_rows, order_after);
      pin(sums);
      if (own.releases) barrier_arrive(&block.empty[stage]);
      if (!Pipeline::kStreamsPoints && c + 1 == work.last_tile && is_leader) {
        barrier_arrive(&block.points_empty[buffer.index]);
      }
      pass.epilogue(s, sums, c);
    }
    if constexpr (!Pipeline::kStreamsPoints) buffer.advance(s.point_buffers, kGroups);
    pass.end(s, first_row);
  }
  pass.finish();
}

/// All points, or the undecided ones, times all centroids. kColumns: centroids of a tile; kGroups:
/// consumer warp groups, each with a tile of points; Pass: what becomes of the products.
template <int kColumns, int kGroups, class Pipeline, class Pass>
static __global__ void __launch_bounds__(threads_for(kGroups, Pass::kPrefetchWarps), 1)
    multiply_kernel(Extents s, const typename Pass::Element* __restrict__ dev_points,
                    const typename Pass::Element* __restrict__ dev_centroids, Pass pass) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char memory[];
  using OwnBlock = Block<kColumns, kGroups, Pipeline, Pass>;
  const OwnBlock block(memory, s);
  if (threadIdx.x == 0) block.init_barriers(s);
  await_kernels_before();
  const Work work(s, pass, kGroups);
  __syncthreads();
  // From a shuffle, so that the compiler knows it to be the same in all lanes.
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 32, 0);
  constexpr int kProducer = OwnBlock::kConsumerWarps;  // of centroids; then that of points
  if (warp == kProducer) {
    if (threadIdx.x % 32 == 0) produce_centroids(block, work, s, dev_points, dev_centroids);
    return;
  }
  if constexpr (Pass::kPrefetchWarps > 0) {
    if (warp > kProducer + 1) {
      const int own = (warp - kProducer - 2) * (kTileRows / Pass::kPrefetchWarps);
      prefetch_previous(block, work, s, pass, own);
      return;
    }
  }
  if (warp > kProducer) {
    if (!Pipeline::kStreamsPoints && threadIdx.x % 32 == 0) {
      produce_points(block, work, s, dev_points);
    }
    return;
  }
  consume(block, work, s, pass, warp, dev_points, dev_centroids);
#else
  (void)s, (void)dev_points, (void)dev_centroids, (void)pass;
#endif
}

/// Rows of a copy, one for each of `count` listed points, as tiles of their own; every thread of
/// the grid copies pieces of 16 bytes, and of each row one calls begun(slot, point).
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

}  // namespace kmeans::cuda
