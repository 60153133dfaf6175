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
#include "implementations/cuda/_search.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda {

constexpr int kExtra = 4;  // columns for norms and bounds
constexpr double kFarthestNorm = 30000;
constexpr double kTinyNorm = 0x1p-24;  // the step of the smallest float16
/// Of the bias: it enters with the norms, in the last two steps of a product at the earliest, each of which
/// may lose 17 times 2^-23 of it, in two parts, 2^-22 off: 36 times 2^-23, of 64.
constexpr float kBiasError = 0x1p-17F;
constexpr double kFarthest = 256;  // a scaled coordinate that float16 holds with its squared norm

/// What accumulating products of float16 in the tensor cores may be off by, as a share of the sum
/// of their magnitudes: they align the products of 16 columns and the sum before to the largest of
/// them and cut off, so each of the 17 may lose 2^-23 of it, once for every 16 columns. The last summand is above what
/// products lose of what those before lost, up to kMostProducts.
__host__ __device__ constexpr double product_error(std::int64_t padded) {
  return static_cast<double>(padded / 16 + 1) * 17 * 0x1p-23;
}
/// Above 1 / (1 - error): what the bound's own terms lose of themselves.
__host__ __device__ constexpr double above_product_error(double error) { return 1 + 2 * error; }
/// Of a centroid's halved squared norm, what it is lowered by, and what its upper bound is raised by: the products'
/// error, float16's two parts and float64's roundings.
__host__ __device__ constexpr double norm_share(double error) {
  return error * above_product_error(error) + 0x1p-20;
}

/// Columns of a copy: the coordinates and the extra ones, whole steps of the matrix instruction.
inline std::int64_t padded_for(std::int64_t d) { return (d + kExtra + 15) / 16 * 16; }

/// A warp copies a point (null: zero) to a row of the copy, and returns (|x'|, |x' - x~|), rounded up; in `square` the
/// larger squared length of the two.
__device__ inline float2 copy_row(const float* __restrict__ dev_point, const Extents& s,
                                  const float* __restrict__ dev_mean, double scale,
                                  std::int64_t own_row, __half* __restrict__ dev_copy,
                                  double& square) {
  const int lane = threadIdx.x % 32;
  __half* tile = dev_copy + own_row / kTileRows * tile_elements(s);
  const int row = static_cast<int>(own_row % kTileRows);
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  for (int t = lane; t < s.padded; t += 32) {
    double x = 0;
    if (dev_point != nullptr && t < s.d)
      x = (static_cast<double>(dev_point[t]) - dev_mean[t]) * scale;
    const __half copy = __double2half(x);
    const double kept = __half2float(copy);
    squared += x * x;
    squared_copy += kept * kept;
    squared_rest += (x - kept) * (x - kept);
    if (t < s.d) tile[place_in_tile(kTileRows, row, t)] = copy;
  }
  constexpr double kUp = 1 + 0x1p-30;  // above the roundings of these sums and roots
  square = fmax(warp_sum(squared), warp_sum(squared_copy));
  const __half length = half_up(kUp * sqrt(square));
  const __half rest = half_up(kUp * sqrt(warp_sum(squared_rest)));
  if (lane == 0) {
    const __half one = __float2half(1.0F);
    const __half extra[kExtra] = {one, one, length, rest};
    for (int e = 0; e < s.padded - s.d; ++e) {
      tile[place_in_tile(kTileRows, row, static_cast<int>(s.d) + e)] =
          e < kExtra ? extra[e] : __float2half(0.0F);
    }
  }
  return {__half2float(length), __half2float(rest)};
}

/// A warp a row. Coordinates of rows past the end are zero. dev_lengths: (|x'|, |x' - x~|), rounded up, per point.
static __global__ void copy_points_kernel(const float* __restrict__ dev_points, Extents s,
                                          const float* __restrict__ dev_mean, double scale,
                                          __half* __restrict__ dev_copy,
                                          float2* __restrict__ dev_lengths,
                                          unsigned* __restrict__ dev_largest) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= s.point_tiles * kTileRows) return;
  double square = 0;
  const float2 lengths =
      copy_row(i < s.n ? dev_points + i * s.d : nullptr, s, dev_mean, scale, i, dev_copy, square);
  if (threadIdx.x % 32 != 0) return;
  if (i < s.n) dev_lengths[i] = lengths;
  note_square(square, dev_largest);
}

/// Launches that kernel for all points, and returns what makes their bounds positive.
inline Bias copy_points(const DeviceBuffer<float>& dev_points, const Extents& extents,
                        const CopyFrame& frame, const DeviceBuffer<__half>& dev_copy,
                        const DeviceBuffer<float2>& dev_lengths) {
  const DeviceBuffer<unsigned> dev_largest(1);
  dev_largest.zero();
  copy_points_kernel<<<blocks_for(extents.point_tiles * kTileRows * 32, 256), 256>>>(
      dev_points.data(), extents, frame.dev_mean.data(), frame.scale, dev_copy.data(),
      dev_lengths.data(), dev_largest.data());
  KMEANS_CUDA_LAUNCHED(copy_points_kernel);
  return Bias::of(dev_largest);
}

/// copy_points_kernel() of points that a list names, from its entry `first` on, of as many as dev_count says; whole
/// tiles. Of the state that counts what happens to them nothing has happened yet.
static __global__ void copy_listed_points_kernel(const float* __restrict__ dev_points, Extents s,
                                                 const float* __restrict__ dev_mean, double scale,
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
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x / 32;
  for (std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; row < end;
       row += stride) {
    const float* dev_point =
        row < count ? dev_points + std::int64_t{dev_list[first + row]} * s.d : nullptr;
    double square = 0;
    const float2 lengths = copy_row(dev_point, s, dev_mean, scale, row, dev_copy, square);
    if (threadIdx.x % 32 == 0 && row < count) dev_lengths[row] = lengths;
  }
}

