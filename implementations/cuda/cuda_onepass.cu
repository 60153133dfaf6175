// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 80-virtual 90a-real
//
// Idea:      few centroids: a warp multiplies its points with all of them, labels them and adds those
//            that changed cluster to the block's sums, in one pass over a float16 copy of the points;
//            then the block settles what it left open, with the same sums: an iteration is two kernels
// Parallel:  a warp 32 points at a time, on matrix units, by itself or (many centroids, few coordinates,
//            compute capability 9.0) in a group of four; of a row's distances first the least, then how
//            many are within the bound above it: one is the label, with more the point is left open
//            till the end, when a warp compares four such points with all centroids, a lane a centroid
// Memory:    a centred float16 copy of the points as the matrix instruction's registers hold it; all
//            centroids and sums in shared memory. The float32 points are read only where undecided or
//            where the label changed
// Numerics:  products of float16 with a bound on all that they round; then float32 differences, then
//            float64 as defined. Sums are 64-bit integers. Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md
#include <algorithm>
#include <string>

#include "implementations/cuda/_block_sums.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_mma.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_pair.cuh"
#include "implementations/cuda/_shared_sums.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kMaxSteps = 8;  // of sixteen coordinates
constexpr int kMaxCentroids = 256;
constexpr int kEnough = kLanes;  // that a warp collects, then it passes them on
/// Room for as many more, and where a warp group's warps do so together, once more.
__host__ __device__ constexpr int listed_for(bool wide) { return (wide ? 3 : 2) * kLanes; }
__host__ __device__ constexpr int changes_for(bool wide) {
  return listed_for(wide) + BlockSums::kBatch;
}
constexpr float kFarFromAll = 1e30F;  // half a squared distance above all others: no centroid
constexpr float kNoBound = 1e30F;
constexpr double kFarthest = 32768;  // a scaled coordinate that float16 holds

constexpr int kOpenPoints = 4;  // of a warp at a time
constexpr int kOpenChanges = kLanes + BlockSums::kBatch;

/// Those of a block; `tiles`: eight columns each of a chunk of centroids, whose distances a warp has in
/// registers.
__host__ __device__ constexpr int threads_for(int steps, int tiles) {
  return tiles >= 8 && steps > 2 ? 384 : 512;
}

/// On compute capability 9.0 warp groups multiply where centroids are more than 64 and steps at most so
/// many: a group's four warps share what they read of the centroids.
constexpr int kMaxWideSteps = 4;
constexpr int kGroupWarps = 4;
constexpr int kWideTiles = 16;           // of a chunk
constexpr double kFarthestWide = 30000;  // half a squared norm and the bias: below kFarWide
constexpr double kFarWide = 60000;       // that of no centroid

/// Of a block's counts in shared memory: undecided points, and what its warp groups exchange.
constexpr int kCountBytes = 32;

/// A point that is not decided, and the two centroids that are left if these are known.
struct Open {
  std::int32_t point;
  std::uint16_t one;
  std::uint16_t other;
};
constexpr std::uint16_t kUnknown = 0xffff;

struct Task {
  std::int64_t n;
  int d;
  int k;
  int chunks;   // of centroids
  int columns;  // in all chunks
  bool wide;    // warp groups multiply
  double scale;
  double inverse_scale;
  double copy_scale;
  Bias bias;
  float factor;              // filter_factor(d)
  const float* dev_points;   // n x d
  const float* dev_mean;     // d
  const uint4* dev_rows;     // the points' copy: pairs of row blocks
  const uint4* dev_lengths;  // of a pair, for each lane's four rows: (|x'|, |x' - x~|), rounded up
  float* dev_centroids;      // k x d
  __half* dev_columns;  // the centroids' copy, negated: column blocks, or (wide) as wgmma reads it
  float* dev_half_norms;  // of a column, and the bias
  float4* dev_margins;    // of a column: what |x'| and |x' - x~| are multiplied with, and the rest
  float* dev_transposed;  // the centroids: d columns of kLanes own_for(k), infinite past the last
  Integer* dev_sums;      // k x (d + 1)
  std::int32_t* dev_labels;
  Open* dev_open;  // points that are not decided: for each block as many as it has
};

/// Centroids of a lane, where a warp compares open points with all.
__host__ __device__ constexpr int own_for(int k) {
  return k <= 32 ? 1 : (k <= 64 ? 2 : (k <= 128 ? 4 : 8));
}

/// How d and k lie in shared memory.
struct Cut {
  int steps;   // of sixteen coordinates
  int tiles;   // of eight centroids, in a chunk
  int chunks;  // of centroids
  bool wide;

  [[nodiscard]] int columns() const { return chunks * tiles * kMmaColumns; }
  /// Of the centroids' copy: wide, one more step has their norms.
  [[nodiscard]] std::int64_t column_bytes() const {
    return std::int64_t{columns()} * (steps + (wide ? 1 : 0)) * kMmaDepth * 2;
  }
  [[nodiscard]] int threads() const { return threads_for(steps, tiles); }
  [[nodiscard]] int warps() const { return threads() / kLanes; }
  /// The sums, and what both halves of the kernel have in the same place.
  [[nodiscard]] std::int64_t shared_bytes(std::int64_t k, std::int64_t d) const {
    const std::int64_t labelling = column_bytes() + (wide ? 0 : columns() * 8) + chunks * 16 +
                                   warps() * (changes_for(wide) + listed_for(wide)) * 8;
    const std::int64_t settling = d * own_for(static_cast<int>(k)) * kLanes * 4 +
                                  warps() * (kOpenPoints * 4 * d + kOpenChanges * 8);
    return kCountBytes + BlockSums::bytes(k, d) + std::max(labelling, settling);
  }
  /// Points of a block, of so many blocks.
  [[nodiscard]] std::int64_t points_of_block(std::int64_t n, std::int64_t blocks) const {
    const std::int64_t together = (wide ? kGroupWarps : 1) * kPairRows;
    return ceil_div(ceil_div(n, together) * together, blocks * warps() * kPairRows) * warps() *
           kPairRows;
  }
};

