// SPDX-License-Identifier: Apache-2.0
//
// How far what bytes lose of two centroids can be apart. An error that both scores share loses no point its
// nearest centroid, so lower ends need not lie as far below their scores as upper ends lie above: for
// centroids of equal norms at right angles 0.4 times as far. Points half-way between centroids are fewer
// then. Rebuilt in every iteration; the proof stands in docs/openmp-bounds.md, "Lower ends".
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_int8_layout.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// Of all centroids in the order of the groups: rows of float32 of their coordinates, and of what bytes lost.
class Int8Differences {
 public:
  /// Is it worth its time, k^2 d, against n k d products of bytes? With 1024 points for each centroid it takes
  /// less than a hundredth of theirs.
  static bool pay(const Sizes& s) { return s.n >= 1024 * s.k; }
  static double bytes(const Sizes& s) {
    return pay(s) ? 8 * (s.k + kInt8Group) * (s.d + kLine) : 0;
  }

  Int8Differences() = default;
  Int8Differences(std::int64_t k, std::int64_t d)
      : d_(d),
        stride_(round_up(d, kLine)),
        coordinates_(round_up(k, kInt8Group) * stride_),
        rests_(round_up(k, kInt8Group) * stride_) {
    std::fill_n(coordinates_.data(), round_up(k, kInt8Group) * stride_, 0.0F);
    std::fill_n(rests_.data(), round_up(k, kInt8Group) * stride_, 0.0F);
  }

  /// Centroid c of group g, whose bytes (words x kInt8Group) are made.
  void put(std::int64_t g, int c, const double* coordinates, const Int8GroupTerms& group,
           const std::uint32_t* group_words) {
    const auto* bytes = reinterpret_cast<const std::int8_t*>(group_words + c);
    float* to = coordinates_.data() + (g * kInt8Group + c) * stride_;
    float* rest = rests_.data() + (g * kInt8Group + c) * stride_;
    const double step = group.step;
    for (std::int64_t t = 0; t < d_; ++t) {
      const std::int8_t byte = bytes[t / 4 * 4 * kInt8Group + t % 4];
      to[t] = static_cast<float>(coordinates[t]);
      rest[t] = static_cast<float>(coordinates[t] - step * byte);
    }
  }

  /// When all are put: the lower ends of some of the `count` groups. Tests give a smaller share of the
  /// differences, and expect that wrong bounds are found.
  void bring_closer(Int8GroupTerms* groups, std::int64_t count, Range some,
                    double share = 1) const {
    for (std::int64_t g = some.begin; g < some.end; ++g) {
      double norm = 0;
      double residual = 0;
      for (std::int32_t c = 0; c < groups[g].count; ++c) {
        for (std::int64_t h = 0; h < count; ++h) {
          const Int8GroupTerms& others = groups[h];
          // A residual has room for the rounding of one score, and this is of two.
          const double room = (static_cast<double>(groups[g].step) + others.step) / 32;
          const double own_norm = groups[g].norm[c];
          const double own_residual = groups[g].residual[c];
          const auto apart = distances(coordinates_, g, c, h);
          const auto rests_apart = distances(rests_, g, c, h);
          for (std::int32_t other = 0; other < others.count; ++other) {
            const double theirs = others.norm[other];
            const double lost = others.residual[other];
            norm = std::max(norm, share * most(apart[other], own_norm + theirs) - theirs);
            residual = std::max(
                residual, share * most(rests_apart[other], own_residual + lost) + room - lost);
          }
        }
      }
      groups[g].lower_norm = std::min(groups[g].largest_norm, rounded_up(norm));
      groups[g].lower_residual = std::min(groups[g].largest_residual, rounded_up(residual));
    }
  }

 private:
  using EightSquares = std::array<float, kInt8Group>;

  static constexpr std::int64_t kLine = 16;  // floats

  static float rounded_up(double value) { return static_cast<float>(value * 1.000001); }

  /// At least the distance of two vectors of these norms together, whose rows gave these squares.
  [[nodiscard]] double most(float squares, double norms) const {
    const double rounding = static_cast<double>(float32_roundings(stride_)) * 0x1p-23;
    return std::sqrt(static_cast<double>(squares)) * (1 + rounding) + norms * 0x1p-23 + 0x1p-50;
  }

  /// The squared distances of a row from those of group h.
  [[nodiscard]] EightSquares distances(const AlignedArray<float>& rows, std::int64_t g,
                                       std::int32_t c, std::int64_t h) const {
    const float* own = rows.data() + (g * kInt8Group + c) * stride_;
    const float* first = rows.data() + h * kInt8Group * stride_;
    EightSquares squares;
    std::array<float, 4> four;
    for (std::int64_t at = 0; at < kInt8Group; at += 4) {
      const float* row = first + at * stride_;
      float32_distances<4>(own, {row, row + stride_, row + 2 * stride_, row + 3 * stride_}, stride_,
                           four);
      std::copy(four.begin(), four.end(), squares.begin() + at);
    }
    return squares;
  }

  std::int64_t d_ = 0;
  std::int64_t stride_ = 0;
  AlignedArray<float> coordinates_;  // places x stride
  AlignedArray<float> rests_;        // places x stride: coordinates less bytes times step
};

}  // namespace kmeans::openmp
