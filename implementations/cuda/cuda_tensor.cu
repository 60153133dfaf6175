// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// Idea:      float16 tensor cores leave out what cannot be nearest, with a bound on everything they
//            round; a centroid that is nearer than all others by more than the bounds is the label,
//            and the few points without one are decided in float32, or as defined
// Parallel:  of a block two warps or four feed shared memory and four groups of four (two for many
//            coordinates) multiply 64 points each with all centroids, some reducing while others do
// Memory:    a centred float16 copy of the points, made in setup in the order in which wgmma reads
//            shared memory, so that a tile is one bulk copy; the centroids alike, every iteration.
//            The float32 points are read only where undecided or where the label changed
// Numerics:  the accumulator is a lower bound of half a squared distance (less ||x||^2 / 2): four
//            more columns hold half the centroid's squared norm and the bound's two products. Sums
//            are 64-bit integers. Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md
#include <cstdint>

#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_graph_lloyd.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_moves.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

class CudaTensor final : public GraphLloyd {
 public:
  CudaTensor() : GraphLloyd(Layout::rows) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const kmeans::GpuDevice& gpu = *kmeans::current_gpu();
    filter_ = HalfFilter(shape(), {.rows = n}, gpu);
    sums_ = MovingSums(problem_, n, gpu.multiprocessors);
    dev_points_copy_ = DeviceBuffer<__half>(filter_.copy_elements());
    dev_point_lengths_ = DeviceBuffer<float2>(n);
    dev_nearest_ = DeviceBuffer<std::int32_t>(n);
    frame_ = frame_of(dev_points_.data(), n, d, problem_.max_abs);
    filter_.copy_points(dev_points_.data(), frame_, dev_points_copy_, dev_point_lengths_);
    record_iterations(FirstIteration::alike);
  }

  void restart() override {
    sums_.restart();
    filter_.restart();
    move_centroids(nullptr, nullptr);
  }

  void launch(bool /*first*/, cudaStream_t stream) override {
    {
      const auto timed = stage("assign");
      filter_.find(rows(), dev_labels_.data(), dev_nearest_.data(), stream);
    }
    {
      const auto timed = stage("settle");
      filter_.decide_undecided(rows(), dev_points_.data(), dev_centroids_.data(),
                               dev_nearest_.data(), true, stream);
    }
    update_in_stages(
        sums_.shared(),
        [&] {
          sums_.move(dev_points_.data(), shape().n, dev_nearest_.data(), dev_labels_.data(),
                     stream);
        },
        [&] { return sums_.add_up(dev_centroids_.data(), stream); },
        [&](const Integer* dev_totals) { move_centroids(dev_totals, stream); });
  }

  /// dev_totals: sums and counts to divide, or null, and the centroids are copied as they are.
  void move_centroids(const Integer* dev_totals, cudaStream_t stream) {
    filter_.move_centroids(dev_totals, sums_.inverse_scale(), dev_centroids_.data(), frame_,
                           stream);
  }

  [[nodiscard]] HalfRows rows() const {
    return {.dev_copy = dev_points_copy_.data(), .dev_lengths = dev_point_lengths_.data()};
  }

  HalfFilter filter_;
  CopyFrame frame_;
  DeviceBuffer<__half> dev_points_copy_;
  DeviceBuffer<float2> dev_point_lengths_;
  DeviceBuffer<std::int32_t> dev_nearest_;
  MovingSums sums_;
};

}  // namespace

KMEANS_VARIANT(
    CudaTensor, .name = "cuda_tensor",
    .summary =
        "the exact step: float16 tensor cores with a proven bound, then float32, then as defined",
    .exact = true, .gpu_shards = true, .sums = Sums::wide,
    .setup_note = "makes a centred float16 copy of the points",
    .supports = [](const Shape& s) { return runs_on_hopper(s, {half_plan}); },
    .device_bytes =
        [](const Shape& s) {
          const auto padded = static_cast<double>(padded_for(s.d));
          const double n = static_cast<double>(s.n) + 256;
          return plain_device_bytes(s) + MovingSums::device_bytes(s) + n * (2 * padded + 12) +
                 half_filter_bytes(s, n);
        })