/// Lane l judges row l / 4 of those that are eight apart in a pair of row blocks, the l % 4th.
__device__ inline unsigned row_of(unsigned lane) { return lane % 4 * 8 + lane / 4; }

/// A pair of row blocks as a lane has it.
template <int kSteps>
struct Rows {
  uint4 pieces[2][kSteps];

  __device__ void load(const Task& task, unsigned pair, unsigned lane) {
    const uint4* dev_rows = task.dev_rows + std::uint64_t{pair} * (2 * kSteps * kLanes) + lane;
#pragma unroll
    for (int e = 0; e < 2 * kSteps; ++e) {
      pieces[e / kSteps][e % kSteps] = __ldcs(dev_rows + e * kLanes);
    }
  }
};

/// What else a lane needs to know of them.
struct Known {
  uint4 lengths;       // of the lane's four rows: eight apart
  std::int32_t label;  // before, of the row that is the lane's to judge

  __device__ void load(const Task& task, unsigned pair, unsigned lane) {
    lengths = __ldcs(task.dev_lengths + pair * 8 + lane / 4);
    const unsigned i = pair * kPairRows + row_of(lane);
    label = i < task.n ? task.dev_labels[i] : 0;
  }
};

/// One step's and the next's operand of a column block.
template <int kSteps>
__device__ __forceinline__ void load_columns(const unsigned char* block, uint2 (&columns)[kSteps]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int step = 0; step + 1 < kSteps; step += 2) {
    [[maybe_unused]] const auto both =
        *reinterpret_cast<const uint4*>(block + step * kColumnPiece + lane * 16);
    columns[step] = {both.x, both.y};
    columns[step + 1] = {both.z, both.w};
  }
  if constexpr (kSteps % 2 != 0) {
    columns[kSteps - 1] =
        *reinterpret_cast<const uint2*>(block + (kSteps - 1) * kColumnPiece + lane * 8);
  }
}

/// A warp's rows times a chunk of centroids.
template <int kSteps, int kTiles>
__device__ __forceinline__ void multiply_chunk(const Rows<kSteps>& rows,
                                               const unsigned char* blocks,
                                               const float4* half_norms,
                                               float (&sums)[2][kTiles][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    uint2 columns[kSteps];
    load_columns<kSteps>(blocks + tile * kSteps * kColumnPiece, columns);
    const float4 norms = half_norms[tile * 4 + threadIdx.x % 4];
#pragma unroll
    for (int block = 0; block < 2; ++block) {
      float(&own)[4] = sums[block][tile];
      multiply_add(own, rows.pieces[block][0], columns[0], norms);
#pragma unroll
      for (int step = 1; step < kSteps; ++step) {
        multiply_add(own, rows.pieces[block][step], columns[step],
                     {own[0], own[1], own[2], own[3]});
      }
    }
  }
}

/// The distances of a chunk of centroids: their least, and how many are within the bound above it. kFirst: nothing
/// is known of the rows yet, and no chunk is compared with those before.
template <bool kFirst, int kBlocks, int kTiles>
__device__ __forceinline__ void judge_chunk(const float (&sums)[kBlocks][kTiles][4],
                                            const unsigned (&lengths)[2 * kBlocks],
                                            const float4& margin, int first_column,
                                            Nearest* nearest) {
  constexpr int kRows = 2 * kBlocks;
  float limits[kRows];
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    Least of_row;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float* two = sums[row / 2][tile] + row % 2 * 2;
      of_row.look(two[0], two[1]);
    }
    const float least = of_row.value();
    __half2 halves;
    memcpy(&halves, &lengths[row], sizeof(halves));
    const float2 length = __half22float2(halves);
    const float width = __fmaf_rn(length.x, margin.x, __fmaf_rn(length.y, margin.y, margin.z));
    if constexpr (kFirst) {
      nearest[row] = {.upper = least + width, .lower = least - width};
    } else {
      if (first_column == 0) nearest[row] = {};
      nearest[row].look(least - width, least + width);
    }
    limits[row] = (nearest[row].upper + width) * kLarge;
  }
  float counted[kRows] = {};
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int e = 0; e < 4 * kBlocks; ++e) {
      const float number = kOne + static_cast<float>(tile * kMmaColumns + e % 2);
      counted[e / 2] = count_below(sums[e / 4][tile][e % 4], limits[e / 2], number, counted[e / 2]);
    }
  }
  const auto offset = static_cast<float>(first_column + static_cast<int>(threadIdx.x) % 4 * 2);
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if constexpr (kFirst) {
      nearest[row].add_first(counted[row], offset);
    } else {
      nearest[row].add(counted[row], offset);
    }
  }
}

/// A warp's rows and all centroids. When the rows have been multiplied, `then` may load others in their
/// place.
template <bool kOneChunk, int kSteps, int kTiles, class Then>
__device__ __forceinline__ void look_at_all(const Task& task, const Rows<kSteps>& rows,
                                            const unsigned (&lengths)[4],
                                            const unsigned char* blocks, const float4* half_norms,
                                            const float4* margins, Nearest (&nearest)[4],
                                            const Then& then) {
  float sums[2][kTiles][4];
  if constexpr (kOneChunk) {
    multiply_chunk<kSteps, kTiles>(rows, blocks, half_norms, sums);
    then();
    judge_chunk<true, 2, kTiles>(sums, lengths, margins[0], 0, nearest);
  } else {
    for (int chunk = 0; chunk < task.chunks; ++chunk) {
      const int first = chunk * kTiles * kMmaColumns;
      multiply_chunk<kSteps, kTiles>(rows, blocks + chunk * (kTiles * kSteps * kColumnPiece),
                                     half_norms + first / 2, sums);
      if (chunk + 1 == task.chunks) then();
      judge_chunk<false, 2, kTiles>(sums, lengths, margins[chunk], first, nearest);
    }
  }
}

