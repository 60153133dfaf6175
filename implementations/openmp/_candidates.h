// SPDX-License-Identifier: Apache-2.0
//
// Lists of the centroids that may be nearest to a point of a box, and what follows from them: a
// shorter list for a smaller box, and labels for the points of a leaf. docs/openmp-bounds.md has the proofs.
// All is in float32; a test that rounding could have decided keeps the centroid, or leaves the point
// undecided.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "implementations/openmp/_across_lanes.h"
#include "implementations/openmp/_box_tree.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

/// Rows of `stride` floats: d of coordinates, and one with the centroids' indices, ascending, as bits.
/// Whole registers may be read; lanes beyond `count` are kFarAway in every coordinate.
struct Candidates {
  static constexpr float kFarAway = 0x1p50F;

  const float* rows = nullptr;
  std::int64_t stride = 0;
  std::int64_t count = 0;

  [[nodiscard]] std::int32_t index(std::int64_t d, std::int64_t place) const {
    return std::bit_cast<std::int32_t>(rows[d * stride + place]);
  }
  /// Floats that a list of so many takes at most.
  static std::int64_t size(std::int64_t d, std::int64_t count) {
    return (d + 1) * stride_for(count);
  }
  static std::int64_t stride_for(std::int64_t count) { return round_up(count, 16) + 16; }
};

/// Factors that make the tests certain. With k = (d + 4) u, u = 2^-24, a computed sum of squares is
/// within a factor 1 +- k of the true one, but for `underflow`.
struct Margins {
  float shrink = 1;    ///< 1 - 2k
  float grow = 1;      ///< 1 + 2k
  float own = 1;       ///< 1 + 12k, of the distance from the box's centre
  float spread = 0;    ///< 10k, of the squared half diagonal
  float decisive = 1;  ///< 1 + 4k, between two distances of a point
  float underflow = 0;

  static Margins of(std::int64_t d) {
    const double k = static_cast<double>(d + 4) * 0x1p-24;
    return {static_cast<float>(1 - 2 * k),  static_cast<float>(1 + 2 * k),
            static_cast<float>(1 + 12 * k), static_cast<float>(10 * k),
            static_cast<float>(1 + 4 * k),  static_cast<float>(d + 2) * 0x1p-119F};
  }
};

/// Squared distances of one point from the candidates of a register, from `at` on.
template <int D>
[[gnu::always_inline]] inline Lanes<float>::V squares(const Candidates& list, std::int64_t at,
                                                      const float* point) {
  using L = Lanes<float>;
  auto sum = L::set(0);
  unrolled<D>([&](auto t) __attribute__((always_inline)) {
    const auto difference = L::load(list.rows + t * list.stride + at) - L::set(point[t]);
    sum = L::fma(difference, difference, sum);
  });
  return sum;
}

/// The candidates whose bit is set in `places`; without lanes of kFarAway behind them.
template <int D>
Candidates chosen(const Candidates& list, std::uint32_t places, float* memory) {
  using L = Lanes<float>;
  constexpr std::uint32_t kAll = (1U << L::kCount) - 1;
  Candidates result{memory, Candidates::stride_for(list.count), 0};
  for (int at = 0; at < list.count; at += L::kCount) {
    const std::uint32_t keep = (places >> at) & kAll;
    float* out = memory + result.count;
    unrolled<D + 1>([&](auto t) __attribute__((always_inline)) {
      compact(keep, L::load(list.rows + t * list.stride + at), out + t * result.stride);
    });
    result.count += std::popcount(keep);
  }
  return result;
}

/// Place of a candidate that is as near to a point as any, about.
template <int D>
std::int64_t about_nearest(const Candidates& list, const float* point, float* distance) {
  using L = Lanes<float>;
  auto lowest = squares<D>(list, 0, point);
  auto place = L::set(0);
  for (std::int64_t at = L::kCount; at < list.count; at += L::kCount) {
    const auto found = squares<D>(list, at, point);
    place = L::select(L::less(found, lowest), L::set(static_cast<float>(at)), place);
    lowest = L::min(found, lowest);
  }
  const auto least = lowest_in_all(lowest);
  const int lane = lane_of(lowest, least);
  *distance = any_lane(least);
  alignas(64) std::array<float, L::kCount> places;
  L::store(places.data(), place);
  return static_cast<std::int64_t>(places[lane]) + lane;
}

/// Leaves out every candidate that is further than another one from all points of a box, the first of
/// BoxTree::boxes(); also those further than `reach` from the box, if no point of it is further from the
/// nearest centroid. The result lies in `memory`, Candidates::size(d, count) floats.
using PruneKernel = Candidates (*)(const Candidates& list, const float* boxes, std::int64_t stride,
                                   float reach, const Margins& margins, float* memory);

