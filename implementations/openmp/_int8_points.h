// SPDX-License-Identifier: Apache-2.0
//
// All points as bytes, in blocks of words x kInt8Points, and as rows of 16-bit integers; made once in
// setup.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_crew.h"
#include "implementations/openmp/_int16_rows.h"
#include "implementations/openmp/_int8_quantise.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// A row of float32 coordinates in the frame. A difference of two float32 numbers is rounded to
/// float64; the scale is a power of two.
inline void to_frame(const float* row, const Frame<float>& frame, std::int64_t d, double* out) {
  for (std::int64_t t = 0; t < d; ++t) {
    out[t] = (static_cast<double>(row[t]) - frame.shift[t]) * frame.scale;
  }
}

class Int8Points {
 public:
  Int8Points() = default;
  Int8Points(const Problem<float>& problem, const Frame<float>& frame, int threads,
             const Int8Bytes& bytes)
      : bytes_(bytes),
        n_(problem.shape.n),
        words_(round_up(problem.shape.d, 4) / 4),
        blocks_(round_up(n_, kInt8Points) / kInt8Points),
        values_(blocks_ * words_ * kInt8Points + Int8Tiling::kBeyond),
        terms_(blocks_),
        row_(has_rows(problem.shape.d) ? int16_stride(problem.shape.d) : 0),
        rows_(n_ * row_),
        row_terms_(row_ > 0 ? n_ : 0) {
    std::fill_n(values_.data() + blocks_ * words_ * kInt8Points, Int8Tiling::kBeyond, 0);
    std::vector<Padded<double>> radii(threads);
    for_parts(threads, threads, [&](int part) {
      radii[part].value = radius_of(problem, frame, part_of(n_, part, threads));
    });
    for (const auto& part : radii) radius_ = std::max(radius_, part.value);
    radius_ = radius_ == 0 ? 1 : radius_ * 1.000001;
    for_parts(threads, threads,
              [&](int part) { pack(problem, frame, part_of(blocks_, part, threads)); });
  }

  std::int64_t blocks() const { return blocks_; }
  std::int64_t words() const { return words_; }
  /// No point lies farther from the frame's origin.
  double radius() const { return radius_; }

  /// What the filter is given of a block.
  Int8Task task(std::int64_t block) const {
    Int8Task task;
    task.points = values_.data() + block * words_ * kInt8Points;
    task.next = values_.data() + std::min(block + 1, blocks_ - 1) * words_ * kInt8Points;
    task.terms = terms_.data() + block;
    task.valid = std::min<std::int64_t>(kInt8Points, n_ - block * kInt8Points);
    task.words = words_;
    return task;
  }

  /// Has every point a row as well?
  static bool has_rows(std::int64_t d) { return d >= kInt16LeastCoordinates; }
  bool has_rows() const { return row_ > 0; }
  const std::int16_t* row(std::int64_t i) const { return rows_.data() + i * row_; }
  std::int64_t row_bytes() const { return 2 * row_; }
  const Int16PointTerms& row_terms(std::int64_t i) const { return row_terms_[i]; }

  static double bytes(const Shape& shape) {
    const Sizes s = shape;
    const double row = has_rows(shape.d) ? 2 * static_cast<double>(int16_stride(shape.d)) + 8 : 0;
    return (s.n + kInt8Points) * (s.d + 3 + 12) + s.n * row;
  }

 private:
  static double radius_of(const Problem<float>& problem, const Frame<float>& frame, Range points) {
    const std::int64_t d = problem.shape.d;
    std::vector<double> point(d);
    double squares = 0;
    for (std::int64_t i = points.begin; i < points.end; ++i) {
      to_frame(problem.points + i * d, frame, d, point.data());
      squares = std::max(squares, squares_of(point.data(), d));
    }
    return std::sqrt(squares);
  }

  void pack(const Problem<float>& problem, const Frame<float>& frame, Range blocks) {
    const std::int64_t d = problem.shape.d;
    std::vector<double> point(d);
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      std::uint32_t* out = values_.data() + block * words_ * kInt8Points;
      std::fill_n(out, words_ * kInt8Points, 0);
      for (int p = 0; p < kInt8Points; ++p) {
        // Padding repeats the last point; nobody looks at it.
        const std::int64_t i = std::min(n_ - 1, block * kInt8Points + p);
        to_frame(problem.points + i * d, frame, d, point.data());
        const Int8Extent extent = extent_of(point.data(), d);
        quantise_point(point.data(), d, extent, radius_, p, out, terms_[block], {}, bytes_);
        if (has_rows() && block * kInt8Points + p < n_) pack_row(point.data(), d, extent.norm, i);
      }
    }
  }

  void pack_row(const double* point, std::int64_t d, double norm, std::int64_t i) {
    std::int16_t* out = rows_.data() + i * row_;
    quantise_int16_point(point, d, norm, radius_, out, row_terms_[i]);
    std::fill(out + d, out + row_, std::int16_t{0});
  }

  Int8Bytes bytes_ = kInt8Unsigned;
  std::int64_t n_ = 0;
  std::int64_t words_ = 0;
  std::int64_t blocks_ = 0;
  double radius_ = 0;
  AlignedArray<std::uint32_t> values_;
  AlignedArray<Int8PointTerms> terms_;
  std::int64_t row_ = 0;  // integers of a row
  AlignedArray<std::int16_t> rows_;
  AlignedArray<Int16PointTerms> row_terms_;
};

}  // namespace kmeans::openmp
