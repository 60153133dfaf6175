// SPDX-License-Identifier: Apache-2.0
//
// Idea:      float16 tensor cores leave out what cannot be nearest, with a bound on everything they
//            round; a centroid that is nearer than all others by more than the bounds is the label,
//            and the few points without one are looked at in float32, then as defined
// Parallel:  a block of three warp groups goes over tiles of points: one feeds shared memory, two
//            multiply 64 x M points each with all centroids and reduce while the other multiplies
// Memory:    a centred float16 copy of the points, made in setup in the order in which wgmma reads
//            shared memory, so that a tile is one bulk copy; the centroids alike, every iteration.
//            The float32 points are read only where undecided or where the label changed
// Numerics:  the accumulator is a lower bound of half a squared distance (less ||x||^2 / 2): four more
//            columns hold half the centroid's squared norm and the bound's two products. Sums are
//            64-bit integers. Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu.md
#include <cuda_fp16.h>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

using Integer = unsigned long long;  // two's complement: unsigned addition is signed addition

constexpr unsigned kAllLanes = 0xffffffff;
constexpr int kRowsOfProduct = 64;      // of a wgmma instruction
constexpr int kColumns = 128;           // centroids of a tile
constexpr int kConsumers = 2;           // warp groups that multiply
constexpr int kGroupThreads = 128;      // of a warp group
constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
constexpr int kChunk = 8;               // halves in a row of a core matrix
constexpr int kStageChunks = 8;         // chunks of all columns in a stage: 16 KB
constexpr int kExtra = 4;               // columns for norms and bounds
constexpr int kMaxStages = 8;
constexpr int kIndexBits = 6;           // of a key: which of a thread's columns of a tile
constexpr std::int64_t kSharedBytes = 227 * 1024;

/// What accumulating products of float16 in the tensor cores may be off by, as a share of the sum of
/// their magnitudes: they align the products of 16 columns and the sum before to the largest of them
/// and cut off, so each of the 17 may lose 2^-23 of it, once for every 16 columns.
__host__ __device__ constexpr double product_error(std::int64_t padded) {
  return static_cast<double>(padded / 16 + 1) * 17 * 0x1p-23;
}

/// A shape as the kernels see it.
struct Sizes {
  std::int64_t n;
  std::int64_t d;
  std::int64_t k;
  int padded;         // d and the extra columns, a multiple of 16
  int tile_rows;      // points of a block's tile
  std::int64_t point_tiles;
  int centroid_tiles;
  int stages;
};

__host__ __device__ inline std::int64_t tile_halves(const Sizes& s) {
  return std::int64_t{s.tile_rows} * s.padded;
}

/// Where (row, column) of a tile of `rows` rows stands: chunks of 8 columns, in them all rows.
__device__ inline std::int64_t place_in_tile(int rows, int row, int column) {
  return std::int64_t{column / kChunk} * rows * kChunk + row * kChunk + column % kChunk;
}

__device__ inline __half half_up(double value) {
  __half half = __double2half(value);
  if (static_cast<double>(__half2float(half)) < value) half = __float2half_ru(__double2float_ru(value));
  return half;
}

__device__ inline double warp_sum(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// Column sums of the points, for their mean; order-dependent, which moves no label.
__global__ void add_columns_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                   std::int64_t d, double* __restrict__ dev_sums) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= d) return;
  double sum = 0;
  for (std::int64_t i = blockIdx.y; i < n; i += gridDim.y) sum += dev_points[i * d + t];
  atomicAdd(&dev_sums[t], sum);
}

__global__ void find_reach_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                  std::int64_t d, const double* __restrict__ dev_sums,
                                  float* __restrict__ dev_mean, unsigned* __restrict__ dev_reach) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= d) return;
  const float mean = static_cast<float>(dev_sums[t] / static_cast<double>(n));
  if (blockIdx.y == 0) dev_mean[t] = mean;
  float reach = 0;
  for (std::int64_t i = blockIdx.y; i < n; i += gridDim.y) {
    reach = fmaxf(reach, fabsf(dev_points[i * d + t] - mean));
  }
  atomicMax(dev_reach, __float_as_uint(reach));
}

