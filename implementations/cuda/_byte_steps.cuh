// SPDX-License-Identifier: Apache-2.0
//
// Bytes for points: how far they reach, and in which units their lengths are counted, by a sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>

#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_plan.cuh"

namespace kmeans::cuda {

using Byte = std::int8_t;

constexpr int kMost = 127;  // of a byte
// Columns next to the coordinates: the norm's last digit; the lengths of points and of their rests,
// each in parts, times those of the centroids; the rest of a row holds the norm's first digit, in
// parts.
constexpr int kLengthParts = 2;    // of a point's
constexpr int kRestParts = 2;      // the same
constexpr int kByLengthParts = 2;  // of a centroid's
constexpr int kByRestParts = 3;
constexpr int kLengthColumns = kLengthParts * kByLengthParts;
constexpr int kOtherColumns = 1 + kLengthColumns + kRestParts * kByRestParts;
constexpr float kLeastStep = 0x1p-40F;

/// Columns of a copy, whole products. Half a squared norm in units is some 540 d of points as
/// centroids, of which a column holds 127 squared.
inline std::int64_t padded_bytes_for(std::int64_t d) {
  const std::int64_t extra = kOtherColumns + std::max<std::int64_t>(8, d / 26);
  return (d + extra + kProductBytes - 1) / kProductBytes * kProductBytes;
}

/// A step of twelve bits that is not less: the product of two of them is a float.
__host__ __device__ inline float step_above(float value) {
  unsigned bits = 0;
#if defined(__CUDA_ARCH__)
  bits = __float_as_uint(value);
#else
  std::memcpy(&bits, &value, sizeof(bits));
#endif
  bits = (bits + 0xfff) & ~0xfffU;
#if defined(__CUDA_ARCH__)
  value = __uint_as_float(bits);
#else
  std::memcpy(&value, &bits, sizeof(bits));
#endif
  return value > kLeastStep ? value : kLeastStep;
}

/// Of the points' copies: a coordinate's step, and the units of the lengths that bounds multiply.
struct ByteSteps {
  float step;
  double of_lengths;
  double of_rests;
};

/// How far bytes may reach, in mean coordinates.
constexpr int kReachCount = 12;
struct Reaches {
  float of[kReachCount] = {2.5F, 3, 3.5F, 4, 4.5F, 5, 6, 8, 12, 20, 40, 100};
};
struct SampleSums {
  unsigned long long rows;
  double squares;  // of all coordinates
  double lengths;
  unsigned longest;           // its bits
  double rests[kReachCount];  // their squares
};

/// A warp a row of the sample, those longer than `most` left out. `mean_coordinate` 0: squares and
/// lengths; else what each reach leaves.
static __global__ void sample_rests_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                           std::int64_t d, std::int64_t sampled,
                                           const float* __restrict__ dev_mean, double scale,
                                           double most, double mean_coordinate, Reaches reaches,
                                           SampleSums* __restrict__ dev_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (row >= sampled) return;
  const float* point = dev_points + row * (n / sampled) * d;
  const auto coordinate = [&](std::int64_t t) {
    return (static_cast<double>(point[t]) - dev_mean[t]) * scale;
  };
  double whole_square = 0;
  for (std::int64_t t = lane; t < d; t += 32) whole_square += coordinate(t) * coordinate(t);
  whole_square = warp_sum(whole_square);
  if (sqrt(whole_square) > most) return;
  if (mean_coordinate == 0) {
    if (lane != 0) return;
    atomicAdd(&dev_sums->rows, 1ULL);
    atomicAdd(&dev_sums->squares, whole_square);
    atomicAdd(&dev_sums->lengths, sqrt(whole_square));
    atomicMax(&dev_sums->longest, __float_as_uint(__double2float_ru(sqrt(whole_square))));
    return;
  }
  for (int r = 0; r < kReachCount; ++r) {
    const double step = reaches.of[r] * mean_coordinate / kMost;
    double square = 0;
    for (std::int64_t t = lane; t < d; t += 32) {
      const double kept = fmin(fmax(rint(coordinate(t) / step), -1.0 * kMost), 1.0 * kMost) * step;
      square += (coordinate(t) - kept) * (coordinate(t) - kept);
    }
    square = warp_sum(square);
    if (lane == 0) atomicAdd(&dev_sums->rests[r], square);
  }
}

/// The steps that leave the least of a sample's points. What no byte reaches is cut off, and counts
/// as rest.
inline ByteSteps byte_steps(const DeviceBuffer<float>& dev_points, std::int64_t n, std::int64_t d,
                            const CopyFrame& frame) {
  const std::int64_t sampled = std::min<std::int64_t>(n, 16384);
  const DeviceBuffer<SampleSums> dev_sums(1);
  const Reaches reaches;
  const auto sample = [&](double most, double mean_coordinate) {
    dev_sums.zero();
    sample_rests_kernel<<<blocks_for(sampled * 32, 256), 256>>>(
        dev_points.data(), n, d, sampled, frame.dev_mean.data(), frame.scale, most, mean_coordinate,
        reaches, dev_sums.data());
    KMEANS_CUDA_LAUNCHED(sample_rests_kernel);
    SampleSums sums{};
    dev_sums.download(&sums);
    return sums;
  };
  // Few rows that are far longer than the others would make steps of all that resolve little of the
  // others. Such rows count in the mean at first, and less each time.
  constexpr double kFarLonger = 4;
  double most = std::numeric_limits<double>::infinity();
  SampleSums sums{};
  double mean_length = 0;
  float longest = 0;
  for (int pass = 0; pass < 4; ++pass) {
    sums = sample(most, 0);
    mean_length = sums.lengths / static_cast<double>(sums.rows);
    std::memcpy(&longest, &sums.longest, sizeof(longest));
    if (longest <= kFarLonger * mean_length || pass == 3) break;
    most = kFarLonger * mean_length;
  }
  const double rows = static_cast<double>(sums.rows);
  const double mean_coordinate =
      std::max(std::sqrt(sums.squares / (rows * static_cast<double>(d))), 0x1p-30);
  sums = sample(most, mean_coordinate);
  const auto* least = std::min_element(std::begin(sums.rests), std::end(sums.rests));
  const float reach = reaches.of[least - std::begin(sums.rests)];
  const float step = step_above(static_cast<float>(reach * mean_coordinate / kMost));
  const double root = std::sqrt(static_cast<double>(d));
  // Points that exceed what the parts hold are undecided in every iteration: few, so that the units
  // of the others' lengths stay small.
  const double length = std::min(1.25 * static_cast<double>(longest), kFarLonger * mean_length);
  // The product of what is in two parts and what is in three is some 12 d.
  const double usual = std::max(25.0, static_cast<double>(d) / 15);
  const double rest = std::max(std::sqrt(*least / rows), 0.07 * root * step);
  return {.step = step,
          .of_lengths = std::max(length, 0x1p-20) / (kLengthParts * kMost),
          .of_rests = std::max(rest, 0x1p-30) / usual};
}

}  // namespace kmeans::cuda