/// Adds products from step kStep on. No loop: the compiler would wait for every product of one. columns:
/// the descriptor of the first.
template <int kStep, int kPitch, int kSteps, int kSums>
__device__ __forceinline__ void multiply_steps(const uint4 (&rows)[kSteps], std::uint64_t columns,
                                               float (&sums)[kSums]) {
  if constexpr (kStep < kSteps) {
    multiply_rows(sums, rows[kStep], columns + kStep * (kMmaDepth * 2 * kPitch / 16), true);
    multiply_steps<kStep + 1, kPitch>(rows, columns, sums);
  }
}

/// The same by a warp group, 64 rows and 128 centroids at a time. All is unrolled, so that no address is
/// left to compute.
template <int kSteps, int kChunks, class Then>
__device__ __forceinline__ void look_at_all_wide(const Rows<kSteps>& rows,
                                                 const unsigned (&lengths)[4],
                                                 std::uint64_t columns, const float4* margins,
                                                 Nearest (&nearest)[4], const Then& then) {
  constexpr int kColumns = kWideTiles * kMmaColumns;
  constexpr int kPitch = kChunks * kColumns;
  // What the norms' columns meet: ones. In registers of their own, which products under way may read.
  uint4 ones{threadIdx.x % 4 == 0 ? 0x3c003c00U : 0U, 0, 0, 0};
  ones.y = ones.x;
  asm volatile("" : "+r"(ones.x), "+r"(ones.y), "+r"(ones.z), "+r"(ones.w));
#pragma unroll
  for (int block = 0; block < 2; ++block) {
    const unsigned own_lengths[2] = {lengths[2 * block], lengths[2 * block + 1]};
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const std::uint64_t own = columns + chunk * (kColumns * kCoreHalves * 2 / 16);
      float sums[4 * kWideTiles];
      pin(sums);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply_rows(sums, ones, own + kSteps * (kMmaDepth * 2 * kPitch / 16), false);
      multiply_steps<0, kPitch>(rows.pieces[block], own, sums);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      pin(sums);
      if (block == 1 && chunk + 1 == kChunks) then();
      const auto& of_block = reinterpret_cast<float(&)[1][kWideTiles][4]>(sums);
      if (chunk == 0) {
        judge_chunk<true, 1, kWideTiles>(of_block, own_lengths, margins[0], 0, nearest + 2 * block);
      } else {
        judge_chunk<false, 1, kWideTiles>(of_block, own_lengths, margins[chunk], chunk * kColumns,
                                          nearest + 2 * block);
      }
    }
  }
}

/// Of four rows that four lanes have looked at, each lane's own, from all four. kAtOnce: all that a lane found came
/// at once.
template <bool kAtOnce>
__device__ __forceinline__ Nearest own_row(const Nearest (&rows)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const bool upper_two = lane % 4 >= 2;
  Nearest two[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    two[row] = upper_two ? rows[row + 2] : rows[row];
    const Nearest given = upper_two ? rows[row] : rows[row + 2];
    two[row].join(given.from<kAtOnce>(2));
  }
  const bool odd = lane % 2 != 0;
  Nearest own = odd ? two[1] : two[0];
  const Nearest given = odd ? two[0] : two[1];
  own.join(given.from(1));
  return own;
}

/// A block's points that are still open, in memory: those between two centroids from the one end, the
/// others from the other.
struct OpenLists {
  Open* dev_open;
  unsigned room;
  unsigned* counts;  // of both, in shared memory

  /// A warp's list in shared memory goes there.
  __device__ void take(const Open* listed, int count) const {
    const unsigned lane = threadIdx.x % kLanes;
    const unsigned below = (1U << lane) - 1;
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < count; first += kLanes) {
      const int e = first + static_cast<int>(lane);
      const Open open = listed[min(e, count - 1)];
      const bool is_pair = e < count && open.other != kUnknown;
      const bool is_other = e < count && open.other == kUnknown;
      const unsigned pairs = __ballot_sync(kAllLanes, is_pair);
      const unsigned others = __ballot_sync(kAllLanes, is_other);
      unsigned place = 0;
      if (lane < 2) place = atomicAdd(&counts[lane], __popc(lane == 0 ? pairs : others));
      const unsigned first_pair = __shfl_sync(kAllLanes, place, 0);
      const unsigned first_other = __shfl_sync(kAllLanes, place, 1);
      if (is_pair) dev_open[first_pair + __popc(pairs & below)] = open;
      if (is_other) dev_open[room - 1 - first_other - __popc(others & below)] = open;
    }
    __syncwarp();
  }
};

/// The nearest of those centroids that the lanes' bits name, as defined; the lowest index wins.
__device__ inline int label_as_defined(const Task& task, std::int64_t i, const float* columns,
                                       int pitch, unsigned close) {
  double nearest = INFINITY;
  int label = 0x7fffffff;
  for (; close != 0; close &= close - 1) {
    const int j =
        (__ffs(static_cast<int>(close)) - 1) * kLanes + static_cast<int>(threadIdx.x) % kLanes;
    double distance = 0;
    for (int t = 0; t < task.d; ++t) {
      distance =
          add_exact_square(distance, task.dev_points[i * task.d + t], columns[t * pitch + j]);
    }
    if (distance < nearest || label == 0x7fffffff) nearest = distance, label = j;
  }
#pragma unroll
  for (int apart = kLanes / 2; apart > 0; apart /= 2) {
    const double other = __shfl_xor_sync(kAllLanes, nearest, apart);
    const int other_label = __shfl_xor_sync(kAllLanes, label, apart);
    if (other < nearest || (other == nearest && other_label < label)) {
      nearest = other;
      label = other_label;
    }
  }
  return label;
}

