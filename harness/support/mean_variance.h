// SPDX-License-Identifier: Apache-2.0
//
// The variance that a tolerance is a share of (docs/exact-step.md).
#pragma once

#include <cstdint>

namespace kmeans {

/// The mean over the columns of n x d points of their variances, the same bits on any number of threads.
/// `weights`: n integers of at least 0, not all 0, that add up to less than 2^53; null: all are 1.
template <class T>
double mean_variance(const T* points, std::int64_t n, std::int64_t d, int threads,
                     const std::int64_t* weights = nullptr);

}  // namespace kmeans
