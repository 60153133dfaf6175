// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the exact Lloyd step (docs/exact-step.md), shared by its implementations.
// Header-only and free of state. Every translation unit that includes it is compiled with
// -ffp-contract=off: a fused multiply-add would change the answer.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace kmeans::exact {

/// Squared distance of point and centroid in float64: t ascending, each difference, product and
/// sum rounded on its own.
template <class T, class U>
inline double squared_distance(const T* point, const U* centroid, std::int64_t d) {
  double sum = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const double difference = static_cast<double>(point[t]) - static_cast<double>(centroid[t]);
    const double product = difference * difference;
    sum = sum + product;
  }
  return sum;
}

/// s: the largest integer with n * max_abs * 2^s <= 2^62, or 0 when max_abs is 0. So every
/// cluster's scaled integer sum fits in 63 bits. n in [1, 2^62], max_abs finite.
inline int sum_exponent(std::int64_t n, float max_abs) {
  if (max_abs == 0) return 0;
  // max_abs = mantissa * 2^exponent with a 24-bit integer mantissa; n * mantissa < 2^87 is exact.
  int exponent = 0;
  const float fraction = std::frexp(max_abs, &exponent);  // in [0.5, 1)
  auto product =
      static_cast<unsigned __int128>(std::ldexp(fraction, 24)) * static_cast<unsigned __int128>(n);
  exponent -= 24;
  // n * max_abs = product * 2^exponent. The smallest e with product <= 2^e is the bit width of
  // product - 1; then n * max_abs <= 2^(e + exponent), and s = 62 - e - exponent.
  product -= 1;
  const auto high = static_cast<std::uint64_t>(product >> 64);
  const auto low = static_cast<std::uint64_t>(product);
  const int width = high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
  return 62 - width - exponent;
}

/// 2^exponent in float64, exact for every exponent that sum_exponent returns (|exponent| < 300).
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

/// A coordinate as fixed point: coordinate * 2^s rounded to the nearest integer, ties to even.
/// `scale` is power_of_two(s). The product is exact; |result| <= 2^62 / n.
inline std::int64_t to_fixed_point(float coordinate, double scale) {
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(coordinate) * scale));
}

/// New centroid coordinate of a cluster of `count` >= 1 points, or of weights that add up to it.
/// `sum` is an integer rounded to float64; `inverse_scale` is power_of_two(-s).
inline float mean_of(double sum, std::int64_t count, double inverse_scale) {
  const double mean = sum / static_cast<double>(count);
  return static_cast<float>(mean * inverse_scale);
}
inline float mean_of(std::int64_t sum, std::int64_t count, double inverse_scale) {
  return mean_of(static_cast<double>(sum), count, inverse_scale);
}

// ---- by cosine: rows and centroids of length one

/// Sum of the squares of values(0) to values(d - 1): t ascending, each product and sum rounded on its own.
template <class Values>
inline double sum_of_squares(const Values& values, std::int64_t d) {
  double squares = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const double value = values(t);
    const double product = value * value;
    squares = squares + product;
  }
  return squares;
}

/// values(0) to values(d - 1) scaled to length one and rounded to float32. Of zeros there is no direction:
/// `unit` stays as it is.
template <class Values>
inline void direction_of(const Values& values, std::int64_t d, float* unit) {
  const double squares = sum_of_squares(values, d);
  if (squares == 0) return;
  const double length = std::sqrt(squares);
  for (std::int64_t t = 0; t < d; ++t) unit[t] = static_cast<float>(values(t) / length);
}

/// Of length one up to float32's rounding, or of zeros: such a row stays as it is, so scaling twice is
/// scaling once.
inline bool is_unit_or_zero(const float* row, std::int64_t d) {
  const double squares = sum_of_squares([row](std::int64_t t) { return 1.0 * row[t]; }, d);
  return squares == 0 || std::abs(squares - 1) <= 0x1p-22;
}

/// A row scaled to length one; `unit` may be the row itself.
inline void unit_row(const float* row, std::int64_t d, float* unit) {
  if (!is_unit_or_zero(row, d)) {
    direction_of([row](std::int64_t t) { return 1.0 * row[t]; }, d, unit);
  } else if (unit != row) {
    for (std::int64_t t = 0; t < d; ++t) unit[t] = row[t];
  }
}

}  // namespace kmeans::exact