/// A warp a row. Rows past the end are zero. dev_lengths: (|x'|, |x' - x~|), rounded up, per point.
__global__ void copy_points_kernel(const float* __restrict__ dev_points, Sizes s,
                                   const float* __restrict__ dev_mean, double scale,
                                   __half* __restrict__ dev_copy, float2* __restrict__ dev_lengths) {
  const int lane = threadIdx.x % 32;
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= s.point_tiles * s.tile_rows) return;
  __half* tile = dev_copy + i / s.tile_rows * tile_halves(s);
  const int row = static_cast<int>(i % s.tile_rows);
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  for (int t = lane; t < s.padded; t += 32) {
    double x = 0;
    if (i < s.n && t < s.d) x = (static_cast<double>(dev_points[i * s.d + t]) - dev_mean[t]) * scale;
    const __half copy = __double2half(x);
    const double kept = __half2float(copy);
    squared += x * x;
    squared_copy += kept * kept;
    squared_rest += (x - kept) * (x - kept);
    if (t < s.d) tile[place_in_tile(s.tile_rows, row, t)] = copy;
  }
  constexpr double kUp = 1 + 0x1p-30;  // above the roundings of these sums and roots
  const __half length = half_up(kUp * sqrt(fmax(warp_sum(squared), warp_sum(squared_copy))));
  const __half rest = half_up(kUp * sqrt(warp_sum(squared_rest)));
  if (lane == 0) {
    const __half one = __float2half(1.0F);
    const __half extra[kExtra] = {one, one, length, rest};
    for (int e = 0; e < s.padded - s.d; ++e) {
      tile[place_in_tile(s.tile_rows, row, static_cast<int>(s.d) + e)] =
          e < kExtra ? extra[e] : __float2half(0.0F);
    }
    if (i < s.n) dev_lengths[i] = {__half2float(length), __half2float(rest)};
  }
}

/// A warp a centroid. Those past the end lie too far away to be nearest. dev_lengths: what the
/// points' lengths are multiplied with in the bound.
__global__ void copy_centroids_kernel(const float* __restrict__ dev_centroids, Sizes s,
                                      const float* __restrict__ dev_mean, double scale,
                                      __half* __restrict__ dev_copy,
                                      float2* __restrict__ dev_lengths) {
  const int lane = threadIdx.x % 32;
  const std::int64_t j = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (j >= std::int64_t{s.centroid_tiles} * kColumns) return;
  __half* tile = dev_copy + j / kColumns * kColumns * s.padded;
  const int row = static_cast<int>(j % kColumns);
  double squared = 0;
  double squared_copy = 0;
  double squared_rest = 0;
  for (int t = lane; t < s.d; t += 32) {
    double c = 0;
    if (j < s.k) c = (static_cast<double>(dev_centroids[j * s.d + t]) - dev_mean[t]) * scale;
    const __half copy = __double2half(c);
    const double kept = __half2float(copy);
    squared += c * c;
    squared_copy += kept * kept;
    squared_rest += (c - kept) * (c - kept);
    tile[place_in_tile(kColumns, row, t)] = __hneg(copy);
  }
  constexpr double kUp = 1 + 0x1p-30;
  const double error = product_error(s.padded);
  const double half_norm = warp_sum(squared) / 2;
  const double length = kUp * sqrt(warp_sum(squared_copy));
  const double rest = kUp * sqrt(warp_sum(squared_rest));
  // |x'.c' - x~.c~| <= |x'| |c' - c~| + |x' - x~| |c~|; the products' own error by |x~| |c~|.
  const __half by_length = half_up(rest + 2 * error * length);
  const __half by_rest = half_up(length * (1 + 2 * error));
  if (lane == 0) {
    const double low = half_norm * (1 - 4 * error - 0x1p-20);
    const __half high_part = __double2half(j < s.k ? low : 60000.0);
    const __half low_part =
        __double2half(j < s.k ? low - static_cast<double>(__half2float(high_part)) : 0.0);
    const __half extra[kExtra] = {high_part, low_part, __hneg(by_length), __hneg(by_rest)};
    for (int e = 0; e < s.padded - s.d; ++e) {
      tile[place_in_tile(kColumns, row, static_cast<int>(s.d) + e)] =
          e < kExtra ? extra[e] : __float2half(0.0F);
    }
    // Upper less lower bound of half the squared distance is at most
    // 2 (|x'| by_length + |x' - x~| by_rest) + half_norm's share.
    if (j < s.k) {
      dev_lengths[2 * j] = {__half2float(by_length), __half2float(by_rest)};
      dev_lengths[2 * j + 1] = {__double2float_ru(half_norm * (8 * error + 0x1p-18)), 0.0F};
    }
  }
}

