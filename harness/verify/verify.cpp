// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/verify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>

#include "harness/exact_step.h"
#include "harness/support/formatted.h"
#include "harness/support/parallel.h"
#include "harness/support/random.h"
#include "harness/variants/registry.h"
#include "harness/verify/rounding.h"

namespace kmeans {
namespace {

// A library that labels once more after its last update does not show the labels that its
// centroids were made from. Up to this share of a cluster's points may then carry another label
// than the exact one, which moves the mean by that share of the cluster's spread.
constexpr double kHiddenLabelShare = 2e-3;

// `count` distinct indices, sorted.
std::vector<std::int64_t> sample_indices(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> indices;
  if (count >= n) {
    indices.resize(n);
    std::iota(indices.begin(), indices.end(), std::int64_t{0});
    return indices;
  }
  // One index from each of `count` equal stretches: spread over the whole set, so that a dropped
  // block of points is hit; plus the very first and last points, where edge mistakes live.
  indices.reserve(count + 2);
  SplitMix64 random(seed);
  for (std::int64_t s = 0; s < count; ++s) {
    const auto begin = static_cast<std::int64_t>(static_cast<__int128>(n) * s / count);
    const auto end = static_cast<std::int64_t>(static_cast<__int128>(n) * (s + 1) / count);
    indices.push_back(begin + random.below(end - begin));
  }
  indices.front() = 0;
  indices.back() = n - 1;
  return indices;
}

template <class T>
double norm_of(const T* row, std::int64_t d) {
  double sum = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const double value = row[t];
    sum += value * value;
  }
  return std::sqrt(sum);
}

// The smallest q up to 4 for which all values times 2^q are integers; nothing if there is none.
template <class T>
std::optional<int> binary_places(const T* values, std::int64_t count, int least) {
  constexpr int kMax = 4;
  int places = least;
  for (std::int64_t i = 0; i < count; ++i) {
    while (std::ldexp(values[i], places) != std::nearbyint(std::ldexp(values[i], places))) {
      if (++places > kMax) return std::nullopt;
    }
  }
  return places;
}

// Integers (of one power of two) small enough that no operation of any formula rounds: then every
// variant must give the exact labels, ties included, whatever its precision.
template <class T>
bool arithmetic_is_exact(const StepEvidence<T>& step, const T* centroids, Precision precision) {
  if (step.max_abs > 2048) return false;
  const std::int64_t kd = step.shape.k * step.shape.d;
  const T largest = std::max(step.max_abs, largest_abs(centroids, kd, 1));
  // Up to 2^20 the float32 square roots of different integers differ too.
  const double sum_limit = precision == Precision::f64 ? 0x1p48 : 0x1p20;
  const auto fits = [&](int places) {
    const double integer = std::ldexp(largest, places);
    return integer <= (precision == Precision::bf16 ? 256 : 2048) &&
           4.0 * static_cast<double>(step.shape.d) * integer * integer <= sum_limit;
  };
  // Cheap refusals before the points are looked at.
  auto places = binary_places(centroids, kd, 0);
  if (!places || !fits(*places)) return false;
  places = binary_places(step.points, step.shape.n * step.shape.d, *places);
  return places && fits(*places);
}

// Mean of the points, and the root of their mean squared distance from it.
struct Centre {
  std::vector<double> mean;
  double radius = 0;
};

template <class T>
Centre centre_of(const StepEvidence<T>& step) {
  const auto [n, d, k, precision] = step.shape;
  Centre centre;
  centre.mean.assign(d, 0);
  std::vector<std::vector<double>> partial(block_count(n), std::vector<double>(d, 0.0));
  for_blocks(n, step.threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t t = 0; t < step.shape.d; ++t) {
        partial[block][t] += step.points[i * step.shape.d + t];
      }
    }
  });
  for (const auto& sums : partial) {
    for (std::int64_t t = 0; t < d; ++t) centre.mean[t] += sums[t];
  }
  for (double& value : centre.mean) value /= static_cast<double>(n);
  std::vector<double> squares(block_count(n), 0.0);
  for_blocks(n, step.threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      squares[block] +=
          exact::squared_distance(step.points + i * step.shape.d, centre.mean.data(), step.shape.d);
    }
  });
  const double sum = std::accumulate(squares.begin(), squares.end(), 0.0);
  centre.radius = std::sqrt(sum / static_cast<double>(n));
  return centre;
}

struct LabelTally {
  std::int64_t differing = 0;
  std::int64_t beyond_bound = 0;
  std::int64_t out_of_range = 0;
  std::int64_t tie_broken_high = 0;
  std::int64_t first_bad = -1;
  std::int64_t last_bad = -1;
  std::int64_t exact_label_of_first = -1;
  double largest_excess = 0;
  double largest_of_bound = 0;
};

// Points come in ascending order.
void note_bad(LabelTally& tally, std::int64_t point, std::int64_t exact_label) {
  if (tally.first_bad < 0) {
    tally.first_bad = point;
    tally.exact_label_of_first = exact_label;
  }
  tally.last_bad = point;
}

