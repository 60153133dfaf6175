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
#include "implementations/cuda/_byte_steps.cuh"
#include "implementations/cuda/_candidates.cuh"
#include "implementations/cuda/_centred.cuh"
#include "implementations/cuda/_early_launch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_half_filter.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_tensor_frame.cuh"
#include "implementations/cuda/_wgmma.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

constexpr int kColumns = 128;           // centroids of a tile
constexpr int kRowSums = kColumns / 4;  // a lane's, of a row
constexpr int kBlocks = kRowSums / kBlockSums;
constexpr int kFound = 8;                  // that a lane writes down for a row
constexpr std::int64_t kListedAPoint = 8;  // candidates, in the mean

/// Integers that may be such a number or less in a tile's units; of numbers below 2^25 units, for
/// the roundings here: so large is no sum of 2 080 columns, more than shared memory holds.
__device__ inline int limit_of(float upper, const float2& unit) {
  return __float2int_ru(__fmaf_ru(upper, unit.y, 4.0F));
}

/// A point with more than two centroids that may be nearest, and where they are listed.
struct Listed {
  std::int32_t point;
  std::int32_t count;
  std::int64_t first;
};

/// The first pass: of each point the centroids whose lower bound is not above the least upper
/// bound.
struct FindCandidates {
  using Element = Byte;
  using Sum = int;
  static constexpr std::int64_t kWarpBytes = 0;
  static constexpr bool kSeedsBounds = true;
  static constexpr int kPrefetchWarps = 0;

  const float2* __restrict__ dev_point_lengths;
  const float4* __restrict__ dev_widths;  // of places
  const float2* __restrict__ dev_units;   // of tiles
  const std::int32_t* __restrict__ dev_order;
  const std::int32_t* __restrict__ dev_places;  // of centroids
  const std::int32_t* __restrict__ dev_labels;  // before
  std::int32_t* __restrict__ dev_found;         // kFound places a row of a lane
  std::int64_t room;                            // for all lists
  std::int32_t* __restrict__ dev_nearest;
  Pair* __restrict__ dev_pairs;
  Listed* __restrict__ dev_lists;
  std::int32_t* __restrict__ dev_listed;  // centroids
  std::int32_t* __restrict__ dev_others;  // points
  TensorState* __restrict__ dev_state;

  float2 lengths[2];  // of the lane's rows
  float upper[2];     // of half the squared distance to the nearest
  float spread[2];    // of a centroid's bounds, about
  int counts[2];
  int places[2];    // of the centroids that were nearest before, or -1
  bool has_bounds;  // the centroids have bounds

  __device__ std::int64_t tiles(const Extents& s) const { return s.point_tiles; }
  __device__ static int parts(const Extents& /*s*/, std::int64_t /*rounds*/) { return 1; }

  __device__ void start(const Extents& /*s*/, void* /*of_warp*/) {
    has_bounds = dev_state->too_far == 0;
  }

