// SPDX-License-Identifier: Apache-2.0
//
// Sums of the clusters' points in fixed point: each coordinate times 2^s, rounded to the nearest
// 64-bit integer. Integer sums have no rounding error to pile up, so a point that changes its
// cluster can be taken from one sum and added to another, and the result is the same as summing
// again: from the second iteration on only points with a new label are touched, and only clusters
// that such a point left or joined.
//
// float32 points are summed as the exact Lloyd step says (docs/exact-step.md). float64 points have
// digits beyond that: what the first integer leaves over goes, scaled again, into a second one. Weighted
// float32 points take as many bits again as their weights have: their sums are of 128.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "harness/exact_step.h"
#include "harness/variant.h"
#include "implementations/_sum_parts.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_changes.h"
#include "implementations/openmp/_crew.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_shared_sums.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KMEANS_VECTOR_FIXED_POINT
#include <immintrin.h>
#endif

namespace kmeans::openmp {

/// Of weighted points, in the memory of two 64-bit integers.
using WideSum [[gnu::may_alias]] = __int128;

template <class T>
class FixedPointSums {
 public:
  FixedPointSums() = default;
  FixedPointSums(const Problem<T>& problem, int threads)
      : d_(problem.shape.d),
        k_(problem.shape.k),
        points_(problem.points),
        weights_(kLimbs == 1 ? problem.counted.weights : nullptr),
        spherical_(problem.spherical),
        stride_(round_up(problem.shape.d, 8)),
        row_((weights_ != nullptr ? 2 : kLimbs) * stride_),
        size_(round_up(k_ * row_ + k_, 16) + 16),
        threads_(threads),
        sums_(size_ * (threads + 1)),
        flags_(round_up(k_, 128)),
        touched_(flags_ * threads),
        changed_(k_),
        sum_parts_(problem.shard.communicator != nullptr ? problem.shard.communicator->size() : 1),
        shared_(problem, integers_sent() * d_ + 1) {
    int s = 0;
    if constexpr (kLimbs == 1) {
      s = weights_ != nullptr
              ? exact::sum_exponent(problem.counted.scale_n, problem.counted.max_abs)
              : exact::sum_exponent(problem.whole_n(), problem.max_abs);
    } else {
      // n * max_abs * 2^s <= 2^62 by powers of two; clamped to what a double can hold.
      const int n_width = std::ilogb(static_cast<double>(problem.whole_n())) + 1;
      if (problem.max_abs > 0)
        s = std::clamp(61 - n_width - std::ilogb(problem.max_abs), -1000, 1000);
      rest_scale_ = exact::power_of_two(62 - n_width);  // a rest is at most a half
    }
    scale_ = exact::power_of_two(s);
    inverse_scale_ = exact::power_of_two(-s);
    clear();
  }

  /// As clear(); the first time nothing is to be done.
  void begin_empty() {
    if (!std::exchange(fresh_, false)) clear();
  }

  /// Forgets all points. Each thread clears its own part, which then lies near it.
  void clear() {
    for_parts(threads_, threads_, [&](int thread) {
      std::fill_n(part(thread), size_, std::int64_t{0});
      std::fill_n(touched(thread), flags_, char{0});
      const Range totals = part_of(size_, thread, threads_);
      std::fill(part(threads_) + totals.begin, part(threads_) + totals.end, std::int64_t{0});
    });
  }

  /// After clear(): the sums of others of the same problem, as they were after an update. The next one has to be
  /// given the centroids of that.
  void take_over(std::span<const std::int64_t> totals) {
    copy_by_team(totals, part(threads_), threads_);
  }
  /// All that has been gathered.
  [[nodiscard]] std::span<const std::int64_t> totals() const {
    return {sums_.data() + threads_ * size_, static_cast<std::size_t>(size_)};
  }

  /// Called by `thread`: a point (d coordinates; of weighted ones in its place among the problem's) left cluster
  /// `from` (-1: none) for cluster `to`.
  void move(int thread, const T* point, std::int64_t from, std::int64_t to) {
    if (weights_ != nullptr) return move_weighted(thread, point, from, to);
    touch(thread, from, to);
    std::int64_t* sums = part(thread);
    std::int64_t* counts = sums + k_ * row_;
    counts[to] += 1;
    if (from < 0) {
      add_point<false>(point, sums + to * row_, sums + to * row_);
    } else {
      counts[from] -= 1;
      add_point<true>(point, sums + from * row_, sums + to * row_);
    }
  }

  /// Called by `thread`: `count` points, whose coordinates in fixed point add up to `points` (d), left
  /// cluster `from` (-1: none) for cluster `to`. Of float32 points only.
  void move_all(int thread, const std::int64_t* points, std::int64_t count, std::int64_t from,
                std::int64_t to) {
    static_assert(kLimbs == 1);
    touch(thread, from, to);
    std::int64_t* sums = part(thread);
    std::int64_t* counts = sums + k_ * row_;
    counts[to] += count;
    for (std::int64_t t = 0; t < d_; ++t) sums[to * row_ + t] += points[t];
    if (from < 0) return;
    counts[from] -= count;
    for (std::int64_t t = 0; t < d_; ++t) sums[from * row_ + t] -= points[t];
  }

