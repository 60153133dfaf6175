// SPDX-License-Identifier: Apache-2.0
//
// Float16 copies of points and centroids, centred and scaled, as wgmma reads them from shared
// memory, with what their rounding can have changed.
#pragma once

#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_half_bounds.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_tensor_state.h"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

/// So many neighbouring lanes copy a row, every fourth group of kCoreHalves columns each: a warp reads
/// whole lines of 128 bytes, and writes such, since eight rows' groups lie next to each other in a tile.
constexpr int kLanesOfCopiedRow = 4;

/// Some columns of a row, zero from d on.
__device__ inline void load_group(const float* __restrict__ dev_row, std::int64_t d, int first,
                                  float (&x)[kCoreHalves]) {
  if (d % 4 == 0 && first + kCoreHalves <= d) {  // rows begin at whole 16 bytes
    const auto* dev_fours = reinterpret_cast<const float4*>(dev_row + first);
    const float4 a = dev_fours[0];
    const float4 b = dev_fours[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    return;
  }
#pragma unroll
  for (int e = 0; e < kCoreHalves; ++e) x[e] = first + e < d ? dev_row[first + e] : 0.0F;
}

/// The row's lanes copy a point (null: zero) to a row of the copy, and return (|x'|, |x' - x~|),
/// rounded up; in `square` the larger squared length of the two.
__device__ inline float2 copy_row(const float* __restrict__ dev_point, const Extents& s,
                                  const FrameView& frame, std::int64_t own_row,
                                  __half* __restrict__ dev_copy, float& square) {
  __half* tile = dev_copy + own_row / kTileRows * tile_elements(s);
  const int row = static_cast<int>(own_row % kTileRows);
  union Group {
    __half copies[kCoreHalves];
    uint4 whole;
    __device__ Group() : whole{} {}
  };
  const auto place = [&](int first, const Group& group) {
    *reinterpret_cast<uint4*>(tile + place_in_tile(kTileRows, row, first)) = group.whole;
  };
  CopiedRow copied;
  Group last;  // where the extra columns begin, or one of two behind it: at most one a lane
  int last_first = -1;
  for (int first = static_cast<int>(threadIdx.x) % kLanesOfCopiedRow * kCoreHalves;
       first < s.padded; first += kLanesOfCopiedRow * kCoreHalves) {
    Group group;
    if (dev_point != nullptr && first < s.d) {
      float x[kCoreHalves];
      float mean[kCoreHalves];
      load_group(dev_point, s.d, first, x);
      load_group(frame.dev_mean, s.d, first, mean);
#pragma unroll
      for (int e = 0; e < kCoreHalves; ++e) group.copies[e] = copied.add(x[e], mean[e], frame);
    }
    if (first + kCoreHalves <= s.d) {
      place(first, group);
    } else {
      last = group;
      last_first = first;
    }
  }
  copied.join(kLanesOfCopiedRow);
  square = copied.square();
  const __half length = copied.length();
  const __half rest = copied.rest();
  if (last_first >= 0) {
#pragma unroll
    for (int e = 0; e < kCoreHalves; ++e) {
      const auto extra = static_cast<int>(last_first + e - s.d);
      if (extra == 0 || extra == 1) last.copies[e] = __float2half(1.0F);
      if (extra == 2) last.copies[e] = length;
      if (extra == 3) last.copies[e] = rest;
    }
    place(last_first, last);
  }
  return {__half2float(length), __half2float(rest)};
}

/// Coordinates of rows past the end are zero. dev_lengths: (|x'|, |x' - x~|), rounded up, per
/// point.
static __global__ void copy_points_kernel(const float* __restrict__ dev_points, Extents s,
                                          FrameView frame, __half* __restrict__ dev_copy,
                                          float2* __restrict__ dev_lengths,
                                          unsigned* __restrict__ dev_largest) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanesOfCopiedRow;
  if (i >= s.point_tiles * kTileRows) return;
  float square = 0;
  const float2 lengths =
      copy_row(i < s.n ? dev_points + i * s.d : nullptr, s, frame, i, dev_copy, square);
  if (threadIdx.x % kLanesOfCopiedRow != 0) return;
  if (i < s.n) dev_lengths[i] = lengths;
  note_largest(square, dev_largest);
}

