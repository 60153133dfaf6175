// SPDX-License-Identifier: Apache-2.0
//
// Hopper's warp-group matrix instruction, bulk copies into shared memory and the barriers between
// them. Compiled for compute capability 9.0a alone.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace kmeans::cuda {

constexpr int kGroupWarps = 4;  // of a warp group

/// In a row of a core matrix, 16 bytes.
template <class Element>
constexpr int kCoreElements = static_cast<int>(16 / sizeof(Element));
constexpr int kCoreHalves = kCoreElements<__half>;

/// Where (row, column) of a K-major operand of `rows` rows stands: chunks of a core matrix's
/// columns, in them all rows.
template <class Element = __half>
__host__ __device__ int place_in_tile(int rows, int row, int column) {
  constexpr int kCore = kCoreElements<Element>;
  return column / kCore * rows * kCore + row * kCore + column % kCore;
}

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Of a K-major operand without swizzle: core matrices of 8 x 16 bytes are whole; neighbours along
/// rows lie 128 bytes apart, neighbours along columns `rows` rows.
__device__ inline std::uint64_t descriptor(const void* tile, int rows) {
  const std::uint64_t address = (shared_address(tile) & 0x3ffff) >> 4;
  const std::uint64_t leading = static_cast<std::uint64_t>(rows) * 16 >> 4;  // along columns
  const std::uint64_t stride = 128 >> 4;                                     // along rows
  return address | leading << 16 | stride << 32;
}

/// The descriptor of the operand `bytes` further on.
__device__ inline std::uint64_t further(std::uint64_t descriptor, unsigned bytes) {
  // Only the address grows, and it does not overflow into the next field.
  return (descriptor & ~std::uint64_t{0xffffffff}) |
         (static_cast<unsigned>(descriptor) + (bytes >> 4));
}

// A lane's sums of 64 rows x 128 columns as operands: as they stand in the instruction, and bound
// as floats (KIND f) or integers (r).
#define KMEANS_64_REGISTERS                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define KMEANS_64_SUMS(KIND)                                                                     \
  "+" KIND(sums[0]), "+" KIND(sums[1]), "+" KIND(sums[2]), "+" KIND(sums[3]), "+" KIND(sums[4]), \
      "+" KIND(sums[5]), "+" KIND(sums[6]), "+" KIND(sums[7]), "+" KIND(sums[8]),                \
      "+" KIND(sums[9]), "+" KIND(sums[10]), "+" KIND(sums[11]), "+" KIND(sums[12]),             \
      "+" KIND(sums[13]), "+" KIND(sums[14]), "+" KIND(sums[15]), "+" KIND(sums[16]),            \
      "+" KIND(sums[17]), "+" KIND(sums[18]), "+" KIND(sums[19]), "+" KIND(sums[20]),            \
      "+" KIND(sums[21]), "+" KIND(sums[22]), "+" KIND(sums[23]), "+" KIND(sums[24]),            \
      "+" KIND(sums[25]), "+" KIND(sums[26]), "+" KIND(sums[27]), "+" KIND(sums[28]),            \
      "+" KIND(sums[29]), "+" KIND(sums[30]), "+" KIND(sums[31]), "+" KIND(sums[32]),            \
      "+" KIND(sums[33]), "+" KIND(sums[34]), "+" KIND(sums[35]), "+" KIND(sums[36]),            \
      "+" KIND(sums[37]), "+" KIND(sums[38]), "+" KIND(sums[39]), "+" KIND(sums[40]),            \
      "+" KIND(sums[41]), "+" KIND(sums[42]), "+" KIND(sums[43]), "+" KIND(sums[44]),            \
      "+" KIND(sums[45]), "+" KIND(sums[46]), "+" KIND(sums[47]), "+" KIND(sums[48]),            \
      "+" KIND(sums[49]), "+" KIND(sums[50]), "+" KIND(sums[51]), "+" KIND(sums[52]),            \
      "+" KIND(sums[53]), "+" KIND(sums[54]), "+" KIND(sums[55]), "+" KIND(sums[56]),            \
      "+" KIND(sums[57]), "+" KIND(sums[58]), "+" KIND(sums[59]), "+" KIND(sums[60]),            \
      "+" KIND(sums[61]), "+" KIND(sums[62]), "+" KIND(sums[63])

