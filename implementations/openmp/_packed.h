// SPDX-License-Identifier: Apache-2.0
//
// Points and centroids in the layouts of _tile.h, moved and scaled so that nothing overflows.
//
// Every coordinate is replaced by (x - shift_t) * scale before it is rounded to T. The shift is
// about the mean of the points, so that a large common offset costs no digits; the scale is a power
// of two that brings all coordinates into [-1, 1], so that neither huge nor denormal data leave the
// range of T. Both change no comparison of distances; the one rounding is accounted for in
// docs/openmp-bounds.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_crew.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_tile.h"

namespace kmeans::openmp {

/// The change of coordinates.
template <class T>
struct Frame {
  std::vector<double> shift;  // d
  double scale = 1;

  explicit Frame(const Problem<T>& problem) : shift(problem.shape.d, 0.0) {
    const std::int64_t n = problem.shape.n;
    const std::int64_t d = problem.shape.d;
    // The mean, summed in parts whose number does not depend on the threads: nor do its bits.
    constexpr int kParts = 64;
    KeptVector<double> parts(kParts * d, 0.0);
    const double weight = 1.0 / static_cast<double>(n);
    for_parts(kParts, problem.threads, [&](int part) {
      const Range range = part_of(n, part, kParts);
      double* sums = parts.data() + part * d;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        for (std::int64_t t = 0; t < d; ++t) sums[t] += problem.points[i * d + t] * weight;
      }
    });
    for (int part = 0; part < kParts; ++part) {
      for (std::int64_t t = 0; t < d; ++t) shift[t] += parts[part * d + t];
    }
    // A shift that T can hold makes x - shift exact wherever x is near it.
    for (double& value : shift) value = static_cast<T>(value);
    // |x - shift| <= 2 max_abs < 2^(exponent + 2).
    if (problem.max_abs > 0) {
      const int exponent = std::ilogb(static_cast<double>(problem.max_abs));
      scale = std::ldexp(1.0, -std::clamp(exponent + 2, -1000, 1000));
    }
  }

  /// One coordinate in T. Denormal results become zero here, so that a processor set to flush them
  /// computes the same.
  T apply(T coordinate, std::int64_t t) const {
    // Scaled before subtracting where T is double: the difference could overflow.
    const double moved = sizeof(T) == 8 ? static_cast<double>(coordinate) * scale - shift[t] * scale
                                        : (static_cast<double>(coordinate) - shift[t]) * scale;
    const T rounded = static_cast<T>(moved);
    return std::abs(rounded) < std::numeric_limits<T>::min() ? T{0} : rounded;
  }

  /// The same of `count` coordinates from t on, eight at a time.
  void apply(const T* from, std::int64_t t, std::int64_t count, T* to) const {
    std::int64_t u = 0;
    if constexpr (sizeof(T) == 4) {
      typedef T Eight __attribute__((vector_size(32)));
      typedef double Doubles __attribute__((vector_size(64)));
      for (; u + 8 <= count; u += 8) {
        Eight given;
        Doubles shifts;
        std::memcpy(&given, from + u, sizeof given);
        std::memcpy(&shifts, shift.data() + t + u, sizeof shifts);
        const auto moved = (__builtin_convertvector(given, Doubles) - shifts) * scale;
        Eight rounded = __builtin_convertvector(moved, Eight);
        const Eight size = rounded < 0 ? -rounded : rounded;
        rounded = size < std::numeric_limits<T>::min() ? Eight{} : rounded;
        std::memcpy(to + u, &rounded, sizeof rounded);
      }
    }
    for (; u < count; ++u) to[u] = apply(from[u], t + u);
  }
};

/// Of two rows of a square, the blocks of kBlock coordinates next to its diagonal change places.
template <int kBlock, class V, std::size_t... kPlaces>
[[gnu::always_inline]] inline void swap_blocks(V& upper, V& lower,
                                               std::index_sequence<kPlaces...> /*places*/) {
  constexpr std::size_t kLanes = sizeof...(kPlaces);
  const V turned = __builtin_shufflevector(
      upper, lower, ((kPlaces & kBlock) != 0 ? kLanes + kPlaces - kBlock : kPlaces)...);
  lower = __builtin_shufflevector(
      upper, lower, ((kPlaces & kBlock) != 0 ? kLanes + kPlaces : kPlaces + kBlock)...);
  upper = turned;
}

/// Rows and columns change places.
template <class V, int kLanes, int kBlock = kLanes / 2>
[[gnu::always_inline]] inline void turn(V (&rows)[kLanes]) {
  if constexpr (kBlock > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & kBlock) != 0) continue;
      swap_blocks<kBlock>(rows[i], rows[i + kBlock], std::make_index_sequence<kLanes>());
    }
    turn<V, kLanes, kBlock / 2>(rows);
  }
}

