// SPDX-License-Identifier: Apache-2.0
//
// Idea:      few coordinates, many centroids: both in the order of a Hilbert curve, so that 32
//            neighbouring points share a small box, and most centroids are farther from that box
//            than the centroids that the points had before
// Parallel:  a warp owns a box of 32 points, a lane a point; the lanes test 32 boxes of centroids
//            at once, then 32 centroids, then each its own point against what is left. Where too
//            much is left, since the box is large, a warp takes each of its points alone
// Memory:    column-major points in curve order, read once an iteration; boxes of 1024 and of 32
//            centroids, refitted each iteration while their order stays. Only points whose label
//            changed touch the sums and labels in memory, those of a warp with one label at once
// Numerics:  a box or centroid is left out where the float32 bounds show that it is farther than
//            the centroid before for all 32 points, rounding included; what is left is decided in
//            float32, or in float64 as defined where that is too close. Sums are 64-bit integers.
//            Equals the reference bit for bit
// Source:    docs/exact-step.md, docs/gpu-bounds.md; Hilbert's curve as in J. Skilling, "Programming the
//            Hilbert curve", AIP Conference Proceedings 707 (2004)
#include <algorithm>
#include <string>
#include <vector>

#include "implementations/cuda/_dispatch.cuh"
#include "implementations/cuda/_graph_lloyd.cuh"
#include "implementations/cuda/_tree_assign.cuh"
#include "implementations/cuda/_tree_curve.cuh"
#include "implementations/cuda/_tree_layout.cuh"
#include "implementations/cuda/_tree_update.cuh"
#include "implementations/cuda/tuning.h"

namespace {

using namespace kmeans::cuda;        // NOLINT: this backend's shared code
using namespace kmeans::cuda::tree;  // NOLINT

kmeans::Support few_coordinates(const kmeans::Shape& shape) {
  if (shape.d > kMaxDimensions) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) + " exceeds " +
                               std::to_string(kMaxDimensions) +
                               ": boxes around neighbours leave hardly a centroid out");
  }
  return counts_fit(shape);
}

class CudaTree final : public GraphLloyd {
 public:
  CudaTree() : GraphLloyd(Layout::rows) {}

 private:
  /// Calls `use` with the number of coordinates as a constant.
  template <class Use>
  void with_dimensions(Use use) const {
    with_constant_in_range<1, kMaxDimensions>(shape().d, use);
  }

