// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the choice of seeds (docs/seeding.md): which seed is nearest, squared distances as defined,
// bars and darts, cells.
#pragma once

#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "implementations/cuda/_exact.cuh"

namespace kmeans::cuda {

constexpr int kSeedThreads = 128;     // points of a block, a thread each
constexpr int kSeedsAtOnce = 16;      // in shared memory
constexpr int kSeedCoordinates = 32;  // of points and seeds in shared memory: a lane each

/// Some coordinates of a block's points, read row by row.
struct PointTile {
  float x[kSeedThreads][kSeedCoordinates + 1];

  __device__ void load(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                       std::int64_t first, std::int64_t from) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int row = static_cast<int>(threadIdx.x) / kLanes; row < kSeedThreads;
         row += kSeedThreads / kLanes) {
      const std::int64_t i = first + row;
      if (i < n && from + lane < d) x[row][lane] = dev_points[i * d + from + lane];
    }
  }
};

/// The nearest of few seeds: float32 differences, and where these leave it open, as defined. factor, tiny: as in
/// filter_factor().
static __global__ void __launch_bounds__(kSeedThreads)
    nearest_seeds_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                         const float* __restrict__ dev_seeds, std::int64_t count, float factor,
                         float tiny, std::int32_t* __restrict__ dev_nearest) {
  __shared__ PointTile tile;
  __shared__ float seeds[kSeedCoordinates][kSeedsAtOnce];
  const std::int64_t tiles = (n + kSeedThreads - 1) / kSeedThreads;
  for (std::int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
    const std::int64_t first = block * kSeedThreads;
    const std::int64_t i = first + threadIdx.x;
    float least = INFINITY;
    float second = INFINITY;
    std::int64_t nearest = 0;
    for (std::int64_t first_j = 0; first_j < count; first_j += kSeedsAtOnce) {
      float q[kSeedsAtOnce] = {};
      for (std::int64_t from = 0; from < d; from += kSeedCoordinates) {
        const int coordinates = static_cast<int>(min(std::int64_t{kSeedCoordinates}, d - from));
        __syncthreads();  // all are done with the coordinates before
        if (first_j == 0 || d > kSeedCoordinates) tile.load(dev_points, n, d, first, from);
        for (int e = threadIdx.x; e < coordinates * kSeedsAtOnce; e += kSeedThreads) {
          const std::int64_t j = first_j + e % kSeedsAtOnce;
          seeds[e / kSeedsAtOnce][e % kSeedsAtOnce] =
              j < count ? dev_seeds[j * d + from + e / kSeedsAtOnce] : 0.0F;
        }
        __syncthreads();
        for (int t = 0; t < coordinates; ++t) {
          const float x = tile.x[threadIdx.x][t];
#pragma unroll
          for (int j = 0; j < kSeedsAtOnce; ++j) {
            const float difference = __fsub_rn(x, seeds[t][j]);
            q[j] = __fmaf_rn(difference, difference, q[j]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kSeedsAtOnce; ++j) {
        if (first_j + j >= count) continue;
        if (q[j] < least) nearest = first_j + j;
        second = fminf(second, fmaxf(least, q[j]));
        least = fminf(least, q[j]);
      }
    }
    __syncthreads();  // before the next points
    if (i >= n) continue;
    const float limit = __fmaf_rn(least, factor, tiny);
    if (count > 1 && !(second > limit)) {
      const float* point = dev_points + i * d;
      double nearest_distance = INFINITY;
      for (std::int64_t j = 0; j < count; ++j) {
        const float* seed = dev_seeds + j * d;
        float q = 0;
        for (std::int64_t t = 0; t < d; ++t) {
          const float difference = __fsub_rn(point[t], seed[t]);
          q = __fmaf_rn(difference, difference, q);
        }
        if (q > limit) continue;
        double distance = 0;
        for (std::int64_t t = 0; t < d; ++t) {
          distance = add_exact_square(distance, point[t], seed[t]);
        }
        if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
          nearest_distance = distance;
          nearest = j;
        }
      }
    }
    dev_nearest[i] = static_cast<std::int32_t>(nearest);
  }
}

/// Before the first pass every S is 1; then the squared distance from the nearest seed if that is less. dev_kept: the
/// numbers of the nearest seeds, or null; `before`: that of the pass's first one. dev_largest: the largest S of a point
/// that has a weight, as bits, which order as the numbers do.
static __global__ void __launch_bounds__(kSeedThreads)
    lower_kernel(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                 const float* __restrict__ dev_seeds, const std::int32_t* __restrict__ dev_nearest,
                 std::int64_t before, const std::int64_t* __restrict__ dev_weights,
                 double* __restrict__ dev_stale, std::int32_t* __restrict__ dev_kept,
                 Integer* __restrict__ dev_largest) {
  using Reduce = cub::BlockReduce<double, kSeedThreads>;
  __shared__ PointTile tile;
  __shared__ typename Reduce::TempStorage scratch;
  const std::int64_t first = std::int64_t{blockIdx.x} * kSeedThreads;
  const std::int64_t i = first + threadIdx.x;
  const std::int32_t label = i < n ? dev_nearest[i] : 0;
  const float* seed = dev_seeds + label * d;
  double squared = 0;
  for (std::int64_t from = 0; from < d; from += kSeedCoordinates) {
    const int coordinates = static_cast<int>(min(std::int64_t{kSeedCoordinates}, d - from));
    __syncthreads();
    tile.load(dev_points, n, d, first, from);
    __syncthreads();
    if (i >= n) continue;
    int t = 0;
    if (d % 4 == 0) {  // rows begin at whole 16 bytes
      for (; t < coordinates; t += 4) {
        const float4 c = *reinterpret_cast<const float4*>(seed + from + t);
        squared = add_exact_square(squared, tile.x[threadIdx.x][t], c.x);
        squared = add_exact_square(squared, tile.x[threadIdx.x][t + 1], c.y);
        squared = add_exact_square(squared, tile.x[threadIdx.x][t + 2], c.z);
        squared = add_exact_square(squared, tile.x[threadIdx.x][t + 3], c.w);
      }
    }
    for (; t < coordinates; ++t) {
      squared = add_exact_square(squared, tile.x[threadIdx.x][t], seed[from + t]);
    }
  }
  double stale = 0;
  if (i < n) {
    stale = dev_stale[i];
    if (before == 0 || squared < stale) {
      stale = squared;
      dev_stale[i] = squared;
      if (dev_kept != nullptr) dev_kept[i] = static_cast<std::int32_t>(before + label);
    }
    if (dev_weights != nullptr && dev_weights[i] == 0) stale = 0;
  }
  const auto larger = [](double a, double b) { return fmax(a, b); };
  const double largest = Reduce(scratch).Reduce(stale, larger);
  if (threadIdx.x == 0) {
    atomicMax(dev_largest, static_cast<Integer>(__double_as_longlong(largest)));
  }
}

/// How high the bar of a row is: floor(S * scale).
__device__ inline Integer bar_of(double squared, double scale) {
  return static_cast<Integer>(__double2ll_rz(__dmul_rn(squared, scale)));
}

constexpr int kSliceThreads = 256;
constexpr std::int64_t kSlice = 1024;  // points whose bars have a sum

__device__ inline Integer bars_of_row(const double* __restrict__ dev_stale,
                                      const std::int64_t* __restrict__ dev_weights, std::int64_t i,
                                      double scale) {
  const Integer height = bar_of(dev_stale[i], scale);
  return dev_weights == nullptr ? height : height * static_cast<Integer>(dev_weights[i]);
}

/// dev_sums[1 + slice]: of the bars of each slice.
static __global__ void __launch_bounds__(kSliceThreads)
    sum_slices_kernel(const double* __restrict__ dev_stale,
                      const std::int64_t* __restrict__ dev_weights, std::int64_t n, double scale,
                      Integer* __restrict__ dev_sums) {
  using Reduce = cub::BlockReduce<Integer, kSliceThreads>;
  __shared__ typename Reduce::TempStorage scratch;
  const std::int64_t slices = (n + kSlice - 1) / kSlice;
  for (std::int64_t slice = blockIdx.x; slice < slices; slice += gridDim.x) {
    Integer sum = 0;
    const std::int64_t end = min((slice + 1) * kSlice, n);
    for (std::int64_t i = slice * kSlice + threadIdx.x; i < end; i += kSliceThreads) {
      sum += bars_of_row(dev_stale, dev_weights, i, scale);
    }
    sum = Reduce(scratch).Sum(sum);
    if (threadIdx.x == 0) dev_sums[slice + 1] = sum;
    __syncthreads();
  }
}

/// dev_sums[slice]: of the bars before each slice; the last one is that of all. One block.
static __global__ void __launch_bounds__(kSliceThreads)
    add_slices_kernel(std::int64_t slices, Integer* __restrict__ dev_sums) {
  using Scan = cub::BlockScan<Integer, kSliceThreads>;
  __shared__ typename Scan::TempStorage scratch;
  Integer before = 0;
  for (std::int64_t base = 1; base <= slices; base += kSliceThreads) {
    const std::int64_t slice = base + threadIdx.x;
    Integer sum = slice <= slices ? dev_sums[slice] : 0;
    Integer total = 0;
    Scan(scratch).InclusiveSum(sum, sum, total);
    if (slice <= slices) dev_sums[slice] = before + sum;
    before += total;
    __syncthreads();
  }
  if (threadIdx.x == 0) dev_sums[0] = 0;
}

/// Where a dart has come down.
struct Landing {
  std::int64_t row;
  Integer height;
  double stale;
};

/// A warp a dart.
static __global__ void locate_kernel(const double* __restrict__ dev_stale,
                                     const std::int64_t* __restrict__ dev_weights, std::int64_t n,
                                     double scale, const Integer* __restrict__ dev_sums,
                                     std::int64_t slices, const Integer* __restrict__ dev_positions,
                                     int darts, Landing* __restrict__ dev_landings) {
  const int dart = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kLanes);
  if (dart >= darts) return;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  Integer position = dev_positions[dart];
  std::int64_t slice = 0;  // the last one whose bars begin at `position` or before
  for (std::int64_t beyond = slices; beyond - slice > 1;) {
    const std::int64_t middle = slice + (beyond - slice) / 2;
    if (dev_sums[middle] <= position) {
      slice = middle;
    } else {
      beyond = middle;
    }
  }
  position -= dev_sums[slice];
  for (std::int64_t first = slice * kSlice; first < n; first += kLanes) {
    const std::int64_t i = first + lane;
    const Integer own = i < n ? bars_of_row(dev_stale, dev_weights, i, scale) : 0;
    Integer up_to = own;  // of the lanes up to this one
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const Integer other = __shfl_up_sync(kAllLanes, up_to, distance);
      if (lane >= distance) up_to += other;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, position < up_to);
    if (beyond == 0) {
      position -= __shfl_sync(kAllLanes, up_to, kLanes - 1);
      continue;
    }
    if (lane == __ffs(static_cast<int>(beyond)) - 1) {
      const double stale = dev_stale[i];
      dev_landings[dart] = {i, (position - (up_to - own)) % bar_of(stale, scale), stale};
    }
    return;
  }
}

