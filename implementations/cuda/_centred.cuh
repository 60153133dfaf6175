// SPDX-License-Identifier: Apache-2.0
//
// The frame in which points and centroids are rounded to float16: the origin is the points' mean,
// and a power of two scales so that no point is farther than 64 from it.
#pragma once

#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

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

/// A lane's sums over coordinates, scaled: of a row, of its copy, and of what the copy lacks.
struct CopySquares {
  double whole = 0;
  double copy = 0;
  double rest = 0;

  __device__ __forceinline__ void add(double x, double kept) {
    whole += x * x;
    copy += kept * kept;
    rest += (x - kept) * (x - kept);
  }
};

/// The maximum of numbers >= 0, kept as bits, which order as the numbers do.
__device__ inline void note_largest(float value, unsigned* dev_largest) {
  const unsigned bits = __float_as_uint(value);
  if (bits > __ldcg(dev_largest)) atomicMax(dev_largest, bits);
}

constexpr int kFrameThreads = 256;
constexpr std::int64_t kSampledRows = 16384;  // of which the mean is formed

/// The coordinates of a thread: one column, in rows at a stride. blockIdx.y counts pieces of
/// kFrameThreads columns.
struct OwnColumn {
  int columns;         // of a block
  int rows_at_a_time;  // of a block
  std::int64_t t;
  std::int64_t row;
  bool active;
  bool first_row;  // of the block's

  __device__ explicit OwnColumn(std::int64_t d)
      : columns(static_cast<int>(min(d, std::int64_t{kFrameThreads}))),
        rows_at_a_time(kFrameThreads / columns) {
    const int thread = static_cast<int>(threadIdx.x);
    t = std::int64_t{blockIdx.y} * kFrameThreads + thread % columns;
    row = std::int64_t{blockIdx.x} * rows_at_a_time + thread / columns;
    active = t < d && thread < rows_at_a_time * columns;
    first_row = thread < columns && t < d;
  }
};

/// As note_largest() keeps them.
struct Reach {
  unsigned of_points;  // |x - mean|
  unsigned of_mean;    // |mean|
};

/// Sums of each column over every step-th point. They depend on the order of the additions, which
/// changes no label: any origin is right.
static __global__ void __launch_bounds__(kFrameThreads)
    add_columns_kernel(const float* __restrict__ dev_points, std::int64_t rows, std::int64_t step,
                       std::int64_t d, double* __restrict__ dev_sums) {
  __shared__ double sums[kFrameThreads];
  const OwnColumn own(d);
  double sum = 0;
  if (own.active) {
#pragma unroll 8
    for (std::int64_t r = own.row; r < rows; r += std::int64_t{gridDim.x} * own.rows_at_a_time) {
      sum += dev_points[r * step * d + own.t];
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (!own.first_row) return;
  for (int r = 1; r < own.rows_at_a_time; ++r) sum += sums[threadIdx.x + r * own.columns];
  atomicAdd(&dev_sums[own.t], sum);
}

/// The mean, from dev_sums over `rows` rows. Then the largest |x - mean| of all coordinates of every step-th point, and
/// the largest |mean|.
static __global__ void __launch_bounds__(kFrameThreads)
    find_reach_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t step,
                      std::int64_t d, const double* __restrict__ dev_sums, std::int64_t rows,
                      float* __restrict__ dev_mean, Reach* __restrict__ dev_reach) {
  const OwnColumn own(d);
  float reach = 0;
  if (own.active) {
    const float mean = static_cast<float>(dev_sums[own.t] / static_cast<double>(rows));
    if (blockIdx.x == 0 && own.first_row) {
      dev_mean[own.t] = mean;
      note_largest(fabsf(mean), &dev_reach->of_mean);
    }
#pragma unroll 8
    for (std::int64_t i = own.row; i < n; i += std::int64_t{gridDim.x} * own.rows_at_a_time) {
      reach = fmaxf(reach, fabsf(dev_points[i * step * d + own.t] - mean));
    }
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    reach = fmaxf(reach, __shfl_xor_sync(kAllLanes, reach, distance));
  }
  if (threadIdx.x % kLanes == 0) note_largest(reach, &dev_reach->of_points);
}

/// The frame as kernels take it. The scale is a product of two powers of two, as it may exceed
/// float32.
struct FrameView {
  const float* dev_mean;
  float scale;
  float scale_too;

  /// value * scale, for a value less the mean: exact, but for results below 2^-126.
  [[nodiscard]] __device__ float scaled(float value) const {
    return __fmul_rn(__fmul_rn(value, scale), scale_too);
  }
};

struct CopyFrame {
  DeviceBuffer<float> dev_mean;  // d
  double scale = 1;              // x' = (x - mean) * scale

  [[nodiscard]] FrameView view() const {
    const int exponent = std::ilogb(scale);
    return {dev_mean.data(), std::ldexp(1.0F, exponent / 2),
            std::ldexp(1.0F, exponent - exponent / 2)};
  }
};

/// A row that is rounded to float16, with a lane's part of the squared lengths of x', of its copy
/// x~ and of their difference, all rounded up.
class CopiedRow {
 public:
  __device__ __half add(float x, float mean, const FrameView& frame) {
    // x - mean = difference + rounded_by, exactly.
    const float difference = __fsub_rn(x, mean);
    const float back = __fsub_rn(difference, x);
    const float rounded_by =
        __fsub_rn(__fsub_rn(x, __fsub_rn(difference, back)), __fadd_rn(mean, back));
    const float value = frame.scaled(difference);
    const float left = fabsf(frame.scaled(rounded_by));
    const __half copy = __float2half_rn(value);
    const float kept = __half2float(copy);
    const float length = __fadd_ru(fabsf(value), left);
    const float rest = __fadd_ru(fabsf(__fsub_rn(value, kept)), left);  // that difference is exact
    squared_ = __fmaf_ru(length, length, squared_);
    squared_copy_ = __fmaf_ru(kept, kept, squared_copy_);
    squared_rest_ = __fmaf_ru(rest, rest, squared_rest_);
    return copy;
  }

  /// Adds the parts of `lanes` neighbouring lanes, a power of two.
  __device__ void join(int lanes) {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      const auto others = [&](float& sum) {
        sum = __fadd_ru(sum, __shfl_xor_sync(kAllLanes, sum, distance));
      };
      others(squared_);
      others(squared_copy_);
      others(squared_rest_);
    }
  }

  /// The larger squared length of x' and x~.
  [[nodiscard]] __device__ float square() const { return fmaxf(squared_, squared_copy_); }
  [[nodiscard]] __device__ __half length() const { return __float2half_ru(__fsqrt_ru(square())); }
  [[nodiscard]] __device__ __half rest() const {
    return __float2half_ru(__fsqrt_ru(squared_rest_));
  }

 private:
  float squared_ = 0;
  float squared_copy_ = 0;
  float squared_rest_ = 0;
};

