// SPDX-License-Identifier: Apache-2.0
//
// cuda_tree: points and centroids in the order of a Hilbert curve.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include <bit>
#include <cstdint>

#include "harness/machine/cuda/device.cuh"
#include "implementations/cuda/_tree_layout.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda::tree {

/// Bits of a key for each of d coordinates.
__host__ __device__ constexpr int bits_of_coordinate(int d) { return d <= 2 ? 31 : 63 / d; }
constexpr int bits_of_key(int d) { return d * bits_of_coordinate(d); }

/// Where a point lies on the Hilbert curve through the cube, by Skilling's transposition.
template <int D>
__device__ std::uint64_t hilbert_key(const float (&x)[D], const Cube& cube) {
  constexpr int kBits = bits_of_coordinate(D);
  unsigned axes[D];
#pragma unroll
  for (int t = 0; t < D; ++t) {
    const float share = (x[t] - cube.low[t]) / cube.width;
    const double cells = static_cast<double>(1ULL << kBits) - 1;
    axes[t] = static_cast<unsigned>(fmin(fmax(share * cells, 0.0), cells));
  }
  for (unsigned bit = 1U << (kBits - 1); bit > 1; bit >>= 1) {
#pragma unroll
    for (int t = 0; t < D; ++t) {
      const unsigned swapped = (axes[0] ^ axes[t]) & (bit - 1);
      if ((axes[t] & bit) != 0) {
        axes[0] ^= bit - 1;
      } else {
        axes[0] ^= swapped;
        axes[t] ^= swapped;
      }
    }
  }
#pragma unroll
  for (int t = 1; t < D; ++t) axes[t] ^= axes[t - 1];
  unsigned flips = 0;
  for (unsigned bit = 1U << (kBits - 1); bit > 1; bit >>= 1) {
    if ((axes[D - 1] & bit) != 0) flips ^= bit - 1;
  }
  std::uint64_t key = 0;
  for (int bit = kBits - 1; bit >= 0; --bit) {
#pragma unroll
    for (int t = 0; t < D; ++t) key = key << 1 | ((axes[t] ^ flips) >> bit & 1);
  }
  return key;
}

/// A float's bits as an integer that orders as the float does, and back.
__host__ __device__ inline int ordered_bits(int bits) {
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}
inline float float_of_ordered_bits(int ordered) {
  return std::bit_cast<float>(ordered_bits(ordered));
}

/// The least and the largest of each column, a blockIdx.y, of n rows, as ordered_bits().
static __global__ void __launch_bounds__(kThreads)
    bound_columns_kernel(const float* __restrict__ dev_rows, std::int64_t n,
                         int* __restrict__ dev_low, int* __restrict__ dev_high) {
  const std::int64_t d = gridDim.y;
  const float* dev_column = dev_rows + blockIdx.y;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  int low = ordered_bits(__float_as_int(dev_column[0]));
  int high = low;
#pragma unroll 8
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += stride) {
    const int value = ordered_bits(__float_as_int(dev_column[i * d]));
    low = min(low, value);
    high = max(high, value);
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    low = min(low, __shfl_xor_sync(kAllLanes, low, distance));
    high = max(high, __shfl_xor_sync(kAllLanes, high, distance));
  }
  if (threadIdx.x % kLanes != 0) return;
  atomicMin(&dev_low[blockIdx.y], low);
  atomicMax(&dev_high[blockIdx.y], high);
}

/// Keys of `count` rows.
template <int D>
__global__ void form_curve_keys_kernel(const float* __restrict__ dev_rows, std::int64_t count,
                                       Cube cube, std::uint64_t* __restrict__ dev_keys,
                                       std::int32_t* __restrict__ dev_indices) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float x[D];
#pragma unroll
  for (int t = 0; t < D; ++t) x[t] = dev_rows[i * D + t];
  dev_keys[i] = hilbert_key<D>(x, cube);
  dev_indices[i] = static_cast<std::int32_t>(i);
}

/// Rows to columns in that order.
static __global__ void order_points_kernel(const float* __restrict__ dev_rows, std::int64_t n,
                                           std::int64_t d,
                                           const std::int32_t* __restrict__ dev_order,
                                           float* __restrict__ dev_ordered) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t from = dev_order[i];
  for (std::int64_t t = 0; t < d; ++t) dev_ordered[t * n + i] = dev_rows[from * d + t];
}

/// The centroids in curve order, where they are few: a warp counts how many come before its own.
template <int D>
__global__ void __launch_bounds__(kSuperSlots)
    rank_centroids_kernel(const float* __restrict__ dev_centroids, Tree tree, Cube cube) {
  __shared__ std::uint64_t keys[tuning::kMaxRanked];
  for (int j = static_cast<int>(threadIdx.x); j < tree.k; j += kSuperSlots) {
    float x[D];
#pragma unroll
    for (int t = 0; t < D; ++t) x[t] = dev_centroids[j * D + t];
    keys[j] = hilbert_key<D>(x, cube);
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int own = static_cast<int>(blockIdx.x * kLanes + threadIdx.x / kLanes);
  if (own >= tree.k) return;
  const std::uint64_t key = keys[own] >> first_key_bit(D);
  int rank = 0;
  for (int j = lane; j < tree.k; j += kLanes) {
    const std::uint64_t other = keys[j] >> first_key_bit(D);
    if (other < key || (other == key && j < own)) ++rank;
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    rank += __shfl_xor_sync(kAllLanes, rank, distance);
  }
  if (lane < stride_of(D)) {
    tree.dev_centroids[rank * stride_of(D) + lane] =
        lane < D ? dev_centroids[own * D + lane] : 0.0F;
  }
  if (lane == 0) {
    tree.dev_indices[rank] = own;
    tree.dev_keys[rank] = keys[own];
  }
}

template <int D>
__global__ void order_centroids_kernel(const float* __restrict__ dev_centroids, Tree tree) {
  const std::int64_t slot = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slot >= tree.k) return;
  const std::int64_t j = tree.dev_indices[slot];
  for (int t = 0; t < stride_of(D); ++t) {
    tree.dev_centroids[slot * stride_of(D) + t] = t < D ? dev_centroids[j * D + t] : 0.0F;
  }
}

/// Sorts indices by the key's bits from first_bit to end_bit, in memory of its own.
struct CurveSort {
  CurveSort() = default;
  explicit CurveSort(std::int64_t values)
      : count(values), dev_keys(2 * values), dev_indices(values) {
    KMEANS_CUDA(call(nullptr, 0, 64, nullptr));  // says how many bytes it needs
    dev_scratch = DeviceBuffer<char>(static_cast<std::int64_t>(bytes));
  }
  void run(int first_bit, int end_bit, const DeviceBuffer<std::int32_t>& dev_order) {
    KMEANS_CUDA(call(dev_scratch.data(), first_bit, end_bit, dev_order.data()));
  }
  cudaError_t call(void* scratch, int first_bit, int end_bit, std::int32_t* dev_order) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, dev_keys.data(), dev_keys.data() + count,
                                           dev_indices.data(), dev_order, count, first_bit,
                                           end_bit);
  }

  std::int64_t count = 0;
  std::size_t bytes = 0;
  DeviceBuffer<std::uint64_t> dev_keys;  // as given, then sorted
  DeviceBuffer<std::int32_t> dev_indices;
  DeviceBuffer<char> dev_scratch;
};

}  // namespace kmeans::cuda::tree
