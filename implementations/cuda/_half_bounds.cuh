// SPDX-License-Identifier: Apache-2.0
//
// What float16 copies and their products may be off by (docs/gpu-bounds.md).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "implementations/cuda/_centred.cuh"

namespace kmeans::cuda {

constexpr int kExtra = 4;  // columns for norms and bounds
constexpr double kFarthestNorm = 30000;
constexpr double kTinyNorm = 0x1p-24;  // the step of the smallest float16
/// Of the bias: it enters with the norms, in the last two steps of a product at the earliest, each
/// of which may lose 17 times 2^-23 of it, in two parts, 2^-22 off: 36 times 2^-23, of 64.
constexpr float kBiasError = 0x1p-17F;
constexpr double kFarthest = 256;  // a scaled coordinate that float16 holds with its squared norm

/// What accumulating products of float16 in the tensor cores may be off by, as a share of the sum
/// of their magnitudes: they align the products of 16 columns and the sum before to the largest of
/// them and cut off, so each of the 17 may lose 2^-23 of it, once for every 16 columns. The last
/// summand is above what products lose of what those before lost, up to kMostProducts.
__host__ __device__ constexpr double product_error(std::int64_t padded) {
  return static_cast<double>(padded / 16 + 1) * 17 * 0x1p-23;
}
/// Above 1 / (1 - error): what the bound's own terms lose of themselves.
__host__ __device__ constexpr double above_product_error(double error) { return 1 + 2 * error; }
/// Of a centroid's halved squared norm, what it is lowered by, and what its upper bound is raised
/// by: the products' error, float16's two parts and float64's roundings.
__host__ __device__ constexpr double norm_share(double error) {
  return error * above_product_error(error) + 0x1p-20;
}

/// Columns of a copy: the coordinates and the extra ones, whole steps of the matrix instruction.
inline std::int64_t padded_for(std::int64_t d) { return (d + kExtra + 15) / 16 * 16; }

/// Upper less lower bound of half a squared distance is at most X a + R b and two shares of the
/// centroid's halved squared norm, which is at most (a + b)^2 / 8; X, R: of the point
/// (dev_lengths), a, b: of the centroid (dev_widths). Those shares, and as much again as float64
/// rounds; and twice what the bias is off by:
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

}  // namespace kmeans::cuda