/// All points in tiles of d x P, optionally followed by a row with the points' norms.
template <class T>
class PackedPoints {
 public:
  PackedPoints() = default;

  /// Room for so many tiles, which pack() fills. Memory that is never filled is never taken.
  PackedPoints(std::int64_t tiles, std::int64_t d, int points_per_tile, bool with_norms)
      : points_per_tile_(points_per_tile),
        with_norms_(with_norms),
        tile_size_((d + (with_norms ? 1 : 0)) * points_per_tile),
        tiles_(tiles),
        values_(tiles_ * tile_size_) {}

  /// By several threads, in the partition of step(): each reads later what it wrote here.
  void pack(const Problem<T>& problem, const Frame<T>& frame, int threads) {
    for_parts(threads, threads,
              [&](int part) { pack(problem, frame, part_of(tiles_, part, threads)); });
  }

  /// A range of tiles.
  void pack(const Problem<T>& problem, const Frame<T>& frame, Range tiles) {
    for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      pack_tile(problem, frame, tile);
    }
  }

  /// Points in place of those that were there; not more of them than the tiles hold.
  void pack(const Problem<T>& problem, const Frame<T>& frame) {
    const std::int64_t tiles = round_up(problem.shape.n, points_per_tile_) / points_per_tile_;
    for (std::int64_t tile = 0; tile < tiles; ++tile) pack_tile(problem, frame, tile);
  }

  std::int64_t tiles() const { return tiles_; }
  const T* tile(std::int64_t index) const { return values_.data() + index * tile_size_; }
  const T* tile_after(std::int64_t index) const { return tile(std::min(index + 1, tiles_ - 1)); }
  /// The last row of a tile; only with norms.
  const T* norms(std::int64_t index) const { return tile(index + 1) - points_per_tile_; }

  static double bytes(const Sizes& s, bool with_norms) {
    return sizeof(T) * (s.n + kMaxTilePoints<T>)*(s.d + (with_norms ? 1 : 0));
  }

 private:
  static constexpr int kLanes = Lanes<T>::kCount;

  void pack_tile(const Problem<T>& problem, const Frame<T>& frame, std::int64_t tile) {
    for (int p = 0; p < points_per_tile_; p += kLanes) pack_lanes(problem, frame, tile, p);
  }

  /// Points p, p + 1, ... of a tile, as many as there are lanes. Rows are read as they lie, a square of
  /// lanes x lanes coordinates at a time, which is turned in registers.
  void pack_lanes(const Problem<T>& problem, const Frame<T>& frame, std::int64_t tile, int p) {
    const std::int64_t d = problem.shape.d;
    const std::int64_t first = tile * points_per_tile_ + p;
    const auto valid =
        static_cast<int>(std::clamp<std::int64_t>(problem.shape.n - first, 0, kLanes));
    T* out = values_.data() + tile * tile_size_ + p;
    typedef T Row __attribute__((vector_size(kLanes * sizeof(T))));
    alignas(64) double squares[2][kLanes] =
        {};  // of even and odd coordinates: sums that do not wait for each other
    alignas(64) T square[kLanes][kLanes] = {};
    for (std::int64_t t = 0; t < d; t += kLanes) {
      const int width = static_cast<int>(std::min<std::int64_t>(kLanes, d - t));
      for (int lane = 0; lane < valid; ++lane) {
        frame.apply(problem.points + (first + lane) * d + t, t, width, square[lane]);
      }
      const auto put = [&](int u, const auto& value_of) {
        T* to = out + (t + u) * points_per_tile_;
        for (int lane = 0; lane < kLanes; ++lane) {
          const T value = value_of(lane);
          to[lane] = value;
          squares[u % 2][lane] += static_cast<double>(value) * static_cast<double>(value);
        }
      };
      if (2 * width <= kLanes) {  // not worth it
        for (int u = 0; u < width; ++u) put(u, [&](int lane) { return square[lane][u]; });
        continue;
      }
      Row rows[kLanes];
      std::memcpy(rows, square, sizeof rows);
      turn(rows);
      for (int u = 0; u < width; ++u) put(u, [&](int lane) { return rows[u][lane]; });
    }
    if (!with_norms_) return;
    // Rounded up: the norm serves in upper bounds only.
    for (int lane = 0; lane < kLanes; ++lane) {
      out[d * points_per_tile_ + lane] =
          static_cast<T>(std::sqrt(squares[0][lane] + squares[1][lane]) * 1.000001);
    }
  }

  int points_per_tile_ = 0;
  bool with_norms_ = false;
  std::int64_t tile_size_ = 0;
  std::int64_t tiles_ = 0;
  AlignedArray<T> values_;
};