/// A warp's points between two centroids; those that change are listed.
__device__ inline void label_pairs(const Task& task, const Open* dev_open, unsigned first,
                                   unsigned count, const BlockSums& sums, Change* changes,
                                   int& change_count) {
  static_assert(kOpenPoints * kPairLanes == kLanes);
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned slot = first + lane / kPairLanes;
  const Open open = dev_open[min(slot, count - 1)];
  const std::int32_t before = task.dev_labels[open.point];
  const float* point = task.dev_points + std::uint64_t{static_cast<unsigned>(open.point)} *
                                             static_cast<unsigned>(task.d);
  const bool one =
      one_is_nearer(point, task.dev_centroids + open.one * task.d,
                    task.dev_centroids + open.other * task.d, task.d, task.factor, kFilterTiny);
  const int label = one ? open.one : open.other;
  const bool judges = lane % kPairLanes == 0 && slot < count;
  const bool changed = judges && label != before;
  const unsigned all_changed = __ballot_sync(kAllLanes, changed);
  if (changed) {
    task.dev_labels[open.point] = label;
    const Change change{open.point, static_cast<std::uint16_t>(label),
                        static_cast<std::uint16_t>(before < 0 ? task.k : before)};
    sums.count(change);
    changes[change_count + __popc(all_changed & ((1U << lane) - 1))] = change;
  }
  change_count += __popc(all_changed);
}

