// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroid of a list of points: float32 differences, and where these leave it open, as
// defined.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

constexpr int kSearchThreads = 256;
constexpr int kSearchPoints = 16;
constexpr int kSearchCoordinates = 64;
<<<<<<< HEAD
constexpr float kSearchTiny = 0x1p-136F;  // kFilterTiny for d up to 1024
constexpr int kMaxCandidates = 32;        // of a list: a lane each
constexpr int kCandidatesAtOnce = 4;

/// Squared distances of a point to kCandidatesAtOnce centroids in float32, the warp's lanes over the
/// coordinates: as q in filter_factor().
__device__ inline void squared_distances_of_warp(
    const float* __restrict__ dev_point, const float* __restrict__ dev_centroids,
    const std::int64_t (&candidates)[kCandidatesAtOnce], std::int64_t d,
    float (&sums)[kCandidatesAtOnce]) {
#pragma unroll
  for (int c = 0; c < kCandidatesAtOnce; ++c) sums[c] = 0;
  for (std::int64_t t = threadIdx.x % 32; t < d; t += 32) {
    const float x = dev_point[t];
#pragma unroll
    for (int c = 0; c < kCandidatesAtOnce; ++c) {
      const float difference = __fsub_rn(x, dev_centroids[candidates[c] * d + t]);
      sums[c] = __fmaf_rn(difference, difference, sums[c]);
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
#pragma unroll
    for (int c = 0; c < kCandidatesAtOnce; ++c) {
      sums[c] = __fadd_rn(sums[c], __shfl_xor_sync(kAllLanes, sums[c], distance));
    }
  }
}

/// The nearest of the candidates that `close` names, lane by lane, as defined; the lowest index
/// wins.
__device__ inline std::int32_t nearest_as_defined(const float* __restrict__ dev_point,
                                                  const float* __restrict__ dev_centroids,
                                                  std::int64_t d, std::int32_t candidate,
                                                  bool close) {
  double nearest = INFINITY;
  std::int32_t label = 0x7fffffff;
  if (close) {
    label = candidate;
    nearest = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      nearest = add_exact_square(nearest, dev_point[t], dev_centroids[candidate * d + t]);
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, nearest, distance);
    const std::int32_t other_label = __shfl_xor_sync(kAllLanes, label, distance);
    if (other < nearest || (other == nearest && other_label < label)) {
      nearest = other;
      label = other_label;
    }
  }
  return label;
}

/// Points whose centroids the bounds leave are listed, a warp a point: the nearest of them in
/// float32, or as defined where that is too close. Those with longer lists, or without one, are for
/// search_kernel.
__global__ void decide_kernel(const float* __restrict__ dev_points,
                              const float* __restrict__ dev_centroids, std::int64_t d, float factor,
                              std::int64_t listed, const std::int32_t* __restrict__ dev_undecided,
                              const std::int32_t* __restrict__ dev_candidate_counts,
                              const std::int32_t* __restrict__ dev_candidates,
                              std::int32_t* __restrict__ dev_nearest,
                              std::int32_t* __restrict__ dev_crowded, TensorState* dev_state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto count = static_cast<std::int64_t>(dev_state->undecided);
  const bool lists = dev_state->too_far == 0;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / 32;
  for (std::int64_t slot = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; slot < count;
       slot += warps) {
    const std::int64_t i = dev_undecided[slot];
    const int candidates = lists && slot < listed ? dev_candidate_counts[slot] : kMaxCandidates + 1;
    if (candidates > kMaxCandidates) {
      if (lane == 0) {
        dev_crowded[atomicAdd(&dev_state->crowded, 1ULL)] = static_cast<std::int32_t>(i);
      }
      continue;
    }
    const float* point = dev_points + i * d;
    const std::int32_t own = lane < candidates ? dev_candidates[slot * kMaxCandidates + lane] : 0;
    float distance = INFINITY;  // of the lane's candidate
    for (int first = 0; first < candidates; first += kCandidatesAtOnce) {
      std::int64_t some[kCandidatesAtOnce];
      float q[kCandidatesAtOnce];
#pragma unroll
      for (int c = 0; c < kCandidatesAtOnce; ++c) {
        some[c] = __shfl_sync(kAllLanes, own, min(first + c, candidates - 1));
      }
      squared_distances_of_warp(point, dev_centroids, some, d, q);
#pragma unroll
      for (int c = 0; c < kCandidatesAtOnce; ++c) {
        if (lane == first + c && lane < candidates) distance = q[c];
      }
    }
    const float best = __uint_as_float(__reduce_min_sync(kAllLanes, __float_as_uint(distance)));
    const bool close = lane < candidates && !(distance > __fmaf_rn(best, factor, kSearchTiny));
    const unsigned all_close = __ballot_sync(kAllLanes, close);
    const std::int32_t label =
        __popc(all_close) == 1 ? __shfl_sync(kAllLanes, own, __ffs(static_cast<int>(all_close)) - 1)
                               : nearest_as_defined(point, dev_centroids, d, own, close);
    if (lane == 0) dev_nearest[i] = label;
  }
}
=======
constexpr float kSearchTiny = 0x1p-127F;  // kFilterTiny for d up to kMostFiltered

/// What the kernels of an iteration tell each other.
struct TensorState {
  unsigned long long undecided;  // points that the bounds leave more than one centroid
  unsigned long long crowded;    // of those: more centroids than a list holds
  unsigned too_far;              // a centroid that float16 does not hold: no point is decided
};
>>>>>>> 8ed4330a7f888ce07861453e29d377be119c2edb

