// SPDX-License-Identifier: Apache-2.0
//
// cuda_onepass: the kernel that a d and a k get, its arguments, and the layout of a block's shared
// memory, which host and device take from here.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "harness/machine/gpu.h"
#include "implementations/cuda/_block_sums.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_wgmma.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda::onepass {

constexpr int kMaxSteps = 8;  // of kMmaDepth coordinates
constexpr int kMaxCentroids = 256;

constexpr int kWideTiles = 16;  // of a chunk where warp groups multiply (wgmma)

/// Threads of a block. tiles: column blocks of a chunk, whose distances stay in a warp's registers.
__host__ __device__ constexpr int threads_for(int steps, int tiles) {
  return tiles >= 8 && steps > 2 ? 384 : 512;
}

/// Entries of a warp's lists. A warp empties them beyond kFlushAt; a round adds up to kLanes, and
/// the warps of a group flush together, one round later.
constexpr int kFlushAt = kLanes;
__host__ __device__ constexpr int undecided_room(bool wide) { return (wide ? 3 : 2) * kLanes; }
__host__ __device__ constexpr int change_room(bool wide) {
  return undecided_room(wide) + BlockSums::kBatch;
}

/// The fallback: points that a warp compares with all centroids at a time, and entries of its list.
constexpr int kFallbackPoints = 4;
constexpr int kFallbackChanges = kLanes + BlockSums::kBatch;

/// The fallback: centroids of a lane.
__host__ __device__ constexpr int centroids_of_lane(int k) {
  return k <= 32 ? 1 : (k <= 64 ? 2 : (k <= 128 ? 4 : 8));
}

/// How d and k are cut into products: the template arguments of the kernel.
struct LaunchPlan {
  int steps;   // of kMmaDepth coordinates
  int tiles;   // of kMmaColumns centroids, in a chunk
  int chunks;  // of centroids
  bool wide;   // warp groups multiply

  [[nodiscard]] __host__ __device__ constexpr int columns() const {
    return chunks * tiles * kMmaColumns;
  }
  /// Of a centroid's copy. Wide, one more step has the norms.
  [[nodiscard]] __host__ __device__ constexpr int column_bytes() const {
    return (steps + (wide ? 1 : 0)) * kMmaDepth * 2;
  }
  [[nodiscard]] __host__ __device__ constexpr int threads() const {
    return threads_for(steps, tiles);
  }
  [[nodiscard]] __host__ __device__ constexpr int warps() const { return threads() / kLanes; }
  /// Warps that proceed together.
  [[nodiscard]] __host__ __device__ constexpr int warps_together() const {
    return wide ? kGroupWarps : 1;
  }
  /// Of `blocks` blocks, what one of them labels at most.
  [[nodiscard]] std::int64_t points_of_block(std::int64_t n, std::int64_t blocks) const {
    const std::int64_t together = warps_together() * kPairRows;
    const std::int64_t round = warps() * kPairRows;
    return ceil_div(ceil_div(n, together) * together, blocks * round) * round;
  }
};

/// A point that is not decided, and its two candidates where there are just two and both are known.
struct UndecidedPoint {
  std::int32_t point;
  std::uint16_t lower;  // index
  std::uint16_t higher;
};
constexpr std::uint16_t kNoCandidate = 0xffff;

/// What the kernels of an iteration get.
struct PassArguments {
  std::int64_t n;
  int d;
  int k;
  int chunks;   // LaunchPlan's
  int columns;  // LaunchPlan's
  bool wide;    // LaunchPlan's
  double scale;
  double inverse_scale;
  double copy_scale;
  Bias bias;
  float factor;              // filter_factor(d)
  const float* dev_points;   // n x d
  const float* dev_mean;     // d
  const uint4* dev_rows;     // the points' copy: pairs of row blocks
  const uint4* dev_lengths;  // a lane's four rows of a pair: (|x'|, |x' - x~|), rounded up
  float* dev_centroids;      // k x d
  __half* dev_columns;    // the centroids' copy, negated: column blocks, or (wide) a wgmma operand
  float* dev_half_norms;  // a column's half squared norm, plus the bias
  float4* dev_margins;    // a column's factors of |x'| and |x' - x~| in the bound, and the rest
  float* dev_transposed;  // the centroids, d x (kLanes centroids_of_lane(k)); infinite past k
  Integer* dev_sums;      // k x (d + 1)
  std::int32_t* dev_labels;       // n
  UndecidedPoint* dev_undecided;  // for each block, points_of_block()
};

