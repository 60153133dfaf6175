// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the choice of seeds (docs/seeding.md): which seed is nearest, squared distances as
// defined, cells.
#pragma once

#include <cub/block/block_reduce.cuh>

#include <cstdint>
#include <type_traits>

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
    if (d < kSeedCoordinates) {  // whole rows, one after another
      const int width = static_cast<int>(d);
      const int values = static_cast<int>(min(n - first, std::int64_t{kSeedThreads})) * width;
      for (int v = static_cast<int>(threadIdx.x); v < values; v += kSeedThreads) {
        x[v / width][v % width] = dev_points[first * d + v];
      }
      return;
    }
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    for (int row = static_cast<int>(threadIdx.x) / kLanes; row < kSeedThreads;
         row += kSeedThreads / kLanes) {
      const std::int64_t i = first + row;
      if (i < n && from + lane < d) x[row][lane] = dev_points[i * d + from + lane];
    }
  }
};

/// What a pass finds: of a point the squared distance from the nearest seed.
struct SeedPass {
  const float* dev_points;  // n x d
  std::int64_t n;
  std::int64_t d;
  const float* dev_seeds;  // count x d
  std::int64_t count;
  std::int64_t before;              // seeds of earlier passes
  const std::int64_t* dev_weights;  // or null
  double* dev_stale;                // S
  std::int32_t* dev_kept;           // numbers of the nearest seeds, or null
  // The largest S of a point with a weight, as bits: these have the order of the numbers.
  Integer* dev_largest;
};

/// S of a point: `squared` if that is less, or the first. Returns it, or 0 of one without weight.
__device__ inline double lower_one(const SeedPass& pass, std::int64_t i, double squared,
                                   std::int64_t label) {
  double stale = pass.dev_stale[i];
  if (pass.before == 0 || squared < stale) {
    stale = squared;
    pass.dev_stale[i] = squared;
    if (pass.dev_kept != nullptr) {
      pass.dev_kept[i] = static_cast<std::int32_t>(pass.before + label);
    }
  }
  return pass.dev_weights != nullptr && pass.dev_weights[i] == 0 ? 0 : stale;
}

/// Of all threads' values.
__device__ inline void note_largest_stale(const SeedPass& pass, double stale) {
  using Reduce = cub::BlockReduce<double, kSeedThreads>;
  __shared__ typename Reduce::TempStorage scratch;
  const auto larger = [](double a, double b) { return fmax(a, b); };
  const double largest = Reduce(scratch).Reduce(stale, larger);
  if (threadIdx.x == 0) {
    atomicMax(pass.dev_largest, static_cast<Integer>(__double_as_longlong(largest)));
  }
}

/// S of a block's points, a thread each. i >= n: there is none.
__device__ inline void lower(const SeedPass& pass, std::int64_t i, double squared,
                             std::int64_t label) {
  note_largest_stale(pass, i < pass.n ? lower_one(pass, i, squared, label) : 0);
}

/// Two least distances in float32, and whose the first one is.
struct TwoNearest {
  float least = INFINITY;
  float second = INFINITY;
  int nearest = 0;

  __device__ void offer(float q, int j) {
    if (q < least) nearest = j;
    second = fminf(second, fmaxf(least, q));
    least = fminf(least, q);
  }
};

/// The nearest seed of a point as defined: all lanes of a warp look for it together. limit: of differences
/// in float32; above it none is.
__device__ inline int nearest_as_defined(const SeedPass& pass, std::int64_t i, float limit) {
  const float* point = pass.dev_points + i * pass.d;
  double nearest_distance = INFINITY;
  auto nearest = static_cast<int>(pass.count);
  for (int j = static_cast<int>(threadIdx.x) % kLanes; j < pass.count; j += kLanes) {
    const float* seed = pass.dev_seeds + j * pass.d;
    float q = 0;
    for (std::int64_t t = 0; t < pass.d; ++t) {
      const float difference = __fsub_rn(point[t], seed[t]);
      q = __fmaf_rn(difference, difference, q);
    }
    if (q > limit) continue;
    double distance = 0;
    for (std::int64_t t = 0; t < pass.d; ++t) {
      distance = add_exact_square(distance, point[t], seed[t]);
    }
    if (distance < nearest_distance) {  // strictly: the lowest index wins a tie
      nearest_distance = distance;
      nearest = j;
    }
  }
#pragma unroll
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
    const double distance = __shfl_xor_sync(kAllLanes, nearest_distance, lanes);
    const int other = __shfl_xor_sync(kAllLanes, nearest, lanes);
    if (distance < nearest_distance || (distance == nearest_distance && other < nearest)) {
      nearest_distance = distance;
      nearest = other;
    }
  }
  return nearest < pass.count ? nearest : 0;
}