  __device__ void begin(const Extents& s, int first_row) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int i = first_row + row * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
      const bool exists = i < static_cast<int>(s.n);
      lengths[row] = exists ? dev_point_lengths[i] : float2{};
      // What cannot be decided here anyway has no candidates.
      const bool bounded = exists && has_bounds && lengths[row].x < INFINITY;
      upper[row] = bounded ? INFINITY : -INFINITY;
      spread[row] = 0;
      counts[row] = 0;
      const std::int32_t label = bounded ? dev_labels[i] : -1;
      places[row] = label >= 0 ? dev_places[label] : -1;
    }
  }

  /// The first upper bound is that of the previous nearest centroid, so that few others are below.
  __device__ void seed_bounds(const Extents& s, const Byte* rows, const Byte* dev_centroids) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int tile_row = static_cast<int>(threadIdx.x) / 32 % kGroupWarps * 16 + lane / 4;
    constexpr int kCore = kCoreElements<Byte>;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      int sum = 0;
      if (places[row] >= 0) {
        const Byte* own = rows + (tile_row + row * 8) * kCore;
        const Byte* before = dev_centroids +
                             std::int64_t{places[row] / kColumns} * kColumns * s.padded +
                             places[row] % kColumns * kCore;
#pragma unroll 2
        for (int chunk = lane % 4; chunk < s.padded / kCore; chunk += 4) {
          const int4 x = *reinterpret_cast<const int4*>(own + chunk * kTileRows * kCore);
          const int4 c = *reinterpret_cast<const int4*>(before + chunk * kColumns * kCore);
          sum = __dp4a(x.x, c.x, __dp4a(x.y, c.y, __dp4a(x.z, c.z, __dp4a(x.w, c.w, sum))));
        }
      }
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      if (places[row] < 0) continue;
      upper[row] = upper_of(row, sum, places[row]);
      spread[row] = upper[row] - static_cast<float>(sum) * dev_units[places[row] / kColumns].x;
    }
  }

  /// Of half the squared distance of a row and the centroid at a place, by their product.
  __device__ float upper_of(int row, int sum, int place) const {
    const float4 widths = dev_widths[place];
    const float2 own = lengths[row];
    // The float64 definition's own rounding is 2^-40 of the squared lengths at most.
    const float rest = __fmaf_ru(__fmul_ru(own.x, own.x), 0x1p-29F, widths.z);
    const float width = __fmaf_ru(own.x, widths.x, __fmaf_ru(own.y, widths.y, rest));
    return __fmaf_ru(__int2float_ru(sum), dev_units[place / kColumns].x, width);
  }

  __device__ std::int32_t* found(int row, int slot) const {
    return dev_found + ((blockIdx.x * kFound + slot) * 2 + row) * blockDim.x + threadIdx.x;
  }

  __device__ void preload(int /*tile*/) {}
  __device__ void epilogue(const Extents& s, const int (&sums)[kColumns / 2], int tile) {
    const float2 unit = dev_units[tile];
    int least[2][kBlocks];
    bool near[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      least_of_blocks(least[row], sums, row);
      const int all = least_of(least[row]);
      near[row] = all <= limit_of(upper[row], unit);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if (__any_sync(kAllLanes, near[row])) list_near(s, row, sums, least[row], unit, tile);
    }
  }

  /// Some lane of the warp has a centroid that may be the row's nearest.
  __device__ __forceinline__ void list_near(const Extents& s, int row,
                                            const int (&sums)[kColumns / 2],
                                            const int (&least)[kBlocks], const float2& unit,
                                            int tile) {
    const int first = tile * kColumns + static_cast<int>(threadIdx.x) % 4 * 2;
    const int limit = limit_of(upper[row], unit);
    unsigned near = 0;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (!__any_sync(kAllLanes, least[b] <= limit)) continue;
#pragma unroll
      for (int e = b * kBlockSums; e < (b + 1) * kBlockSums; ++e) {
        if (sums[e / 2 * 4 + 2 * row + e % 2] <= limit) near |= 1U << e;
      }
    }
    // One that is nearer than what was known leaves less of those that follow.
    const int all = least_of(least);
    const bool nearer =
        near != 0 && __fmaf_rn(static_cast<float>(all), unit.x, spread[row]) < upper[row];
    if (__any_sync(kAllLanes, nearer)) {
      if (nearer) {
        int e_of_all = 0;
#pragma unroll
        for (int e = 0; e < kRowSums; ++e) {
          if (sums[e / 2 * 4 + 2 * row + e % 2] == all) e_of_all = e;
        }
        upper[row] = fminf(upper[row], upper_of(row, all, first + e_of_all / 2 * 8 + e_of_all % 2));
      }
      upper[row] = fminf(upper[row], __shfl_xor_sync(kAllLanes, upper[row], 1));
      upper[row] = fminf(upper[row], __shfl_xor_sync(kAllLanes, upper[row], 2));
    }
    for (; near != 0; near &= near - 1) {
      const int e = __ffs(static_cast<int>(near)) - 1;
      const int place = first + e / 2 * 8 + e % 2;
      if (place >= static_cast<int>(s.k)) break;  // past the last centroid
      if (counts[row] < kFound) *found(row, counts[row]) = place;
      ++counts[row];
    }
    if (counts[row] > kFound) upper[row] = -INFINITY;  // it is left to float16
  }

  __device__ void end(const Extents& s, int first_row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool leads = lane % 4 == 0;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int i = first_row + row * 8 + lane / 4;
      const bool exists = i < static_cast<int>(s.n);
      const int own = counts[row];
      // Of the row's four lanes: those before, all, and whether one found more than it wrote down.
      int before = 0;
      int total = own;
      bool all = has_bounds && own <= kFound;
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        const int other = __shfl_xor_sync(kAllLanes, total, distance);
        if ((lane & distance) != 0) before += other;
        total += other;
        all = __shfl_xor_sync(kAllLanes, all ? 1 : 0, distance) != 0 && all;
      }
      const bool known = exists && all && total > 0 && total <= kMaxCandidates;
      const unsigned pairs = __ballot_sync(kAllLanes, leads && known && total == 2);
      bool listed = known && total > 2;
      // Room for the lists of all rows of the warp.
      int entries = leads && listed ? total : 0;
      int entries_before = 0;
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {
        const int other = __shfl_xor_sync(kAllLanes, entries, distance);
        if ((lane & distance) != 0) entries_before += other;
        entries += other;
      }
      entries_before = __shfl_sync(kAllLanes, entries_before, lane / 4 * 4);
      entries = __shfl_sync(kAllLanes, entries, 0);
      unsigned long long place = 0;
      if (lane == 0 && entries > 0) place = atomicAdd(&dev_state->listed, entries);
      const auto first_entry = static_cast<std::int64_t>(__shfl_sync(kAllLanes, place, 0));
      if (first_entry + entries > room) listed = false;
      const unsigned lists = __ballot_sync(kAllLanes, leads && listed);
      const unsigned others =
          __ballot_sync(kAllLanes, leads && exists && !listed && !(known && total <= 2));
      if (lane == 0 && pairs != 0) place = atomicAdd(&dev_state->pairs, __popc(pairs));
      if (lane == 1 && lists != 0) place = atomicAdd(&dev_state->lists, __popc(lists));
      if (lane == 2 && others != 0) place = atomicAdd(&dev_state->undecided, __popc(others));
      const unsigned below = (1U << lane / 4 * 4) - 1;
      const auto pair = __shfl_sync(kAllLanes, place, 0) + __popc(pairs & below);
      const auto list = __shfl_sync(kAllLanes, place, 1) + __popc(lists & below);
      const auto other = __shfl_sync(kAllLanes, place, 2) + __popc(others & below);
      if (leads && exists) {
        if (known && total == 2) {
          dev_pairs[pair].point = i;
        } else if (listed) {
          dev_lists[list] = {i, total, first_entry + entries_before};
        } else if (!known || total > 2) {
          dev_others[other] = i;
        }
      }
      if (!known || (total > 2 && !listed)) continue;
      for (int slot = 0; slot < own; ++slot, ++before) {
        const std::int32_t j = dev_order[*found(row, slot)];
        if (total == 1) {
          dev_nearest[i] = j;
        } else if (total == 2) {
          (before == 0 ? dev_pairs[pair].one : dev_pairs[pair].other) = j;
        } else {
          dev_listed[first_entry + entries_before + before] = j;
        }
      }
    }
    __syncwarp();
  }

  __device__ void finish() {}
};