template <int D>
Candidates prune_box(const Candidates& list, const float* boxes, std::int64_t stride, float reach,
                     const Margins& margins, float* memory) {
  using L = Lanes<float>;
  constexpr std::uint32_t kAll = (1U << L::kCount) - 1;
  float box[2 * D + 1];
  unrolled<2 * D + 1>([&](auto t) __attribute__((always_inline)) { box[t] = boxes[t * stride]; });
  float nearest = 0;
  const std::int64_t rival = about_nearest<D>(list, box, &nearest);
  const auto threshold =
      L::set(nearest * margins.own + box[2 * D] * margins.spread + margins.underflow);
  // A gap is at most rounded up by 2 u of the coordinates' distance, which the factor covers only in
  // relation to the box as well: gap + extent is the distance.
  const float wide = reach + std::sqrt(box[2 * D]);
  const auto limit =
      L::set((reach * reach + wide * wide * margins.spread) * margins.own + margins.underflow);
  Candidates kept{memory, Candidates::stride_for(list.count), 0};
  for (std::int64_t at = 0; at < list.count; at += L::kCount) {
    // Over the box, |y - c|^2 - |y - rival|^2 is least in the corner on c's side; there it is
    // |m - c|^2 - |m - rival|^2 - 2 sum_t h_t |c_t - rival_t|, m the centre, h the half extents.
    auto apart = L::set(0);
    auto squared_gap = L::set(0);
    unrolled<D>([&](auto t) __attribute__((always_inline)) {
      const float* row = list.rows + t * list.stride;
      const auto c = L::load(row + at);
      apart = L::fma(magnitude(c - L::set(row[rival])), L::set(box[D + t]), apart);
      const auto gap = L::max(magnitude(c - L::set(box[t])) - L::set(box[D + t] / 2), L::set(0));
      squared_gap = L::fma(gap, gap, squared_gap);
    });
    const auto distance = squares<D>(list, at, box) * L::set(margins.shrink);
    const auto needed = L::fma(apart, L::set(margins.grow), threshold);
    const std::uint32_t out_of_question =
        L::bits(L::less(needed, distance)) | L::bits(L::less(limit, squared_gap));
    const std::uint32_t keep = ~out_of_question & kAll;
    if (keep == 0) continue;
    float* out = memory + kept.count;
    unrolled<D + 1>([&](auto t) __attribute__((always_inline)) {
      compact(keep, L::load(list.rows + t * list.stride + at), out + t * kept.stride);
    });
    kept.count += std::popcount(keep);
  }
  unrolled<D>([&](auto t) __attribute__((always_inline)) {
    for (int lane = 0; lane < 16; lane += L::kCount) {
      L::store(memory + t * kept.stride + kept.count + lane, L::set(Candidates::kFarAway));
    }
  });
  return kept;
}

/// What a list of few candidates says of kFanOut boxes side by side.
struct BoxesFound {
  static constexpr int kMaxCandidates = 32;
  alignas(64) std::array<std::uint16_t, kMaxCandidates> kept;  // a candidate's boxes, as bits
  alignas(64) std::array<std::int32_t, kFanOut> index;         // a candidate near to the box
  std::uint32_t owned = 0;  // the boxes to which that one is the only candidate

  /// The places of a box's candidates in the list, as bits.
  [[nodiscard]] std::uint32_t places(std::int64_t count, int box) const {
#if defined(__AVX512BW__)
    const auto bit = _mm512_set1_epi16(static_cast<short>(1U << box));
    const std::uint32_t found = _mm512_test_epi16_mask(_mm512_load_si512(kept.data()), bit);
    return found & static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
#else
    std::uint32_t found = 0;
    for (int place = 0; place < count; ++place) found |= ((kept[place] >> box) & 1U) << place;
    return found;
#endif
  }
};

/// As PruneKernel, for kFanOut boxes side by side and at most BoxesFound::kMaxCandidates candidates.
using BoxesKernel = void (*)(const Candidates& list, const float* boxes, std::int64_t stride,
                             const Margins& margins, BoxesFound& found);

