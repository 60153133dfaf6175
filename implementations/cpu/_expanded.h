// SPDX-License-Identifier: Apache-2.0
//
// The expanded distance |x|^2 - 2 x.c + |c|^2, shared by the variants that get x.c from a matrix
// product. |x|^2 is the same for every centroid and is left out; half of the rest decides:
// score = |c|^2 / 2 - x.c.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace kmeans::plain {
namespace {  // unnamed for the reason given in _lloyd.h

/// half[j] = |c_j|^2 / 2, summed in float64. centroids: k x d.
template <class T>
void half_squared_norms(const T* centroids, std::int64_t k, std::int64_t d, std::vector<T>& half) {
  half.resize(k);
  for (std::int64_t j = 0; j < k; ++j) {
    double sum = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const double coordinate = centroids[j * d + t];
      sum += coordinate * coordinate;
    }
    half[j] = static_cast<T>(sum / 2);
  }
}

/// Index type as wide as the score, so that both fill the same number of SIMD lanes.
template <class T>
struct LaneIndex {
  using Type = std::int32_t;
};
template <>
struct LaneIndex<double> {
  using Type = std::int64_t;
};

/// Running minimum for a block of points, centroid by centroid, points in lanes.
template <class T>
class NearestInBlock {
 public:
  void resize(std::int64_t most_rows) {
    score_.resize(most_rows);
    label_.resize(most_rows);
  }

  void clear(std::int64_t rows) {
    rows_ = rows;
    std::fill_n(score_.begin(), rows, std::numeric_limits<T>::infinity());
    std::fill_n(label_.begin(), rows, 0);
  }

  /// Takes in centroids first <= j < first + columns, after all lower ones. negated_products:
  /// -x.c, columns x rows(), so that the points' values for one centroid lie side by side.
  void scan(const T* negated_products, const T* half_norms, std::int64_t first,
            std::int64_t columns) {
    // Narrow strips of points: their minima stay in the nearest cache, or in registers, while all
    // the block's centroids pass by.
    constexpr std::int64_t kStrip = 128;
    for (std::int64_t begin = 0; begin < rows_; begin += kStrip) {
      const std::int64_t length = std::min(kStrip, rows_ - begin);
      for (std::int64_t column = 0; column < columns; ++column) {
        take_minimum(negated_products + column * rows_ + begin, half_norms[first + column],
                     static_cast<Index>(first + column), score_.data() + begin,
                     label_.data() + begin, length);
      }
    }
  }

  [[nodiscard]] std::int32_t label(std::int64_t row) const {
    return static_cast<std::int32_t>(label_[row]);
  }

 private:
  using Index = typename LaneIndex<T>::Type;

  static void take_minimum(const T* __restrict negated, T half_norm, Index j, T* __restrict score,
                           Index* __restrict label, std::int64_t length) {
    for (std::int64_t row = 0; row < length; ++row) {
      const T candidate = half_norm + negated[row];
      const bool nearer = candidate < score[row];  // strictly: the lowest index wins a tie
      score[row] = nearer ? candidate : score[row];
      label[row] = nearer ? j : label[row];
    }
  }

  std::int64_t rows_ = 0;
  std::vector<T> score_;      // one a point of the block
  std::vector<Index> label_;  // one a point of the block
};

}  // namespace
}  // namespace kmeans::plain