// --- The product ---

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Of a K-major operand without swizzle: core matrices of 8 x 16 bytes are whole; neighbours along
/// rows lie 128 bytes apart, neighbours along columns `rows` rows.
__device__ inline std::uint64_t descriptor(const __half* tile, int rows) {
  const std::uint64_t address = (shared_address(tile) & 0x3ffff) >> 4;
  const std::uint64_t leading = static_cast<std::uint64_t>(rows) * 16 >> 4;  // along columns
  const std::uint64_t stride = 128 >> 4;                                    // along rows
  return address | leading << 16 | stride << 32;
}

/// sums (64 x 128 over the warp group) += or = rows (64 x 16) times columns (128 x 16).
__device__ inline void multiply(float (&sums)[64], std::uint64_t rows, std::uint64_t columns,
                                bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]), "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
      : "l"(rows), "l"(columns), "r"(add ? 1 : 0));
}

__device__ inline void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}
__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void barrier_expect(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(std::uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ inline void copy_bulk(void* shared, const void* dev_from, unsigned bytes,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(dev_from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

struct Best {
  float least;    // key of the nearest: a lower bound with the column in its last bits
  float second;
  int tile;
};

__device__ inline float key_of(float bound, int column) {
  return __uint_as_float((__float_as_uint(bound) & ~((1U << kIndexBits) - 1)) |
                         static_cast<unsigned>(column));
}

/// Two rows of a thread's sums of a tile: 16 groups of 8 columns, of which a thread has two.
__device__ inline void reduce_tile(const float (&sums)[64], int tile, Best (&best)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float before = best[row].least;
#pragma unroll
    for (int group = 0; group < 16; ++group) {
      const float a = key_of(sums[4 * group + 2 * row], 2 * group);
      const float b = key_of(sums[4 * group + 2 * row + 1], 2 * group + 1);
      const float low = fminf(a, b);
      const float high = fmaxf(a, b);
      best[row].second = fminf(fminf(best[row].second, high), fmaxf(best[row].least, low));
      best[row].least = fminf(best[row].least, low);
    }
    if (best[row].least != before) best[row].tile = tile;
  }
}

/// The best of the four lanes that share a row, and whose column it is.
__device__ inline void share_row(Best& best, int& lane_of_best) {
  lane_of_best = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    const float least = __shfl_xor_sync(kAllLanes, best.least, distance);
    const float second = __shfl_xor_sync(kAllLanes, best.second, distance);
    const int tile = __shfl_xor_sync(kAllLanes, best.tile, distance);
    const int lane = __shfl_xor_sync(kAllLanes, lane_of_best, distance);
    best.second = fminf(fminf(best.second, second), fmaxf(best.least, least));
    const bool other = least < best.least || (least == best.least && lane < lane_of_best);
    if (other) {
      best.least = least;
      best.tile = tile;
      lane_of_best = lane;
    }
  }
}

struct Undecided {
  std::int32_t* dev_points;
  unsigned long long* dev_count;
};

/// M: products of 64 rows that a warp group has at once.
template <int M>
__global__ void __launch_bounds__(kThreads, 1)
    find_nearest_kernel(Sizes s, const __half* __restrict__ dev_points,
                        const __half* __restrict__ dev_centroids,
                        const float2* __restrict__ dev_point_lengths,
                        const float2* __restrict__ dev_centroid_lengths,
                        std::int32_t* __restrict__ dev_nearest, Undecided undecided) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char memory[];
  auto* full = reinterpret_cast<std::uint64_t*>(memory);  // per stage
  auto* empty = full + kMaxStages;
  auto* points_full = empty + kMaxStages;
  auto* points_empty = points_full + 1;
  auto* points = reinterpret_cast<__half*>(memory + 1024);
  auto* stages = points + tile_halves(s);
  constexpr int kStageHalves = kStageChunks * kChunk * kColumns;
  const int chunks = s.padded / kChunk;
  const int steps = (chunks + kStageChunks - 1) / kStageChunks;  // stages of a tile of centroids

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < s.stages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], kConsumers);
    }
    barrier_init(points_full, 1);
    barrier_init(points_empty, kConsumers);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (group == kConsumers) {  // feeds
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % kGroupThreads != 0) return;
    std::int64_t fed = 0;
    unsigned round = 0;
    for (std::int64_t tile = blockIdx.x; tile < s.point_tiles; tile += gridDim.x, ++round) {
      if (round > 0) barrier_wait(points_empty, (round - 1) & 1);
      const auto bytes = static_cast<unsigned>(tile_halves(s) * sizeof(__half));
      barrier_expect(points_full, bytes);
      copy_bulk(points, dev_points + tile * tile_halves(s), bytes, points_full);
      for (int c = 0; c < s.centroid_tiles; ++c) {
        for (int step = 0; step < steps; ++step, ++fed) {
          const int stage = static_cast<int>(fed % s.stages);
          const auto use = static_cast<unsigned>(fed / s.stages);
          if (use > 0) barrier_wait(&empty[stage], (use - 1) & 1);
          const int first = step * kStageChunks;
          const int count = min(kStageChunks, chunks - first);
          const auto stage_bytes = static_cast<unsigned>(count * kChunk * kColumns * sizeof(__half));
          barrier_expect(&full[stage], stage_bytes);
          copy_bulk(stages + stage * kStageHalves,
                    dev_centroids + (std::int64_t{c} * chunks + first) * kChunk * kColumns,
                    stage_bytes, &full[stage]);
        }
      }
    }
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const bool speaks = threadIdx.x % kGroupThreads == 0;
  std::int64_t used = 0;
  unsigned round = 0;
  for (std::int64_t tile = blockIdx.x; tile < s.point_tiles; tile += gridDim.x, ++round) {
    Best best[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      for (int row = 0; row < 2; ++row) best[m][row] = {INFINITY, INFINITY, 0};
    }
    barrier_wait(points_full, round & 1);
    for (int c = 0; c < s.centroid_tiles; ++c) {
      float sums[M][64];
      for (int step = 0; step < steps; ++step, ++used) {
        const int stage = static_cast<int>(used % s.stages);
        barrier_wait(&full[stage], static_cast<unsigned>(used / s.stages) & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        const int first = step * kStageChunks;
        const int count = min(kStageChunks, chunks - first);
        for (int chunk = 0; chunk < count; chunk += 2) {
          const std::uint64_t columns =
              descriptor(stages + stage * kStageHalves + chunk * kChunk * kColumns, kColumns);
#pragma unroll
          for (int m = 0; m < M; ++m) {
            const int first_row = (group * M + m) * kRowsOfProduct;
            const std::uint64_t rows = descriptor(
                points + std::int64_t{first + chunk} * kChunk * s.tile_rows + first_row * kChunk,
                s.tile_rows);
            multiply(sums[m], rows, columns, step > 0 || chunk > 0);
          }
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (speaks) barrier_arrive(&empty[stage]);
      }
#pragma unroll
      for (int m = 0; m < M; ++m) reduce_tile(sums[m], c, best[m]);
    }
    if (speaks) barrier_arrive(points_empty);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        Best& own = best[m][row];
        int lane_of_best = 0;
        share_row(own, lane_of_best);
        const std::int64_t i = tile * s.tile_rows + (group * M + m) * kRowsOfProduct + warp * 16 +
                               row * 8 + lane / 4;
        const bool writes = lane % 4 == 0 && i < s.n;
        const int column = static_cast<int>(__float_as_uint(own.least) & ((1U << kIndexBits) - 1));
        const int j = own.tile * kColumns + column / 2 * 8 + lane_of_best * 2 + column % 2;
        bool decided = false;
        if (writes && j < s.k) {
          const float2 point = dev_point_lengths[i];
          const float2 bound = dev_centroid_lengths[2 * j];
          const float norm = dev_centroid_lengths[2 * j + 1].x;
          const float cut = 0x1p-15F;  // what the column's bits may have changed, twice
          const float width = 2.0001F * (point.x * bound.x + point.y * bound.y) + norm;
          const float upper = own.least + cut * fabsf(own.least) + width;
          const float others = own.second - cut * fabsf(own.second);
          // The float64 definition's own rounding is 2^-40 of the squared lengths at most.
          decided = others > upper + 0x1p-30F * (point.x * point.x + bound.y * bound.y);
        }
        if (writes) dev_nearest[i] = j;
        const unsigned open = __ballot_sync(kAllLanes, writes && !decided);
        if (open != 0) {
          unsigned long long place = 0;
          if (lane == 0) place = atomicAdd(undecided.dev_count, static_cast<Integer>(__popc(open)));
          place = __shfl_sync(kAllLanes, place, 0) + __popc(open & ((1U << lane) - 1));
          if (writes && !decided) undecided.dev_points[place] = static_cast<std::int32_t>(i);
        }
      }
    }
  }
