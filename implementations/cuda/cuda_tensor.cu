// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// Idea:      float16 tensor cores leave out what cannot be nearest, with a bound on everything they
//            round; a centroid that is nearer than all others by more than the bounds is the label,
//            and the few points without one are decided in float32, or as defined
// Parallel:  a block of three warp groups goes over tiles of points: one feeds shared memory, two
//            multiply 64 x M points each with all centroids, one reducing while the other does
// Memory:    a centred float16 copy of the points, made in setup in the order in which wgmma reads
//            shared memory, so that a tile is one bulk copy; the centroids alike, every iteration.
//            The float32 points are read only where undecided or where the label changed
// Numerics:  the accumulator is a lower bound of half a squared distance (less ||x||^2 / 2): four
//            more columns hold half the centroid's squared norm and the bound's two products. Sums
//            are 64-bit integers. Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu.md
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_tensor_copies.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kRowsOfProduct = 64;  // of a wgmma instruction
constexpr int kConsumers = 2;       // warp groups that multiply
constexpr int kGroupThreads = 128;  // of a warp group
constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
constexpr int kStageChunks = 4;  // chunks of all columns in a stage: 8 KB
constexpr int kStageBytes = kStageChunks * kChunk * kColumns * 2;
constexpr int kMaxStages = 16;
constexpr int kMaxBuffers = 2;  // of points
constexpr int kIndexBits = 6;   // of a key: which of a thread's columns of a tile
constexpr std::int64_t kBarrierBytes = 1024;

struct Best {
  float least;  // key of the nearest: a lower bound with the column in its last bits
  float second;
  int tile;
};

/// `mask`: all bits but the last kIndexBits, from a register, so that one instruction does it.
__device__ inline float key_of(float bound, unsigned mask, int column) {
  unsigned key;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;"
      : "=r"(key)
      : "r"(__float_as_uint(bound)), "r"(mask), "r"(column));
  return __uint_as_float(key);
}

