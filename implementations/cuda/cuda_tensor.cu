// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
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
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_search.cuh"
#include "implementations/cuda/_tensor_copies.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kRowsOfProduct = 64;  // of a wgmma instruction
constexpr int kConsumers = 2;       // warp groups that multiply
constexpr int kGroupThreads = 128;  // of a warp group
constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
constexpr int kStageChunks = 8;  // chunks of all columns in a stage: 16 KB
constexpr int kStageBytes = kStageChunks * kChunk * kColumns * 2;
constexpr int kMaxStages = 8;
constexpr int kIndexBits = 6;  // of a key: which of a thread's columns of a tile
constexpr std::int64_t kBarrierBytes = 1024;

struct Best {
  float least;  // key of the nearest: a lower bound with the column in its last bits
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

/// M: products of 64 rows that a warp group has at once.
template <int M>
__global__ void __launch_bounds__(kThreads, 1)
    find_nearest_kernel(Extents s, const __half* __restrict__ dev_points,
                        const __half* __restrict__ dev_centroids,
                        const float2* __restrict__ dev_point_lengths,
                        const float2* __restrict__ dev_centroid_lengths,
                        std::int32_t* __restrict__ dev_nearest,
                        std::int32_t* __restrict__ dev_undecided,
                        TensorState* __restrict__ dev_state) {
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
          const auto stage_bytes =
              static_cast<unsigned>(count * kChunk * kColumns * sizeof(__half));
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
  float sums[M][64];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int e = 0; e < 64; ++e) sums[m][e] = 0;
  }
  for (std::int64_t tile = blockIdx.x; tile < s.point_tiles; tile += gridDim.x, ++round) {
    Best best[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      for (int row = 0; row < 2; ++row) best[m][row] = {INFINITY, INFINITY, 0};
    }
    barrier_wait(points_full, round & 1);
    for (int c = 0; c < s.centroid_tiles; ++c) {
      for (int step = 0; step < steps; ++step, ++used) {
        const int stage = static_cast<int>(used % s.stages);
        barrier_wait(&full[stage], static_cast<unsigned>(used / s.stages) & 1);
#pragma unroll
        for (int m = 0; m < M; ++m) pin(sums[m]);
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
#pragma unroll
        for (int m = 0; m < M; ++m) pin(sums[m]);
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
        const std::int64_t i =
            tile * s.tile_rows + (group * M + m) * kRowsOfProduct + warp * 16 + row * 8 + lane / 4;
        const bool writes = lane % 4 == 0 && i < s.n;
        const int column = static_cast<int>(__float_as_uint(own.least) & ((1U << kIndexBits) - 1));
        const int j = own.tile * kColumns + column / 2 * 8 + lane_of_best * 2 + column % 2;
        bool decided = false;
        if (writes && j < s.k && dev_state->too_far == 0) {
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
          if (lane == 0)
            place = atomicAdd(&dev_state->undecided, static_cast<unsigned long long>(__popc(open)));
          place = __shfl_sync(kAllLanes, place, 0) + __popc(open & ((1U << lane) - 1));
          if (writes && !decided) dev_undecided[place] = static_cast<std::int32_t>(i);
        }
      }
    }
  }
#else
  (void)s, (void)dev_points, (void)dev_centroids, (void)dev_point_lengths,
      (void)dev_centroid_lengths, (void)dev_nearest, (void)dev_undecided, (void)dev_state;
#endif
}

/// How a shape is cut up: twice 64 rows a warp group where shared memory holds them, else once.
struct Plan {
  int products = 0;  // 0: nothing fits
  int stages = 0;
  std::int64_t shared_bytes = 0;
};

