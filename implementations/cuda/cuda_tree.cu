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
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <bit>
#include <vector>

#include "implementations/cuda/_dispatch.cuh"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_iteration_graph.cuh"
#include "implementations/cuda/_lloyd.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code

/// Of all lanes; one instruction from compute capability 8.0 on.
__device__ inline unsigned warp_max(unsigned value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kAllLanes, value);
#else
  for (int distance = 16; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
#endif
}
__device__ inline unsigned warp_min(unsigned value) { return ~warp_max(~value); }

constexpr int kThreads = 256;
constexpr int kSuperSlots = kLanes * kLanes;  // centroids of a box of boxes
constexpr int kFewThreads = 64;               // that work on few centroids in more blocks
constexpr int kMaxDimensions = 8;
// Centroids that a box of points is tried against, one after the other, before its points part.
constexpr int kMaxVisits = 160;
constexpr int kPartedBlocksPerProcessor = 4;
constexpr int kMaxRanked = 2048;  // centroids that are put in order by comparing each with each
// Lanes of one label from which on their sum is formed before it goes to memory.
constexpr int kManyAlike = 3;
// Bits of a place that do not count among centroids: enough are left to find neighbours.
__host__ __device__ constexpr int first_bit_of(int d) { return d == 1 ? 0 : 24; }

/// Coordinates between two centroids, so that they load as vectors.
__host__ __device__ constexpr int stride_of(int d) { return d <= 2 ? d : (d + 3) / 4 * 4; }

/// A cube around all points, for places on the curve.
struct Cube {
  float low[kMaxDimensions];
  float width;
};

/// Boxes of one level: columns low[0..d), high[0..d) of `count` values.
struct Boxes {
  float* dev_sides;
  std::int64_t count;
};

/// Points whose box has too many centroids near it, for a warp each.
struct Parted {
  std::int32_t* dev_points;  // places in curve order
  unsigned* dev_count;
};

/// Centroids in curve order ("slots"), and the boxes above them.
struct Tree {
  std::int64_t k;
  float* dev_centroids;       // k x stride_of(d)
  std::int32_t* dev_indices;  // slot -> centroid
  std::uint64_t* dev_places;  // on the curve, of the first centroids
  Integer* dev_sums;          // k x (d + 1) by slot: fixed-point sums, then the count
  Boxes groups;               // of kLanes slots
  Boxes supers;               // of kLanes groups; a single one has no box
};

/// Place of a point on the Hilbert curve through the cube, Skilling's transposition.
template <int D>
__device__ std::uint64_t curve_place(const float (&x)[D], const Cube& cube) {
  constexpr int kBits = D <= 2 ? 31 : 63 / D;
  unsigned axes[D];
#pragma unroll
  for (int t = 0; t < D; ++t) {
    const float share = (x[t] - cube.low[t]) / cube.width;
    const double cells = static_cast<double>(1ULL << kBits) - 1;
    axes[t] = static_cast<unsigned>(fmin(fmax(share * cells, 0.0), cells));
  }
  for (unsigned bit = 1U << (kBits - 1); bit > 1; bit >>= 1) {
#pragma unroll
    for (int t = 0; t < D; ++t) {
      const unsigned swapped = (axes[0] ^ axes[t]) & (bit - 1);
      if ((axes[t] & bit) != 0) {
        axes[0] ^= bit - 1;
      } else {
        axes[0] ^= swapped;
        axes[t] ^= swapped;
      }
    }
  }
#pragma unroll
  for (int t = 1; t < D; ++t) axes[t] ^= axes[t - 1];
  unsigned flips = 0;
  for (unsigned bit = 1U << (kBits - 1); bit > 1; bit >>= 1) {
    if ((axes[D - 1] & bit) != 0) flips ^= bit - 1;
  }
  std::uint64_t place = 0;
  for (int bit = kBits - 1; bit >= 0; --bit) {
#pragma unroll
    for (int t = 0; t < D; ++t) place = place << 1 | ((axes[t] ^ flips) >> bit & 1);
  }
  return place;
}

/// Integers that order as the numbers do, and back.
__host__ __device__ inline int in_order(int bits) { return bits >= 0 ? bits : bits ^ 0x7fffffff; }
inline float float_in_order(int ordered) { return std::bit_cast<float>(in_order(ordered)); }

