// SPDX-License-Identifier: Apache-2.0
//
// The stage between bytes and float32: points and centroids as rows of 16-bit integers times a step.
// A row takes half the memory of a float32 one, so a point that bytes leave open costs half as much to
// fetch; and a product of integers is exact, so measured residuals bound all that is lost, as for the
// bytes, 50 to 250 times as closely. The proof stands in docs/openmp-bounds.md, "Sixteen bits".
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_int8_layout.h"
#include "implementations/openmp/_int8_quantise.h"
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
  EightDoubles residual;
  for (std::int64_t t = 0; t < d; t += 8) {
    const auto x = EightDoubles::load(coordinates + t, d - t);
    const EightDoubles whole = (x * inverse).rounded();
    residual.add_squares(x - whole * step);
    std::int16_t eight[8];
    whole.put(eight);
    std::memcpy(out + t, eight, static_cast<std::size_t>(std::min<std::int64_t>(8, d - t)) * 2);
  }
  return std::sqrt(residual.sum());
}

/// What a point's score takes besides its row w; a is its step, p the point.
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

/// The products of a row with two rows, and of another with two, all of int16_stride() integers.
[[gnu::always_inline]] inline void int16_products(const std::array<const std::int16_t*, 2>& rows,
                                                  const std::array<const std::int16_t*, 4>& others,
                                                  std::int64_t stride, std::int32_t* products) {
#if defined(__AVX512BW__) || defined(__AVX2__)
  constexpr std::int64_t kCount = sizeof(Int16Lanes) / 2;
  Int16Lanes a{};
  Int16Lanes b{};
  Int16Lanes c{};
  Int16Lanes e{};
  for (std::int64_t t = 0; t < stride; t += kCount) {
    const Int16Lanes x = load_int16(rows[0] + t);
    const Int16Lanes y = load_int16(rows[1] + t);
    add_int16_products(a, x, load_int16(others[0] + t));
    add_int16_products(b, x, load_int16(others[1] + t));
    add_int16_products(c, y, load_int16(others[2] + t));
    add_int16_products(e, y, load_int16(others[3] + t));
  }
  const __m128i left = _mm_hadd_epi32(quarter_sums(a), quarter_sums(b));
  const __m128i right = _mm_hadd_epi32(quarter_sums(c), quarter_sums(e));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(products), _mm_hadd_epi32(left, right));
#else
  for (int c = 0; c < 4; ++c) {
    std::int32_t sum = 0;
    for (std::int64_t t = 0; t < stride; ++t) {
      sum += std::int32_t{rows[c / 2][t]} * std::int32_t{others[c][t]};
    }
    products[c] = sum;
  }
#endif
}

/// All centroids as rows, rebuilt in every iteration, a part by each thread.
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

#if defined(__AVX512F__) && defined(__AVX512VL__)
#define KMEANS_INT16_KEEPS_EIGHT
/// Of `count` centroids those whose upper end reaches the highest lower end go to `kept`, which has room for
/// eight more. Returns their number. Seldom more than eight, so the loops' ends can be guessed.
[[gnu::always_inline]] inline std::int32_t keep_highest(const double* upper, const double* lower,
                                                        const std::int32_t* centroids,
                                                        std::int32_t count, std::int32_t* kept) {
  const auto valid = [&](std::int32_t first) __attribute__((always_inline)) {
    return static_cast<__mmask8>(count - first >= 8 ? 0xFF : (1 << (count - first)) - 1);
  };
  __m512d all = _mm512_set1_pd(-std::numeric_limits<double>::infinity());
  for (std::int32_t first = 0; first < count; first += 8) {
    const __mmask8 mask = valid(first);
    all = _mm512_mask_max_pd(all, mask, all, _mm512_maskz_loadu_pd(mask, lower + first));
  }
  const __m256d four = _mm256_max_pd(_mm512_maskz_extractf64x4_pd(0xF, all, 0),
                                     _mm512_maskz_extractf64x4_pd(0xF, all, 1));
  const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  const __m512d highest =
      _mm512_maskz_broadcastsd_pd(0xFF, _mm_max_pd(two, _mm_permute_pd(two, 1)));
  std::int32_t stay = 0;
  for (std::int32_t first = 0; first < count; first += 8) {
    const __mmask8 mask = valid(first);
    const __mmask8 reach = _mm512_mask_cmp_pd_mask(mask, _mm512_maskz_loadu_pd(mask, upper + first),
                                                   highest, _CMP_GE_OQ);
    const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(centroids + first));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(kept + stay),
                        _mm256_maskz_compress_epi32(reach, eight));
    stay += __builtin_popcount(reach);
  }
  return stay;
}
#endif

typedef double FourDoubles __attribute__((vector_size(32)));

/// Two points and two centroids of each, given the products of their rows: the upper and lower ends of
/// the scores.
[[gnu::always_inline]] inline void take_int16_ends(
    const std::array<const Int16PointTerms*, 2>& points,
    const std::array<const Int16CentroidTerms*, 4>& of, const std::int32_t* products, double room,
    double* upper, double* lower) {
  const double left = points[0]->rate;
  const double right = points[1]->rate;
  const double left_residual = points[0]->residual;
  const double right_residual = points[1]->residual;
  const FourDoubles rate{left, left, right, right};
  const FourDoubles residual{left_residual, left_residual, right_residual, right_residual};
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
  __builtin_memcpy(lower, &low, sizeof low);
  __builtin_memcpy(upper, &up, sizeof up);
}