/// The block: labels of its open points, between two centroids or by float32 differences to all, and where
/// these are too close as defined; and what they change in the sums. kOwn: centroids of a lane. memory:
/// shared, Cut::shared_bytes() less the sums.
template <int kOwn>
__device__ __forceinline__ void settle(const Task& task, const OpenLists& lists,
                                       unsigned char* memory, const BlockSums& sums) {
  constexpr int kPitch = kOwn * kLanes;
  const unsigned pairs = lists.counts[0];
  const unsigned count = lists.counts[1];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned warp = threadIdx.x / kLanes;
  const unsigned warps = blockDim.x / kLanes;
  auto* all_points = reinterpret_cast<float4*>(memory);
  auto* columns = reinterpret_cast<float*>(all_points + warps * task.d);
  auto* all_changes = reinterpret_cast<Change*>(columns + task.d * kPitch);
  Change* changes = all_changes + warp * kOpenChanges;
  float4* points = all_points + warp * task.d;
  const auto* dev_transposed = reinterpret_cast<const float4*>(task.dev_transposed);
  if (count > 0) {
#pragma unroll 4
    for (int e = static_cast<int>(threadIdx.x); e < task.d * kPitch / 4;
         e += static_cast<int>(blockDim.x)) {
      reinterpret_cast<float4*>(columns)[e] = dev_transposed[e];
    }
    __syncthreads();
  }
  const unsigned stride = warps * kOpenPoints;
  int change_count = 0;
  const auto move_if = [&](bool they_must) {
    if (!they_must && change_count + kOpenPoints <= kLanes) return;
    __syncwarp();
    sums.move<kLanes>(changes, change_count, task.dev_points, task.scale);
    change_count = 0;
  };
  for (unsigned first = warp * kOpenPoints; first < pairs; first += stride) {
    label_pairs(task, lists.dev_open, first, pairs, sums, changes, change_count);
    move_if(false);
  }
  // The last warps have fewer pairs, so they begin with the others.
  for (unsigned first = (warps - 1 - warp) * kOpenPoints; first < count; first += stride) {
    const unsigned slot = min(first + static_cast<unsigned>(lane) % kOpenPoints, count - 1);
    const std::int32_t own = lists.dev_open[lists.room - 1 - slot].point;
    std::int64_t indices[kOpenPoints];
#pragma unroll
    for (int p = 0; p < kOpenPoints; ++p) indices[p] = __shfl_sync(kAllLanes, own, p);
    const std::int32_t before = task.dev_labels[own];
    for (int t = lane; t < task.d; t += kLanes) {
      points[t] = {
          task.dev_points[indices[0] * task.d + t], task.dev_points[indices[1] * task.d + t],
          task.dev_points[indices[2] * task.d + t], task.dev_points[indices[3] * task.d + t]};
    }
    __syncwarp();
    float distances[kOpenPoints][kOwn] = {};
#pragma unroll 4
    for (int t = 0; t < task.d; ++t) {
      const float4 four = points[t];
      const float x[kOpenPoints] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int c = 0; c < kOwn; ++c) {
        const float coordinate = columns[t * kPitch + c * kLanes + lane];
#pragma unroll
        for (int p = 0; p < kOpenPoints; ++p) {
          const float difference = __fsub_rn(x[p], coordinate);
          distances[p][c] = __fmaf_rn(difference, difference, distances[p][c]);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kOpenPoints; ++p) {
      if (first + p >= count) break;
      float least = distances[p][0];
#pragma unroll
      for (int c = 1; c < kOwn; ++c) least = fminf(least, distances[p][c]);
      // Squared distances are not negative: as integers they have the same order.
      least = __uint_as_float(__reduce_min_sync(kAllLanes, __float_as_uint(least)));
      const float limit = __fmaf_rn(least, task.factor, kFilterTiny);
      int close = 0;
      unsigned own_close = 0;
      int label = 0;
#pragma unroll
      for (int c = 0; c < kOwn; ++c) {
        const bool may_be = c * kLanes + lane < task.k && !(distances[p][c] > limit);
        const unsigned all = __ballot_sync(kAllLanes, may_be);
        close += __popc(all);
        own_close |= may_be ? 1U << c : 0U;
        if (all != 0) label = c * kLanes + __ffs(static_cast<int>(all)) - 1;
      }
      if (close > 1) {
        label = label_as_defined(task, indices[p], columns, kPitch, own_close);
      }
      const int old = __shfl_sync(kAllLanes, before, p);
      if (label == old) continue;
      if (lane == 0) {
        task.dev_labels[indices[p]] = label;
        const Change change{static_cast<std::int32_t>(indices[p]),
                            static_cast<std::uint16_t>(label),
                            static_cast<std::uint16_t>(old < 0 ? task.k : old)};
        sums.count(change);
        changes[change_count] = change;
      }
      ++change_count;
    }
    __syncwarp();
    move_if(false);
  }
  move_if(true);
}

/// Labels by the float16 copies, then those of the points still open, and sums of the points that changed.
/// kChunks: of centroids; where one warp multiplies, 0 for as many as the task says.
template <int kSteps, int kTiles, int kChunks>
__global__ void __launch_bounds__(threads_for(kSteps, kTiles), 1)
    label_and_add_kernel(const __grid_constant__ Task task) {
  constexpr bool kWide = kTiles == kWideTiles;
  extern __shared__ __align__(16) unsigned char memory[];
  constexpr int kThreads = threads_for(kSteps, kTiles);
  constexpr int kWarps = kThreads / kLanes;
  constexpr int kColumnBytes = kMmaDepth * 2 * (kSteps + (kWide ? 1 : 0));
  constexpr int kListed = listed_for(kWide);
  constexpr int kChanges = changes_for(kWide);
  constexpr bool kAhead = kSteps <= 3;  // more registers than that are not held while points move
  auto* open_counts = reinterpret_cast<unsigned*>(memory);
  auto* enough_in = reinterpret_cast<int*>(open_counts + 2);
  static_assert(8 + kWarps / kGroupWarps * 4 <= kCountBytes);
  const BlockSums sums(memory + kCountBytes, task.k, task.d);
  unsigned char* blocks = memory + kCountBytes + BlockSums::bytes(task.k, task.d);
  auto* margins = reinterpret_cast<float4*>(blocks + task.columns * kColumnBytes);
  auto* half_norms = margins + task.chunks;  // of two columns, for the rows of a product: twice
  auto* all_changes = reinterpret_cast<Change*>(half_norms + (kWide ? 0 : task.columns / 2));
  auto* all_open = reinterpret_cast<Open*>(all_changes + kWarps * kChanges);
  const unsigned lane = threadIdx.x % kLanes;
  // From a shuffle, so that the compiler knows it to be the same in all lanes.
  const unsigned warp = __shfl_sync(kAllLanes, threadIdx.x / kLanes, 0);
  Change* changes = all_changes + warp * kChanges;
  Open* open = all_open + warp * kListed;

  // Where a warp group's warps wait for one another, they pass on what they have in the same round: the
  // one after that in which one of them had enough.
  int* enough = &enough_in[warp / kGroupWarps];
  if (warp % kGroupWarps == 0 && lane == 0) *enough = -1;
  // A warp group's warps go on together; the copy has whole groups.
  constexpr unsigned kTogether = kWide ? kGroupWarps : 1;
  const auto pairs =
      static_cast<unsigned>((task.n + kTogether * kPairRows - 1) / (kTogether * kPairRows)) *
      kTogether;
  const unsigned stride = gridDim.x * kWarps;
  if (threadIdx.x < 2) open_counts[threadIdx.x] = 0;
  const unsigned room = (pairs + stride - 1) / stride * (kWarps * kPairRows);
  const OpenLists lists{task.dev_open + std::uint64_t{blockIdx.x} * room, room, open_counts};
  Rows<kSteps> rows;
  Known next;
  // Groups are numbered across blocks, so that all multiprocessors have the same share of a last round.
  unsigned pair = ((warp / kTogether) * gridDim.x + blockIdx.x) * kTogether + warp % kTogether;
  if (pair < pairs) {
    if (kAhead) rows.load(task, pair, lane);
    next.load(task, pair, lane);
  }
  const auto* dev_columns = reinterpret_cast<const uint4*>(task.dev_columns);
#pragma unroll 4
  for (int e = static_cast<int>(threadIdx.x); e < task.columns * kColumnBytes / 16; e += kThreads) {
    reinterpret_cast<uint4*>(blocks)[e] = __ldg(dev_columns + e);
  }
  for (int e = static_cast<int>(threadIdx.x); !kWide && e < task.columns / 2; e += kThreads) {
    const float2 two = reinterpret_cast<const float2*>(task.dev_half_norms)[e];
    half_norms[e] = {two.x, two.y, two.x, two.y};
  }
  for (unsigned chunk = warp; chunk < static_cast<unsigned>(task.chunks); chunk += kWarps) {
    float4 margin{};
    constexpr unsigned kOwn = kTiles * kMmaColumns;
#pragma unroll
    for (unsigned first = 0; first < kOwn; first += kLanes) {
      const float4 own = task.dev_margins[chunk * kOwn + min(first + lane, kOwn - 1)];
      margin = {fmaxf(margin.x, own.x), fmaxf(margin.y, own.y), fmaxf(margin.z, own.z), 0};
    }
    // None is negative: as integers they have the same order.
    margins[chunk] = {__uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(margin.x))),
                      __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(margin.y))),
                      __uint_as_float(__reduce_max_sync(kAllLanes, __float_as_uint(margin.z))), 0};
  }
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (kWide) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  __syncthreads();

  const unsigned below = (1U << lane) - 1;
  const auto none = static_cast<std::uint16_t>(task.k);
  int passed_on = 0;
  int round = 0;
  int change_count = 0;
  int open_count = 0;
  for (;; pair += stride) {
    const bool more = pair < pairs;
    if (more) {
      const Known known = next;
      if (!kAhead) rows.load(task, pair, lane);
      Nearest nearest[4];
      const unsigned lengths[4] = {known.lengths.x, known.lengths.y, known.lengths.z,
                                   known.lengths.w};
      const auto load_next = [&] {
        if (pair + stride >= pairs) return;
        if (kAhead) rows.load(task, pair + stride, lane);
        next.load(task, pair + stride, lane);
      };
      if constexpr (kWide) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)  // else not called: cut_for()
        const auto* columns = reinterpret_cast<const __half*>(blocks);
        look_at_all_wide<kSteps, kChunks>(rows, lengths, descriptor(columns, task.columns), margins,
                                          nearest, load_next);
#endif
      } else {
        look_at_all<kChunks == 1, kSteps, kTiles>(task, rows, lengths, blocks, half_norms, margins,
                                                  nearest, load_next);
      }
      const Nearest own = own_row<kChunks == 1>(nearest);
      const unsigned i = pair * kPairRows + row_of(lane);
      const bool exists = i < task.n;
      const int label = own.index();
      const bool decided = own.decided() && label < task.k;
      const bool changed = exists && decided && label != known.label;
      const unsigned all_changed = __ballot_sync(kAllLanes, changed);
      const unsigned all_left = __ballot_sync(kAllLanes, exists && !decided);
      if (changed) {
        task.dev_labels[i] = label;
        const Change change{static_cast<std::int32_t>(i), static_cast<std::uint16_t>(label),
                            known.label < 0 ? none : static_cast<std::uint16_t>(known.label)};
        sums.count(change);
        changes[change_count + __popc(all_changed & below)] = change;
      }
      if (exists && !decided) {
        const int2 two = own.is_pair() ? own.pair() : int2{kUnknown, kUnknown};
        open[open_count + __popc(all_left & below)] = {
            static_cast<std::int32_t>(i), static_cast<std::uint16_t>(two.x),
            static_cast<std::uint16_t>(two.y < task.k ? two.y : kUnknown)};
      }
      change_count += __popc(all_changed);
      open_count += __popc(all_left);
    }
    bool passes_on = !more;
    if constexpr (kWide) {
      int said = 0;
      if (lane == 0) said = atomicMax(enough, -1);  // as it is
      said = __shfl_sync(kAllLanes, said, 0);
      passes_on = passes_on || (said >= passed_on && said < round);
      if (passes_on) passed_on = round;
      const bool has_enough = max(open_count, change_count) > kEnough;
      if (!passes_on && has_enough && said < passed_on && lane == 0) atomicMax(enough, round);
      ++round;
    }
    if (open_count > (passes_on ? 0 : kListed - kLanes)) {
      lists.take(open, open_count);
      open_count = 0;
    }
    if (change_count > (passes_on ? 0 : kListed - kLanes)) {
      sums.move<(kSteps == 1 ? 16 : 32)>(changes, change_count, task.dev_points, task.scale);
      change_count = 0;
    }
    if (!more) break;
  }
  __syncthreads();
  if constexpr (kWide) {
    settle<4 * kChunks>(task, lists, blocks, sums);
  } else if constexpr (kTiles < 8) {
    settle<1>(task, lists, blocks, sums);
  } else if (own_for(task.k) == 2) {
    settle<2>(task, lists, blocks, sums);
  } else if (own_for(task.k) == 4) {
    settle<4>(task, lists, blocks, sums);
  } else {
    settle<8>(task, lists, blocks, sums);
  }
  __syncthreads();
  sums.flush(task.dev_sums);
}

