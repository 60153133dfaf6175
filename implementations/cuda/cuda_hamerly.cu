// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// Idea:      Hamerly's bounds on matrix units: a point whose nearest centroid cannot have changed, by an upper
//            bound of its distance and a lower bound of all others' and by how far centroids moved, is left out;
//            the others are gathered and go through the passes of cuda_tensor, which leave new bounds
// Parallel:  the bounds a thread a point; the rest as cuda_tensor
// Memory:    two bounds and half a squared length for each point, next to the float16 copy; copies of undecided points
//            in rows of their own, unless they are most: then all go through
// Numerics:  bounds of true distances in the frame of the copies, in float32 rounded outwards; the product's
//            second-lowest bound is that of all other centroids. A point that float32 or float64 has to decide has
//            no bounds until the next iteration. Equals the reference bit for bit
// Source:    Hamerly 2010; docs/exact-step.md, docs/gpu-bounds.md
#include <cmath>
#include <cstdint>

#include "implementations/cuda/_append.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_graph_lloyd.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/tuning.h"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kTestThreads = 256;
constexpr int kTestPoints = 8;  // of a thread

/// What the kernels below pass to each other.
struct BoundState {
  unsigned long long undecided;  // points whose nearest centroid may have changed
  unsigned most;                 // bits of how far the farthest centroid moved
};

/// A warp a point: half its squared length in the frame of the copies, rounded down.
__global__ void half_squares_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                    std::int64_t d, const float* __restrict__ dev_mean,
                                    double scale, float* __restrict__ dev_half_squares) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (i >= n) return;
  double square = 0;
  for (std::int64_t t = threadIdx.x % 32; t < d; t += 32) {
    const double x = (static_cast<double>(dev_points[i * d + t]) - dev_mean[t]) * scale;
    square += x * x;
  }
  square = warp_sum(square);
  if (threadIdx.x % 32 == 0) dev_half_squares[i] = __double2float_rd(square / 2 * (1 - 0x1p-30));
}

/// Lists the points that the moves of centroids leave undecided, and moves all bounds.
__global__ void __launch_bounds__(kTestThreads)
    test_bounds_kernel(std::int64_t n, const std::int32_t* __restrict__ dev_labels,
                       const float* __restrict__ dev_moved, float* __restrict__ dev_upper,
                       float* __restrict__ dev_lower, std::int32_t* __restrict__ dev_list,
                       BoundState* __restrict__ dev_state) {
  __shared__ int of_block;
  __shared__ unsigned long long first_of_block;
  if (threadIdx.x == 0) of_block = 0;
  await_kernels_before();
  const float most = __uint_as_float(dev_state->most);
  const std::int64_t first = std::int64_t{blockIdx.x} * kTestThreads * kTestPoints + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned undecided[kTestPoints];  // of the warp's
  int of_warp = 0;
#pragma unroll
  for (int p = 0; p < kTestPoints; ++p) {
    const std::int64_t i = first + p * kTestThreads;
    bool keeps_label = true;
    if (i < n) {
      const float upper = __fadd_ru(dev_upper[i], dev_moved[dev_labels[i]]);
      const float lower = __fsub_rd(dev_lower[i], most);
      // Far more than float64's roundings in the definition.
      keeps_label = upper < __fmul_rd(lower, 1 - 0x1p-20F);
      dev_upper[i] = upper;
      dev_lower[i] = lower;
    }
    undecided[p] = __ballot_sync(kAllLanes, !keeps_label);
    of_warp += __popc(undecided[p]);
  }
  __syncthreads();
  const int before = append_entries(&of_block, of_warp);
  __syncthreads();
  if (threadIdx.x == 0) first_of_block = atomicAdd(&dev_state->undecided, of_block);
  __syncthreads();
  std::int32_t* own = dev_list + first_of_block + before;
#pragma unroll
  for (int p = 0; p < kTestPoints; ++p) {
    if ((undecided[p] >> lane & 1) != 0) {
      own[rank_in(undecided[p], lane)] = static_cast<std::int32_t>(first + p * kTestThreads);
    }
    own += __popc(undecided[p]);
  }
}

