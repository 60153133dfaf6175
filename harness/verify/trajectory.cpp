// SPDX-License-Identifier: Apache-2.0
//
// What a whole trajectory ends in: inertia and loss, and how far from the exact ones they may be.
#include <algorithm>
#include <cmath>

#include "harness/exact_step.h"
#include "harness/support/formatted.h"
#include "harness/support/parallel.h"
#include "harness/verify/rounding.h"
#include "harness/verify/verify.h"

namespace kmeans {
namespace {

// Trajectories part at the first tie that rounding decides otherwise, so this is not a rounding bound:
// it is where a difference stops being explained by a few such points.
constexpr double kTrajectoryTolerance = 1e-2;

}  // namespace

template <class T>
TrajectoryScale trajectory_scale(const T* centroids, const std::int32_t* labels,
                                 const Shape& shape) {
  const auto [n, d, k, precision] = shape;
  std::vector<std::int64_t> counts(k, 0);
  for (std::int64_t i = 0; i < n; ++i) counts[labels[i]] += 1;
  double total = 0;
  std::vector<double> mean(d, 0.0);
  for (std::int64_t j = 0; j < k; ++j) {
    if (counts[j] < 2) continue;
    total += static_cast<double>(counts[j]);
    for (std::int64_t t = 0; t < d; ++t) {
      const double step = static_cast<double>(centroids[j * d + t]) - mean[t];
      mean[t] += step * (static_cast<double>(counts[j]) / total);
    }
  }
  const std::vector<double> origin(d, 0.0);
  TrajectoryScale scale;
  for (std::int64_t j = 0; j < k; ++j) {
    if (counts[j] < 2) continue;
    const auto count = static_cast<double>(counts[j]);
    scale.weight += count * exact::squared_distance(centroids + j * d, origin.data(), d);
    scale.scatter += count * exact::squared_distance(centroids + j * d, mean.data(), d);
  }
  return scale;
}

InertiaFloor trajectory_floor(const Traits& traits, const Shape& shape, ScalarType trajectory,
                              const TrajectoryScale& scale, double max_abs) {
  // However many points are summed in the working precision: what is off by more is not a mean.
  constexpr double kLargestMeanError = 1e-2;
  const auto n = static_cast<double>(shape.n);
  const auto d = static_cast<double>(shape.d);
  const double storage = trajectory == ScalarType::f32 ? 0x1p-24 : kUnit64;
  // Half a unit in the last place of every stored centroid, and of the quantum of integer sums.
  const double quantum = trajectory == ScalarType::f32 ? n * max_abs * 0x1p-61 : 0;
  InertiaFloor floor;
  floor.exact = 1.01 * storage * storage * scale.weight + n * d * quantum * quantum;
  const double own_storage = shape.precision == Precision::f64 ? kUnit64 : 0x1p-24;
  const double sum_unit = traits.sums == Sums::working ? own_storage : kUnit64;
  const double mean_error =
      std::min(kLargestMeanError, gamma(2 * n + 8, sum_unit) + 4 * std::max(own_storage, storage));
  // A point may carry the label of another centroid within the bound, too.
  const double norms = 2 * std::sqrt(scale.weight / n);
  floor.granted = 4 * mean_error * mean_error * scale.weight + 4 * floor.exact +
                  2 * n * distance_bound(traits, shape.precision, shape.d, 0, norms);
  // Worst cases grow with the distance from the origin, and would soon explain any answer. Where
  // centroids are further apart than rounding moves them, an answer that leaves a share of that
  // scatter has points at the wrong place.
  if (scale.scatter > 64 * floor.exact) {
    floor.granted = std::min(floor.granted, kTrajectoryTolerance * scale.scatter);
  }
  if (!std::isfinite(floor.exact) || !std::isfinite(floor.granted)) return {};
  return floor;
}

bool rounding_points_matters(const TrajectoryScale& scale, double exact_inertia) {
  constexpr double kFarBelow = 1e-4;
  return scale.weight * 0x1p-48 > kFarBelow * exact_inertia;
}

void certify_trajectory(const Traits& traits, double inertia, double exact_inertia,
                        bool met_empty_clusters, Certificate& certificate,
                        const InertiaFloor& floor) {
  if (met_empty_clusters && traits.empty_clusters == EmptyClusters::relocate) {
    certificate.add("inertia on the exact trajectory", true,
                    "not compared: the library moves empty clusters, the suite keeps them");
    return;
  }
  if (!traits.exact && exact_inertia <= floor.exact && floor.granted > 0) {
    certificate.add(
        "inertia on the exact trajectory", inertia <= floor.granted,
        formatted("%.3g", inertia) + ", of which rounding explains " +
            formatted("%.3g", floor.granted) +
            "; the exact one, too, is nothing but rounding: " + formatted("%.3g", exact_inertia));
    return;
  }
  const double difference =
      exact_inertia > 0 ? (inertia - exact_inertia) / exact_inertia : (inertia > 0 ? 1.0 : 0.0);
  certificate.inertia_relative_difference = difference;
  // Labels that belong to the returned centroids are one assignment ahead: lower inertia is right.
  // Rounded centroids add to inertia what they add, however little there is else.
  const double tolerance = traits.exact ? 1e-12
                           : exact_inertia > 0
                               ? kTrajectoryTolerance + 4 * floor.exact / exact_inertia
                               : kTrajectoryTolerance;
  const bool ok = traits.labels_of == LabelsOf::returned ? difference <= tolerance
                                                         : std::abs(difference) <= tolerance;
  certificate.add("inertia on the exact trajectory", ok,
                  "relative difference " + formatted("%.3g", difference));
}

template <class T>
Quality quality_of(const T* points, const T* centroids, const std::int32_t* labels,
                   const Shape& shape, int threads, const CountedPoints<T>& counted) {
  const auto [n, d, k, precision] = shape;
  struct Part {
    double inertia = 0;
    double loss = 0;
  };
  std::vector<Part> parts(block_count(n));
  const std::int64_t columns = d;
  for_blocks(n, threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    Part part;
    for (std::int64_t i = begin; i < end; ++i) {
      const double distance = exact::squared_distance(
          points + i * columns, centroids + std::int64_t{labels[i]} * columns, columns);
      const double weight = counted.given == nullptr ? 1.0 : counted.given[i];
      part.inertia += weight * distance;
      part.loss += weight * std::sqrt(distance);
    }
    parts[block] = part;
  });
  Quality quality;
  for (const auto& part : parts) {
    quality.inertia += part.inertia;
    quality.loss += part.loss;
  }
  std::vector<char> used(k, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    if (counted.counts(i)) used[labels[i]] = 1;
  }
  quality.empty_clusters = std::count(used.begin(), used.end(), 0);
  return quality;
}

template TrajectoryScale trajectory_scale<float>(const float*, const std::int32_t*, const Shape&);
template TrajectoryScale trajectory_scale<double>(const double*, const std::int32_t*, const Shape&);
template Quality quality_of<float>(const float*, const float*, const std::int32_t*, const Shape&,
                                   int, const CountedPoints<float>&);
template Quality quality_of<double>(const double*, const double*, const std::int32_t*, const Shape&,
                                    int, const CountedPoints<double>&);

}  // namespace kmeans