/// copy_points_kernel() of points that a list names, from its entry `first` on, of as many as
/// dev_count says; whole tiles. Of the state that counts what happens to them nothing has happened
/// yet.
static __global__ void copy_listed_points_kernel(const float* __restrict__ dev_points, Extents s,
                                                 FrameView frame,
                                                 const std::int32_t* __restrict__ dev_list,
                                                 const unsigned long long* __restrict__ dev_count,
                                                 std::int64_t first, __half* __restrict__ dev_copy,
                                                 float2* __restrict__ dev_lengths,
                                                 TensorState* __restrict__ dev_state) {
  await_kernels_before();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    dev_state->undecided = dev_state->pairs = dev_state->crowded = 0;
  }
  const std::int64_t count =
      min(max(static_cast<std::int64_t>(*dev_count) - first, std::int64_t{0}), s.n);
  const std::int64_t end = (count + kTileRows - 1) / kTileRows * kTileRows;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x / kLanesOfCopiedRow;
  for (std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanesOfCopiedRow;
       row < end; row += stride) {
    const float* dev_point =
        row < count ? dev_points + std::int64_t{dev_list[first + row]} * s.d : nullptr;
    float square = 0;
    const float2 lengths = copy_row(dev_point, s, frame, row, dev_copy, square);
    if (threadIdx.x % kLanesOfCopiedRow == 0 && row < count) dev_lengths[row] = lengths;
  }
}

/// Where in such a tile the `own`th centroid of a block is: a block's are those of which a matrix
/// instruction leaves the products in the same lanes, four blocks a lane of four.
__device__ inline int column_in_tile(int block, int own) {
  return (block % 4 * 4 + own / 2) * 8 + block / 4 * 2 + own % 2;
}

/// Where the copy of a centroid goes: a row of a tile and, unless that is null, of dev_rows.
struct CentroidPlace {
  std::int64_t j;
  int row;      // in the tile
  bool exists;  // j < k
  __half* tile;
  __half* dev_rows;

  __device__ __forceinline__ void store(const Extents& s, int t, __half value) const {
    tile[place_in_tile(s.columns, row, t)] = value;
    if (dev_rows != nullptr && exists) dev_rows[j * s.padded + t] = value;
  }
};

/// A warp: the mean of the cluster's points, unless it has none, and its copy, negated.
__device__ __forceinline__ CopySquares divide_and_copy(
    const CentroidPlace& place, const Integer* __restrict__ dev_sums, double inverse_scale,
    float* __restrict__ dev_centroids, const Extents& s, const float* __restrict__ dev_mean,
    double scale, TensorState* __restrict__ dev_state) {
  const Integer* sums = dev_sums + place.j * (s.d + 1);
  const auto count = place.exists && dev_sums != nullptr ? static_cast<long long>(sums[s.d]) : 0;
  CopySquares squares;
#pragma unroll 4
  for (int t = threadIdx.x % 32; t < s.d; t += 32) {
    double c = 0;
    if (place.exists) {
      float* dev_own = dev_centroids + place.j * s.d + t;
      if (count != 0) {
        *dev_own = exact_mean(static_cast<long long>(sums[t]), count, inverse_scale);
      }
      c = (static_cast<double>(*dev_own) - dev_mean[t]) * scale;
    }
    if (!(fabs(c) <= kFarthest)) {
      dev_state->too_far = 1;
      c = 0;
    }
    const __half copy = __double2half(c);
    squares.add(c, __half2float(copy));
    place.store(s, t, __hneg(copy));
  }
  return squares;
}

