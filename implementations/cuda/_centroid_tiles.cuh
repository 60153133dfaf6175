// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroid of a thread's point, with the centroids in shared memory: all of them where
// they fit, else one tile after another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "implementations/cuda/_own_point.cuh"

namespace kmeans::cuda {

/// What lies in shared memory at a time: whole centroids, or a part of the coordinates of one. Both
/// are a contiguous piece of the k x d array.
struct CentroidTile {
  int centroids = 0;
  int coordinates = 0;  ///< d, unless centroids is 1
  std::size_t bytes = 0;
};

/// The largest tile in the shared memory that a block gets on every GPU without asking for more.
template <class T>
CentroidTile centroid_tile(const Shape& shape) {
  // Compilers merge the loads of neighbouring centroids, also past the last one: a gap that is
  // theirs to read.
  constexpr std::int64_t kGap = 16;
  constexpr std::int64_t kValues = (48 * 1024 - kGap) / sizeof(T);
  CentroidTile tile;
  tile.coordinates = static_cast<int>(std::min(shape.d, kValues));
  tile.centroids = static_cast<int>(std::clamp<std::int64_t>(kValues / shape.d, 1, shape.k));
  tile.bytes = sizeof(T) * tile.centroids * tile.coordinates + kGap;
  return tile;
}

/// The label of `point`; -1 where the thread has none. d is D, but where D is 0. Contains barriers:
/// every thread of the block calls it, whether or not it has a point. After it, others may still
/// read `shared`.
template <class T, int D>
__device__ std::int32_t nearest_through_tiles(const OwnPoint<T, D>& point, bool has_point,
                                              std::int64_t d, const T* __restrict__ dev_centroids,
                                              std::int64_t k, CentroidTile tile, T* shared) {
  T nearest_distance = INFINITY;
  T distance = 0;
  std::int32_t nearest = has_point ? 0 : -1;
  const auto last_j = static_cast<unsigned>(k);  // labels are 32-bit, and so are these: registers
  for (unsigned first_j = 0; first_j < last_j; first_j += tile.centroids) {
    const int centroids =
        static_cast<int>(min(static_cast<unsigned>(tile.centroids), last_j - first_j));
    for (std::int64_t first_t = 0; first_t < d; first_t += tile.coordinates) {
      const int coordinates = static_cast<int>(min(std::int64_t{tile.coordinates}, d - first_t));
      __syncthreads();  // the tile before is no longer read
      for (int value = threadIdx.x; value < centroids * coordinates; value += blockDim.x) {
        shared[value] = dev_centroids[first_j * d + first_t + value];
      }
      __syncthreads();
      if (!has_point) continue;
      const T* centroid = shared;
      for (int j = 0; j < centroids; ++j) {
        if (first_t == 0) distance = 0;  // else the sum goes on: this is a further part of one
        if constexpr (D > 0) {
#pragma unroll
          for (int t = 0; t < D; ++t) {
            const T difference = point[t] - *centroid++;
            distance += difference * difference;
          }
        } else {
          const T* coordinate = point.at(first_t);
#pragma unroll(16 / sizeof(T))  // more, or no word of it, and some compilers spill registers
          for (int t = 0; t < coordinates; ++t) {
            const T difference = *coordinate - *centroid++;
            distance += difference * difference;
            coordinate += point.stride();
          }
        }
        // Strictly: the lowest index wins a tie. After a part that is not the last, `distance` is
        // too small yet.
        if (first_t + coordinates == d && distance < nearest_distance) {
          nearest_distance = distance;
          nearest = static_cast<std::int32_t>(first_j + j);
        }
      }
    }
  }
  return nearest;
}

/// Bytes read by n threads that call nearest_through_tiles in blocks of `threads` and use their
/// point `uses` more times.
inline double tiled_assignment_bytes(const Shape& shape, int threads, double uses) {
  const double blocks = static_cast<double>(ceil_div(shape.n, threads));
  return scalar_bytes(shape) * shape.d *
         (shape.n * own_point_reads(shape, uses) + blocks * shape.k);
}

}  // namespace kmeans::cuda