/// A warp's points: those whose nearest seed two distances leave open are looked at once more. factor,
/// tiny: as in filter_factor(). exists: there is a point i.
__device__ inline int decide_nearest(const SeedPass& pass, std::int64_t i, bool exists,
                                     const TwoNearest& found, float factor, float tiny) {
  const float limit = __fmaf_rn(found.least, factor, tiny);
  const bool is_open = exists && pass.count > 1 && !(found.second > limit);
  int nearest = found.nearest;
  for (unsigned open = __ballot_sync(kAllLanes, is_open); open != 0; open &= open - 1) {
    const int lane = __ffs(static_cast<int>(open)) - 1;
    const std::int64_t its = __shfl_sync(kAllLanes, static_cast<long long>(i), lane);
    const int decided = nearest_as_defined(pass, its, __shfl_sync(kAllLanes, limit, lane));
    if (static_cast<int>(threadIdx.x) % kLanes == lane) nearest = decided;
  }
  return nearest;
}

/// Few seeds, many coordinates: float32 differences, and where these leave the nearest one open, as
/// defined. factor, tiny: as in filter_factor(). dev_nearest is for lower_kernel().
static __global__ void __launch_bounds__(kSeedThreads)
    nearest_seeds_kernel(SeedPass pass, float factor, float tiny,
                         std::int32_t* __restrict__ dev_nearest) {
  __shared__ PointTile tile;
  alignas(16) __shared__ float seeds[kSeedCoordinates * kSeedsAtOnce];
  const std::int64_t n = pass.n;
  const std::int64_t d = pass.d;
  const std::int64_t tiles = (n + kSeedThreads - 1) / kSeedThreads;
  for (std::int64_t block = blockIdx.x; block < tiles; block += gridDim.x) {
    const std::int64_t first = block * kSeedThreads;
    const std::int64_t i = first + threadIdx.x;
    TwoNearest found;
    for (int first_j = 0; first_j < pass.count; first_j += kSeedsAtOnce) {
      float q[kSeedsAtOnce] = {};
      for (std::int64_t from = 0; from < d; from += kSeedCoordinates) {
        const int coordinates = static_cast<int>(min(std::int64_t{kSeedCoordinates}, d - from));
        __syncthreads();  // all are done with the coordinates before
        tile.load(pass.dev_points, n, d, first, from);
        for (int e = static_cast<int>(threadIdx.x); e < coordinates * kSeedsAtOnce;
             e += kSeedThreads) {
          const std::int64_t j = first_j + e % kSeedsAtOnce;
          seeds[e] = j < pass.count ? pass.dev_seeds[j * d + from + e / kSeedsAtOnce] : INFINITY;
        }
        __syncthreads();
        for (int t = 0; t < coordinates; ++t) {
          const float x = tile.x[threadIdx.x][t];
#pragma unroll
          for (int j = 0; j < kSeedsAtOnce; ++j) {
            const float difference = __fsub_rn(x, seeds[t * kSeedsAtOnce + j]);
            q[j] = __fmaf_rn(difference, difference, q[j]);
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kSeedsAtOnce; ++j) found.offer(q[j], first_j + j);
    }
    found.nearest = decide_nearest(pass, i, i < n, found, factor, tiny);
    if (i < n) dev_nearest[i] = static_cast<std::int32_t>(found.nearest);
    __syncthreads();  // before the next points
  }
}

constexpr int kSeedsOfGroup = 8;
constexpr int kOwnPoints = 2;  // of a thread
constexpr std::int64_t kTileOfFew = kOwnPoints * kSeedThreads;
constexpr int kSharedSeedBytes = 46 << 10;  // with what a reduction needs below 48 KiB
// With so many coordinates the rest of a pair costs little.
constexpr int kByGroupsBelow = 8;

/// Seeds of at most kD coordinates in shared memory: kD x room floats, room being whole groups. Further
/// coordinates are 0; seeds that are missing lie at infinity.
template <int kD>
struct SharedSeeds {
  const SeedPass& pass;
  float* values;
  int room;

  [[nodiscard]] __device__ bool all_fit() const { return pass.count <= room; }

  __device__ void load(int first_j) const {
    const int d = static_cast<int>(pass.d);
    __syncthreads();  // all are done with those before
    for (int e = static_cast<int>(threadIdx.x); e < kD * room; e += kSeedThreads) {
      const int j = e / kD;
      const int t = e % kD;
      float value = INFINITY;
      if (first_j + j < pass.count) {
        value = t < d ? pass.dev_seeds[std::int64_t{first_j + j} * d + t] : 0.0F;
      }
      values[t * room + j] = value;
    }
    __syncthreads();
  }

  [[nodiscard]] __device__ float coordinate(int j, int t) const {
    if (all_fit()) return values[t * room + j];
    return t < pass.d ? pass.dev_seeds[j * pass.d + t] : 0.0F;
  }

  /// Of the thread's points from a group of seeds, squared.
  __device__ void distances(const float (&x)[kOwnPoints][kD], int group,
                            float (&q)[kOwnPoints][kSeedsOfGroup]) const {
#pragma unroll
    for (int t = 0; t < kD; ++t) {
      const auto* fours =
          reinterpret_cast<const float4*>(values + t * room + group * kSeedsOfGroup);
      const float4 a = fours[0];
      const float4 b = fours[1];
      const float its[kSeedsOfGroup] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
      for (int p = 0; p < kOwnPoints; ++p) {
#pragma unroll
        for (int j = 0; j < kSeedsOfGroup; ++j) {
          const float difference = __fsub_rn(x[p][t], its[j]);
          q[p][j] = __fmaf_rn(difference, difference, q[p][j]);
        }
      }
    }
  }

  /// The two nearest of a group, and of the others before, whose least distance is found.second.
  __device__ void look_at_group(const float (&x)[kD], int group, TwoNearest& found) const {
    const int end = min((group + 1) * kSeedsOfGroup, static_cast<int>(pass.count));
    for (int j = group * kSeedsOfGroup; j < end; ++j) {
      float q = 0;
#pragma unroll
      for (int t = 0; t < kD; ++t) {
        const float difference = __fsub_rn(x[t], coordinate(j, t));
        q = __fmaf_rn(difference, difference, q);
      }
      found.offer(q, j);
    }
  }
};

/// Further coordinates are 0.
template <int kD>
__device__ inline void load_point(const SeedPass& pass, std::int64_t i, float (&x)[kD]) {
  const float* point = pass.dev_points + i * pass.d;
  if (kD % 4 == 0 && pass.d % 4 == 0) {  // rows begin at whole 16 bytes
#pragma unroll
    for (int t = 0; t + 4 <= kD; t += 4) {
      const float4 four =
          t < pass.d ? *reinterpret_cast<const float4*>(point + t) : float4{0, 0, 0, 0};
      x[t] = four.x, x[t + 1] = four.y, x[t + 2] = four.z, x[t + 3] = four.w;
    }
    return;
  }
#pragma unroll
  for (int t = 0; t < kD; ++t) x[t] = t < pass.d ? point[t] : 0.0F;
}

/// nearest_seeds_kernel() and lower_kernel() of points with at most kD coordinates, which stay in
/// registers. Of few coordinates only the nearest distance of each group of seeds is kept; the nearest
/// group is then looked at once more.
template <int kD>
__global__ void __launch_bounds__(kSeedThreads)
    nearest_of_few_coordinates_kernel(SeedPass pass, float factor, float tiny, int room) {
  constexpr bool kByGroups = kD < kByGroupsBelow;
  extern __shared__ float4 shared_seeds[];
  const SharedSeeds<kD> seeds{pass, reinterpret_cast<float*>(shared_seeds), room};
  const auto count = static_cast<int>(pass.count);
  if (seeds.all_fit()) seeds.load(0);
  const std::int64_t tiles = (pass.n + kTileOfFew - 1) / kTileOfFew;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t first = tile * kTileOfFew + threadIdx.x;
    float x[kOwnPoints][kD];
    TwoNearest found[kOwnPoints];  // of groups, or of seeds
#pragma unroll
    for (int p = 0; p < kOwnPoints; ++p) {
      load_point<kD>(pass, min(first + p * kSeedThreads, pass.n - 1), x[p]);
    }
    for (int first_j = 0; first_j < count; first_j += room) {
      if (!seeds.all_fit()) seeds.load(first_j);
      const int groups = (min(room, count - first_j) + kSeedsOfGroup - 1) / kSeedsOfGroup;
      for (int g = 0; g < groups; ++g) {
        float q[kOwnPoints][kSeedsOfGroup] = {};
        seeds.distances(x, g, q);
#pragma unroll
        for (int p = 0; p < kOwnPoints; ++p) {
          if constexpr (kByGroups) {
#pragma unroll
            for (int half = kSeedsOfGroup / 2; half > 0; half /= 2) {
#pragma unroll
              for (int j = 0; j < half; ++j) q[p][j] = fminf(q[p][j], q[p][j + half]);
            }
            found[p].offer(q[p][0], first_j / kSeedsOfGroup + g);
          } else {
#pragma unroll
            for (int j = 0; j < kSeedsOfGroup; ++j) {
              found[p].offer(q[p][j], first_j + g * kSeedsOfGroup + j);
            }
          }
        }
      }
    }
    double largest = 0;
#pragma unroll
    for (int p = 0; p < kOwnPoints; ++p) {
      const std::int64_t i = first + p * kSeedThreads;
      TwoNearest own = found[p];
      if constexpr (kByGroups) {
        own = {.second = found[p].second};
        seeds.look_at_group(x[p], found[p].nearest, own);
      }
      const int nearest = decide_nearest(pass, i, i < pass.n, own, factor, tiny);
      if (i >= pass.n) continue;
      double squared = 0;
#pragma unroll
      for (int t = 0; t < kD; ++t) {
        squared = add_exact_square(squared, x[p][t], seeds.coordinate(nearest, t));
      }
      largest = fmax(largest, lower_one(pass, i, squared, nearest));
    }
    note_largest_stale(pass, largest);
    __syncthreads();  // before the next points
  }
}

/// PointTile of rows that begin at whole 16 bytes, read and written so; odd rows of fours keep the
/// banks apart.
struct PointTileOfFours {
  static constexpr int kFours = kSeedCoordinates / 4;
  float4 x[kSeedThreads][kFours + 1];

  __device__ void load(const float* __restrict__ dev_points, std::int64_t n, std::int64_t d,
                       std::int64_t first, std::int64_t from) {
    const int own = static_cast<int>(threadIdx.x) % kFours;
#pragma unroll
    for (int r = 0; r < kFours; ++r) {
      const int row = static_cast<int>(threadIdx.x) / kFours + r * (kSeedThreads / kFours);
      const std::int64_t i = first + row;
      if (i < n && from + 4 * own < d) {
        x[row][own] = *reinterpret_cast<const float4*>(dev_points + i * d + from + 4 * own);
      }
    }
  }
};

/// S by the nearest seeds, which are known. dev_nearest: null if there is one seed. kInFours: d is a
/// multiple of four.
template <bool kInFours>
__global__ void __launch_bounds__(kSeedThreads)
    lower_kernel(SeedPass pass, const std::int32_t* __restrict__ dev_nearest) {
  __shared__ std::conditional_t<kInFours, PointTileOfFours, PointTile> tile;
  const std::int64_t d = pass.d;
  const std::int64_t first = std::int64_t{blockIdx.x} * kSeedThreads;
  const std::int64_t i = first + threadIdx.x;
  const std::int32_t label = i < pass.n && dev_nearest != nullptr ? dev_nearest[i] : 0;
  const float* seed = pass.dev_seeds + label * d;
  double squared = 0;
  for (std::int64_t from = 0; from < d; from += kSeedCoordinates) {
    const int coordinates = static_cast<int>(min(std::int64_t{kSeedCoordinates}, d - from));
    __syncthreads();
    tile.load(pass.dev_points, pass.n, d, first, from);
    __syncthreads();
    if (i >= pass.n) continue;
    if constexpr (kInFours) {
#pragma unroll 2
      for (int t = 0; t < coordinates; t += 4) {
        const float4 x = tile.x[threadIdx.x][t / 4];
        const float4 c = *reinterpret_cast<const float4*>(seed + from + t);
        squared = add_exact_square(squared, x.x, c.x);
        squared = add_exact_square(squared, x.y, c.y);
        squared = add_exact_square(squared, x.z, c.z);
        squared = add_exact_square(squared, x.w, c.w);
      }
    } else {
      for (int t = 0; t < coordinates; ++t) {
        squared = add_exact_square(squared, tile.x[threadIdx.x][t], seed[from + t]);
      }
    }
  }
  lower(pass, i, squared, label);
}

constexpr int kPairTile = 32;  // rows by columns of pairs of a block
constexpr int kPairThreads = 256;
constexpr int kPairRows = kPairTile / (kPairThreads / kLanes);  // of a warp

/// Some coordinates of 32 rows, as float64; missing rows are 0.
struct PairTile {
  double x[kPairTile][kSeedCoordinates + 1];

  /// dev_list: which rows, or null: the first, the second, ...
  template <class T>
  __device__ void load(const T* __restrict__ dev_rows, const std::int32_t* __restrict__ dev_list,
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
                                                 const std::int32_t* __restrict__ dev_row_list,
                                                 std::int64_t rows, std::int64_t first_row,
                                                 const T* __restrict__ dev_columns,
                                                 const std::int32_t* __restrict__ dev_column_list,
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
    row_tile.load(dev_rows, dev_row_list, rows, d, first_row, from);
    column_tile.load(dev_columns, dev_column_list, columns, d, first_column, from);
    __syncthreads();
    for (int t = 0; t < coordinates; ++t) {
      const double c = column_tile.x[lane][t];
#pragma unroll
      for (int r = 0; r < kPairRows; ++r)
        sums[r] = add_exact_square(sums[r], row_tile.x[own + r][t], c);
    }
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

}  // namespace kmeans::cuda