void merge_tally(LabelTally& into, const LabelTally& from) {
  into.differing += from.differing;
  into.beyond_bound += from.beyond_bound;
  into.out_of_range += from.out_of_range;
  into.tie_broken_high += from.tie_broken_high;
  if (from.first_bad >= 0 && (into.first_bad < 0 || from.first_bad < into.first_bad)) {
    into.first_bad = from.first_bad;
    into.exact_label_of_first = from.exact_label_of_first;
  }
  into.last_bad = std::max(into.last_bad, from.last_bad);
  into.largest_excess = std::max(into.largest_excess, from.largest_excess);
  into.largest_of_bound = std::max(into.largest_of_bound, from.largest_of_bound);
}

// Squared distances of one point to a group of centroids held coordinate-major (d x kGroup), each
// summed with t ascending: the exact step's arithmetic, a centroid per lane. Written with vector types:
// on its own, the compiler puts coordinates into lanes and shuffles more than it adds.
constexpr std::int64_t kGroup = 16;
constexpr std::int64_t kLanes = 4;
using Lanes
    [[gnu::vector_size(kLanes * sizeof(double)), gnu::aligned(sizeof(double)), gnu::may_alias]] =
        double;

template <class T>
__attribute__((always_inline)) inline void add_group(const T* point, const double* group,
                                                     std::int64_t d, double* distances) {
  constexpr std::int64_t kParts = kGroup / kLanes;
  Lanes sums[kParts];
  for (Lanes& sum : sums) sum = Lanes{};
  for (std::int64_t t = 0; t < d; ++t) {
    const double x = point[t];
    const auto* row = reinterpret_cast<const Lanes*>(group + t * kGroup);
    for (std::int64_t part = 0; part < kParts; ++part) {
      const Lanes difference = x - row[part];
      const Lanes product = difference * difference;
      sums[part] = sums[part] + product;
    }
  }
  auto* found = reinterpret_cast<Lanes*>(distances);
  for (std::int64_t part = 0; part < kParts; ++part) found[part] = sums[part];
}

// Compiled for the registers of every processor and for wider ones, since most of verifying's time goes
// here. Both give the same bits: lanes do not meet, and nothing is fused.
template <class T>
void group_distances(const T* point, const double* group, std::int64_t d, double* distances) {
  add_group(point, group, d, distances);
}
#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void group_distances_avx2(const T* point, const double* group,
                                                          std::int64_t d, double* distances) {
  add_group(point, group, d, distances);
}
#endif

template <class T>
auto group_distances_here() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return group_distances_avx2<T>;
#endif
  return group_distances<T>;
}

// Exact distances from any point to all of a set of centroids.
template <class T>
class ExactDistances {
 public:
  ExactDistances(const T* centroids, std::int64_t k, std::int64_t d)
      : k_(k), d_(d), grouped_((k + kGroup - 1) / kGroup * kGroup * d, 0.0) {
    for (std::int64_t j = 0; j < k; ++j) {
      for (std::int64_t t = 0; t < d; ++t) {
        grouped_[(j / kGroup * d + t) * kGroup + j % kGroup] = centroids[j * d + t];
      }
    }
  }

  // Fills distances (resized to k) and returns the nearest centroid, the lowest index on a tie.
  std::int64_t to(const T* point, std::vector<double>& distances) const {
    std::vector<double>* one = &distances;
    to_each({&point, 1}, {one, 1});
    return nearest_in(distances);
  }

  // Fills distances[p] for every point p. All points are compared with one group of centroids before the
  // next, since a cache may not hold all centroids.
  void to_each(std::span<const T* const> points, std::span<std::vector<double>> distances) const {
    for (std::size_t p = 0; p < points.size(); ++p) {
      distances[p].resize(grouped_.size() / static_cast<std::size_t>(d_));
    }
    for (std::int64_t first = 0; first < k_; first += kGroup) {
      for (std::size_t p = 0; p < points.size(); ++p) {
        group_distances_(points[p], grouped_.data() + first * d_, d_, distances[p].data() + first);
      }
    }
    for (std::size_t p = 0; p < points.size(); ++p) distances[p].resize(k_);
  }

  static std::int64_t nearest_in(const std::vector<double>& distances) {
    return std::min_element(distances.begin(), distances.end()) - distances.begin();
  }

 private:
  std::int64_t k_;
  std::int64_t d_;
  std::vector<double> grouped_;  // groups x d x kGroup
  void (*group_distances_)(const T*, const double*, std::int64_t,
                           double*) = group_distances_here<T>();
};

// What rounding may do to the computed distance of a point and a centroid.
template <class T>
class DistanceBounds {
 public:
  DistanceBounds(const Traits& traits, const StepEvidence<T>& step, const T* centroids)
      : traits_(traits),
        step_(step),
        centroids_(centroids),
        none_(traits.exact || (!traits.centres && traits.labels_of == LabelsOf::starting &&
                               arithmetic_is_exact(step, centroids, step.shape.precision))) {
    if (none_) return;
    const std::int64_t d = step.shape.d;
    if (traits.centres) centre_ = centre_of(step);
    for (std::int64_t j = 0; j < step.shape.k; ++j) norms_.push_back(norm_of(centroids + j * d, d));
  }

  // No operation rounds, or the variant claims to be exact: nothing is granted.
  [[nodiscard]] bool none() const { return none_; }

  // No less than of() for any centroid that can compete for the point.
  [[nodiscard]] double largest(const T* point) const {
    if (none_) return 0;
    const double farthest =
        norm_of(point, step_.shape.d) + *std::max_element(norms_.begin(), norms_.end());
    // Distances are at most (|x| + |c|)^2, and centring adds at most the same again.
    const double reach = traits_.centres ? 4 * (farthest + norm_of_centre()) : farthest;
    return distance_bound(traits_, step_.shape.precision, step_.shape.d, reach * reach, reach);
  }

