// SPDX-License-Identifier: Apache-2.0
//
// The producer warps of multiply_kernel, and those that prefetch.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_block.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

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

}  // namespace kmeans::cuda