template <int D>
void prune_boxes(const Candidates& list, const float* boxes, std::int64_t stride,
                 const Margins& margins, BoxesFound& found) {
  using L = Lanes<float>;
  using V = L::V;
  V distances[BoxesFound::kMaxCandidates];
  std::uint32_t several = 0;
  std::fill_n(found.kept.begin(), list.count, std::uint16_t{0});
  for (int begin = 0; begin < kFanOut; begin += L::kCount) {
    const float* box = boxes + begin;
    V nearest = L::set(std::numeric_limits<float>::infinity());
    V index = L::set(0);
    V rival[D];
    unrolled<D>([&](auto t) __attribute__((always_inline)) { rival[t] = L::set(0); });
    for (std::int64_t place = 0; place < list.count; ++place) {
      const float* candidate = list.rows + place;
      V sum = L::set(0);
      unrolled<D>([&](auto t) __attribute__((always_inline)) {
        const V difference = L::load(box + t * stride) - L::set(candidate[t * list.stride]);
        sum = L::fma(difference, difference, sum);
      });
      distances[place] = sum;
      const auto nearer = L::less(sum, nearest);
      nearest = L::min(sum, nearest);
      index = L::select(nearer, L::set(candidate[D * list.stride]), index);
      unrolled<D>([&](auto t) __attribute__((always_inline)) {
        rival[t] = L::select(nearer, L::set(candidate[t * list.stride]), rival[t]);
      });
    }
    const V threshold = L::fma(nearest, L::set(margins.own),
                               L::fma(L::load(box + std::int64_t{2} * D * stride),
                                      L::set(margins.spread), L::set(margins.underflow)));
    std::uint32_t once = 0;
    std::uint32_t twice = 0;
    for (std::int64_t place = 0; place < list.count; ++place) {
      const float* candidate = list.rows + place;
      V reach = L::set(0);
      unrolled<D>([&](auto t) __attribute__((always_inline)) {
        const V apart = magnitude(L::set(candidate[t * list.stride]) - rival[t]);
        reach = L::fma(apart, L::load(box + (D + t) * stride), reach);
      });
      const V distance = distances[place] * L::set(margins.shrink);
      const V needed = L::fma(reach, L::set(margins.grow), threshold);
      const std::uint32_t keep = ~L::bits(L::less(needed, distance)) & ((1U << L::kCount) - 1);
      found.kept[place] = static_cast<std::uint16_t>(found.kept[place] | keep << begin);
      twice |= once & keep;
      once |= keep;
    }
    several |= twice << begin;
    alignas(64) std::array<float, L::kCount> bits;
    L::store(bits.data(), index);
    std::memcpy(found.index.data() + begin, bits.data(), sizeof bits);
  }
  found.owned = ~several & ((1U << kFanOut) - 1);
}

/// Finds the nearest candidate of each point of a leaf (d x kLeafPoints); lowest in the list where
/// several are equal; and the largest of the squared distances. Bit p of the result is set where point p
/// is not decided.
using LeafKernel = std::uint32_t (*)(const float* tile, const Candidates& list,
                                     const Margins& margins, std::int32_t* labels, float* farthest);

template <int D>
std::uint32_t label_points(const float* tile, const Candidates& list, const Margins& margins,
                           std::int32_t* labels, float* farthest) {
  using L = Lanes<float>;
  using V = L::V;
  constexpr int M = 2;  // registers of points at a time
  const V infinity = L::set(std::numeric_limits<float>::infinity());
  std::uint32_t undecided = 0;
  V most = L::set(0);
  for (int begin = 0; begin < kLeafPoints; begin += M * L::kCount) {
    V best[M];
    V second[M];
    V index[M];
    unrolled<M>([&](auto m) __attribute__((always_inline)) {
      best[m] = second[m] = infinity;
      index[m] = L::set(0);
    });
    for (std::int64_t place = 0; place < list.count; ++place) {
      const float* candidate = list.rows + place;
      V value[M];
      unrolled<D>([&](auto t) __attribute__((always_inline)) {
        const V coordinate = L::set(candidate[t * list.stride]);
        unrolled<M>([&](auto m) __attribute__((always_inline)) {
          const V y = L::load(tile + t * kLeafPoints + begin + m * L::kCount);
          const V difference = y - coordinate;
          value[m] = t == 0 ? difference * difference : L::fma(difference, difference, value[m]);
        });
      });
      const V own = L::set(candidate[D * list.stride]);
      unrolled<M>([&](auto m) __attribute__((always_inline)) {
        index[m] = L::select(L::less(value[m], best[m]), own, index[m]);
        second[m] = L::min(second[m], L::max(best[m], value[m]));
        best[m] = L::min(best[m], value[m]);
      });
    }
    unrolled<M>([&](auto m) __attribute__((always_inline)) {
      const V needed = L::fma(best[m], L::set(margins.decisive), L::set(margins.underflow));
      constexpr std::uint32_t kAll = (1U << L::kCount) - 1;
      most = L::max(most, best[m]);
      undecided |= (~L::bits(L::less(needed, second[m])) & kAll) << (begin + m * L::kCount);
      alignas(64) std::array<float, L::kCount> bits;
      L::store(bits.data(), index[m]);
      std::memcpy(labels + begin + m * L::kCount, bits.data(), sizeof bits);
    });
  }
  *farthest = -any_lane(lowest_in_all(L::set(0) - most));
  return undecided;
}

struct TreeKernels {
  PruneKernel prune = nullptr;
  BoxesKernel prune_boxes = nullptr;
  Candidates (*chosen)(const Candidates& list, std::uint32_t places, float* memory) = nullptr;
  LeafKernel label_leaf = nullptr;

  /// For d in 1 ... kTreeMaxDimension.
  static TreeKernels of(std::int64_t d) {
    TreeKernels kernels;
    unrolled<kTreeMaxDimension>([&](auto index) {
      constexpr int kD = index + 1;
      if (d == kD)
        kernels = {prune_box<kD>, openmp::prune_boxes<kD>, openmp::chosen<kD>, label_points<kD>};
    });
    return kernels;
  }
};

}  // namespace kmeans::openmp
