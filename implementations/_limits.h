// SPDX-License-Identifier: Apache-2.0
//
// Limits that several techniques have, as Traits::supports wants them. That labels are 32-bit, and k
// with them, needs no mention: the harness asks that of every variant.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "harness/variant.h"

namespace kmeans {

/// The limit of variants that add points one by one to a sum of their own scalar: in float32 a sum of
/// 2^24 alike points no longer grows by one more.
inline Support sums_fit(const Shape& shape) {
  constexpr std::int64_t kMax = std::int64_t{1} << 24;
  if (shape.precision == Precision::f64 || shape.n / shape.k < kMax) return Support::yes();
  return Support::no("n = " + std::to_string(shape.n) + ", k = " + std::to_string(shape.k) +
                     ": some cluster has " + std::to_string(kMax) +
                     " points or more, and a float32 sum of so many does not grow by another one");
}

/// The limit of variants that count a cluster's points in 32 bits, one thread a point.
inline Support counts_fit(const Shape& shape) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (shape.n <= kMax) return Support::yes();
  return Support::no("n = " + std::to_string(shape.n) +
                     " points: clusters are counted in 32 bits, at most " + std::to_string(kMax));
}

/// Both limits.
inline Support sums_and_counts_fit(const Shape& shape) {
  const Support sums = sums_fit(shape);
  return sums.ok ? counts_fit(shape) : sums;
}

/// Both limits, of variants that first add up blocks of so many points: a sum then grows by its
/// share of a block at a time.
inline Support block_sums_and_counts_fit(const Shape& shape, std::int64_t block_points) {
  constexpr std::int64_t kMax = std::int64_t{1} << 24;
  const std::int64_t blocks = (shape.n + block_points - 1) / block_points;
  if (blocks < kMax || sums_fit(shape).ok) return counts_fit(shape);
  return Support::no("n = " + std::to_string(shape.n) + ": " + std::to_string(blocks) +
                     " blocks of " + std::to_string(block_points) +
                     " points add to a float32 sum, which after " + std::to_string(kMax) +
                     " does not grow by another one");
}

/// The limit of variants that keep indices of centroids as numbers in lanes of a floating type, in
/// which integers below `limit` are exact.
inline Support indices_fit(const Shape& shape, const char* lanes, std::int64_t limit) {
  if (shape.k < limit) return Support::yes();
  return Support::no("k = " + std::to_string(shape.k) + ", but labels are found in " + lanes +
                     " lanes, which hold integers below " + std::to_string(limit));
}

}  // namespace kmeans
