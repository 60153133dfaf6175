// SPDX-License-Identifier: Apache-2.0
//
// Ward's method on a GPU (docs/seeding.md): the merges of datasets/ward.cpp, round by round, with the same bits. A
// round is four kernels: pairs merge; the clusters that are left are listed, and those among them whose nearest
// neighbour is not known any more; these look at all others, in parts; the parts are joined. The host looks once in
// some rounds whether enough has been merged.
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
  std::int64_t d;
  WardRound* dev_round;
  double* dev_means;            // count x d
  double* dev_weights;          // 0: it has become part of another
  double* dev_heights;          // at which it was made; 0: it is a single cell
  WardNeighbour* dev_nearest;   // no cluster: it has to look
  std::int32_t* dev_last;       // the last round in which it merged, or was merged
  std::int32_t* dev_listed;     // those that are left, ascending
  std::int32_t* dev_searching;  // those that look, ascending
  WardNeighbour* dev_found;     // parts x searching
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

/// Lists who is left, and who has to look: who has merged or whose neighbour has; who kept his neighbour is no nearer
/// to anybody else. If nobody has merged, all look: rounding has made a cluster nearer to someone than those that it was
/// made of. One block.
static __global__ void __launch_bounds__(kWardThreads) list_clusters_kernel(WardClusters clusters) {
  using Scan = cub::BlockScan<unsigned, kWardThreads>;
  __shared__ typename Scan::TempStorage scratch;
  const WardRound round = *clusters.dev_round;
  constexpr unsigned kOne = 1U << 16;  // of those that look; below, of those that are left
  int listed = 0;
  int searching = 0;
  for (int base = 0; base < round.listed; base += kWardThreads) {
    const int e = base + static_cast<int>(threadIdx.x);
    const std::int32_t c = e < round.listed ? clusters.dev_listed[e] : -1;
    const bool is_left = c >= 0 && clusters.dev_weights[c] > 0;
    bool looks = is_left && round.merged_now == 0;
    if (is_left && !looks) {
      const std::int32_t nearest = clusters.dev_nearest[c].cluster;
      looks = nearest < 0 || clusters.dev_last[c] == round.number ||
              clusters.dev_last[nearest] == round.number;
    }
    unsigned before = 0;
    unsigned all = 0;
    Scan(scratch).ExclusiveSum((is_left ? 1U : 0U) + (looks ? kOne : 0U), before, all);
    __syncthreads();  // all have read what is overwritten now
    if (is_left) clusters.dev_listed[listed + before % kOne] = c;
    if (looks) clusters.dev_searching[searching + before / kOne] = c;
    listed += static_cast<int>(all % kOne);
    searching += static_cast<int>(all / kOne);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  clusters.dev_round->number = round.number + 1;
  clusters.dev_round->listed = listed;
  clusters.dev_round->searching = listed > 1 ? searching : 0;
  clusters.dev_round->merged_now = 0;
}

/// How those that look share the blocks: tiles of them by parts of all clusters that are left.
struct WardParts {
  int tiles;  // of kPairTile that look
  int parts;
  int columns;  // tiles of all

  __device__ explicit WardParts(const WardRound& round)
      : tiles((round.searching + kPairTile - 1) / kPairTile),
        parts(1),
        columns((round.listed + kPairTile - 1) / kPairTile) {
    if (tiles > 0) parts = max(1, min(columns, kWardBlocks / tiles));
  }
  /// Results of all parts, of so many clusters.
  static std::int64_t most(std::int64_t count) {
    return std::max<std::int64_t>(count, std::int64_t{kWardBlocks} * kPairTile);
  }
};

/// What merging costs, as defined in harness/support/ward_costs.h: for each cluster that looks the nearest one of each
/// part.
static __global__ void __launch_bounds__(kPairThreads)
    find_neighbours_kernel(WardClusters clusters) {
  __shared__ PairTile row_tile;
  __shared__ PairTile column_tile;
  const WardRound round = *clusters.dev_round;
  const WardParts share(round);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (int work = static_cast<int>(blockIdx.x); work < share.tiles * share.parts;
       work += static_cast<int>(gridDim.x)) {
    const int first_row = work % share.tiles * kPairTile;
    const int part = work / share.tiles;
    const int own_row = first_row + static_cast<int>(threadIdx.x) / kLanes * kPairRows;
    WardNeighbour nearest[kPairRows];
    std::int32_t own[kPairRows];
    double weight[kPairRows];
#pragma unroll
    for (int r = 0; r < kPairRows; ++r) {
      own[r] = own_row + r < round.searching ? clusters.dev_searching[own_row + r] : -1;
      weight[r] = own[r] >= 0 ? clusters.dev_weights[own[r]] : 0;
    }
    const int end = share.columns * (part + 1) / share.parts;
    for (int c = share.columns * part / share.parts; c < end; ++c) {
      double sums[kPairRows];
      squared_distances_of_tile(clusters.dev_means, clusters.dev_searching, round.searching,
                                first_row, clusters.dev_means, clusters.dev_listed, round.listed,
                                c * kPairTile, clusters.d, row_tile, column_tile, sums);
      const int column = c * kPairTile + lane;
      if (column >= round.listed) continue;
      const std::int32_t other = clusters.dev_listed[column];
      const double its = clusters.dev_weights[other];
#pragma unroll
      for (int r = 0; r < kPairRows; ++r) {
        if (own[r] < 0 || own[r] == other) continue;
        const double both = __ddiv_rn(__dmul_rn(weight[r], its), __dadd_rn(weight[r], its));
        nearest[r].offer(__dmul_rn(both, sums[r]), other);
      }
    }
#pragma unroll
    for (int r = 0; r < kPairRows; ++r) {
      nearest[r].join_lanes();
      if (lane == 0 && own[r] >= 0) {
        clusters.dev_found[std::int64_t{part} * round.searching + own_row + r] = nearest[r];
      }
    }
  }
}

/// Of what the parts have found: a warp a cluster that looks.
static __global__ void __launch_bounds__(kPairThreads) join_parts_kernel(WardClusters clusters) {
  const WardRound round = *clusters.dev_round;
  const WardParts share(round);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warps = static_cast<int>(gridDim.x) * (kPairThreads / kLanes);
  for (int e = static_cast<int>(blockIdx.x * (kPairThreads / kLanes) + threadIdx.x / kLanes);
       e < round.searching; e += warps) {
    WardNeighbour nearest;
    for (int part = lane; part < share.parts; part += kLanes) {
      const WardNeighbour its = clusters.dev_found[std::int64_t{part} * round.searching + e];
      if (its.cluster >= 0) nearest.offer(its.cost, its.cluster);
    }
    nearest.join_lanes();
    if (lane == 0) clusters.dev_nearest[clusters.dev_searching[e]] = nearest;
  }
}

/// The clusters' memory, and the rounds.
class WardMerges {
 public:
  explicit WardMerges(const WeightedMeans& clusters)
      : count_(clusters.count()),
        rounding_(clusters),
        dev_round_(1),
        dev_means_(count_ * clusters.d),
        dev_weights_(count_),
        dev_heights_(count_),
        dev_nearest_(count_),
        dev_last_(count_),
        dev_listed_(count_),
        dev_searching_(count_),
        dev_found_(WardParts::most(count_)),
        dev_merges_(count_) {
    clusters_ = {.d = clusters.d,
                 .dev_round = dev_round_.data(),
                 .dev_means = dev_means_.data(),
                 .dev_weights = dev_weights_.data(),
                 .dev_heights = dev_heights_.data(),
                 .dev_nearest = dev_nearest_.data(),
                 .dev_last = dev_last_.data(),
                 .dev_listed = dev_listed_.data(),
                 .dev_searching = dev_searching_.data(),
                 .dev_found = dev_found_.data(),
                 .dev_merges = dev_merges_.data()};
    WardRound first;
    first.listed = static_cast<int>(count_);
    const std::vector<double> weights(clusters.weights.begin(), clusters.weights.end());
    std::vector<std::int32_t> all(count_);
    std::iota(all.begin(), all.end(), 0);
    dev_round_.upload(&first);
    dev_means_.upload(clusters.means.data());
    dev_weights_.upload(weights.data());
    dev_listed_.upload(all.data());
    dev_heights_.zero();
    dev_last_.fill_bytes(0xff);  // never
    look();
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
  void look() const {
    list_clusters_kernel<<<1, kWardThreads>>>(clusters_);
    KMEANS_CUDA_LAUNCHED(list_clusters_kernel);
    find_neighbours_kernel<<<kWardBlocks, kPairThreads>>>(clusters_);
    KMEANS_CUDA_LAUNCHED(find_neighbours_kernel);
    join_parts_kernel<<<kWardBlocks, kPairThreads>>>(clusters_);
    KMEANS_CUDA_LAUNCHED(join_parts_kernel);
  }

  /// So many that the host is seldom waited for, and `between` soon.
  [[nodiscard]] int rounds_at_once(std::int64_t listed) const {
    const double coordinates =
        static_cast<double>(listed) * static_cast<double>(listed * clusters_.d);
    return static_cast<int>(std::clamp(1e10 / coordinates, 1.0, 8.0));
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
    for (const Merge& merge : merges(round.merges)) heights.push_back(merge.height);
    return rounding_.are_lower(std::move(heights), wanted, least);
  }

  /// As a CPU makes them: round by round, the lowest cluster first.
  [[nodiscard]] std::vector<Merge> merges(int count) const {
    std::vector<WardMerge> made(count_);
    dev_merges_.download(made.data());
    made.resize(count);
    std::sort(made.begin(), made.end(), [](const WardMerge& a, const WardMerge& b) {
      return a.round != b.round ? a.round < b.round : a.into < b.into;
    });
    std::vector<Merge> merges;
    for (const WardMerge& one : made) merges.push_back({one.into, one.from, one.height});
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
  DeviceBuffer<std::int32_t> dev_searching_;
  DeviceBuffer<WardNeighbour> dev_found_;
  DeviceBuffer<WardMerge> dev_merges_;
};

}  // namespace kmeans::cuda
