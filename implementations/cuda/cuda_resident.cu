// SPDX-License-Identifier: Apache-2.0
//
// Idea:      points never leave the chip: one persistent kernel runs all iterations, each block
//            holding its points and their labels in shared memory
// Parallel:  one block a multiprocessor, its threads own points; a single block where the work is
//            too little for more, and for a hundred points one whose warps each form all sums on
//            matrix units. Every block keeps all centroids and all sums of its own and divides
//            them itself, so that an iteration takes one barrier of the grid
// Memory:    column-major points in shared memory, read from memory once a call. Only points whose
//            label changed touch the sums: in shared memory, then one addition in the L2 cache for
//            each sum that a block changed
// Numerics:  labels by float32 distances, best and second best; where their gap is within the
//            rounding bound, by float64 as defined. Sums are 64-bit integers, so that neither the
//            order of additions nor adding only changes can alter a bit. Equals the reference bit
//            for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md
#include <algorithm>
#include <atomic>
#include <string>

#include "implementations/cuda/_dispatch.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_pinned.cuh"
#include "implementations/cuda/_resident_few.cuh"
#include "implementations/cuda/_resident_grid.cuh"
#include "implementations/cuda/tuning.h"

namespace {

using namespace kmeans::cuda;            // NOLINT: this backend's shared code
using namespace kmeans::cuda::resident;  // NOLINT

constexpr int kMaxDimensions = 32;

/// How a shape lies on the GPU.
struct Placement {
  int dimensions;  // the kernel's, at least d
  int blocks;
  int threads;
  int copies;
  bool few;  // points, for iterate_few_kernel
  std::int64_t held;
  std::int64_t shared_bytes;
};

constexpr int kDimensions[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

Placement placement_of(const kmeans::Shape& shape, int multiprocessors) {
  const auto [n, d, k, precision] = shape;
  Placement placement{};
  for (const int dimensions : kDimensions) {
    placement.dimensions = dimensions;
    if (dimensions >= d) break;
  }
  const bool few = n <= kFewPoints && d <= kFewDimensions && k <= kFewCentroids && k * d <= kLanes;
  const bool little =
      few || n * k <= tuning::kOperationsOfOneBlock / (2 * placement.dimensions + 6);
  const std::int64_t blocks =
      little ? 1 : std::clamp<std::int64_t>(n / tuning::kResidentPoints, 1, multiprocessors);
  placement.held = ceil_div(n, blocks);
  placement.blocks = static_cast<int>(ceil_div(n, placement.held));
  placement.threads = static_cast<int>(std::clamp<std::int64_t>(
      ceil_div(placement.held, kLanes) * kLanes, few ? kLanes : 128, kMaxThreads));
  const std::int64_t cells = k * (d + 1);
  placement.few = few;
  if (few) return placement;  // what it keeps in shared memory does not depend on the shape
  placement.copies = 1;
  while (placement.copies < 8 && 2 * placement.copies * cells <= tuning::kCopiedCells)
    placement.copies *= 2;
  placement.shared_bytes =
      SharedLayout<std::int64_t>(k, d, placement.dimensions, placement.copies, placement.held)
          .bytes;
  return placement;
}

using Kernel = void (*)(ResidentArguments);

/// Of several points a thread at a time where a block holds so many.
template <int D>
Kernel kernel_of(const Placement& placement) {
  constexpr int kPoints = D <= 4 ? 4 : D <= 8 ? 2 : 1;
  if constexpr (D <= kFewDimensions) {
    if (placement.few) return iterate_few_kernel<D>;
  }
  if (placement.held > placement.threads) return iterate_grid_kernel<D, kPoints>;
  return iterate_grid_kernel<D, 1>;
}

Kernel kernel_of(const Placement& placement) {
  return with_constant<1, 2, 3, 4, 6, 8, 12, 16, 24, 32>(
      placement.dimensions, [&](auto dimensions) { return kernel_of<dimensions>(placement); });
}

kmeans::Support fits_on_chip(const kmeans::Shape& shape) {
  if (shape.d > kMaxDimensions) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) + " exceeds " +
                               std::to_string(kMaxDimensions) +
                               " coordinates that a thread keeps in registers");
  }
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (gpu == nullptr) return kmeans::Support::yes();
  const Placement placement = placement_of(shape, gpu->multiprocessors);
  if (placement.shared_bytes <= gpu->shared_bytes_per_block) return kmeans::Support::yes();
  return kmeans::Support::no(
      "points, centroids and sums need " + std::to_string(placement.shared_bytes) +
      " bytes of shared memory on each of " + std::to_string(gpu->multiprocessors) +
      " multiprocessors, and there are " + std::to_string(gpu->shared_bytes_per_block));
}

