// SPDX-License-Identifier: Apache-2.0
//
// Ward's method on a GPU (docs/seeding.md): the merges of datasets/ward.cpp, round by round, with
// the same bits. What any two clusters cost is kept, so a round computes costs of new clusters
// alone. It is four kernels: pairs merge; the clusters that are left are listed, those that are
// new, and those whose nearest neighbour is not known any more; costs of the new ones; nearest
// neighbours. The host looks once in some rounds whether enough has been merged.
#pragma once

#include <cub/block/block_scan.cuh>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "harness/support/ward_costs.h"
#include "implementations/cuda/_seed_kernels.cuh"

namespace kmeans::cuda {

/// What rounds leave behind for each other.
struct WardRound {
  int number = 0;      // of the merges that come next
  int listed = 0;      // clusters that are left
  int changed = 0;     // of them, those that the last merges made; at first all
  int searching = 0;   // of them, those that look for their nearest neighbour
  int merged_now = 0;  // pairs of the last round
  int merges = 0;      // of all rounds
};

struct WardMerge {
  std::int32_t into;
  std::int32_t from;
  std::int32_t round;
  double height;
};

/// A cluster's nearest one; the lowest number on a tie.
struct WardNeighbour {
  double cost = INFINITY;
  std::int32_t cluster = -1;

  __device__ void offer(double its_cost, std::int32_t its_cluster) {
    if (its_cost < cost || (its_cost == cost && its_cluster < cluster)) {
      cost = its_cost;
      cluster = its_cluster;
    }
  }
  /// Of all lanes of a warp, which then all know it.
  __device__ void join_lanes() {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      const double its_cost = __shfl_xor_sync(kAllLanes, cost, distance);
      const std::int32_t its_cluster = __shfl_xor_sync(kAllLanes, cluster, distance);
      if (its_cluster >= 0) offer(its_cost, its_cluster);
    }
  }
};

/// Clusters (count), by the number of their lowest cell.
struct WardClusters {
  std::int64_t count;
  std::int64_t d;
  WardRound* dev_round;
  double* dev_means;            // count x d
  double* dev_weights;          // 0: it has become part of another
  double* dev_heights;          // at which it was made; 0: it is a single cell
  WardNeighbour* dev_nearest;   // of those that were listed last
  std::int32_t* dev_last;       // the last round in which it merged, or was merged
  std::int32_t* dev_listed;     // those that are left, ascending
  std::int32_t* dev_changed;    // those that are new, ascending
  std::int32_t* dev_searching;  // those that look, ascending
  double* dev_costs;            // count x count
  WardMerge* dev_merges;
};

constexpr int kWardThreads = 1024;
constexpr int kWardBlocks = 528;  // four a multiprocessor

/// All pairs that are each other's nearest: a warp a cluster.
static __global__ void __launch_bounds__(kPairThreads) merge_pairs_kernel(WardClusters clusters) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warps = static_cast<int>(gridDim.x) * (kPairThreads / kLanes);
  const int listed = clusters.dev_round->listed;
  const int round = clusters.dev_round->number;
  if (listed < 2) return;
  for (int e = static_cast<int>(blockIdx.x * (kPairThreads / kLanes) + threadIdx.x / kLanes);
       e < listed; e += warps) {
    const std::int32_t a = clusters.dev_listed[e];
    const WardNeighbour nearest = clusters.dev_nearest[a];
    const std::int32_t b = nearest.cluster;
    if (b <= a || clusters.dev_nearest[b].cluster != a) continue;
    const double weight = clusters.dev_weights[a];
    const double its = clusters.dev_weights[b];
    const double both = __dadd_rn(weight, its);
    for (std::int64_t t = lane; t < clusters.d; t += kLanes) {
      double* mean = clusters.dev_means + a * clusters.d + t;
      const double other = clusters.dev_means[b * clusters.d + t];
      *mean = __ddiv_rn(__dadd_rn(__dmul_rn(weight, *mean), __dmul_rn(its, other)), both);
    }
    __syncwarp();  // all lanes have read the weights
    if (lane != 0) continue;
    const double height =
        fmax(nearest.cost, fmax(clusters.dev_heights[a], clusters.dev_heights[b]));
    clusters.dev_merges[atomicAdd(&clusters.dev_round->merges, 1)] = {a, b, round, height};
    atomicAdd(&clusters.dev_round->merged_now, 1);
    clusters.dev_weights[a] = both;
    clusters.dev_weights[b] = 0;
    clusters.dev_heights[a] = height;
    clusters.dev_last[a] = round;
    clusters.dev_last[b] = round;
  }
}

