// SPDX-License-Identifier: Apache-2.0
//
// Copies of points and centroids in bytes, centred and scaled, as wgmma reads them from shared
// memory, and the columns that make their integer products lower bounds (docs/gpu-bounds.md).
#pragma once

#include <cub/block/block_scan.cuh>

#include <cmath>
#include <cstdint>

#include "implementations/cuda/_byte_steps.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda {

constexpr double kFarthestCoordinate = 256;  // a scaled one of a centroid

/// So large a part of a number has the place: the first hold 127 each.
__device__ inline int part_of(long long number, int place) {
  const long long rest = number >= 0 ? number - place * kMost : number + place * kMost;
  return static_cast<int>(number >= 0 ? min(max(rest, 0LL), static_cast<long long>(kMost))
                                      : max(min(rest, 0LL), static_cast<long long>(-kMost)));
}

/// A warp a row. Coordinates of rows past the end are zero. dev_lengths: of the point, and of its
/// rest, rounded up to the units; infinite where the parts do not hold them. dev_largest: of the
/// squared lengths, those in float16 as well.
static __global__ void copy_points_as_bytes_kernel(const float* __restrict__ dev_points, Extents s,
                                                   const float* __restrict__ dev_mean, double scale,
                                                   ByteSteps steps, Byte* __restrict__ dev_copy,
                                                   float2* __restrict__ dev_lengths,
                                                   unsigned* __restrict__ dev_largest) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= s.point_tiles * kTileRows) return;
  Byte* tile = dev_copy + i / kTileRows * tile_elements(s);
  const int row = static_cast<int>(i % kTileRows);
  CopySquares squares;
  for (int t = lane; t < s.d; t += 32) {
    double x = 0;
    if (i < s.n) x = (static_cast<double>(dev_points[i * s.d + t]) - dev_mean[t]) * scale;
    const double copy = fmin(fmax(rint(x / steps.step), -1.0 * kMost), 1.0 * kMost);
    squares.add(x, copy * steps.step);
    tile[place_in_tile<Byte>(kTileRows, row, t)] = static_cast<Byte>(copy);
  }
  constexpr double kUp = 1 + 0x1p-30;  // above the roundings of these sums and roots
  const double square = fmax(warp_sum(squares.whole), warp_sum(squares.copy));
  const double length = ceil(kUp * sqrt(square) / steps.of_lengths);
  const double rest = ceil(kUp * sqrt(warp_sum(squares.rest)) / steps.of_rests);
  const bool fits = length <= kLengthParts * kMost && rest <= kRestParts * kMost;
  const int whole_length = fits ? static_cast<int>(length) : 0;
  const int whole_rest = fits ? static_cast<int>(rest) : 0;
  for (int e = lane; e < s.padded - s.d; e += 32) {
    int value = kMost;
    if (e == 0) {
      value = 1;
    } else if (e <= kLengthColumns) {
      value = part_of(whole_length, (e - 1) / kByLengthParts);
    } else if (e < kOtherColumns) {
      value = part_of(whole_rest, (e - 1 - kLengthColumns) / kByRestParts);
    }
    tile[place_in_tile<Byte>(kTileRows, row, static_cast<int>(s.d) + e)] = static_cast<Byte>(value);
  }
  if (lane == 0 && i < s.n) {
    dev_lengths[i] = {fits ? __double2float_ru(kUp * length * steps.of_lengths) : INFINITY,
                      fits ? __double2float_ru(kUp * rest * steps.of_rests) : INFINITY};
    note_largest(__double2float_ru((1 + 0x1p-8) * square), dev_largest);
  }
}

/// How much half a squared norm may be, in units of the products.
__host__ __device__ inline double most_of_norm(const Extents& s) {
  return static_cast<double>(kMost) * kMost *
         static_cast<double>(s.padded - static_cast<int>(s.d) - kOtherColumns);
}
/// How far the coordinates have to reach for half a squared norm of 1 to be that.
inline double reach_of_norm(const Extents& s, const ByteSteps& steps) {
  return kMost / (most_of_norm(s) * steps.step);
}
constexpr double kMostRaised = 8;  // so much does a reach grow by a norm