/// The warp: the extra columns of the centroid's copy. Returns its widths, in lane 0.
__device__ __forceinline__ __half2 store_bound(const CentroidPlace& place,
                                               const CopySquares& squares, const Extents& s,
                                               const Bias& bias,
                                               TensorState* __restrict__ dev_state) {
  constexpr double kUp = 1 + 0x1p-30;
  const double error = product_error(s.padded);
  double half_norm = warp_sum(squares.whole) / 2;
  if (half_norm + bias.added > kFarthestNorm) {  // as float16 below what fills up the last tile
    dev_state->too_far = 1;
    half_norm = 0;
  }
  const double length = kUp * sqrt(warp_sum(squares.copy));
  const double rest = kUp * sqrt(warp_sum(squares.rest));
  // |x'.c' - x~.c~| <= |x'| |c' - c~| + |x' - x~| |c~|; the products' own error by |x~| |c~|.
  const double above = above_product_error(error);
  const __half by_length = half_up((rest + error * length) * above);
  const __half by_rest = half_up(length * above);
  if (threadIdx.x % 32 != 0) return {};
  // Its two parts together are 2^-22 of it off, and where they are tiny 2^-25.
  const double low =
      half_norm * (1 - norm_share(error)) - kTinyNorm + bias.added * (1 - double{kBiasError});
  if (!bias.suffices(2 * static_cast<double>(__half2float(by_length)),
                     2 * static_cast<double>(__half2float(by_rest)),
                     2 * half_norm * norm_share(error) + 2 * kBiasError * bias.added + 0x1p-21)) {
    dev_state->too_far = 1;
  }
  const __half high_part = __double2half(place.exists ? low : 60000.0);
  const __half low_part =
      __double2half(place.exists ? low - static_cast<double>(__half2float(high_part)) : 0.0);
  const __half extra[kExtra] = {high_part, low_part, __hneg(by_length), __hneg(by_rest)};
  for (int e = 0; e < s.padded - s.d; ++e) {
    place.store(s, static_cast<int>(s.d) + e, e < kExtra ? extra[e] : __float2half(0.0F));
  }
  // 2 (|x'| by_length + |x' - x~| by_rest), and above the roundings of that.
  return {half_up(2.0002 * static_cast<double>(__half2float(by_length))),
          half_up(2.0002 * static_cast<double>(__half2float(by_rest)))};
}

/// A warp a centroid: the mean of its cluster's points by dev_sums (k x (d + 1), the count last),
/// unless that is null or it has none; its copy, in tiles and, unless dev_rows is null, row by row.
/// Those past the end lie too far away to be nearest. dev_widths: as above; dev_widest: the largest
/// of each block of them. too_far is false before.
static __global__ void __launch_bounds__(kCopyThreads)
    divide_and_copy_kernel(const Integer* __restrict__ dev_sums, double inverse_scale,
                           float* __restrict__ dev_centroids, Extents s,
                           const float* __restrict__ dev_mean, double scale, Bias bias,
                           __half* __restrict__ dev_copy, __half* __restrict__ dev_rows,
                           __half2* __restrict__ dev_widths, __half2* __restrict__ dev_widest,
                           TensorState* __restrict__ dev_state) {
  __shared__ __half2 widths[kWidthBlock];
  await_kernels_before();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    dev_state->undecided = dev_state->pairs = dev_state->crowded = 0;
  }
  const int own = static_cast<int>(threadIdx.x) / 32;
  const int blocks = s.columns / kWidthBlock;  // of a tile
  const int block = static_cast<int>(blockIdx.x) % blocks;
  const int row =
      s.columns == kWidestColumns ? column_in_tile(block, own) : block * kWidthBlock + own;
  const std::int64_t j = std::int64_t{blockIdx.x} / blocks * s.columns + row;
  const CentroidPlace place{.j = j,
                            .row = row,
                            .exists = j < s.k,
                            .tile = dev_copy + (j - row) * s.padded,
                            .dev_rows = dev_rows};
  const CopySquares squares =
      divide_and_copy(place, dev_sums, inverse_scale, dev_centroids, s, dev_mean, scale, dev_state);
  const __half2 both = store_bound(place, squares, s, bias, dev_state);
  if (threadIdx.x % 32 == 0) {
    dev_widths[j] = both;
    widths[own] = both;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  __half2 widest = widths[0];
#pragma unroll
  for (int other = 1; other < kWidthBlock; ++other) widest = __hmax2(widest, widths[other]);
  dev_widest[blockIdx.x] = widest;
}

}  // namespace kmeans::cuda
