// SPDX-License-Identifier: Apache-2.0
//
// cuda_tree: a tree of centroids, as it lies in memory, and boxes.
#pragma once

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda::tree {

constexpr int kThreads = 256;
constexpr int kSuperSlots = kLanes * kLanes;  // centroids of a box of boxes
constexpr int kMaxDimensions = 8;

/// Bits of a centroid's key that do not count: enough are left to find neighbours.
__host__ __device__ constexpr int first_key_bit(int d) { return d == 1 ? 0 : 24; }

/// Coordinates between two centroids, so that they load as vectors.
__host__ __device__ constexpr int stride_of(int d) { return d <= 2 ? d : (d + 3) / 4 * 4; }

/// A cube around all points, through which the curve goes.
struct Cube {
  float low[kMaxDimensions];
  float width;
};

/// Boxes of one level: columns low[0..d), high[0..d) of `count` values.
struct Boxes {
  float* dev_sides;
  std::int64_t count;
};

/// Points whose box has too many centroids near it: they are left to a second kernel, a warp a point.
struct DeferredPoints {
  std::int32_t* dev_points;  // places in curve order
  unsigned* dev_count;
};

/// Centroids in curve order ("slots"), and the boxes above them.
struct Tree {
  std::int64_t k;
  float* dev_centroids;       // k x stride_of(d)
  std::int32_t* dev_indices;  // slot -> centroid
  std::uint64_t* dev_keys;    // on the curve, of the first centroids
  Integer* dev_sums;          // k x (d + 1) by slot: fixed-point sums, then the count
  Boxes groups;               // of kLanes slots
  Boxes supers;               // of kLanes groups; a single one has no box
};

template <int D>
struct Box {
  float low[D];
  float high[D];
};

/// The box around the boxes of a warp's lanes, in all lanes.
template <int D>
__device__ Box<D> enclosing_box(Box<D> box) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int t = 0; t < D; ++t) {
      box.low[t] = fminf(box.low[t], __shfl_xor_sync(kAllLanes, box.low[t], distance));
      box.high[t] = fmaxf(box.high[t], __shfl_xor_sync(kAllLanes, box.high[t], distance));
    }
  }
  return box;
}

template <int D>
__device__ void store_box(const Boxes& boxes, std::int64_t index, const Box<D>& box) {
#pragma unroll
  for (int t = 0; t < D; ++t) {
    boxes.dev_sides[t * boxes.count + index] = box.low[t];
    boxes.dev_sides[(D + t) * boxes.count + index] = box.high[t];
  }
}

template <int D>
__device__ Box<D> load_box(const Boxes& boxes, std::int64_t index) {
  Box<D> box;
#pragma unroll
  for (int t = 0; t < D; ++t) {
    box.low[t] = boxes.dev_sides[t * boxes.count + index];
    box.high[t] = boxes.dev_sides[(D + t) * boxes.count + index];
  }
  return box;
}

template <int D>
__device__ void load_centroid(const Tree& tree, std::int64_t slot, float (&c)[D]) {
  const float* row = tree.dev_centroids + slot * stride_of(D);
  if constexpr (stride_of(D) % 4 == 0) {
#pragma unroll
    for (int t = 0; t < D; t += 4) {
      const float4 four = *reinterpret_cast<const float4*>(row + t);
      c[t] = four.x;
      if (t + 1 < D) c[t + 1] = four.y;
      if (t + 2 < D) c[t + 2] = four.z;
      if (t + 3 < D) c[t + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int t = 0; t < D; ++t) c[t] = row[t];
  }
}

/// A point as a box.
template <int D>
__device__ Box<D> point_box(const float (&x)[D]) {
  Box<D> box;
#pragma unroll
  for (int t = 0; t < D; ++t) box.low[t] = box.high[t] = x[t];
  return box;
}

}  // namespace kmeans::cuda::tree