  [[nodiscard]] double of(const T* point, std::int64_t j, double distance) const {
    if (none_) return 0;
    const std::int64_t d = step_.shape.d;
    double reach = norm_of(point, d) + norms_[j];
    if (traits_.centres) {
      const double* mean = centre_.mean.data();
      const double about_mean = std::sqrt(exact::squared_distance(point, mean, d)) +
                                std::sqrt(exact::squared_distance(centroids_ + j * d, mean, d));
      reach = std::max(reach, about_mean + 2 * centre_.radius);
    }
    return distance_bound(traits_, step_.shape.precision, d, distance, reach);
  }

 private:
  [[nodiscard]] double norm_of_centre() const {
    return norm_of(centre_.mean.data(), step_.shape.d) + centre_.radius;
  }

  const Traits& traits_;
  const StepEvidence<T>& step_;
  const T* centroids_;
  bool none_;
  Centre centre_;
  std::vector<double> norms_;  // k
};

// The most by which a squared distance can change when its centroid moves.
double moved_by(double movement, double distance) {
  return movement * (2 * std::sqrt(distance) + movement);
}

// The points whose labels differ from those given.
std::vector<std::int64_t> differing_points(const std::int32_t* labels,
                                           const std::int32_t* exact_labels, std::int64_t n) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < n; ++i) {
    if (labels[i] != exact_labels[i]) indices.push_back(i);
  }
  return indices;
}

// How far the given labels of chosen points are from the exact ones.
template <class T>
LabelTally judge_labels(const Traits& traits, const StepEvidence<T>& step, const T* centroids,
                        const std::vector<std::int64_t>& indices) {
  const std::int64_t d = step.shape.d;
  const std::int64_t k = step.shape.k;
  const ExactDistances<T> exact_distances(centroids, k, d);
  const DistanceBounds<T> bounds(traits, step, centroids);
  const auto count = static_cast<std::int64_t>(indices.size());
  constexpr std::int64_t kTogether = 16;
  const std::int64_t parts = (count + kTogether - 1) / kTogether;
  std::vector<LabelTally> tallies(parts);
  for_each_part(parts, step.threads, [&](std::int64_t part) {
    LabelTally& tally = tallies[part];
    const std::int64_t begin = part * kTogether;
    const std::int64_t end = std::min(count, begin + kTogether);
    std::array<const T*, kTogether> points{};
    for (std::int64_t s = begin; s < end; ++s) points[s - begin] = step.points + indices[s] * d;
    thread_local std::array<std::vector<double>, kTogether> all_distances;
    const auto together = static_cast<std::size_t>(end - begin);
    exact_distances.to_each({points.data(), together}, {all_distances.data(), together});
    for (std::int64_t s = begin; s < end; ++s) {
      const std::int64_t i = indices[s];
      const T* point = points[s - begin];
      const std::vector<double>& distances = all_distances[s - begin];
      const std::int64_t exact_label = ExactDistances<T>::nearest_in(distances);
      const std::int64_t label = step.labels[i];
      if (label == exact_label) continue;
      tally.differing += 1;
      if (label < 0 || label >= k) {
        tally.out_of_range += 1;
        note_bad(tally, i, exact_label);
        continue;
      }
      const double nearest = distances[exact_label];
      const double own = distances[label];
      const double excess = own - nearest;
      const double bound = bounds.of(point, label, own) + bounds.of(point, exact_label, nearest) +
                           moved_by(step.starting_error, own) +
                           moved_by(step.starting_error, nearest);
      if (nearest > 0) tally.largest_excess = std::max(tally.largest_excess, excess / nearest);
      double of_bound = 0;
      if (bound > 0) {
        of_bound = excess / bound;
      } else if (bounds.none() || excess > 0) {
        of_bound = std::numeric_limits<double>::infinity();
      }
      tally.largest_of_bound = std::max(tally.largest_of_bound, of_bound);
      if (of_bound > 1) {
        if (excess == 0) {
          tally.tie_broken_high += 1;
        } else {
          tally.beyond_bound += 1;
        }
        note_bad(tally, i, exact_label);
      }
    }
  });
  LabelTally total;
  for (const auto& tally : tallies) merge_tally(total, tally);
  return total;
}

// Means of clusters in (nearly) doubled float64, with what the bounds need.
struct ClusterMeans {
  std::vector<double> mean;      // k x d
  std::vector<double> mean_abs;  // k x d: mean |x|
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> fixed_sums;  // k x d, exact sums of float32 points; empty for float64
};

// sum += value; compensation gets exactly what rounding took away, without a branch (Knuth).
inline void add_compensated(double value, double& sum, double& compensation) {
  const double next = sum + value;
  const double added = next - sum;
  compensation += (sum - (next - added)) + (value - added);
  sum = next;
}

// The part of the k x d sums that one thread owns: it goes through all points and adds what is its
// own. So every sum runs over i ascending, whatever the number of threads, and needs no copy.
struct OwnedSums {
  std::int64_t first_cluster = 0;
  std::int64_t last_cluster = 0;  // one past
  std::int64_t first_coordinate = 0;
  std::int64_t last_coordinate = 0;  // one past
};

