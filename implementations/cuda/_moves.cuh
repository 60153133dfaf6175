// SPDX-License-Identifier: Apache-2.0
//
// Fixed-point sums of clusters, kept from iteration to iteration. Points whose label changed are
// sorted by the clusters that they join and leave, so that a cluster's additions meet in registers
// and not in memory.
#pragma once

#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_shared_sums.cuh"

namespace kmeans::cuda {

/// A point that joins (point >= 0) or leaves (~point) a cluster.
struct Move {
  std::int32_t point;
  std::int32_t cluster;
};

constexpr int kMoveThreads = 256;
constexpr int kMovePoints = 16;  // of a thread
constexpr std::int64_t kMoveTile = kMoveThreads * kMovePoints;
constexpr std::int64_t kMoveCounters = 4096;  // clusters that a block counts in shared memory
constexpr int kMoveChunk = 64;                // moves that are added up in registers
constexpr int kScanned = 8;                   // clusters of a thread in a prefix sum

/// What the kernels below share; dev_joined, dev_left and dev_ended are zero between iterations.
struct Moves {
  std::int32_t* dev_joined;   // k
  std::int32_t* dev_left;     // k
  std::int32_t* dev_cursors;  // k: where the next move of a cluster goes
  std::uint32_t* dev_ended;   // blocks that have counted
  Move* dev_moves;            // 2 n
  std::int64_t* dev_count;    // of moves
};

/// By one block, after all have counted: where each cluster's moves begin, by a prefix sum.
static __device__ void scan_moves(std::int64_t k, const Moves& moves) {
  using Scan = cub::BlockScan<std::int32_t, kMoveThreads>;
  __shared__ typename Scan::TempStorage scratch;
  std::int64_t before = 0;
  for (std::int64_t base = 0; base < k; base += kMoveThreads * kScanned) {
    std::int32_t items[kScanned];
    const std::int64_t first = base + std::int64_t{threadIdx.x} * kScanned;
#pragma unroll
    for (int item = 0; item < kScanned; ++item) {
      const std::int64_t j = first + item;
      items[item] = j < k ? moves.dev_joined[j] + moves.dev_left[j] : 0;
    }
    std::int32_t total = 0;
    Scan(scratch).ExclusiveSum(items, items, total);
    __syncthreads();
#pragma unroll
    for (int item = 0; item < kScanned; ++item) {
      if (first + item < k) {
        moves.dev_cursors[first + item] = static_cast<std::int32_t>(before) + items[item];
      }
    }
    before += total;
  }
  if (threadIdx.x == 0) *moves.dev_count = before;
}

/// Counts each cluster's moves; the last block to end turns the counts into positions.
static __global__ void __launch_bounds__(kMoveThreads)
    count_moves_kernel(std::int64_t n, std::int64_t k, const std::int32_t* __restrict__ dev_nearest,
                       const std::int32_t* __restrict__ dev_labels, Moves moves) {
  extern __shared__ std::int32_t counters[];  // joined, then left, where k allows
  await_kernels_before();
  const bool counts_here = k <= kMoveCounters;
  if (counts_here) {
    for (std::int64_t j = threadIdx.x; j < 2 * k; j += kMoveThreads) counters[j] = 0;
    __syncthreads();
  }
  std::int32_t* joined = counts_here ? counters : moves.dev_joined;
  std::int32_t* left = counts_here ? counters + k : moves.dev_left;
  const std::int64_t first = blockIdx.x * kMoveTile;
  for (std::int64_t i = first + threadIdx.x; i < min(first + kMoveTile, n); i += kMoveThreads) {
    const std::int32_t before = dev_labels[i];
    const std::int32_t now = dev_nearest[i];
    if (before == now) continue;
    atomicAdd(&joined[now], 1);
    if (before >= 0) atomicAdd(&left[before], 1);
  }
  if (counts_here) {
    __syncthreads();
    for (std::int64_t j = threadIdx.x; j < k; j += kMoveThreads) {
      if (counters[j] != 0) atomicAdd(&moves.dev_joined[j], counters[j]);
      if (counters[k + j] != 0) atomicAdd(&moves.dev_left[j], counters[k + j]);
    }
  }
  // The last block to end sees all counts, which saves a kernel.
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(moves.dev_ended, 1U) == gridDim.x - 1;
    if (last) *moves.dev_ended = 0;
    __threadfence();
  }
  __syncthreads();
  if (last) scan_moves(k, moves);
}