constexpr int kPairTile = 32;  // rows by columns of pairs of a block
constexpr int kPairThreads = 256;
constexpr int kPairRows = kPairTile / (kPairThreads / kLanes);  // of a warp

/// Some coordinates of 32 rows, as float64; missing rows are 0.
struct PairTile {
  double x[kPairTile][kSeedCoordinates + 1];

  /// dev_list: which rows, or null: the first, the second, ...
  template <class T>
  __device__ void load(const T* __restrict__ dev_rows, const std::int64_t* __restrict__ dev_list,
                       std::int64_t count, std::int64_t d, std::int64_t first, std::int64_t from) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int row = static_cast<int>(threadIdx.x) / kLanes; row < kPairTile;
         row += kPairThreads / kLanes) {
      const bool exists = first + row < count && from + lane < d;
      const std::int64_t i = exists && dev_list != nullptr ? dev_list[first + row] : first + row;
      x[row][lane] = exists ? static_cast<double>(dev_rows[i * d + from + lane]) : 0.0;
    }
  }
};

/// Squared distances of a tile of pairs as defined: a lane a column, kPairRows rows a warp.
template <class T>
__device__ inline void squared_distances_of_tile(const T* __restrict__ dev_rows,
                                                 const std::int64_t* __restrict__ dev_list,
                                                 std::int64_t rows, std::int64_t first_row,
                                                 const T* __restrict__ dev_columns,
                                                 std::int64_t columns, std::int64_t first_column,
                                                 std::int64_t d, PairTile& row_tile,
                                                 PairTile& column_tile, double (&sums)[kPairRows]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int own = static_cast<int>(threadIdx.x) / kLanes * kPairRows;
#pragma unroll
  for (int r = 0; r < kPairRows; ++r) sums[r] = 0;
  for (std::int64_t from = 0; from < d; from += kSeedCoordinates) {
    const int coordinates = static_cast<int>(min(std::int64_t{kSeedCoordinates}, d - from));
    __syncthreads();  // all are done with the coordinates before
    row_tile.load(dev_rows, dev_list, rows, d, first_row, from);
    column_tile.load(dev_columns, nullptr, columns, d, first_column, from);
    __syncthreads();
    for (int t = 0; t < coordinates; ++t) {
      const double c = column_tile.x[lane][t];
#pragma unroll
      for (int r = 0; r < kPairRows; ++r)
        sums[r] = add_exact_square(sums[r], row_tile.x[own + r][t], c);
    }
  }
}

