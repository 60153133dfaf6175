// SPDX-License-Identifier: Apache-2.0
//
// Distances of all points on a GPU from all centroids, for those who want them and no labels.
#pragma once

#include <cstdint>
#include <functional>

namespace kmeans::cuda {

/// Square roots of the squared distances of n points from k centroids, as exact::squared_distance() forms them, to
/// n x k numbers in the host's memory, where the centroids are, too; T is double, or float, to which they are rounded.
/// Calls `between`, which may be empty, behind each piece of some MiB; what it throws ends this.
template <class T>
void distances_on_gpu(const float* dev_points, std::int64_t n, std::int64_t d,
                      const float* centroids, std::int64_t k, T* distances,
                      const std::function<void()>& between);

}  // namespace kmeans::cuda
