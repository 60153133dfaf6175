// SPDX-License-Identifier: Apache-2.0
//
// Lloyd's algorithm with Elkan's bounds: of each point an upper bound on the distance to its own centroid,
// a lower one on that to every other, and of each pair of centroids a lower bound on half their distance.
// A centroid is looked at only if neither shows that it is farther than the point's own.
//
// Bounds are on true distances, in the units of the frame; docs/openmp.md says why none is ever on the
// wrong side. Include only where -ffp-contract=off.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "harness/variant.h"
#include "implementations/openmp/_across_lanes.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_bound_rules.h"
#include "implementations/openmp/_family.h"
#include "implementations/openmp/_fixed_point_sums.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_lloyd.h"
#include "implementations/openmp/_nearest_of_few.h"
#include "implementations/openmp/_packed.h"
#include "implementations/openmp/_range.h"
#include "implementations/openmp/_simd.h"

namespace kmeans::openmp {

template <class Rules>
class ElkanLloyd : public Family<float> {
 public:
  void setup(const Problem<float>& problem) override {
    problem_ = problem;
    const auto [n, d, k, precision] = problem.shape;
    threads_ = useful_threads(problem.shape, kLeastPoints, problem.threads);
    frame_.emplace(problem);
    stride_ = round_up(k, kLanes);
    rounding_ = static_cast<float>(d + 8) * 0x1p-24F;
    rows_ = AlignedArray<float>(n * d);
    norms_ = AlignedArray<float>(n);
    upper_ = AlignedArray<float>(n);
    lower_ = AlignedArray<float>(n);
    bounds_ = AlignedArray<float>(n * stride_);
    labels_ = AlignedArray<std::int32_t>(n);
#pragma omp parallel num_threads(threads_)
    {
      const Range points = part_of(problem.shape.n, omp_get_thread_num(), omp_get_num_threads());
      for (std::int64_t i = points.begin; i < points.end; ++i) place_in_frame(i);
    }
    keeps_between_ = keeps_between(problem.shape);
    if (keeps_between_) between_ = AlignedArray<float>(k * stride_);
    nearest_.assign(k, 0.0F);
    centroid_rows_.resize(k * d);
    centroid_norms_.resize(k);
    drift_.resize(k);
    all_.resize(k);
    std::iota(all_.begin(), all_.end(), 0);
    float64_centroids_ = Float64Centroids(k, d);
    sums_ = FixedPointSums<float>(problem, threads_);
    workers_.resize(threads_);
  }

  void reset(const float* centroids) override {
    const auto [n, d, k, precision] = problem_.shape;
    means_.assign(centroids, centroids + k * d);
    std::fill_n(labels_.data(), n, -1);
    sums_.clear();
    forget();
    pack_rows(0, 1);
    pack_between(0, 1);
  }

  void step(std::int64_t iterations) override {
    for (auto& worker : workers_) worker.value.distances = 0;
#pragma omp parallel num_threads(threads_)
    {
      const int thread = omp_get_thread_num();
      const int threads = omp_get_num_threads();
      for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
        {
          const auto timed = stage_of(thread, "assign");
          assign(thread, threads);
#pragma omp barrier
        }
        const auto timed = stage_of(thread, "update");
        move_centroids(thread, threads);
#pragma omp barrier
        pack_rows(thread, threads);
        if (thread == 0) follow_movement();
#pragma omp barrier
        pack_between(thread, threads);
#pragma omp barrier
      }
    }
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(means_.begin(), means_.end(), centroids);
    std::copy_n(labels_.data(), problem_.shape.n, labels);
  }

  [[nodiscard]] const float* centroids() const override { return means_.data(); }

  Progress progress() override {
    std::int64_t changed = 0;
    for (const auto& worker : workers_) changed += worker.value.changed;
    return {.movement = {}, .changed = changed, .loss = {}};
  }

  std::optional<std::int64_t> computed_distances() const override {
    std::int64_t distances = 0;
    for (const auto& worker : workers_) distances += worker.value.distances;
    return distances;
  }

  /// Distances between centroids are kept where they are few beside those to points.
  static bool keeps_between(const Shape& shape) {
    return shape.k <= 4096 && shape.k <= shape.n / 16;
  }

  static double bytes(const Shape& shape, int threads) {
    const Sizes s = shape;
    return 4 * s.n * (s.d + s.k + kLanes + 4) + Float64Centroids::bytes(s) + 12 * s.k * s.d +
           (keeps_between(shape) ? 4 * s.k * (s.k + kLanes) : 0) +
           FixedPointSums<float>::bytes(shape, useful_threads(shape, kLeastPoints, threads));
  }