#else
  (void)s, (void)dev_points, (void)dev_centroids, (void)dev_point_lengths,
      (void)dev_centroid_lengths, (void)dev_nearest, (void)undecided;
#endif
}

// --- Undecided points ---

constexpr int kSearchThreads = 256;
constexpr int kSearchPoints = 16;
constexpr int kSearchCoordinates = 64;

/// dev_columns: the centroids, column-major, padded to `pitch` of them with infinity.
__global__ void transpose_centroids_kernel(const float* __restrict__ dev_centroids, std::int64_t k,
                                           std::int64_t d, std::int64_t pitch,
                                           float* __restrict__ dev_columns) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= pitch * d) return;
  const std::int64_t j = index % pitch;
  dev_columns[index] = j < k ? dev_centroids[j * d + index / pitch] : INFINITY;
}

/// Sixteen undecided points a block at a time, a thread a centroid: float32, then as defined.
__global__ void __launch_bounds__(kSearchThreads)
    search_kernel(const float* __restrict__ dev_points, std::int64_t d,
                  const float* __restrict__ dev_columns, std::int64_t k, std::int64_t pitch,
                  float factor, Undecided undecided, std::int32_t* __restrict__ dev_nearest) {
  __shared__ float x[kSearchPoints][kSearchCoordinates];
  __shared__ float leasts[kSearchPoints][kSearchThreads / 32];
  __shared__ float seconds[kSearchPoints][kSearchThreads / 32];
  __shared__ int nearests[kSearchPoints][kSearchThreads / 32];
  __shared__ std::int64_t own_points[kSearchPoints];
  __shared__ bool open[kSearchPoints];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto count = static_cast<std::int64_t>(*undecided.dev_count);
  for (std::int64_t first = std::int64_t{blockIdx.x} * kSearchPoints; first < count;
       first += std::int64_t{gridDim.x} * kSearchPoints) {
    const int points = static_cast<int>(min(std::int64_t{kSearchPoints}, count - first));
    __syncthreads();
    if (threadIdx.x < kSearchPoints) {
      own_points[threadIdx.x] =
          undecided.dev_points[first + min(static_cast<int>(threadIdx.x), points - 1)];
    }
    float least[kSearchPoints];
    float second[kSearchPoints];
    int nearest[kSearchPoints];
#pragma unroll
    for (int p = 0; p < kSearchPoints; ++p) least[p] = second[p] = INFINITY, nearest[p] = 0;
    for (std::int64_t base = 0; base < pitch; base += kSearchThreads) {
      const std::int64_t j = base + threadIdx.x;
      float distance[kSearchPoints] = {};
      for (std::int64_t from = 0; from < d; from += kSearchCoordinates) {
        const int coordinates = static_cast<int>(min(std::int64_t{kSearchCoordinates}, d - from));
        __syncthreads();
        for (int e = threadIdx.x; e < kSearchPoints * coordinates; e += kSearchThreads) {
          x[e / coordinates][e % coordinates] =
              dev_points[own_points[e / coordinates] * d + from + e % coordinates];
        }
        __syncthreads();
        for (int t = 0; t < coordinates; ++t) {
          const float c = dev_columns[(from + t) * pitch + j];
#pragma unroll
          for (int p = 0; p < kSearchPoints; ++p) {
            const float difference = __fsub_rn(x[p][t], c);
            distance[p] = __fmaf_rn(difference, difference, distance[p]);
          }
        }
      }
#pragma unroll
      for (int p = 0; p < kSearchPoints; ++p) {
        nearest[p] = distance[p] < least[p] ? static_cast<int>(j) : nearest[p];
        second[p] = fminf(second[p], fmaxf(least[p], distance[p]));
        least[p] = fminf(least[p], distance[p]);
      }
    }
#pragma unroll
    for (int p = 0; p < kSearchPoints; ++p) {
      for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(kAllLanes, least[p], distance);
        const float other_second = __shfl_xor_sync(kAllLanes, second[p], distance);
        const int other_nearest = __shfl_xor_sync(kAllLanes, nearest[p], distance);
        second[p] = fminf(fminf(second[p], other_second), fmaxf(least[p], other));
        if (other < least[p]) least[p] = other, nearest[p] = other_nearest;
      }
      if (lane == 0) {
        leasts[p][warp] = least[p];
        seconds[p][warp] = second[p];
        nearests[p][warp] = nearest[p];
      }
    }
    __syncthreads();
    if (threadIdx.x < kSearchPoints) {
      const int p = static_cast<int>(threadIdx.x);
      float best = INFINITY;
      float next = INFINITY;
      int label = 0;
      for (int w = 0; w < kSearchThreads / 32; ++w) {
        next = fminf(fminf(next, seconds[p][w]), fmaxf(best, leasts[p][w]));
        if (leasts[p][w] < best) best = leasts[p][w], label = nearests[p][w];
      }
      open[p] = p < points && !(next > __fmaf_rn(best, factor, kFilterTiny));
      if (p < points && !open[p]) dev_nearest[own_points[p]] = label;
    }
    __syncthreads();
    for (int p = 0; p < points; ++p) {
      if (!open[p]) continue;
      // As defined, a thread some centroids; the lowest index wins.
      double exact = INFINITY;
      std::int64_t label = 0;
      for (std::int64_t j = threadIdx.x; j < k; j += kSearchThreads) {
        double distance = 0;
        for (std::int64_t t = 0; t < d; ++t) {
          distance = add_exact_square(distance, dev_points[own_points[p] * d + t],
                                      dev_columns[t * pitch + j]);
        }
        if (distance < exact) exact = distance, label = j;
      }
      __shared__ double exacts[kSearchThreads];
      __shared__ std::int64_t labels[kSearchThreads];
      exacts[threadIdx.x] = exact;
      labels[threadIdx.x] = label;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int w = 1; w < kSearchThreads; ++w) {
          if (exacts[w] < exact || (exacts[w] == exact && labels[w] < label)) {
            exact = exacts[w];
            label = labels[w];
          }
        }
        dev_nearest[own_points[p]] = static_cast<std::int32_t>(label);
      }
      __syncthreads();
    }
  }
}

