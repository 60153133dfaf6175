// SPDX-License-Identifier: Apache-2.0
//
// How the kernel of _tensor_frame.cuh is cut to a shape: tiles, stages, warp groups and the shared
// memory of a block, by what a block may have.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "harness/machine/gpu.h"
#include "implementations/_limits.h"
#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_wgmma.cuh"
#include "implementations/cuda/tuning.h"

namespace kmeans::cuda {

constexpr int kTileRows = 64;          // points of a tile, those of a matrix instruction
constexpr int kProductChunks = 2;      // core matrices along the columns of a product
constexpr int kProductBytes = 32;      // of a row in a product
constexpr int kRegisterProducts = 16;  // whole stages of two
constexpr int kMaxStages = 24;
constexpr int kMaxPointBuffers = 12;
constexpr int kMaxParts = 32;
constexpr std::int64_t kMaxProducts = 993;  // of a row: d up to 15 884 as float16
constexpr std::int64_t kBarrierBytes = 1024;

/// A shape as the kernels see it.
struct Extents {
  std::int64_t n;
  std::int64_t d;
  std::int64_t k;
  int padded;   // d and the extra columns, whole products
  int columns;  // centroids of a tile
  std::int64_t point_tiles;
  int centroid_tiles;
  int point_buffers;  // tiles of points in shared memory
  int stages;         // of shared memory for pieces of centroids
  bool resident;      // all centroids stay in the stages
  int order_after;    // stages that a group multiplies before the next may begin; 0: not ordered
  int parts;          // of the centroids' tiles, each for other blocks
};

__host__ __device__ inline std::int64_t tile_elements(const Extents& s) {
  return std::int64_t{kTileRows} * s.padded;
}

/// How a tile of centroids passes through shared memory: stages of kProducts products, then one of
/// kRest unless that is 0. kOneStage: a tile is one stage. kInRegisters: so many products have
/// their rows in registers. kStreamsPoints: a stage brings the points' columns with the centroids',
/// since no tile of points has room.
template <int kProducts_, int kRest_, bool kOneStage_, int kInRegisters_ = 0,
          bool kStreamsPoints_ = false>
struct Pipeline {
  static constexpr int kProducts = kProducts_;
  static constexpr int kRest = kRest_;
  static constexpr bool kOneStage = kOneStage_;
  static constexpr int kInRegisters = kInRegisters_;
  static constexpr bool kStreamsPoints = kStreamsPoints_;
  static_assert(!kOneStage || (kRest == 0 && kInRegisters == 0));
  static_assert(kInRegisters % kProducts == 0);
  static_assert(!kStreamsPoints || (kInRegisters == 0 && !kOneStage));
};

/// Of a block: consumer warp groups, a producer warp for centroids and one for points, and those
/// that prefetch.
__host__ __device__ constexpr int threads_for(int groups, int prefetch_warps = 0) {
  return (groups * kGroupWarps + 2 + prefetch_warps) * 32;
}

/// From row to row of what is prefetched; an odd number of 16 bytes, so that the pieces of eight
/// rows are in different banks.
template <class Element>
__host__ __device__ std::int64_t prefetch_pitch(std::int64_t padded) {
  return padded + kCoreElements<Element>;
}
/// A row and a width for each row of a tile.
template <class Element>
__host__ __device__ std::int64_t prefetch_bytes(std::int64_t padded) {
  return kTileRows * (prefetch_pitch<Element>(padded) * static_cast<std::int64_t>(sizeof(Element)) +
                      static_cast<std::int64_t>(sizeof(float)));
}

/// Of a tile of points, without the products whose rows are in registers.
__host__ __device__ constexpr std::int64_t point_buffer_bytes(std::int64_t row_bytes,
                                                              int in_registers) {
  return kTileRows * (row_bytes - in_registers * kProductBytes);
}
/// `rows`: of points that come with the centroids.
__host__ __device__ constexpr std::int64_t stage_bytes(int products, int columns, int rows) {
  return std::int64_t{products} * kProductBytes * (columns + rows);
}

/// A block's dynamic shared memory, as offsets in bytes. The barriers come first, and a piece for
/// each consumer warp after kBarrierBytes.
struct SharedLayout {
  std::int64_t prefetched;  // rows, then their widths
  std::int64_t points;      // buffers
  std::int64_t stages;      // of centroids
  std::int64_t end;
};
__host__ __device__ constexpr SharedLayout shared_layout(std::int64_t warp_bytes,
                                                         std::int64_t bytes_to_prefetch,
                                                         std::int64_t all_point_buffers,
                                                         std::int64_t all_stages) {
  const std::int64_t prefetched = kBarrierBytes + warp_bytes;
  const std::int64_t points = prefetched + bytes_to_prefetch;
  const std::int64_t stages = points + all_point_buffers;
  return {prefetched, points, stages, stages + all_stages};
}

/// How a shape is cut.
struct Plan {
  int columns = 0;        // centroids of a tile
  int groups = 0;         // consumer warp groups; 0: nothing fits
  int point_buffers = 0;  // tiles of points in shared memory
  int products = 0;       // of a stage
  int in_registers = 0;   // products of a row
  int stages = 0;
  bool streams_points = false;  // they come with the centroids
  bool resident = false;        // the centroids stay in shared memory
  bool prefetches = false;      // the centroids that were nearest before
  int order_after = 0;
  std::size_t shared_bytes = 0;
};

/// Where a block has no room for points: their columns stream with those of the centroids. The
/// groups reduce for a small part of their time there, so an ordering barrier costs more than it
/// saves.
inline Plan streaming_plan(std::int64_t products, std::int64_t shared_bytes,
                           std::int64_t warp_bytes) {
  Plan plan{.columns = 128, .groups = 4, .products = 2, .streams_points = true};
  const std::int64_t all_warps = plan.groups * kGroupWarps * warp_bytes;
  const std::int64_t stage = stage_bytes(plan.products, plan.columns, plan.groups * kTileRows);
  plan.stages = static_cast<int>(
      std::min<std::int64_t>(kMaxStages, (shared_bytes - kBarrierBytes - all_warps) / stage));
  // What every product cuts off adds up (_half_bounds.cuh).
  if (plan.stages < 3 || products < plan.products || products > kMaxProducts) return {};
  plan.shared_bytes =
      static_cast<std::size_t>(shared_layout(all_warps, 0, 0, plan.stages * stage).end);
  return plan;
}

/// In how many parts blocks share out so many tiles of centroids, if the points come in so many
/// rounds: as many as possible, since the blocks of a round read its points together, unless more
/// of them would leave blocks without work.
inline int parts_for(std::int64_t rounds, std::int64_t tiles, std::int64_t blocks) {
  const auto passes = [&](std::int64_t parts) {
    return ceil_div(rounds, blocks / parts) * ceil_div(tiles, parts);
  };
  const std::int64_t most = std::min({tiles, blocks, std::int64_t{kMaxParts}});
  std::int64_t least = passes(1);
  for (std::int64_t parts = 2; parts <= most; ++parts) least = std::min(least, passes(parts));
  for (std::int64_t parts = most; parts > 1; --parts) {
    if (10 * passes(parts) <= tuning::kPassesOfMoreParts * least) return static_cast<int>(parts);
  }
  return 1;
}

/// How many warp groups, how many products of a row in registers, and how many stages at least.
struct Division {
  int groups;
  int in_registers;
  int min_stages;
};

/// What plan_for() is asked for: `padded` elements a row, `warp_bytes` of shared memory for each
/// consumer warp, `bytes_to_prefetch` for a block.
struct PlanRequest {
  std::int64_t padded;
  std::int64_t k;
  std::int64_t shared_bytes;
  std::int64_t warp_bytes = 0;
  std::int64_t bytes_to_prefetch = 0;
};

/// Gives a plan its stages and buffers of points. false: too few stages.
inline bool fill_shared_memory(Plan& plan, const PlanRequest& asked, std::int64_t products,
                               int min_stages) {
  const std::int64_t buffer = point_buffer_bytes(products * kProductBytes, plan.in_registers);
  const std::int64_t stage = stage_bytes(plan.products, plan.columns, 0);
  // Stages of a tile of centroids, and of all.
  const std::int64_t tile_stages = ceil_div(products, plan.products);
  const std::int64_t all_stages = ceil_div(asked.k, plan.columns) * tile_stages;
  const std::int64_t all_warps = plan.groups * kGroupWarps * asked.warp_bytes;
  const std::int64_t room =
      asked.shared_bytes - shared_layout(all_warps, asked.bytes_to_prefetch, 0, 0).end;
  // Resident centroids leave the room to points, which come from memory.
  plan.resident =
      all_stages <= kMaxStages && room >= all_stages * stage + (plan.groups + 1) * buffer;
  if (plan.resident) {
    plan.stages = static_cast<int>(all_stages);
    plan.point_buffers = static_cast<int>(
        std::min<std::int64_t>(kMaxPointBuffers, (room - all_stages * stage) / buffer));
  } else {
    // One buffer more than there are groups, if that leaves two tiles of centroids.
    const std::int64_t more = room - (plan.groups + 1) * buffer >= 2 * tile_stages * stage ? 1 : 0;
    plan.point_buffers = plan.groups + static_cast<int>(more);
    plan.stages = static_cast<int>(
        std::min<std::int64_t>(kMaxStages, (room - plan.point_buffers * buffer) / stage));
    if (plan.stages < min_stages) return false;
  }
  plan.shared_bytes =
      static_cast<std::size_t>(shared_layout(all_warps, asked.bytes_to_prefetch,
                                             plan.point_buffers * buffer, plan.stages * stage)
                                   .end);
  return true;
}

/// Fewer columns than a tile of 128 have kernels of their own for float16, where points are read
/// fast.
template <class Element>
Plan plan_for(const PlanRequest& asked) {
  constexpr bool kHalf = sizeof(Element) == 2;
  const std::int64_t products =
      asked.padded * static_cast<std::int64_t>(sizeof(Element)) / kProductBytes;
  // With two groups registers are free.
  for (const Division& division :
       {Division{4, 0, 3}, Division{2, 0, kHalf ? tuning::kFewestHalfStages : 3},
        Division{2, kRegisterProducts, 3}}) {
    const int groups = division.groups;
    if (division.in_registers > 0 && (!kHalf || products <= division.in_registers)) continue;
    const int columns = groups == 2 || asked.k > 64 || !kHalf ? 128 : (asked.k > 16 ? 64 : 16);
    Plan plan{
        .columns = columns, .groups = groups, .products = 4, .in_registers = division.in_registers};
    if (groups == 2) {
      plan.products = 2;
    } else if ((kHalf && products <= 3) ||
               (columns == 128 && tuning::is_one_stage(products, !kHalf))) {
      plan.products = static_cast<int>(products);
    }
    if (!fill_shared_memory(plan, asked, products, division.min_stages)) continue;
    // The next group begins when this one has its share of a tile behind it, so that they do not
    // all reduce at once, or as soon as the stages allow. Where some tiles take longer to reduce
    // than others, as with bytes, an ordering barrier would make all groups wait.
    if (kHalf && columns > 16) {
      const std::int64_t share = ceil_div(products, plan.products) / groups;
      plan.order_after = static_cast<int>(
          std::max<std::int64_t>(1, std::min<std::int64_t>(share, plan.stages - 3)));
    }
    return plan;
  }
  if constexpr (kHalf) return streaming_plan(products, asked.shared_bytes, asked.warp_bytes);
  return {};
}

/// A shape by its plan.
inline Extents extents_of(const Shape& shape, const Plan& plan, std::int64_t padded) {
  return {.n = shape.n,
          .d = shape.d,
          .k = shape.k,
          .padded = static_cast<int>(padded),
          .columns = plan.columns,
          .point_tiles = ceil_div(shape.n, plan.groups * kTileRows) * plan.groups,
          .centroid_tiles = static_cast<int>(ceil_div(shape.k, plan.columns)),
          .point_buffers = plan.point_buffers,
          .stages = plan.stages,
          .resident = plan.resident,
          .order_after = plan.order_after,
          .parts = 1};
}

/// Whether Hopper's matrix units take a shape by all of these plans, and why not.
inline Support runs_on_hopper(
    const Shape& shape, std::initializer_list<Plan (*)(const Shape&, const GpuDevice&)> plans) {
  const GpuDevice* gpu = current_gpu();
  if (gpu == nullptr) return counts_fit(shape);
  if (gpu->major != 9 || gpu->minor != 0) {
    return Support::no("its matrix instructions are those of compute capability 9.0; this is " +
                       std::to_string(gpu->major) + "." + std::to_string(gpu->minor));
  }
  for (const auto plan_of : plans) {
    if (plan_of(shape, *gpu).groups > 0) continue;
    return Support::no(
        "d = " + std::to_string(shape.d) +
        ": a tile of points exceeds the shared memory of a block, or what its products "
        "may lose by rounding exceeds what the bound allows for");
  }
  if (shape.n >= std::int64_t{1} << 30) {
    return Support::no("n = " + std::to_string(shape.n) +
                       " points: their moves between clusters are counted in 32 bits, two a "
                       "point, so at most 1073741823");
  }
  return counts_fit(shape);
}

/// Calls use(columns, groups, pipeline) with what the plan and the products of a row say as
/// constants.
template <class Element, class Use>
void with_pipeline(const Plan& plan, int products, const Use& use) {
  using std::integral_constant;
  const integral_constant<int, 128> wide;
  if (plan.groups == 2) {
    const integral_constant<int, 2> groups;
    if constexpr (sizeof(Element) == 2) {
      if (plan.in_registers > 0) {
        if (products % 2 == 0) return use(wide, groups, Pipeline<2, 0, false, kRegisterProducts>());
        return use(wide, groups, Pipeline<2, 1, false, kRegisterProducts>());
      }
    }
    if (products % 2 == 0) return use(wide, groups, Pipeline<2, 0, false>());
    return use(wide, groups, Pipeline<2, 1, false>());
  }
  const integral_constant<int, 4> groups;
  if constexpr (sizeof(Element) == 2) {
    if (plan.streams_points) {
      if (products % 2 == 0) return use(wide, groups, Pipeline<2, 0, false, 0, true>());
      return use(wide, groups, Pipeline<2, 1, false, 0, true>());
    }
  }
  const auto with_columns = [&](auto columns) {
    if constexpr (columns == 128) {
      if (plan.products == 9) return use(columns, groups, Pipeline<9, 0, true>());
      if constexpr (tuning::is_one_stage(5, sizeof(Element) == 1)) {
        if (plan.products == 5) return use(columns, groups, Pipeline<5, 0, true>());
      }
    }
    if constexpr (sizeof(Element) == 2) {
      if (plan.products == 1) return use(columns, groups, Pipeline<1, 0, true>());
      if (plan.products == 2) return use(columns, groups, Pipeline<2, 0, true>());
      if (plan.products == 3) return use(columns, groups, Pipeline<3, 0, true>());
    }
    switch (products % 4) {
      case 0: return use(columns, groups, Pipeline<4, 0, false>());
      case 1: return use(columns, groups, Pipeline<4, 1, false>());
      case 2: return use(columns, groups, Pipeline<4, 2, false>());
      default: return use(columns, groups, Pipeline<4, 3, false>());
    }
  };
  if constexpr (sizeof(Element) == 2) {
    if (plan.columns == 64) return with_columns(integral_constant<int, 64>());
    if (plan.columns == 16) return with_columns(integral_constant<int, 16>());
  }
  with_columns(wide);
}

}  // namespace kmeans::cuda