/// A warp a column: the new centroid, if dev_totals (k x (d + 1)) are given, its copies, and what rounding one of
/// them can have changed.
__global__ void move_centroids_kernel(Task task, const Integer* __restrict__ dev_totals, int steps,
                                      int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int j = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kLanes);
  const bool exists = j < task.k;
  if (!exists && j < pitch) {
    for (int t = lane; t < task.d; t += kLanes) task.dev_transposed[t * pitch + j] = INFINITY;
  }
  if (j >= task.columns) return;
  const Integer* sums = dev_totals + std::int64_t{j} * (task.d + 1);
  const auto count = exists && dev_totals != nullptr ? static_cast<long long>(sums[task.d]) : 0;
  __half* block = task.dev_columns + (task.wide ? 0 : j / kMmaColumns * steps * (kColumnPiece / 2));
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  bool far = false;
  for (int t = lane; t < steps * kMmaDepth; t += kLanes) {
    double c = 0;
    if (exists && t < task.d) {
      float* dev_own = task.dev_centroids + j * task.d + t;
      if (count != 0)
        *dev_own = exact_mean(static_cast<long long>(sums[t]), count, task.inverse_scale);
      task.dev_transposed[t * pitch + j] = *dev_own;
      c = (static_cast<double>(*dev_own) - task.dev_mean[t]) * task.copy_scale;
    }
    if (!(fabs(c) <= kFarthest)) far = true, c = 0;
    const __half copy = __double2half(c);
    const double kept = __half2float(copy);
    squared += c * c;
    squared_copy += kept * kept;
    squared_rest += (c - kept) * (c - kept);
    const int place =
        task.wide ? place_in_tile(task.columns, j, t) : place_in_columns(steps, j % kMmaColumns, t);
    block[place] = __hneg(copy);
  }
  far = __any_sync(kAllLanes, far);
  constexpr double kUp = 1 + 0x1p-20;  // above the roundings of sums, roots and what they enter
  // Products of some columns and the sum before are aligned to the largest and cut: of each step at
  // most twenty terms, if four products are added at a time, lose 2^-23 of all magnitudes. The
  // comparisons' own roundings are within 2^-20 of them.
  const double share = (steps + (task.wide ? 2 : 1)) * 20 * 0x1p-23 + 0x1p-20;
  const double half_norm = warp_sum(squared) / 2 + task.bias.added;
  const double length = kUp * sqrt(warp_sum(squared_copy));
  const double rest = kUp * sqrt(warp_sum(squared_rest));
  if (task.wide && lane < kMmaDepth) {  // the step of the norms, which come in two parts
    if (half_norm > kFarthestWide) far = true;
    const double norm = exists && !far ? half_norm : kFarWide;
    const __half high = __double2half(norm);
    const __half low = __double2half(norm - static_cast<double>(__half2float(high)));
    const __half none = __float2half(0.0F);
    block[place_in_tile(task.columns, j, steps * kMmaDepth + lane)] =
        lane == 0 ? high : (lane == 1 ? low : none);
  }
  if (lane != 0) return;
  const double by_length = kUp * (rest + share * length + 0x1p-24);
  // Two parts of a norm are 2^-22 of it off, or 2^-25.
  const double by_itself = kUp * ((share + (task.wide ? 0x1p-22 : 0)) * half_norm + 0x1p-23);
  far = far || !task.bias.suffices(by_length, length, by_itself);
  task.dev_half_norms[j] = exists ? static_cast<float>(half_norm) : kFarFromAll;
  task.dev_margins[j] = far ? float4{kNoBound, kNoBound, kNoBound, 0}
                            : float4{static_cast<float>(by_length), static_cast<float>(length),
                                     static_cast<float>(by_itself), 0};
}