class CudaResident final : public CudaLloyd<float> {
 public:
  CudaResident() : CudaLloyd<float>(Layout::columns) {}

  void step(std::int64_t iterations) override {
    const auto timed = stage("iterations");
    launch(iterations);
    if (!placement_.few || !is_done()) KMEANS_CUDA(cudaDeviceSynchronize());
  }

 private:
  void launch(std::int64_t iterations) {
    const auto [n, d, k, precision] = shape();
    const std::int64_t buffers = kChangeBuffers * (k * (d + 1) + 1);
    ResidentArguments args{
        .dev_points = dev_points_.data(),
        .n = n,
        .d = static_cast<int>(d),
        .k = static_cast<int>(k),
        .held = static_cast<int>(placement_.held),
        .copies = placement_.copies,
        .first = iterations_,  // whose buffer's turn it is, how many arrive
        .iterations = iterations,
        .scale = scale_,
        .inverse_scale = inverse_scale_,
        .dev_centroids = dev_centroids_.data(),
        .dev_labels = dev_labels_.data(),
        .dev_totals = dev_totals_.data(),
        .dev_changes = dev_exchange_.data(),
        .dev_arrivals = reinterpret_cast<unsigned*>(dev_exchange_.data() + buffers),
        .done = done_.data(),
        .turn = ++turn_};
    void* arguments[] = {&args};
    // Cooperative: all blocks run at once, or the launch fails; the barrier needs that.
    const auto kernel = reinterpret_cast<const void*>(kernel_of(placement_));
    const dim3 blocks(static_cast<unsigned>(placement_.blocks));
    const dim3 threads(static_cast<unsigned>(placement_.threads));
    const auto bytes = static_cast<std::size_t>(placement_.shared_bytes);
    KMEANS_CUDA(
        placement_.blocks == 1
            ? cudaLaunchKernel(kernel, blocks, threads, arguments, bytes, nullptr)
            : cudaLaunchCooperativeKernel(kernel, blocks, threads, arguments, bytes, nullptr));
    iterations_ += iterations;
  }

  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const int s = kmeans::exact::sum_exponent(n, problem_.max_abs);
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    placement_ = placement_of(shape(), kmeans::current_gpu()->multiprocessors);
    allow_shared_bytes(kernel_of(placement_), static_cast<std::size_t>(placement_.shared_bytes));
    if (placement_.few) {
      done_ = PinnedBuffer<unsigned>(1);
      *done_.data() = turn_;
    }
    dev_totals_ = DeviceBuffer<Integer>(k * (d + 1));
    dev_exchange_ = DeviceBuffer<Integer>(kChangeBuffers * (k * (d + 1) + 1) + 1);
  }

  void restart() override {
    dev_totals_.zero();
    dev_exchange_.zero();
  }

  void iterate() override { step(1); }
  void begin_iteration() override { launch(1); }

  /// Waits for what iterate_few_kernel says at its end, when labels and centroids are in memory: to
  /// synchronize takes as long as some iterations. False if it has not said it.
  [[nodiscard]] bool is_done() const {
    constexpr int kLooks = 4096;  // before the stream is asked
    const std::atomic_ref<unsigned> done(*done_.data());
    do {
      for (int look = 0; look < kLooks; ++look) {
        if (done.load(std::memory_order_acquire) == turn_) return true;
      }
    } while (cudaStreamQuery(nullptr) == cudaErrorNotReady);
    return false;
  }

  Placement placement_{};
  PinnedBuffer<unsigned> done_;
  unsigned turn_ = 0;
  double scale_ = 1;
  double inverse_scale_ = 1;
  DeviceBuffer<Integer> dev_totals_;
  DeviceBuffer<Integer> dev_exchange_;  // changes of three iterations, then the arrivals
};

}  // namespace

KMEANS_VARIANT(
    CudaResident, .name = "cuda_resident",
    .summary = "the exact step in one persistent kernel: points and labels stay in shared memory",
    .exact = true, .sums = Sums::wide, .supports = fits_on_chip,
    .device_bytes =
        [](const Shape& s) {
          return plain_device_bytes(s) +
                 32.0 * static_cast<double>(s.k) * (static_cast<double>(s.d) + 1);
        },
    .traffic =
        [](const Shape& s) {
          // Points, labels and centroids stay on the chip: what blocks exchange is all.
          const kmeans::GpuDevice* gpu = kmeans::current_gpu();
          const double blocks = gpu == nullptr ? 1 : placement_of(s, gpu->multiprocessors).blocks;
          const double cells = static_cast<double>(s.k) * (static_cast<double>(s.d) + 1) + 1;
          if (blocks == 1) return Traffic{};
          return Traffic{.read_bytes = 8 * cells * blocks,
                         .written_bytes = 8 * cells,
                         .atomic_bytes = 8 * cells * blocks};
        })