 private:
  static constexpr int kLanes = Lanes<float>::kCount;
  static constexpr int kLeastPoints = 64;       // of a thread
  static constexpr int kTogether = 4;           // centroids measured at once
  static constexpr float kEnough = 0x1p40F;     // what lies beyond CentroidRange::kFar is further
  static constexpr float kFarTravel = 0x1p20F;  // bounds that have come so far tell nothing

  struct Worker {
    CentroidRange seen;
    std::int64_t changed = 0;
    std::int64_t distances = 0;      // formed in this step
    std::vector<std::int32_t> open;  // centroids to look at, then those that may be the nearest
    std::vector<float> before;       // its centroids before they moved
  };
  struct Best {
    float upper = std::numeric_limits<float>::infinity();
    std::int32_t label = 0;
  };

  StageScope stage_of(int thread, const char* name) {
    return thread == 0 ? this->stage(name) : StageScope(nullptr, name);
  }

  void place_in_frame(std::int64_t i) {
    const std::int64_t d = problem_.shape.d;
    double squares = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const float value = frame_->apply(problem_.points[i * d + t], t);
      rows_[i * d + t] = value;
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    norms_[i] = static_cast<float>(std::sqrt(squares) * 1.000001);  // never too short
    std::fill_n(bounds_.data() + i * stride_, stride_, 0.0F);
  }

  /// No bound is known of any point.
  void forget() {
    travelled_.assign(stride_, 0.0F);
    std::fill(travelled_.begin() + problem_.shape.k, travelled_.end(), -kEnough);  // padding
    farthest_ = 0;
    known_ = false;
  }

  // ---- single distances

  /// What rounding of coordinates can make of a distance between two of these norms.
  static float error_of(float norm, float other) {
    return (0x1p-22F * (norm + other) + 0x1p-50F) * Rules::kError;
  }
  [[nodiscard]] float upper_of(float squares, float error) const {
    return std::sqrt(squares) * (1 + rounding_) * Rules::kUp + error;
  }
  [[nodiscard]] float lower_of(float squares, float error) const {
    return std::min(kEnough, std::sqrt(squares) * (1 - rounding_) * Rules::kDown - error);
  }
  [[nodiscard]] bool is_far(std::int64_t j) const {
    return !(centroid_norms_[j] <= static_cast<float>(CentroidRange::kFar));
  }

  /// New lower bounds on the distances of point i to the centroids that are open, and the lowest upper one.
  void measure(Worker& worker, std::int64_t i, Best& best) {
    const std::int64_t d = problem_.shape.d;
    const auto count = static_cast<std::int64_t>(worker.open.size());
    worker.distances += count;
    for (std::int64_t first = 0; first < count; first += kTogether) {
      std::array<const float*, kTogether> rows;
      for (int c = 0; c < kTogether; ++c) {
        rows[c] = centroid_rows_.data() + worker.open[std::min(first + c, count - 1)] * d;
      }
      std::array<float, kTogether> squares;
      float32_distances<kTogether>(rows_.data() + i * d, rows, d, squares);
      for (std::int64_t c = 0; c < std::min<std::int64_t>(kTogether, count - first); ++c) {
        take(i, worker.open[first + c], squares[c], best);
      }
    }
  }

  void take(std::int64_t i, std::int32_t j, float squares, Best& best) {
    float lower = kEnough;
    if (!is_far(j)) {
      const float error = error_of(norms_[i], centroid_norms_[j]);
      lower = lower_of(squares, error);
      const float upper = upper_of(squares, error);
      if (upper < best.upper) best = {upper, j};
    }
    bounds_[i * stride_ + j] = (lower + travelled_[j]) * Rules::kDown;
  }

  [[nodiscard]] float bound_of(std::int64_t i, std::int32_t j) const {
    return bounds_[i * stride_ + j] * Rules::kDown - travelled_[j];
  }

  // ---- labels

  void assign(int thread, int threads) {
    Worker& worker = workers_[thread].value;
    worker.changed = 0;
    CentroidRange seen;
    for (const auto& other : workers_) seen.add(other.value.seen);
    // A centroid that is far is known to lose only against one that is near.
    const bool comparable = (seen.any_near || !seen.any_far) && rounding_ < 0.25F;
    const Range points = part_of(problem_.shape.n, thread, threads);
    for (std::int64_t i = points.begin; i < points.end; ++i) {
      if (!comparable) {
        label_by_float64(thread, i);
      } else if (known_) {
        label_by_bounds(thread, i);
      } else {
        worker.open = all_;
        Best best;
        measure(worker, i, best);
        decide(thread, i, best);
      }
    }
  }

