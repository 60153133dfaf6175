// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroid of a list of points: float32 differences, and where these cannot decide, as
// defined.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda {

constexpr int kSearchThreads = 256;
constexpr int kSearchWarps = kSearchThreads / 32;
constexpr int kSearchPoints = 16;
constexpr int kSearchCoordinates = 64;

/// dev_columns: the centroids, column-major, padded to `pitch` of them with infinity; unless there
/// are 0 points (dev_count) for a search that reads them.
static __global__ void transpose_centroids_kernel(const float* __restrict__ dev_centroids,
                                                  std::int64_t k, std::int64_t d,
                                                  std::int64_t pitch,
                                                  const unsigned long long* __restrict__ dev_count,
                                                  float* __restrict__ dev_columns) {
  if (*dev_count == 0) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < pitch * d;
       index += stride) {
    const std::int64_t j = index % pitch;
    dev_columns[index] = j < k ? dev_centroids[j * d + index / pitch] : INFINITY;
  }
}

/// What a block of search_kernel keeps in shared memory.
struct SearchMemory {
  float x[kSearchPoints][kSearchCoordinates];
  float leasts[kSearchPoints][kSearchWarps];
  float seconds[kSearchPoints][kSearchWarps];
  int nearests[kSearchPoints][kSearchWarps];
  std::int64_t own_points[kSearchPoints];
  bool undecided[kSearchPoints];
  double exacts[kSearchThreads];
  std::int64_t labels[kSearchThreads];
};

/// Of each of the block's points: the least two float32 distances, and the nearest centroid, among those that
/// were offered to a thread.
struct LeastDistances {
  float least[kSearchPoints];
  float second[kSearchPoints];
  int nearest[kSearchPoints];

  __device__ __forceinline__ LeastDistances() {
#pragma unroll
    for (int p = 0; p < kSearchPoints; ++p) least[p] = second[p] = INFINITY, nearest[p] = 0;
  }
  __device__ __forceinline__ void offer(const float (&distance)[kSearchPoints], std::int64_t j) {
#pragma unroll
    for (int p = 0; p < kSearchPoints; ++p) {
      nearest[p] = distance[p] < least[p] ? static_cast<int>(j) : nearest[p];
      second[p] = fminf(second[p], fmaxf(least[p], distance[p]));
      least[p] = fminf(least[p], distance[p]);
    }
  }
  /// The warp's, to shared memory.
  __device__ __forceinline__ void reduce_over_warp(SearchMemory& memory, int warp, int lane) {
#pragma unroll
    for (int p = 0; p < kSearchPoints; ++p) {
      for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(kAllLanes, least[p], distance);
        const float other_second = __shfl_xor_sync(kAllLanes, second[p], distance);
        const int other_nearest = __shfl_xor_sync(kAllLanes, nearest[p], distance);
        second[p] = fminf(fminf(second[p], other_second), fmaxf(least[p], other));
        if (other < least[p]) least[p] = other, nearest[p] = other_nearest;
      }
      if (lane == 0) {
        memory.leasts[p][warp] = least[p];
        memory.seconds[p][warp] = second[p];
        memory.nearests[p][warp] = nearest[p];
      }
    }
  }
};

/// Squared distances of the block's points to the thread's centroid j, stretches of coordinates in
/// shared memory.
__device__ __forceinline__ void add_squares(SearchMemory& memory,
                                            const float* __restrict__ dev_points, std::int64_t d,
                                            const float* __restrict__ dev_columns,
                                            std::int64_t pitch, std::int64_t j,
                                            float (&distance)[kSearchPoints]) {
  for (std::int64_t from = 0; from < d; from += kSearchCoordinates) {
    const int coordinates = static_cast<int>(min(std::int64_t{kSearchCoordinates}, d - from));
    __syncthreads();
    for (int e = threadIdx.x; e < kSearchPoints * coordinates; e += kSearchThreads) {
      memory.x[e / coordinates][e % coordinates] =
          dev_points[memory.own_points[e / coordinates] * d + from + e % coordinates];
    }
    __syncthreads();
    for (int t = 0; t < coordinates; ++t) {
      const float c = dev_columns[(from + t) * pitch + j];
#pragma unroll
      for (int p = 0; p < kSearchPoints; ++p) {
        const float difference = __fsub_rn(memory.x[p][t], c);
        distance[p] = __fmaf_rn(difference, difference, distance[p]);
      }
    }
  }
}

