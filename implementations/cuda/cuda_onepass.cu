// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 80-virtual 90a-real
//
// Idea:      few centroids: a warp multiplies its points by all of them, labels them and adds those
//            that changed cluster to the block's sums, in one pass over a float16 copy of the
//            points (_onepass_pass.cuh). The same kernel then labels the block's undecided points
//            in float32 (_onepass_fallback.cuh): an iteration is two kernels
// Parallel:  a warp takes 32 points at a time, on matrix units: alone, or in a warp group (many
//            centroids, few coordinates, compute capability 9.0). It finds a row's least distance,
//            then counts those within the bound above it: one is the label, with more the point is
//            undecided (_onepass_candidates.cuh). The fallback compares four points a warp with all
//            centroids, a lane a centroid
// Memory:    a centred float16 copy of the points, laid out as the matrix instruction's registers;
//            all centroids and sums in shared memory (_onepass_plan.cuh). The float32 points are
//            read only where undecided or where the label changed
// Numerics:  products of float16 with a bound on all that they round; then float32 differences,
//            then float64 as defined. Sums are 64-bit integers. Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md
#include <algorithm>
#include <cmath>
#include <string>

#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_graph_lloyd.cuh"
#include "implementations/cuda/_onepass_copies.cuh"
#include "implementations/cuda/_onepass_pass.cuh"
#include "implementations/cuda/_onepass_plan.cuh"
#include "implementations/cuda/_shared_sums.cuh"

namespace {

using namespace kmeans::cuda;           // NOLINT: this backend's shared code
using namespace kmeans::cuda::onepass;  // NOLINT

kmeans::Support few_centroids(const kmeans::Shape& shape) {
  const auto [n, d, k, precision] = shape;
  if (d > kMaxSteps * kMmaDepth || k > kMaxCentroids) {
    return kmeans::Support::no("d = " + std::to_string(d) + ", k = " + std::to_string(k) +
                               ": registers and shared memory hold at most 128 coordinates of 256 "
                               "centroids");
  }
  const kmeans::GpuDevice* gpu = kmeans::current_gpu();
  if (gpu == nullptr) return kmeans::counts_fit(shape);
  if (gpu->major < 8) {
    return kmeans::Support::no(
        "its matrix instructions are those of compute capability 8.0 and newer; "
        "this is " +
        std::to_string(gpu->major) + "." + std::to_string(gpu->minor));
  }
  const std::int64_t bytes = SharedMap(plan_for(k, d, *gpu), k, d).bytes;
  if (bytes > gpu->shared_bytes_per_block) {
    return kmeans::Support::no("centroids and sums of d = " + std::to_string(d) +
                               ", k = " + std::to_string(k) + " take " + std::to_string(bytes) +
                               " bytes of shared memory; a block has " +
                               std::to_string(gpu->shared_bytes_per_block));
  }
  return kmeans::counts_fit(shape);
}

class CudaOnepass final : public GraphLloyd {
 public:
  CudaOnepass() : GraphLloyd(Layout::rows) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const int s = kmeans::exact::sum_exponent(problem_.whole_n(), problem_.max_abs);
    shared_ = SharedSums(problem_);
    frame_ = frame_of(dev_points_.data(), n, d, problem_.max_abs);
    plan_ = plan_for(k, d, *kmeans::current_gpu());
    const int columns = plan_.columns();
    const std::int64_t pairs = ceil_div(n, kGroupWarps * kPairRows) * kGroupWarps;
    dev_rows_ = DeviceBuffer<uint4>(pairs * 2 * plan_.steps * kLanes);
    dev_lengths_ = DeviceBuffer<uint4>(pairs * 8);
    dev_columns_ = DeviceBuffer<__half>(columns * plan_.column_bytes() / 2);
    dev_half_norms_ = DeviceBuffer<float>(columns);
    dev_margins_ = DeviceBuffer<float4>(columns);
    dev_transposed_ = DeviceBuffer<float>(d * centroids_of_lane(k) * kLanes);
    dev_sums_ = DeviceBuffer<Integer>(shared_.length());
    dev_undecided_ = DeviceBuffer<UndecidedPoint>(blocks() * plan_.points_of_block(n, blocks()));
    args_ = {.n = n,
             .d = static_cast<int>(d),
             .k = static_cast<int>(k),
             .chunks = plan_.chunks,
             .columns = columns,
             .wide = plan_.wide,
             .scale = kmeans::exact::power_of_two(s),
             .inverse_scale = kmeans::exact::power_of_two(-s),
             .copy_scale = frame_.scale,
             .bias = {},  // once the copy is made
             .factor = filter_factor(d),
             .dev_points = dev_points_.data(),
             .dev_mean = frame_.dev_mean.data(),
             .dev_rows = dev_rows_.data(),
             .dev_lengths = dev_lengths_.data(),
             .dev_centroids = dev_centroids_.data(),
             .dev_columns = dev_columns_.data(),
             .dev_half_norms = dev_half_norms_.data(),
             .dev_margins = dev_margins_.data(),
             .dev_transposed = dev_transposed_.data(),
             .dev_sums = dev_sums_.data(),
             .dev_labels = dev_labels_.data(),
             .dev_undecided = dev_undecided_.data()};
    const DeviceBuffer<unsigned> dev_largest(1);
    dev_largest.zero();
    copy_points_kernel<<<blocks_for(pairs * kPairRows * kLanesOfRow, 256), 256>>>(
        dev_points_.data(), n, args_.d, frame_.view(), plan_.steps, pairs * kPairRows,
        reinterpret_cast<__half*>(dev_rows_.data()),
        reinterpret_cast<__half2*>(dev_lengths_.data()), dev_largest.data());
    KMEANS_CUDA_LAUNCHED(copy_points_kernel);
    args_.bias = Bias::of(dev_largest);
    with_kernel(plan_, [&](auto kernel) { allow_shared_bytes(kernel, shared_bytes()); });
    record_iterations(FirstIteration::alike);
  }