template <class T>
void add_owned(const StepEvidence<T>& step, const std::int32_t* labels, const OwnedSums& own,
               std::int64_t begin, std::int64_t end, ClusterMeans& means,
               std::vector<double>& low) {
  const std::int64_t n = step.shape.n;
  const std::int64_t d = step.shape.d;
  double scale = 1;
  if constexpr (std::is_same_v<T, float>) {
    scale = exact::power_of_two(exact::sum_exponent(n, step.max_abs));
  }
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t j = labels[i];
    if (j < own.first_cluster || j >= own.last_cluster) continue;
    if (own.first_coordinate == 0) means.counts[j] += 1;
    double* __restrict__ sum = means.mean.data() + j * d;
    double* __restrict__ absolute = means.mean_abs.data() + j * d;
    double* __restrict__ compensation = low.data() + j * d;
    const T* point = step.points + i * d;
    for (std::int64_t t = own.first_coordinate; t < own.last_coordinate; ++t) {
      add_compensated(point[t], sum[t], compensation[t]);
      absolute[t] += std::abs(static_cast<double>(point[t]));
    }
    if constexpr (std::is_same_v<T, float>) {
      std::int64_t* fixed = means.fixed_sums.data() + j * d;
      for (std::int64_t t = own.first_coordinate; t < own.last_coordinate; ++t) {
        fixed[t] += exact::to_fixed_point(point[t], scale);
      }
    }
  }
}

template <class T>
ClusterMeans means_of(const StepEvidence<T>& step, const std::int32_t* labels) {
  const std::int64_t d = step.shape.d;
  const std::int64_t k = step.shape.k;
  ClusterMeans means;
  means.counts.assign(k, 0);
  means.mean.assign(k * d, 0);
  means.mean_abs.assign(k * d, 0);
  if (std::is_same_v<T, float>) means.fixed_sums.assign(k * d, 0);
  std::vector<double> low(k * d, 0);  // compensation (Neumaier)

  // If all sums fit a cache, the threads share the coordinates, and each reads row after row. Otherwise
  // they share the clusters, four groups a thread, since clusters differ in size; if there are too few
  // clusters, also the coordinates.
  const bool cached = k * d <= 1 << 14 && d >= 16 * step.threads;
  const std::int64_t groups =
      cached ? 1 : std::min<std::int64_t>(k, std::int64_t{4} * step.threads);
  const std::int64_t slices =
      std::min<std::int64_t>(d, std::max<std::int64_t>(1, step.threads / groups));
  // All owners add a stretch of rows before any goes on to the next, so that points beyond memory are read
  // once, not once an owner.
  constexpr std::int64_t kStretch = std::int64_t{1} << 25;  // coordinates
  const std::int64_t rows = std::max<std::int64_t>(1, kStretch / d);
  for (std::int64_t begin = 0; begin < step.shape.n; begin += rows) {
    const std::int64_t end = std::min(step.shape.n, begin + rows);
    for_each_part(groups * slices, step.threads, [&](std::int64_t part) {
      const std::int64_t group = part / slices;
      const std::int64_t slice = part % slices;
      const OwnedSums own{k * group / groups, k * (group + 1) / groups, d * slice / slices,
                          d * (slice + 1) / slices};
      add_owned(step, labels, own, begin, end, means, low);
    });
  }
  for (std::int64_t j = 0; j < k; ++j) {
    const double count = static_cast<double>(std::max<std::int64_t>(1, means.counts[j]));
    for (std::int64_t t = 0; t < d; ++t) {
      means.mean[j * d + t] = (means.mean[j * d + t] + low[j * d + t]) / count;
      means.mean_abs[j * d + t] /= count;
    }
  }
  return means;
}

// By how much the coordinates that a variant adds up may exceed those given, d: one that centres adds differences from
// the points' mean, as it finds it in its own arithmetic, of roundoff `unit`.
std::vector<double> shifts_of(const Traits& traits, const Shape& shape, const ClusterMeans& means,
                              double unit) {
  std::vector<double> shifts(shape.d, 0);
  if (!traits.centres || traits.sums != Sums::working) return shifts;
  const auto n = static_cast<double>(shape.n);
  for (std::int64_t t = 0; t < shape.d; ++t) {
    double sum = 0;
    double sum_abs = 0;
    for (std::int64_t j = 0; j < shape.k; ++j) {
      const auto count = static_cast<double>(means.counts[j]);
      sum += count * means.mean[j * shape.d + t];
      sum_abs += count * means.mean_abs[j * shape.d + t];
    }
    shifts[t] = (std::abs(sum) + gamma(n, unit) * sum_abs) / n;
  }
  return shifts;
}

// Labels of the exact step from the starting centroids, and what rounding leaves open about them.
struct StartingLabels {
  std::vector<std::int32_t> labels;  // n
  // Per cluster, the points that rounding may move into or out of it; empty when not computed.
  std::vector<std::vector<std::int64_t>> open;
};

