// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// Idea:      products of bytes, at twice the rate of float16 and exact, leave out what cannot be nearest, with a
//            bound on what the bytes lack; the few centroids that stay are decided in float32, or as defined
// Parallel:  as cuda_tensor: of a block two warps feed shared memory and four groups of four (two for many
//            coordinates) multiply 64 points each with all centroids
// Memory:    a centred copy of the points in bytes, made in setup; of the centroids, in the order of their largest
//            coordinates, every iteration: the 128 of a tile share a step. What may be nearest is written down
//            while products go on, a list a lane
// Numerics:  the integer accumulator is a lower bound of half a squared distance (less ||x||^2 / 2), in the tile's
//            unit: more columns hold the norm and the bound's two products. Sums are 64-bit integers. Equals the
//            reference bit for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "implementations/cuda/_byte_copies.cuh"
#include "implementations/cuda/_byte_find.cuh"
#include "implementations/cuda/_byte_lists.cuh"
#include "implementations/cuda/_byte_steps.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_graph_lloyd.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/tuning.h"

namespace {

using namespace kmeans::cuda;         // NOLINT: this backend's shared code
using namespace kmeans::cuda::bytes;  // NOLINT

Plan byte_plan(const kmeans::Shape& shape, const kmeans::GpuDevice& gpu) {
  return plan_for<Byte>({.padded = padded_bytes_for(shape.d),
                         .k = shape.k,
                         .shared_bytes = gpu.shared_bytes_per_block});
}

/// Points that are left to float16, at a time: their copies take no more memory than those of all
/// points in bytes.
std::int64_t others_at_a_time(std::int64_t n) {
  return std::max<std::int64_t>(std::min<std::int64_t>(n, 4096), ceil_div(n, 2));
}

class CudaInt8 final : public GraphLloyd {
 public:
  CudaInt8() : GraphLloyd(Layout::rows) {}

 private:
  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const kmeans::GpuDevice& gpu = *kmeans::current_gpu();
    plan_ = byte_plan(shape(), gpu);
    extents_ = extents_of(shape(), plan_, padded_bytes_for(d));
    blocks_ = static_cast<unsigned>(
        std::min<std::int64_t>(gpu.multiprocessors, extents_.point_tiles / plan_.groups));
    others_ = others_at_a_time(n);
    filter_ = HalfFilter(shape(), {.rows = others_, .mapped = true}, gpu);
    const std::int64_t places = std::int64_t{extents_.centroid_tiles} * kColumns;
    sums_ = MovingSums(problem_, n, gpu.multiprocessors);
    dev_points_copy_ = DeviceBuffer<Byte>(extents_.point_tiles * tile_elements(extents_));
    dev_centroids_copy_ = DeviceBuffer<Byte>(places * extents_.padded);
    dev_point_lengths_ = DeviceBuffer<float2>(n);
    dev_reaches_ = DeviceBuffer<float>(k);
    dev_order_ = DeviceBuffer<std::int32_t>(k);
    dev_places_ = DeviceBuffer<std::int32_t>(k);
    dev_widths_ = DeviceBuffer<float4>(places);
    dev_units_ = DeviceBuffer<float2>(extents_.centroid_tiles);
    dev_found_ =
        DeviceBuffer<std::int32_t>(std::int64_t{blocks_} * kFound * 2 * threads_for(plan_.groups));
    dev_nearest_ = DeviceBuffer<std::int32_t>(n);
    dev_others_ = DeviceBuffer<std::int32_t>(n);
    dev_others_copy_ = DeviceBuffer<__half>(filter_.copy_elements());
    dev_others_copy_.zero();
    dev_others_lengths_ = DeviceBuffer<float2>(others_);
    dev_pairs_ = DeviceBuffer<Pair>(n);
    dev_lists_ = DeviceBuffer<Listed>(n);
    dev_listed_ = DeviceBuffer<std::int32_t>(tuning::kListedAPoint * n);
    dev_state_ = DeviceBuffer<TensorState>(1);
    with_own_pipeline([this](auto columns, auto groups, auto pipeline) {
      allow_shared_bytes(multiply_kernel<columns, groups, decltype(pipeline), FindCandidates>,
                         plan_.shared_bytes);
    });
    copy_points();
    record_iterations(FirstIteration::recorded);
  }

