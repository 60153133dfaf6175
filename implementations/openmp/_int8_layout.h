// SPDX-License-Identifier: Apache-2.0
//
// What the int8 filter works on: blocks of points and groups of centroids as bytes, and the few
// numbers that turn integer products back into distances and bound their error. The proof stands in
// docs/openmp-bounds.md, "The int8 filter".
#pragma once

#include <algorithm>
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
  alignas(64) std::int32_t offset[kInt8Group];  ///< -Int8Bytes::zero times the sum of q
  alignas(64) float residual[kInt8Group];       ///< |z - b q|, rounded up, with room for rounding
  alignas(64) float norm[kInt8Group];           ///< |z|, rounded up
  float step = 0;                               ///< b
  float inverse = 0;                            ///< 1 / b
  float largest_residual = 0;
  float largest_norm = 0;
  float lower_residual = 0;  ///< What lower ends take in their place: no more than these.
  float lower_norm = 0;
  std::int32_t count = 0;  ///< Centroids of the group; padding follows.
};

/// `least`: from which sum on a centroid's upper end reaches a threshold, where its group has one margin;
/// lower by `slack`, for what is rounded here. Tests take less, and expect that sums are missed. V may be
/// a register that only the caller is compiled for, so it is not returned.
template <class V>
[[gnu::always_inline]] inline void find_least_sum(const V& threshold, const V& margin,
                                                  const Int8GroupTerms& group, V& least,
                                                  float slack = 2) {
  least = (kInt8Zero - slack) + (threshold - margin) * group.inverse;
}

/// How AMX multiplies: 16 centroids, two groups, by 16 points, and as many words as a tile's row of 64
/// bytes holds. A row of more is cut into equal parts, of which the last is padded.
inline constexpr int kInt8TileRows = 16;
inline constexpr int kInt8TileWords = 256;  // 16 rows of 16 words
struct Int8Tiling {
  std::int64_t steps = 0;
  std::int64_t words = 0;  ///< of a step

  static Int8Tiling of(std::int64_t words) {
    const std::int64_t steps = (words + 15) / 16;
    return {steps, (words + steps - 1) / steps};
  }
  /// Words that tiles of points may read beyond a block, where centroids are 0: less than a step.
  static constexpr std::int64_t kBeyond = std::int64_t{15} * kInt8Points;
};

/// A group of centroids (words x kInt8Group) to the rows of its tiles; `tiles` are those of all groups,
/// two groups side by side. What lies beyond the words stays as it is: 0.
inline void copy_to_tiles(const std::uint32_t* group_words, std::int64_t words,
                          const Int8Tiling& tiling, std::int64_t group, std::uint32_t* tiles) {
  std::uint32_t* rows =
      tiles + group / 2 * tiling.steps * kInt8TileWords + group % 2 * (kInt8TileWords / 2);
  for (std::int64_t word = 0; word < words; ++word) {
    std::uint32_t* column = rows + word / tiling.words * kInt8TileWords + word % tiling.words;
    for (std::int64_t c = 0; c < kInt8Group; ++c) {
      column[c * (kInt8TileWords / kInt8TileRows)] = group_words[word * kInt8Group + c];
    }
  }
}

/// Rows of points that will be asked for soon: `rows` is the first of a block.
struct Int8RowsToFetch {
  const char* rows = nullptr;
  std::int64_t bytes = 0;  ///< From row to row.
  const std::int32_t* some = nullptr;
  std::int32_t count = 0;
};

/// Points that change their cluster, whose rows are added up soon.
struct Int8MovedRows {
  const float* const* rows = nullptr;
  std::int32_t count = 0;
  std::int64_t bytes = 0;  ///< Of a row.
};

/// One block against all groups. Four coordinates of a point, or of a centroid, are one word.
struct Int8Task {
  const std::uint32_t* points = nullptr;  ///< words x kInt8Points, bytes u + 128 (or 64)
  const std::uint32_t* next = nullptr;    ///< The block that comes next: fetched meanwhile.
  const Int8PointTerms* terms = nullptr;
  std::int64_t valid = 0;                    ///< Points of the block; padding follows.
  const std::uint32_t* centroids = nullptr;  ///< groups x words x kInt8Group, bytes q
  const Int8GroupTerms* groups = nullptr;
  const std::int32_t* order = nullptr;  ///< The index of each centroid of the groups.
  std::int64_t group_count = 0;
  std::int64_t words = 0;
  const std::uint32_t* tiles = nullptr;  ///< The centroids once more, for AMX: copy_to_tiles().
  Int8Tiling tiling;
  Int8RowsToFetch fetch;  ///< Meanwhile, too.
  Int8MovedRows moved;    ///< And these.
};

/// A point of a block and a group that may hold its nearest centroid, as one number.
inline constexpr int kInt8PairPoints = 64;  // group * 64 + point

/// For at most so many groups, of at least so many words, all sums are kept between the stages, where to
/// store 24 KiB costs less than to multiply again; tiles write theirs to memory anyhow, 384 KiB.
inline constexpr std::int64_t kInt8KeptGroups = 16;
inline constexpr std::int64_t kInt8KeptWords = 8;
inline constexpr std::int64_t kInt8KeptTileGroups = 256;

/// A thread's memory between the stages of the filter.
struct Int8Scratch {
  Int8Scratch() = default;
  explicit Int8Scratch(std::int64_t groups)
      : highest(groups * kInt8Points),
        pairs(groups * kInt8Points + 16),
        sums(std::min(groups + 1, kInt8KeptTileGroups) * kInt8Group * kInt8Points),
        marks(most_marks(groups)),
        marked(most_marks(groups)) {}
  static double bytes(double k) {
    const double groups = k / kInt8Group + 1;
    return 2 * groups * kInt8Points * 4 + 2 * most_marks(groups) * 4 +
           std::min<double>(groups + 1, kInt8KeptTileGroups) * kInt8Group * kInt8Points * 4;
  }

  /// A mark is what a register of points, at least four, says of a centroid; with room for a register. Of more groups
  /// marks are needed too: when far centroids are left out, few may be in use.
  template <class T>
  static T most_marks(T groups) {
    return std::min(groups, T{kInt8KeptGroups}) * kInt8Group * (kInt8Points / 4) + 16;
  }

  AlignedArray<float> highest;        // groups x kInt8Points
  AlignedArray<std::uint32_t> pairs;  // with room for a register beyond the last
  AlignedArray<std::int32_t> sums;    // groups x kInt8Group x kInt8Points, of few groups
  AlignedArray<std::uint32_t> marks;  // of few groups: registers x groups x kInt8Group
  AlignedArray<std::uint32_t> marked;
  alignas(64) float threshold[kInt8Points];
};

/// What the filter leaves of the centroids for each point of a block: all those that may be
/// nearest. Behind the last point there is room for what is no point's.
struct Int8Survivors {
  std::int32_t count[kInt8Points + 1];  ///< May exceed kInt8Few: then not all are listed.
  std::int32_t few[kInt8Points + 1][kInt8Few + kInt8Group];
  std::int32_t open[kInt8Points];  ///< The points with more than one.
  std::int32_t open_count;
  std::int64_t operations;  ///< On registers, roughly, to find them in the groups that stayed.
};

using Int8Filter = void (*)(const Int8Task& task, Int8Scratch& scratch, Int8Survivors& survivors);

}  // namespace kmeans::openmp