/// What a part of the centroids adds to the filter's bound (docs/openmp-bounds.md).
struct CentroidRange {
  double largest_norm = 0;  ///< Largest |z| of the centroids that the kernel sees.
  bool any_near = false;    ///< Is a centroid within kNear?
  bool any_far = false;     ///< Was a centroid left out because it lies beyond kFar?

  static constexpr double kNear = 1048576.0;          // 2^20
  static constexpr double kFar = 1125899906842624.0;  // 2^50

  /// A centroid of this norm; is it seen?
  bool add(double norm) {
    if (!(norm <= kFar)) {
      any_far = true;
      return false;
    }
    any_near |= norm <= kNear;
    largest_norm = std::max(largest_norm, norm);
    return true;
  }
  void add(const CentroidRange& other) {
    largest_norm = std::max(largest_norm, other.largest_norm);
    any_near |= other.any_near;
    any_far |= other.any_far;
  }
};

/// The same of all centroids, each thread of a team having packed a part of them. The team may be smaller
/// than what was asked for, and than the one before.
class SeenCentroids {
 public:
  SeenCentroids() = default;
  explicit SeenCentroids(int most_threads) : parts_(most_threads) {}

  void clear() { std::fill(parts_.begin(), parts_.end(), Padded<CentroidRange>{}); }

  /// Called by every thread of the team, which have nothing of all() meanwhile.
  void put(int thread, int threads, const CentroidRange& part) {
    parts_[thread].value = part;
    if (thread == 0) std::fill(parts_.begin() + threads, parts_.end(), Padded<CentroidRange>{});
  }

  [[nodiscard]] CentroidRange all() const {
    CentroidRange seen;
    for (const auto& part : parts_) seen.add(part.value);
    return seen;
  }

 private:
  std::vector<Padded<CentroidRange>> parts_;
};

/// All centroids in groups of (1 + d) x C: norms, then coordinates times -2. Lanes beyond k, and
/// centroids so far away that no point of [-1, 1]^d can be nearest to them, have an infinite norm.
template <class T>
class PackedCentroids {
 public:
  PackedCentroids() = default;
  PackedCentroids(std::int64_t k, std::int64_t d, int group_size)
      : k_(k),
        d_(d),
        group_size_(group_size),
        groups_(round_up(k, group_size) / group_size),
        lengths_(k),
        values_(groups_ * (d + 1) * group_size) {}

  std::int64_t groups() const { return groups_; }
  const T* data() const { return values_.data(); }

  /// The clusters that a range of groups holds.
  Range clusters(Range groups) const {
    return {std::min(k_, groups.begin * group_size_), std::min(k_, groups.end * group_size_)};
  }

  /// Packs the groups of a range from centroids k x d.
  CentroidRange pack(const T* centroids, const Frame<T>& frame, Range groups,
                     const Changes& changes = {}) {
    CentroidRange seen;
    for (std::int64_t group = groups.begin; group < groups.end; ++group) {
      T* norms = values_.data() + group * (d_ + 1) * group_size_;
      for (int c = 0; c < group_size_; ++c) {
        const std::int64_t j = group * group_size_ + c;
        T* out = norms + group_size_ + c;
        if (!changes.of(std::min(j, k_ - 1))) {  // what is no centroid goes with the last one
          if (j < k_) seen.add(lengths_[j]);
          continue;
        }
        if (j < k_) lengths_[j] = pack_one(centroids + j * d_, frame, norms + c, out);
        if (j >= k_ || !seen.add(lengths_[j])) {
          norms[c] = std::numeric_limits<T>::infinity();
          for (std::int64_t t = 0; t < d_; ++t) out[t * group_size_] = 0;
        }
      }
    }
    return seen;
  }

  static double bytes(const Sizes& s) { return sizeof(T) * (s.k + 12) * (s.d + 1) + 8 * s.k; }

 private:
  /// Returns the norm; one beyond kFar is not written.
  double pack_one(const T* centroid, const Frame<T>& frame, T* norm, T* out) {
    double squares = 0;
    for (std::int64_t t = 0; t < d_; ++t) {
      const T value = frame.apply(centroid[t], t);
      out[t * group_size_] = -2 * value;
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double length = std::sqrt(squares);
    if (length <= CentroidRange::kFar) *norm = static_cast<T>(squares);
    return length;
  }

  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  int group_size_ = 1;
  std::int64_t groups_ = 0;
  AlignedArray<double> lengths_;  // k, of the centroids in the frame
  AlignedArray<T> values_;
};

}  // namespace kmeans::openmp
