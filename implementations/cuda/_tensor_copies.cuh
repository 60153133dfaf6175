// SPDX-License-Identifier: Apache-2.0
//
// Float16 copies of points and centroids, centred and scaled, as wgmma reads them from shared
// memory, with what their rounding can have changed.
#pragma once

#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_search.cuh"

namespace kmeans::cuda {

constexpr int kTileRows = 64;  // points of a tile, those of a matrix instruction
constexpr int kChunk = 8;      // halves in a row of a core matrix
constexpr int kExtra = 4;      // columns for norms and bounds
constexpr double kFarthestNorm = 30000;
constexpr double kTinyNorm = 0x1p-24;  // the step of the smallest float16
constexpr double kFarthest = 256;  // a scaled coordinate that float16 holds with its squared norm

/// What accumulating products of float16 in the tensor cores may be off by, as a share of the sum
/// of their magnitudes: they align the products of 16 columns and the sum before to the largest of
/// them and cut off, so each of the 17 may lose 2^-23 of it, once for every 16 columns.
__host__ __device__ constexpr double product_error(std::int64_t padded) {
  return static_cast<double>(padded / 16 + 1) * 17 * 0x1p-23;
}

/// Columns of a copy: the coordinates and the extra ones, whole steps of the matrix instruction.
inline std::int64_t padded_for(std::int64_t d) { return (d + kExtra + 15) / 16 * 16; }

/// A shape as the kernels see it.
struct Extents {
  std::int64_t n;
  std::int64_t d;
  std::int64_t k;
  int padded;   // d and the extra columns, a multiple of 16
  int columns;  // centroids of a tile
  std::int64_t point_tiles;
  int centroid_tiles;
  int point_buffers;  // tiles of points in shared memory
  int stages;         // of shared memory for pieces of centroids
  bool stays;         // all centroids are in the stages, once and for all
  int turn;           // stages that a warp group multiplies before the next may; 0: no turns
};

__host__ __device__ inline std::int64_t tile_halves(const Extents& s) {
  return std::int64_t{kTileRows} * s.padded;
}

/// Where (row, column) of a tile of `rows` rows stands: chunks of 8 columns, in them all rows.
__device__ inline std::int64_t place_in_tile(int rows, int row, int column) {
  return std::int64_t{column / kChunk} * rows * kChunk + row * kChunk + column % kChunk;
}

__device__ inline __half half_up(double value) {
  __half half = __double2half(value);
  if (static_cast<double>(__half2float(half)) < value)
    half = __float2half_ru(__double2float_ru(value));
  return half;
}

__device__ inline double warp_sum(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// Column sums of the points, for their mean; order-dependent, which moves no label.
__global__ void add_columns_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                   std::int64_t d, double* __restrict__ dev_sums) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= d) return;
  double sum = 0;
  for (std::int64_t i = blockIdx.y; i < n; i += gridDim.y) sum += dev_points[i * d + t];
  atomicAdd(&dev_sums[t], sum);
}

__global__ void find_reach_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                  std::int64_t d, const double* __restrict__ dev_sums,
                                  float* __restrict__ dev_mean, unsigned* __restrict__ dev_reach) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= d) return;
  const float mean = static_cast<float>(dev_sums[t] / static_cast<double>(n));
  if (blockIdx.y == 0) dev_mean[t] = mean;
  float reach = 0;
  for (std::int64_t i = blockIdx.y; i < n; i += gridDim.y) {
    reach = fmaxf(reach, fabsf(dev_points[i * d + t] - mean));
  }
  atomicMax(dev_reach, __float_as_uint(reach));
}