/// Sorts the moves by cluster; updates the labels and the clusters' counts.
static __global__ void __launch_bounds__(kMoveThreads)
    sort_moves_kernel(std::int64_t n, std::int64_t d, std::int64_t k,
                      const std::int32_t* __restrict__ dev_nearest,
                      std::int32_t* __restrict__ dev_labels, Moves moves,
                      Integer* __restrict__ dev_sums) {
  extern __shared__ std::int32_t cursors[];
  const bool reserves = k <= kMoveCounters;  // one range per block and cluster
  const std::int64_t first = blockIdx.x * kMoveTile;
  await_kernels_before();
  std::int32_t before[kMovePoints];
  std::int32_t now[kMovePoints];
#pragma unroll
  for (int p = 0; p < kMovePoints; ++p) {
    const std::int64_t i = first + p * kMoveThreads + threadIdx.x;
    before[p] = i < n ? dev_labels[i] : 0;
    now[p] = i < n ? dev_nearest[i] : 0;
  }
  for (std::int64_t j = std::int64_t{blockIdx.x} * kMoveThreads + threadIdx.x; j < k;
       j += std::int64_t{gridDim.x} * kMoveThreads) {
    const std::int32_t joined = moves.dev_joined[j];
    const std::int32_t left = moves.dev_left[j];
    if (joined + left == 0) continue;
    dev_sums[j * (d + 1) + d] += static_cast<Integer>(std::int64_t{joined} - left);
    moves.dev_joined[j] = 0;
    moves.dev_left[j] = 0;
  }
  if (reserves) {
    for (std::int64_t j = threadIdx.x; j < k; j += kMoveThreads) cursors[j] = 0;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < kMovePoints; ++p) {
      if (before[p] == now[p]) continue;
      atomicAdd(&cursors[now[p]], 1);
      if (before[p] >= 0) atomicAdd(&cursors[before[p]], 1);
    }
    __syncthreads();
    for (std::int64_t j = threadIdx.x; j < k; j += kMoveThreads) {
      if (cursors[j] != 0) cursors[j] = atomicAdd(&moves.dev_cursors[j], cursors[j]);
    }
    __syncthreads();
  }
  std::int32_t* next = reserves ? cursors : moves.dev_cursors;
#pragma unroll
  for (int p = 0; p < kMovePoints; ++p) {
    if (before[p] == now[p]) continue;
    const auto i = static_cast<std::int32_t>(first + p * kMoveThreads + threadIdx.x);
    moves.dev_moves[atomicAdd(&next[now[p]], 1)] = {i, now[p]};
    if (before[p] >= 0) moves.dev_moves[atomicAdd(&next[before[p]], 1)] = {~i, before[p]};
    dev_labels[i] = now[p];
  }
}

/// kWidth lanes, a coordinate each, add up to kMoveChunk moves in registers, and add the sum to
/// memory where the cluster changes. kQuick: quick_fixed_point() is right.
template <int kWidth, bool kQuick>
static __global__ void __launch_bounds__(kMoveThreads)
    add_moves_kernel(const float* __restrict__ dev_points, std::int64_t d, int exponent,
                     double scale, Moves moves, Integer* __restrict__ dev_sums) {
  constexpr int kAhead = 8;                // loads under way
  constexpr int kTeams = kLanes / kWidth;  // of a warp
  const int lane = static_cast<int>(threadIdx.x) % kWidth;
  await_kernels_before();
  const std::int64_t count = *moves.dev_count;
  const std::int64_t strips = (d + kWidth - 1) / kWidth;
  const std::int64_t workers = std::int64_t{gridDim.x} * kMoveThreads / kWidth;
  const std::int64_t own = (std::int64_t{blockIdx.x} * kMoveThreads + threadIdx.x) / kWidth;
  // With few moves, more teams with shorter chunks hide more latency.
  std::int64_t chunk = kMoveChunk;
  while (chunk > kWidth && count * strips <= workers * (chunk / 2)) chunk /= 2;
  const std::int64_t tasks = (count + chunk - 1) / chunk * strips;
  // Loops run by whole warps, since lanes shuffle.
  for (std::int64_t round = own - own % kTeams; round < tasks; round += workers) {
    const std::int64_t task = round + own % kTeams;
    const std::int64_t t = task % strips * kWidth + lane;
    const std::int64_t first = task < tasks ? task / strips * chunk : count;
    const float* dev_column = dev_points + t;
    Integer sum = 0;
    std::int32_t cluster = -1;
    const auto add = [&](float value) {
      sum += static_cast<Integer>(kQuick ? quick_fixed_point(value, exponent)
                                         : exact_fixed_point(value, scale));
    };
    const auto flush = [&] {
      if (cluster >= 0 && t < d) atomicAdd(&dev_sums[cluster * (d + 1) + t], sum);
    };
    for (std::int64_t from = 0; from < chunk; from += kWidth) {
      const std::int64_t index = first + from + lane;
      const Move mine = index < count ? moves.dev_moves[index] : Move{0, -1};
#pragma unroll 1
      for (int e = 0; e < kWidth; e += kAhead) {
        // Moves are sorted by cluster, so mostly all eight are of one. Those past the last have -1.
        const std::int32_t begins = __shfl_sync(kAllLanes, mine.cluster, e, kWidth);
        const std::int32_t ends = __shfl_sync(kAllLanes, mine.cluster, e + kAhead - 1, kWidth);
        const bool adds = begins >= 0 && t < d;
        float values[kAhead];  // negated where a point leaves
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          const std::int32_t point = __shfl_sync(kAllLanes, mine.point, e + a, kWidth);
          const std::int32_t sign = point >> 31;  // all ones where it leaves
          const auto i = static_cast<std::uint64_t>(static_cast<std::uint32_t>(point ^ sign));
          // An entry without a cluster has point 0, which is not added below.
          values[a] = adds ? dev_column[i * static_cast<std::uint64_t>(d)] : 0.0F;
          values[a] = sign != 0 ? -values[a] : values[a];
        }
        if (begins != cluster) {
          flush();
          sum = 0;
          cluster = begins;
        }
        if (__all_sync(kAllLanes, begins == ends)) {
#pragma unroll
          for (const float value : values) add(value);
          continue;
        }
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          const std::int32_t next = __shfl_sync(kAllLanes, mine.cluster, e + a, kWidth);
          if (next != cluster) {
            flush();
            sum = 0;
            cluster = next;
          }
          add(values[a]);
        }
      }
    }
    flush();
  }
}

