// SPDX-License-Identifier: Apache-2.0
//
// The variance that a tolerance is a share of (docs/exact-step.md).
#pragma once

#include <cstdint>

namespace kmeans {

/// The mean over the columns of n x d points of their variances, the same bits on any number of threads.
template <class T>
double mean_variance(const T* points, std::int64_t n, std::int64_t d, int threads);

}  // namespace kmeans
