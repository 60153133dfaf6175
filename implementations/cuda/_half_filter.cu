// SPDX-License-Identifier: Apache-2.0
//
// Architectures: 90a-real
//
// The float16 filter: its plan, its memory, copies of points and centroids, the second pass, and
// what decides the points that remain.
#include <algorithm>
#include <cstdint>

#include "implementations/cuda/_decide.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_list_candidates.cuh"
#include "implementations/cuda/_search.cuh"
#include "implementations/cuda/_tensor_copies.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

// _half_find.cu and _half_find_bounds.cu have them.
extern template void HalfFilter::allow_first_pass<false>() const;
extern template void HalfFilter::allow_first_pass<true>() const;
extern template void HalfFilter::launch_first_pass<false>(const HalfRows&, const std::int32_t*,
                                                          std::int32_t*, cudaStream_t) const;
extern template void HalfFilter::launch_first_pass<true>(const HalfRows&, const std::int32_t*,
                                                         std::int32_t*, cudaStream_t) const;

namespace {

/// The centroids that were nearest before are prefetched from tuning::prefetching_tiles() tiles on,
/// where three tiles of centroids still have room, so that groups that wait one after the other need
/// not wait for each other.
Plan plan_of(const Shape& shape, const GpuDevice& gpu, bool keeps) {
  const std::int64_t padded = padded_for(shape.d);
  const auto with_bytes = [&](std::int64_t to_prefetch) {
    return plan_for<__half>({.padded = padded,
                             .k = shape.k,
                             .shared_bytes = gpu.shared_bytes_per_block,
                             .warp_bytes = kPendingBytes,
                             .bytes_to_prefetch = to_prefetch});
  };
  Plan plan = with_bytes(0);
  const std::int64_t products = padded * static_cast<std::int64_t>(sizeof(__half)) / kProductBytes;
  const std::int64_t tiles = plan.columns > 0 ? ceil_div(shape.k, plan.columns) : 0;
  if (plan.groups != 4 || plan.columns != kWidestColumns || plan.streams_points) return plan;
  if (plan.products == products && tiles <= tuning::unordered_tiles(keeps)) plan.order_after = 0;
  if (tiles < tuning::prefetching_tiles(products, keeps)) return plan;
  Plan prefetching = with_bytes(prefetch_bytes<__half>(padded));
  if (prefetching.groups != plan.groups || prefetching.streams_points) return plan;
  const std::int64_t tile_stages = ceil_div(products, prefetching.products);
  if (!prefetching.resident &&
      (prefetching.stages < 3 * tile_stages || prefetching.point_buffers < plan.point_buffers)) {
    return plan;
  }
  prefetching.prefetches = true;
  // An ordering barrier would make all groups wait for what one waits for.
  prefetching.order_after = 0;
  return prefetching;
}

Extents in_parts(Extents extents, const Plan& plan, const GpuDevice& gpu) {
  if (plan.streams_points) {
    extents.parts =
        parts_for(extents.point_tiles / plan.groups, extents.centroid_tiles, gpu.multiprocessors);
  }
  return extents;
}

/// Undecided points' rows of the copy; their lists are empty.
__global__ void gather_rows_kernel(Extents s, std::int64_t listed,
                                   const __half* __restrict__ dev_points_copy,
                                   const std::int32_t* __restrict__ dev_undecided,
                                   const TensorState* __restrict__ dev_state,
                                   __half* __restrict__ dev_rows,
                                   std::int32_t* __restrict__ dev_candidate_counts) {
  await_kernels_before();
  const std::int64_t count = min(static_cast<std::int64_t>(dev_state->undecided), listed);
  gather_rows(s, count, dev_points_copy, dev_undecided, dev_rows,
              [&](std::int64_t slot, std::int64_t /*point*/) { dev_candidate_counts[slot] = 0; });
}

}  // namespace

Plan half_plan(const Shape& shape, const GpuDevice& gpu) { return plan_of(shape, gpu, false); }
Plan half_plan_with_bounds(const Shape& shape, const GpuDevice& gpu) {
  return plan_of(shape, gpu, true);
}