/// Which seeds take from a dart's bar the place on which it came down: a bit each, 32 a word. columns: the seeds; of
/// the darts themselves only those before count (`triangle`). dev_words: rows x words, or null; dev_gone[dart]: set if
/// there is any, or null.
static __global__ void __launch_bounds__(kPairThreads)
    taken_kernel(const float* __restrict__ dev_darts, int darts,
                 const Landing* __restrict__ dev_landings, const float* __restrict__ dev_seeds,
                 std::int64_t seeds, bool triangle, std::int64_t d, double scale,
                 unsigned* __restrict__ dev_words, std::int64_t words,
                 unsigned* __restrict__ dev_gone) {
  __shared__ PairTile row_tile;
  __shared__ PairTile column_tile;
  const std::int64_t first_row = std::int64_t{blockIdx.y} * kPairTile;
  const std::int64_t first_column = std::int64_t{blockIdx.x} * kPairTile;
  if (triangle && first_column > first_row + kPairTile - 1) return;  // nobody asks for these words
  double sums[kPairRows];
  squared_distances_of_tile(dev_darts, nullptr, darts, first_row, dev_seeds, seeds, first_column, d,
                            row_tile, column_tile, sums);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int r = 0; r < kPairRows; ++r) {
    const std::int64_t row = first_row + threadIdx.x / kLanes * kPairRows + r;
    if (row >= darts) continue;
    const std::int64_t column = first_column + lane;
    const Landing landing = dev_landings[row];
    const bool counts = column < (triangle ? row : seeds);
    // A bar of S has a height; one of a larger distance may not have.
    const bool takes =
        counts && sums[r] < landing.stale && bar_of(sums[r], scale) <= landing.height;
    const unsigned word = __ballot_sync(kAllLanes, takes);
    if (lane != 0) continue;
    if (dev_words != nullptr) dev_words[row * words + blockIdx.x] = word;
    if (dev_gone != nullptr && word != 0) dev_gone[row] = 1;
  }
}

