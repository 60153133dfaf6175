// SPDX-License-Identifier: Apache-2.0
//
// A block of multiply_kernel: its shared memory, how stages are cut, and what it multiplies.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

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
  /// Rounds of this block.
  [[nodiscard]] __device__ __forceinline__ int own_rounds() const {
    return static_cast<int>(rounds > first_round ? (rounds - first_round + stride - 1) / stride
                                                 : 0);
  }
};

}  // namespace kmeans::cuda