double half_filter_bytes(const Shape& s, double rows) {
  const auto padded = static_cast<double>(padded_for(s.d));
  // Wider points than that stream, in parts, where a block has 227 KiB of shared memory.
  const double parts =
      padded > 1040 ? std::min(static_cast<double>(s.k) / 128 + 1, double{kMaxParts}) : 0;
  const double k = static_cast<double>(s.k) + 256;
  const double undecided = rows / 8 + 4352;
  return (28 + sizeof(Nearest) * parts) * rows + undecided * (2 * padded + 4 * kMaxCandidates + 4) +
         k * (4 * padded + 4.0 * static_cast<double>(s.d) + 24);
}

HalfFilter::HalfFilter(const Shape& shape, const Options& options, const GpuDevice& gpu)
    : plan_(plan_of(shape, gpu, options.keeps_bounds)),
      extents_(in_parts(
          extents_of({options.rows, shape.d, shape.k, shape.precision}, plan_, padded_for(shape.d)),
          plan_, gpu)),
      keeps_bounds_(options.keeps_bounds),
      listed_(std::max(std::min(options.rows, std::int64_t{4096}), options.rows / 8)),
      blocks_(static_cast<unsigned>(std::min<std::int64_t>(
          gpu.multiprocessors, extents_.point_tiles / plan_.groups * extents_.parts))),
      fill_(static_cast<unsigned>(4 * gpu.multiprocessors)),
      pitch_(ceil_div(shape.k, kSearchThreads) * kSearchThreads),
      dev_centroids_copy_(std::int64_t{extents_.centroid_tiles} * plan_.columns * extents_.padded),
      dev_centroid_rows_(plan_.prefetches ? shape.k * extents_.padded : 0),
      dev_widths_(std::int64_t{extents_.centroid_tiles} * plan_.columns),
      dev_widest_(dev_widths_.size() / kWidthBlock),
      dev_columns_(pitch_ * shape.d),
      dev_undecided_(options.rows),
      dev_undecided_points_(options.mapped ? options.rows : 0),
      dev_crowded_(options.rows),
      dev_limits_(options.rows),
      dev_pairs_(options.rows),
      dev_rows_(ceil_div(listed_, plan_.groups * kTileRows) * plan_.groups *
                tile_elements(extents_)),
      dev_candidate_counts_(listed_),
      dev_candidates_(listed_ * kMaxCandidates),
      dev_found_(plan_.streams_points ? extents_.parts * options.rows : 0),
      dev_state_(1) {
  dev_rows_.zero();
  keeps_bounds_ ? allow_first_pass<true>() : allow_first_pass<false>();
  with_own_pipeline([this](auto columns, auto groups, auto pipeline) {
    allow_shared_bytes(
        multiply_kernel<columns, groups, decltype(pipeline), ListCandidates<columns>>,
        plan_.shared_bytes);
  });
}

void HalfFilter::narrow(std::int64_t k) {
  extents_.k = k;
  extents_.centroid_tiles = static_cast<int>(ceil_div(k, plan_.columns));
  if (!plan_.resident) return;
  // Resident tiles are produced once, a stage each.
  const std::int64_t products =
      extents_.padded * static_cast<std::int64_t>(sizeof(__half)) / kProductBytes;
  extents_.stages = extents_.centroid_tiles * static_cast<int>(ceil_div(products, plan_.products));
}

Bias HalfFilter::copy_points(const float* dev_points, const CopyFrame& frame,
                             const DeviceBuffer<__half>& dev_copy,
                             const DeviceBuffer<float2>& dev_lengths) {
  const DeviceBuffer<unsigned> dev_largest(1);
  dev_largest.zero();
  const std::int64_t threads = extents_.point_tiles * kTileRows * kLanesOfCopiedRow;
  copy_points_kernel<<<blocks_for(threads, 256), 256>>>(
      dev_points, extents_, frame.view(), dev_copy.data(), dev_lengths.data(), dev_largest.data());
  KMEANS_CUDA_LAUNCHED(copy_points_kernel);
  bias_ = Bias::of(dev_largest);
  return bias_;
}