  void copy_points() {
    const auto [n, d, k, precision] = shape();
    frame_ = frame_of(dev_points_.data(), n, d, problem_.max_abs);
    steps_ = byte_steps(dev_points_, n, d, frame_);
    const DeviceBuffer<unsigned> dev_largest(1);
    dev_largest.zero();
    copy_points_as_bytes_kernel<<<blocks_for(extents_.point_tiles * kTileRows * 32, 256), 256>>>(
        dev_points_.data(), extents_, frame_.dev_mean.data(), frame_.scale, steps_,
        dev_points_copy_.data(), dev_point_lengths_.data(), dev_largest.data());
    KMEANS_CUDA_LAUNCHED(copy_points_as_bytes_kernel);
    filter_.set_bias(Bias::of(dev_largest));
  }

  void restart() override {
    sums_.restart();
    filter_.restart();
    dev_state_.zero();
    move_centroids(nullptr, nullptr);
  }

  void launch(bool first, cudaStream_t stream) override {
    {
      const auto timed = stage("assign");
      if (first) {
        launch_early(list_all_kernel, blocks_for(shape().n, 256), 256, 0, stream, shape().n,
                     dev_others_.data(), dev_state_.data());
      } else {
        find_candidates(stream);
      }
    }
    {
      const auto timed = stage("settle");
      decide_undecided(stream);
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
    const auto [n, d, k, precision] = shape();
    launch_early(divide_kernel, blocks_for(k * 32, 256), 256, 0, stream, dev_totals,
                 sums_.inverse_scale(), dev_centroids_.data(), d, k, frame_.dev_mean.data(),
                 frame_.scale, reach_of_norm(extents_, steps_), dev_reaches_.data(),
                 dev_state_.data());
    launch_early(order_kernel, 1, kOrderThreads, 0, stream, dev_reaches_.data(), k,
                 dev_order_.data(), dev_places_.data());
    launch_early(copy_centroids_kernel,
                 blocks_for(std::int64_t{extents_.centroid_tiles} * kColumns * 32, 256), 256, 0,
                 stream, dev_centroids_.data(), extents_, frame_.dev_mean.data(), frame_.scale,
                 steps_, dev_reaches_.data(), dev_order_.data(), dev_centroids_copy_.data(),
                 dev_widths_.data(), dev_units_.data(), dev_state_.data());
    filter_.move_centroids(nullptr, sums_.inverse_scale(), dev_centroids_.data(), frame_, stream);
  }

  template <class Use>
  void with_own_pipeline(const Use& use) const {
    with_pipeline<Byte>(plan_, extents_.padded / kProductBytes, use);
  }

  void find_candidates(cudaStream_t stream) {
    with_own_pipeline([&](auto columns, auto groups, auto pipeline) {
      const FindCandidates pass{.dev_point_lengths = dev_point_lengths_.data(),
                                .dev_widths = dev_widths_.data(),
                                .dev_units = dev_units_.data(),
                                .dev_order = dev_order_.data(),
                                .dev_places = dev_places_.data(),
                                .dev_labels = dev_labels_.data(),
                                .dev_found = dev_found_.data(),
                                .room = dev_listed_.size(),
                                .dev_nearest = dev_nearest_.data(),
                                .dev_pairs = dev_pairs_.data(),
                                .dev_lists = dev_lists_.data(),
                                .dev_listed = dev_listed_.data(),
                                .dev_others = dev_others_.data(),
                                .dev_state = dev_state_.data(),
                                .lengths = {},
                                .upper = {},
                                .spread = {},
                                .counts = {},
                                .places = {},
                                .has_bounds = false};
      launch_early(multiply_kernel<columns, groups, decltype(pipeline), FindCandidates>, blocks_,
                   threads_for(groups), plan_.shared_bytes, stream, extents_,
                   dev_points_copy_.data(), dev_centroids_copy_.data(), pass);
    });
  }

  /// The points of which more than one centroid may be the nearest; in a graph, pairs and lists
  /// next to those that bytes leave to float16.
  void decide_undecided(cudaStream_t stream) {
    const auto [n, d, k, precision] = shape();
    const auto fill = static_cast<unsigned>(4 * kmeans::current_gpu()->multiprocessors);
    const float factor = filter_factor(d);
    Fork fork(stream);
    HalfFilter::decide_pairs(dev_points_.data(), dev_centroids_.data(), d, dev_pairs_.data(),
                             dev_state_.data(), dev_nearest_.data(), 2 * fill, fork.branch());
    decide_lists_kernel<<<2 * fill, 256, 0, fork.branch()>>>(
        dev_points_.data(), dev_centroids_.data(), d, factor, dev_lists_.data(), dev_listed_.data(),
        dev_state_.data(), dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(decide_lists_kernel);
    for (std::int64_t first = 0; first < n; first += others_) {
      const HalfRows rows{.dev_copy = dev_others_copy_.data(),
                          .dev_lengths = dev_others_lengths_.data(),
                          .dev_map = dev_others_.data(),
                          .dev_count = &dev_state_.data()->undecided,
                          .first = first};
      filter_.copy_listed_points(dev_points_.data(), frame_, rows, dev_others_copy_.data(),
                                 dev_others_lengths_.data(), stream);
      filter_.find(rows, dev_labels_.data(), dev_nearest_.data(), stream);
      filter_.decide_undecided(rows, dev_points_.data(), dev_centroids_.data(), dev_nearest_.data(),
                               first + others_ >= n, stream);
    }
    fork.join();
  }

  Plan plan_;
  Extents extents_{};
  ByteSteps steps_{};
  HalfFilter filter_;
  std::int64_t others_ = 0;  // points that are left to float16, at a time
  unsigned blocks_ = 0;
  CopyFrame frame_;
  DeviceBuffer<Byte> dev_points_copy_;
  DeviceBuffer<Byte> dev_centroids_copy_;
  DeviceBuffer<float2> dev_point_lengths_;
  DeviceBuffer<float> dev_reaches_;
  DeviceBuffer<std::int32_t> dev_order_;
  DeviceBuffer<std::int32_t> dev_places_;
  DeviceBuffer<float4> dev_widths_;  // of places
  DeviceBuffer<float2> dev_units_;   // of tiles
  DeviceBuffer<std::int32_t> dev_found_;
  DeviceBuffer<std::int32_t> dev_nearest_;
  DeviceBuffer<std::int32_t> dev_others_;
  DeviceBuffer<__half> dev_others_copy_;
  DeviceBuffer<float2> dev_others_lengths_;
  DeviceBuffer<Pair> dev_pairs_;
  DeviceBuffer<Listed> dev_lists_;
  DeviceBuffer<std::int32_t> dev_listed_;
  DeviceBuffer<TensorState> dev_state_;
  MovingSums sums_;
};

}  // namespace

KMEANS_VARIANT(
    CudaInt8, .name = "cuda_int8",
    .summary =
        "the exact step: products of bytes with a proven bound, then float32, then as defined",
    .exact = true, .gpu_shards = true, .sums = Sums::wide,
    .setup_note = "makes a centred copy of the points in bytes",
    .supports =
        [](const Shape& s) {
          return runs_on_hopper(s, {byte_plan, half_plan});
        },
    .device_bytes =
        [](const Shape& s) {
          const double n = static_cast<double>(s.n) + 256;
          const double k = static_cast<double>(s.k) + 256;
          const auto padded = static_cast<double>(padded_bytes_for(s.d));
          const double others = static_cast<double>(others_at_a_time(s.n)) + 256;
          return plain_device_bytes(s) + MovingSums::device_bytes(s) +
                 n * (padded + 44 + 4.0 * tuning::kListedAPoint) + k * (padded + 28) +
                 others * (2 * static_cast<double>(padded_for(s.d)) + 12) +
                 half_filter_bytes(s, others) + 16e6;
        })