  void label_by_float64(int thread, std::int64_t i) {
    workers_[thread].value.distances += problem_.shape.k;
    std::fill_n(bounds_.data() + i * stride_, problem_.shape.k, 0.0F);
    upper_[i] = std::numeric_limits<float>::infinity();
    lower_[i] = 0;
    relabel(thread, i, float64_centroids_.nearest(problem_.points + i * problem_.shape.d));
  }

  void label_by_bounds(int thread, std::int64_t i) {
    Worker& worker = workers_[thread].value;
    const std::int32_t own = labels_[i];
    upper_[i] = (upper_[i] + drift_[own]) * Rules::kUp;
    lower_[i] = lower_[i] * Rules::kDown - farthest_;
    // Equal bounds decide nothing: another centroid may be as near, and of a lower index.
    const float apart = std::max(lower_[i], nearest_[own]);
    if (upper_[i] * Rules::kClear < apart) return;
    Best best;
    worker.open.assign(1, own);
    measure(worker, i, best);
    upper_[i] = best.upper;
    if (upper_[i] * Rules::kClear < apart) return;
    find_open(worker, i, own);
    if (worker.open.empty()) {
      lower_[i] = lowest_of_others(i);
      return;
    }
    measure(worker, i, best);
    worker.open.push_back(own);
    decide(thread, i, best);
  }

  /// The centroids that no bound puts beyond the point's own.
  void find_open(Worker& worker, std::int64_t i, std::int32_t own) const {
    using L = Lanes<float>;
    const float* bounds = bounds_.data() + i * stride_;
    const float* between = keeps_between_ ? between_.data() + own * stride_ : nullptr;
    const auto upper = L::set(upper_[i] * Rules::kClear);
    worker.open.clear();
    for (std::int64_t j = 0; j < stride_; j += kLanes) {
      auto lower = L::load(bounds + j) * L::set(Rules::kDown) - L::load(travelled_.data() + j);
      if (between != nullptr) lower = L::max(lower, L::load(between + j));
      std::uint32_t open = ~L::bits(L::less(upper, lower)) & ((1U << kLanes) - 1);
      for (; open != 0; open &= open - 1) {
        const auto centroid = static_cast<std::int32_t>(j + std::countr_zero(open));
        if (centroid != own && centroid < problem_.shape.k) worker.open.push_back(centroid);
      }
    }
  }

  /// The label of a point whose nearest centroid is among the open ones, and its bounds.
  void decide(int thread, std::int64_t i, Best best) {
    Worker& worker = workers_[thread].value;
    const std::int64_t d = problem_.shape.d;
    const float clear = best.upper * Rules::kClear;
    std::erase_if(worker.open, [&](std::int32_t j) { return clear < bound_of(i, j); });
    const auto left = static_cast<std::int32_t>(worker.open.size());
    std::int32_t label = best.label;
    if (left > 1) {
      worker.distances += left;
      label = float64_nearest_of_few(problem_.points + i * d, means_.data(), d, worker.open.data(),
                                     left);
    }
    if (label != best.label) {
      worker.open.assign(1, label);
      best = {};
      measure(worker, i, best);
    }
    upper_[i] = best.upper;
    relabel(thread, i, label);
    lower_[i] = lowest_of_others(i);
  }

  /// At most the distance to the nearest but the own.
  float lowest_of_others(std::int64_t i) {
    using L = Lanes<float>;
    float* bounds = bounds_.data() + i * stride_;
    const float own = std::exchange(bounds[labels_[i]], kEnough * 2);
    auto lowest = L::set(kEnough);
    for (std::int64_t j = 0; j < stride_; j += kLanes) {
      const auto lower =
          L::load(bounds + j) * L::set(Rules::kDown) - L::load(travelled_.data() + j);
      lowest = L::min(lowest, lower);
    }
    bounds[labels_[i]] = own;
    return any_lane(lowest_in_all(lowest));
  }

  void relabel(int thread, std::int64_t i, std::int32_t label) {
    if (label == labels_[i]) return;
    sums_.move(thread, problem_.points + i * problem_.shape.d, labels_[i], label);
    labels_[i] = label;
    workers_[thread].value.changed += 1;
  }

  // ---- centroids