/// A warp a centroid: the mean of its cluster's points by dev_sums (k x (d + 1), the count last),
/// unless that is null or it has none; dev_reaches: its largest scaled coordinate's magnitude, or
/// more where the columns for its norm would not hold it: coordinates all as large. too_far is
/// false before.
static __global__ void divide_kernel(const Integer* __restrict__ dev_sums, double inverse_scale,
                                     float* __restrict__ dev_centroids, std::int64_t d,
                                     std::int64_t k, const float* __restrict__ dev_mean,
                                     double scale, double reach_of_norm,
                                     float* __restrict__ dev_reaches,
                                     TensorState* __restrict__ dev_state) {
  await_kernels_before();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    dev_state->undecided = dev_state->pairs = dev_state->crowded = 0;
    dev_state->lists = dev_state->listed = 0;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t j = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (j >= k) return;
  const Integer* sums = dev_sums + j * (d + 1);
  const auto count = dev_sums != nullptr ? static_cast<long long>(sums[d]) : 0;
  float reach = 0;
  double squared = 0;
#pragma unroll 4
  for (std::int64_t t = lane; t < d; t += 32) {
    float* dev_own = dev_centroids + j * d + t;
    if (count != 0) *dev_own = exact_mean(static_cast<long long>(sums[t]), count, inverse_scale);
    const double c = (static_cast<double>(*dev_own) - dev_mean[t]) * scale;
    if (!(fabs(c) <= kFarthestCoordinate)) {
      dev_state->too_far = 1;
    } else {
      reach = fmaxf(reach, __double2float_ru(fabs(c)));
      squared += c * c;
    }
  }
  reach = __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(reach)));
  // Somewhat more than float32's roundings of the step and of this.
  const double needed = 1.001 * warp_sum(squared) / 2 * reach_of_norm;
  if (lane == 0) {
    dev_reaches[j] = fmaxf(reach, __double2float_ru(fmin(needed, kMostRaised * reach)));
  }
}

constexpr int kOrderThreads = 1024;
constexpr int kOrderBins = 4096;  // of reaches: 128 for a factor of two, thirty-two factors

/// One block: the centroids in the order of their reaches, nearly, so that those of a tile share a
/// step.
static __global__ void __launch_bounds__(kOrderThreads)
    order_kernel(const float* __restrict__ dev_reaches, std::int64_t k,
                 std::int32_t* __restrict__ dev_order, std::int32_t* __restrict__ dev_places) {
  constexpr int kOwn = kOrderBins / kOrderThreads;
  using Scan = cub::BlockScan<int, kOrderThreads>;
  __shared__ typename Scan::TempStorage scratch;
  __shared__ int bins[kOrderBins];
  const auto bin_of = [](float reach) {
    constexpr int kFirst = (127 - 23) << 7;  // 2^-23
    return min(max(static_cast<int>(__float_as_uint(reach) >> 16) - kFirst, 0), kOrderBins - 1);
  };
  for (int bin = static_cast<int>(threadIdx.x); bin < kOrderBins; bin += kOrderThreads) {
    bins[bin] = 0;
  }
  await_kernels_before();
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < k; j += kOrderThreads) {
    atomicAdd(&bins[bin_of(dev_reaches[j])], 1);
  }
  __syncthreads();
  int own[kOwn];
#pragma unroll
  for (int b = 0; b < kOwn; ++b) own[b] = bins[threadIdx.x * kOwn + b];
  Scan(scratch).ExclusiveSum(own, own);
  __syncthreads();
#pragma unroll
  for (int b = 0; b < kOwn; ++b) bins[threadIdx.x * kOwn + b] = own[b];
  __syncthreads();
  for (std::int64_t j = threadIdx.x; j < k; j += kOrderThreads) {
    const int place = atomicAdd(&bins[bin_of(dev_reaches[j])], 1);
    dev_order[place] = static_cast<std::int32_t>(j);
    dev_places[j] = place;
  }
}

/// The warp: how far the centroids of a tile reach, that from place `first` on.
__device__ __forceinline__ float reach_of_tile(const Extents& s, std::int64_t first,
                                               const float* __restrict__ dev_reaches,
                                               const std::int32_t* __restrict__ dev_order) {
  float reach = 0;
  for (int c = static_cast<int>(threadIdx.x) % 32; c < s.columns; c += 32) {
    const std::int64_t other = first + c;
    if (other < s.k) reach = fmaxf(reach, dev_reaches[dev_order[other]]);
  }
  return __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(reach)));
}

/// What a centroid's other columns hold, in the tile's units.
struct ByteBound {
  static constexpr double kUp = 1 + 0x1p-30;
  static constexpr double kRounded =
      0x1p-28;  // far more than float64's own roundings, of the squared lengths
  static constexpr double kMostByLength = kByLengthParts * kMost;
  static constexpr double kMostByRest = kByRestParts * kMost;

  double half_norm;
  double rest;
  double length;
  double norm;  // whole
  long long whole_by_length;
  long long whole_by_rest;
  bool too_far;

