// SPDX-License-Identifier: Apache-2.0
//
// The point that a thread owns. Where d is small its coordinates are read from memory once and stay
// in registers, for the distances to all centroids and for the sums; else every use reads them
// again, as there are not enough registers.
#pragma once

#include <cstdint>

#include "implementations/cuda/_dispatch.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace kmeans::cuda {

/// The largest d whose coordinates stay in registers: that of the sources whose data are planar or
/// spatial. Each further one is one more instance of every kernel.
inline constexpr std::int64_t kOwnCoordinates = 3;

/// Point i of column-major points (d x n). D is d where the coordinates stay in registers: indices
/// then have to be known when loops over them are unrolled. D = 0: any d.
template <class T, int D, class Pointer = const T*>
class OwnPoint {
 public:
  /// i >= n: a thread without a point, whose coordinates are zeros.
  __device__ OwnPoint(Pointer dev_points, std::int64_t n, std::int64_t i) {
#pragma unroll
    for (int t = 0; t < D; ++t) coordinates_[t] = i < n ? static_cast<T>(dev_points[t * n + i]) : 0;
  }
  __device__ T operator[](std::int64_t t) const { return coordinates_[t]; }

 private:
  T coordinates_[D];
};

template <class T, class Pointer>
class OwnPoint<T, 0, Pointer> {
 public:
  __device__ OwnPoint(Pointer dev_points, std::int64_t n, std::int64_t i)
      : first_(dev_points + i), n_(n) {}
  /// Not for a thread without a point, as the next one.
  __device__ T operator[](std::int64_t t) const { return first_[t * n_]; }
  /// Coordinate t; those that follow are `stride()` apart.
  __device__ Pointer at(std::int64_t t) const { return first_ + t * n_; }
  __device__ std::int64_t stride() const { return n_; }

 private:
  Pointer first_;
  std::int64_t n_;
};

/// Calls launch(std::integral_constant<int, D>()) with the D that OwnPoint has for this d.
template <class Launch>
void with_own_coordinates(std::int64_t d, const Launch& launch) {
  static_assert(kOwnCoordinates == 3);
  with_constant<1, 2, 3, 0>(d, launch);
}

/// How often a point is read from memory for its distances to k centroids and `uses` more times.
inline double own_point_reads(const Shape& shape, double uses) {
  return shape.d <= kOwnCoordinates ? 1 : static_cast<double>(shape.k) + uses;
}

}  // namespace kmeans::cuda