/// Lists who is left, who is new, and who has to look: who has merged or whose neighbour has; who
/// kept his neighbour is no nearer to anybody else. If nobody has merged, all look: rounding has
/// made a cluster nearer to someone than those that it was made of. One block.
static __global__ void __launch_bounds__(kWardThreads) list_clusters_kernel(WardClusters clusters) {
  using Scan = cub::BlockScan<Integer, kWardThreads>;
  __shared__ typename Scan::TempStorage scratch;
  const WardRound round = *clusters.dev_round;
  constexpr int kBits = 20;  // of a count; three in one integer
  constexpr Integer kMask = (1 << kBits) - 1;
  int listed = 0;
  int changed = 0;
  int searching = 0;
  for (int base = 0; base < round.listed; base += kWardThreads) {
    const int e = base + static_cast<int>(threadIdx.x);
    const std::int32_t c = e < round.listed ? clusters.dev_listed[e] : -1;
    const bool is_left = c >= 0 && clusters.dev_weights[c] > 0;
    const bool is_new = is_left && (round.number == 0 || clusters.dev_last[c] == round.number);
    bool looks = is_left && (is_new || round.merged_now == 0);
    if (is_left && !looks) {
      looks = clusters.dev_last[clusters.dev_nearest[c].cluster] == round.number;
    }
    const Integer own = Integer{is_left} | Integer{is_new} << kBits | Integer{looks} << 2 * kBits;
    Integer before = 0;
    Integer all = 0;
    Scan(scratch).ExclusiveSum(own, before, all);
    __syncthreads();  // all have read what is overwritten now
    if (is_left) clusters.dev_listed[listed + static_cast<int>(before & kMask)] = c;
    if (is_new) clusters.dev_changed[changed + static_cast<int>(before >> kBits & kMask)] = c;
    if (looks) clusters.dev_searching[searching + static_cast<int>(before >> 2 * kBits)] = c;
    listed += static_cast<int>(all & kMask);
    changed += static_cast<int>(all >> kBits & kMask);
    searching += static_cast<int>(all >> 2 * kBits);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const bool is_over = listed < 2;
  *clusters.dev_round = {.number = round.number + 1,
                         .listed = listed,
                         .changed = is_over ? 0 : changed,
                         .searching = is_over ? 0 : searching,
                         .merged_now = 0,
                         .merges = round.merges};
}

/// What merging new clusters with all others costs, as defined in harness/support/ward_costs.h.
static __global__ void __launch_bounds__(kPairThreads) merge_costs_kernel(WardClusters clusters) {
  __shared__ PairTile row_tile;
  __shared__ PairTile column_tile;
  const WardRound round = *clusters.dev_round;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int rows = (round.changed + kPairTile - 1) / kPairTile;
  const int columns = (round.listed + kPairTile - 1) / kPairTile;
  for (std::int64_t tile = blockIdx.x; tile < std::int64_t{rows} * columns; tile += gridDim.x) {
    const auto first_row = static_cast<int>(tile / columns) * kPairTile;
    const auto first_column = static_cast<int>(tile % columns) * kPairTile;
    double sums[kPairRows];
    squared_distances_of_tile(clusters.dev_means, clusters.dev_changed, round.changed, first_row,
                              clusters.dev_means, clusters.dev_listed, round.listed, first_column,
                              clusters.d, row_tile, column_tile, sums);
    if (first_column + lane >= round.listed) continue;
    const std::int64_t other = clusters.dev_listed[first_column + lane];
    const double its = clusters.dev_weights[other];
    const int own_row = first_row + static_cast<int>(threadIdx.x) / kLanes * kPairRows;
#pragma unroll
    for (int r = 0; r < kPairRows; ++r) {
      if (own_row + r >= round.changed) continue;
      const std::int64_t own = clusters.dev_changed[own_row + r];
      const double weight = clusters.dev_weights[own];
      const double both = __ddiv_rn(__dmul_rn(weight, its), __dadd_rn(weight, its));
      const double cost = __dmul_rn(both, sums[r]);
      clusters.dev_costs[own * clusters.count + other] = cost;
      clusters.dev_costs[other * clusters.count + own] = cost;
    }
  }
}

/// A block a cluster that looks.
static __global__ void __launch_bounds__(kPairThreads)
    find_neighbours_kernel(WardClusters clusters) {
  constexpr int kWarps = kPairThreads / kLanes;
  __shared__ double costs_of_warps[kWarps];
  __shared__ std::int32_t clusters_of_warps[kWarps];
  const WardRound round = *clusters.dev_round;
  const int t = static_cast<int>(threadIdx.x);
  for (int e = static_cast<int>(blockIdx.x); e < round.searching; e += gridDim.x) {
    const std::int32_t own = clusters.dev_searching[e];
    const double* costs = clusters.dev_costs + own * clusters.count;
    WardNeighbour nearest;
#pragma unroll 4
    for (int column = t; column < round.listed; column += kPairThreads) {
      const std::int32_t other = clusters.dev_listed[column];
      const double cost = costs[other];
      if (other != own) nearest.offer(cost, other);
    }
    nearest.join_lanes();
    if (t % kLanes == 0) {
      costs_of_warps[t / kLanes] = nearest.cost;
      clusters_of_warps[t / kLanes] = nearest.cluster;
    }
    __syncthreads();
    if (t < kLanes) {
      nearest = {costs_of_warps[t % kWarps], clusters_of_warps[t % kWarps]};
      nearest.join_lanes();
      if (t == 0) clusters.dev_nearest[own] = nearest;
    }
    __syncthreads();  // before the next one's
  }
}

/// The clusters' memory, and the rounds.
class WardMerges {
 public:
  explicit WardMerges(const WeightedMeans& clusters)
      : WardMerges(clusters.count(), clusters.d, MergeRounding(clusters)) {
    const std::vector<double> weights(clusters.weights.begin(), clusters.weights.end());
    dev_means_.upload(clusters.means.data());
    dev_weights_.upload(weights.data());
    look();
  }
  /// dev_means: count x d; dev_weights: count.
  WardMerges(std::int64_t count, std::int64_t d, const MergeRounding& rounding,
             const double* dev_means, const double* dev_weights)
      : WardMerges(count, d, rounding) {
    const auto copy = [](const DeviceBuffer<double>& to, const double* from) {
      KMEANS_CUDA(cudaMemcpyAsync(to.data(), from, to.bytes(), cudaMemcpyDeviceToDevice));
    };
    copy(dev_means_, dev_means);
    copy(dev_weights_, dev_weights);
    look();
  }

  /// Bytes of GPU memory for so many clusters.
  static double bytes_of(std::int64_t count, std::int64_t d) {
    const auto m = static_cast<double>(count);
    return 8 * m * (m + static_cast<double>(d) + 12) + 1e6;
  }

  /// As SeedingBoard::merges().
  std::vector<Merge> run(std::int64_t wanted, const std::function<void()>& between) {
    for (;;) {
      if (between) between();
      WardRound round;
      dev_round_.download(&round);
      if (round.listed <= 1 || is_enough(round, wanted)) return merges(round.merges);
      for (int r = 0; r < rounds_at_once(round.listed); ++r) {
        merge_pairs_kernel<<<kWardBlocks, kPairThreads>>>(clusters_);
        KMEANS_CUDA_LAUNCHED(merge_pairs_kernel);
        look();
      }
    }
  }

 private:
  /// Means and weights are still missing.
  WardMerges(std::int64_t count, std::int64_t d, const MergeRounding& rounding)
      : count_(count),
        rounding_(rounding),
        dev_round_(1),
        dev_means_(count_ * d),
        dev_weights_(count_),
        dev_heights_(count_),
        dev_nearest_(count_),
        dev_last_(count_),
        dev_listed_(count_),
        dev_changed_(count_),
        dev_searching_(count_),
        dev_costs_(count_ * count_),
        dev_merges_(count_) {
    clusters_ = {.count = count_,
                 .d = d,
                 .dev_round = dev_round_.data(),
                 .dev_means = dev_means_.data(),
                 .dev_weights = dev_weights_.data(),
                 .dev_heights = dev_heights_.data(),
                 .dev_nearest = dev_nearest_.data(),
                 .dev_last = dev_last_.data(),
                 .dev_listed = dev_listed_.data(),
                 .dev_changed = dev_changed_.data(),
                 .dev_searching = dev_searching_.data(),
                 .dev_costs = dev_costs_.data(),
                 .dev_merges = dev_merges_.data()};
    WardRound first;
    first.listed = static_cast<int>(count_);
    std::vector<std::int32_t> all(count_);
    std::iota(all.begin(), all.end(), 0);
    dev_round_.upload(&first);
    dev_listed_.upload(all.data());
    dev_heights_.zero();
    dev_last_.fill_bytes(0xff);  // never
  }

  void look() const {
    list_clusters_kernel<<<1, kWardThreads>>>(clusters_);
    KMEANS_CUDA_LAUNCHED(list_clusters_kernel);
    merge_costs_kernel<<<kWardBlocks, kPairThreads>>>(clusters_);
    KMEANS_CUDA_LAUNCHED(merge_costs_kernel);
    find_neighbours_kernel<<<kWardBlocks, kPairThreads>>>(clusters_);
    KMEANS_CUDA_LAUNCHED(find_neighbours_kernel);
  }

  /// So many that the host is seldom waited for, and `between` soon.
  [[nodiscard]] int rounds_at_once(std::int64_t listed) const {
    const double coordinates =
        static_cast<double>(listed) * static_cast<double>(listed * clusters_.d);
    return static_cast<int>(std::clamp(1e11 / coordinates, 1.0, 8.0));
  }

  /// Whether no merge that is left can be among the `wanted` lowest ones.
  [[nodiscard]] bool is_enough(const WardRound& round, std::int64_t wanted) const {
    if (round.merges < wanted) return false;
    std::vector<std::int32_t> listed(count_);
    std::vector<WardNeighbour> nearest(count_);
    dev_listed_.download(listed.data());
    dev_nearest_.download(nearest.data());
    double least = INFINITY;
    for (int e = 0; e < round.listed; ++e) least = std::min(least, nearest[listed[e]].cost);
    std::vector<double> heights;
    for (const WardMerge& merge : made(round.merges)) heights.push_back(merge.height);
    return rounding_.are_lower(std::move(heights), wanted, least);
  }

  /// In any order.
  [[nodiscard]] std::vector<WardMerge> made(int count) const {
    std::vector<WardMerge> made(count_);
    dev_merges_.download(made.data());
    made.resize(count);
    return made;
  }

  /// As a CPU makes them: round by round, the lowest cluster first.
  [[nodiscard]] std::vector<Merge> merges(int count) const {
    auto all = made(count);
    std::sort(all.begin(), all.end(), [](const WardMerge& a, const WardMerge& b) {
      return a.round != b.round ? a.round < b.round : a.into < b.into;
    });
    std::vector<Merge> merges;
    for (const WardMerge& one : all) merges.push_back({one.into, one.from, one.height});
    return merges;
  }

  std::int64_t count_;
  MergeRounding rounding_;
  WardClusters clusters_{};
  DeviceBuffer<WardRound> dev_round_;
  DeviceBuffer<double> dev_means_;
  DeviceBuffer<double> dev_weights_;
  DeviceBuffer<double> dev_heights_;
  DeviceBuffer<WardNeighbour> dev_nearest_;
  DeviceBuffer<std::int32_t> dev_last_;
  DeviceBuffer<std::int32_t> dev_listed_;
  DeviceBuffer<std::int32_t> dev_changed_;
  DeviceBuffer<std::int32_t> dev_searching_;
  DeviceBuffer<double> dev_costs_;
  DeviceBuffer<WardMerge> dev_merges_;
};

}  // namespace kmeans::cuda