/// The least and the largest of each column, a blockIdx.y, of n values, as in_order().
__global__ void __launch_bounds__(kThreads)
    enclose_kernel(const float* __restrict__ dev_columns, std::int64_t n, int* __restrict__ dev_low,
                   int* __restrict__ dev_high) {
  const float* dev_column = dev_columns + blockIdx.y * n;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  int low = in_order(__float_as_int(dev_column[0]));
  int high = low;
#pragma unroll 8
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += stride) {
    const int value = in_order(__float_as_int(dev_column[i]));
    low = min(low, value);
    high = max(high, value);
  }
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    low = min(low, __shfl_xor_sync(kAllLanes, low, distance));
    high = max(high, __shfl_xor_sync(kAllLanes, high, distance));
  }
  if (threadIdx.x % kLanes != 0) return;
  atomicMin(&dev_low[blockIdx.y], low);
  atomicMax(&dev_high[blockIdx.y], high);
}

/// Places of `count` values of D coordinates, those of value i at i * row + t * column.
template <int D>
__global__ void place_on_curve_kernel(const float* __restrict__ dev_values, std::int64_t count,
                                      std::int64_t row, std::int64_t column, Cube cube,
                                      std::uint64_t* __restrict__ dev_places,
                                      std::int32_t* __restrict__ dev_indices) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float x[D];
#pragma unroll
  for (int t = 0; t < D; ++t) x[t] = dev_values[i * row + t * column];
  dev_places[i] = curve_place<D>(x, cube);
  dev_indices[i] = static_cast<std::int32_t>(i);
}

__global__ void order_points_kernel(const float* __restrict__ dev_points, std::int64_t n,
                                    std::int64_t d, const std::int32_t* __restrict__ dev_order,
                                    float* __restrict__ dev_ordered) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const std::int64_t from = dev_order[i];
  for (std::int64_t t = 0; t < d; ++t) dev_ordered[t * n + i] = dev_points[t * n + from];
}

/// The centroids in curve order, where they are few: a warp counts how many come before its own.
template <int D>
__global__ void __launch_bounds__(kSuperSlots)
    rank_centroids_kernel(const float* __restrict__ dev_centroids, Tree tree, Cube cube) {
  __shared__ std::uint64_t places[kMaxRanked];
  for (int j = static_cast<int>(threadIdx.x); j < tree.k; j += kSuperSlots) {
    float x[D];
#pragma unroll
    for (int t = 0; t < D; ++t) x[t] = dev_centroids[j * D + t];
    places[j] = curve_place<D>(x, cube);
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int own = static_cast<int>(blockIdx.x * kLanes + threadIdx.x / kLanes);
  if (own >= tree.k) return;
  const std::uint64_t place = places[own] >> first_bit_of(D);
  int rank = 0;
  for (int j = lane; j < tree.k; j += kLanes) {
    const std::uint64_t other = places[j] >> first_bit_of(D);
    if (other < place || (other == place && j < own)) ++rank;
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    rank += __shfl_xor_sync(kAllLanes, rank, distance);
  }
  if (lane < stride_of(D)) {
    tree.dev_centroids[rank * stride_of(D) + lane] =
        lane < D ? dev_centroids[own * D + lane] : 0.0F;
  }
  if (lane == 0) {
    tree.dev_indices[rank] = own;
    tree.dev_places[rank] = places[own];
  }
}

template <int D>
__global__ void order_centroids_kernel(const float* __restrict__ dev_centroids, Tree tree) {
  const std::int64_t slot = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slot >= tree.k) return;
  const std::int64_t j = tree.dev_indices[slot];
  for (int t = 0; t < stride_of(D); ++t) {
    tree.dev_centroids[slot * stride_of(D) + t] = t < D ? dev_centroids[j * D + t] : 0.0F;
  }
}

template <int D>
struct Box {
  float low[D];
  float high[D];
};

/// The box around the warp's boxes, in all lanes.
template <int D>
__device__ Box<D> box_around(Box<D> box) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int t = 0; t < D; ++t) {
      box.low[t] = fminf(box.low[t], __shfl_xor_sync(kAllLanes, box.low[t], distance));
      box.high[t] = fmaxf(box.high[t], __shfl_xor_sync(kAllLanes, box.high[t], distance));
    }
  }
  return box;
}