// By the definition, with the open points.
template <class T>
StartingLabels label_in_full(const Traits& traits, const StepEvidence<T>& step) {
  const std::int64_t d = step.shape.d;
  const std::int64_t k = step.shape.k;
  const ExactDistances<T> exact_distances(step.starting, k, d);
  const DistanceBounds<T> bounds(traits, step, step.starting);
  StartingLabels result;
  result.labels.resize(step.shape.n);
  result.open.resize(k);
  std::mutex open_mutex;
  for_blocks(step.shape.n, step.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<double> distances;
    for (std::int64_t i = begin; i < end; ++i) {
      const T* point = step.points + i * d;
      const std::int64_t nearest = exact_distances.to(point, distances);
      result.labels[i] = static_cast<std::int32_t>(nearest);
      const double own_bound = bounds.of(point, nearest, distances[nearest]);
      const double far = own_bound + bounds.largest(point);
      bool open = false;
      for (std::int64_t j = 0; j < k; ++j) {
        if (j == nearest) continue;
        const double gap = distances[j] - distances[nearest];
        if (gap > far) continue;  // most are: saves the norms
        if (gap <= own_bound + bounds.of(point, j, distances[j])) {
          const std::lock_guard lock(open_mutex);
          result.open[j].push_back(i);
          open = true;
        }
      }
      if (open) {
        const std::lock_guard lock(open_mutex);
        result.open[nearest].push_back(i);
      }
    }
  });
  return result;
}

// Through the exact variant at hand, for problems too large for the definition.
std::optional<StartingLabels> label_fast(const StepEvidence<float>& step) {
  const auto* engine = exact_engine(EngineOn::threads);
  if (engine == nullptr) return std::nullopt;
  auto variant = engine->factory.make_float(Precision::f32);
  Problem<float> problem;
  problem.shape = step.shape;
  problem.shape.precision = Precision::f32;
  problem.points = step.points;
  problem.max_abs = step.max_abs;
  problem.threads = step.threads;
  variant->setup(problem);
  variant->reset(step.starting);
  variant->step(1);
  std::vector<float> ignored(step.shape.k * step.shape.d);
  StartingLabels result;
  result.labels.resize(step.shape.n);
  variant->fetch(ignored.data(), result.labels.data());
  return result;
}

template <class T>
std::optional<StartingLabels> starting_labels(const Traits& traits, const StepEvidence<T>& step,
                                              double budget) {
  const double cost = static_cast<double>(step.shape.n) * static_cast<double>(step.shape.d) *
                      static_cast<double>(step.shape.k);
  if (cost <= budget) return label_in_full(traits, step);
  if constexpr (std::is_same_v<T, float>) return label_fast(step);
  return std::nullopt;
}

// Root mean squared distance of each cluster's points from its mean.
template <class T>
std::vector<double> spreads_of(const StepEvidence<T>& step, const std::int32_t* labels,
                               const ClusterMeans& means) {
  const auto [n, d, k, precision] = step.shape;
  std::vector<double> sums(k, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t j = labels[i];
    if (j < 0 || j >= k) continue;
    double distance = 0;
    for (std::int64_t t = 0; t < d; ++t) {
      const double difference = step.points[i * d + t] - means.mean[j * d + t];
      distance += difference * difference;
    }
    sums[j] += distance;
  }
  for (std::int64_t j = 0; j < k; ++j) {
    sums[j] = std::sqrt(sums[j] / static_cast<double>(std::max<std::int64_t>(1, means.counts[j])));
  }
  return sums;
}

std::string place(std::int64_t j, std::int64_t t) {
  return "cluster " + std::to_string(j) + ", coordinate " + std::to_string(t);
}

// Where the wrong labels are. Often it is the end: a tail that was left out, or the last point.
std::string whereabouts(const LabelTally& tally, std::int64_t bad, std::int64_t n) {
  const std::string point = "point " + std::to_string(tally.first_bad);
  if (n > 1 && tally.first_bad == n - 1) {
    return "only the last of the " + std::to_string(n) + " points, " + point;
  }
  if (bad > 1 && tally.last_bad - tally.first_bad == bad - 1 && tally.last_bad == n - 1) {
    return "the last " + std::to_string(bad) + " of the " + std::to_string(n) +
           " points; first: " + point;
  }
  return "first: " + point;
}

}  // namespace

template <class T>
void certify_labels(const Traits& traits, const StepEvidence<T>& step, const VerifyOptions& options,
                    Certificate& certificate) {
  const auto [n, d, k, precision] = step.shape;
  const double affordable = options.budget / (static_cast<double>(d) * static_cast<double>(k));
  const auto count = affordable >= static_cast<double>(n)
                         ? n
                         : std::max<std::int64_t>(std::min<std::int64_t>(n, 1000),
                                                  static_cast<std::int64_t>(affordable));
  const bool known = step.exact_labels != nullptr;
  const auto indices = known ? differing_points(step.labels, step.exact_labels, n)
                             : sample_indices(n, count, options.seed);
  const std::int64_t checked = known ? n : static_cast<std::int64_t>(indices.size());
  const T* owner = traits.labels_of == LabelsOf::starting ? step.starting : step.returned;
  const LabelTally tally = judge_labels(traits, step, owner, indices);

  certificate.points_checked = checked;
  certificate.points_total = n;
  certificate.sample_seed = options.seed;
  certificate.labels_differing =
      static_cast<double>(tally.differing) / static_cast<double>(checked);
  certificate.largest_excess = tally.largest_excess;
  certificate.largest_excess_of_bound = tally.largest_of_bound;

  // A label out of range breaks everything after it, so this one looks at all points.
  std::int64_t out_of_range = 0;
  for (std::int64_t i = 0; i < n; ++i) out_of_range += step.labels[i] < 0 || step.labels[i] >= k;
  certificate.add("labels in range", out_of_range == 0,
                  out_of_range == 0 ? "all labels are in [0, k)"
                                    : std::to_string(out_of_range) + " labels are outside [0, k)");
  const std::int64_t bad = tally.beyond_bound + tally.tie_broken_high + tally.out_of_range;
  std::string detail = std::to_string(tally.differing) + " of " + std::to_string(checked) +
                       " checked labels differ from the exact ones";
  if (bad > 0) {
    detail += ", " + std::to_string(bad) + " of them more than rounding explains (" +
              whereabouts(tally, bad, n) + ", label " +
              std::to_string(step.labels[tally.first_bad]) + "; the exact label is " +
              std::to_string(tally.exact_label_of_first) + ")";
    if (tally.tie_broken_high > 0) {
      detail +=
          "; " + std::to_string(tally.tie_broken_high) + " ties did not go to the lowest index";
    }
  }
  certificate.add(traits.exact ? "labels exact" : "labels within rounding", bad == 0, detail);
}

