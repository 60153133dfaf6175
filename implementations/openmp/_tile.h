// SPDX-License-Identifier: Apache-2.0
//
// The inner kernel: the nearest of all centroids for a tile of points, distances in registers.
//
// Points lie in the lanes: a tile is d x P, where P = M registers. Centroids come in groups of C: a
// group is (1 + d) x C, its first row the squared norms, the others the coordinates times -2. So a
// point's value for a centroid is v = |c|^2 + sum_t x_t (-2 c_t) = D - |x|^2: one fused
// multiply-add a coordinate. M x C values are accumulated at once; M and C fill the register file.
//
// To find which centroid won costs more instructions than to find how near it is, when d is small.
// So a group contributes only its minimum. Where that beats the best so far, the group's C values
// are stored, lane by lane (masked stores use no arithmetic port). After the last group the stored
// values say which of the C it was, once a tile instead of once a centroid.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// Sizes of the groups for which there is a kernel.
inline constexpr std::array kGroupSizes{2, 3, 4, 5, 6, 8, 12};

template <class T>
constexpr int tile_points(int group_size) {
  return std::max(1, kAccumulators / group_size) * Lanes<T>::kCount;
}

template <class T>
inline constexpr int kMaxTilePoints = tile_points<T>(2);

/// What the kernel finds for each point of a tile.
template <class T>
struct TileResult {
  alignas(64) std::int32_t labels[std::max(16, kMaxTilePoints<T>)];  ///< lowest index that wins
  alignas(64) T nearest[kMaxTilePoints<T>];  ///< its v; only where asked for
  alignas(64) T second[kMaxTilePoints<T>];   ///< lowest v of all others; only where asked for
};

/// `next` is the tile that will be asked for next: its d x P values are fetched meanwhile.
template <class T>
using TileKernel = void (*)(const T* tile, const T* next, const T* groups, std::int64_t d,
                            std::int64_t group_count, TileResult<T>& result);

/// The minimum of value(kBegin), ... value(kBegin + kCount - 1), as a tree: a chain would wait for
/// each minimum in turn.
template <class T, int kBegin, int kCount, class F>
[[gnu::always_inline]] inline typename Lanes<T>::V lowest_of(const F& value) {
  if constexpr (kCount == 1) {
    return value(std::integral_constant<int, kBegin>{});
  } else {
    return Lanes<T>::min(lowest_of<T, kBegin, kCount / 2>(value),
                         lowest_of<T, kBegin + kCount / 2, kCount - kCount / 2>(value));
  }
}