  void restart() override {
    dev_sums_.zero();
    move_centroids(nullptr, nullptr);
  }

  void launch(bool /*first*/, cudaStream_t stream) override {
    {
      const auto timed = stage("assign and add");
      with_kernel(plan_, [&](auto kernel) {
        kernel<<<static_cast<unsigned>(blocks()), static_cast<unsigned>(plan_.threads()),
                 shared_bytes(), stream>>>(args_);
        KMEANS_CUDA_LAUNCHED(label_and_add_kernel);
      });
    }
    update_in_stages(
        shared_.shared(), [] {},
        [&] { return shared_.add_up(dev_sums_.data(), dev_centroids_.data(), stream); },
        [&](const Integer* dev_totals) { move_centroids(dev_totals, stream); });
  }

  /// dev_totals: sums and counts to divide, or null, and the centroids are copied as they are.
  void move_centroids(const Integer* dev_totals, cudaStream_t stream) {
    const int pitch = centroids_of_lane(args_.k) * kLanes;
    move_centroids_kernel<<<blocks_for(std::int64_t{std::max(args_.columns, pitch)} * kLanes, 256),
                            256, 0, stream>>>(args_, dev_totals, plan_.steps, pitch);
    KMEANS_CUDA_LAUNCHED(move_centroids_kernel);
  }

  /// A block for each multiprocessor.
  static std::int64_t blocks() { return kmeans::current_gpu()->multiprocessors; }

  [[nodiscard]] std::size_t shared_bytes() const {
    return static_cast<std::size_t>(SharedMap(plan_, args_.k, args_.d).bytes);
  }

  PassArguments args_{};
  LaunchPlan plan_{};
  CopyFrame frame_;
  SharedSums shared_;
  DeviceBuffer<uint4> dev_rows_;
  DeviceBuffer<uint4> dev_lengths_;
  DeviceBuffer<__half> dev_columns_;
  DeviceBuffer<float> dev_half_norms_;
  DeviceBuffer<float4> dev_margins_;
  DeviceBuffer<float> dev_transposed_;
  DeviceBuffer<Integer> dev_sums_;
  DeviceBuffer<UndecidedPoint> dev_undecided_;
};

}  // namespace

KMEANS_VARIANT(
    CudaOnepass, .name = "cuda_onepass",
    .summary =
        "the exact step for few centroids: matrix units label, and changes are summed, in one pass",
    .exact = true, .gpu_shards = true, .sums = Sums::wide,
    .setup_note = "makes a centred float16 copy of the points", .supports = few_centroids,
    .device_bytes = [](const Shape& s) {
      const double padded = 16.0 * std::ceil(static_cast<double>(s.d) / 16);
      // Rows of whole warp groups; columns of whole chunks, with a step for the norms.
      const double n = static_cast<double>(s.n) + kGroupWarps * kPairRows;
      const double k = static_cast<double>(s.k) + kWideTiles * kMmaColumns;
      // A block has room for as many undecided points as it labels in whole rounds.
      const kmeans::GpuDevice* gpu = kmeans::current_gpu();
      const double rounded = 512.0 * (gpu == nullptr ? 0 : gpu->multiprocessors);
      return plain_device_bytes(s) + n * (2 * padded + 12) + rounded * sizeof(UndecidedPoint) +
             k * (2 * (padded + kMmaDepth) + 8.0 * static_cast<double>(s.d) + 28);
    })