/// A warp a point: what it adds to its seed's cell (count x (d + 1)).
static __global__ void add_cells_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                        std::int64_t d, const float* __restrict__ dev_seeds,
                                        const std::int32_t* __restrict__ dev_kept,
                                        const std::int64_t* __restrict__ dev_weights, double scale,
                                        Integer* __restrict__ dev_cells) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes; i < n;
       i += stride) {
    const long long weight = dev_weights == nullptr ? 1 : dev_weights[i];
    if (weight == 0) continue;
    const std::int64_t j = dev_kept[i];
    Integer* cell = dev_cells + j * (d + 1);
    for (std::int64_t t = lane; t < d; t += kLanes) {
      const double difference =
          __dsub_rn(dev_points[i * d + t], static_cast<double>(dev_seeds[j * d + t]));
      const long long fixed = __double2ll_rn(__dmul_rn(difference, scale));
      // Unsigned addition of two's complements is signed addition.
      atomicAdd(&cell[t], static_cast<Integer>(weight * fixed));
    }
    if (lane == 0) atomicAdd(&cell[d], static_cast<Integer>(weight));
  }
}

static __global__ void fill_kernel(double value, std::int64_t n, double* __restrict__ dev_values) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) dev_values[i] = value;
}

constexpr int kNearestMerges = 2;

/// Of some clusters those that cost least, of equal ones the lowest first; every other one costs at least `beyond`.
struct NearestMerges {
  double costs[kNearestMerges] = {INFINITY, INFINITY};
  std::int64_t clusters[kNearestMerges] = {-1, -1};
  double beyond = INFINITY;

  __host__ __device__ void offer(double cost, std::int64_t cluster) {
    const bool first = cost < costs[0] || (cost == costs[0] && cluster < clusters[0]);
    const bool second = first || cost < costs[1] || (cost == costs[1] && cluster < clusters[1]);
    const double left_out = second ? costs[1] : cost;
    beyond = left_out < beyond ? left_out : beyond;
    if (first) {
      costs[1] = costs[0], clusters[1] = clusters[0];
      costs[0] = cost, clusters[0] = cluster;
    } else if (second) {
      costs[1] = cost, clusters[1] = cluster;
    }
  }