template <int D>
__device__ void store_box(const Boxes& boxes, std::int64_t index, const Box<D>& box) {
#pragma unroll
  for (int t = 0; t < D; ++t) {
    boxes.dev_sides[t * boxes.count + index] = box.low[t];
    boxes.dev_sides[(D + t) * boxes.count + index] = box.high[t];
  }
}

template <int D>
__device__ Box<D> load_box(const Boxes& boxes, std::int64_t index) {
  Box<D> box;
#pragma unroll
  for (int t = 0; t < D; ++t) {
    box.low[t] = boxes.dev_sides[t * boxes.count + index];
    box.high[t] = boxes.dev_sides[(D + t) * boxes.count + index];
  }
  return box;
}

template <int D>
__device__ void load_centroid(const Tree& tree, std::int64_t slot, float (&c)[D]) {
  const float* row = tree.dev_centroids + slot * stride_of(D);
  if constexpr (stride_of(D) % 4 == 0) {
#pragma unroll
    for (int t = 0; t < D; t += 4) {
      const float4 four = *reinterpret_cast<const float4*>(row + t);
      c[t] = four.x;
      if (t + 1 < D) c[t + 1] = four.y;
      if (t + 2 < D) c[t + 2] = four.z;
      if (t + 3 < D) c[t + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int t = 0; t < D; ++t) c[t] = row[t];
  }
}

/// New centroids from the sums, an empty cluster keeping its own, and the boxes around them: a
/// thread a slot, a warp a group, a block of kSuperSlots threads a super. A single super is left out,
/// and blocks are smaller.
template <int D>
__global__ void __launch_bounds__(kSuperSlots)
    refit_kernel(Tree tree, double inverse_scale, float* __restrict__ dev_centroids,
                 unsigned* __restrict__ dev_parted_count) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *dev_parted_count = 0;
  const std::int64_t slot = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  Box<D> box;
#pragma unroll
  for (int t = 0; t < D; ++t) box.low[t] = INFINITY, box.high[t] = -INFINITY;
  if (slot < tree.k) {
    const Integer* sums = tree.dev_sums + slot * (D + 1);
    const auto count = static_cast<long long>(sums[D]);
    const std::int64_t j = tree.dev_indices[slot];
    float c[D];
    load_centroid<D>(tree, slot, c);
#pragma unroll
    for (int t = 0; t < D; ++t) {
      if (count > 0) {
        c[t] = exact_mean(static_cast<long long>(sums[t]), count, inverse_scale);
        tree.dev_centroids[slot * stride_of(D) + t] = c[t];
        dev_centroids[j * D + t] = c[t];
      }
      box.low[t] = box.high[t] = c[t];
    }
  }
  __shared__ Box<D> group_boxes[kLanes];
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  box = box_around(box);
  if (lane == 0) {
    group_boxes[warp] = box;
    const std::int64_t group = slot / kLanes;
    if (group < tree.groups.count) store_box<D>(tree.groups, group, box);
  }
  if (tree.supers.count == 1) return;
  __syncthreads();
  if (warp != 0) return;
  box = box_around(group_boxes[lane]);
  if (lane == 0) store_box<D>(tree.supers, blockIdx.x, box);
}

/// Squared distance between two boxes. As q in filter_factor(): never above what that allows.
template <int D>
__device__ float squared_gap(const Box<D>& a, const Box<D>& b) {
  float sum = 0;
#pragma unroll
  for (int t = 0; t < D; ++t) {
    const float gap =
        fmaxf(fmaxf(__fsub_rn(b.low[t], a.high[t]), __fsub_rn(a.low[t], b.high[t])), 0.0F);
    sum = __fmaf_rn(gap, gap, sum);
  }
  return sum;
}

template <int D>
__device__ float squared_distance(const float (&x)[D], const float (&c)[D]) {
  float sum = 0;
#pragma unroll
  for (int t = 0; t < D; ++t) {
    const float difference = __fsub_rn(x[t], c[t]);
    sum = __fmaf_rn(difference, difference, sum);
  }
  return sum;
}

/// Lanes whose box, `first` + lane, is not farther from the leaf than the limit.
template <int D>
__device__ unsigned near_boxes(const Boxes& boxes, std::int64_t first, const Box<D>& leaf,
                               float limit) {
  const std::int64_t index = first + threadIdx.x % kLanes;
  const bool near = index < boxes.count && !(squared_gap(load_box<D>(boxes, index), leaf) > limit);
  return __ballot_sync(kAllLanes, near);
}

