// SPDX-License-Identifier: Apache-2.0
//
// Checks of points, single rows of them, sums for a tolerance, inertia.
// Flags:     -Xcompiler=-ffp-contract=off
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "harness/exact_step.h"
#include "harness/machine/cuda/device.cuh"
#include "harness/support/parallel.h"
#include "harness/support/resolution_rule.h"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_gather_rows.cuh"
#include "implementations/cuda/_point_facts.h"
#include "implementations/cuda/_row_squares.cuh"
#include "implementations/cuda/_upload.cuh"

namespace kmeans::cuda {
namespace {

constexpr int kThreads = 256;

/// Of the values of each part, `blocks` blocks of threads for each, without their signs, as bits, which order as the
/// numbers do, infinity and NaN last.
__global__ void __launch_bounds__(kThreads)
    largest_kernel(const float* __restrict__ dev_values, std::int64_t parts, std::int64_t count,
                   unsigned blocks, unsigned* __restrict__ dev_largest) {
  constexpr unsigned kAllBitsButTheSign = 0x7fffffff;
  const std::int64_t stride = std::int64_t{blocks} * kThreads;
  for (std::int64_t part = blockIdx.x / blocks; part < parts; part += gridDim.x / blocks) {
    const float* const own = dev_values + part * count;
    unsigned largest = 0;
#pragma unroll 8
    for (std::int64_t i = std::int64_t{blockIdx.x % blocks} * kThreads + threadIdx.x; i < count;
         i += stride) {
      largest = max(largest, __float_as_uint(own[i]) & kAllBitsButTheSign);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      largest = max(largest, __shfl_xor_sync(0xffffffff, largest, distance));
    }
    if (threadIdx.x % 32 == 0) atomicMax(dev_largest + part, largest);
  }
}

constexpr int kColumns = 32;    // of a block of column_parts_kernel
constexpr int kChunkRows = 64;  // that it has at a time

/// A block of threads has some columns of a block of a problem's rows: one warp adds up what the others have brought, a
/// lane each column, in the order of the rows, as a CPU does. `dev_means` is null: the values themselves; else the
/// squares of their differences from these. dev_parts: problems x blocks x d.
__global__ void __launch_bounds__(kThreads)
    column_parts_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                        const double* __restrict__ dev_means, std::int64_t blocks,
                        std::int64_t groups, double* __restrict__ dev_parts) {
  __shared__ double chunks[2][kChunkRows][kColumns + 1];
  const std::int64_t first_t = blockIdx.x % groups * kColumns;
  const int width = static_cast<int>(min(std::int64_t{kColumns}, d - first_t));
  const std::int64_t part = blockIdx.x / groups;
  const std::int64_t problem = part / blocks;
  const std::int64_t begin = part % blocks * kBlock;
  const int rows = static_cast<int>(min(kBlock, n - begin));
  const float* const own = dev_points + (problem * n + begin) * d + first_t;
  const double* const means = dev_means == nullptr ? nullptr : dev_means + problem * d + first_t;
  // By the threads from first_thread on.
  const auto bring = [&](int first, int first_thread) {
    const int values = min(kChunkRows, rows - first) * width;
    const int stride = kThreads - first_thread;
#pragma unroll 4
    for (int e = static_cast<int>(threadIdx.x) - first_thread; e < values; e += stride) {
      const int r = e / width;
      const int t = e % width;
      double value = own[(first + r) * d + t];
      if (means != nullptr) {
        const double difference = __dsub_rn(value, means[t]);
        value = __dmul_rn(difference, difference);
      }
      chunks[first / kChunkRows % 2][r][t] = value;
    }
  };
  double sum = 0;
  bring(0, 0);
  __syncthreads();
  for (int first = 0; first < rows; first += kChunkRows) {
    if (threadIdx.x >= kLanes) {
      if (first + kChunkRows < rows) bring(first + kChunkRows, kLanes);
    } else if (static_cast<int>(threadIdx.x) < width) {
      const auto& chunk = chunks[first / kChunkRows % 2];
      const int count = min(kChunkRows, rows - first);
#pragma unroll 8
      for (int r = 0; r < count; ++r) sum = __dadd_rn(sum, chunk[r][threadIdx.x]);
    }
    __syncthreads();
  }
  if (static_cast<int>(threadIdx.x) < width) dev_parts[part * d + first_t + threadIdx.x] = sum;
}

/// Of a column's sampled values: how far the fixed point is off at most, and the lowest and highest.
struct Column {
  double error;
  float lowest;
  float highest;
};

__device__ Column joined(const Column& a, const Column& b) {
  return {max(a.error, b.error), min(a.lowest, b.lowest), max(a.highest, b.highest)};
}

/// exact::sum_exponent() of n points whose largest coordinate has these bits, without its sign; finite.
__device__ int sum_exponent_of(std::int64_t n, unsigned bits) {
  if (bits == 0) return 0;
  constexpr int kMantissaBits = 23;
  constexpr int kBias = 127 + kMantissaBits;
  int exponent = static_cast<int>(bits >> kMantissaBits);
  std::uint64_t mantissa = bits & ((1U << kMantissaBits) - 1);
  if (exponent == 0) {
    exponent = 1;  // subnormal
  } else {
    mantissa |= std::uint64_t{1} << kMantissaBits;
  }
  // The bit width of mantissa * n - 1: the largest coordinate is mantissa * 2^(exponent - kBias).
  std::uint64_t high = __umul64hi(mantissa, static_cast<std::uint64_t>(n));
  const std::uint64_t low = mantissa * static_cast<std::uint64_t>(n) - 1;
  if (low == ~std::uint64_t{0}) --high;
  const int width = high != 0 ? 128 - __clzll(static_cast<long long>(high))
                              : 64 - __clzll(static_cast<long long>(low));
  return 62 - width - (exponent - kBias);
}

__device__ double power_of_two(int exponent) {
  return __longlong_as_double(static_cast<long long>(exponent + 1023) << 52);
}

/// A block looks at a column of a problem, as surely_spread() of harness/verify/resolution.cpp does, with its
/// arithmetic.
__global__ void __launch_bounds__(kThreads)
    look_at_columns_kernel(const float* __restrict__ dev_points, std::int64_t n, unsigned d,
                           int rows, const unsigned* __restrict__ dev_largest,
                           unsigned* __restrict__ dev_open) {
  constexpr unsigned kInfinity = 0x7f800000;
  __shared__ Column parts[kThreads];
  __shared__ int bins[kResolutionBins + 2];
  const std::int64_t problem = blockIdx.x / d;
  const unsigned largest = dev_largest[problem];
  if (largest >= kInfinity) {
    dev_open[problem] = 1;
    return;
  }
  const int exponent = sum_exponent_of(n, largest);
  const double scale = power_of_two(exponent);
  const double quantum = power_of_two(-exponent);
  const float* const column = dev_points + problem * n * d + blockIdx.x % d;
  const auto value_of = [&](int r) { return column[n * r / rows * d]; };
  Column mine{0, INFINITY, -INFINITY};
  for (int r = static_cast<int>(threadIdx.x); r < rows; r += kThreads) {
    const float value = value_of(r);
    const double kept = static_cast<double>(__double2ll_rn(value * scale)) * quantum;
    mine = joined(mine, {fabs(value - kept), value, value});
  }
  parts[threadIdx.x] = mine;
  if (threadIdx.x < kResolutionBins + 2) bins[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      parts[threadIdx.x] = joined(parts[threadIdx.x], parts[threadIdx.x + half]);
    __syncthreads();
  }
  const Column all = parts[0];
  if (all.error == 0) return;
  const double lowest = all.lowest;
  const double width = (all.highest - lowest) / kResolutionBins;
  const bool wide = width > 4 * (all.error / kResolutionShare);
  if (wide) {
    for (int r = static_cast<int>(threadIdx.x); r < rows; r += kThreads) {
      atomicAdd(&bins[static_cast<int>((value_of(r) - lowest) / width)], 1);
    }
  }
  __syncthreads();
  const bool crowded = !wide || (threadIdx.x < kResolutionBins &&
                                 2 * (bins[threadIdx.x] + bins[threadIdx.x + 1]) >= rows);
  if (crowded) dev_open[problem] = 1;
}

constexpr int kSquareWarps = 4;

/// Of each point from the centroid of its label, as exact::squared_distance() forms it: a warp has kLanes points.
__global__ void __launch_bounds__(kSquareWarps* kLanes)
    squares_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                   const float* __restrict__ dev_centroids,
                   const std::int32_t* __restrict__ dev_labels, double* __restrict__ dev_squares) {
  __shared__ SquaresTile tiles[kSquareWarps];
  __shared__ std::int32_t labels[kSquareWarps][kLanes];
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kSquareWarps + warp) * kLanes;
  if (first >= n) return;
  const int rows = static_cast<int>(min(std::int64_t{kLanes}, n - first));
  if (lane < rows) labels[warp][lane] = dev_labels[first + lane];
  __syncwarp();
  const double square = squares_of_rows<1>(
      rows, d,
      [&](int r, std::int64_t t) {
        return add_exact_square(0, dev_points[(first + r) * d + t],
                                dev_centroids[labels[warp][r] * d + t]);
      },
      tiles[warp]);
  if (lane < rows) dev_squares[first + lane] = square;
}

