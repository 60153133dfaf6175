// SPDX-License-Identifier: Apache-2.0
//
// The stage between bytes and float32: points and centroids as rows of 16-bit integers times a step.
// A row takes half the memory of a float32 one, so a point that bytes leave open costs half as much to
// fetch; and a product of integers is exact, so measured residuals bound all that is lost, as for the
// bytes, 50 to 250 times as closely. The proof stands in docs/openmp.md, "Sixteen bits".
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// Of fewer coordinates a float32 row is two cache lines at most, and looked at as fast.
inline constexpr std::int64_t kInt16LeastCoordinates = 33;

/// A row is whole cache lines; what lies beyond d is 0.
inline constexpr std::int64_t kInt16Line = 32;
inline std::int64_t int16_stride(std::int64_t d) { return round_up(d, kInt16Line); }

/// How bounds are rounded. Tests take less, and expect that wrong labels or bounds are found.
struct Int16Rounding {
  double up = 1.000001;  ///< For sums in float64 and numbers that become float32.
  double residual = 1;   ///< Share of a residual that counts.
};

/// A step so large that a row's vector lies within 2^15: so do its integers, and a product of two rows
/// within 2^30.
inline double int16_step(double norm, std::int64_t d, double least) {
  return std::max(norm / (32760 - std::sqrt(static_cast<double>(d)) / 2), least) * 1.000001;
}

/// Of points and centroids whose coordinates, in the frame, are no longer than a few times `radius`.
inline double least_int16_step(double radius) { return radius * 0x1p-30; }

/// The integers of a row go to `out`; returns the distance of what they stand for from the coordinates.
inline double quantise_int16(const double* coordinates, std::int64_t d, double step,
                             std::int16_t* out) {
  const double inverse = 1 / step;
  double residual = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const double whole = std::nearbyint(coordinates[t] * inverse);
    const double rest = coordinates[t] - whole * step;
    residual += rest * rest;
    out[t] = static_cast<std::int16_t>(whole);
  }
  return std::sqrt(residual);
}

/// What a point's score takes beside its row w; a is its step, p the point.
struct Int16PointTerms {
  float rate = 0;      ///< 1 / a
  float residual = 0;  ///< |p - a w| / a, rounded up
};

inline void quantise_int16_point(const double* coordinates, std::int64_t d, double norm,
                                 double radius, std::int16_t* row, Int16PointTerms& terms,
                                 const Int16Rounding& rounding = {}) {
  terms.rate = static_cast<float>(1 / int16_step(norm, d, least_int16_step(radius)));
  const double step = 1 / static_cast<double>(terms.rate);  // as scores have it
  terms.residual = static_cast<float>(quantise_int16(coordinates, d, step, row) *
                                      rounding.residual / step * rounding.up);
}

/// And a centroid's; b is its step, v its row, z the centroid.
struct Int16CentroidTerms {
  double step = 0;
  double half = 0;    ///< |z|^2 / 2
  double margin = 0;  ///< 2^15 |z - b v|, rounded up
  double norm = 0;    ///< |z|, rounded up
};

inline void quantise_int16_centroid(const double* coordinates, std::int64_t d, double norm,
                                    double radius, std::int16_t* row, Int16CentroidTerms& terms,
                                    const Int16Rounding& rounding = {}) {
  terms.step = int16_step(norm, d, least_int16_step(radius));
  terms.half = norm * norm / 2;
  terms.margin =
      32768 * quantise_int16(coordinates, d, terms.step, row) * rounding.residual * rounding.up;
  terms.norm = norm * rounding.up;
}

/// Times a point's rate, what rounding in float64 may do to its scores, the reference's own included.
inline double int16_room(std::int64_t d, double radius) {
  return static_cast<double>(d + 16) * 0x1p-52 * 17 * radius * radius;
}

#if defined(__AVX512BW__)
using Int16Lanes = __m512i;
[[gnu::always_inline]] inline Int16Lanes load_int16(const std::int16_t* row) {
  return _mm512_load_si512(row);
}
[[gnu::always_inline]] inline void add_int16_products(Int16Lanes& sum, Int16Lanes a, Int16Lanes b) {
#if defined(__AVX512VNNI__)
  sum = _mm512_dpwssd_epi32(sum, a, b);
#else
  sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}
[[gnu::always_inline]] inline __m128i quarter_sums(const Int16Lanes& sum) {
  const __m256i half = _mm256_add_epi32(_mm512_maskz_extracti64x4_epi64(0xF, sum, 0),
                                        _mm512_maskz_extracti64x4_epi64(0xF, sum, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}
#elif defined(__AVX2__)
using Int16Lanes = __m256i;
[[gnu::always_inline]] inline Int16Lanes load_int16(const std::int16_t* row) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(row));
}
[[gnu::always_inline]] inline void add_int16_products(Int16Lanes& sum, Int16Lanes a, Int16Lanes b) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
[[gnu::always_inline]] inline __m128i quarter_sums(const Int16Lanes& sum) {
  return _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}
#endif