  __device__ void join_across(int distance) {
    NearestMerges other;
#pragma unroll
    for (int one = 0; one < kNearestMerges; ++one) {
      other.costs[one] = __shfl_xor_sync(kAllLanes, costs[one], distance);
      other.clusters[one] = __shfl_xor_sync(kAllLanes, clusters[one], distance);
    }
    other.beyond = __shfl_xor_sync(kAllLanes, beyond, distance);
#pragma unroll
    for (int one = 0; one < kNearestMerges; ++one) {
      if (other.clusters[one] >= 0) offer(other.costs[one], other.clusters[one]);
    }
    beyond = other.beyond < beyond ? other.beyond : beyond;
  }
};

/// Clusters that have changed: their means to where they belong.
static __global__ void place_means_kernel(const double* __restrict__ dev_changed_means,
                                          const std::int64_t* __restrict__ dev_changed,
                                          std::int64_t changed, std::int64_t d,
                                          double* __restrict__ dev_means) {
  const std::int64_t v = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (v < changed * d) dev_means[dev_changed[v / d] * d + v % d] = dev_changed_means[v];
}

/// What merging clusters costs, as defined in harness/support/ward_costs.h: for each listed one the nearest of a part
/// of all, blockIdx.y's. dev_weights: 0 where a cluster is merged. dev_found: parts x listed.
static __global__ void __launch_bounds__(kPairThreads)
    merge_costs_kernel(const double* __restrict__ dev_means, const double* __restrict__ dev_weights,
                       std::int64_t count, std::int64_t d,
                       const std::int64_t* __restrict__ dev_listed, std::int64_t listed,
                       NearestMerges* __restrict__ dev_found) {
  __shared__ PairTile row_tile;
  __shared__ PairTile column_tile;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kPairTile;
  const std::int64_t tiles = (count + kPairTile - 1) / kPairTile;
  const std::int64_t first_tile = tiles * blockIdx.y / gridDim.y;
  const std::int64_t last_tile = tiles * (blockIdx.y + 1) / gridDim.y;
  NearestMerges found[kPairRows];
  std::int64_t own[kPairRows];
  double weight[kPairRows];
#pragma unroll
  for (int r = 0; r < kPairRows; ++r) {
    const std::int64_t row = first_row + threadIdx.x / kLanes * kPairRows + r;
    own[r] = row < listed ? dev_listed[row] : -1;
    weight[r] = row < listed ? dev_weights[own[r]] : 0;
  }
  for (std::int64_t c = first_tile; c < last_tile; ++c) {
    double sums[kPairRows];
    squared_distances_of_tile(dev_means, dev_listed, listed, first_row, dev_means, count,
                              c * kPairTile, d, row_tile, column_tile, sums);
    const std::int64_t other = c * kPairTile + lane;
    const double its = other < count ? dev_weights[other] : 0;
    if (!(its > 0)) continue;  // there is none, or it is merged
#pragma unroll
    for (int r = 0; r < kPairRows; ++r) {
      if (own[r] < 0 || own[r] == other) continue;
      const double both = __ddiv_rn(__dmul_rn(weight[r], its), __dadd_rn(weight[r], its));
      found[r].offer(__dmul_rn(both, sums[r]), other);
    }
  }
#pragma unroll
  for (int r = 0; r < kPairRows; ++r) {
    for (int distance = kLanes / 2; distance > 0; distance /= 2) found[r].join_across(distance);
    const std::int64_t row = first_row + threadIdx.x / kLanes * kPairRows + r;
    if (lane == 0 && row < listed) dev_found[blockIdx.y * listed + row] = found[r];
  }
}

/// Of what parts have found, listed one by listed one: the nearest of all.
static __global__ void join_merges_kernel(const NearestMerges* __restrict__ dev_found,
                                          std::int64_t parts, std::int64_t listed,
                                          NearestMerges* __restrict__ dev_nearest) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= listed) return;
  NearestMerges nearest;
  for (std::int64_t part = 0; part < parts; ++part) {
    const NearestMerges its = dev_found[part * listed + row];
#pragma unroll
    for (int one = 0; one < kNearestMerges; ++one) {
      if (its.clusters[one] >= 0) nearest.offer(its.costs[one], its.clusters[one]);
    }
    nearest.beyond = its.beyond < nearest.beyond ? its.beyond : nearest.beyond;
  }
  dev_nearest[row] = nearest;
}

}  // namespace kmeans::cuda
