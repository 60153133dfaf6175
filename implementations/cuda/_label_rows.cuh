// SPDX-License-Identifier: Apache-2.0
//
// Labels of row-major points on plain CUDA cores: float32 distances, a block of threads a tile of
// points against one group of centroids after another. Points that float32 does not decide are
// listed for the search.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_search.cuh"

namespace kmeans::cuda {

/// The tile of a block: 128 points by 32 centroids, of which a lane has four points by eight
/// centroids in registers, and a slice of 32 coordinates of both in shared memory.
struct LabelTile {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kLanes;
  static constexpr int kLanePoints = 4;
  static constexpr int kWarpCentroids = 8;
  static constexpr int kRows = kLanePoints * kLanes;
  static constexpr int kCentroids = kWarpCentroids * kWarps;
  static constexpr int kCoordinates = 32;
  static_assert(kRows == kThreads && kCoordinates == kLanes);

  float x[kCoordinates][kRows + 1];
  __align__(16) float c[kCoordinates][kCentroids + 4];
  // What each warp found for each point among its own centroids.
  float leasts[kWarps][kRows];
  float seconds[kWarps][kRows];
  int nearests[kWarps][kRows];

  /// Loads a slice of `coordinates`, from `from` on, of the rows from `first` on; a lane each.
  __device__ __forceinline__ void load_points(const float* __restrict__ dev_points,
                                              std::int64_t first, int rows, std::int64_t d,
                                              std::int64_t from, int coordinates, int lane,
                                              int warp) {
#pragma unroll 8
    for (int row = warp; row < kRows; row += kWarps) {
      if (lane >= coordinates) continue;
      x[lane][row] = row < rows ? dev_points[(first + row) * d + from + lane] : 0.0F;
    }
  }

  /// The same slice of the centroids from `base` on. Those past the last are infinitely far away.
  __device__ __forceinline__ void load_centroids(const float* __restrict__ dev_centroids,
                                                 std::int64_t base, std::int64_t k, std::int64_t d,
                                                 std::int64_t from, int coordinates, int lane,
                                                 int warp) {
#pragma unroll
    for (int j = warp; j < kCentroids; j += kWarps) {
      if (lane >= coordinates) continue;
      c[lane][j] = base + j < k ? dev_centroids[(base + j) * d + from + lane] : INFINITY;
    }
  }

  /// Adds the slice's squared differences to a lane's distances.
  __device__ __forceinline__ void add_squares(
      int coordinates, int lane, int warp, float (&distances)[kLanePoints][kWarpCentroids]) const {
#pragma unroll 4
    for (int t = 0; t < coordinates; ++t) {
      float own_c[kWarpCentroids];
#pragma unroll
      for (int j = 0; j < kWarpCentroids; j += 4) {
        const auto four = *reinterpret_cast<const float4*>(&c[t][warp * kWarpCentroids + j]);
        own_c[j] = four.x, own_c[j + 1] = four.y, own_c[j + 2] = four.z, own_c[j + 3] = four.w;
      }
#pragma unroll
      for (int p = 0; p < kLanePoints; ++p) {
        const float own_x = x[t][p * kLanes + lane];
#pragma unroll
        for (int j = 0; j < kWarpCentroids; ++j) {
          const float difference = __fsub_rn(own_x, own_c[j]);
          distances[p][j] = __fmaf_rn(difference, difference, distances[p][j]);
        }
      }
    }
  }
};

/// The nearest centroid of each of a lane's points so far, and the two smallest distances.
struct LaneNearest {
  float least[LabelTile::kLanePoints];
  float second[LabelTile::kLanePoints];
  int nearest[LabelTile::kLanePoints];

  __device__ __forceinline__ LaneNearest() {
#pragma unroll
    for (int p = 0; p < LabelTile::kLanePoints; ++p) {
      least[p] = second[p] = INFINITY;
      nearest[p] = 0;
    }
  }

  /// More centroids, from index `first` on.
  __device__ __forceinline__ void add(
      const float (&distances)[LabelTile::kLanePoints][LabelTile::kWarpCentroids], int first) {
#pragma unroll
    for (int p = 0; p < LabelTile::kLanePoints; ++p) {
#pragma unroll
      for (int j = 0; j < LabelTile::kWarpCentroids; ++j) {
        nearest[p] = distances[p][j] < least[p] ? first + j : nearest[p];
        second[p] = fminf(second[p], fmaxf(least[p], distances[p][j]));
        least[p] = fminf(least[p], distances[p][j]);
      }
    }
  }

  __device__ __forceinline__ void store(LabelTile& tile, int lane, int warp) const {
#pragma unroll
    for (int p = 0; p < LabelTile::kLanePoints; ++p) {
      tile.leasts[warp][p * kLanes + lane] = least[p];
      tile.seconds[warp][p * kLanes + lane] = second[p];
      tile.nearests[warp][p * kLanes + lane] = nearest[p];
    }
  }
};

/// Row-major points, n x d. Those whose nearest centroid float32 does not decide are appended to
/// dev_crowded. factor: filter_factor(d).
static __global__ void __launch_bounds__(LabelTile::kThreads)
    label_rows_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                      const float* __restrict__ dev_centroids, std::int64_t k, float factor,
                      std::int32_t* __restrict__ dev_nearest,
                      std::int32_t* __restrict__ dev_crowded, TensorState* __restrict__ dev_state) {
  constexpr std::int64_t kCoordinates = LabelTile::kCoordinates;
  __shared__ LabelTile tile;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * LabelTile::kRows;
  const int rows = static_cast<int>(min(std::int64_t{LabelTile::kRows}, n - first));
  LaneNearest own;
  for (std::int64_t base = 0; base < k; base += LabelTile::kCentroids) {
    float distances[LabelTile::kLanePoints][LabelTile::kWarpCentroids] = {};
    for (std::int64_t from = 0; from < d; from += kCoordinates) {
      const int coordinates = static_cast<int>(min(kCoordinates, d - from));
      __syncthreads();  // the slice before is no longer read
      if (base == 0 || d > kCoordinates) {
        tile.load_points(dev_points, first, rows, d, from, coordinates, lane, warp);
      }
      tile.load_centroids(dev_centroids, base, k, d, from, coordinates, lane, warp);
      __syncthreads();
      tile.add_squares(coordinates, lane, warp, distances);
    }
    own.add(distances, static_cast<int>(base) + warp * LabelTile::kWarpCentroids);
  }
  own.store(tile, lane, warp);
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x);
  if (row >= rows) return;
  float least = INFINITY;
  float second = INFINITY;
  int label = 0;
#pragma unroll
  for (int w = 0; w < LabelTile::kWarps; ++w) {
    second = fminf(fminf(second, tile.seconds[w][row]), fmaxf(least, tile.leasts[w][row]));
    if (tile.leasts[w][row] < least) least = tile.leasts[w][row], label = tile.nearests[w][row];
  }
  if (second > __fmaf_rn(least, factor, kSearchTiny)) {
    dev_nearest[first + row] = label;
  } else {
    dev_crowded[atomicAdd(&dev_state->crowded, 1ULL)] = static_cast<std::int32_t>(first + row);
  }
}

}  // namespace kmeans::cuda