/// The kernel for d coordinates.
template <bool kQuick>
auto add_moves_for(std::int64_t d) {
  return d <= 8 ? add_moves_kernel<8, kQuick>
                : (d <= 16 ? add_moves_kernel<16, kQuick> : add_moves_kernel<32, kQuick>);
}

/// The sums, updated by the kernels above.
class MovingSums {
 public:
  MovingSums() = default;
  /// `rows`: the most points in one call of move().
  MovingSums(const Problem<float>& problem, std::int64_t rows, int multiprocessors)
      : d_(problem.shape.d),
        k_(problem.shape.k),
        blocks_(static_cast<unsigned>(8 * multiprocessors)),
        shared_(problem) {
    const int s = kmeans::exact::sum_exponent(problem.whole_n(), problem.max_abs);
    exponent_ = s;
    quick_ = quick_fixed_point_is_right(problem.whole_n(), s);
    dev_sums_ = DeviceBuffer<Integer>(shared_.length());
    dev_counters_ = DeviceBuffer<std::int32_t>(3 * k_);
    dev_ended_ = DeviceBuffer<std::uint32_t>(1);
    dev_moves_ = DeviceBuffer<Move>(2 * rows);
    dev_count_ = DeviceBuffer<std::int64_t>(1);
  }

  void restart() const {
    dev_sums_.zero();
    dev_counters_.zero();
    dev_ended_.zero();
  }

  /// The means of the clusters of this GPU's own points.
  void divide(float* dev_centroids, cudaStream_t stream) const {
    shared_.divide(dev_sums_.data(), dev_centroids, k_, stream);
  }

  /// The sums over all GPUs, as SharedSums::add_up() returns them.
  const Integer* add_up(float* dev_centroids, cudaStream_t stream) const {
    return shared_.add_up(dev_sums_.data(), dev_centroids, stream);
  }
  /// Do other GPUs have points of the clusters?
  [[nodiscard]] bool shared() const { return shared_.shared(); }
  [[nodiscard]] double inverse_scale() const { return shared_.inverse_scale(); }

  /// Sets dev_labels of `rows` points to dev_nearest, and updates the sums.
  void move(const float* dev_points, std::int64_t rows, const std::int32_t* dev_nearest,
            std::int32_t* dev_labels, cudaStream_t stream) const {
    std::int32_t* counters = dev_counters_.data();
    const Moves moves{counters,          counters + k_,     counters + 2 * k_,
                      dev_ended_.data(), dev_moves_.data(), dev_count_.data()};
    const unsigned tiles = blocks_for(rows, kMoveTile);
    const std::size_t shared = k_ <= kMoveCounters ? static_cast<std::size_t>(k_) * 4 : 0;
    launch_early(count_moves_kernel, tiles, kMoveThreads, 2 * shared, stream, rows, k_, dev_nearest,
                 dev_labels, moves);
    launch_early(sort_moves_kernel, tiles, kMoveThreads, shared, stream, rows, d_, k_, dev_nearest,
                 dev_labels, moves, dev_sums_.data());
    const auto add = quick_ ? add_moves_for<true>(d_) : add_moves_for<false>(d_);
    launch_early(add, blocks_, kMoveThreads, 0, stream, dev_points, d_, exponent_,
                 kmeans::exact::power_of_two(exponent_), moves, dev_sums_.data());
  }

  /// Device bytes without points, labels and centroids, if all n points are in one call of move().
  static double device_bytes(const Shape& shape) {
    const auto n = static_cast<double>(shape.n);
    const auto k = static_cast<double>(shape.k);
    return 16 * n + k * (8 * (static_cast<double>(shape.d) + 1) + 12);
  }

 private:
  std::int64_t d_ = 0;
  std::int64_t k_ = 0;
  unsigned blocks_ = 1;
  int exponent_ = 0;  // of the fixed point
  bool quick_ = false;
  SharedSums shared_;
  DeviceBuffer<Integer> dev_sums_;  // k x (d + 1): fixed point, and the count
  DeviceBuffer<std::int32_t> dev_counters_;
  DeviceBuffer<std::uint32_t> dev_ended_;
  DeviceBuffer<Move> dev_moves_;
  DeviceBuffer<std::int64_t> dev_count_;
};

}  // namespace kmeans::cuda