/// A warp a row. Rows past the end are zero. dev_lengths: (|x'|, |x' - x~|), rounded up, per point.
__global__ void copy_points_kernel(const float* __restrict__ dev_points, Extents s,
                                   const float* __restrict__ dev_mean, double scale,
                                   __half* __restrict__ dev_copy,
                                   float2* __restrict__ dev_lengths) {
  const int lane = threadIdx.x % 32;
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= s.point_tiles * kTileRows) return;
  __half* tile = dev_copy + i / kTileRows * tile_halves(s);
  const int row = static_cast<int>(i % kTileRows);
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  for (int t = lane; t < s.padded; t += 32) {
    double x = 0;
    if (i < s.n && t < s.d)
      x = (static_cast<double>(dev_points[i * s.d + t]) - dev_mean[t]) * scale;
    const __half copy = __double2half(x);
    const double kept = __half2float(copy);
    squared += x * x;
    squared_copy += kept * kept;
    squared_rest += (x - kept) * (x - kept);
    if (t < s.d) tile[place_in_tile(kTileRows, row, t)] = copy;
  }
  constexpr double kUp = 1 + 0x1p-30;  // above the roundings of these sums and roots
  const __half length = half_up(kUp * sqrt(fmax(warp_sum(squared), warp_sum(squared_copy))));
  const __half rest = half_up(kUp * sqrt(warp_sum(squared_rest)));
  if (lane == 0) {
    const __half one = __float2half(1.0F);
    const __half extra[kExtra] = {one, one, length, rest};
    for (int e = 0; e < s.padded - s.d; ++e) {
      tile[place_in_tile(kTileRows, row, static_cast<int>(s.d) + e)] =
          e < kExtra ? extra[e] : __float2half(0.0F);
    }
    if (i < s.n) dev_lengths[i] = {__half2float(length), __half2float(rest)};
  }
}

/// A warp a centroid. Those past the end lie too far away to be nearest. dev_lengths: what the
/// points' lengths are multiplied with in the bound, and the norm's share of it. too_far is false
/// before.
__global__ void copy_centroids_kernel(const float* __restrict__ dev_centroids, Extents s,
                                      const float* __restrict__ dev_mean, double scale,
                                      __half* __restrict__ dev_copy,
                                      float4* __restrict__ dev_lengths,
                                      TensorState* __restrict__ dev_state) {
  if (blockIdx.x == 0 && threadIdx.x == 0) dev_state->undecided = dev_state->crowded = 0;
  const int lane = threadIdx.x % 32;
  const std::int64_t j = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (j >= std::int64_t{s.centroid_tiles} * s.columns) return;
  __half* tile = dev_copy + j / s.columns * s.columns * s.padded;
  const int row = static_cast<int>(j % s.columns);
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  for (int t = lane; t < s.d; t += 32) {
    double c = 0;
    if (j < s.k) c = (static_cast<double>(dev_centroids[j * s.d + t]) - dev_mean[t]) * scale;
    if (!(fabs(c) <= kFarthest)) {
      dev_state->too_far = 1;
      c = 0;
    }
    const __half copy = __double2half(c);
    const double kept = __half2float(copy);
    squared += c * c;
    squared_copy += kept * kept;
    squared_rest += (c - kept) * (c - kept);
    tile[place_in_tile(s.columns, row, t)] = __hneg(copy);
  }
  constexpr double kUp = 1 + 0x1p-30;
  const double error = product_error(s.padded);
  double half_norm = warp_sum(squared) / 2;
  if (half_norm > kFarthestNorm) {  // as a float16 it must stay below what fills up the last tile
    dev_state->too_far = 1;
    half_norm = 0;
  }
  const double length = kUp * sqrt(warp_sum(squared_copy));
  const double rest = kUp * sqrt(warp_sum(squared_rest));
  // |x'.c' - x~.c~| <= |x'| |c' - c~| + |x' - x~| |c~|; the products' own error by |x~| |c~|.
  const __half by_length = half_up(rest * (1 + 2 * error) + 2 * error * length);
  const __half by_rest = half_up(length * (1 + 2 * error));
  if (lane == 0) {
    // Its two parts together are 2^-22 of it off, and where they are tiny 2^-25.
    const double low = half_norm * (1 - 4 * error - 0x1p-20) - kTinyNorm;
    const __half high_part = __double2half(j < s.k ? low : 60000.0);
    const __half low_part =
        __double2half(j < s.k ? low - static_cast<double>(__half2float(high_part)) : 0.0);
    const __half extra[kExtra] = {high_part, low_part, __hneg(by_length), __hneg(by_rest)};
    for (int e = 0; e < s.padded - s.d; ++e) {
      tile[place_in_tile(s.columns, row, static_cast<int>(s.d) + e)] =
          e < kExtra ? extra[e] : __float2half(0.0F);
    }
    // Upper less lower bound of half the squared distance is at most
    // 2 (|x'| by_length + |x' - x~| by_rest) + half_norm's share.
    if (j < s.k) {
      dev_lengths[j] = {__half2float(by_length), __half2float(by_rest),
                        __double2float_ru(half_norm * (8 * error + 0x1p-18) + 4 * kTinyNorm), 0.0F};
    }
  }
}

}  // namespace kmeans::cuda