/// A block of threads adds up a block of values in their order.
__global__ void __launch_bounds__(kThreads)
    add_blocks_kernel(const double* __restrict__ dev_values, std::int64_t n,
                      double* __restrict__ dev_sums) {
  __shared__ double values[kBlock];
  const std::int64_t begin = blockIdx.x * kBlock;
  const int count = static_cast<int>(min(kBlock, n - begin));
  for (int own = static_cast<int>(threadIdx.x); own < count; own += kThreads) {
    values[own] = dev_values[begin + own];
  }
  __syncthreads();
  if (threadIdx.x == 0) dev_sums[blockIdx.x] = added_in_order(0, values, count);
}

__device__ float widened(__half value) { return __half2float(value); }
__device__ float widened(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__global__ void widen_kernel(const T* __restrict__ dev_values, std::int64_t count,
                             float* __restrict__ dev_wide) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < count) dev_wide[index] = widened(dev_values[index]);
}

template <class T>
void widen(const void* dev_values, std::int64_t count, float* dev_wide) {
  widen_kernel<<<blocks_for(count, kThreads), kThreads>>>(static_cast<const T*>(dev_values), count,
                                                          dev_wide);
  KMEANS_CUDA_LAUNCHED(widen_kernel);
}

/// A warp a row: scaled to length one, or `dev_unit` is null, and *dev_others says whether one would change.
__global__ void __launch_bounds__(kThreads)
    unit_rows_kernel(const float* __restrict__ dev_rows, std::int64_t n, std::int64_t d,
                     float* __restrict__ dev_unit, unsigned* __restrict__ dev_others) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes;
  if (i >= n) return;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const float* const row = dev_rows + i * d;
  const double squares =
      exact_sum_of_squares([row](std::int64_t t) { return static_cast<double>(row[t]); }, d);
  const bool is_unit = squares == 0 || fabs(__dsub_rn(squares, 1)) <= 0x1p-22;
  if (dev_unit == nullptr) {
    if (!is_unit) *dev_others = 1;
    return;
  }
  const bool stays = is_unit || !(squares < INFINITY);
  const double length = __dsqrt_rn(squares);
  for (std::int64_t t = lane; t < d; t += kLanes) {
    dev_unit[i * d + t] = stays ? row[t] : __double2float_rn(__ddiv_rn(row[t], length));
  }
}

}  // namespace

