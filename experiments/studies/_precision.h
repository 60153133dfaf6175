// SPDX-License-Identifier: Apache-2.0
//
// The arithmetics that the study `precision` compares: how numbers are rounded, and how a squared
// distance is accumulated, coordinate by coordinate, t ascending. Compile with -ffp-contract=off:
// what is fused here says so.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kmeans::precision {

/// x rounded to `kKept` mantissa bits (of float32's 23), ties to even, with float32's exponents.
/// Beyond the largest number it becomes infinite; infinities stay, and NaN stays one.
template <int kKept>
inline float round_mantissa(float x) {
  constexpr int kDropped = 23 - kKept;
  constexpr std::uint32_t kHalf = std::uint32_t{1} << (kDropped - 1);
  constexpr std::uint32_t kMask = ~((std::uint32_t{1} << kDropped) - 1);
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t odd = (bits >> kDropped) & 1U;
  const std::uint32_t rounded = (bits + (kHalf - 1) + odd) & kMask;
  const bool finite = (bits & 0x7F800000U) != 0x7F800000U;
  return finite ? std::bit_cast<float>(rounded) : x;
}

/// TF32: 8 bits of exponent, 10 of mantissa.
inline float round_to_tf32(float x) { return round_mantissa<10>(x); }

/// bfloat16: 8 bits of exponent, 7 of mantissa.
inline float round_to_bf16(float x) { return round_mantissa<7>(x); }

/// IEEE half: 5 bits of exponent, 10 of mantissa; subnormal below 2^-14, infinite from 65520 on.
inline float round_to_f16(float x) {
  const float magnitude = std::abs(x);
  const float normal = round_mantissa<10>(x);
  // Adding 0.5, whose last bit is 2^-24, rounds a subnormal to a whole number of its units.
  const float subnormal = std::copysign((magnitude + 0.5F) - 0.5F, x);
  const float infinite = std::copysign(std::numeric_limits<float>::infinity(), x);
  const float inside = magnitude < 0x1p-14F ? subnormal : normal;
  return magnitude >= 65520.0F ? infinite : inside;
}

/// Denormals become zeros, as on GPUs of 2009.
inline float flush(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>(bits & ((bits & 0x7F800000U) != 0 ? 0xFFFFFFFFU : 0x80000000U));
}

/// x * x cut off after float32's 24 bits, towards zero; below the smallest normal number, zero. For
/// |x| below 2^63: beyond, the square is infinite.
inline float truncated_square(float x) {
  // What rounding to nearest took or added is the residual, exact by a fused multiply-add, except
  // that it may be too small to hold: so small x are scaled. Choices are made on bits, which
  // compilers vectorise; positive floats are ordered as their bits are.
  const bool small =
      (std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU) < std::bit_cast<std::uint32_t>(0x1p-30F);
  const float scaled = x * (small ? 0x1p60F : 1.0F);
  const float square = scaled * scaled;
  const auto residual = std::bit_cast<std::uint32_t>(std::fma(scaled, scaled, -square));
  const std::uint32_t cut = std::bit_cast<std::uint32_t>(square) - (residual >> 31);  // if negative
  const std::uint32_t least = small ? std::bit_cast<std::uint32_t>(0x1p-6F) : 0;  // 2^-126, scaled
  return std::bit_cast<float>(cut < least ? 0 : cut) * (small ? 0x1p-120F : 1.0F);
}

/// sum + x * x by the multiply-add of GPUs of compute capability 1.x: the product truncated, the
/// sum rounded to nearest. Source: NVIDIA CUDA Programming Guide 2.0, appendix A.2.
inline float madd_square_2009(float x, float sum) { return flush(truncated_square(x) + sum); }

// One arithmetic is a struct: Real is what sums and centroids are held in, `operand` what becomes
// of a coordinate before it is used, `add` one coordinate's contribution. With kExpanded the sum is
// x.c and the centroid's squared norm completes it; else the sum is the squared distance.

struct Float64 {
  using Real = double;
  static constexpr bool kExpanded = false;
  static double operand(float x) { return x; }
  static double add(double sum, double x, double c) {
    const double difference = x - c;
    const double product = difference * difference;
    return sum + product;
  }
};

struct Float32 {
  using Real = float;
  static constexpr bool kExpanded = false;
  static float operand(float x) { return x; }
  static float add(float sum, float x, float c) {
    const float difference = x - c;
    const float product = difference * difference;
    return sum + product;
  }
};

struct Float32Fused : Float32 {
  static float add(float sum, float x, float c) {
    const float difference = x - c;
    return std::fma(difference, difference, sum);
  }
};

struct Float32Madd2009 : Float32 {
  static float add(float sum, float x, float c) {
    const float difference = flush(x - c);
    return madd_square_2009(difference, sum);
  }
};

struct Float64Expanded {
  using Real = double;
  static constexpr bool kExpanded = true;
  static double operand(float x) { return x; }
  static double add(double sum, double x, double c) { return std::fma(x, c, sum); }
};

struct Float32Expanded {
  using Real = float;
  static constexpr bool kExpanded = true;
  static float operand(float x) { return x; }
  static float add(float sum, float x, float c) { return std::fma(x, c, sum); }
};

// Products of rounded operands are exact in float32, so each step rounds once, the sum.
struct Tf32 : Float32Expanded {
  static float operand(float x) { return round_to_tf32(x); }
};

struct Bf16 : Float32Expanded {
  static float operand(float x) { return round_to_bf16(x); }
};

// Points and centroids come scaled by a power of two (see precision.cpp). A centroid far outside
// the points must not become infinite, so operands stop at the largest half.
struct F16 : Float32Expanded {
  static float operand(float x) {
    const float held = x > 65504.0F ? 65504.0F : (x < -65504.0F ? -65504.0F : x);
    return round_to_f16(held);
  }
};

}  // namespace kmeans::precision