/// Their copies and lengths, as rows of their own; unless there are more than `gathered`.
__global__ void gather_undecided_kernel(Extents s, std::int64_t gathered,
                                        const __half* __restrict__ dev_copy,
                                        const float2* __restrict__ dev_lengths,
                                        const std::int32_t* __restrict__ dev_list,
                                        __half* __restrict__ dev_rows,
                                        float2* __restrict__ dev_rows_lengths,
                                        BoundState* __restrict__ dev_state) {
  await_kernels_before();
  if (blockIdx.x == 0 && threadIdx.x == 0) dev_state->most = 0;  // those before have read it
  const auto count = static_cast<std::int64_t>(dev_state->undecided);
  if (count > gathered) return;
  gather_rows(s, count, dev_copy, dev_list, dev_rows, [&](std::int64_t slot, std::int64_t point) {
    dev_rows_lengths[slot] = dev_lengths[point];
  });
}

/// A warp a centroid: how far it has moved, in the frame of the copies, rounded up, and the most of
/// these. dev_before follows.
__global__ void move_bounds_kernel(const float* __restrict__ dev_centroids, std::int64_t d,
                                   std::int64_t k, double scale, float* __restrict__ dev_before,
                                   float* __restrict__ dev_moved,
                                   BoundState* __restrict__ dev_state) {
  await_kernels_before();
  if (blockIdx.x == 0 && threadIdx.x == 0) dev_state->undecided = 0;  // those before have read it
  const std::int64_t j = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (j >= k) return;
  double square = 0;
  for (std::int64_t t = threadIdx.x % 32; t < d; t += 32) {
    const float now = dev_centroids[j * d + t];
    const double moved = (static_cast<double>(now) - dev_before[j * d + t]) * scale;
    square += moved * moved;
    dev_before[j * d + t] = now;
  }
  const float moved = __double2float_ru(sqrt(warp_sum(square)) * (1 + 0x1p-30));
  if (threadIdx.x % 32 != 0) return;
  dev_moved[j] = moved;
  const unsigned bits = __float_as_uint(moved);
  if (bits > __ldcg(&dev_state->most)) atomicMax(&dev_state->most, bits);
}

kmeans::Support supports_bounds(const kmeans::Shape& shape) {
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  const kmeans::Support takes = runs_on_hopper(shape, {half_plan_with_bounds});
  if (gpu != nullptr && takes.ok && half_plan_with_bounds(shape, *gpu).streams_points) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) +
                               ": a tile of points exceeds the shared memory of a block, and "
                               "those that stream leave no bounds (cuda_tensor takes them)");
  }
  return takes;
}

