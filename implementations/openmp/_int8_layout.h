// SPDX-License-Identifier: Apache-2.0
//
// What the int8 filter works on: blocks of points and groups of centroids as bytes, and the few
// numbers that turn integer products back into distances and bound their error. The proof stands in
// docs/openmp.md, "The int8 filter".
#pragma once

#include <cstdint>

#include "implementations/openmp/_aligned.h"

namespace kmeans::openmp {

inline constexpr int kInt8Points = 48;  // of a block: three registers of AVX-512
inline constexpr int kInt8Group = 8;    // centroids of a group: one register of AVX2
inline constexpr int kInt8Few = 32;     // centroids remembered for a point that stays open

/// Where the integer 0 lies among the floats in [2^23, 2^24), whose last bit is worth 1: to add to
/// the bits of such a float is to add to its value.
inline constexpr float kInt8Zero = 0x1p24F - 0x1p21F;

/// Of each point of a block; a is its step, u its bytes (signed), p the point.
struct Int8PointTerms {
  alignas(64) float rate[kInt8Points];      ///< 1 / (2a)
  alignas(64) float norm[kInt8Points];      ///< |u|, rounded up
  alignas(64) float residual[kInt8Points];  ///< |p - a u| / a, rounded up
};

/// Of each centroid of a group; b is the group's step, q the bytes, z the centroid.
struct Int8GroupTerms {
  alignas(64) float rate[kInt8Group];           ///< |z|^2 / b
  alignas(64) std::int32_t offset[kInt8Group];  ///< -128 times the sum of q
  alignas(64) float residual[kInt8Group];       ///< |z - b q|, rounded up, with room for rounding
  alignas(64) float norm[kInt8Group];           ///< |z|, rounded up
  float step = 0;                               ///< b
  float largest_residual = 0;
  float largest_norm = 0;
  std::int32_t count = 0;  ///< Centroids of the group; padding follows.
};

/// One block against all groups. Four coordinates of a point, or of a centroid, are one word.
struct Int8Task {
  const std::uint32_t* points = nullptr;  ///< words x kInt8Points, bytes u + 128
  const std::uint32_t* next = nullptr;    ///< The block that comes next: fetched meanwhile.
  const Int8PointTerms* terms = nullptr;
  std::int64_t valid = 0;                    ///< Points of the block; padding follows.
  const std::uint32_t* centroids = nullptr;  ///< groups x words x kInt8Group, bytes q
  const Int8GroupTerms* groups = nullptr;
  const std::int32_t* order = nullptr;  ///< The index of each centroid of the groups.
  std::int64_t group_count = 0;
  std::int64_t words = 0;
};

/// A point of a block and a group that may hold its nearest centroid, as one number.
inline constexpr int kInt8PairPoints = 64;  // group * 64 + point

/// A thread's memory between the stages of the filter.
struct Int8Scratch {
  Int8Scratch() = default;
  explicit Int8Scratch(std::int64_t groups)
      : highest(groups * kInt8Points), pairs(groups * kInt8Points + 16) {}
  static double bytes(double k) { return (k / kInt8Group + 1) * kInt8Points * 8; }

  AlignedArray<float> highest;        // groups x kInt8Points
  AlignedArray<std::uint32_t> pairs;  // with room for a register beyond the last
  alignas(64) float threshold[kInt8Points];
};

/// What the filter leaves of the centroids for each point of a block: all those that may be
/// nearest.
struct Int8Survivors {
  std::int32_t count[kInt8Points];  ///< May exceed kInt8Few: then not all are listed.
  std::int32_t few[kInt8Points][kInt8Few + kInt8Group];
  std::int32_t open[kInt8Points];  ///< The points with more than one.
  std::int32_t open_count;
  std::int64_t looked_at;  ///< Pairs of a point and a group that were looked at again.
};

using Int8Filter = void (*)(const Int8Task& task, Int8Scratch& scratch, Int8Survivors& survivors);

}  // namespace kmeans::openmp