/// Before there are labels nothing is known of any point.
__global__ void list_all_kernel(std::int64_t n, std::int32_t* __restrict__ dev_others,
                                TensorState* __restrict__ dev_state) {
  await_kernels_before();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) dev_others[i] = static_cast<std::int32_t>(i);
  if (i == 0) dev_state->undecided = static_cast<unsigned long long>(n);
}

/// The nearest of each list, a warp a point.
__global__ void decide_lists_kernel(const float* __restrict__ dev_points,
                                    const float* __restrict__ dev_centroids, std::int64_t d,
                                    float factor, const Listed* __restrict__ dev_lists,
                                    const std::int32_t* __restrict__ dev_listed,
                                    TensorState* __restrict__ dev_state,
                                    std::int32_t* __restrict__ dev_nearest) {
  // Only the first pass reads this; the next one copies centroids first.
  if (blockIdx.x == 0 && threadIdx.x == 0) dev_state->too_far = 0;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto count = static_cast<std::int64_t>(dev_state->lists);
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / 32;
  for (std::int64_t slot = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; slot < count;
       slot += warps) {
    const Listed list = dev_lists[slot];
    const std::int32_t own = lane < list.count ? dev_listed[list.first + lane] : 0;
    const std::int32_t label = nearest_of_list(dev_points + std::int64_t{list.point} * d,
                                               dev_centroids, d, factor, own, list.count);
    if (lane == 0) dev_nearest[list.point] = label;
  }
}

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

class CudaInt8 final : public CudaLloyd<float> {
 public:
  CudaInt8() : CudaLloyd<float>(Layout::rows) {}

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
    dev_listed_ = DeviceBuffer<std::int32_t>(kListedAPoint * n);
    dev_state_ = DeviceBuffer<TensorState>(1);
    with_own_pipeline([this](auto columns, auto groups, auto pipeline) {
      allow_shared_bytes(multiply_kernel<columns, groups, decltype(pipeline), FindCandidates>,
                         plan_.shared_bytes);
    });
    copy_points();
    graphs_.record([this](bool first, cudaStream_t stream) { launch(first, stream); });
  }

  void copy_points() {
    const auto [n, d, k, precision] = shape();
    frame_ = frame_of(dev_points_.data(), n, d);
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
    graphs_.restart();
    move_centroids(nullptr, nullptr);
  }

  void iterate() override { launch(graphs_.begin(), nullptr); }  // to profile it

  void iterate_times(std::int64_t iterations) override {
    if (profiled()) return CudaLloyd::iterate_times(iterations);
    graphs_.launch(iterations);
  }

  void launch(bool first, cudaStream_t stream) {
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
  FirstAndLaterGraphs graphs_;
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
                 n * (padded + 44 + 4.0 * kListedAPoint) + k * (padded + 28) +
                 others * (2 * static_cast<double>(padded_for(s.d)) + 12) +
                 half_filter_bytes(s, others) + 16e6;
        })