void copy_rows_to_host(const float* dev_points, std::int64_t d,
                       const std::vector<std::int64_t>& rows, std::int64_t first,
                       std::int64_t count, float* host) {
  if (rows.empty()) return;
  const DeviceBuffer<std::int64_t> dev_rows(std::ssize(rows));
  const DeviceBuffer<float> dev_gathered(dev_rows.size() * count);
  dev_rows.upload(rows.data());
  gather_rows_kernel<<<blocks_for(dev_gathered.size(), kThreads), kThreads>>>(
      dev_points, d, dev_rows.data(), dev_rows.size(), first, count, dev_gathered.data());
  KMEANS_CUDA_LAUNCHED(gather_rows_kernel);
  dev_gathered.download(host);
}

std::vector<double> column_parts_on_gpu(const float* dev_points, std::int64_t problems,
                                        std::int64_t n, std::int64_t d, const double* means) {
  const std::int64_t blocks = block_count(n);
  const DeviceBuffer<double> dev_means(means == nullptr ? 0 : problems * d);
  if (means != nullptr) dev_means.upload(means);
  const DeviceBuffer<double> dev_parts(problems * blocks * d);
  const std::int64_t groups = ceil_div(d, kColumns);
  column_parts_kernel<<<blocks_for(problems * blocks * groups, 1), kThreads>>>(
      dev_points, n, d, dev_means.data(), blocks, groups, dev_parts.data());
  KMEANS_CUDA_LAUNCHED(column_parts_kernel);
  std::vector<double> parts(dev_parts.size());
  dev_parts.download(parts.data());
  return parts;
}

