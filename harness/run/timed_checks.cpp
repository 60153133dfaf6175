// SPDX-License-Identifier: Apache-2.0
#include "harness/run/timed_checks.h"

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/support/formatted.h"

namespace kmeans {
namespace {

// Relative difference of inertia up to which two answers pass for equally good.
constexpr double kSameQuality = 1e-2;

}  // namespace

template <class T>
void check_timed_outcome(Session<T>& session, const CertifiedRun<T>& run,
                         const VerifyOptions& options, Certificate& certificate) {
  static const char* const kName = "timed run found what was certified";
  const Outcome<T> timed = session.fetch();
  if (timed.labels == run.last.labels && timed.centroid_hash() == run.last.centroid_hash()) {
    certificate.add(kName, true, "same labels and centroids, bit for bit");
    return;
  }
  const Traits& traits = session.traits();
  if (traits.exact) {
    certificate.add(kName, false, "an exact variant gave other bits when timed");
    return;
  }
  if (!in_range(timed.labels, session.problem().shape.k)) {
    certificate.add(kName, false, "labels are outside [0, k)");
    return;
  }
  if (traits.labels_of == LabelsOf::starting) {
    // Its own centroids of the last-but-one iteration are not to be had, but they differ by
    // rounding from the certified run's; the means of its own labels are checked as they are.
    StepEvidence<T> step = session.evidence(run.before, timed);
    Certificate means = certify_step(traits, step, options);
    for (const auto& check : means.checks) {
      if (check.name == "centroids are the means of their points") {
        certificate.add(std::string("timed run: ") + check.name, check.passed, check.detail);
      }
    }
  }
  const T* owner =
      traits.labels_of == LabelsOf::returned ? timed.centroids.data() : run.before.data();
  const Quality quality = quality_of(session.problem().points, owner, timed.labels.data(),
                                     session.problem().shape, session.verify_threads());
  const double difference =
      run.quality.inertia > 0 ? quality.inertia / run.quality.inertia - 1 : quality.inertia;
  const InertiaFloor floor = trajectory_floor(
      traits, session.problem().shape, scalar_of<T>,
      trajectory_scale(run.before.data(), run.last.labels.data(), session.problem().shape),
      static_cast<double>(session.problem().max_abs));
  const bool only_rounding =
      run.quality.inertia <= floor.granted && quality.inertia <= floor.granted;
  certificate.add(kName, only_rounding || std::abs(difference) <= kSameQuality,
                  formatted("other bits; inertia differs by a relative %.3g", difference));
}

template <class T>
void compare_with_trajectory(const Job& job, const Traits& traits, const Problem<T>& problem,
                             CertifiedRun<T>& run) {
  if (std::is_same_v<T, double> && job.exact_scalar == ScalarType::f32 &&
      rounding_points_matters(job.exact_scale, *job.exact_inertia)) {
    run.certificate.add("inertia on the exact trajectory", true,
                        "not compared: the problem is too large for a trajectory in float64, and "
                        "rounding the points to float32 would change the answer");
    return;
  }
  certify_trajectory(traits, run.quality.inertia, *job.exact_inertia, job.exact_had_empty_clusters,
                     run.certificate,
                     trajectory_floor(traits, problem.shape, job.exact_scalar, job.exact_scale,
                                      static_cast<double>(problem.max_abs)));
}

template <class T>
void check_disturbance(Session<T>& session, const CertifiedRun<T>& run,
                       const VerifyOptions& options, Certificate& certificate) {
  static const char* const kName = "answers follow the initial centroids";
  const Outcome<T> other = session.disturb();
  // Labels that belong to the returned centroids agree with them also when both are stale.
  if (session.traits().labels_of == LabelsOf::returned) return;
  const Shape& shape = session.problem().shape;
  if (!in_range(other.labels, shape.k)) {
    certificate.add(kName, false, "labels are outside [0, k)");
    return;
  }
  const auto inertia = [&](const std::vector<T>& centroids, const Outcome<T>& outcome) {
    return quality_of(session.problem().points, centroids.data(), outcome.labels.data(), shape,
                      session.verify_threads())
        .inertia;
  };
  const double expected = inertia(session.initial(), run.first);
  const double found = inertia(session.rotated(), other);
  if (std::abs(found - expected) <= kSameQuality * expected) return;
  // Rounding may take more than that, where it decides many labels; stale ones it does not explain.
  const auto rotated = session.rotated();
  const bool explained =
      certify_step(session.traits(), session.evidence(rotated, other), options).passed;
  certificate.add(kName, explained,
                  formatted("from the same centroids in another order came labels of inertia %.6g "
                            "instead of %.6g",
                            found, expected) +
                      (explained ? ", which rounding explains" : ""));
}

template void check_timed_outcome(Session<float>&, const CertifiedRun<float>&, const VerifyOptions&,
                                  Certificate&);
template void check_timed_outcome(Session<double>&, const CertifiedRun<double>&,
                                  const VerifyOptions&, Certificate&);
template void compare_with_trajectory(const Job&, const Traits&, const Problem<float>&,
                                      CertifiedRun<float>&);
template void compare_with_trajectory(const Job&, const Traits&, const Problem<double>&,
                                      CertifiedRun<double>&);
template void check_disturbance(Session<float>&, const CertifiedRun<float>&, const VerifyOptions&,
                                Certificate&);
template void check_disturbance(Session<double>&, const CertifiedRun<double>&, const VerifyOptions&,
                                Certificate&);

}  // namespace kmeans
