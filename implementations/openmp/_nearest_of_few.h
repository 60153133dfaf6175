// SPDX-License-Identifier: Apache-2.0
//
// The nearest of a few centroids by float32 differences, where those are sure of it. Differences
// lose no digits to the distance from the origin: the error is relative to the distance itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "harness/exact_step.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

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

/// The squared distances of a point from kMany centroids in float32, coordinates in any order.
template <int kMany>
[[gnu::always_inline]] inline void float32_distances(
    const float* point, const std::array<const float*, kMany>& centroids, std::int64_t d,
    std::array<float, kMany>& distances) {
  using L = Lanes<float>;
  constexpr std::int64_t kCount = L::kCount;
  L::V sums[kMany];
  L::V others[kMany];
  unrolled<kMany>([&](auto c) __attribute__((always_inline)) { sums[c] = others[c] = L::set(0); });
  std::int64_t t = 0;
  for (; t + 2 * kCount <= d; t += 2 * kCount) {
    const auto x = L::load(point + t);
    const auto y = L::load(point + t + kCount);
    unrolled<kMany>([&](auto c) __attribute__((always_inline)) {
      const auto first = x - L::load(centroids[c] + t);
      const auto second = y - L::load(centroids[c] + t + kCount);
      sums[c] = L::fma(first, first, sums[c]);
      others[c] = L::fma(second, second, others[c]);
    });
  }
  if (t + kCount <= d) {
    const auto x = L::load(point + t);
    unrolled<kMany>([&](auto c) __attribute__((always_inline)) {
      const auto difference = x - L::load(centroids[c] + t);
      sums[c] = L::fma(difference, difference, sums[c]);
    });
    t += kCount;
  }
#if defined(__AVX512F__)
  if (t < d) {
    const auto valid = static_cast<__mmask16>((1U << (d - t)) - 1);
    const auto x = _mm512_maskz_loadu_ps(valid, point + t);
    unrolled<kMany>([&](auto c) __attribute__((always_inline)) {
      const auto difference = x - _mm512_maskz_loadu_ps(valid, centroids[c] + t);
      others[c] = L::fma(difference, difference, others[c]);
    });
    t = d;
  }
#endif
  unrolled<kMany>([&](auto c) __attribute__((always_inline)) {
    distances[c] = sum_of_lanes(sums[c] + others[c]);
    for (std::int64_t rest = t; rest < d; ++rest) {
      distances[c] += (point[rest] - centroids[c][rest]) * (point[rest] - centroids[c][rest]);
    }
  });
}

/// How many roundings a coordinate's share of float32_distances() passes at most, the reference's
/// counted as one: its square's three, those of the lane's sum, and of the sum over the lanes.
inline std::int64_t float32_roundings(std::int64_t d) {
  constexpr std::int64_t kCount = Lanes<float>::kCount;
#if defined(__AVX512F__)
  return d / (2 * kCount) + 12;
#else
  return d / (2 * kCount) + 2 * kCount + 8;  // lanes, and what fills no register, one by one
#endif
}

/// Of centroids k x d those at `few` (count of them, at least 1): the index of the nearest by the
/// float64 formula of the exact step, or -1 where float32 does not decide (docs/openmp-bounds.md). Tests give
/// a smaller share of the bound, and expect that wrong answers are found.
inline std::int32_t nearest_of_few(const float* point, const float* centroids, std::int64_t d,
                                   const std::int32_t* few, std::int32_t count, double share = 1) {
  if (count == 1) return few[0];
  float lowest = std::numeric_limits<float>::infinity();
  float second = lowest;
  std::int32_t nearest = -1;
  // No branch: which of two is nearer cannot be guessed.
  const auto take = [&](std::int32_t index, float distance) {
    second = std::min(second, std::max(lowest, distance));
    nearest = distance < lowest ? few[index] : nearest;
    lowest = std::min(lowest, distance);
  };
  std::int32_t index = 0;
  for (; index + 2 <= count; index += 2) {
    std::array<float, 2> distances;
    float32_distances<2>(point, {centroids + few[index] * d, centroids + few[index + 1] * d}, d,
                         distances);
    take(index, distances[0]);
    take(index + 1, distances[1]);
  }
  if (index < count) {
    std::array<float, 1> distance;
    float32_distances<1>(point, {centroids + few[index] * d}, d, distance);
    take(index, distance[0]);
  }
  const double operations = static_cast<double>(float32_roundings(d)) * 0x1p-24;
  const double underflow = static_cast<double>(d + 2) * 0x1p-122;
  if (operations > 0.25) return -1;
  const double relative = share * 2.01 * operations / (1 - operations);
  const double first = lowest;
  const bool sure = second - first > relative * (second + first) + share * underflow;
  return sure ? nearest : -1;
}

/// The same, always: by the formula itself; the lowest index where several are nearest. Include only
/// where -ffp-contract=off.
inline std::int32_t float64_nearest_of_few(const float* point, const float* centroids,
                                           std::int64_t d, const std::int32_t* few,
                                           std::int32_t count) {
  double lowest = std::numeric_limits<double>::infinity();
  std::int32_t nearest = std::numeric_limits<std::int32_t>::max();
  for (std::int32_t index = 0; index < count; ++index) {
    const double distance = exact::squared_distance(point, centroids + few[index] * d, d);
    if (distance < lowest || (distance == lowest && few[index] < nearest)) nearest = few[index];
    lowest = std::min(lowest, distance);
  }
  return nearest;
}

}  // namespace kmeans::openmp