/// Upper less lower bound of half a squared distance is at most X a + R b and two shares of the centroid's
/// halved squared norm, which is at most (a + b)^2 / 8; X, R: of the point (dev_lengths), a, b: of the
/// centroid (dev_widths). Those shares, and as much again as float64 rounds; and twice what the bias
/// is off by:
struct BoundShares {
  float by_norm;
  float always;
};
inline BoundShares bound_shares(std::int64_t d, const Bias& bias) {
  const double shares = 2 * norm_share(product_error(padded_for(d)));
  return {.by_norm = static_cast<float>((shares + 0x1p-28) / 8 * 1.001),
          .always = 0x1p-21F + 2.002F * kBiasError * bias.added};
}
__device__ inline float bound_width(const float2& point, const __half2& centroid,
                                    const BoundShares& shares) {
  const float2 w = __half22float2(centroid);
  const float sum = w.x + w.y;
  // The float64 definition's own rounding is 2^-40 of the squared lengths at most.
  const float rest =
      __fmaf_rn(sum * sum, shares.by_norm, __fmaf_rn(point.x * point.x, 0x1p-30F, shares.always));
  return __fmaf_rn(point.x, w.x, __fmaf_rn(point.y, w.y, rest));
}

constexpr int kCopyThreads = 256;
constexpr int kWidthBlock = kCopyThreads / 32;  // centroids whose largest widths are kept
constexpr int kWidestColumns = 128;             // of tiles for which they are

/// Where in such a tile the `own`th centroid of a block is: a block's are those of which a matrix instruction
/// leaves the products in the same lanes, four blocks a lane of four.
__device__ inline int column_in_tile(int block, int own) {
  return (block % 4 * 4 + own / 2) * 8 + block / 4 * 2 + own % 2;
}

/// A warp a centroid: the mean of its cluster's points by dev_sums (k x (d + 1), the count last), unless
/// that is null or it has none; its copy, in tiles and, unless dev_rows is null, row by row. Those past the end lie
/// too far away to be nearest. dev_widths: as above; dev_widest: the largest of each block of them. too_far is
/// false before.
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
  const int lane = threadIdx.x % 32;
  const int own = static_cast<int>(threadIdx.x) / 32;
  const int blocks = s.columns / kWidthBlock;  // of a tile
  const int block = static_cast<int>(blockIdx.x) % blocks;
  const int row =
      s.columns == kWidestColumns ? column_in_tile(block, own) : block * kWidthBlock + own;
  const std::int64_t j = std::int64_t{blockIdx.x} / blocks * s.columns + row;
  __half* tile = dev_copy + (j - row) * s.padded;
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  const bool exists = j < s.k;
  const auto place = [&](int t, __half value) {
    tile[place_in_tile(s.columns, row, t)] = value;
    if (dev_rows != nullptr && exists) dev_rows[j * s.padded + t] = value;
  };
  const Integer* sums = dev_sums + j * (s.d + 1);
  const auto count = exists && dev_sums != nullptr ? static_cast<long long>(sums[s.d]) : 0;
#pragma unroll 4
  for (int t = lane; t < s.d; t += 32) {
    double c = 0;
    if (exists) {
      float* dev_own = dev_centroids + j * s.d + t;
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
    const double kept = __half2float(copy);
    squared += c * c;
    squared_copy += kept * kept;
    squared_rest += (c - kept) * (c - kept);
    place(t, __hneg(copy));
  }
  constexpr double kUp = 1 + 0x1p-30;
  const double error = product_error(s.padded);
  double half_norm = warp_sum(squared) / 2;
  if (half_norm + bias.added > kFarthestNorm) {  // as float16 below what fills up the last tile
    dev_state->too_far = 1;
    half_norm = 0;
  }
  const double length = kUp * sqrt(warp_sum(squared_copy));
  const double rest = kUp * sqrt(warp_sum(squared_rest));
  // |x'.c' - x~.c~| <= |x'| |c' - c~| + |x' - x~| |c~|; the products' own error by |x~| |c~|.
  const double above = above_product_error(error);
  const __half by_length = half_up((rest + error * length) * above);
  const __half by_rest = half_up(length * above);
  if (lane == 0) {
    // Its two parts together are 2^-22 of it off, and where they are tiny 2^-25.
    const double low =
        half_norm * (1 - norm_share(error)) - kTinyNorm + bias.added * (1 - double{kBiasError});
    if (!bias.suffices(2 * static_cast<double>(__half2float(by_length)),
                       2 * static_cast<double>(__half2float(by_rest)),
                       2 * half_norm * norm_share(error) + 2 * kBiasError * bias.added + 0x1p-21)) {
      dev_state->too_far = 1;
    }
    const __half high_part = __double2half(exists ? low : 60000.0);
    const __half low_part =
        __double2half(exists ? low - static_cast<double>(__half2float(high_part)) : 0.0);
    const __half extra[kExtra] = {high_part, low_part, __hneg(by_length), __hneg(by_rest)};
    for (int e = 0; e < s.padded - s.d; ++e) {
      place(static_cast<int>(s.d) + e, e < kExtra ? extra[e] : __float2half(0.0F));
    }
    // 2 (|x'| by_length + |x' - x~| by_rest), and above the roundings of that.
    const __half2 both = {half_up(2.0002 * static_cast<double>(__half2float(by_length))),
                          half_up(2.0002 * static_cast<double>(__half2float(by_rest)))};
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
