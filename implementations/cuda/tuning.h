// SPDX-License-Identifier: Apache-2.0
//
// Fitted constants of the exact families on a GPU: shapes from which a path pays, and amounts that were the fastest,
// all on H100s and H200s. Each names the page that has its trial, or the experiment whose cells show what it is worth.
// Sizes that follow from an instruction or a layout stand where they are used; those of the model that cuda_best
// chooses by, in _best_choice.h.
#pragma once

#include <cstdint>

namespace kmeans::cuda::tuning {

// cuda_tensor, cuda_hamerly

/// Up to so many columns of a row the largest of some centroids' widths stand for each's own: then to reduce products
/// takes longer than the points that this leaves undecided. docs/lab/gpu.md
inline constexpr int kWidestPadded = 144;

/// From so many tiles of centroids on, those that were nearest before are prefetched: what the points' bounds by them
/// save exceeds what the prefetch takes, which is more where rows have more products, less where bounds are kept, for
/// which all sums are read once more. docs/lab/gpu.md
constexpr std::int64_t prefetching_tiles(std::int64_t products, bool keeps_bounds) {
  return keeps_bounds ? 5 + products * products / 8 : 9 + products * products / 5;
}

/// Up to so many tiles of one stage, groups are not ordered: the ordering would begin and end again for a few tiles.
/// experiments/frontier.json
constexpr std::int64_t unordered_tiles(bool keeps_bounds) { return keeps_bounds ? 8 : 4; }

/// Stages of float16 that two groups need before rows go to registers: with fewer, consumers wait for centroids.
/// experiments/gpu-wide.json
inline constexpr int kFewestHalfStages = 8;

/// Is a tile of 128 centroids that is longer than three products one stage? A stage costs fifty instructions of each
/// warp. experiments/frontier.json
constexpr bool is_one_stage(std::int64_t products, bool bytes) {
  return products == 9 || (bytes && products == 5);
}

/// Where blocks share out the centroids, more parts may take so much longer than the best number, in passes: the
/// blocks of a round read its points together. experiments/gpu-wide.json
inline constexpr std::int64_t kPassesOfMoreParts = 11;  // tenths

/// More undecided points are not gathered: all go through, which costs less than their copies.
/// experiments/gpu-long.json
constexpr std::int64_t gathered_at_most(std::int64_t n) { return n - n * 3 / 8; }

// cuda_int8

/// Candidates that a lane writes down for a row; a row with more is left to float16.
/// experiments/frontier-embedding.json
inline constexpr int kFoundByLane = 8;

/// Candidates of a point, in the mean, for which there is room. experiments/frontier-embedding.json
inline constexpr std::int64_t kListedAPoint = 8;

// cuda_onepass

/// On compute capability 9.0, warp groups multiply (wgmma) where k > 64 and there are at most so many steps of 16
/// coordinates: the four warps of a group share what they read of the centroids. experiments/frontier.json
inline constexpr int kMaxWideSteps = 4;

// cuda_resident

/// One block makes so many operations in about the time of the grid's barrier. experiments/frontier.json
inline constexpr std::int64_t kOperationsOfOneBlock = 200'000;

/// Points of a block, at least, if there are several. experiments/frontier.json
inline constexpr std::int64_t kResidentPoints = 128;

/// Cells of all copies of a block's changes, at most. experiments/frontier.json
inline constexpr std::int64_t kCopiedCells = 1024;

// cuda_tree

/// Centroids that a box of points is tried against, one after the other, before they are deferred.
/// experiments/frontier.json
inline constexpr int kMaxVisits = 160;

/// Blocks of a multiprocessor for the points that are deferred. experiments/frontier.json
inline constexpr int kDeferredBlocks = 4;

/// Centroids that are put in order by comparing each with each. experiments/frontier.json
inline constexpr int kMaxRanked = 2048;

/// Lanes with the same label from which on their sum is formed before it goes to memory.
/// experiments/frontier.json
inline constexpr int kMinMatching = 3;

/// Threads of a block that refits a single super: few centroids in more blocks. experiments/frontier.json
inline constexpr int kFewRefitThreads = 64;

// The call

/// Iterations of one graph: a graph begins later than the next kernel of one. experiments/ladder-gpu.json
inline constexpr std::int64_t kIterationsOfGraph = 5;

/// Fewer iterations of a call are launched without graphs, which take longer to record than they save there.
/// library/compare_on_gpu.py
inline constexpr std::int64_t kWorthRecording = 40;

/// Seconds in which the GPU waits for a run that stops by itself, as it asks what became of some iterations.
/// experiments/fits-gpu.json
inline constexpr double kAsking = 20e-6;

/// Pageable points travel in pieces of so many bytes, the first of them smaller, filled by so many threads: one copies
/// some 5 GB/s, less than the link carries. experiments/fits-gpu.json
inline constexpr std::int64_t kUploadPiece = std::int64_t{4} << 20;
inline constexpr std::int64_t kFirstPiece = std::int64_t{512} << 10;
inline constexpr int kMostUploaders = 8;

/// Points of cuda_blocks that are sent at a time, and blocks at least: copies and kernels of few points overlap.
/// experiments/out-of-core-gpu.json
inline constexpr std::int64_t kBlockBytes = std::int64_t{32} << 20;
inline constexpr std::int64_t kFewestBlocks = 8;

/// Of fewer seeds, or coordinates, plain CUDA cores find the nearest sooner. experiments/seeding.json
inline constexpr std::int64_t kMatrixSeeds = 32;
inline constexpr std::int64_t kMatrixCoordinates = 8;

}  // namespace kmeans::cuda::tuning