constexpr int kLanesOfRow = kMmaDepth / 2;

/// kLanesOfRow lanes a point, two neighbouring coordinates at a time.
__global__ void copy_points_kernel(const float* __restrict__ dev_points, std::int64_t n, int d,
                                   FrameView frame, int steps, std::int64_t rows,
                                   __half* __restrict__ dev_rows, __half2* __restrict__ dev_lengths,
                                   unsigned* __restrict__ dev_largest) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanesOfRow;
  if (i >= rows) return;
  const int row = static_cast<int>(i % kPairRows);
  __half* pair = dev_rows + i / kPairRows * steps * kRowPiece;  // halves: two blocks
  CopiedRow copied;
  const auto copy = [&](int t) {
    if (i >= n || t >= d) return __float2half(0.0F);
    return copied.add(dev_points[i * d + t], frame.dev_mean[t], frame);
  };
  for (int t = static_cast<int>(threadIdx.x) % kLanesOfRow * 2; t < steps * kMmaDepth;
       t += kMmaDepth) {
    const __half even = copy(t);
    *reinterpret_cast<__half2*>(&pair[place_in_rows(steps, row, t)]) = {even, copy(t + 1)};
  }
  copied.join(kLanesOfRow);
  if (threadIdx.x % kLanesOfRow != 0) return;
  dev_lengths[(i / kPairRows * 8 + row % 8) * 4 + row / 8] = {copied.length(), copied.rest()};
  note_largest(copied.square(), dev_largest);
}

int steps_for(std::int64_t d) { return static_cast<int>(ceil_div(d, kMmaDepth)); }

Cut narrow_cut(std::int64_t k, std::int64_t d) {
  const int tiles = k <= 8 ? 1 : (k <= 16 ? 2 : (k <= 32 ? 4 : 8));
  return {.steps = steps_for(d),
          .tiles = tiles,
          .chunks = static_cast<int>(ceil_div(k, tiles * kMmaColumns)),
          .wide = false};
}

Cut cut_for(std::int64_t k, std::int64_t d, const kmeans::GpuDevice& gpu) {
  const Cut narrow = narrow_cut(k, d);
  if (gpu.major != 9 || narrow.chunks == 1 || narrow.steps > kMaxWideSteps) return narrow;
  const Cut wide{.steps = narrow.steps,
                 .tiles = kWideTiles,
                 .chunks = static_cast<int>(ceil_div(k, kWideTiles * kMmaColumns)),
                 .wide = true};
  return wide.shared_bytes(k, d) <= gpu.shared_bytes_per_block ? wide : narrow;
}

kmeans::Support few_centroids(const kmeans::Shape& shape) {
  const auto [n, d, k, precision] = shape;
  if (d > kMaxSteps * kMmaDepth || k > kMaxCentroids) {
    return kmeans::Support::no("d = " + std::to_string(d) + ", k = " + std::to_string(k) +
                               ": registers and shared memory hold at most 128 coordinates of 256 "
                               "centroids");
  }
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (gpu == nullptr) return kmeans::counts_fit(shape);
  if (gpu->major < 8) {
    return kmeans::Support::no(
        "its matrix instructions are those of compute capability 8.0 and newer; "
        "this is " +
        std::to_string(gpu->major) + "." + std::to_string(gpu->minor));
  }
  const std::int64_t bytes = cut_for(k, d, *gpu).shared_bytes(k, d);
  if (bytes > gpu->shared_bytes_per_block) {
    return kmeans::Support::no("centroids and sums of d = " + std::to_string(d) +
                               ", k = " + std::to_string(k) + " take " + std::to_string(bytes) +
                               " bytes of shared memory; a block has " +
                               std::to_string(gpu->shared_bytes_per_block));
  }
  return kmeans::counts_fit(shape);
}