class CudaHamerly final : public GraphLloyd {
 public:
  CudaHamerly() : GraphLloyd(Layout::rows) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const kmeans::GpuDevice& gpu = *kmeans::current_gpu();
    filter_ = HalfFilter(shape(), {.rows = n, .keeps_bounds = true}, gpu);
    sums_ = MovingSums(problem_, n, gpu.multiprocessors);
    fill_ = static_cast<unsigned>(8 * gpu.multiprocessors);
    gathered_ = tuning::gathered_at_most(n);
    const Extents& extents = filter_.extents();
    dev_points_copy_ = DeviceBuffer<__half>(filter_.copy_elements());
    dev_point_lengths_ = DeviceBuffer<float2>(n);
    // Whole tiles, as many as a block takes at a time.
    dev_undecided_copy_ = DeviceBuffer<__half>(
        std::min(ceil_div(gathered_, kTileRows) + 4, extents.point_tiles) * tile_elements(extents));
    dev_undecided_copy_.zero();
    dev_undecided_lengths_ = DeviceBuffer<float2>(gathered_);
    dev_undecided_ = DeviceBuffer<std::int32_t>(n);
    dev_half_squares_ = DeviceBuffer<float>(n);
    dev_upper_ = DeviceBuffer<float>(n);
    dev_lower_ = DeviceBuffer<float>(n);
    dev_before_ = DeviceBuffer<float>(k * d);
    dev_moved_ = DeviceBuffer<float>(k);
    dev_nearest_ = DeviceBuffer<std::int32_t>(n);
    dev_bound_state_ = DeviceBuffer<BoundState>(1);
    make_copies();
    record_iterations(FirstIteration::recorded);
  }

  void make_copies() {
    const auto [n, d, k, precision] = shape();
    frame_ = frame_of(dev_points_.data(), n, d, problem_.max_abs);
    const Bias bias =
        filter_.copy_points(dev_points_.data(), frame_, dev_points_copy_, dev_point_lengths_);
    half_squares_kernel<<<blocks_for(n * 32, 256), 256>>>(
        dev_points_.data(), n, d, frame_.dev_mean.data(), frame_.scale, dev_half_squares_.data());
    KMEANS_CUDA_LAUNCHED(half_squares_kernel);
    filter_.set_kept({.dev_upper = dev_upper_.data(),
                      .dev_lower = dev_lower_.data(),
                      .dev_half_squares = dev_half_squares_.data(),
                      .added = bias.added});
  }

  void restart() override {
    sums_.restart();
    filter_.restart();
    dev_bound_state_.zero();
    KMEANS_CUDA(cudaMemcpyAsync(dev_before_.data(), dev_centroids_.data(), dev_before_.bytes(),
                                cudaMemcpyDeviceToDevice));
    filter_.move_centroids(nullptr, sums_.inverse_scale(), dev_centroids_.data(), frame_, nullptr);
  }

  void launch(bool first, cudaStream_t stream) override {
    const auto [n, d, k, precision] = shape();
    HalfRows all{.dev_copy = dev_points_copy_.data(), .dev_lengths = dev_point_lengths_.data()};
    if (!first) {
      const auto timed = stage("bounds");
      launch_early(test_bounds_kernel, blocks_for(n, kTestThreads * kTestPoints), kTestThreads, 0,
                   stream, n, dev_labels_.data(), dev_moved_.data(), dev_upper_.data(),
                   dev_lower_.data(), dev_undecided_.data(), dev_bound_state_.data());
      launch_early(gather_undecided_kernel, fill_, 256, 0, stream, filter_.extents(), gathered_,
                   dev_points_copy_.data(), dev_point_lengths_.data(), dev_undecided_.data(),
                   dev_undecided_copy_.data(), dev_undecided_lengths_.data(),
                   dev_bound_state_.data());
      all.dev_count = &dev_bound_state_.data()->undecided;
      all.gathered = gathered_;
    }
    {
      const auto timed = stage("assign");
      filter_.find(all, dev_labels_.data(), dev_nearest_.data(), stream);
      if (!first) {
        filter_.find({.dev_copy = dev_undecided_copy_.data(),
                      .dev_lengths = dev_undecided_lengths_.data(),
                      .dev_map = dev_undecided_.data(),
                      .dev_count = all.dev_count,
                      .gathered = gathered_},
                     dev_labels_.data(), dev_nearest_.data(), stream);
      }
    }
    {
      const auto timed = stage("settle");
      filter_.decide_undecided(all, dev_points_.data(), dev_centroids_.data(), dev_nearest_.data(),
                               true, stream);
    }
    const auto timed = stage("update");
    sums_.move(dev_points_.data(), n, dev_nearest_.data(), dev_labels_.data(), stream);
    filter_.move_centroids(sums_.add_up(dev_centroids_.data(), stream), sums_.inverse_scale(),
                           dev_centroids_.data(), frame_, stream);
    launch_early(move_bounds_kernel, blocks_for(k * 32, 256), 256, 0, stream, dev_centroids_.data(),
                 d, k, frame_.scale, dev_before_.data(), dev_moved_.data(),
                 dev_bound_state_.data());
  }

  HalfFilter filter_;
  unsigned fill_ = 0;          // blocks that occupy the GPU
  std::int64_t gathered_ = 0;  // points, at most
  CopyFrame frame_;
  DeviceBuffer<__half> dev_points_copy_;
  DeviceBuffer<float2> dev_point_lengths_;
  DeviceBuffer<__half> dev_undecided_copy_;
  DeviceBuffer<float2> dev_undecided_lengths_;
  DeviceBuffer<std::int32_t> dev_undecided_;
  DeviceBuffer<float> dev_half_squares_;
  DeviceBuffer<float> dev_upper_;
  DeviceBuffer<float> dev_lower_;
  DeviceBuffer<float> dev_before_;  // the centroids
  DeviceBuffer<float> dev_moved_;
  DeviceBuffer<std::int32_t> dev_nearest_;
  DeviceBuffer<BoundState> dev_bound_state_;
  MovingSums sums_;
};

}  // namespace

KMEANS_VARIANT(
    CudaHamerly, .name = "cuda_hamerly",
    .summary =
        "the exact step behind Hamerly's bounds: only points whose nearest centroid may "
        "have changed go to the tensor cores",
    .exact = true, .skips_work = true, .sums = Sums::wide,
    .setup_note = "makes a centred float16 copy of the points", .supports = supports_bounds,
    .device_bytes = [](const Shape& s) {
      const double row = 2 * static_cast<double>(padded_for(s.d)) + 8;
      const double n = static_cast<double>(s.n) + 256;
      return plain_device_bytes(s) + MovingSums::device_bytes(s) + n * (1.625 * row + 20) +
             4 * static_cast<double>(s.k) * (static_cast<double>(s.d) + 1) +
             half_filter_bytes(s, n);
    })