  /// Called by all threads of a team. Gathers what the threads have collected for the clusters of a
  /// range, which no other thread touches meanwhile, and writes the means into centroids k x d. An empty
  /// cluster keeps its own, and so does one whose points are those of the last update: it has to hold their mean.
  /// Of a shard the means are those of all ranks' points.
  void update(T* centroids, Range clusters) {
    if (!shared_.shared()) {
      for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
        const std::int64_t count = gather(j);
        if (count == 0 || !changed(j)) continue;
        write_mean([&](std::int64_t t) { return own_total(j, t); }, count, centroids + j * d_);
      }
      return;
    }
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      send(j, gather(j));
      changed_[j] = 1;  // other ranks' points may have moved
    }
    shared_.exchange(centroids, clusters, [&](std::int64_t j, const std::int64_t* sums) {
      const std::int64_t count = sums[integers_sent() * d_];
      if (count == 0) return;
      write_mean([&](std::int64_t t) { return sent_total(sums, t); }, count, centroids + j * d_);
    });
  }

  /// May a cluster's mean be another one since the last update? For all threads of the team, after a barrier.
  [[nodiscard]] bool changed(std::int64_t j) const { return changed_[j] != 0; }
  [[nodiscard]] Changes changes() const { return Changes(changed_.data()); }

  static double bytes(const Shape& shape, int threads) {
    return (threads + 1) * Sizes(shape).k *
           (8 * static_cast<double>(kLimbs * round_up(shape.d, 8) + 1) + 1);
  }

 private:
  static constexpr int kLimbs = sizeof(T) == 4 ? 1 : 2;

  std::int64_t* part(int thread) { return sums_.data() + thread * size_; }
  /// Has a thread collected something for cluster j?
  char* touched(int thread) { return touched_.data() + thread * flags_; }

  void touch(int thread, std::int64_t from, std::int64_t to) {
    touched(thread)[to] = 1;
    if (from >= 0) touched(thread)[from] = 1;
  }

  WideSum* wide(int thread, std::int64_t j) {
    return reinterpret_cast<WideSum*>(part(thread) + j * row_);
  }

  void move_weighted(int thread, const T* point, std::int64_t from, std::int64_t to) {
    if constexpr (kLimbs == 1) {
      const std::int64_t weight = weights_[(point - points_) / d_];
      if (weight == 0) return;
      touch(thread, from, to);
      std::int64_t* counts = part(thread) + k_ * row_;
      counts[to] += weight;
      if (from >= 0) counts[from] -= weight;
      for (std::int64_t t = 0; t < d_; ++t) {
        const WideSum term = WideSum{exact::to_fixed_point(point[t], scale_)} * weight;
        wide(thread, to)[t] += term;
        if (from >= 0) wide(thread, from)[t] -= term;
      }
    }
  }

  /// What the threads have collected for cluster j goes into the totals. Returns the count.
  std::int64_t gather(std::int64_t j) {
    std::int64_t* sum = part(threads_) + j * row_;
    std::int64_t& count = part(threads_)[k_ * row_ + j];
    changed_[j] = 0;
    for (int thread = 0; thread < threads_; ++thread) {
      if (touched(thread)[j] == 0) continue;
      touched(thread)[j] = 0;
      changed_[j] = 1;
      std::int64_t* delta = part(thread) + j * row_;
      std::int64_t& count_delta = part(thread)[k_ * row_ + j];
      count += count_delta;
      count_delta = 0;
      if (weights_ != nullptr) {
        for (std::int64_t t = 0; t < d_; ++t) wide(threads_, j)[t] += wide(thread, j)[t];
        std::fill_n(delta, row_, std::int64_t{0});
        continue;
      }
      for (std::int64_t t = 0; t < row_; ++t) {
        sum[t] += delta[t];
        delta[t] = 0;
      }
    }
    return count;
  }

  /// Of a coordinate's sum, to other ranks.
  [[nodiscard]] int integers_sent() const {
    return weights_ != nullptr ? sum_parts_.count() : kLimbs;
  }

  /// This rank's sums and count of cluster j go where exchange() takes them: d first integers, d second ones, ...
  void send(std::int64_t j, std::int64_t count) {
    std::int64_t* to = shared_.of(j);
    to[integers_sent() * d_] = count;
    for (std::int64_t t = 0; weights_ != nullptr && t < d_; ++t) {
      sum_parts_.split(wide(threads_, j)[t], to + t, d_);
    }
    for (int limb = 0; weights_ == nullptr && limb < kLimbs; ++limb) {
      std::copy_n(part(threads_) + j * row_ + limb * stride_, d_, to + limb * d_);
    }
  }

  /// Coordinate t of a cluster's sum, in float64: of this rank's points, and of what was sent.
  double own_total(std::int64_t j, std::int64_t t) {
    if (weights_ != nullptr) return static_cast<double>(wide(threads_, j)[t]);
    return total_of(part(threads_) + j * row_ + t, stride_);
  }
  [[nodiscard]] double sent_total(const std::int64_t* sums, std::int64_t t) const {
    if (weights_ != nullptr) return static_cast<double>(sum_parts_.join(sums + t, d_));
    return total_of(sums + t, d_);
  }

  /// Of a coordinate's integers, of which the second lies `limb` behind the first.
  [[nodiscard]] double total_of(const std::int64_t* sum, [[maybe_unused]] std::int64_t limb) const {
    const auto first = static_cast<double>(sum[0]);
    if constexpr (kLimbs == 1) return first;
    return first + static_cast<double>(sum[limb]) / rest_scale_;
  }

  /// Of a spherical problem the sums' direction.
  template <class Total>
  void write_mean(const Total& total, std::int64_t count, T* centroid) const {
    if constexpr (kLimbs == 1) {
      if (spherical_) return exact::direction_of(total, d_, centroid);
      for (std::int64_t t = 0; t < d_; ++t) {
        centroid[t] = exact::mean_of(total(t), count, inverse_scale_);
      }
    } else {
      for (std::int64_t t = 0; t < d_; ++t) {
        centroid[t] = total(t) / static_cast<double>(count) * inverse_scale_;
      }
    }
  }

  template <bool kSubtract>
  void add_point(const T* point, std::int64_t* from, std::int64_t* to) const {
    std::int64_t t = 0;
#if defined(KMEANS_VECTOR_FIXED_POINT)
    const __m512d scale = _mm512_set1_pd(scale_);
    for (; t < d_; t += 8) {
      // Sums are padded to whole registers, points are not.
      const auto valid = static_cast<__mmask8>(d_ - t >= 8 ? 0xFF : (1 << (d_ - t)) - 1);
      __m512d x;
      if constexpr (sizeof(T) == 4) {
        x = _mm512_maskz_cvtps_pd(valid, _mm256_maskz_loadu_ps(valid, point + t));
      } else {
        x = _mm512_maskz_loadu_pd(valid, point + t);
      }
      const __m512d scaled = _mm512_mul_pd(x, scale);
      const __m512i fixed = _mm512_maskz_cvtpd_epi64(valid, scaled);
      add<kSubtract>(fixed, from + t, to + t);
      if constexpr (kLimbs == 2) {
        const __m512d rest = _mm512_sub_pd(scaled, _mm512_maskz_cvtepi64_pd(valid, fixed));
        const __m512d rest_scaled = _mm512_mul_pd(rest, _mm512_set1_pd(rest_scale_));
        add<kSubtract>(_mm512_maskz_cvtpd_epi64(valid, rest_scaled), from + stride_ + t,
                       to + stride_ + t);
      }
    }
#else
    for (; t < d_; ++t) {
      const double scaled = static_cast<double>(point[t]) * scale_;
      const double whole = std::nearbyint(scaled);
      add<kSubtract>(static_cast<std::int64_t>(whole), from + t, to + t);
      if constexpr (kLimbs == 2) {
        const double rest = std::nearbyint((scaled - whole) * rest_scale_);
        add<kSubtract>(static_cast<std::int64_t>(rest), from + stride_ + t, to + stride_ + t);
      }
    }
#endif
  }