/// A number added to (squared distance - squared norm of the point) / 2, which may be negative. The
/// sum and its bounds are not, so that their bits order as integers, of which one instruction
/// compares three.
struct Bias {
  float longest = 0;  // of the lengths of the points' copies
  float added = 0;

  /// From the largest squared length, as note_largest() keeps it.
  static Bias of(const DeviceBuffer<unsigned>& dev_largest) {
    unsigned bits = 0;
    dev_largest.download(&bits);
    float largest = 0;
    std::memcpy(&largest, &bits, sizeof(bits));
    Bias bias;
    bias.longest =
        std::sqrt(largest) * (1 + 0x1p-9F);  // above lengths that are rounded up to float16
    bias.added = 0.5625F * bias.longest * bias.longest + 0x1p-4F;
    return bias;
  }
  /// Are all bounds for a centroid >= 0? Their width is by_length times a point's length, plus
  /// by_rest times the length of its rounding error, plus by_itself.
  [[nodiscard]] __device__ bool suffices(double by_length, double by_rest, double by_itself) const {
    const double rest = longest * 0x1p-10 + 0x1p-18;
    const double width = longest * by_length + rest * by_rest + by_itself;
    return 2 * width <= added - static_cast<double>(longest) * longest / 2;
  }
};

/// The frame of n x d points in device memory. max_abs: their largest |coordinate|; 0: it is not known.
inline CopyFrame frame_of(const float* dev_points, std::int64_t n, std::int64_t d, float max_abs) {
  CopyFrame frame{DeviceBuffer<float>(d)};
  DeviceBuffer<double> dev_column_sums(d);
  DeviceBuffer<Reach> dev_reach(1);
  dev_column_sums.zero();
  dev_reach.zero();
  const std::int64_t step = std::max<std::int64_t>(1, n / kSampledRows);
  const std::int64_t rows = ceil_div(n, step);
  const auto blocks_of = [&](std::int64_t count) {
    const std::int64_t at_a_time = kFrameThreads / std::min<std::int64_t>(d, kFrameThreads);
    const std::int64_t pieces = ceil_div(d, kFrameThreads);
    const std::int64_t most = std::max<std::int64_t>(1, 132 * 8 / pieces);
    return dim3(static_cast<unsigned>(std::min(most, ceil_div(count, at_a_time * 8))),
                static_cast<unsigned>(pieces));
  };
  add_columns_kernel<<<blocks_of(rows), kFrameThreads>>>(dev_points, rows, step, d,
                                                         dev_column_sums.data());
  KMEANS_CUDA_LAUNCHED(add_columns_kernel);
  const auto find_reach = [&](std::int64_t count, std::int64_t apart) {
    find_reach_kernel<<<blocks_of(count), kFrameThreads>>>(dev_points, count, apart, d,
                                                           dev_column_sums.data(), rows,
                                                           frame.dev_mean.data(), dev_reach.data());
    KMEANS_CUDA_LAUNCHED(find_reach_kernel);
    Reach found{};
    dev_reach.download(&found);
    return found;
  };
  // A bound serves as well as the farthest point, unless it is far beyond the points. Then all are looked at.
  constexpr double kLoosest = 4;
  Reach found = find_reach(rows, step);
  double reach = double{max_abs} + std::bit_cast<float>(found.of_mean);
  if (step == 1 || max_abs == 0 || reach > kLoosest * std::bit_cast<float>(found.of_points)) {
    if (step > 1) found = find_reach(n, 1);
    reach = std::bit_cast<float>(found.of_points);
  }
  const double farthest = reach * std::sqrt(static_cast<double>(d));
  if (farthest > 0) frame.scale = std::ldexp(1.0, 5 - std::ilogb(farthest));
  return frame;
}

}  // namespace kmeans::cuda