  __device__ __forceinline__ ByteBound(const CopySquares& squares, bool exists, const Extents& s,
                                       const ByteSteps& steps, float unit)
      : half_norm(warp_sum(squares.whole) / 2),
        rest(kUp * sqrt(warp_sum(squares.rest))),
        length(kUp * sqrt(warp_sum(squares.copy))) {
    // |x'.c' - x~.c~| <= |x'| |c' - c~| + |x' - x~| |c~|, in units, rounded up.
    const double by_length = ceil(kUp * rest * steps.of_lengths / unit);
    const double by_rest = ceil(kUp * length * steps.of_rests / unit);
    // What the parts do not hold is subtracted as for the longest point.
    const double beyond = fmax(by_length - kMostByLength, 0.0) * (kLengthParts * kMost) +
                          fmax(by_rest - kMostByRest, 0.0) * (kRestParts * kMost);
    const double most = most_of_norm(s);
    norm = floor(half_norm * (1 - kRounded) / unit) - 1 - beyond;
    norm = exists ? fmin(norm, most) : most;
    too_far = norm < -most;
    if (too_far) norm = 0;
    whole_by_length = static_cast<long long>(exists ? fmin(by_length, kMostByLength) : 0.0);
    whole_by_rest = static_cast<long long>(exists ? fmin(by_rest, kMostByRest) : 0.0);
  }

  /// The warp: those columns of a row.
  __device__ __forceinline__ void store(const Extents& s, Byte* tile, int row) const {
    const auto whole_norm = static_cast<long long>(norm);
    const long long last = ((whole_norm % kMost) + kMost) % kMost;
    const long long first = (whole_norm - last) / kMost;
    for (int e = static_cast<int>(threadIdx.x) % 32; e < s.padded - s.d; e += 32) {
      int value = 0;
      if (e == 0) {
        value = static_cast<int>(last);
      } else if (e <= kLengthColumns) {
        value = -part_of(whole_by_length, (e - 1) % kByLengthParts);
      } else if (e < kOtherColumns) {
        value = -part_of(whole_by_rest, (e - 1 - kLengthColumns) % kByRestParts);
      } else {
        value = part_of(first, e - kOtherColumns);
      }
      tile[place_in_tile<Byte>(s.columns, row, static_cast<int>(s.d) + e)] =
          static_cast<Byte>(value);
    }
  }

  /// What upper and lower bounds are apart: by a point's length, by its rest, and by nothing.
  [[nodiscard]] __device__ __forceinline__ float4 widths(bool exists, const ByteSteps& steps,
                                                         float unit) const {
    const double wide_by_length =
        2 * fmax(rest, static_cast<double>(whole_by_length) * unit / steps.of_lengths);
    const double wide_by_rest =
        2 * fmax(length, static_cast<double>(whole_by_rest) * unit / steps.of_rests);
    const double wide = half_norm * (1 + 2 * kRounded) - norm * unit;
    return {__double2float_ru(kUp * wide_by_length + 0x1p-60),
            __double2float_ru(kUp * wide_by_rest + 0x1p-60),
            exists ? __double2float_ru(kUp * wide + 0x1p-60) : INFINITY, 0.0F};
  }
};

/// A warp a place in the order: the centroid's copy, less than zero, with the tile's step.
/// dev_units: per tile what an integer of the products is, and its inverse. dev_widths: per place,
/// ByteBound's. Places past the last centroid have the largest norm and no upper bound; the passes leave them out.
static __global__ void copy_centroids_kernel(const float* __restrict__ dev_centroids, Extents s,
                                             const float* __restrict__ dev_mean, double scale,
                                             ByteSteps steps, const float* __restrict__ dev_reaches,
                                             const std::int32_t* __restrict__ dev_order,
                                             Byte* __restrict__ dev_copy,
                                             float4* __restrict__ dev_widths,
                                             float2* __restrict__ dev_units,
                                             TensorState* __restrict__ dev_state) {
  await_kernels_before();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t place = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (place >= std::int64_t{s.centroid_tiles} * s.columns) return;
  Byte* tile = dev_copy + place / s.columns * s.columns * s.padded;
  const int row = static_cast<int>(place % s.columns);
  const float reach = reach_of_tile(s, place - row, dev_reaches, dev_order);
  const float step = step_above(reach / kMost);
  const float unit = __fmul_rn(steps.step, step);  // exactly
  const bool exists = place < s.k;
  const float* dev_own = dev_centroids + (exists ? std::int64_t{dev_order[place]} * s.d : 0);
  CopySquares squares;
  for (int t = lane; t < s.d; t += 32) {
    double c = 0;
    if (exists) c = (static_cast<double>(dev_own[t]) - dev_mean[t]) * scale;
    if (!(fabs(c) <= kFarthestCoordinate)) c = 0;  // divide_kernel says so
    const double copy = fmin(fmax(rint(c / step), -1.0 * kMost), 1.0 * kMost);
    squares.add(c, copy * step);
    tile[place_in_tile<Byte>(s.columns, row, t)] = static_cast<Byte>(-copy);
  }
  const ByteBound bound(squares, exists, s, steps, unit);
  if (bound.too_far && lane == 0) dev_state->too_far = 1;
  bound.store(s, tile, row);
  if (lane == 0) {
    dev_widths[place] = bound.widths(exists, steps, unit);
    if (row == 0) dev_units[place / s.columns] = {unit, __frcp_rn(unit)};
  }
}

}  // namespace kmeans::cuda
