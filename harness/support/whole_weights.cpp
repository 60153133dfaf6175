// SPDX-License-Identifier: Apache-2.0
#include "harness/support/whole_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include "harness/support/formatted.h"

namespace kmeans {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 32;  // that integers may stand for
constexpr int kTotalBits = 53;

void check(const double* weights, std::int64_t n) {
  bool any = false;
  for (std::int64_t i = 0; i < n; ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i])) {
      throw std::invalid_argument("weight " + std::to_string(i) + " is " +
                                  formatted("%.9g", weights[i]) +
                                  "; each must be finite and at least 0");
    }
    any |= weights[i] > 0;
  }
  if (!any) throw std::invalid_argument("all weights are 0, so no point counts");
}

/// Integers that add up to at most 2^53? Sums of such are exact.
bool are_whole(const double* weights, std::int64_t n) {
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (weights[i] != std::floor(weights[i])) return false;
    total += weights[i];
    if (total > std::ldexp(1.0, kTotalBits)) return false;
  }
  return true;
}

}  // namespace

WholeWeights whole_weights(const double* weights, std::int64_t n) {
  check(weights, n);
  WholeWeights whole{.of_points = std::vector<std::int64_t>(n)};
  const bool as_they_are = are_whole(weights, n);
  if (as_they_are) {
    std::int64_t total = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      whole.of_points[i] = static_cast<std::int64_t>(weights[i]);
      total += whole.of_points[i];
    }
    whole.scale_n = total;
    if (total <= kMostRows) return whole;
  }
  whole.scale_n = std::count_if(weights, weights + n, [](double weight) { return weight > 0; });
  if (as_they_are) return whole;
  int exponent = 0;  // the largest is below its power of two
  std::frexp(*std::max_element(weights, weights + n), &exponent);
  const int width = std::bit_width(static_cast<std::uint64_t>(whole.scale_n - 1));
  for (std::int64_t i = 0; i < n; ++i) {
    const double scaled = std::ldexp(weights[i], kTotalBits - width - exponent);
    whole.of_points[i] = static_cast<std::int64_t>(std::nearbyint(scaled));
    if (weights[i] > 0) whole.of_points[i] = std::max<std::int64_t>(whole.of_points[i], 1);
  }
  return whole;
}

template <class T>
T largest_weighted_abs(const T* points, std::int64_t n, std::int64_t d,
                       const std::int64_t* weights) {
  T largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (weights[i] == 0) continue;
    for (std::int64_t t = 0; t < d; ++t) largest = std::max(largest, std::abs(points[i * d + t]));
  }
  return largest;
}

template float largest_weighted_abs<float>(const float*, std::int64_t, std::int64_t,
                                           const std::int64_t*);
template double largest_weighted_abs<double>(const double*, std::int64_t, std::int64_t,
                                             const std::int64_t*);

}  // namespace kmeans