void HalfFilter::copy_listed_points(const float* dev_points, const CopyFrame& frame,
                                    const HalfRows& rows, __half* dev_copy, float2* dev_lengths,
                                    cudaStream_t stream) const {
  launch_early(copy_listed_points_kernel, 2 * fill_, 256, 0, stream, dev_points, extents_,
               frame.view(), rows.dev_map, rows.dev_count, rows.first, dev_copy, dev_lengths,
               dev_state_.data());
}

void HalfFilter::move_centroids(const Integer* dev_totals, double inverse_scale,
                                float* dev_centroids, const CopyFrame& frame,
                                cudaStream_t stream) const {
  launch_early(divide_and_copy_kernel, static_cast<unsigned>(dev_widest_.size()), kCopyThreads, 0,
               stream, dev_totals, inverse_scale, dev_centroids, extents_, frame.dev_mean.data(),
               frame.scale, bias_, dev_centroids_copy_.data(), dev_centroid_rows_.data(),
               dev_widths_.data(), dev_widest_.data(), dev_state_.data());
}

void HalfFilter::find(const HalfRows& rows, const std::int32_t* dev_labels,
                      std::int32_t* dev_nearest, cudaStream_t stream) const {
  if (keeps_bounds_) {
    launch_first_pass<true>(rows, dev_labels, dev_nearest, stream);
  } else {
    launch_first_pass<false>(rows, dev_labels, dev_nearest, stream);
  }
}

void HalfFilter::decide_undecided(const HalfRows& rows, const float* dev_points,
                                  const float* dev_centroids, std::int32_t* dev_nearest, bool last,
                                  cudaStream_t stream) const {
  const std::int64_t d = extents_.d;
  const std::int64_t k = extents_.k;
  const float factor = filter_factor(d);
  Fork fork(stream);
  decide_pairs(dev_points, dev_centroids, d, dev_pairs_.data(), dev_state_.data(), dev_nearest,
               2 * fill_, fork.branch());
  // Of the others some may have to be searched for.
  transpose_centroids_kernel<<<fill_, 256, 0, fork.branch()>>>(
      dev_centroids, k, d, pitch_, &dev_state_.data()->undecided, dev_columns_.data());
  KMEANS_CUDA_LAUNCHED(transpose_centroids_kernel);
  launch_early(gather_rows_kernel, fill_, 256, 0, stream, extents_, listed_, rows.dev_copy,
               dev_undecided_.data(), dev_state_.data(), dev_rows_.data(),
               dev_candidate_counts_.data());
  with_own_pipeline([&](auto columns, auto groups, auto pipeline) {
    const ListCandidates<columns> pass{.dev_limits = dev_limits_.data(),
                                       .dev_state = dev_state_.data(),
                                       .listed = listed_,
                                       .dev_candidate_counts = dev_candidate_counts_.data(),
                                       .dev_candidates = dev_candidates_.data(),
                                       .limits = {},
                                       .first_slot = 0};
    launch_early(multiply_kernel<columns, groups, decltype(pipeline), ListCandidates<columns>>,
                 blocks_, threads_for(groups), plan_.shared_bytes, stream, extents_,
                 dev_rows_.data(), dev_centroids_copy_.data(), pass);
  });
  launch_early(decide_kernel, 2 * fill_, 256, 0, stream, dev_points, dev_centroids, d, factor,
               listed_, undecided_points(rows), dev_candidate_counts_.data(),
               dev_candidates_.data(), dev_nearest, dev_crowded_.data(), dev_state_.data());
  fork.join();
  search_kernel<<<fill_, kSearchThreads, 0, stream>>>(dev_points, d, dev_columns_.data(), k, pitch_,
                                                      factor, last, dev_state_.data(),
                                                      dev_crowded_.data(), dev_nearest);
  KMEANS_CUDA_LAUNCHED(search_kernel);
}

void HalfFilter::decide_pairs(const float* dev_points, const float* dev_centroids, std::int64_t d,
                              const Pair* dev_pairs, const TensorState* dev_state,
                              std::int32_t* dev_nearest, unsigned blocks, cudaStream_t stream) {
  decide_pairs_kernel<<<blocks, 256, 0, stream>>>(dev_points, dev_centroids, d, filter_factor(d),
                                                  dev_pairs, dev_state, dev_nearest);
  KMEANS_CUDA_LAUNCHED(decide_pairs_kernel);
}

}  // namespace kmeans::cuda
