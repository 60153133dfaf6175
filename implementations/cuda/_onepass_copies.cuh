// SPDX-License-Identifier: Apache-2.0
//
// cuda_onepass: the float16 copies of points and centroids, as matrix instructions read them, and
// the bounds on what they round (docs/gpu-bounds.md).
#pragma once

#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_onepass_plan.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace kmeans::cuda::onepass {

constexpr double kFarthest = 32768;   // a scaled coordinate that float16 holds
constexpr float kFarFromAll = 1e30F;  // half squared norm of a column without centroid: above all
constexpr double kFarthestWide = 30000;  // half a squared norm and the bias: below kFarFromAllWide
constexpr double kFarFromAllWide = 60000;
constexpr float kNoBound = 1e30F;
constexpr double kUp = 1 + 0x1p-20;  // above the roundings of sums, roots and what they enter

/// A lane's part of a column: the new centroid, and its copy.
struct ColumnCopy {
  CopySquares squares;
  bool far = false;  // a coordinate is beyond float16

  /// A lane's coordinates of centroid j. sums: its sums, to divide by `count` where that is not 0.
  __device__ __forceinline__ void write(const PassArguments& args, int j, const Integer* sums,
                                        long long count, int steps, int pitch, __half* block) {
    const bool exists = j < args.k;
    for (int t = static_cast<int>(threadIdx.x) % kLanes; t < steps * kMmaDepth; t += kLanes) {
      double c = 0;
      if (exists && t < args.d) {
        float* dev_own = args.dev_centroids + j * args.d + t;
        if (count != 0)
          *dev_own = exact_mean(static_cast<long long>(sums[t]), count, args.inverse_scale);
        args.dev_transposed[t * pitch + j] = *dev_own;
        c = (static_cast<double>(*dev_own) - args.dev_mean[t]) * args.copy_scale;
      }
      if (!(fabs(c) <= kFarthest)) far = true, c = 0;
      const __half copy = __double2half(c);
      squares.add(c, __half2float(copy));
      const int place = args.wide ? place_in_tile(args.columns, j, t)
                                  : place_in_columns(steps, j % kMmaColumns, t);
      block[place] = __hneg(copy);
    }
  }
};

/// A warp, wide: column j in the step of the norms, two float16 parts.
__device__ __forceinline__ void write_norm_step(const PassArguments& args, int j, int steps,
                                                double norm, __half* block) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane >= kMmaDepth) return;
  const __half high = __double2half(norm);
  const __half low = __double2half(norm - static_cast<double>(__half2float(high)));
  const __half none = __float2half(0.0F);
  block[place_in_tile(args.columns, j, steps * kMmaDepth + lane)] =
      lane == 0 ? high : (lane == 1 ? low : none);
}

/// A warp a column: the new centroid, if dev_totals (k x (d + 1)) are given, its copies, and what
/// rounding one of them can have changed.
static __global__ void move_centroids_kernel(PassArguments args,
                                             const Integer* __restrict__ dev_totals, int steps,
                                             int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int j = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kLanes);
  const bool exists = j < args.k;
  if (!exists && j < pitch) {
    for (int t = lane; t < args.d; t += kLanes) args.dev_transposed[t * pitch + j] = INFINITY;
  }
  if (j >= args.columns) return;
  const Integer* sums = dev_totals + std::int64_t{j} * (args.d + 1);
  const auto count = exists && dev_totals != nullptr ? static_cast<long long>(sums[args.d]) : 0;
  __half* block = args.dev_columns + (args.wide ? 0 : j / kMmaColumns * steps * (kColumnPiece / 2));
  ColumnCopy copy;
  copy.write(args, j, sums, count, steps, pitch, block);
  bool far = __any_sync(kAllLanes, copy.far);
  // Products of some columns and the sum before are aligned to the largest and cut: of each step at
  // most twenty terms, if four products are added at a time, lose 2^-23 of all magnitudes. The
  // comparisons' own roundings are within 2^-20 of them.
  const double share = (steps + (args.wide ? 2 : 1)) * 20 * 0x1p-23 + 0x1p-20;
  const double half_norm = warp_sum(copy.squares.whole) / 2 + args.bias.added;
  const double length = kUp * sqrt(warp_sum(copy.squares.copy));
  const double rest = kUp * sqrt(warp_sum(copy.squares.rest));
  if (args.wide) {
    if (half_norm > kFarthestWide) far = true;
    write_norm_step(args, j, steps, exists && !far ? half_norm : kFarFromAllWide, block);
  }
  if (lane != 0) return;
  const double by_length = kUp * (rest + share * length + 0x1p-24);
  // Two parts of a norm are 2^-22 of it off, or 2^-25.
  const double by_itself = kUp * ((share + (args.wide ? 0x1p-22 : 0)) * half_norm + 0x1p-23);
  far = far || !args.bias.suffices(by_length, length, by_itself);
  args.dev_half_norms[j] = exists ? static_cast<float>(half_norm) : kFarFromAll;
  args.dev_margins[j] = far ? float4{kNoBound, kNoBound, kNoBound, 0}
                            : float4{static_cast<float>(by_length), static_cast<float>(length),
                                     static_cast<float>(by_itself), 0};
}

constexpr int kLanesOfRow = kMmaDepth / 2;

/// kLanesOfRow lanes a point, two neighbouring coordinates at a time.
static __global__ void copy_points_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                          int d, FrameView frame, int steps, std::int64_t rows,
                                          __half* __restrict__ dev_rows,
                                          __half2* __restrict__ dev_lengths,
                                          unsigned* __restrict__ dev_largest) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanesOfRow;
  if (i >= rows) return;
  const int row = static_cast<int>(i % kPairRows);
  __half* pair = dev_rows + i / kPairRows * steps * kRowPiece;  // halves: two blocks
  CopiedRow copied;
  const auto copy = [&](int t) {
    if (i >= n || t >= d) return __float2half(0.0F);
    return copied.add(dev_points[i * d + t], frame.dev_mean[t], frame);
  };
  for (int t = static_cast<int>(threadIdx.x) % kLanesOfRow * 2; t < steps * kMmaDepth;
       t += kMmaDepth) {
    const __half even = copy(t);
    *reinterpret_cast<__half2*>(&pair[place_in_rows(steps, row, t)]) = {even, copy(t + 1)};
  }
  copied.join(kLanesOfRow);
  if (threadIdx.x % kLanesOfRow != 0) return;
  dev_lengths[(i / kPairRows * 8 + row % 8) * 4 + row / 8] = {copied.length(), copied.rest()};
  note_largest(copied.square(), dev_largest);
}

}  // namespace kmeans::cuda::onepass
