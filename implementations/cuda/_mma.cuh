// SPDX-License-Identifier: Apache-2.0
//
// The warp-level matrix instruction mma.sync m16n8k16, from compute capability 8.0 on: float16
// products, float32 sums. Operands are stored as the lanes' fragments, one lane after another.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

constexpr int kMmaRows = 16;
constexpr int kMmaColumns = 8;
constexpr int kMmaDepth = 16;
constexpr int kPairRows = 2 * kMmaRows;  // a warp's rows: two products share a column operand

/// Bytes of the operand of a row block (16 x 16) and of a column block (8 x 16).
constexpr int kRowPiece = kLanes * 16;
constexpr int kColumnPiece = kLanes * 8;

/// The offset, in halves, of coordinate t of a row in a pair of row blocks: for each block and step
/// of the depth, lane by lane, the four registers of operand A.
__host__ __device__ inline int place_in_rows(int steps, int row, int t) {
  const int block = row / kMmaRows;
  const int lane = row % 8 * 4 + t % 8 / 2;
  const int part = row % kMmaRows / 8 + t % kMmaDepth / 8 * 2;  // register
  return (block * steps + t / kMmaDepth) * (kRowPiece / 2) + lane * 8 + part * 2 + t % 2;
}

/// The same for a column of a column block and operand B. Steps are stored in pairs, so that a lane
/// loads two with one instruction; an odd last step is stored alone.
__host__ __device__ inline int place_in_columns(int steps, int column, int t) {
  const int step = t / kMmaDepth;
  const int lane = column % kMmaColumns * 4 + t % 8 / 2;
  const int part = t % kMmaDepth / 8;
  const bool single = step == steps - 1 && steps % 2 != 0;
  const int lane_halves = single ? 4 : 8;
  return step / 2 * kColumnPiece + lane * lane_halves + (single ? 0 : step % 2 * 4) + part * 2 +
         t % 2;
}

/// Loads operand A from rows in shared memory: 16 bytes of rows 0 to 7, of rows 8 to 15, and the
/// next 16 bytes of both. `shared`: the address of the lane's 16 bytes.
__device__ inline uint4 load_pieces(const __half* shared) {
  uint4 pieces;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pieces.x), "=r"(pieces.y), "=r"(pieces.z), "=r"(pieces.w)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared)))
               : "memory");
  return pieces;
}

/// sums = before + rows times columns. Lane l holds rows l / 4 (the first two sums) and l / 4 + 8,
/// columns 2 (l % 4) and the next.
__device__ inline void multiply_add(float (&sums)[4], const uint4& rows, const uint2& columns,
                                    const float4& before) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w), "r"(columns.x), "r"(columns.y),
        "f"(before.x), "f"(before.y), "f"(before.z), "f"(before.w));
}

}  // namespace kmeans::cuda