/// sums (64 rows x 128, 64 or 16 columns over the warp group) += or = rows (64 x 16) times columns.
__device__ inline void multiply(float (&sums)[64], std::uint64_t rows, std::uint64_t columns,
                                bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " KMEANS_64_REGISTERS
      ", %64, %65, add, 1, 1, 0, 0;\n"
      "}\n"
      : KMEANS_64_SUMS("f")
      : "l"(rows), "l"(columns), "r"(add ? 1 : 0));
}
__device__ inline void multiply(float (&sums)[32], std::uint64_t rows, std::uint64_t columns,
                                bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),
        "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]),
        "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]),
        "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]),
        "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
      : "l"(rows), "l"(columns), "r"(add ? 1 : 0));
}
__device__ inline void multiply(float (&sums)[8], std::uint64_t rows, std::uint64_t columns,
                                bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]),
        "+f"(sums[6]), "+f"(sums[7])
      : "l"(rows), "l"(columns), "r"(add ? 1 : 0));
}

/// The same with the rows in registers: those of a warp as the first operand of mma.sync m16n8k16.
__device__ inline void multiply_rows(float (&sums)[64], const uint4& rows, std::uint64_t columns,
                                     bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " KMEANS_64_REGISTERS
      ", {%64, %65, %66, %67}, %68, add, 1, 1, 0;\n"
      "}\n"
      : KMEANS_64_SUMS("f")
      : "r"(rows.x), "r"(rows.y), "r"(rows.z), "r"(rows.w), "l"(columns), "r"(add ? 1 : 0));
}
/// Of bytes, exactly: rows (64 x 32) times columns.
__device__ inline void multiply(int (&sums)[64], std::uint64_t rows, std::uint64_t columns,
                                bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 " KMEANS_64_REGISTERS
      ", %64, %65, add;\n"
      "}\n"
      : KMEANS_64_SUMS("r")
      : "l"(rows), "l"(columns), "r"(add ? 1 : 0));
}
#undef KMEANS_64_REGISTERS
#undef KMEANS_64_SUMS

__device__ inline void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}
__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ inline void barrier_expect(std::uint64_t* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ inline void barrier_wait(std::uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ inline void copy_bulk(void* shared, const void* dev_from, unsigned bytes,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(dev_from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// 16 bytes, on their way until finish_pieces() of the same thread.
__device__ inline void copy_piece(void* shared, const void* dev_from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(dev_from)
               : "memory");
}
__device__ inline void finish_pieces() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// A place in a ring of shared memory, and the parity of the barrier's phase there.
struct Place {
  int index = 0;
  unsigned parity = 0;
  __device__ void advance(int size, int by = 1) {
    index += by;
    if (index >= size) index -= size, parity ^= 1;
  }
};

/// The ordering barrier of warp groups: each waits until the one before it calls order_arrive with
/// its number.
__device__ inline void order_wait(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}
__device__ inline void order_arrive(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(group + 1) : "memory");
}

/// Keeps the compiler from moving sums to other registers while products are under way.
template <int kSums>
__device__ inline void pin(float (&sums)[kSums]) {
#pragma unroll
  for (int e = 0; e < kSums; ++e) asm volatile("" : "+f"(sums[e])::"memory");
}
template <int kSums>
__device__ inline void pin(int (&sums)[kSums]) {
#pragma unroll
  for (int e = 0; e < kSums; ++e) asm volatile("" : "+r"(sums[e])::"memory");
}

}  // namespace kmeans::cuda