  void prepare() override {
    const auto [n, d, k, precision] = shape();
    const int s = kmeans::exact::sum_exponent(n, problem_.max_abs);
    scale_ = kmeans::exact::power_of_two(s);
    inverse_scale_ = kmeans::exact::power_of_two(-s);
    bound_points();
    int device = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    KMEANS_CUDA(cudaDeviceGetAttribute(&deferred_blocks_, cudaDevAttrMultiProcessorCount, device));
    deferred_blocks_ *= tuning::kDeferredBlocks;

    dev_order_ = DeviceBuffer<std::int32_t>(n);
    CurveSort sort(n);
    // Bits below these would part points that share a cell of 2^-48 of the cube.
    const int first_bit = std::max(0, bits_of_key(static_cast<int>(d)) - 48);
    sort_on_curve(dev_points_, first_bit, sort, dev_order_);
    DeviceBuffer<float> dev_ordered(n * d);
    order_points_kernel<<<blocks_for(n, kThreads), kThreads>>>(
        dev_points_.data(), n, d, dev_order_.data(), dev_ordered.data());
    KMEANS_CUDA_LAUNCHED(order_points_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
    dev_points_ = std::move(dev_ordered);

    dev_slots_ = DeviceBuffer<std::int32_t>(n);
    dev_deferred_ = DeviceBuffer<std::int32_t>(n);
    dev_deferred_count_ = DeviceBuffer<unsigned>(1);
    dev_indices_ = DeviceBuffer<std::int32_t>(k);
    dev_ordered_centroids_ = DeviceBuffer<float>(k * stride_of(static_cast<int>(d)));
    dev_sums_ = DeviceBuffer<Integer>(k * (d + 1));
    centroid_sort_ = CurveSort(k);
    const std::int64_t groups = ceil_div(k, kLanes);
    const std::int64_t supers = ceil_div(k, kSuperSlots);
    dev_group_sides_ = DeviceBuffer<float>(2 * d * groups);
    dev_super_sides_ = DeviceBuffer<float>(2 * d * supers);
    tree_ = Tree{.k = k,
                 .dev_centroids = dev_ordered_centroids_.data(),
                 .dev_indices = dev_indices_.data(),
                 .dev_keys = centroid_sort_.dev_keys.data() + k,
                 .dev_sums = dev_sums_.data(),
                 .groups = {dev_group_sides_.data(), groups},
                 .supers = {dev_super_sides_.data(), supers}};
    record_iterations(FirstIteration::launched);
  }

  /// The cube around the points.
  void bound_points() {
    const auto [n, d, k, precision] = shape();
    constexpr int kNone = 0x7fffffff;
    std::vector<int> sides(2 * d, kNone);
    std::fill(sides.begin() + d, sides.end(), -kNone);
    const DeviceBuffer<int> dev_sides(2 * d);
    dev_sides.upload(sides.data());
    const dim3 blocks(std::min(blocks_for(n, 8 * kThreads), 512U), static_cast<unsigned>(d));
    bound_columns_kernel<<<blocks, kThreads>>>(dev_points_.data(), n, dev_sides.data(),
                                               dev_sides.data() + d);
    KMEANS_CUDA_LAUNCHED(bound_columns_kernel);
    dev_sides.download(sides.data());
    cube_ = {};
    for (std::int64_t t = 0; t < d; ++t) {
      cube_.low[t] = float_of_ordered_bits(sides[t]);
      cube_.width = std::max(cube_.width, float_of_ordered_bits(sides[d + t]) - cube_.low[t]);
    }
    if (cube_.width == 0) cube_.width = 1;
  }

  /// Indices of rows in curve order. Bits of the places below `first_bit` do not count.
  void sort_on_curve(const DeviceBuffer<float>& dev_rows, int first_bit, CurveSort& sort,
                     const DeviceBuffer<std::int32_t>& dev_order) const {
    with_dimensions([&](auto dimensions) {
      form_curve_keys_kernel<dimensions><<<blocks_for(sort.count, kThreads), kThreads>>>(
          dev_rows.data(), sort.count, cube_, sort.dev_keys.data(), sort.dev_indices.data());
      KMEANS_CUDA_LAUNCHED(form_curve_keys_kernel);
    });
    sort.run(first_bit, bits_of_key(static_cast<int>(shape().d)), dev_order);
  }

  void restart() override {
    dev_sums_.zero();
    dev_slots_.fill_bytes(0xff);
    dev_deferred_count_.zero();
  }

  /// Part of the first iteration, since it depends on the first centroids.
  void order_centroids() {
    const auto timed = stage("order");
    const auto [n, d, k, precision] = shape();
    if (k <= tuning::kMaxRanked) {
      with_dimensions([&](auto dimensions) {
        rank_centroids_kernel<dimensions>
            <<<blocks_for(k, kLanes), kSuperSlots>>>(dev_centroids_.data(), tree_, cube_);
        KMEANS_CUDA_LAUNCHED(rank_centroids_kernel);
      });
    } else {
      sort_on_curve(dev_centroids_, first_key_bit(static_cast<int>(d)), centroid_sort_,
                    dev_indices_);
      with_dimensions([&](auto dimensions) {
        order_centroids_kernel<dimensions>
            <<<blocks_for(k, kThreads), kThreads>>>(dev_centroids_.data(), tree_);
        KMEANS_CUDA_LAUNCHED(order_centroids_kernel);
      });
    }
    refit(nullptr);  // no cluster has points yet: boxes alone
  }

  void launch(bool first, cudaStream_t stream) override {
    if (first) {
      order_centroids();
      assign<true>(stream);
    } else {
      assign<false>(stream);
    }
    const auto timed = stage("update");
    refit(stream);
  }

  template <bool kFirst>
  void assign(cudaStream_t stream) {
    const auto timed = stage("assign");
    const DeferredPoints deferred{dev_deferred_.data(), dev_deferred_count_.data()};
    with_dimensions([&](auto dimensions) {
      const std::int64_t n = shape().n;
      assign_near_kernel<dimensions, kFirst><<<blocks_for(n, kThreads), kThreads, 0, stream>>>(
          dev_points_.data(), n, dev_order_.data(), tree_, cube_, scale_, dev_slots_.data(),
          dev_labels_.data(), deferred);
      KMEANS_CUDA_LAUNCHED(assign_near_kernel);
      // As many as work at once: how many points are deferred is known to the GPU alone.
      const auto blocks =
          std::min<std::int64_t>(deferred_blocks_, blocks_for(n, kThreads / kLanes));
      assign_deferred_kernel<dimensions, kFirst>
          <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
              dev_points_.data(), n, dev_order_.data(), tree_, cube_, scale_, dev_slots_.data(),
              dev_labels_.data(), deferred);
      KMEANS_CUDA_LAUNCHED(assign_deferred_kernel);
    });
  }

  void refit(cudaStream_t stream) {
    with_dimensions([&](auto dimensions) {
      const int threads = tree_.supers.count == 1 ? tuning::kFewRefitThreads : kSuperSlots;
      refit_kernel<dimensions>
          <<<blocks_for(tree_.k, threads), static_cast<unsigned>(threads), 0, stream>>>(
              tree_, inverse_scale_, dev_centroids_.data(), dev_deferred_count_.data());
      KMEANS_CUDA_LAUNCHED(refit_kernel);
    });
  }

  int deferred_blocks_ = 0;
  double scale_ = 1;
  double inverse_scale_ = 1;
  Cube cube_{};
  Tree tree_{};
  CurveSort centroid_sort_;
  DeviceBuffer<std::int32_t> dev_order_;  // place in curve order -> point
  DeviceBuffer<std::int32_t> dev_slots_;  // place in curve order -> slot
  DeviceBuffer<std::int32_t> dev_deferred_;
  DeviceBuffer<unsigned> dev_deferred_count_;
  DeviceBuffer<std::int32_t> dev_indices_;
  DeviceBuffer<float> dev_ordered_centroids_;
  DeviceBuffer<Integer> dev_sums_;
  DeviceBuffer<float> dev_group_sides_;
  DeviceBuffer<float> dev_super_sides_;
};

}  // namespace

KMEANS_VARIANT(
    CudaTree, .name = "cuda_tree",
    .summary = "the exact step where boxes around neighbouring points leave most centroids out",
    .exact = true, .skips_work = true, .sums = Sums::wide,
    .setup_note = "sorts the points along a Hilbert curve", .supports = few_coordinates,
    .device_bytes = [](const Shape& s) {
      const double n = static_cast<double>(s.n);
      const double k = static_cast<double>(s.k);
      // Ordered points next to the others while they are made, and what the sort needs.
      return plain_device_bytes(s) + n * (4.0 * static_cast<double>(s.d) + 44) +
             k * (16.0 * static_cast<double>(s.d) + 64);
    })
