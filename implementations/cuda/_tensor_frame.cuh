// SPDX-License-Identifier: Apache-2.0
//
// Points times centroids on Hopper's matrix units, a tile of points against all tiles of
// centroids, warp-specialised: two producer warps fill shared memory (two more prefetch where the
// pass asks for it), consumer warp groups multiply, and some run their epilogue while others
// multiply. What is multiplied, float16 or bytes, and what becomes of the products, are the pass's.
#pragma once

#include <cstdint>

#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_block.cuh"
#include "implementations/cuda/_tensor_consumers.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_tensor_producers.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

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
