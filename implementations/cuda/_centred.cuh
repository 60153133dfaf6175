// SPDX-License-Identifier: Apache-2.0
//
// The frame in which points and centroids are rounded to float16: the points' mean is the origin, and a
// power of two as the unit puts no point farther than 64 from it.
#pragma once

#include <cuda_fp16.h>

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

/// Column sums of the points, for their mean; order-dependent, which moves no label.
static __global__ void add_columns_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                          std::int64_t d, double* __restrict__ dev_sums) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= d) return;
  double sum = 0;
  for (std::int64_t i = blockIdx.y; i < n; i += gridDim.y) sum += dev_points[i * d + t];
  atomicAdd(&dev_sums[t], sum);
}

static __global__ void find_reach_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                         std::int64_t d, const double* __restrict__ dev_sums,
                                         float* __restrict__ dev_mean,
                                         unsigned* __restrict__ dev_reach) {
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

struct CopyFrame {
  DeviceBuffer<float> dev_mean;  // d
  double scale = 1;              // of what is left when the mean is subtracted
};

/// Half a squared distance less half the point's own squared norm may be negative. `added` to it, it is
/// not, nor are bounds below it that are near enough: so their bits order as integers, of which one
/// instruction compares three.
struct Bias {
  float longest = 0;  // of the points' copies
  float added = 0;

  /// Of the largest squared length, as note_square() leaves its bits.
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
  /// Are those of a centroid, whose bounds are so wide: by a point's length, by what rounding it to
  /// float16 left of it, and by nothing?
  [[nodiscard]] __device__ bool suffices(double by_length, double by_rest, double by_itself) const {
    const double rest = longest * 0x1p-10 + 0x1p-18;
    const double width = longest * by_length + rest * by_rest + by_itself;
    return 2 * width <= added - static_cast<double>(longest) * longest / 2;
  }
};

/// A point's squared length may be the largest.
__device__ inline void note_square(double square, unsigned* dev_largest) {
  const unsigned bits = __float_as_uint(__double2float_ru(square));
  if (bits > __ldcg(dev_largest)) atomicMax(dev_largest, bits);
}

/// Of points in device memory, n x d.
inline CopyFrame frame_of(const DeviceBuffer<float>& dev_points, std::int64_t n, std::int64_t d) {
  CopyFrame frame{DeviceBuffer<float>(d)};
  DeviceBuffer<double> dev_column_sums(d);
  DeviceBuffer<unsigned> dev_reach(1);
  dev_column_sums.zero();
  dev_reach.zero();
  const dim3 columns(static_cast<unsigned>(ceil_div(d, 32)), 512);
  add_columns_kernel<<<columns, 32>>>(dev_points.data(), n, d, dev_column_sums.data());
  KMEANS_CUDA_LAUNCHED(add_columns_kernel);
  find_reach_kernel<<<columns, 32>>>(dev_points.data(), n, d, dev_column_sums.data(),
                                     frame.dev_mean.data(), dev_reach.data());
  KMEANS_CUDA_LAUNCHED(find_reach_kernel);
  unsigned bits = 0;
  dev_reach.download(&bits);
  float reach = 0;
  std::memcpy(&reach, &bits, sizeof(reach));
  const double farthest = static_cast<double>(reach) * std::sqrt(static_cast<double>(d));
  if (farthest > 0) frame.scale = std::ldexp(1.0, 5 - std::ilogb(farthest));
  return frame;
}

}  // namespace kmeans::cuda