/// Calls visit(first slot) with every group that is not farther from the leaf than the limit, until
/// it says false.
template <int D, class Visit>
__device__ void visit_groups(const Tree& tree, const Box<D>& leaf, float limit, Visit visit) {
  for (std::int64_t first = 0; first < tree.supers.count; first += kLanes) {
    unsigned supers = tree.supers.count == 1 ? 1 : near_boxes(tree.supers, first, leaf, limit);
    for (; supers != 0; supers &= supers - 1) {
      const std::int64_t super = first + __ffs(static_cast<int>(supers)) - 1;
      for (unsigned groups = near_boxes(tree.groups, super * kLanes, leaf, limit); groups != 0;
           groups &= groups - 1) {
        const std::int64_t group = super * kLanes + __ffs(static_cast<int>(groups)) - 1;
        if (!visit(group * kLanes)) return;
      }
    }
  }
}

template <int D>
__device__ Box<D> box_of(const float (&x)[D]) {
  Box<D> box;
#pragma unroll
  for (int t = 0; t < D; ++t) box.low[t] = box.high[t] = x[t];
  return box;
}

/// Calls visit(slot, centroid), the same for all lanes, with every centroid that is not farther
/// from the leaf than the limit. False where there are more than `most` of them.
template <int D, class Visit>
__device__ bool visit_near(const Tree& tree, const Box<D>& leaf, float limit, int most,
                           Visit visit) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  visit_groups<D>(tree, leaf, limit, [&](std::int64_t slot) {
    float own[D] = {};
    bool near = false;
    if (slot + lane < tree.k) {
      load_centroid<D>(tree, slot + lane, own);
      near = !(squared_gap(box_of(own), leaf) > limit);
    }
    unsigned slots = __ballot_sync(kAllLanes, near);
    most -= __popc(slots);
    if (most < 0) return false;
    for (; slots != 0; slots &= slots - 1) {
      const int from = __ffs(static_cast<int>(slots)) - 1;
      float c[D];
#pragma unroll
      for (int t = 0; t < D; ++t) c[t] = __shfl_sync(kAllLanes, own[t], from);
      visit(static_cast<std::int32_t>(slot + from), c);
    }
    return true;
  });
  return most >= 0;
}

/// Where no label is known: squared distance to the nearest of the centroids next to the point on the
/// curve. Any centroids would do; near ones leave fewer to visit. `on_curve` is the point whose
/// place counts, of a lane.
template <int D>
__device__ float first_limit(const Tree& tree, const Cube& cube, const float (&x)[D],
                             int on_curve) {
  constexpr int kFirstBit = first_bit_of(D);
  const std::uint64_t place =
      __shfl_sync(kAllLanes, curve_place<D>(x, cube), on_curve) >> kFirstBit;
  std::int64_t low = 0;
  for (std::int64_t high = tree.k; low < high;) {
    const std::int64_t middle = (low + high) / 2;
    if (tree.dev_places[middle] >> kFirstBit < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const std::int64_t first = max(min(low - kLanes / 2, tree.k - kLanes), std::int64_t{0});
  float best = INFINITY;
  for (std::int64_t slot = first; slot < min(first + kLanes, tree.k); ++slot) {
    float c[D];
    load_centroid<D>(tree, slot, c);
    best = fminf(best, squared_distance<D>(x, c));
  }
  return best;
}

/// Squared distance to some centroid that lies near.
template <int D, bool kFirst>
__device__ float known_distance(const Tree& tree, const Cube& cube, const float (&x)[D],
                                std::int32_t before) {
  if constexpr (kFirst) {
    return first_limit<D>(tree, cube, x, kLanes / 2);
  } else {
    float c[D];
    load_centroid<D>(tree, before, c);
    return squared_distance<D>(x, c);
  }
}

/// The float32 bounds: what is farther than this is farther than `distance`, rounding included.
template <int D>
__device__ float limit_of(float distance) {
  return __fmaf_rn(distance, filter_factor(D), kFilterTiny);
}

template <int D>
__device__ double exact_distance(const float (&x)[D], const float (&c)[D]) {
  double distance = 0;
#pragma unroll
  for (int t = 0; t < D; ++t) distance = add_exact_square(distance, x[t], c[t]);
  return distance;
}

/// The nearest of the centroids that were offered, by their distances as defined, which are finite.
struct Nearest {
  double distance;
  std::int32_t index;  // the lowest wins a tie
  std::int32_t slot;

  __device__ void offer(double its_distance, std::int32_t its_index, std::int32_t its_slot) {
    if (its_distance < distance || (its_distance == distance && its_index < index)) {
      distance = its_distance;
      index = its_index;
      slot = its_slot;
    }
  }
};

/// Adds the points of the lanes that take part (or takes them away) to their slots. All lanes call.
template <int D>
__device__ void add_points(const Tree& tree, const long long (&values)[D + 1], bool takes_part,
                           std::int32_t slot) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned alike =
      __match_any_sync(kAllLanes, takes_part ? slot : -1 - lane);  // no slot is negative
  const bool many = takes_part && __popc(alike) >= kManyAlike;
  if (takes_part && !many) {
#pragma unroll
    for (int t = 0; t <= D; ++t) {
      atomicAdd(&tree.dev_sums[std::int64_t{slot} * (D + 1) + t], static_cast<Integer>(values[t]));
    }
  }
  for (unsigned left = __ballot_sync(kAllLanes, many); left != 0;) {
    const int leader = __ffs(static_cast<int>(left)) - 1;
    const unsigned own = __shfl_sync(kAllLanes, alike, leader);
    const std::int64_t to = __shfl_sync(kAllLanes, slot, leader);
    const bool counts = (own >> lane & 1) != 0;
    Integer mine = 0;  // the sum that this lane adds to memory
#pragma unroll
    for (int t = 0; t <= D; ++t) {
      Integer sum = counts ? static_cast<Integer>(values[t]) : 0;
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, distance);
      }
      mine = lane == t ? sum : mine;
    }
    if (lane <= D) atomicAdd(&tree.dev_sums[to * (D + 1) + lane], mine);
    left &= ~own;
  }
}

