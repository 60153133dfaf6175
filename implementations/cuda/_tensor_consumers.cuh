// SPDX-License-Identifier: Apache-2.0
//
// The consumer warps of multiply_kernel.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_block.cuh"
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
  const int own_rounds = work.own_rounds();
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

}  // namespace kmeans::cuda
