// SPDX-License-Identifier: Apache-2.0
//
// cuda_onepass: a warp multiplies the float16 copies of its rows by those of all centroids, chunk
// by chunk. While a chunk's distances are in registers, it finds their least and counts those
// within the bound above it: the candidates.
#pragma once

#include <cstdint>
#include <cstring>

#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_onepass_plan.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda::onepass {

/// The row of a pair of row blocks that a lane decides: of its four rows, eight apart, the
/// lane % 4th.
__device__ inline unsigned row_of(unsigned lane) { return lane % 4 * 8 + lane / 4; }

/// A pair of row blocks in a lane's registers: the first operand of the matrix instruction.
template <int kSteps>
struct RowOperand {
  uint4 pieces[2][kSteps];

  __device__ void load(const PassArguments& args, unsigned pair, unsigned lane) {
    const uint4* dev_rows = args.dev_rows + std::uint64_t{pair} * (2 * kSteps * kLanes) + lane;
#pragma unroll
    for (int e = 0; e < 2 * kSteps; ++e) {
      pieces[e / kSteps][e % kSteps] = __ldcs(dev_rows + e * kLanes);
    }
  }
};

/// What else a lane loads of these rows.
struct RowFacts {
  uint4 lengths;       // PassArguments::dev_lengths
  std::int32_t label;  // previous, of row_of(lane)

  __device__ void load(const PassArguments& args, unsigned pair, unsigned lane) {
    lengths = __ldcs(args.dev_lengths + pair * 8 + lane / 4);
    const unsigned i = pair * kPairRows + row_of(lane);
    label = i < args.n ? args.dev_labels[i] : 0;
  }
};

/// The second operand: a column block, two steps with each load.
template <int kSteps>
__device__ __forceinline__ void load_columns(const unsigned char* block, uint2 (&columns)[kSteps]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int step = 0; step + 1 < kSteps; step += 2) {
    [[maybe_unused]] const auto both =
        *reinterpret_cast<const uint4*>(block + step * kColumnPiece + lane * 16);
    columns[step] = {both.x, both.y};
    columns[step + 1] = {both.z, both.w};
  }
  if constexpr (kSteps % 2 != 0) {
    columns[kSteps - 1] =
        *reinterpret_cast<const uint2*>(block + (kSteps - 1) * kColumnPiece + lane * 8);
  }
}

/// A warp's rows times a chunk of centroids.
template <int kSteps, int kTiles>
__device__ __forceinline__ void multiply_chunk(const RowOperand<kSteps>& rows,
                                               const unsigned char* blocks,
                                               const float4* half_norms,
                                               float (&sums)[2][kTiles][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    uint2 columns[kSteps];
    load_columns<kSteps>(blocks + tile * kSteps * kColumnPiece, columns);
    const float4 norms = half_norms[tile * 4 + threadIdx.x % 4];
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      float(&own)[4] = sums[block][tile];
      multiply_add(own, rows.pieces[block][0], columns[0], norms);
#pragma unroll
      for (int step = 1; step < kSteps; ++step) {
        multiply_add(own, rows.pieces[block][step], columns[step],
                     {own[0], own[1], own[2], own[3]});
      }
    }
  }
}

/// Updates a lane's rows with a chunk's distances: their least, and the candidates among them.
/// kFirst: this chunk is the first, so there is nothing to compare it with.
template <bool kFirst, int kBlocks, int kTiles>
__device__ __forceinline__ void judge_chunk(const float (&sums)[kBlocks][kTiles][4],
                                            const unsigned (&lengths)[2 * kBlocks],
                                            const float4& margin, int first_column,
                                            Nearest* nearest) {
  constexpr int kRows = 2 * kBlocks;
  float limits[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    Least of_row;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float* two = sums[row / 2][tile] + row % 2 * 2;
      of_row.look(two[0], two[1]);
    }
    const float least = of_row.value();
    __half2 halves;
    memcpy(&halves, &lengths[row], sizeof(halves));
    const float2 length = __half22float2(halves);
    const float width = __fmaf_rn(length.x, margin.x, __fmaf_rn(length.y, margin.y, margin.z));
    if constexpr (kFirst) {
      nearest[row] = {.upper = least + width, .lower = least - width};
    } else {
      if (first_column == 0) nearest[row] = {};
      nearest[row].look(least - width, least + width);
    }
    limits[row] = (nearest[row].upper + width) * kLarge;
  }
  float counted[kRows] = {};
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4 * kBlocks; ++e) {
      const float number = kOne + static_cast<float>(tile * kMmaColumns + e % 2);
      counted[e / 2] = count_below(sums[e / 4][tile][e % 4], limits[e / 2], number, counted[e / 2]);
    }
  }
  const auto offset = static_cast<float>(first_column + static_cast<int>(threadIdx.x) % 4 * 2);
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if constexpr (kFirst) {
      nearest[row].add_first(counted[row], offset);
    } else {
      nearest[row].add(counted[row], offset);
    }
  }
}