/// Two rows of a thread's sums of a tile: 16 groups of 8 columns, of which a thread has two.
__device__ inline void reduce_tile(const float (&sums)[64], int tile, Best (&best)[2]) {
  unsigned mask;
  asm("mov.b32 %0, %1;" : "=r"(mask) : "n"(~((1U << kIndexBits) - 1)));
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float before = best[row].least;
#pragma unroll
    for (int group = 0; group < 16; ++group) {
      const float a = key_of(sums[4 * group + 2 * row], mask, 2 * group);
      const float b = key_of(sums[4 * group + 2 * row + 1], mask, 2 * group + 1);
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

/// The first pass: the nearest centroid by its bound, and the points for which that may not be it.
template <int M>
struct FindNearest {
  const float2* __restrict__ dev_point_lengths;
  const float2* __restrict__ dev_centroid_lengths;
  std::int32_t* __restrict__ dev_nearest;
  std::int32_t* __restrict__ dev_undecided;
  float* __restrict__ dev_limits;  // of the undecided: what is above it is not the nearest
  TensorState* __restrict__ dev_state;

  Best best[M][2];
  float2 point;  // lengths of the row that is this lane's to judge
  bool bounded;  // every centroid has a bound

  __device__ std::int64_t tiles(const Extents& s) {
    bounded = dev_state->too_far == 0;
    return s.point_tiles;
  }

  /// Each of the four lanes that share 2 M rows judges some: its row, if it has one.
  __device__ static std::int64_t row_of_lane(std::int64_t first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return first_row + lane % 4 / 2 * kRowsOfProduct + lane % 2 * 8 + lane / 4;
  }

  __device__ void begin(const Extents& s, std::int64_t first_row) {
#pragma unroll
    for (int m = 0; m < M; ++m) best[m][0] = best[m][1] = {INFINITY, INFINITY, 0};
    const std::int64_t i = row_of_lane(first_row);
    point = threadIdx.x % 4 < 2 * M && i < s.n ? dev_point_lengths[i] : float2{0, 0};
  }

  __device__ void reduce(const Extents& /*s*/, const float (&sums)[64], int m, int tile) {
    reduce_tile(sums, tile, best[m]);
  }

  __device__ void end(const Extents& s, std::int64_t first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Best own{INFINITY, INFINITY, 0};
    int lane_of_best = 0;
#pragma unroll
    for (int row = 0; row < 2 * M; ++row) {
      Best shared = best[row / 2][row % 2];
      int from = 0;
      share_row(shared, from);
      const bool mine = lane % 4 == row;
      own.least = mine ? shared.least : own.least;
      own.second = mine ? shared.second : own.second;
      own.tile = mine ? shared.tile : own.tile;
      lane_of_best = mine ? from : lane_of_best;
    }
    const std::int64_t i = row_of_lane(first_row);
    const bool writes = lane % 4 < 2 * M && i < s.n;
    const int column = static_cast<int>(__float_as_uint(own.least) & ((1U << kIndexBits) - 1));
    const int j = own.tile * kColumns + column / 2 * 8 + lane_of_best * 2 + column % 2;
    float limit = INFINITY;
    bool decided = false;
    if (writes && j < s.k && bounded) {
      const float2 bound = dev_centroid_lengths[2 * j];
      const float norm = dev_centroid_lengths[2 * j + 1].x;
      const float cut = 0x1p-15F;  // what the column's bits may have changed, twice
      const float width = 2.0001F * (point.x * bound.x + point.y * bound.y) + norm;
      const float upper = own.least + cut * fabsf(own.least) + width;
      const float others = own.second - cut * fabsf(own.second);
      // The float64 definition's own rounding is 2^-40 of the squared lengths at most.
      limit = upper + 0x1p-30F * (point.x * point.x + bound.y * bound.y);
      decided = others > limit;
    }
    if (writes) dev_nearest[i] = j;
    const unsigned open = __ballot_sync(kAllLanes, writes && !decided);
    if (open == 0) return;
    unsigned long long place = 0;
    if (lane == 0)
      place = atomicAdd(&dev_state->undecided, static_cast<unsigned long long>(__popc(open)));
    place = __shfl_sync(kAllLanes, place, 0) + __popc(open & ((1U << lane) - 1));
    if (writes && !decided) {
      dev_undecided[place] = static_cast<std::int32_t>(i);
      dev_limits[place] = limit + 0x1p-20F * fabsf(limit);  // above the roundings here
    }
  }
};

/// The second pass, over the undecided points: all centroids whose bound is not above the limit.
template <int M>
struct ListCandidates {
  const float* __restrict__ dev_limits;
  const TensorState* __restrict__ dev_state;
  std::int64_t listed;  // undecided points that have a list
  std::int32_t* __restrict__ dev_candidate_counts;
  std::int32_t* __restrict__ dev_candidates;

  float limits[M][2];
  std::int64_t rows[M];

  __device__ std::int64_t count() const {
    return min(static_cast<std::int64_t>(dev_state->undecided), listed);
  }
  __device__ std::int64_t tiles(const Extents& s) const {
    return dev_state->too_far != 0 ? 0 : (count() + s.tile_rows - 1) / s.tile_rows;
  }

  __device__ void begin(const Extents& /*s*/, std::int64_t first_row) {
    const std::int64_t end = count();
#pragma unroll
    for (int m = 0; m < M; ++m) {
      rows[m] = first_row + m * kRowsOfProduct + threadIdx.x % 32 / 4;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const std::int64_t slot = rows[m] + row * 8;
        limits[m][row] = slot < end ? dev_limits[slot] : -INFINITY;
      }
    }
  }

  __device__ void reduce(const Extents& s, const float (&sums)[64], int m, int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int e = 0; e < 64; ++e) {
      if (!(sums[e] <= limits[m][e / 2 % 2])) continue;
      const int j = first + e / 4 * 8 + e % 2;
      if (j >= s.k) continue;
      const std::int64_t slot = rows[m] + e / 2 % 2 * 8;
      const std::int32_t place = atomicAdd(&dev_candidate_counts[slot], 1);
      if (place < kMaxCandidates) dev_candidates[slot * kMaxCandidates + place] = j;
    }
  }

  __device__ void end(const Extents& /*s*/, std::int64_t /*first_row*/) {}
};

/// A place in a ring of shared memory, and the parity of the barrier's phase there.
struct Place {
  int index = 0;
  unsigned parity = 0;
  __device__ void advance(int size) {
    if (++index == size) index = 0, parity ^= 1;
  }
};