/// dev_columns: the centroids, column-major, padded to `pitch` of them with infinity; where a
/// search will read them.
static __global__ void transpose_centroids_kernel(const float* __restrict__ dev_centroids,
                                                  std::int64_t k, std::int64_t d,
                                                  std::int64_t pitch,
                                                  const TensorState* __restrict__ dev_state,
                                                  float* __restrict__ dev_columns) {
  if (dev_state->crowded == 0) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < pitch * d;
       index += stride) {
    const std::int64_t j = index % pitch;
    dev_columns[index] = j < k ? dev_centroids[j * d + index / pitch] : INFINITY;
  }
}

/// Sixteen of these points a block at a time, a thread a centroid: float32, then as defined.
static __global__ void __launch_bounds__(kSearchThreads)
    search_kernel(const float* __restrict__ dev_points, std::int64_t d,
                  const float* __restrict__ dev_columns, std::int64_t k, std::int64_t pitch,
                  float factor, TensorState* __restrict__ dev_state,
                  const std::int32_t* __restrict__ dev_crowded,
                  std::int32_t* __restrict__ dev_nearest) {
  __shared__ float x[kSearchPoints][kSearchCoordinates];
  __shared__ float leasts[kSearchPoints][kSearchThreads / 32];
  __shared__ float seconds[kSearchPoints][kSearchThreads / 32];
  __shared__ int nearests[kSearchPoints][kSearchThreads / 32];
  __shared__ std::int64_t own_points[kSearchPoints];
  __shared__ bool open[kSearchPoints];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto count = static_cast<std::int64_t>(dev_state->crowded);
  // The last kernel of an iteration that looks at the bounds; the next copies centroids first.
  if (blockIdx.x == 0 && threadIdx.x == 0) dev_state->too_far = 0;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kSearchPoints; first < count;
       first += std::int64_t{gridDim.x} * kSearchPoints) {
    const int points = static_cast<int>(min(std::int64_t{kSearchPoints}, count - first));
    __syncthreads();
    if (threadIdx.x < kSearchPoints) {
      own_points[threadIdx.x] = dev_crowded[first + min(static_cast<int>(threadIdx.x), points - 1)];
    }
    float least[kSearchPoints];
    float second[kSearchPoints];
    int nearest[kSearchPoints];
#pragma unroll
    for (int p = 0; p < kSearchPoints; ++p) least[p] = second[p] = INFINITY, nearest[p] = 0;
    for (std::int64_t base = 0; base < pitch; base += kSearchThreads) {
      const std::int64_t j = base + threadIdx.x;
      float distance[kSearchPoints] = {};
      for (std::int64_t from = 0; from < d; from += kSearchCoordinates) {
        const int coordinates = static_cast<int>(min(std::int64_t{kSearchCoordinates}, d - from));
        __syncthreads();
        for (int e = threadIdx.x; e < kSearchPoints * coordinates; e += kSearchThreads) {
          x[e / coordinates][e % coordinates] =
              dev_points[own_points[e / coordinates] * d + from + e % coordinates];
        }
        __syncthreads();
        for (int t = 0; t < coordinates; ++t) {
          const float c = dev_columns[(from + t) * pitch + j];
#pragma unroll
          for (int p = 0; p < kSearchPoints; ++p) {
            const float difference = __fsub_rn(x[p][t], c);
            distance[p] = __fmaf_rn(difference, difference, distance[p]);
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kSearchPoints; ++p) {
        nearest[p] = distance[p] < least[p] ? static_cast<int>(j) : nearest[p];
        second[p] = fminf(second[p], fmaxf(least[p], distance[p]));
        least[p] = fminf(least[p], distance[p]);
      }
    }
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
        leasts[p][warp] = least[p];
        seconds[p][warp] = second[p];
        nearests[p][warp] = nearest[p];
      }
    }
    __syncthreads();
    if (threadIdx.x < kSearchPoints) {
      const int p = static_cast<int>(threadIdx.x);
      float best = INFINITY;
      float next = INFINITY;
      int label = 0;
      for (int w = 0; w < kSearchThreads / 32; ++w) {
        next = fminf(fminf(next, seconds[p][w]), fmaxf(best, leasts[p][w]));
        if (leasts[p][w] < best) best = leasts[p][w], label = nearests[p][w];
      }
      open[p] = p < points && !(next > __fmaf_rn(best, factor, kSearchTiny));
      if (p < points && !open[p]) dev_nearest[own_points[p]] = label;
    }
    __syncthreads();
    for (int p = 0; p < points; ++p) {
      if (!open[p]) continue;
      // As defined, a thread some centroids; the lowest index wins.
      double exact = INFINITY;
      std::int64_t label = 0;
      for (std::int64_t j = threadIdx.x; j < k; j += kSearchThreads) {
        double distance = 0;
        for (std::int64_t t = 0; t < d; ++t) {
          distance = add_exact_square(distance, dev_points[own_points[p] * d + t],
                                      dev_columns[t * pitch + j]);
        }
        if (distance < exact) exact = distance, label = j;
      }
      __shared__ double exacts[kSearchThreads];
      __shared__ std::int64_t labels[kSearchThreads];
      exacts[threadIdx.x] = exact;
      labels[threadIdx.x] = label;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int w = 1; w < kSearchThreads; ++w) {
          if (exacts[w] < exact || (exacts[w] == exact && labels[w] < label)) {
            exact = exacts[w];
            label = labels[w];
          }
        }
        dev_nearest[own_points[p]] = static_cast<std::int32_t>(label);
      }
      __syncthreads();
    }
  }
}

}  // namespace kmeans::cuda