/// Points of a block, each with the few centroids that bytes left of it, all in one list: point by point
/// there would be loops of two or three turns, whose ends cannot be guessed. An entry is a point and two
/// centroids; the last of an odd number stands there twice.
class Int16List {
 public:
  /// `rows` and `terms` of the block's points.
  void begin(const std::int16_t* rows, const Int16PointTerms* terms) {
    rows_ = rows;
    terms_ = terms;
    entries_ = 0;
    listed_ = 0;
  }

  /// `few` begins with the `count` centroids (1 to kInt8Few) of point p.
  void add(std::int32_t p, const std::int32_t* few, std::int32_t count) {
    for (std::int64_t index = 0; index < count; index += kInt8Group) {
      std::copy_n(few + index, kInt8Group, centroids_.data() + 2 * entries_ + index);
      std::fill_n(points_.data() + entries_ + index / 2, kInt8Group / 2, p);
    }
    centroids_[2 * entries_ + count] = few[count - 1];
    places_[listed_++] = {p, static_cast<std::int32_t>(2 * entries_), count};
    entries_ += (count + 1) / 2;
  }

  /// Of each listed point's centroids those that may be nearest to it: few[p] then begins with them, and
  /// counts[p] is their number. `room` is int16_room(). No branch by scores: which stay cannot be guessed.
  void keep(double room, const Int16Centroids& centroids,
            std::int32_t (*few)[kInt8Few + kInt8Group], std::int32_t* counts) {
    if (entries_ == 0) return;
    // The last one twice, to make two.
    points_[entries_] = points_[entries_ - 1];
    for (std::int64_t c = 0; c < 2; ++c) {
      centroids_[2 * entries_ + c] = centroids_[2 * entries_ - 2 + c];
    }
    multiply(centroids);
    take_ends(room, centroids);
    take_highest(few, counts);
  }

 private:
  /// A listed point's centroids, in the order of the entries.
  struct Place {
    std::int32_t point;
    std::int32_t at;
    std::int32_t count;
  };

#if defined(KMEANS_INT16_KEEPS_EIGHT)
  void take_highest(std::int32_t (*few)[kInt8Few + kInt8Group], std::int32_t* counts) const {
    for (std::int64_t index = 0; index < listed_; ++index) {
      const auto [p, at, count] = places_[index];
      counts[p] = keep_highest(upper_.data() + at, lower_.data() + at, centroids_.data() + at,
                               count, few[p]);
    }
  }
#else
  static double higher(double a, double b) { return a > b ? a : b; }  // std::max() becomes a branch

  void take_highest(std::int32_t (*few)[kInt8Few + kInt8Group], std::int32_t* counts) const {
    std::array<double, kInt8Points> highest;
    for (std::int64_t index = 0; index < listed_; ++index) {
      const std::int32_t p = places_[index].point;
      highest[p] = -std::numeric_limits<double>::infinity();
      counts[p] = 0;
    }
    for (std::int64_t entry = 0; entry < entries_; ++entry) {
      const std::int32_t p = points_[entry];
      highest[p] = higher(highest[p], higher(lower_[2 * entry], lower_[2 * entry + 1]));
    }
    for (std::int64_t entry = 0; entry < entries_; ++entry) {
      const std::int32_t p = points_[entry];
      const std::int32_t one = centroids_[2 * entry];
      const std::int32_t other = centroids_[2 * entry + 1];
      std::int32_t count = counts[p];
      few[p][count] = one;
      count += static_cast<int>(upper_[2 * entry] >= highest[p]);
      few[p][count] = other;
      count +=
          static_cast<int>(upper_[2 * entry + 1] >= highest[p]) & static_cast<int>(other != one);
      counts[p] = count;
    }
  }
#endif

  /// The products of all entries, two at a time, then what follows from them: in one loop a product's end
  /// would keep the processor, which looks only so far ahead, from the next one's beginning.
  void multiply(const Int16Centroids& centroids) {
    const std::int64_t stride = centroids.stride();
    const std::int16_t* of_points = rows_;
    const std::int16_t* of_centroids = centroids.row(0);
    for (std::int64_t entry = 0; entry < entries_; entry += 2) {
      const std::int32_t* j = centroids_.data() + 2 * entry;
      int16_products({of_points + points_[entry] * stride, of_points + points_[entry + 1] * stride},
                     {of_centroids + j[0] * stride, of_centroids + j[1] * stride,
                      of_centroids + j[2] * stride, of_centroids + j[3] * stride},
                     stride, products_.data() + 2 * entry);
    }
  }

  void take_ends(double room, const Int16Centroids& centroids) {
    const Int16PointTerms* of_points = terms_;
    const Int16CentroidTerms* of_centroids = &centroids.terms(0);
    for (std::int64_t entry = 0; entry < entries_; entry += 2) {
      const std::int32_t* j = centroids_.data() + 2 * entry;
      take_int16_ends(
          {of_points + points_[entry], of_points + points_[entry + 1]},
          {of_centroids + j[0], of_centroids + j[1], of_centroids + j[2], of_centroids + j[3]},
          products_.data() + 2 * entry, room, upper_.data() + 2 * entry, lower_.data() + 2 * entry);
    }
  }

  // With room for the last eight centroids of a point, and for one entry more.
  static constexpr std::int64_t kMost = kInt8Points * kInt8Few / 2 + kInt8Group;

  const std::int16_t* rows_ = nullptr;
  const Int16PointTerms* terms_ = nullptr;
  std::int64_t entries_ = 0;
  std::int64_t listed_ = 0;
  std::array<Place, kInt8Points> places_;
  std::array<std::int32_t, kMost> points_;
  std::array<std::int32_t, 2 * kMost> centroids_;
  std::array<std::int32_t, 2 * kMost> products_;
  std::array<double, 2 * kMost> upper_;
  std::array<double, 2 * kMost> lower_;
};

}  // namespace kmeans::openmp