double inertia_on_gpu(const float* dev_points, std::int64_t n, std::int64_t d,
                      const float* centroids, std::int64_t k, const std::int32_t* labels) {
  const DeviceBuffer<float> dev_centroids(k * d);
  const DeviceBuffer<std::int32_t> dev_labels(n);
  const DeviceBuffer<double> dev_squares(n);
  dev_centroids.upload(centroids);
  upload_bytes(labels, dev_labels.data(), static_cast<std::int64_t>(dev_labels.bytes()));
  constexpr int kSquareThreads = kSquareWarps * kLanes;
  squares_kernel<<<blocks_for(n, kSquareThreads), kSquareThreads>>>(
      dev_points, n, d, dev_centroids.data(), dev_labels.data(), dev_squares.data());
  KMEANS_CUDA_LAUNCHED(squares_kernel);
  const std::int64_t blocks = block_count(n);
  const DeviceBuffer<double> dev_sums(blocks);
  add_blocks_kernel<<<blocks_for(blocks, 1), kThreads>>>(dev_squares.data(), n, dev_sums.data());
  KMEANS_CUDA_LAUNCHED(add_blocks_kernel);
  std::vector<double> sums(blocks);
  dev_sums.download(sums.data());
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void unit_rows_on_gpu(const float* dev_rows, std::int64_t n, std::int64_t d, float* dev_unit) {
  unit_rows_kernel<<<blocks_for(n * kLanes, kThreads), kThreads>>>(dev_rows, n, d, dev_unit,
                                                                   nullptr);
  KMEANS_CUDA_LAUNCHED(unit_rows_kernel);
  KMEANS_CUDA(cudaDeviceSynchronize());
}

bool are_unit_rows_on_gpu(const float* dev_rows, std::int64_t n, std::int64_t d) {
  const DeviceBuffer<unsigned> dev_others(1);
  dev_others.zero();
  unit_rows_kernel<<<blocks_for(n * kLanes, kThreads), kThreads>>>(dev_rows, n, d, nullptr,
                                                                   dev_others.data());
  KMEANS_CUDA_LAUNCHED(unit_rows_kernel);
  unsigned others = 0;
  dev_others.download(&others);
  return others == 0;
}

void widen_float16(const void* dev_values, std::int64_t count, float* dev_wide) {
  widen<__half>(dev_values, count, dev_wide);
}

void widen_bfloat16(const void* dev_values, std::int64_t count, float* dev_wide) {
  widen<__nv_bfloat16>(dev_values, count, dev_wide);
}

PointFacts facts_on_gpu(const float* dev_points, std::int64_t problems, std::int64_t n,
                        std::int64_t d) {
  // Of each problem the largest value, then whether it is open.
  const DeviceBuffer<unsigned> dev_found(2 * problems);
  dev_found.zero();
  unsigned* const dev_largest = dev_found.data();
  unsigned* const dev_open = dev_largest + problems;
  constexpr std::int64_t kMostBlocks = 132 * 8;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(
      ceil_div(n * d, kThreads * 8), 1, std::max<std::int64_t>(1, kMostBlocks / problems)));
  const auto at_once = static_cast<unsigned>(std::min(problems, kMostBlocks));
  largest_kernel<<<at_once * blocks, kThreads>>>(dev_points, problems, n * d, blocks, dev_largest);
  KMEANS_CUDA_LAUNCHED(largest_kernel);
  // The kernel counts rows and columns in 32 bits, and rows times the sample in 63.
  const bool looks = d <= INT32_MAX / problems && n <= INT64_MAX / kResolutionRows;
  if (looks) {
    look_at_columns_kernel<<<static_cast<unsigned>(problems * d), kThreads>>>(
        dev_points, n, static_cast<unsigned>(d), static_cast<int>(std::min(n, kResolutionRows)),
        dev_largest, dev_open);
    KMEANS_CUDA_LAUNCHED(look_at_columns_kernel);
  }
  std::vector<unsigned> found(2 * problems);
  dev_found.download(found.data());
  PointFacts facts{std::vector<float>(problems), std::vector<char>(problems, 0)};
  std::memcpy(facts.largest.data(), found.data(), sizeof(float) * facts.largest.size());
  for (std::int64_t problem = 0; looks && problem < problems; ++problem) {
    facts.resolved[problem] = found[problems + problem] == 0 ? 1 : 0;
  }
  return facts;
}

}  // namespace kmeans::cuda