  /// New means of a thread's clusters, and how far they moved.
  void move_centroids(int thread, int threads) {
    const auto [n, d, k, precision] = problem_.shape;
    const Range clusters = part_of(k, thread, threads);
    auto& before = workers_[thread].value.before;
    before.assign(means_.begin() + clusters.begin * d, means_.begin() + clusters.end * d);
    sums_.update(means_.data(), clusters);
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      drift_[j] = drift_between<Rules>(before.data() + (j - clusters.begin) * d,
                                       means_.data() + j * d, d, frame_->scale);
    }
  }

  /// What centroids have travelled since bounds were first known. Beyond some distance, which only
  /// centroids from far away come to, all bounds begin anew.
  void follow_movement() {
    known_ = true;
    farthest_ = 0;
    for (std::int64_t j = 0; j < problem_.shape.k; ++j) {
      farthest_ = std::max(farthest_, drift_[j]);
      travelled_[j] = (travelled_[j] + drift_[j]) * (drift_[j] > 0 ? Rules::kUp : 1);
      known_ &= travelled_[j] <= kFarTravel;
    }
    if (!known_) forget();
  }

  /// A thread's part of the centroids, by rows in the frame.
  void pack_rows(int thread, int threads) {
    const auto [n, d, k, precision] = problem_.shape;
    CentroidRange seen;
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t j = clusters.begin; j < clusters.end; ++j) {
      double squares = 0;
      for (std::int64_t t = 0; t < d; ++t) {
        const float value = frame_->apply(means_[j * d + t], t);
        centroid_rows_[j * d + t] = value;
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
      const double length = std::sqrt(squares);
      centroid_norms_[j] = static_cast<float>(length * 1.000001);
      seen.any_near |= length <= CentroidRange::kNear;
      seen.any_far |= is_far(j);
    }
    workers_[thread].value.seen = seen;
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads));
  }

  /// Half of what a thread's part of the centroids is at least from every other.
  void pack_between(int thread, int threads) {
    if (!keeps_between_) return;
    const auto [n, d, k, precision] = problem_.shape;
    const Range clusters = part_of(k, thread, threads);
    for (std::int64_t a = clusters.begin; a < clusters.end; ++a) {
      float* half = between_.data() + a * stride_;
      float lowest = kEnough;
      for (std::int64_t first = 0; first < k; first += kTogether) {
        std::array<const float*, kTogether> rows;
        for (int c = 0; c < kTogether; ++c) {
          rows[c] = centroid_rows_.data() + std::min(first + c, k - 1) * d;
        }
        std::array<float, kTogether> squares;
        float32_distances<kTogether>(centroid_rows_.data() + a * d, rows, d, squares);
        for (std::int64_t j = first; j < std::min(first + kTogether, k); ++j) {
          const float error = error_of(centroid_norms_[a], centroid_norms_[j]);
          half[j] = is_far(a) || is_far(j) ? 0 : Rules::kHalf * lower_of(squares[j - first], error);
          if (j != a) lowest = std::min(lowest, half[j]);
        }
      }
      std::fill(half + k, half + stride_, 0.0F);
      nearest_[a] = k > 1 ? lowest : 0;
    }
  }

  Problem<float> problem_;
  int threads_ = 1;
  std::int64_t stride_ = 0;  // k, padded to whole registers
  float rounding_ = 0;       // of a sum of squares, relative
  bool known_ = false;       // are there bounds?
  bool keeps_between_ = false;
  std::optional<Frame<float>> frame_;
  AlignedArray<float> rows_;     // n x d, in the frame
  AlignedArray<float> norms_;    // n
  AlignedArray<float> upper_;    // n
  AlignedArray<float> lower_;    // n, at most the distance to any but the own
  AlignedArray<float> bounds_;   // n x k padded, plus what the centroid had travelled
  AlignedArray<float> between_;  // k x k padded, halved
  AlignedArray<std::int32_t> labels_;
  std::vector<float> nearest_;         // k, the lowest of between_ but the own
  std::vector<float> means_;           // k x d, the centroids as the caller sees them
  std::vector<float> centroid_rows_;   // k x d, in the frame
  std::vector<float> centroid_norms_;  // k, never too short
  std::vector<float> drift_;           // k, in the frame, in the last update
  std::vector<float> travelled_;       // k padded, the sum of these; never too small
  float farthest_ = 0;                 // the largest of drift_
  std::vector<std::int32_t> all_;      // 0, 1, ... k - 1
  Float64Centroids float64_centroids_;
  FixedPointSums<float> sums_;
  std::vector<Padded<Worker>> workers_;
};

}  // namespace kmeans::openmp
