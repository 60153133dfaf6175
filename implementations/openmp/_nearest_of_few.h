// SPDX-License-Identifier: Apache-2.0
//
// The nearest of a few centroids by float32 differences, where those are sure of it. Differences
// lose no digits to the distance from the origin: the error is relative to the distance itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// Has memory send some of the rows of d coordinates, which will be asked for soon. Inline, since GCC
/// drops the call of a function that does nothing else.
[[gnu::always_inline]] inline void fetch_rows(const float* rows, std::int64_t d,
                                              const std::int32_t* some, std::int32_t count) {
  constexpr std::int64_t kLine = 64 / sizeof(float);
  constexpr std::int64_t kMaxLines = 32;  // the processor itself follows a longer row
  for (std::int32_t index = 0; index < count; ++index) {
    const float* row = rows + some[index] * d;
    for (std::int64_t t = 0; t < std::min(d, kMaxLines * kLine); t += kLine) {
      __builtin_prefetch(row + t, 0, 2);
    }
  }
}

/// The sum of a register's lanes.
[[gnu::always_inline]] inline float sum_of_lanes(Lanes<float>::V v) {
#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#if defined(__AVX512F__)
  const __m256 eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  const __m256 eight = v;
#endif
  const __m128 four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) +
                      __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[1]) + (four[2] + four[3]);
#else
  float sum = 0;
  for (int lane = 0; lane < Lanes<float>::kCount; ++lane) sum += v[lane];
  return sum;
#endif
}

/// The squared distance in float32, coordinates in any order.
inline float float32_distance(const float* point, const float* centroid, std::int64_t d) {
  using L = Lanes<float>;
  constexpr std::int64_t kCount = L::kCount;
  auto sums = L::set(0);
  auto others = L::set(0);
  std::int64_t t = 0;
  for (; t + 2 * kCount <= d; t += 2 * kCount) {
    const auto x = L::load(point + t) - L::load(centroid + t);
    const auto y = L::load(point + t + kCount) - L::load(centroid + t + kCount);
    sums = L::fma(x, x, sums);
    others = L::fma(y, y, others);
  }
  if (t + kCount <= d) {
    const auto x = L::load(point + t) - L::load(centroid + t);
    sums = L::fma(x, x, sums);
    t += L::kCount;
  }
#if defined(__AVX512F__)
  if (t < d) {
    const auto valid = static_cast<__mmask16>((1U << (d - t)) - 1);
    const auto x =
        _mm512_maskz_loadu_ps(valid, point + t) - _mm512_maskz_loadu_ps(valid, centroid + t);
    others = L::fma(x, x, others);
    t = d;
  }
#endif
  float sum = sum_of_lanes(sums + others);
  for (; t < d; ++t) sum += (point[t] - centroid[t]) * (point[t] - centroid[t]);
  return sum;
}

/// Of centroids k x d those at `few` (count of them, at least 1): the index of the nearest by the
/// float64 formula of the exact step, or -1 where float32 does not tell (docs/openmp.md). Tests give
/// a smaller share of the bound, and expect that wrong answers are found.
inline std::int32_t nearest_of_few(const float* point, const float* centroids, std::int64_t d,
                                   const std::int32_t* few, std::int32_t count, double share = 1) {
  // No branch: which of two is nearer cannot be guessed.
  float lowest = std::numeric_limits<float>::infinity();
  float second = lowest;
  std::int32_t nearest = -1;
  for (std::int32_t index = 0; index < count; ++index) {
    const float distance = float32_distance(point, centroids + few[index] * d, d);
    second = std::min(second, std::max(lowest, distance));
    nearest = distance < lowest ? few[index] : nearest;
    lowest = std::min(lowest, distance);
  }
  if (count == 1) return few[0];
  const double operations = static_cast<double>(d + 8) * 0x1p-24;
  const double underflow = static_cast<double>(d + 2) * 0x1p-122;
  if (operations > 0.25) return -1;
  const double relative = share * 2.01 * operations / (1 - operations);
  const double first = lowest;
  const bool sure = second - first > relative * (second + first) + share * underflow;
  return sure ? nearest : -1;
}

}  // namespace kmeans::openmp
