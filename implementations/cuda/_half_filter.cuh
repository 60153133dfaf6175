// SPDX-License-Identifier: Apache-2.0
//
// The nearest centroids of points by float16 products with a bound on all that they round, and by
// float32 and float64 where that leaves more than one (docs/gpu-bounds.md).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_half_bounds.cuh"
#include "implementations/cuda/_nearest.cuh"
#include "implementations/cuda/_tensor_plan.cuh"
#include "implementations/cuda/_tensor_state.h"

namespace kmeans::cuda {

/// An undecided point of the first pass: centroids whose bound is above the limit are not nearest;
/// pair: the two that remain, if it is known that there are no more (else -1).
struct Undecided {
  std::int32_t row;
  float limit;
  int2 pair;
};
constexpr int kPending = 32;  // that a warp collects before it makes room for them: a lane each
constexpr std::int64_t kPendingBytes = kPending * sizeof(Undecided);

/// Points in float16, as copy_points_kernel() leaves them: all, row by row; or those that dev_map
/// names, from entry `first` on, as many as *dev_count says. More than `gathered` of them are not
/// gathered: then rows with a dev_map are none. With dev_count but no dev_map: every point if more
/// than `gathered` are listed, else none.
struct HalfRows {
  const __half* dev_copy;
  const float2* dev_lengths;
  const std::int32_t* dev_map = nullptr;
  const unsigned long long* dev_count = nullptr;
  std::int64_t first = 0;
  std::int64_t gathered = std::numeric_limits<std::int64_t>::max();

  /// At most `most`.
  [[nodiscard]] __device__ std::int64_t count(std::int64_t most) const {
    if (dev_count == nullptr) return most;
    const auto listed = static_cast<std::int64_t>(*dev_count);
    if (dev_map == nullptr) return listed > gathered ? most : 0;
    return listed > gathered ? 0 : min(max(listed - first, std::int64_t{0}), most);
  }
  [[nodiscard]] __device__ std::int32_t point_of(int row) const {
    return dev_map == nullptr ? row : dev_map[first + row];
  }
};

/// What is known of points' distances in the frame of their copies, from iteration to iteration: an
/// upper bound of the one to the own centroid, a lower bound of the one to any other.
struct KeptBounds {
  float* dev_upper;
  float* dev_lower;
  const float* dev_half_squares;  // of the points' lengths, rounded down
  float added;                    // to the accumulators' bounds

  /// Of a point by the bounds of the two nearest: of half the squared distances less half the
  /// point's squared length.
  __device__ void keep(std::int32_t point, float upper, float next) const {
    const float half_square = dev_half_squares[point];
    // Above its rounding, and float64's in the definition.
    const float above = __fmaf_ru(half_square, 1 + 0x1p-21F, 0x1p-100F);
    const float far = __fadd_ru(__fsub_ru(upper, added), above);
    const float near = __fadd_rd(__fsub_rd(next, added), half_square);
    dev_upper[point] = __fsqrt_ru(__fmul_ru(2, fmaxf(far, 0)));
    dev_lower[point] = __fsqrt_rd(__fmul_rd(2, fmaxf(near, 0)));
  }
  /// Nothing is known.
  __device__ void forget(std::int32_t point) const {
    dev_upper[point] = INFINITY;
    dev_lower[point] = 0;
  }
};

/// The plan of the passes; with bounds where they are kept for the next iterations.
Plan half_plan(const Shape& shape, const GpuDevice& gpu);
Plan half_plan_with_bounds(const Shape& shape, const GpuDevice& gpu);

/// Bytes of device memory, without what is copied and mapped of the points.
double half_filter_bytes(const Shape& s, double rows);

/// The passes, and what they need on the GPU: find(), of all rows or of some after others, then
/// decide_undecided(). Its kernels are compiled once for all families: those of the first pass in
/// _half_find.cu, and where bounds are kept in _half_find_bounds.cu, the others in _half_filter.cu.
class HalfFilter {
 public:
  struct Options {
    std::int64_t rows;          // of the shape's points, at a time, at most
    bool mapped = false;        // HalfRows::dev_map is given
    bool keeps_bounds = false;  // find() leaves bounds; not where points stream
  };
  HalfFilter() = default;
  HalfFilter(const Shape& shape, const Options& options, const GpuDevice& gpu);