template <class T, int C, bool kWithSecond>
void find_nearest(const T* tile, const T* next, const T* groups, std::int64_t d,
                  std::int64_t group_count, TileResult<T>& result) {
  using L = Lanes<T>;
  using V = typename L::V;
  constexpr int kLanes = L::kCount;
  constexpr int P = tile_points<T>(C);
  constexpr int M = P / kLanes;
  const V infinity = L::set(std::numeric_limits<T>::infinity());

  alignas(64) T winners[C * P];  // the values of the winning group, C x P
  V best[M];                     // lowest value so far
  V second[M];                   // second lowest among the groups' minima
  V first_index[M];              // index of the winning group's first centroid, as a number in T
  unrolled<M>([&](auto m) __attribute__((always_inline)) {
    best[m] = infinity;
    second[m] = infinity;
    first_index[m] = L::set(0);
    unrolled<C>([&](auto c) __attribute__((always_inline)) {
      L::store(winners + c * P + m * kLanes, infinity);
    });
  });

  constexpr std::int64_t kLine = 64 / sizeof(T);
  const std::int64_t fetched_per_group = round_up((d * P + group_count - 1) / group_count, kLine);
  const T* next_end = next + d * P;

  for (std::int64_t group = 0; group < group_count; ++group) {
    // Spread over the groups, so that memory has time for all of the tile.
    const T* fetch_end = std::min(next + fetched_per_group, next_end);
    for (; next < fetch_end; next += kLine) __builtin_prefetch(next, 0, 2);

    const T* row = groups + group * (d + 1) * C;
    V value[C][M];
    unrolled<C>([&](auto c) __attribute__((always_inline)) {
      const V norm = L::set(row[c]);
      unrolled<M>([&](auto m) __attribute__((always_inline)) { value[c][m] = norm; });
    });
    const T* point = tile;
    for (std::int64_t t = 0; t < d; ++t, point += P) {
      row += C;
      V x[M];
      unrolled<M>([&](auto m)
                      __attribute__((always_inline)) { x[m] = L::load(point + m * kLanes); });
      unrolled<C>([&](auto c) __attribute__((always_inline)) {
        const V coordinate = L::set(row[c]);
        unrolled<M>([&](auto m) __attribute__((always_inline)) {
          value[c][m] = L::fma(x[m], coordinate, value[c][m]);
        });
      });
    }
    const V index = L::set(static_cast<T>(group * C));
    unrolled<M>([&](auto m) __attribute__((always_inline)) {
      const V low =
          lowest_of<T, 0, C>([&](auto c) __attribute__((always_inline)) { return value[c][m]; });
      const auto improved = L::less(low, best[m]);  // strictly: the lowest index wins a tie
      if constexpr (kWithSecond) second[m] = L::min(second[m], L::max(best[m], low));
      best[m] = L::min(best[m], low);
      first_index[m] = L::select(improved, index, first_index[m]);
      unrolled<C>([&](auto c) __attribute__((always_inline)) {
        L::store_where(improved, winners + c * P + m * kLanes, value[c][m]);
      });
    });
  }

  unrolled<M>([&](auto m) __attribute__((always_inline)) {
    V within = L::set(0);  // index within the winning group
    V lowest = infinity;
    V runner_up = second[m];
    unrolled<C>([&](auto reversed) __attribute__((always_inline)) {
      constexpr int c = C - 1 - reversed;
      const V value = L::load(winners + c * P + m * kLanes);
      within = L::select(L::equal(value, best[m]), L::set(c), within);
      if constexpr (kWithSecond) {
        runner_up = L::min(runner_up, L::max(lowest, value));
        lowest = L::min(lowest, value);
      }
    });
    alignas(64) T label[kLanes];
    L::store(label, first_index[m] + within);
    for (int lane = 0; lane < kLanes; ++lane) {
      result.labels[m * kLanes + lane] = static_cast<std::int32_t>(label[lane]);
    }
    if constexpr (kWithSecond) {
      L::store(result.nearest + m * kLanes, best[m]);
      L::store(result.second + m * kLanes, runner_up);
    }
  });
}

/// Indices travel as numbers in T: beyond this k a float could not hold them.
template <class T>
inline constexpr std::int64_t kMaxClusters = std::int64_t{1} << (sizeof(T) == 4 ? 24 : 31);

/// The group size that wastes least: k is padded to a multiple of it, and a small group spends more
/// of its time on minima and loads (the constant).
inline int choose_group_size(std::int64_t k) {
  int chosen = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (const int size : kGroupSizes) {
    const double padded = static_cast<double>((k + size - 1) / size * size);
    const double cost = padded * (1.0 + 0.4 / size + (size > 8 ? 0.02 : 0));
    if (cost < lowest) {
      lowest = cost;
      chosen = size;
    }
  }
  return chosen;
}

template <class T, bool kWithSecond>
TileKernel<T> tile_kernel(int group_size) {
  TileKernel<T> kernel = nullptr;
  unrolled<static_cast<int>(kGroupSizes.size())>([&](auto index) {
    constexpr int kSize = kGroupSizes[index];
    if (group_size == kSize) kernel = find_nearest<T, kSize, kWithSecond>;
  });
  return kernel;
}

}  // namespace kmeans::openmp
