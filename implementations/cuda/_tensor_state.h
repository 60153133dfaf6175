// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of an iteration count.
#pragma once

namespace kmeans::cuda {

constexpr float kSearchTiny = 0x1p-127F;  // kFilterTiny for d up to kMaxFiltered

/// What the kernels of an iteration pass to each other.
struct TensorState {
  unsigned long long undecided;  // points that the bounds leave more than one centroid
  unsigned long long pairs;      // more of them, between two that are known
  unsigned long long crowded;    // of those: more centroids than a list holds
  unsigned long long lists;      // more of them, with a list at once; cuda_int8 alone
  unsigned long long listed;     // what their lists hold
  unsigned too_far;  // a centroid that float16 or bytes do not hold: no point is decided
};

}  // namespace kmeans::cuda