Plan plan_for(std::int64_t d, std::int64_t shared_bytes) {
  for (const int products : {2, 1}) {
    const std::int64_t rows = products * kConsumers * kRowsOfProduct;
    const std::int64_t rest = shared_bytes - kBarrierBytes - rows * padded_for(d) * 2;
    const std::int64_t stages = std::min<std::int64_t>(kMaxStages, rest / kStageBytes);
    if (stages >= (products == 2 ? 3 : 2)) {
      return {products, static_cast<int>(stages), shared_bytes - rest + stages * kStageBytes};
    }
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
  if (plan_for(shape.d, gpu->shared_bytes_per_block).products == 0) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": a tile of points exceeds the shared memory of a block");
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
    plan_ = plan_for(d, gpu.shared_bytes_per_block);
    extents_ = {.n = n,
                .d = d,
                .k = k,
                .padded = static_cast<int>(padded_for(d)),
                .tile_rows = plan_.products * kConsumers * kRowsOfProduct,
                .point_tiles = 0,
                .centroid_tiles = static_cast<int>(ceil_div(k, kColumns)),
                .stages = plan_.stages};
    extents_.point_tiles = ceil_div(n, extents_.tile_rows);
    blocks_ =
        static_cast<unsigned>(std::min<std::int64_t>(gpu.multiprocessors, extents_.point_tiles));
    const int s = kmeans::exact::sum_exponent(n, problem_.max_abs);
    sum_scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    pitch_ = ceil_div(k, kSearchThreads) * kSearchThreads;
    dev_points_copy_ = DeviceBuffer<__half>(extents_.point_tiles * tile_halves(extents_));
    dev_centroids_copy_ =
        DeviceBuffer<__half>(std::int64_t{extents_.centroid_tiles} * kColumns * extents_.padded);
    dev_point_lengths_ = DeviceBuffer<float2>(n);
    dev_centroid_lengths_ = DeviceBuffer<float2>(2 * k);
    dev_mean_ = DeviceBuffer<float>(d);
    dev_columns_ = DeviceBuffer<float>(pitch_ * d);
    dev_nearest_ = DeviceBuffer<std::int32_t>(n);
    dev_undecided_ = DeviceBuffer<std::int32_t>(n);
    dev_state_ = DeviceBuffer<TensorState>(1);
    dev_sums_ = DeviceBuffer<Integer>(k * (d + 1));
    for (const void* kernel : {reinterpret_cast<const void*>(find_nearest_kernel<1>),
                               reinterpret_cast<const void*>(find_nearest_kernel<2>)}) {
      KMEANS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(plan_.shared_bytes)));
    }
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

  void restart() override { dev_sums_.zero(); }

  void iterate() override { KMEANS_CUDA(cudaGraphLaunch(iteration_, nullptr)); }

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
    const auto [n, d, k, precision] = shape();
    dev_state_.zero(stream);
    copy_centroids_kernel<<<blocks_for(std::int64_t{extents_.centroid_tiles} * kColumns * 32, 256),
                            256, 0, stream>>>(dev_centroids_.data(), extents_, dev_mean_.data(),
                                              copy_scale_, dev_centroids_copy_.data(),
                                              dev_centroid_lengths_.data(), dev_state_.data());
    KMEANS_CUDA_LAUNCHED(copy_centroids_kernel);
    transpose_centroids_kernel<<<blocks_for(pitch_ * d, 256), 256, 0, stream>>>(
        dev_centroids_.data(), k, d, pitch_, dev_columns_.data());
    KMEANS_CUDA_LAUNCHED(transpose_centroids_kernel);
    const auto kernel = plan_.products == 2 ? find_nearest_kernel<2> : find_nearest_kernel<1>;
    kernel<<<blocks_, kThreads, static_cast<std::size_t>(plan_.shared_bytes), stream>>>(
        extents_, dev_points_copy_.data(), dev_centroids_copy_.data(), dev_point_lengths_.data(),
        dev_centroid_lengths_.data(), dev_nearest_.data(), dev_undecided_.data(),
        dev_state_.data());
    KMEANS_CUDA_LAUNCHED(find_nearest_kernel);
    search_kernel<<<static_cast<unsigned>(4 * kmeans::current_gpu()->multiprocessors),
                    kSearchThreads, 0, stream>>>(
        dev_points_.data(), d, dev_columns_.data(), k, pitch_, filter_factor(static_cast<int>(d)),
        dev_state_.data(), dev_undecided_.data(), dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(search_kernel);
    move_points_kernel<<<blocks_for(n, 256), 256, 0, stream>>>(
        dev_points_.data(), n, d, dev_nearest_.data(), sum_scale_, dev_labels_.data(),
        dev_sums_.data());
    KMEANS_CUDA_LAUNCHED(move_points_kernel);
    divide_kernel<<<blocks_for(k * d, 256), 256, 0, stream>>>(dev_sums_.data(), inverse_scale_,
                                                              dev_centroids_.data(), k, d);
    KMEANS_CUDA_LAUNCHED(divide_kernel);
  }

  Plan plan_;
  Extents extents_{};
  unsigned blocks_ = 0;
  double copy_scale_ = 1;
  double sum_scale_ = 1;
  double inverse_scale_ = 1;
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
  DeviceBuffer<TensorState> dev_state_;
  DeviceBuffer<Integer> dev_sums_;  // k x (d + 1): fixed point, and the count
};

}  // namespace

KMEANS_VARIANT(
    CudaTensor, .name = "cuda_tensor",
    .summary =
        "the exact step: float16 tensor cores with a proven bound, then float32, then as defined",
    .exact = true, .sums = Sums::wide, .setup_note = "makes a centred float16 copy of the points",
    .supports = runs_on_hopper, .device_bytes = [](const Shape& s) {
      const double padded = 16.0 * std::ceil((static_cast<double>(s.d) + kExtra) / 16);
      const double n = static_cast<double>(s.n) + 256;
      const double k = static_cast<double>(s.k) + 256;
      return plain_device_bytes(s) + n * (2 * padded + 16) + k * (2 * padded + 12.0 * s.d + 24);
    })