/// A stage of kSteps times sixteen columns. One block of code, without a branch: else the compiler
/// waits for every product.
template <int M, int kSteps>
__device__ __forceinline__ void multiply_stage(float (&sums)[M][64], const __half* rows,
                                               const __half* columns, int tile_rows, bool add) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
      multiply(
          sums[m],
          descriptor(rows + 2 * step * kChunk * tile_rows + m * kRowsOfProduct * kChunk, tile_rows),
          descriptor(columns + 2 * step * kChunk * kColumns, kColumns), add || step > 0);
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// All points, or the undecided ones, times all centroids; M: products of 64 rows that a warp group
/// has at once; Pass: what becomes of them.
template <int M, class Pass>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_kernel(Extents s, const __half* __restrict__ dev_points,
                    const __half* __restrict__ dev_centroids, Pass pass) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) unsigned char memory[];
  auto* full = reinterpret_cast<std::uint64_t*>(memory);  // per stage
  auto* empty = full + kMaxStages;
  auto* points_full = empty + kMaxStages;  // per buffer of points
  auto* points_empty = points_full + kMaxBuffers;
  auto* buffers = reinterpret_cast<__half*>(memory + kBarrierBytes);
  auto* stages = buffers + s.point_buffers * tile_halves(s);
  constexpr int kStageHalves = kStageChunks * kChunk * kColumns;
  const int chunks = s.padded / kChunk;
  const int steps = (chunks + kStageChunks - 1) / kStageChunks;  // stages of a tile of centroids
  const int whole_steps = chunks / kStageChunks;
  const std::int64_t tiles = pass.tiles(s);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < s.stages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], kConsumers);
    }
    for (int buffer = 0; buffer < s.point_buffers; ++buffer) {
      barrier_init(&points_full[buffer], 1);
      barrier_init(&points_empty[buffer], kConsumers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  // From a shuffle, so that the compiler knows it to be the same in all lanes.
  const int group = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kGroupThreads, 0);
  if (group == kConsumers) {  // feeds
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % kGroupThreads != 0) return;
    // A barrier that nobody has arrived at yet counts as past its phase of odd parity.
    Place stage{.index = 0, .parity = 1};
    Place buffer{.index = 0, .parity = 1};
    const auto feed_points = [&](std::int64_t tile) {
      if (tile >= tiles) return;
      barrier_wait(&points_empty[buffer.index], buffer.parity);
      const auto bytes = static_cast<unsigned>(tile_halves(s) * sizeof(__half));
      barrier_expect(&points_full[buffer.index], bytes);
      copy_bulk(buffers + buffer.index * tile_halves(s), dev_points + tile * tile_halves(s), bytes,
                &points_full[buffer.index]);
      buffer.advance(s.point_buffers);
    };
    const std::int64_t ahead = (s.point_buffers - 1) * std::int64_t{gridDim.x};
    if (ahead > 0) feed_points(blockIdx.x);
    for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      feed_points(tile + ahead);
      const __half* source = dev_centroids;
      for (int c = 0; c < s.centroid_tiles; ++c) {
        for (int first = 0; first < chunks; first += kStageChunks) {
          barrier_wait(&empty[stage.index], stage.parity);
          const int halves = min(kStageChunks, chunks - first) * kChunk * kColumns;
          const auto bytes = static_cast<unsigned>(halves * sizeof(__half));
          barrier_expect(&full[stage.index], bytes);
          copy_bulk(stages + stage.index * kStageHalves, source, bytes, &full[stage.index]);
          source += halves;
          stage.advance(s.stages);
        }
      }
    }
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const bool speaks = threadIdx.x % kGroupThreads == 0;
  Place stage;
  Place buffer;
  bool waits = s.takes_turns && group > 0;
  float sums[M][64];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int e = 0; e < 64; ++e) sums[m][e] = 0;
  }
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t first_row =
        tile * s.tile_rows + std::int64_t{group} * M * kRowsOfProduct + warp * 16;
    pass.begin(s, first_row);
    const int stage_rows = kStageChunks * kChunk * s.tile_rows;
    const __half* rows =
        buffers + buffer.index * tile_halves(s) + group * M * kRowsOfProduct * kChunk;
    barrier_wait(&points_full[buffer.index], buffer.parity);
    for (int c = 0; c < s.centroid_tiles; ++c) {
      // In turn: while one group's products run, the other reduces its own.
      if (waits) turn_wait(group);
      waits = s.takes_turns;
      int before = 0;
#pragma unroll
      for (int m = 0; m < M; ++m) pin(sums[m]);
      for (int step = 0; step < whole_steps; ++step) {
        barrier_wait(&full[stage.index], stage.parity);
        multiply_stage<M, kStageChunks / 2>(sums, rows + step * stage_rows,
                                            stages + stage.index * kStageHalves, s.tile_rows,
                                            step > 0);
        // The stage before has been read; this one's products stay under way.
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (step > 0 && speaks) barrier_arrive(&empty[before]);
        before = stage.index;
        stage.advance(s.stages);
      }
      if (whole_steps < steps) {  // sixteen columns more
        barrier_wait(&full[stage.index], stage.parity);
        multiply_stage<M, 1>(sums, rows + whole_steps * stage_rows,
                             stages + stage.index * kStageHalves, s.tile_rows, whole_steps > 0);
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (whole_steps > 0 && speaks) barrier_arrive(&empty[before]);
        before = stage.index;
        stage.advance(s.stages);
      }
      const bool last_turn = c + 1 == s.centroid_tiles && tile + gridDim.x >= tiles;
      if (s.takes_turns && (group == 0 || !last_turn)) turn_pass(1 - group);
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int m = 0; m < M; ++m) pin(sums[m]);
      if (speaks) barrier_arrive(&empty[before]);