/// The points of a warp change from slot to slot (-1: from none). All lanes call.
template <int D>
__device__ void move_points(const Tree& tree, const float (&x)[D], double scale, bool moves,
                            std::int32_t from, std::int32_t to) {
  if (!__any_sync(kAllLanes, moves)) return;
  long long values[D + 1];
#pragma unroll
  for (int t = 0; t < D; ++t) values[t] = exact_fixed_point(x[t], scale);
  values[D] = 1;
  add_points<D>(tree, values, moves, to);
#pragma unroll
  for (int t = 0; t <= D; ++t) values[t] = -values[t];
  add_points<D>(tree, values, moves && from >= 0, from);
}

/// dev_slots: of the ordered points, -1 before the first iteration. Labels go to the points' own
/// places.
template <int D, bool kFirst>
__global__ void __launch_bounds__(kThreads)
    assign_near_kernel(const float* __restrict__ dev_ordered, std::int64_t n,
                       const std::int32_t* __restrict__ dev_order, Tree tree, Cube cube,
                       double scale, std::int32_t* __restrict__ dev_slots,
                       std::int32_t* __restrict__ dev_labels, Parted parted) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i / kLanes * kLanes >= n) return;  // whole warps: the others' lanes work together
  const std::int64_t own = min(i, n - 1);
  float x[D];
#pragma unroll
  for (int t = 0; t < D; ++t) x[t] = dev_ordered[t * n + own];
  const Box<D> leaf = box_around(box_of(x));

  const std::int32_t before = kFirst ? -1 : dev_slots[own];
  const float known = known_distance<D, kFirst>(tree, cube, x, before);
  // All centroids beyond the limit are farther from every point here than one that it knows.
  const float farthest = __uint_as_float(warp_max(__float_as_uint(known)));
  const float limit = limit_of<D>(farthest);

  float best = INFINITY;
  float second = INFINITY;
  std::int32_t nearest = -1;
  const bool visited =
      visit_near<D>(tree, leaf, limit, kMaxVisits, [&](std::int32_t slot, const float(&c)[D]) {
        const float distance = squared_distance<D>(x, c);
        nearest = distance < best || nearest < 0 ? slot : nearest;
        second = fminf(second, fmaxf(best, distance));
        best = fminf(best, distance);
      });
  if (!visited) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    unsigned place = 0;
    const std::int64_t first = i - lane;
    const auto count = static_cast<unsigned>(min(n - first, std::int64_t{kLanes}));
    if (lane == 0) place = atomicAdd(parted.dev_count, count);
    place = __shfl_sync(kAllLanes, place, 0);
    if (i < n)
      parted.dev_points[place + static_cast<unsigned>(lane)] = static_cast<std::int32_t>(i);
    return;
  }
  const bool decided = second > limit_of<D>(best);
  if (__any_sync(kAllLanes, !decided)) {
    Nearest exactly{INFINITY, INT32_MAX, nearest};
    visit_near<D>(tree, leaf, limit, kMaxVisits, [&](std::int32_t slot, const float(&c)[D]) {
      if (decided) return;
      exactly.offer(exact_distance<D>(x, c), tree.dev_indices[slot], slot);
    });
    nearest = exactly.slot;
  }
  const bool moves = i < n && nearest != before;
  if (moves) {
    dev_slots[i] = nearest;
    dev_labels[dev_order[i]] = tree.dev_indices[nearest];
  }
  move_points<D>(tree, x, scale, moves, before, nearest);
}