/// The candidates of a warp's rows, with mma.sync. prefetch() is called once the last product is
/// issued; it may overwrite the rows.
template <bool kOneChunk, int kSteps, int kTiles, class Prefetch>
__device__ __forceinline__ void find_candidates(const PassArguments& args,
                                                const RowOperand<kSteps>& rows,
                                                const unsigned (&lengths)[4],
                                                const unsigned char* blocks,
                                                const float4* half_norms, const float4* margins,
                                                Nearest (&nearest)[4], const Prefetch& prefetch) {
  float sums[2][kTiles][4];
  if constexpr (kOneChunk) {
    multiply_chunk<kSteps, kTiles>(rows, blocks, half_norms, sums);
    prefetch();
    judge_chunk<true, 2, kTiles>(sums, lengths, margins[0], 0, nearest);
  } else {
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      const int first = chunk * kTiles * kMmaColumns;
      multiply_chunk<kSteps, kTiles>(rows, blocks + chunk * (kTiles * kSteps * kColumnPiece),
                                     half_norms + first / 2, sums);
      if (chunk + 1 == args.chunks) prefetch();
      judge_chunk<false, 2, kTiles>(sums, lengths, margins[chunk], first, nearest);
    }
  }
}

/// Issues the products from step kStep on. No loop: in one, the compiler waits for each product.
/// columns: the descriptor of the first step.
template <int kStep, int kPitch, int kSteps, int kSums>
__device__ __forceinline__ void multiply_steps(const uint4 (&rows)[kSteps], std::uint64_t columns,
                                               float (&sums)[kSums]) {
  if constexpr (kStep < kSteps) {
    multiply_rows(sums, rows[kStep], columns + kStep * (kMmaDepth * 2 * kPitch / 16), true);
    multiply_steps<kStep + 1, kPitch>(rows, columns, sums);
  }
}

/// The same with wgmma, 64 rows and 128 centroids at a time. All loops are unrolled, so that every
/// address is a constant.
template <int kSteps, int kChunks, class Prefetch>
__device__ __forceinline__ void find_candidates_wide(const RowOperand<kSteps>& rows,
                                                     const unsigned (&lengths)[4],
                                                     std::uint64_t columns, const float4* margins,
                                                     Nearest (&nearest)[4],
                                                     const Prefetch& prefetch) {
  constexpr int kColumns = kWideTiles * kMmaColumns;
  constexpr int kPitch = kChunks * kColumns;
  // The rows' operand in the step of the norms: ones. In registers that nothing else uses, since
  // asynchronous products read them.
  uint4 ones{threadIdx.x % 4 == 0 ? 0x3c003c00U : 0U, 0, 0, 0};
  ones.y = ones.x;
  asm volatile("" : "+r"(ones.x), "+r"(ones.y), "+r"(ones.z), "+r"(ones.w));
#pragma unroll
  for (int block = 0; block < 2; ++block) {
    const unsigned own_lengths[2] = {lengths[2 * block], lengths[2 * block + 1]};
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const std::uint64_t own = columns + chunk * (kColumns * kCoreHalves * 2 / 16);
      float sums[4 * kWideTiles];
      pin(sums);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply_rows(sums, ones, own + kSteps * (kMmaDepth * 2 * kPitch / 16), false);
      multiply_steps<0, kPitch>(rows.pieces[block], own, sums);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      pin(sums);
      if (block == 1 && chunk + 1 == kChunks) prefetch();
      const auto& of_block = reinterpret_cast<float(&)[1][kWideTiles][4]>(sums);
      if (chunk == 0) {
        judge_chunk<true, 1, kWideTiles>(of_block, own_lengths, margins[0], 0, nearest + 2 * block);
      } else {
        judge_chunk<false, 1, kWideTiles>(of_block, own_lengths, margins[chunk], chunk * kColumns,
                                          nearest + 2 * block);
      }
    }
  }
}

/// Four lanes share four rows; each joins what they found of the row that it decides. kAtOnce: one
/// chunk, so all that a lane found came at once.
template <bool kAtOnce>
__device__ __forceinline__ Nearest join_lanes(const Nearest (&rows)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const bool upper_two = lane % 4 >= 2;
  Nearest two[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    two[row] = upper_two ? rows[row + 2] : rows[row];
    const Nearest given = upper_two ? rows[row] : rows[row + 2];
    two[row].join(given.from<kAtOnce>(2));
  }
  const bool odd = lane % 2 != 0;
  Nearest own = odd ? two[1] : two[0];
  const Nearest given = odd ? two[0] : two[1];
  own.join(given.from(1));
  return own;
}

}  // namespace kmeans::cuda::onepass
