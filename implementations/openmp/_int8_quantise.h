// SPDX-License-Identifier: Apache-2.0
//
// Points and centroids as bytes times a step, and what that loses. Every norm and residual here
// serves as an upper bound and is rounded up; docs/openmp-bounds.md, "The int8 filter", says why the limits
// are what they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "implementations/openmp/_eight.h"
#include "implementations/openmp/_int8_layout.h"

namespace kmeans::openmp {

/// Beyond so many coordinates the rounding of float64 distances would no longer fit the margin.
inline constexpr std::int64_t kInt8MostCoordinates = std::int64_t{1} << 18;

/// Centroids farther from the origin than this multiple of the points' radius are left out.
inline constexpr double kInt8Far = 3.04;

/// The largest byte of a centroid.
inline constexpr int kInt8Most = 127;

/// Bytes of points: at most `most` without the sign, `zero` added.
struct Int8Bytes {
  int most = 0;
  int zero = 0;
  bool operator==(const Int8Bytes&) const = default;
};
/// Of instructions that multiply unsigned bytes by signed ones; of those that add two products up in 16 bits, where
/// (63 + 64) 127 twice is the most that fits; of those that multiply signed bytes.
inline constexpr Int8Bytes kInt8Unsigned{127, 128};
inline constexpr Int8Bytes kInt8OfPairs{63, 64};
inline constexpr Int8Bytes kInt8Signed{127, 0};

/// How bounds are rounded. Tests take less, and expect that wrong labels or bounds are found.
struct Int8Rounding {
  double up = 1.000001;    ///< For sums in float64 and numbers that become float32.
  double room = 1.0 / 32;  ///< Of a step, times 128 or the norm of a point: for float32 scores.
  double residual = 1;     ///< Share of a residual that counts.
};

/// The origin of the frame to a point's or centroid's coordinates in float64; their largest and norm.
struct Int8Extent {
  double largest = 0;
  double norm = 0;
};

inline Int8Extent extent_of(const double* coordinates, std::int64_t d) {
  EightDoubles largest;
  EightDoubles squares;
  for (std::int64_t t = 0; t < d; t += 8) {
    const auto x = EightDoubles::load(coordinates + t, d - t);
    largest = EightDoubles::larger(largest, x.magnitude());
    squares.add_squares(x);
  }
  return {largest.largest(), std::sqrt(squares.sum())};
}

/// The square of the norm.
inline double squares_of(const double* coordinates, std::int64_t d) {
  EightDoubles squares;
  for (std::int64_t t = 0; t < d; t += 8) {
    squares.add_squares(EightDoubles::load(coordinates + t, d - t));
  }
  return squares.sum();
}

/// A step so large that bytes lie within `most` and their vector within 1340, so that |u.q| < 1.8e6.
inline double int8_step(const Int8Extent& extent, std::int64_t d, double least,
                        int most = kInt8Most) {
  const double longest = 1340 - std::sqrt(static_cast<double>(d)) / 2;
  return std::max({extent.largest / most, extent.norm / longest, least}) * 1.000001;
}

/// Of points whose coordinates, in the frame, are no longer than `radius`.
inline double least_point_step(double radius) { return radius / 2048; }
inline double least_centroid_step(double radius) { return radius * 0x1p-20; }

/// What became of coordinates that were divided by a step and rounded.
struct Int8Loss {
  double squares = 0;   ///< of the bytes
  double residual = 0;  ///< squared distance of bytes times step from the coordinates
  std::int32_t sum = 0;
};

/// Byte t, at most `most`, goes to bytes[t / 4 * stride + t % 4], `offset` added.
inline Int8Loss quantise(const double* coordinates, std::int64_t d, double step, int most,
                         std::int32_t offset, std::int64_t stride, std::uint8_t* bytes) {
  const double inverse = 1 / step;
  EightDoubles squares;
  EightDoubles residual;
  EightDoubles sum;  // exact: of less than 2^18 bytes
  for (std::int64_t t = 0; t < d; t += 8) {
    const auto x = EightDoubles::load(coordinates + t, d - t);
    const EightDoubles whole = (x * inverse).within(most).rounded();
    squares.add_squares(whole);
    residual.add_squares(x - whole * step);
    sum = sum + whole;
    std::uint8_t eight[8];
    whole.put(eight, offset);
    std::uint8_t* to = bytes + t / 4 * stride;
    if (d - t >= 8) {
      std::memcpy(to, eight, 4);
      std::memcpy(to + stride, eight + 4, 4);
    } else {
      for (std::int64_t u = 0; u < d - t; ++u) to[u / 4 * stride + u % 4] = eight[u];
    }
  }
  return {squares.sum(), residual.sum(), static_cast<std::int32_t>(sum.sum())};
}

/// Point p of a block (words x kInt8Points, zeroed): its bytes and terms. `extent`: the point's.
inline void quantise_point(const double* coordinates, std::int64_t d, const Int8Extent& extent,
                           double radius, int p, std::uint32_t* block, Int8PointTerms& terms,
                           const Int8Rounding& rounding = {},
                           const Int8Bytes& bytes = kInt8Unsigned) {
  const double wanted = int8_step(extent, d, least_point_step(radius), bytes.most);
  terms.rate[p] = static_cast<float>(0.5 / wanted);
  const double step = 0.5 / static_cast<double>(terms.rate[p]);  // as the filter has it
  const Int8Loss loss =
      quantise(coordinates, d, step, bytes.most, bytes.zero, std::int64_t{4} * kInt8Points,
               reinterpret_cast<std::uint8_t*>(block + p));
  // At least 128, so that the room in a centroid's residual is worth four units of the sums.
  terms.norm[p] = static_cast<float>(std::max(128.0, std::sqrt(loss.squares)) * rounding.up);
  terms.residual[p] =
      static_cast<float>(std::sqrt(loss.residual) * rounding.residual / step * rounding.up);
}

/// Centroid c of a group (words x kInt8Group, zeroed) whose step is set: its bytes and terms. `bytes` are
/// those of the points.
inline void quantise_centroid(const double* coordinates, std::int64_t d, int c,
                              std::uint32_t* group_words, Int8GroupTerms& group,
                              const Int8Rounding& rounding = {},
                              const Int8Bytes& bytes = kInt8Unsigned) {
  const double step = group.step;
  const double norm = extent_of(coordinates, d).norm;
  const Int8Loss loss = quantise(coordinates, d, step, kInt8Most, 0, std::int64_t{4} * kInt8Group,
                                 reinterpret_cast<std::uint8_t*>(group_words + c));
  group.inverse = 1 / group.step;
  group.rate[c] = static_cast<float>(norm * norm / step);
  group.offset[c] = -bytes.zero * loss.sum;
  group.residual[c] = static_cast<float>(
      (std::sqrt(loss.residual) * rounding.residual + step * rounding.room) * rounding.up);
  group.norm[c] = static_cast<float>(norm * rounding.up);
  group.largest_residual = std::max(group.largest_residual, group.residual[c]);
  group.largest_norm = std::max(group.largest_norm, group.norm[c]);
  group.lower_residual = group.largest_residual;
  group.lower_norm = group.largest_norm;
}

/// A lane of a group without a centroid: below every score, and no survivor.
inline void pad_centroid(int c, Int8GroupTerms& group) {
  group.rate[c] = 0;
  group.offset[c] = static_cast<std::int32_t>(0x1p23F - kInt8Zero);
  group.residual[c] = 0;
  group.norm[c] = 0;
}

}  // namespace kmeans::openmp