/// The points that had to part, a warp for each, its lanes 32 centroids at a time.
template <int D, bool kFirst>
__global__ void __launch_bounds__(kThreads)
    assign_parted_kernel(const float* __restrict__ dev_ordered, std::int64_t n,
                         const std::int32_t* __restrict__ dev_order, Tree tree, Cube cube,
                         double scale, std::int32_t* __restrict__ dev_slots,
                         std::int32_t* __restrict__ dev_labels, Parted parted) {
  constexpr int kWarps = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned count = *parted.dev_count;
  for (unsigned entry = blockIdx.x * kWarps + threadIdx.x / kLanes; entry < count;
       entry += gridDim.x * kWarps) {
    const std::int64_t i = parted.dev_points[entry];
    float x[D];
#pragma unroll
    for (int t = 0; t < D; ++t) x[t] = dev_ordered[t * n + i];
    const Box<D> place = box_of(x);
    const std::int32_t before = kFirst ? -1 : dev_slots[i];
    const float limit = limit_of<D>(known_distance<D, kFirst>(tree, cube, x, before));

    float best = INFINITY;
    float second = INFINITY;  // of this lane's
    std::int32_t own = 0;
    visit_groups<D>(tree, place, limit, [&](std::int64_t slot) {
      if (slot + lane >= tree.k) return true;
      float c[D];
      load_centroid<D>(tree, slot + lane, c);
      const float distance = squared_distance<D>(x, c);
      if (distance < best) own = static_cast<std::int32_t>(slot + lane);
      second = fminf(second, fmaxf(best, distance));
      best = fminf(best, distance);
      return true;
    });
    const float least = __uint_as_float(warp_min(__float_as_uint(best)));
    // Whatever float32 cannot separate from the nearest, as defined.
    const float close = limit_of<D>(least);
    const unsigned close_lanes = __ballot_sync(kAllLanes, !(best > close));
    Nearest nearest{INFINITY, INT32_MAX, -1};
    if (__popc(close_lanes) == 1 && !__any_sync(kAllLanes, !(second > close))) {
      nearest.slot = __shfl_sync(kAllLanes, own, __ffs(static_cast<int>(close_lanes)) - 1);
      nearest.index = tree.dev_indices[nearest.slot];
    } else {
      visit_groups<D>(tree, place, close, [&](std::int64_t slot) {
        if (slot + lane >= tree.k) return true;
        float c[D];
        load_centroid<D>(tree, slot + lane, c);
        if (squared_distance<D>(x, c) > close) return true;
        nearest.offer(exact_distance<D>(x, c), tree.dev_indices[slot + lane],
                      static_cast<std::int32_t>(slot + lane));
        return true;
      });
#pragma unroll
      for (int distance = kLanes / 2; distance > 0; distance /= 2) {
        nearest.offer(__shfl_xor_sync(kAllLanes, nearest.distance, distance),
                      __shfl_xor_sync(kAllLanes, nearest.index, distance),
                      __shfl_xor_sync(kAllLanes, nearest.slot, distance));
      }
    }
    const bool moves = nearest.slot != before;
    if (moves && lane == 0) {
      dev_slots[i] = nearest.slot;
      dev_labels[dev_order[i]] = nearest.index;
    }
    move_points<D>(tree, x, scale, moves && lane == 0, before, nearest.slot);
  }
}

