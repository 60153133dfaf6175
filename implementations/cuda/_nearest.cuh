// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroid of a row by bounds that a matrix instruction leaves in the lanes' registers:
// first the least, a minimum an element, then how many are within the bound above it, two fused
// multiply-adds an element that also say which. An element costs one operation of the units that
// take minima, not three.
#pragma once

#include <cmath>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

/// What one centroid counts; its index, which is less, is added.
inline constexpr float kOne = 0x1p22F;
/// Two different numbers that are compared here differ by more than 2^-80 (docs/gpu-bounds.md).
inline constexpr float kLarge = 0x1p80F;

/// What is known of the nearest of some centroids: its squared distance, halved and less something
/// that all have in common, is below `upper`, and those of all are above `lower`. `found`: kOne and
/// its index for each that may be the nearest; `most`: the largest share of it that came at once.
struct Nearest {
  float upper = INFINITY;
  float lower = INFINITY;
  float found = 0;
  float most = 0;

  /// More centroids are looked at, one of which is within these bounds and none below.
  __device__ void look(float least, float its_upper) {
    if (its_upper < lower) found = most = 0;  // none of those before may be the nearest any more
    upper = fminf(upper, its_upper);
    lower = fminf(lower, least);
  }
  /// Of these so much was counted; `offset`: what their indices lack.
  __device__ void add(float counted, float offset) {
    if (counted == 0) return;
    found += counted + offset;
    most = fmaxf(most, counted + offset);
  }
  /// The same where nothing was counted before.
  __device__ void add_first(float counted, float offset) {
    found = most = counted == 0 ? 0.0F : counted + offset;
  }
  /// The centroids of another lane are looked at, too.
  __device__ void join(const Nearest& other) {
    upper = fminf(upper, other.upper);
    const bool own_may = lower <= upper;
    const bool other_may = other.lower <= upper;
    found = (own_may ? found : 0.0F) + (other_may ? other.found : 0.0F);
    most = fmaxf(own_may ? most : 0.0F, other_may ? other.most : 0.0F);
    lower = fminf(lower, other.lower);
  }
  /// Of the lane that is so far. kAtOnce: all that it found came at once.
  template <bool kAtOnce = false>
  [[nodiscard]] __device__ Nearest from(int distance) const {
    Nearest other{.upper = __shfl_xor_sync(kAllLanes, upper, distance),
                  .lower = __shfl_xor_sync(kAllLanes, lower, distance),
                  .found = __shfl_xor_sync(kAllLanes, found, distance)};
    other.most = kAtOnce ? other.found : __shfl_xor_sync(kAllLanes, most, distance);
    return other;
  }
  /// There is but one, index().
  [[nodiscard]] __device__ bool decided() const { return found >= kOne && found < 2 * kOne; }
  [[nodiscard]] __device__ int index() const { return static_cast<int>(found - kOne); }
  /// There are two, and it is known which: not so if they came at once.
  [[nodiscard]] __device__ bool is_pair() const {
    return found >= 2 * kOne && found < 3 * kOne && most < 2 * kOne;
  }
  [[nodiscard]] __device__ int2 pair() const {
    const int one = static_cast<int>(most - kOne);
    const int other = static_cast<int>(found - most - kOne);
    return {min(one, other), max(one, other)};
  }
};

/// The least of numbers that are not negative: their bits order as integers do, of which one
/// instruction compares three. Begins with none.
struct Least {
  int bits = 0x7f800000;
  __device__ void look(float one, float other) {
    bits = __vimin3_s32(bits, __float_as_int(one), __float_as_int(other));
  }
  [[nodiscard]] __device__ float value() const { return __int_as_float(bits); }
};

inline constexpr int kBlockSums = 8;  // of a lane's and a row's, whose least is looked at first

__device__ inline int order_of(int number) { return number; }
/// Of a number that is not negative.
__device__ inline int order_of(float number) { return __float_as_int(number); }

/// The least of each block of a row's sums, of those that a matrix instruction leaves in a lane, by
/// their order.
template <class Sum, int kSums>
__device__ __forceinline__ void least_of_blocks(int (&least)[kSums / 2 / kBlockSums],
                                                const Sum (&sums)[kSums], int row) {
#pragma unroll
  for (int b = 0; b < kSums / 2 / kBlockSums; ++b) {
    const auto own = [&](int e) { return order_of(sums[b * 2 * kBlockSums + 2 * row + e]); };
    const int some = __vimin3_s32(own(0), own(1), own(4));
    const int more = __vimin3_s32(own(5), own(8), own(9));
    least[b] = min(__vimin3_s32(some, more, own(12)), own(13));
  }
}
__device__ inline int least_of(const int (&blocks)[4]) {
  return min(__vimin3_s32(blocks[0], blocks[1], blocks[2]), blocks[3]);
}

inline constexpr int kIndexBits = 5;  // of a key: which of a lane's numbers
/// What a key is off by, as a share; two bits more for what is made of it.
inline constexpr float kKeyError = 0x1p-16F;

inline constexpr unsigned kKeyMask = ~((1U << kIndexBits) - 1);

/// A number with its index, below 32, in its last bits. `mask`: kKeyMask, in a register of which
/// the compiler does not know that; else it would stand in the instruction, and each index would
/// have to be brought into a register.
__device__ inline float key_of(float number, int index, unsigned mask) {
  return __uint_as_float((__float_as_uint(number) & mask) | static_cast<unsigned>(index));
}
__device__ inline int column_of(float key) {
  return static_cast<int>(__float_as_uint(key) & ((1U << kIndexBits) - 1));
}

/// counted + number if value < limit; the limit is given times kLarge. The product of their
/// difference is cut to [0, 1], and it is either.
__device__ inline float count_below(float value, float large_limit, float number, float counted) {
  float below;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(below) : "f"(value), "f"(-kLarge), "f"(large_limit));
  return __fmaf_rn(below, number, counted);
}

}  // namespace kmeans::cuda
