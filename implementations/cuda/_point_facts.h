// SPDX-License-Identifier: Apache-2.0
//
// What the library asks of points that are on the GPU, for whom a copy in the host's memory would have to be read.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/support/point_facts.h"

namespace kmeans::cuda {

/// `points` are problems x n x d.
PointFacts facts_on_gpu(const float* dev_points, std::int64_t problems, std::int64_t n,
                        std::int64_t d);

/// `count` of the d coordinates from `first` on of some rows, one row after the other, into the memory of the host.
void copy_rows_to_host(const float* dev_points, std::int64_t d,
                       const std::vector<std::int64_t>& rows, std::int64_t first,
                       std::int64_t count, float* host);

/// As `parts` of kmeans::mean_variances_of(), to the last bit; `points` are problems x n x d.
std::vector<double> column_parts_on_gpu(const float* dev_points, std::int64_t problems,
                                        std::int64_t n, std::int64_t d, const double* means);

/// The sum of squared distances of n points from the centroids of their labels, from 0 to k - 1: row by row in blocks
/// of kBlock, then block by block, in float64. Centroids and labels are in the host's memory.
double inertia_on_gpu(const float* dev_points, std::int64_t n, std::int64_t d,
                      const float* centroids, std::int64_t k, const std::int32_t* labels);

/// n rows scaled to length one, as exact::unit_row() does; those that are not finite stay as they are.
void unit_rows_on_gpu(const float* dev_rows, std::int64_t n, std::int64_t d, float* dev_unit);
/// Are all of length one, or of zeros, as exact::is_unit_or_zero() says?
bool are_unit_rows_on_gpu(const float* dev_rows, std::int64_t n, std::int64_t d);

/// To float32, which holds them exactly.
void widen_float16(const void* dev_values, std::int64_t count, float* dev_wide);
void widen_bfloat16(const void* dev_values, std::int64_t count, float* dev_wide);

}  // namespace kmeans::cuda
