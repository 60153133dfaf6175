// SPDX-License-Identifier: Apache-2.0
//
// What weights of points come to in the exact step (docs/exact-step.md): integers.
#pragma once

#include <cstdint>
#include <vector>

namespace kmeans {

struct WholeWeights {
  std::vector<std::int64_t> of_points;  ///< n, none below 0, together at most 2^53
  std::int64_t scale_n = 0;             ///< What the scale of the exact sums goes by in place of n.
};

/// Of integers that add up to at most 2^53 these themselves, up to 2^32 as if each row were there so many times;
/// others are rounded to integers, the largest to about 2^53 / n. Throws std::invalid_argument with the place of one
/// that is negative or not finite, and where all are 0.
WholeWeights whole_weights(const double* weights, std::int64_t n);

/// The largest |coordinate| of the points, n x d, with a weight above 0.
template <class T>
T largest_weighted_abs(const T* points, std::int64_t n, std::int64_t d,
                       const std::int64_t* weights);

}  // namespace kmeans