namespace {

// Has the step moved this centroid by more than its starting place is uncertain?
template <class T>
bool has_moved(const StepEvidence<T>& step, std::int64_t j) {
  const std::int64_t d = step.shape.d;
  const T* before = step.starting + j * d;
  const T* after = step.returned + j * d;
  const double unknown = std::max(step.starting_error, step.kept_error);
  if (unknown == 0) return std::memcmp(before, after, d * sizeof(T)) != 0;
  return !(std::sqrt(exact::squared_distance(before, after, d)) <= unknown);
}

// The same, with previous centroids from another run.
template <class T>
bool has_moved_since_another_run(const Traits& traits, const StepEvidence<T>& step,
                                 std::int64_t j) {
  const std::int64_t d = step.shape.d;
  double largest = step.max_abs;
  for (std::int64_t t = 0; t < d; ++t) {
    largest = std::max(largest, std::abs(static_cast<double>(step.starting[j * d + t])));
  }
  StepEvidence<T> other = step;
  other.kept_error =
      std::max(step.kept_error, kept_error_of(traits, step.shape, scalar_of<T>, largest));
  return has_moved(other, j);
}

// May this centroid be a mean of some of these points? Then each coordinate lies between their least and largest.
template <class T>
bool may_be_mean_of(const StepEvidence<T>& step, const std::vector<std::int64_t>& points,
                    std::int64_t j) {
  if (points.empty()) return false;
  const std::int64_t d = step.shape.d;
  const double storage = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-53;
  const double rounding =
      (gamma(2 * static_cast<double>(points.size()) + 8, storage) + 8 * storage) *
      static_cast<double>(step.max_abs);
  for (std::int64_t t = 0; t < d; ++t) {
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (const std::int64_t i : points) {
      const double coordinate = step.points[i * d + t];
      low = std::min(low, coordinate);
      high = std::max(high, coordinate);
    }
    const double value = step.returned[j * d + t];
    if (!(value >= low - rounding && value <= high + rounding)) return false;
  }
  return true;
}

constexpr const char* kEmptyKept = "empty clusters keep their centroid";

// For an empty cluster that did not keep its centroid.
template <class T>
std::string what_became_of(const StepEvidence<T>& step, std::int64_t j) {
  const T* centroid = step.returned + j * step.shape.d;
  for (std::int64_t t = 0; t < step.shape.d; ++t) {
    if (std::isfinite(centroid[t])) continue;
    return "empty cluster " + std::to_string(j) + " did not keep its centroid: coordinate " +
           std::to_string(t) + " is " + formatted("%g", static_cast<double>(centroid[t]));
  }
  return "empty cluster " + std::to_string(j) + " moved";
}

}  // namespace

template <class T>
void certify_own_means(const Traits& traits, const StepEvidence<T>& step,
                       Certificate& certificate) {
  const auto [n, d, k, precision] = step.shape;
  const ClusterMeans means = means_of(step, step.labels);
  const Rounding rounding = rounding_of(precision);
  const double storage = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-53;
  // Matrix units may round operands of the assignment, but sums are of the points as given.
  const double sum_unit = traits.sums == Sums::working ? storage : kUnit64;
  double inverse_scale = 1;
  if constexpr (std::is_same_v<T, float>) {
    inverse_scale = exact::power_of_two(-exact::sum_exponent(n, step.max_abs));
  }

  const std::vector<double> shifts = shifts_of(traits, step.shape, means, storage);
  std::int64_t bad_empty = -1;
  std::int64_t bad_value = -1;
  double worst = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    if (means.counts[j] == 0) {
      if (step.starting != nullptr && traits.empty_clusters == EmptyClusters::keep &&
          has_moved(step, j) && bad_empty < 0) {
        bad_empty = j;
      }
      continue;
    }
    const auto count = static_cast<double>(means.counts[j]);
    for (std::int64_t t = 0; t < d; ++t) {
      const double value = step.returned[j * d + t];
      double error = std::abs(value - means.mean[j * d + t]);
      double bound = 0;
      if (traits.exact) {
        if constexpr (std::is_same_v<T, float>) {
          error = std::abs(
              value - exact::mean_of(means.fixed_sums[j * d + t], means.counts[j], inverse_scale));
        }
      } else {
        // count - 1 additions, a division or a product with the reciprocal, one rounding to
        // storage; partial sums added and subtracted again cost a few more.
        const double size = means.mean_abs[j * d + t] + shifts[t];
        bound = (gamma(2 * count + 8, sum_unit) + 4 * storage) * size + rounding.underflow;
      }
      double share = 0;
      if (!std::isfinite(value)) {
        share = std::numeric_limits<double>::infinity();
      } else if (error > 0) {
        share = bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
      }
      if (share > worst) worst = share;
      if (share > 1 && bad_value < 0) bad_value = j * d + t;
    }
  }
  certificate.centroid_error_of_bound = worst;
  if (step.starting != nullptr) {
    certificate.add(kEmptyKept, bad_empty < 0,
                    bad_empty < 0 ? "no empty cluster moved" : what_became_of(step, bad_empty));
  }
  certificate.add(traits.exact ? "centroids exact" : "centroids are the means of their points",
                  bad_value < 0,
                  bad_value < 0 ? "largest error " + formatted("%.3g", worst) + " of its bound"
                                : place(bad_value / d, bad_value % d) + ": " +
                                      formatted("%.9g", step.returned[bad_value]) + " instead of " +
                                      formatted("%.9g", means.mean[bad_value]) + ", " +
                                      formatted("%.3g", worst) + " times the bound at worst");
}

