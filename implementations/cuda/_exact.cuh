// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the exact Lloyd step (docs/exact-step.md) on the device. The intrinsics keep
// the compiler from fusing what must be rounded on its own.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/exact_step.h"
#include "harness/machine/cuda/device.cuh"

namespace kmeans::cuda {

using Integer = unsigned long long;  // two's complement: unsigned addition is signed addition

constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xffffffff;

/// One term of a squared distance added to those before it.
__device__ inline double add_exact_square(double sum, double x, double c) {
  const double difference = __dsub_rn(x, c);
  return __dadd_rn(sum, __dmul_rn(difference, difference));
}

/// A coordinate as fixed point: to the nearest integer, ties to even.
__device__ inline long long exact_fixed_point(float x, double scale) {
  return __double2ll_rn(__dmul_rn(x, scale));
}

/// The same by integer operations and one addition, without conversions, of which there are few units:
/// where the results are below 2^51, and `exponent`, of the scale, is so small that what is denormal
/// becomes 0.
__device__ inline long long quick_fixed_point(float x, int exponent) {
  constexpr double kMagic = 0x1.8p52;  // in whose neighbourhood the last bit of a float64 is 1
  const unsigned bits = __float_as_uint(x);
  const unsigned magnitude = bits & 0x7fffffff;
  const unsigned high = (magnitude >> 3) + (static_cast<unsigned>(896 + exponent) << 20);
  const bool normal = magnitude >= 0x00800000;
  const double scaled = __hiloint2double(static_cast<int>(normal ? high | (bits & 0x80000000) : 0U),
                                         static_cast<int>(normal ? bits << 29 : 0U));
  return __double_as_longlong(__dadd_rn(scaled, kMagic)) - __double_as_longlong(kMagic);
}
/// May it, for n points? The results are 2^62 / n at most; denormals are below 2^-126.
inline bool quick_fixed_point_is_right(std::int64_t n, int exponent) {
  return n > 4096 && exponent < 124;
}

/// Centroid coordinate of a cluster of `count` > 0 points.
__device__ inline float exact_mean(long long sum, long long count, double inverse_scale) {
  const double mean = __ddiv_rn(__ll2double_rn(sum), __ll2double_rn(count));
  return __double2float_rn(__dmul_rn(mean, inverse_scale));
}

/// By a whole warp: kmeans::exact::sum_of_squares() of values(0) to values(d - 1).
template <class Values>
__device__ inline double exact_sum_of_squares(const Values& values, std::int64_t d) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  double squares = 0;
  for (std::int64_t begin = 0; begin < d; begin += kLanes) {
    const double own = begin + lane < d ? values(begin + lane) : 0;
    const double product = __dmul_rn(own, own);
    for (int e = 0; e < kLanes; ++e) {  // those beyond d add 0
      squares = __dadd_rn(squares, __shfl_sync(kAllLanes, product, e));
    }
  }
  return squares;
}

/// By a whole warp: the direction of d sums, total(t), as kmeans::exact::direction_of() forms it. Of zeros `unit` stays
/// as it is.
template <class Total>
__device__ inline void exact_direction(const Total& total, std::int64_t d, float* unit) {
  const double squares = exact_sum_of_squares(total, d);
  if (squares == 0) return;
  const double length = __dsqrt_rn(squares);
  for (std::int64_t t = static_cast<int>(threadIdx.x) % kLanes; t < d; t += kLanes) {
    unit[t] = __double2float_rn(__ddiv_rn(total(t), length));
  }
}

/// Distances q formed in float32 as sums of squared differences over d coordinates order two
/// centroids as float64 does if the larger q exceeds `best * filter_factor(d) + kFilterTiny`. A
/// difference is off by one rounding, which its square counts twice; products and sums are fused,
/// one rounding a coordinate: q lies within (1 +- gamma_{d+2}) of the true distance, plus
/// d * 2^-149 where products underflow. Twice that, the float64 yardstick's own error, and the
/// roundings of this comparison, are within (2d + 12) units roundoff, and of some thousand coordinates
/// the square of gamma counts as well. Beyond kMaxFiltered nothing is decided. Overflow compares
/// infinite with infinite, which is not larger.
inline constexpr std::int64_t kMaxFiltered = 1 << 20;
__host__ __device__ constexpr float filter_factor(std::int64_t d) {
  if (d > kMaxFiltered) return INFINITY;
  return 1.0F + static_cast<float>(d + 6 + ((d + 2) * (d + 2) >> 22)) * 0x1p-23F;
}
inline constexpr float kFilterTiny = 0x1p-140F;  // above 3 d * 2^-149 for every d <= 128

}  // namespace kmeans::cuda