  /// Of the rows.
  [[nodiscard]] const Extents& extents() const { return extents_; }
  [[nodiscard]] std::int64_t copy_elements() const {
    return extents_.point_tiles * tile_elements(extents_);
  }
  [[nodiscard]] TensorState* dev_state() const { return dev_state_.data(); }
  /// From now on so many centroids, at most the shape's; not where points stream, whose parts
  /// follow from it.
  void narrow(std::int64_t k);
  void restart() const { dev_state_.zero(); }
  /// Of all points' copies.
  void set_bias(const Bias& bias) { bias_ = bias; }
  /// Where bounds are kept; of it the bias is set.
  void set_kept(const KeptBounds& kept) { kept_ = kept; }

  /// Copies all points, and sets their bias, which it returns.
  Bias copy_points(const float* dev_points, const CopyFrame& frame,
                   const DeviceBuffer<__half>& dev_copy, const DeviceBuffer<float2>& dev_lengths);
  /// Copies the points that rows.dev_map names, and begins to count what happens to them.
  void copy_listed_points(const float* dev_points, const CopyFrame& frame, const HalfRows& rows,
                          __half* dev_copy, float2* dev_lengths, cudaStream_t stream) const;
  /// dev_totals: sums and counts to divide, or null, and the centroids are copied as they are.
  void move_centroids(const Integer* dev_totals, double inverse_scale, float* dev_centroids,
                      const CopyFrame& frame, cudaStream_t stream) const;
  /// dev_labels: of all points, those of the iteration before, or -1.
  void find(const HalfRows& rows, const std::int32_t* dev_labels, std::int32_t* dev_nearest,
            cudaStream_t stream) const;
  /// The rows that find() left undecided; in a graph, pairs parallel to the others. `last`: of the
  /// rows of an iteration.
  void decide_undecided(const HalfRows& rows, const float* dev_points, const float* dev_centroids,
                        std::int32_t* dev_nearest, bool last, cudaStream_t stream) const;
  /// Points between two centroids each, as many as the state counts.
  static void decide_pairs(const float* dev_points, const float* dev_centroids, std::int64_t d,
                           const Pair* dev_pairs, const TensorState* dev_state,
                           std::int32_t* dev_nearest, unsigned blocks, cudaStream_t stream);

 private:
  /// Allows the kernels of the first pass their shared memory, and launches one.
  template <bool kKeeps>
  void allow_first_pass() const;
  template <bool kKeeps>
  void launch_first_pass(const HalfRows& rows, const std::int32_t* dev_labels,
                         std::int32_t* dev_nearest, cudaStream_t stream) const;
  /// Calls use() with the kernel of a first pass of the kind that the shape takes, and such a pass.
  template <bool kKeeps, class Use>
  void with_first_pass(const Use& use) const;
  template <class Pass>
  [[nodiscard]] Pass first_pass(const HalfRows& rows, const std::int32_t* dev_labels,
                                std::int32_t* dev_nearest) const;
  template <class Use>
  void with_own_pipeline(const Use& use) const {
    const auto bytes = extents_.padded * static_cast<int>(sizeof(__half));
    with_pipeline<__half>(plan_, bytes / kProductBytes, use);
  }
  /// Points that are rows need no second list.
  [[nodiscard]] std::int32_t* undecided_points(const HalfRows& rows) const {
    return rows.dev_map == nullptr ? dev_undecided_.data() : dev_undecided_points_.data();
  }

  Plan plan_;
  Extents extents_{};
  bool keeps_bounds_ = false;
  std::int64_t listed_ = 0;  // undecided rows that may have a list
  unsigned blocks_ = 0;
  unsigned fill_ = 0;  // blocks that occupy the GPU
  std::int64_t pitch_ = 0;
  Bias bias_;
  KeptBounds kept_{};
  DeviceBuffer<__half> dev_centroids_copy_;
  DeviceBuffer<__half> dev_centroid_rows_;  // the same, row by row, where they are prefetched
  DeviceBuffer<__half2> dev_widths_;        // of centroids
  DeviceBuffer<__half2> dev_widest_;        // the largest of each block of them
  DeviceBuffer<float> dev_columns_;         // the centroids, column-major, pitch_ of them
  DeviceBuffer<std::int32_t> dev_undecided_;
  DeviceBuffer<std::int32_t> dev_undecided_points_;
  DeviceBuffer<std::int32_t> dev_crowded_;
  DeviceBuffer<float> dev_limits_;
  DeviceBuffer<Pair> dev_pairs_;
  DeviceBuffer<__half> dev_rows_;  // of the undecided
  DeviceBuffer<std::int32_t> dev_candidate_counts_;
  DeviceBuffer<std::int32_t> dev_candidates_;
  DeviceBuffer<Nearest> dev_found_;  // of the parts
  DeviceBuffer<TensorState> dev_state_;
};

}  // namespace kmeans::cuda