kmeans::Support few_coordinates(const kmeans::Shape& shape) {
  if (shape.d > kMaxDimensions) {
    return kmeans::Support::no("d = " + std::to_string(shape.d) + " exceeds " +
                               std::to_string(kMaxDimensions) +
                               ": boxes around neighbours leave hardly a centroid out");
  }
  return counts_fit(shape);
}

/// Memory for sorting indices by place on the curve.
struct CurveSort {
  CurveSort() = default;
  explicit CurveSort(std::int64_t values)
      : count(values), dev_places(2 * values), dev_indices(values) {
    KMEANS_CUDA(call(nullptr, 0, nullptr));  // says how many bytes it needs
    dev_scratch = DeviceBuffer<char>(static_cast<std::int64_t>(bytes));
  }
  void run(int first_bit, const DeviceBuffer<std::int32_t>& dev_order) {
    KMEANS_CUDA(call(dev_scratch.data(), first_bit, dev_order.data()));
  }
  cudaError_t call(void* scratch, int first_bit, std::int32_t* dev_order) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, dev_places.data(),
                                           dev_places.data() + count, dev_indices.data(), dev_order,
                                           count, first_bit);
  }

  std::int64_t count = 0;
  std::size_t bytes = 0;
  DeviceBuffer<std::uint64_t> dev_places;  // as given, then sorted
  DeviceBuffer<std::int32_t> dev_indices;
  DeviceBuffer<char> dev_scratch;
};

class CudaTree final : public CudaLloyd<float> {
 public:
  CudaTree() : CudaLloyd<float>(Layout::columns) {}

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
    enclose();
    int device = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    KMEANS_CUDA(cudaDeviceGetAttribute(&parted_blocks_, cudaDevAttrMultiProcessorCount, device));
    parted_blocks_ *= kPartedBlocksPerProcessor;

    dev_order_ = DeviceBuffer<std::int32_t>(n);
    CurveSort sort(n);
    sort_on_curve(dev_points_, 1, n, 0, sort, dev_order_);
    DeviceBuffer<float> dev_ordered(n * d);
    order_points_kernel<<<blocks_for(n, kThreads), kThreads>>>(
        dev_points_.data(), n, d, dev_order_.data(), dev_ordered.data());
    KMEANS_CUDA_LAUNCHED(order_points_kernel);
    KMEANS_CUDA(cudaDeviceSynchronize());
    dev_points_ = std::move(dev_ordered);