/// A thread a point: the label by float32, if that decides.
__device__ __forceinline__ void decide_by_float32(SearchMemory& memory, int points, float factor,
                                                  std::int32_t* __restrict__ dev_nearest) {
  if (threadIdx.x >= kSearchPoints) return;
  const int p = static_cast<int>(threadIdx.x);
  float best = INFINITY;
  float next = INFINITY;
  int label = 0;
  for (int w = 0; w < kSearchWarps; ++w) {
    next = fminf(fminf(next, memory.seconds[p][w]), fmaxf(best, memory.leasts[p][w]));
    if (memory.leasts[p][w] < best) best = memory.leasts[p][w], label = memory.nearests[p][w];
  }
  memory.undecided[p] = p < points && !(next > __fmaf_rn(best, factor, kSearchTiny));
  if (p < points && !memory.undecided[p]) dev_nearest[memory.own_points[p]] = label;
}

/// The label of the block's point p as defined, a thread some centroids; the lowest index wins.
__device__ __forceinline__ void decide_as_defined(SearchMemory& memory, int p,
                                                  const float* __restrict__ dev_points,
                                                  std::int64_t d,
                                                  const float* __restrict__ dev_columns,
                                                  std::int64_t k, std::int64_t pitch,
                                                  std::int32_t* __restrict__ dev_nearest) {
  double exact = INFINITY;
  std::int64_t label = 0;
  for (std::int64_t j = threadIdx.x; j < k; j += kSearchThreads) {
    double distance = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      distance = add_exact_square(distance, dev_points[memory.own_points[p] * d + t],
                                  dev_columns[t * pitch + j]);
    }
    if (distance < exact) exact = distance, label = j;
  }
  memory.exacts[threadIdx.x] = exact;
  memory.labels[threadIdx.x] = label;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < kSearchThreads; ++w) {
      if (memory.exacts[w] < exact || (memory.exacts[w] == exact && memory.labels[w] < label)) {
        exact = memory.exacts[w];
        label = memory.labels[w];
      }
    }
    dev_nearest[memory.own_points[p]] = static_cast<std::int32_t>(label);
  }
  __syncthreads();
}

/// Sixteen of these points a block at a time, a thread a centroid: float32, then as defined.
static __global__ void __launch_bounds__(kSearchThreads)
    search_kernel(const float* __restrict__ dev_points, std::int64_t d,
                  const float* __restrict__ dev_columns, std::int64_t k, std::int64_t pitch,
                  float factor, bool last, TensorState* __restrict__ dev_state,
                  const std::int32_t* __restrict__ dev_crowded,
                  std::int32_t* __restrict__ dev_nearest) {
  __shared__ SearchMemory memory;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto count = static_cast<std::int64_t>(dev_state->crowded);
  // The last kernel of an iteration that reads the bounds, where it is called for the last time;
  // the next copies centroids first.
  if (last && blockIdx.x == 0 && threadIdx.x == 0) dev_state->too_far = 0;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kSearchPoints; first < count;
       first += std::int64_t{gridDim.x} * kSearchPoints) {
    const int points = static_cast<int>(min(std::int64_t{kSearchPoints}, count - first));
    __syncthreads();
    if (threadIdx.x < kSearchPoints) {
      memory.own_points[threadIdx.x] =
          dev_crowded[first + min(static_cast<int>(threadIdx.x), points - 1)];
    }
    LeastDistances own;
    for (std::int64_t base = 0; base < pitch; base += kSearchThreads) {
      const std::int64_t j = base + threadIdx.x;
      float distance[kSearchPoints] = {};
      add_squares(memory, dev_points, d, dev_columns, pitch, j, distance);
      own.offer(distance, j);
    }
    own.reduce_over_warp(memory, warp, lane);
    __syncthreads();
    decide_by_float32(memory, points, factor, dev_nearest);
    __syncthreads();
    for (int p = 0; p < points; ++p) {
      if (!memory.undecided[p]) continue;
      decide_as_defined(memory, p, dev_points, d, dev_columns, k, pitch, dev_nearest);
    }
  }
}

}  // namespace kmeans::cuda