/// Byte offsets in a block's shared memory. Labelling and the fallback use the same place for what
/// each has of its own.
struct SharedMap {
  // Of both.
  static constexpr int kCounters = 0;  // lengths of the block's two lists, then FlushVote's rounds
  static constexpr int kSums = 32;     // BlockSums
  // Labelling.
  int columns;     // PassArguments::dev_columns
  int margins;     // float4 of a chunk
  int half_norms;  // float4 of two columns: for both rows of a product; none if wide
  int changes;     // Change[change_room] of a warp
  int undecided;   // UndecidedPoint[undecided_room] of a warp
  // The fallback.
  int points;            // float4[d] of a warp: kFallbackPoints points
  int centroids;         // PassArguments::dev_transposed
  int fallback_changes;  // Change[kFallbackChanges] of a warp

  int bytes;

  /// columns, chunks: LaunchPlan's, which a kernel has among its arguments. lane_centroids:
  /// centroids_of_lane(k).
  __host__ __device__ constexpr SharedMap(const LaunchPlan& plan, int column_count, int chunks,
                                          int lane_centroids, int k, int d)
      : columns(kSums + static_cast<int>(BlockSums::bytes(k, d))),
        margins(columns + column_count * plan.column_bytes()),
        half_norms(margins + chunks * 16),
        changes(half_norms + (plan.wide ? 0 : column_count / 2 * 16)),
        undecided(changes + plan.warps() * change_room(plan.wide) * 8),
        points(columns),
        centroids(points + plan.warps() * d * 16),
        fallback_changes(centroids + d * lane_centroids * kLanes * 4),
        bytes(larger(undecided + plan.warps() * undecided_room(plan.wide) * 8,
                     fallback_changes + plan.warps() * kFallbackChanges * 8)) {}

  SharedMap(const LaunchPlan& plan, std::int64_t k, std::int64_t d)
      : SharedMap(plan, plan.columns(), plan.chunks, centroids_of_lane(static_cast<int>(k)),
                  static_cast<int>(k), static_cast<int>(d)) {}

 private:
  __host__ __device__ static constexpr int larger(int a, int b) { return a > b ? a : b; }
};
static_assert(sizeof(Change) == 8 && sizeof(UndecidedPoint) == 8);

inline LaunchPlan narrow_plan(std::int64_t k, std::int64_t d) {
  const int tiles = k <= 8 ? 1 : (k <= 16 ? 2 : (k <= 32 ? 4 : 8));
  return {.steps = static_cast<int>(ceil_div(d, kMmaDepth)),
          .tiles = tiles,
          .chunks = static_cast<int>(ceil_div(k, tiles * kMmaColumns)),
          .wide = false};
}

/// For d and k that are not too large: d <= kMaxSteps kMmaDepth, k <= kMaxCentroids.
inline LaunchPlan plan_for(std::int64_t k, std::int64_t d, const GpuDevice& gpu) {
  const LaunchPlan narrow = narrow_plan(k, d);
  if (gpu.major != 9 || narrow.chunks == 1 || narrow.steps > tuning::kMaxWideSteps) return narrow;
  const LaunchPlan wide{.steps = narrow.steps,
                        .tiles = kWideTiles,
                        .chunks = static_cast<int>(ceil_div(k, kWideTiles * kMmaColumns)),
                        .wide = true};
  return SharedMap(wide, k, d).bytes <= gpu.shared_bytes_per_block ? wide : narrow;
}

}  // namespace kmeans::cuda::onepass