/// The products of a row with four rows, all of int16_stride() integers.
[[gnu::always_inline]] inline void int16_products(const std::int16_t* row,
                                                  const std::array<const std::int16_t*, 4>& others,
                                                  std::int64_t stride, std::int32_t* products) {
#if defined(__AVX512BW__) || defined(__AVX2__)
  constexpr std::int64_t kCount = sizeof(Int16Lanes) / 2;
  Int16Lanes a{};
  Int16Lanes b{};
  Int16Lanes c{};
  Int16Lanes e{};
  for (std::int64_t t = 0; t < stride; t += kCount) {
    const Int16Lanes x = load_int16(row + t);
    add_int16_products(a, x, load_int16(others[0] + t));
    add_int16_products(b, x, load_int16(others[1] + t));
    add_int16_products(c, x, load_int16(others[2] + t));
    add_int16_products(e, x, load_int16(others[3] + t));
  }
  const __m128i left = _mm_hadd_epi32(quarter_sums(a), quarter_sums(b));
  const __m128i right = _mm_hadd_epi32(quarter_sums(c), quarter_sums(e));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(products), _mm_hadd_epi32(left, right));
#else
  for (int c = 0; c < 4; ++c) {
    std::int32_t sum = 0;
    for (std::int64_t t = 0; t < stride; ++t) {
      sum += std::int32_t{row[t]} * std::int32_t{others[c][t]};
    }
    products[c] = sum;
  }
#endif
}

/// All centroids as rows, made anew in every iteration, a part by each thread.
class Int16Centroids {
 public:
  Int16Centroids() = default;
  Int16Centroids(std::int64_t k, std::int64_t d)
      : stride_(int16_stride(d)), values_(k * stride_), terms_(k) {
    std::fill_n(values_.data(), k * stride_, std::int16_t{0});
  }

  std::int64_t stride() const { return stride_; }
  std::int16_t* row(std::int64_t j) { return values_.data() + j * stride_; }
  const std::int16_t* row(std::int64_t j) const { return values_.data() + j * stride_; }
  Int16CentroidTerms& terms(std::int64_t j) { return terms_[j]; }
  const Int16CentroidTerms& terms(std::int64_t j) const { return terms_[j]; }

  static double bytes(double k, double d) { return k * (2 * (d + kInt16Line) + 32); }

 private:
  std::int64_t stride_ = 0;
  AlignedArray<std::int16_t> values_;
  std::vector<Int16CentroidTerms> terms_;
};

typedef double FourDoubles __attribute__((vector_size(32)));

/// Of four centroids, given the products of a point's row with theirs: the upper ends of their scores,
/// and each lane's highest lower end so far.
[[gnu::always_inline]] inline void take_int16_ends(
    const std::array<const Int16CentroidTerms*, 4>& of, const std::int32_t* products,
    const Int16PointTerms& point, double room, double* upper, FourDoubles& lower) {
  const double rate = point.rate;
  const double residual = point.residual;
  const FourDoubles product{static_cast<double>(products[0]), static_cast<double>(products[1]),
                            static_cast<double>(products[2]), static_cast<double>(products[3])};
  const FourDoubles step{of[0]->step, of[1]->step, of[2]->step, of[3]->step};
  const FourDoubles half{of[0]->half, of[1]->half, of[2]->half, of[3]->half};
  const FourDoubles own{of[0]->margin, of[1]->margin, of[2]->margin, of[3]->margin};
  const FourDoubles norm{of[0]->norm, of[1]->norm, of[2]->norm, of[3]->norm};
  const FourDoubles score = step * product - half * rate;
  const FourDoubles margin = own + norm * residual + room * rate;
  const FourDoubles low = score - margin;
  const FourDoubles up = score + margin;
  lower = low > lower ? low : lower;
  __builtin_memcpy(upper, &up, sizeof up);
}

/// Of `count` centroids (1 to 32) those that may be nearest to a point: `few`, with room for three more,
/// then begins with them. Returns their number. `room` is int16_room(). No branch by scores: which stay
/// cannot be guessed.
inline std::int32_t keep_of_few(const std::int16_t* row, const Int16PointTerms& point, double room,
                                const Int16Centroids& centroids, std::int32_t* few,
                                std::int32_t count) {
  constexpr std::int32_t kMax = 32;
  std::array<double, kMax> upper;
  FourDoubles lower = FourDoubles{} - std::numeric_limits<double>::infinity();
  for (std::int32_t index = 0; index < count; index += 4) {
    std::array<const std::int16_t*, 4> rows;
    std::array<const Int16CentroidTerms*, 4> terms;
    for (std::int32_t c = 0; c < 4; ++c) {  // the last one several times, to make four
      const std::int32_t j = few[std::min(index + c, count - 1)];
      rows[c] = centroids.row(j);
      terms[c] = &centroids.terms(j);
    }
    alignas(16) std::array<std::int32_t, 4> products;
    int16_products(row, rows, centroids.stride(), products.data());
    take_int16_ends(terms, products.data(), point, room, upper.data() + index, lower);
  }
  std::array<double, 4> lowers;
  __builtin_memcpy(lowers.data(), &lower, sizeof lower);
  const double highest = std::max(std::max(lowers[0], lowers[1]), std::max(lowers[2], lowers[3]));
  std::int32_t left = 0;
  for (std::int32_t index = 0; index < count; index += 4) {
    for (std::int32_t c = 0; c < 4; ++c) {
      few[left] = few[index + c];
      left += static_cast<int>(upper[index + c] >= highest) & static_cast<int>(index + c < count);
    }
  }
  return left;
}

}  // namespace kmeans::openmp
