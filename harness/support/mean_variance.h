// SPDX-License-Identifier: Apache-2.0
//
// The variance that a tolerance is a share of (docs/exact-step.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace kmeans {

/// Of each of some problems, n points each, whose sums another forms. `parts` is given null at first, then the means of
/// the d columns of each problem, and returns of each problem d sums for each block of kBlock rows: of the values, then
/// of the squares of their differences from the means, rows in ascending order, in float64.
std::vector<double> mean_variances_of(
    std::int64_t problems, std::int64_t n, std::int64_t d,
    const std::function<std::vector<double>(const double* means)>& parts,
    const std::int64_t* weights = nullptr);

/// The mean over the columns of n x d points of their variances, the same bits on any number of threads.
/// `weights`: n integers of at least 0, not all 0, that add up to less than 2^53; null: all are 1.
template <class T>
double mean_variance(const T* points, std::int64_t n, std::int64_t d, int threads,
                     const std::int64_t* weights = nullptr);

}  // namespace kmeans
