// SPDX-License-Identifier: Apache-2.0
//
// The verifier: certificates that a Lloyd step is right, for exact variants bit for bit, for all
// others within the rounding bound of their declared precision. The tolerances are in
// verify.cpp and trajectory.cpp, their derivation in docs/exact-step.md.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "datasets/points.h"
#include "harness/support/largest_abs.h"
#include "harness/variant.h"

namespace kmeans {

/// One sentence of a certificate.
struct Check {
  std::string name;
  bool passed = true;
  std::string detail;
};

struct Certificate {
  bool passed = true;
  std::vector<Check> checks;
  std::int64_t points_checked = 0;
  std::int64_t points_total = 0;
  std::uint64_t sample_seed = 0;
  double labels_differing = 0;         ///< share of the checked labels that are not the exact ones
  double largest_excess = 0;           ///< (D(label) - D(nearest)) / D(nearest)
  double largest_excess_of_bound = 0;  ///< the excess as a share of what rounding explains
  double centroid_error_of_bound = 0;
  std::optional<double> inertia_relative_difference;

  void add(std::string name, bool ok, std::string detail);
  /// Joins another certificate: all checks, the worst of each figure.
  void merge(const Certificate& other, const std::string& prefix);
  /// The first failed check as one sentence, empty when passed.
  [[nodiscard]] std::string failure() const;
};

nlohmann::json to_json(const Certificate& certificate);

/// Rounding of the declared precision: u of operands and of the accumulation.
struct Rounding {
  double operand = 0;     ///< unit roundoff applied to the operands (0 when they are used as given)
  double arithmetic = 0;  ///< unit roundoff of products and sums
  double underflow = 0;   ///< absolute error of one operation near zero
};
Rounding rounding_of(Precision precision);

/// Bound on |computed - true| squared distance of one point and one centroid.
/// distance: the true squared distance; norms: |x| + |c| (Euclidean).
double distance_bound(const Traits& traits, Precision precision, std::int64_t d, double distance,
                      double norms);

/// One Lloyd step as a variant did it.
template <class T>
struct StepEvidence {
  Shape shape;
  const T* points = nullptr;             ///< n x d
  T max_abs = 0;                         ///< largest |coordinate| of the points
  const T* starting = nullptr;           ///< k x d centroids that the step started from
  const T* returned = nullptr;           ///< k x d centroids after it
  const std::int32_t* labels = nullptr;  ///< n
  int threads = 1;                       ///< for the verifier itself
  /// Of the exact step from the centroids that labels belong to, where they are known: then only labels
  /// that differ from them are looked at, all of them.
  const std::int32_t* exact_labels = nullptr;
  /// How far the variant's own starting centroids may be from `starting`, each by this distance.
  double starting_error = 0;
  /// The same of a cluster without points, which still has what earlier iterations left it.
  double kept_error = 0;
};

/// How far two runs may be apart in a centroid that a cluster without points has kept: it was a mean of
/// up to n points once. `largest`: of the coordinates of points and centroids.
double kept_error_of(const Traits& traits, const Shape& shape, ScalarType scalar, double largest);

struct VerifyOptions {
  double budget = 2e9;     ///< multiply-adds for the label check; a random sample beyond
  std::uint64_t seed = 1;  ///< of that sample
};

/// Certifies labels (of a sample where n k d exceeds the budget) and all centroids of one step.
template <class T>
Certificate certify_step(const Traits& traits, const StepEvidence<T>& step,
                         const VerifyOptions& options);

/// The two parts of that which need no centroids before the step: each label is a nearest one of the
/// centroids that it belongs to (`returned`, or `starting`, by the traits) ...
template <class T>
void certify_labels(const Traits& traits, const StepEvidence<T>& step, const VerifyOptions& options,
                    Certificate& certificate);
/// ... and the returned centroids are the means of the points that carry the step's own labels. `starting`,
/// by which clusters without points are judged, may be null.
template <class T>
void certify_own_means(const Traits& traits, const StepEvidence<T>& step, Certificate& certificate);

/// Inertia that is nothing but rounding: where clusters are single places, as with fewer distinct
/// points than clusters, no more is left, and a relative difference of it means nothing.
struct InertiaFloor {
  double exact = 0;    ///< Of the exact trajectory, whose centroids are rounded to float32.
  double granted = 0;  ///< Of a variant with these traits, at most.
};

/// How large the centroids are at the end of a trajectory, weighted by their points. Clusters of
/// one point are left out: their mean is that point and not rounded, so that an outlier, which ends
/// alone, says nothing about the rounding of the others.
struct TrajectoryScale {
  double weight = 0;   ///< Sum over clusters of count * |centroid|^2.
  double scatter = 0;  ///< Of count * |centroid - their mean|^2.
};
template <class T>
TrajectoryScale trajectory_scale(const T* centroids, const std::int32_t* labels,
                                 const Shape& shape);

/// The floor for a comparison with a trajectory of this scale whose centroids are stored in float32
/// or float64. What is granted is never more than a hundredth of the scatter of distinct places.
InertiaFloor trajectory_floor(const Traits& traits, const Shape& shape, ScalarType trajectory,
                              const TrajectoryScale& scale, double max_abs);

/// May rounding float64 points to float32 change the inertia of a trajectory of this scale by more
/// than what is far below the tolerance of a comparison?
bool rounding_points_matters(const TrajectoryScale& scale, double exact_inertia);

/// One Lloyd step in float64, the yardstick of float64 cells: labels as in the exact step, means
/// from compensated sums with i ascending, so the same for any number of threads.
void float64_step(const double* points, const Shape& shape, int threads,
                  std::vector<double>& centroids, std::vector<std::int32_t>& labels);

/// One exact Lloyd step (docs/exact-step.md) row by row, each row read once and none kept: for points that
/// memory does not hold. Plain code of its own, without a filter.
void exact_step_by_rows(const float* points, const Shape& shape, float max_abs, int threads,
                        std::vector<float>& centroids, std::vector<std::int32_t>& labels);

/// Compares the inertia after T iterations with the exact trajectory's. Where that is below the
/// floor, a variant's only has to be within what is granted there. `met_empty_clusters`: the exact
/// trajectory did; that a variant's own clusters went empty by rounding is not an excuse.
void certify_trajectory(const Traits& traits, double inertia, double exact_inertia,
                        bool met_empty_clusters, Certificate& certificate,
                        const InertiaFloor& floor = {});

/// Quality of labels against centroids, in float64, independent of the number of threads.
struct Quality {
  double inertia = 0;  ///< sum of squared distances
  double loss = 0;     ///< sum of distances
  std::int64_t empty_clusters = 0;
};
template <class T>
Quality quality_of(const T* points, const T* centroids, const std::int32_t* labels,
                   const Shape& shape, int threads, const CountedPoints<T>& counted = {});

}  // namespace kmeans