namespace {

// For libraries that show only the labels of one further assignment.
template <class T>
void certify_hidden_means(const Traits& traits, const StepEvidence<T>& step,
                          const VerifyOptions& options, Certificate& certificate) {
  static const char* const kName = "centroids are the means of the starting labels";
  const auto [n, d, k, precision] = step.shape;
  const auto starting = starting_labels(traits, step, options.budget);
  if (!starting) {
    certificate.add(kName, true, "not checked: too large to label in float64");
    return;
  }
  const std::int32_t* labels = starting->labels.data();
  const ClusterMeans means = means_of(step, labels);
  const bool in_full = !starting->open.empty();
  std::int64_t empty = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    const auto open = in_full ? static_cast<std::int64_t>(starting->open[j].size()) : 0;
    empty += means.counts[j] - open <= 0;
  }
  if (empty > 0 && traits.empty_clusters == EmptyClusters::relocate) {
    certificate.add(kName, true,
                    "not compared: the library moves empty clusters, and " + std::to_string(empty) +
                        " are empty or may be by rounding");
    return;
  }
  const std::vector<double> spreads = spreads_of(step, labels, means);
  const double storage = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-53;
  const std::vector<double> shifts = shifts_of(traits, step.shape, means, storage);
  double worst = 0;
  std::int64_t bad = -1;
  std::int64_t bad_empty = -1;
  for (std::int64_t j = 0; j < k; ++j) {
    if (in_full && means.counts[j] <= static_cast<std::int64_t>(starting->open[j].size())) {
      // Nothing is certain about this cluster: it was empty, or had some of the open points.
      if (traits.empty_clusters == EmptyClusters::keep &&
          has_moved_since_another_run(traits, step, j) &&
          !may_be_mean_of(step, starting->open[j], j) && bad_empty < 0) {
        bad_empty = j;
      }
      continue;
    }
    if (means.counts[j] == 0) continue;
    const auto count = static_cast<double>(means.counts[j]);
    double hidden = 0;  // how far labels that rounding leaves open can move the mean
    if (in_full) {
      const auto open = static_cast<std::int64_t>(starting->open[j].size());
      for (const std::int64_t i : starting->open[j]) {
        hidden +=
            std::sqrt(exact::squared_distance(step.points + i * d, means.mean.data() + j * d, d));
      }
      hidden /= static_cast<double>(means.counts[j] - open);
    } else {
      hidden = std::max(kHiddenLabelShare, std::min(1.0, 2 / count)) * spreads[j];
    }
    for (std::int64_t t = 0; t < d; ++t) {
      const double error = std::abs(step.returned[j * d + t] - means.mean[j * d + t]);
      const double bound =
          (gamma(2 * count + 8, storage) + 8 * storage) * (means.mean_abs[j * d + t] + shifts[t]) +
          storage * 8 * static_cast<double>(step.max_abs) + hidden;
      const double share = std::isfinite(error) ? (error > 0 ? error / bound : 0)
                                                : std::numeric_limits<double>::infinity();
      if (share > worst) worst = share;
      if (share > 1 && bad < 0) bad = j * d + t;
    }
  }
  certificate.centroid_error_of_bound = worst;
  certificate.add(kEmptyKept, bad_empty < 0,
                  bad_empty < 0 ? "no empty cluster moved" : what_became_of(step, bad_empty));
  certificate.add(kName, bad < 0,
                  bad < 0 ? "largest error " + formatted("%.3g", worst) + " of its bound"
                          : place(bad / d, bad % d) + " is beyond its bound, " +
                                formatted("%.3g", worst) + " times at worst");
}

}  // namespace

double kept_error_of(const Traits& traits, const Shape& shape, ScalarType scalar, double largest) {
  const double storage = scalar == ScalarType::f32 ? 0x1p-24 : kUnit64;
  const double additions = traits.sums == Sums::working ? static_cast<double>(shape.n) : 0;
  const double share = std::min(0.5, 2 * (additions + 8) * storage);
  return share * largest * std::sqrt(static_cast<double>(shape.d));
}

Rounding rounding_of(Precision precision) {
  switch (precision) {
    case Precision::f64: return {0, 0x1p-53, 0x1p-1022};
    case Precision::f32: return {0, 0x1p-24, 0x1p-126};
    case Precision::tf32: return {0x1p-11, 0x1p-24, 0x1p-126};
    // Below 2^-14 a float16 operand is subnormal: its error is absolute, up to 2^-25.
    case Precision::f16: return {0x1p-11, 0x1p-24, 0x1p-25};
    case Precision::bf16: return {0x1p-8, 0x1p-24, 0x1p-126};
  }
  return {};
}