#if defined(KMEANS_VECTOR_FIXED_POINT)
  template <bool kSubtract>
  static void add(__m512i fixed, std::int64_t* from, std::int64_t* to) {
    _mm512_storeu_si512(to, _mm512_add_epi64(_mm512_loadu_si512(to), fixed));
    if constexpr (kSubtract) {
      _mm512_storeu_si512(from, _mm512_sub_epi64(_mm512_loadu_si512(from), fixed));
    }
  }
#else
  template <bool kSubtract>
  static void add(std::int64_t fixed, std::int64_t* from, std::int64_t* to) {
    *to += fixed;
    if constexpr (kSubtract) *from -= fixed;
  }
#endif

  std::int64_t d_ = 0;
  std::int64_t k_ = 0;
  const T* points_ = nullptr;              // n x d, to know whose weight is meant
  const std::int64_t* weights_ = nullptr;  // n, or null
  bool spherical_ = false;
  std::int64_t stride_ = 0;  // d, padded to whole registers
  std::int64_t row_ = 0;     // a cluster's sums: limbs x stride
  std::int64_t size_ = 0;    // a thread's part: k x row sums, k counts, padding
  int threads_ = 1;
  double scale_ = 1;
  double inverse_scale_ = 1;
  double rest_scale_ = 1;
  AlignedArray<std::int64_t> sums_;  // one part a thread, then the totals
  std::int64_t flags_ = 0;           // a thread's part of touched_: k, on lines of its own
  AlignedArray<char> touched_;       // one part a thread
  AlignedArray<char> changed_;       // k, in the last update
  SumParts sum_parts_;               // of weighted points
  SharedSums<T> shared_;
  bool fresh_ = true;  // nothing has been collected yet
};

}  // namespace kmeans::openmp
