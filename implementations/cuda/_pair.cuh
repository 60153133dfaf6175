// SPDX-License-Identifier: Apache-2.0
//
// The nearer of two centroids, in increasing precision: float32, float64 in any order, float64 in
// the order of the definition.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

inline constexpr int kPairLanes = 8;  // lanes of a point

template <class T>
__device__ inline T pair_sum(T value) {
#pragma unroll
  for (int distance = kPairLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// Is `one` the label? It has the lower index of the two centroids. kPairLanes neighbouring lanes a
/// point; all lanes of the warp call. factor, tiny: as in filter_factor().
__device__ inline bool one_is_nearer(const float* point, const float* one, const float* other,
                                     std::int64_t d, float factor, float tiny) {
  const int lane = static_cast<int>(threadIdx.x) % kPairLanes;
  float q_one = 0;
  float q_other = 0;
#pragma unroll 4
  for (std::int64_t t = lane; t < d; t += kPairLanes) {
    const float x = point[t];
    const float to_one = __fsub_rn(x, one[t]);
    const float to_other = __fsub_rn(x, other[t]);
    q_one = __fmaf_rn(to_one, to_one, q_one);
    q_other = __fmaf_rn(to_other, to_other, q_other);
  }
  q_one = pair_sum(q_one);
  q_other = pair_sum(q_other);
  const bool close = !(fmaxf(q_one, q_other) > __fmaf_rn(fminf(q_one, q_other), factor, tiny));
  if (!__any_sync(kAllLanes, close)) return q_one < q_other;
  double d_one = 0;
  double d_other = 0;
#pragma unroll 4
  for (std::int64_t t = lane; t < d; t += kPairLanes) {
    d_one = add_exact_square(d_one, point[t], one[t]);
    d_other = add_exact_square(d_other, point[t], other[t]);
  }
  d_one = pair_sum(d_one);
  d_other = pair_sum(d_other);
  if (!close) return q_one < q_other;
  // Each is within d + 3 roundings of the true distance, and so is the defined value.
  const double share = 1 + static_cast<double>(2 * d + 16) * 0x1p-52;
  if (fmax(d_one, d_other) > share * fmin(d_one, d_other)) return d_one < d_other;
  d_one = d_other = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    d_one = add_exact_square(d_one, point[t], one[t]);
    d_other = add_exact_square(d_other, point[t], other[t]);
  }
  return d_one <= d_other;
}

}  // namespace kmeans::cuda