#pragma unroll
      for (int m = 0; m < M; ++m) pass.reduce(s, sums[m], m, c);
    }
    if (speaks) barrier_arrive(&points_empty[buffer.index]);
    buffer.advance(s.point_buffers);
    pass.end(s, first_row);
  }
#else
  (void)s, (void)dev_points, (void)dev_centroids, (void)pass;
#endif
}

/// Undecided points' rows of the copy, as tiles of their own, a thread 16 bytes; their lists are
/// empty.
__global__ void gather_rows_kernel(Extents from, Extents to, std::int64_t listed,
                                   const __half* __restrict__ dev_points_copy,
                                   const std::int32_t* __restrict__ dev_undecided,
                                   const TensorState* __restrict__ dev_state,
                                   __half* __restrict__ dev_rows,
                                   std::int32_t* __restrict__ dev_candidate_counts) {
  const std::int64_t pieces = std::int64_t{from.padded} / kChunk * to.tile_rows;  // of a tile
  const std::int64_t count = min(static_cast<std::int64_t>(dev_state->undecided), listed);
  const std::int64_t end = (count + to.tile_rows - 1) / to.tile_rows * pieces;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < end;
       index += stride) {
    const auto piece = static_cast<int>(index % pieces);
    const int row = piece % to.tile_rows;  // neighbours: many of them are from one tile
    const int column = piece / to.tile_rows * kChunk;
    const std::int64_t slot = index / pieces * to.tile_rows + row;
    if (slot >= count) continue;
    const std::int64_t i = dev_undecided[slot];
    const __half* source =
        dev_points_copy + i / from.tile_rows * tile_halves(from) +
        place_in_tile(from.tile_rows, static_cast<int>(i % from.tile_rows), column);
    *reinterpret_cast<uint4*>(dev_rows + index * kChunk) = *reinterpret_cast<const uint4*>(source);
    if (column == 0) dev_candidate_counts[slot] = 0;
  }
}

/// How a shape is cut up.
struct Plan {
  int products = 0;  // of 64 rows that a warp group has at once; 0: nothing fits
  int buffers = 0;   // of points
  int stages = 0;
  std::size_t shared_bytes = 0;
};

Plan plan_for(std::int64_t d, std::int64_t k, std::int64_t shared_bytes) {
  // More points at once read the centroids less often; a second buffer loads while the first is
  // worked on, which counts where a tile of points is soon done.
  const bool few = k <= 2 * kColumns;
  struct Choice {
    int products, buffers, stages;
  };
  const Choice many_centroids[] = {{2, 2, 6}, {2, 1, 6}, {1, 2, 6}, {1, 1, 3}};
  const Choice few_centroids[] = {{2, 2, 6}, {1, 2, 6}, {2, 1, 6}, {1, 1, 3}};
  for (const Choice& choice : few ? few_centroids : many_centroids) {
    const std::int64_t rows = choice.products * kConsumers * kRowsOfProduct;
    const std::int64_t rest =
        shared_bytes - kBarrierBytes - choice.buffers * rows * padded_for(d) * 2;
    const std::int64_t stages = std::min<std::int64_t>(kMaxStages, rest / kStageBytes);
    if (stages < choice.stages) continue;
    return {choice.products, choice.buffers, static_cast<int>(stages),
            static_cast<std::size_t>(shared_bytes - rest + stages * kStageBytes)};
  }
  return {};
}