// --- Update ---

/// A warp looks at 32 points and, lanes over coordinates, moves those whose label changed.
__global__ void move_points_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                   std::int64_t d, const std::int32_t* __restrict__ dev_nearest,
                                   double scale, std::int32_t* __restrict__ dev_labels,
                                   Integer* __restrict__ dev_sums) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t before = 0;
  std::int32_t now = 0;
  if (i < n) {
    before = dev_labels[i];
    now = dev_nearest[i];
    if (before != now) dev_labels[i] = now;
  }
  for (unsigned moved = __ballot_sync(kAllLanes, before != now); moved != 0; moved &= moved - 1) {
    const int of = __ffs(static_cast<int>(moved)) - 1;
    const std::int64_t point = i - lane + of;
    const std::int64_t from = __shfl_sync(kAllLanes, before, of);
    const std::int64_t to = __shfl_sync(kAllLanes, now, of);
    for (std::int64_t t = lane; t <= d; t += 32) {
      const long long value = t < d ? exact_fixed_point(dev_points[point * d + t], scale) : 1;
      atomicAdd(&dev_sums[to * (d + 1) + t], static_cast<Integer>(value));
      if (from >= 0) atomicAdd(&dev_sums[from * (d + 1) + t], static_cast<Integer>(-value));
    }
  }
}

__global__ void divide_kernel(const Integer* __restrict__ dev_sums, double inverse_scale,
                              float* __restrict__ dev_centroids, std::int64_t k, std::int64_t d) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= k * d) return;
  const Integer* sums = dev_sums + index / d * (d + 1);
  const auto count = static_cast<long long>(sums[d]);
  if (count == 0) return;  // an empty cluster keeps its centroid
  dev_centroids[index] = exact_mean(static_cast<long long>(sums[index % d]), count, inverse_scale);
}

}  // namespace