    dev_slots_ = DeviceBuffer<std::int32_t>(n);
    dev_parted_ = DeviceBuffer<std::int32_t>(n);
    dev_parted_count_ = DeviceBuffer<unsigned>(1);
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
                 .dev_places = centroid_sort_.dev_places.data() + k,
                 .dev_sums = dev_sums_.data(),
                 .groups = {dev_group_sides_.data(), groups},
                 .supers = {dev_super_sides_.data(), supers}};
    iteration_.record([this](cudaStream_t stream) { launch<false>(stream); });
  }

  /// The cube around the points.
  void enclose() {
    const auto [n, d, k, precision] = shape();
    constexpr int kNone = 0x7fffffff;
    std::vector<int> sides(2 * d, kNone);
    std::fill(sides.begin() + d, sides.end(), -kNone);
    const DeviceBuffer<int> dev_sides(2 * d);
    dev_sides.upload(sides.data());
    const dim3 blocks(std::min(blocks_for(n, 8 * kThreads), 512U), static_cast<unsigned>(d));
    enclose_kernel<<<blocks, kThreads>>>(dev_points_.data(), n, dev_sides.data(),
                                         dev_sides.data() + d);
    KMEANS_CUDA_LAUNCHED(enclose_kernel);
    dev_sides.download(sides.data());
    cube_ = {};
    for (std::int64_t t = 0; t < d; ++t) {
      cube_.low[t] = float_in_order(sides[t]);
      cube_.width = std::max(cube_.width, float_in_order(sides[d + t]) - cube_.low[t]);
    }
    if (cube_.width == 0) cube_.width = 1;
  }

  /// Indices of values in curve order, coordinate t of value i at i * row + t * column. Bits of
  /// the places below `first_bit` do not count.
  void sort_on_curve(const DeviceBuffer<float>& dev_values, std::int64_t row, std::int64_t column,
                     int first_bit, CurveSort& sort,
                     const DeviceBuffer<std::int32_t>& dev_order) const {
    with_dimensions([&](auto dimensions) {
      place_on_curve_kernel<dimensions><<<blocks_for(sort.count, kThreads), kThreads>>>(
          dev_values.data(), sort.count, row, column, cube_, sort.dev_places.data(),
          sort.dev_indices.data());
      KMEANS_CUDA_LAUNCHED(place_on_curve_kernel);
    });
    sort.run(first_bit, dev_order);
  }

  void restart() override {
    dev_sums_.zero();
    dev_slots_.fill_bytes(0xff);
    dev_parted_count_.zero();
    ordered_ = false;
  }

  /// Part of the first iteration, since it depends on the first centroids.
  void order_centroids() {
    const auto timed = stage("order");
    const auto [n, d, k, precision] = shape();
    if (k <= kMaxRanked) {
      with_dimensions([&](auto dimensions) {
        rank_centroids_kernel<dimensions>
            <<<blocks_for(k, kLanes), kSuperSlots>>>(dev_centroids_.data(), tree_, cube_);
        KMEANS_CUDA_LAUNCHED(rank_centroids_kernel);
      });
    } else {
      sort_on_curve(dev_centroids_, d, 1, first_bit_of(static_cast<int>(d)), centroid_sort_,
                    dev_indices_);
      with_dimensions([&](auto dimensions) {
        order_centroids_kernel<dimensions>
            <<<blocks_for(k, kThreads), kThreads>>>(dev_centroids_.data(), tree_);
        KMEANS_CUDA_LAUNCHED(order_centroids_kernel);
      });
    }
    refit(nullptr);  // no cluster has points yet: boxes alone
  }

  void iterate() override {
    if (ordered_) return launch<false>(nullptr);
    order_centroids();
    launch<true>(nullptr);
    ordered_ = true;
  }

  void iterate_times(std::int64_t iterations) override {
    if (profiled()) return CudaLloyd::iterate_times(iterations);
    if (!ordered_ && iterations > 0) {
      iterate();
      --iterations;
    }
    iteration_.launch(iterations);
  }

  template <bool kFirst>
  void launch(cudaStream_t stream) {
    assign<kFirst>(stream);
    const auto timed = stage("update");
    refit(stream);
  }

  template <bool kFirst>
  void assign(cudaStream_t stream) {
    const auto timed = stage("assign");
    const Parted parted{dev_parted_.data(), dev_parted_count_.data()};
    with_dimensions([&](auto dimensions) {
      const std::int64_t n = shape().n;
      assign_near_kernel<dimensions, kFirst><<<blocks_for(n, kThreads), kThreads, 0, stream>>>(
          dev_points_.data(), n, dev_order_.data(), tree_, cube_, scale_, dev_slots_.data(),
          dev_labels_.data(), parted);
      KMEANS_CUDA_LAUNCHED(assign_near_kernel);
      // As many as work at once: how many points parted is known to the GPU alone.
      const auto blocks = std::min<std::int64_t>(parted_blocks_, blocks_for(n, kThreads / kLanes));
      assign_parted_kernel<dimensions, kFirst>
          <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
              dev_points_.data(), n, dev_order_.data(), tree_, cube_, scale_, dev_slots_.data(),
              dev_labels_.data(), parted);
      KMEANS_CUDA_LAUNCHED(assign_parted_kernel);
    });
  }

  void refit(cudaStream_t stream) {
    with_dimensions([&](auto dimensions) {
      const int threads = tree_.supers.count == 1 ? kFewThreads : kSuperSlots;
      refit_kernel<dimensions>
          <<<blocks_for(tree_.k, threads), static_cast<unsigned>(threads), 0, stream>>>(
              tree_, inverse_scale_, dev_centroids_.data(), dev_parted_count_.data());
      KMEANS_CUDA_LAUNCHED(refit_kernel);
    });
  }

  int parted_blocks_ = 0;
  double scale_ = 1;
  double inverse_scale_ = 1;
  bool ordered_ = false;
  Cube cube_{};
  Tree tree_{};
  CurveSort centroid_sort_;
  IterationGraph iteration_;              // any but the first
  DeviceBuffer<std::int32_t> dev_order_;  // place in curve order -> point
  DeviceBuffer<std::int32_t> dev_slots_;  // place in curve order -> slot
  DeviceBuffer<std::int32_t> dev_parted_;
  DeviceBuffer<unsigned> dev_parted_count_;
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