double distance_bound(const Traits& traits, Precision precision, std::int64_t d, double distance,
                      double norms) {
  const Rounding rounding = rounding_of(precision);
  const auto terms = static_cast<double>(d);
  // The yardstick's own rounding matters for float64 points only; granting it always is harmless.
  const double yardstick = gamma(terms + 2, kUnit64) * distance;
  const double underflow = terms * rounding.underflow;
  if (traits.distance == Distance::direct && rounding.operand == 0 && !traits.centres) {
    // d + 2 roundings reach each term; 4 more admit a comparison of rounded square roots.
    return gamma(terms + 6, rounding.arithmetic) * distance + yardstick + underflow;
  }
  // |x|^2, -2 x.c and |c|^2 are each off by gamma of their own size, which sums to (|x| + |c|)^2;
  // rounded operands add (2 u + u^2) per product, on both sides of the product.
  const double operand = 2 * rounding.operand + rounding.operand * rounding.operand;
  // Coordinates of centred data are rounded once more: 4 more roundings of that size.
  const double roundings = terms + (traits.centres ? 10 : 6);
  const double expanded = (gamma(roundings, rounding.arithmetic) + operand) * norms * norms;
  const double operand_underflow = rounding.underflow * norms * std::sqrt(terms) * 4;
  return expanded + yardstick + underflow + (rounding.operand > 0 ? operand_underflow : 0);
}

template <class T>
Certificate certify_step(const Traits& traits, const StepEvidence<T>& step,
                         const VerifyOptions& options) {
  Certificate certificate;
  certify_labels(traits, step, options, certificate);
  if (traits.labels_of == LabelsOf::starting) {
    certify_own_means(traits, step, certificate);
  } else {
    certify_hidden_means(traits, step, options, certificate);
  }
  return certificate;
}

void float64_step(const double* points, const Shape& shape, int threads,
                  std::vector<double>& centroids, std::vector<std::int32_t>& labels) {
  const auto [n, d, k, precision] = shape;
  const std::int64_t columns = d;
  labels.resize(n);
  const ExactDistances<double> exact_distances(centroids.data(), k, d);
  for_blocks(n, threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<double> distances;
    for (std::int64_t i = begin; i < end; ++i) {
      labels[i] = static_cast<std::int32_t>(exact_distances.to(points + i * columns, distances));
    }
  });
  StepEvidence<double> step;
  step.shape = shape;
  step.points = points;
  step.threads = threads;
  const ClusterMeans means = means_of(step, labels.data());
  for (std::int64_t j = 0; j < k; ++j) {
    if (means.counts[j] == 0) continue;
    std::copy_n(means.mean.begin() + j * d, d, centroids.begin() + j * d);
  }
}

void exact_step_by_rows(const float* points, const Shape& shape, float max_abs, int threads,
                        std::vector<float>& centroids, std::vector<std::int32_t>& labels) {
  const std::int64_t d = shape.d;
  const std::int64_t k = shape.k;
  const int exponent = exact::sum_exponent(shape.n, max_abs);
  const double scale = exact::power_of_two(exponent);
  labels.resize(shape.n);
  const ExactDistances<float> exact_distances(centroids.data(), k, d);
  std::vector<std::int64_t> sums(k * (d + 1), 0);  // a cluster's sums, then its count
  std::mutex mutex;
  for_blocks(shape.n, threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<double> distances;
    std::vector<std::int64_t> own(k * (d + 1), 0);
    for (std::int64_t i = begin; i < end; ++i) {
      const float* point = points + i * d;
      const std::int64_t nearest = exact_distances.to(point, distances);
      labels[i] = static_cast<std::int32_t>(nearest);
      std::int64_t* sum = own.data() + nearest * (d + 1);
      for (std::int64_t t = 0; t < d; ++t) sum[t] += exact::to_fixed_point(point[t], scale);
      sum[d] += 1;
    }
    const std::lock_guard lock(mutex);
    for (std::size_t c = 0; c < own.size(); ++c) sums[c] += own[c];  // integers: in any order
  });
  const double inverse_scale = exact::power_of_two(-exponent);
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t* sum = sums.data() + j * (d + 1);
    if (sum[d] == 0) continue;  // an empty cluster keeps its centroid
    for (std::int64_t t = 0; t < d; ++t) {
      centroids[j * d + t] = exact::mean_of(sum[t], sum[d], inverse_scale);
    }
  }
}

template Certificate certify_step<float>(const Traits&, const StepEvidence<float>&,
                                         const VerifyOptions&);
template Certificate certify_step<double>(const Traits&, const StepEvidence<double>&,
                                          const VerifyOptions&);
template void certify_labels<float>(const Traits&, const StepEvidence<float>&, const VerifyOptions&,
                                    Certificate&);
template void certify_labels<double>(const Traits&, const StepEvidence<double>&,
                                     const VerifyOptions&, Certificate&);
template void certify_own_means<float>(const Traits&, const StepEvidence<float>&, Certificate&);
template void certify_own_means<double>(const Traits&, const StepEvidence<double>&, Certificate&);
}  // namespace kmeans