kmeans::Support runs_on_hopper(const kmeans::Shape& shape) {
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (gpu == nullptr) return counts_fit(shape);
  if (gpu->major != 9 || gpu->minor != 0) {
    return kmeans::Support::no(
        "its matrix instructions are those of compute capability 9.0; this is " +
        std::to_string(gpu->major) + "." + std::to_string(gpu->minor));
  }
  if (plan_for(shape.d, shape.k, gpu->shared_bytes_per_block).products == 0) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": a tile of points exceeds the shared memory of a block");
  }
  if (shape.n >= std::int64_t{1} << 30) {
    return kmeans::Support::no(
        "n = " + std::to_string(shape.n) +
        " points: their moves between clusters are counted in 32 bits, two a "
        "point, so at most 1073741823");
  }
  return counts_fit(shape);
}

class CudaTensor final : public CudaLloyd<float> {
 public:
  CudaTensor() : CudaLloyd<float>(Layout::rows) {}
  ~CudaTensor() override {
    if (iteration_ != nullptr) (void)cudaGraphExecDestroy(iteration_);
  }

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const kmeans::GpuDevice& gpu = *kmeans::current_gpu();
    plan_ = plan_for(d, k, gpu.shared_bytes_per_block);
    extents_ = {.n = n,
                .d = d,
                .k = k,
                .padded = static_cast<int>(padded_for(d)),
                .tile_rows = plan_.products * kConsumers * kRowsOfProduct,
                .point_tiles = 0,
                .centroid_tiles = static_cast<int>(ceil_div(k, kColumns)),
                .point_buffers = plan_.buffers,
                .stages = plan_.stages,
                .takes_turns = plan_.stages >= 2 * ceil_div(padded_for(d), kStageChunks * kChunk)};
    extents_.point_tiles = ceil_div(n, extents_.tile_rows);
    blocks_ =
        static_cast<unsigned>(std::min<std::int64_t>(gpu.multiprocessors, extents_.point_tiles));
    listed_ = std::max<std::int64_t>(std::min<std::int64_t>(n, 4096), n / 8);
    open_extents_ = extents_;
    open_extents_.tile_rows = kConsumers * kRowsOfProduct;
    open_extents_.n = listed_;
    open_extents_.point_tiles = ceil_div(listed_, open_extents_.tile_rows);
    pitch_ = ceil_div(k, kSearchThreads) * kSearchThreads;
    sums_ = MovingSums(problem_, n, gpu.multiprocessors);
    dev_points_copy_ = DeviceBuffer<__half>(extents_.point_tiles * tile_halves(extents_));
    dev_rows_ = DeviceBuffer<__half>(open_extents_.point_tiles * tile_halves(open_extents_));
    dev_rows_.zero();
    dev_centroids_copy_ =
        DeviceBuffer<__half>(std::int64_t{extents_.centroid_tiles} * kColumns * extents_.padded);
    dev_point_lengths_ = DeviceBuffer<float2>(n);
    dev_centroid_lengths_ = DeviceBuffer<float2>(2 * k);
    dev_mean_ = DeviceBuffer<float>(d);
    dev_columns_ = DeviceBuffer<float>(pitch_ * d);
    dev_nearest_ = DeviceBuffer<std::int32_t>(n);
    dev_undecided_ = DeviceBuffer<std::int32_t>(n);
    dev_crowded_ = DeviceBuffer<std::int32_t>(n);
    dev_limits_ = DeviceBuffer<float>(n);
    dev_candidate_counts_ = DeviceBuffer<std::int32_t>(listed_);
    dev_candidates_ = DeviceBuffer<std::int32_t>(listed_ * kMaxCandidates);
    dev_state_ = DeviceBuffer<TensorState>(1);
    allow_shared_bytes(multiply_kernel<1, FindNearest<1>>, plan_.shared_bytes);
    allow_shared_bytes(multiply_kernel<2, FindNearest<2>>, plan_.shared_bytes);
    allow_shared_bytes(multiply_kernel<1, ListCandidates<1>>, plan_.shared_bytes);
    copy_points();
    record_iteration();
  }

  void copy_points() {
    const auto [n, d, k, precision] = shape();
    DeviceBuffer<double> dev_column_sums(d);
    DeviceBuffer<unsigned> dev_reach(1);
    dev_column_sums.zero();
    dev_reach.zero();
    const dim3 columns(static_cast<unsigned>(ceil_div(d, 32)), 512);
    add_columns_kernel<<<columns, 32>>>(dev_points_.data(), n, d, dev_column_sums.data());
    KMEANS_CUDA_LAUNCHED(add_columns_kernel);
    find_reach_kernel<<<columns, 32>>>(dev_points_.data(), n, d, dev_column_sums.data(),
                                       dev_mean_.data(), dev_reach.data());
    KMEANS_CUDA_LAUNCHED(find_reach_kernel);
    unsigned bits = 0;
    dev_reach.download(&bits);
    float reach = 0;
    std::memcpy(&reach, &bits, sizeof(reach));
    // No point is further than 64 from the origin in the copies' frame.
    const double farthest = static_cast<double>(reach) * std::sqrt(static_cast<double>(d));
    copy_scale_ = farthest > 0 ? std::ldexp(1.0, 5 - std::ilogb(farthest)) : 1.0;
    copy_points_kernel<<<blocks_for(extents_.point_tiles * extents_.tile_rows * 32, 256), 256>>>(
        dev_points_.data(), extents_, dev_mean_.data(), copy_scale_, dev_points_copy_.data(),
        dev_point_lengths_.data());
    KMEANS_CUDA_LAUNCHED(copy_points_kernel);
  }

  void restart() override { sums_.restart(); }

  void iterate() override {
    if (profiled()) {
      launch(nullptr);
    } else {
      KMEANS_CUDA(cudaGraphLaunch(iteration_, nullptr));
    }
  }

  /// The kernels of an iteration as one graph: their launches cost a microsecond each, not four.
  void record_iteration() {
    cudaStream_t stream = nullptr;
    KMEANS_CUDA(cudaDeviceSynchronize());
    KMEANS_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    KMEANS_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launch(stream);
    cudaGraph_t graph = nullptr;
    KMEANS_CUDA(cudaStreamEndCapture(stream, &graph));
    KMEANS_CUDA(cudaGraphInstantiate(&iteration_, graph, 0));
    KMEANS_CUDA(cudaGraphDestroy(graph));
    KMEANS_CUDA(cudaStreamDestroy(stream));
  }

  void launch(cudaStream_t stream) {
    {
      const auto timed = stage("copy centroids");
      dev_state_.zero(stream);
      copy_centroids_kernel<<<
          blocks_for(std::int64_t{extents_.centroid_tiles} * kColumns * 32, 256), 256, 0, stream>>>(
          dev_centroids_.data(), extents_, dev_mean_.data(), copy_scale_,
          dev_centroids_copy_.data(), dev_centroid_lengths_.data(), dev_state_.data());
      KMEANS_CUDA_LAUNCHED(copy_centroids_kernel);
    }
    {
      const auto timed = stage("assign");
      if (plan_.products == 2) {
        find_nearest<2>(stream);
      } else {
        find_nearest<1>(stream);
      }
    }
    {
      const auto timed = stage("settle");
      settle(stream);
    }
    {
      const auto timed = stage("update");
      sums_.move(dev_points_.data(), shape().n, dev_nearest_.data(), dev_labels_.data(), stream);
      if (!sums_.shared()) sums_.divide(dev_centroids_.data(), stream);
    }
    if (!sums_.shared()) return;
    const auto timed = stage("communication");
    sums_.exchange(dev_centroids_.data(), stream);
  }

  template <int M>
  void find_nearest(cudaStream_t stream) {
    const FindNearest<M> pass{.dev_point_lengths = dev_point_lengths_.data(),
                              .dev_centroid_lengths = dev_centroid_lengths_.data(),
                              .dev_nearest = dev_nearest_.data(),
                              .dev_undecided = dev_undecided_.data(),
                              .dev_limits = dev_limits_.data(),
                              .dev_state = dev_state_.data(),
                              .best = {},
                              .point = {},
                              .bounded = true};
    multiply_kernel<M, FindNearest<M>><<<blocks_, kThreads, plan_.shared_bytes, stream>>>(
        extents_, dev_points_copy_.data(), dev_centroids_copy_.data(), pass);
    KMEANS_CUDA_LAUNCHED(multiply_kernel);
  }

  /// The points that find_nearest left undecided.
  void settle(cudaStream_t stream) {
    const auto [n, d, k, precision] = shape();
    const auto fill = static_cast<unsigned>(4 * kmeans::current_gpu()->multiprocessors);
    gather_rows_kernel<<<fill, 256, 0, stream>>>(
        extents_, open_extents_, listed_, dev_points_copy_.data(), dev_undecided_.data(),
        dev_state_.data(), dev_rows_.data(), dev_candidate_counts_.data());
    KMEANS_CUDA_LAUNCHED(gather_rows_kernel);
    const ListCandidates<1> pass{.dev_limits = dev_limits_.data(),
                                 .dev_state = dev_state_.data(),
                                 .listed = listed_,
                                 .dev_candidate_counts = dev_candidate_counts_.data(),
                                 .dev_candidates = dev_candidates_.data(),
                                 .limits = {},
                                 .rows = {}};
    multiply_kernel<1, ListCandidates<1>><<<blocks_, kThreads, plan_.shared_bytes, stream>>>(
        open_extents_, dev_rows_.data(), dev_centroids_copy_.data(), pass);
    KMEANS_CUDA_LAUNCHED(multiply_kernel);
    const float factor = filter_factor(static_cast<int>(d));
    decide_kernel<<<2 * fill, 256, 0, stream>>>(
        dev_points_.data(), dev_centroids_.data(), d, factor, listed_, dev_undecided_.data(),
        dev_candidate_counts_.data(), dev_candidates_.data(), dev_nearest_.data(),
        dev_crowded_.data(), dev_state_.data());
    KMEANS_CUDA_LAUNCHED(decide_kernel);
    transpose_centroids_kernel<<<fill, 256, 0, stream>>>(dev_centroids_.data(), k, d, pitch_,
                                                         dev_state_.data(), dev_columns_.data());
    KMEANS_CUDA_LAUNCHED(transpose_centroids_kernel);
    search_kernel<<<fill, kSearchThreads, 0, stream>>>(dev_points_.data(), d, dev_columns_.data(),
                                                       k, pitch_, factor, dev_state_.data(),
                                                       dev_crowded_.data(), dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(search_kernel);
  }

  Plan plan_;
  Extents extents_{};
  Extents open_extents_{};   // of the undecided points' rows
  std::int64_t listed_ = 0;  // undecided points that may have a list
  unsigned blocks_ = 0;
  double copy_scale_ = 1;
  std::int64_t pitch_ = 0;
  cudaGraphExec_t iteration_ = nullptr;
  DeviceBuffer<__half> dev_points_copy_;
  DeviceBuffer<__half> dev_centroids_copy_;
  DeviceBuffer<float2> dev_point_lengths_;
  DeviceBuffer<float2> dev_centroid_lengths_;
  DeviceBuffer<float> dev_mean_;
  DeviceBuffer<float> dev_columns_;  // the centroids, column-major, pitch_ of them
  DeviceBuffer<std::int32_t> dev_nearest_;
  DeviceBuffer<std::int32_t> dev_undecided_;
  DeviceBuffer<std::int32_t> dev_crowded_;
  DeviceBuffer<float> dev_limits_;
  DeviceBuffer<__half> dev_rows_;  // of the undecided points
  DeviceBuffer<std::int32_t> dev_candidate_counts_;
  DeviceBuffer<std::int32_t> dev_candidates_;
  DeviceBuffer<TensorState> dev_state_;
  MovingSums sums_;
};

}  // namespace

KMEANS_VARIANT(
    CudaTensor, .name = "cuda_tensor",
    .summary =
        "the exact step: float16 tensor cores with a proven bound, then float32, then as defined",
    .exact = true, .gpu_shards = true, .sums = Sums::wide,
    .setup_note = "makes a centred float16 copy of the points", .supports = runs_on_hopper,
    .device_bytes = [](const Shape& s) {
      const double padded = 16.0 * std::ceil((static_cast<double>(s.d) + kExtra) / 16);
      const double n = static_cast<double>(s.n) + 256;
      const double k = static_cast<double>(s.k) + 256;
      const double open = n / 8 + 4096;
      return plain_device_bytes(s) + MovingSums::device_bytes(s) + n * (2 * padded + 24) +
             open * (2 * padded + 4 * kMaxCandidates + 4) + k * (2 * padded + 4.0 * s.d + 24);
    })