class CudaOnepass final : public CudaLloyd<float> {
 public:
  CudaOnepass() : CudaLloyd<float>(Layout::rows) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const int s = kmeans::exact::sum_exponent(problem_.whole_n(), problem_.max_abs);
    shared_ = SharedSums(problem_);
    frame_ = frame_of(dev_points_.data(), n, d);
    cut_ = cut_for(k, d, *kmeans::current_gpu());
    const int columns = cut_.columns();
    const std::int64_t pairs = ceil_div(n, kGroupWarps * kPairRows) * kGroupWarps;
    dev_rows_ = DeviceBuffer<uint4>(pairs * 2 * steps_for(d) * kLanes);
    dev_lengths_ = DeviceBuffer<uint4>(pairs * 8);
    dev_columns_ = DeviceBuffer<__half>(cut_.column_bytes() / 2);
    dev_half_norms_ = DeviceBuffer<float>(columns);
    dev_margins_ = DeviceBuffer<float4>(columns);
    dev_transposed_ = DeviceBuffer<float>(d * own_for(k) * kLanes);
    dev_sums_ = DeviceBuffer<Integer>(shared_.length());
    dev_open_ = DeviceBuffer<Open>(blocks() * cut_.points_of_block(n, blocks()));
    task_ = {.n = n,
             .d = static_cast<int>(d),
             .k = static_cast<int>(k),
             .chunks = cut_.chunks,
             .columns = columns,
             .wide = cut_.wide,
             .scale = kmeans::exact::power_of_two(s),
             .inverse_scale = kmeans::exact::power_of_two(-s),
             .copy_scale = frame_.scale,
             .bias = {},  // once the copy is made
             .factor = filter_factor(d),
             .dev_points = dev_points_.data(),
             .dev_mean = frame_.dev_mean.data(),
             .dev_rows = dev_rows_.data(),
             .dev_lengths = dev_lengths_.data(),
             .dev_centroids = dev_centroids_.data(),
             .dev_columns = dev_columns_.data(),
             .dev_half_norms = dev_half_norms_.data(),
             .dev_margins = dev_margins_.data(),
             .dev_transposed = dev_transposed_.data(),
             .dev_sums = dev_sums_.data(),
             .dev_labels = dev_labels_.data(),
             .dev_open = dev_open_.data()};
    const DeviceBuffer<unsigned> dev_largest(1);
    dev_largest.zero();
    copy_points_kernel<<<blocks_for(pairs * kPairRows * kLanesOfRow, 256), 256>>>(
        dev_points_.data(), n, task_.d, frame_.view(), cut_.steps, pairs * kPairRows,
        reinterpret_cast<__half*>(dev_rows_.data()),
        reinterpret_cast<__half2*>(dev_lengths_.data()), dev_largest.data());
    KMEANS_CUDA_LAUNCHED(copy_points_kernel);
    task_.bias = Bias::of(dev_largest);
    with_pass([&](auto kernel) { allow_shared_bytes(kernel, shared_bytes()); });
    iteration_.record([this](cudaStream_t stream) { launch(stream); });
  }

  void restart() override {
    dev_sums_.zero();
    move_centroids(nullptr, nullptr);
  }

  void iterate() override { launch(nullptr); }  // to profile it

  void iterate_times(std::int64_t iterations) override {
    if (profiled()) return CudaLloyd::iterate_times(iterations);
    iteration_.launch(iterations);
  }

  void launch(cudaStream_t stream) {
    {
      const auto timed = stage("assign and add");
      with_pass([&](auto kernel) {
        kernel<<<static_cast<unsigned>(blocks()), static_cast<unsigned>(cut_.threads()),
                 shared_bytes(), stream>>>(task_);
        KMEANS_CUDA_LAUNCHED(label_and_add_kernel);
      });
    }
    update_in_stages(
        shared_.shared(), [] {},
        [&] { return shared_.add_up(dev_sums_.data(), dev_centroids_.data(), stream); },
        [&](const Integer* dev_totals) { move_centroids(dev_totals, stream); });
  }

  /// dev_totals: sums and counts to divide, or null, and the centroids are copied as they are.
  void move_centroids(const Integer* dev_totals, cudaStream_t stream) {
    const int pitch = own_for(task_.k) * kLanes;
    move_centroids_kernel<<<blocks_for(std::int64_t{std::max(task_.columns, pitch)} * kLanes, 256),
                            256, 0, stream>>>(task_, dev_totals, cut_.steps, pitch);
    KMEANS_CUDA_LAUNCHED(move_centroids_kernel);
  }

  /// A block for each multiprocessor.
  static std::int64_t blocks() { return kmeans::current_gpu()->multiprocessors; }

  /// Calls use(kernel) with the one for d and k.
  template <class Use>
  void with_pass(const Use& use) const {
    with_steps<kMaxSteps>([&](auto steps) {
      const auto with = [&](auto tiles, auto chunks) {
        use(label_and_add_kernel<steps, tiles, chunks>);
      };
      constexpr std::integral_constant<int, 1> one;
      if constexpr (steps <= kMaxWideSteps) {
        constexpr std::integral_constant<int, kWideTiles> tiles;
        if (cut_.wide && cut_.chunks == 1) return with(tiles, one);
        if (cut_.wide) return with(tiles, std::integral_constant<int, 2>());
      }
      switch (cut_.tiles) {
        case 1: return with(one, one);
        case 2: return with(std::integral_constant<int, 2>(), one);
        case 4: return with(std::integral_constant<int, 4>(), one);
        default: break;
      }
      constexpr std::integral_constant<int, 8> tiles;
      if (cut_.chunks == 1) return with(tiles, one);
      with(tiles, std::integral_constant<int, 0>());
    });
  }
  template <int kSteps, class Use>
  void with_steps(const Use& use) const {
    if constexpr (kSteps > 1) {
      if (cut_.steps < kSteps) return with_steps<kSteps - 1>(use);
    }
    use(std::integral_constant<int, kSteps>());
  }
  [[nodiscard]] std::size_t shared_bytes() const {
    return static_cast<std::size_t>(cut_.shared_bytes(task_.k, task_.d));
  }

  Task task_{};
  Cut cut_{};
  CopyFrame frame_;
  IterationGraph iteration_;
  SharedSums shared_;
  DeviceBuffer<uint4> dev_rows_;
  DeviceBuffer<uint4> dev_lengths_;
  DeviceBuffer<__half> dev_columns_;
  DeviceBuffer<float> dev_half_norms_;
  DeviceBuffer<float4> dev_margins_;
  DeviceBuffer<float> dev_transposed_;
  DeviceBuffer<Integer> dev_sums_;
  DeviceBuffer<Open> dev_open_;
};

}  // namespace

KMEANS_VARIANT(
    CudaOnepass, .name = "cuda_onepass",
    .summary =
        "the exact step for few centroids: matrix units label, and changes are summed, in one pass",
    .exact = true, .gpu_shards = true, .sums = Sums::wide,
    .setup_note = "makes a centred float16 copy of the points", .supports = few_centroids,
    .device_bytes = [](const Shape& s) {
      const double padded = 16.0 * std::ceil(static_cast<double>(s.d) / 16);
      // Rows of whole warp groups; columns of whole chunks, with a step for the norms.
      const double n = static_cast<double>(s.n) + kGroupWarps * kPairRows;
      const double k = static_cast<double>(s.k) + kWideTiles * kMmaColumns;
      // A block has room for as many open points as it sees in whole rounds.
      const kmeans::GpuDevice* gpu = kmeans::current_gpu();
      const double rounded = 512.0 * (gpu == nullptr ? 0 : gpu->multiprocessors);
      return plain_device_bytes(s) + n * (2 * padded + 12) + rounded * sizeof(Open) +
             k * (2 * (padded + kMmaDepth) + 8.0 * static_cast<double>(s.d) + 28);
    })
