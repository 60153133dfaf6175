// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/fit_answer.h"

#include <algorithm>
#include <cmath>

#include "harness/support/hash.h"
#include "harness/support/largest_abs.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

// Multiply-adds up to which all labels are looked at by the definition; beyond, the exact engine labels all
// points, and so many are spent on a sample of them.
constexpr double kByDefinition = 2e8;

const RegisteredVariant& engine_at_hand() {
  const RegisteredVariant* fast = exact_engine(EngineOn::threads);
  return fast != nullptr && availability(*fast).ok ? *fast : definition();
}

std::string place_of_nonfinite(const float* centroids, const Shape& shape) {
  for (std::int64_t i = 0; i < shape.k * shape.d; ++i) {
    if (std::isfinite(centroids[i])) continue;
    return "coordinate " + std::to_string(i % shape.d) + " of centroid " +
           std::to_string(i / shape.d) + " is not finite";
  }
  return "";
}

}  // namespace

FitJudgement joined(const std::vector<FitJudgement>& judgements) {
  if (judgements.size() == 1) return judgements.front();
  FitJudgement all;
  double after = 0;
  std::string labels;
  std::string centroids;
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    const FitJudgement& one = judgements[i];
    all.certificate.merge(one.certificate, "problem " + std::to_string(i) + ": ");
    if (one.labels_of == LabelsOf::starting) all.labels_of = LabelsOf::starting;
    all.inertia += one.inertia;
    after += one.inertia * (1 - one.left);
    all.empty_clusters += one.empty_clusters;
    labels += one.label_hash;
    centroids += one.centroid_hash;
  }
  all.left = all.inertia > 0 ? std::max(0.0, 1 - after / all.inertia) : 0;
  all.label_hash = fnv1a_hex(labels.data(), labels.size());
  all.centroid_hash = fnv1a_hex(centroids.data(), centroids.size());
  return all;
}

FitJudge::FitJudge(const float* points, Shape shape, int threads)
    : points_(points),
      shape_(shape),
      threads_(threads),
      max_abs_(largest_abs(points, shape.n * shape.d, threads)),
      engine_(engine_at_hand().factory.make_float(Precision::f32)) {
  Problem<float> problem;
  problem.shape = shape_;
  problem.shape.precision = Precision::f32;
  problem.points = points_;
  problem.max_abs = max_abs_;
  problem.threads = threads_;
  engine_->setup(problem);
}

FitJudge::~FitJudge() = default;

StepEvidence<float> FitJudge::evidence(const float* centroids, const std::int32_t* labels) const {
  StepEvidence<float> step;
  step.shape = shape_;
  step.points = points_;
  step.max_abs = max_abs_;
  step.returned = centroids;
  step.labels = labels;
  step.threads = threads_;
  return step;
}

FitJudgement FitJudge::judge(const FitClaims& claims, const float* centroids,
                             const std::int32_t* labels) {
  const auto [n, d, k, unused] = shape_;
  FitJudgement found;
  Certificate& certificate = found.certificate;
  certificate.points_total = n;
  found.label_hash = fnv1a_hex(labels, n * sizeof(std::int32_t));
  found.centroid_hash = fnv1a_hex(centroids, k * d * sizeof(float));
  const std::string nonfinite = place_of_nonfinite(centroids, shape_);
  certificate.add("centroids are finite", nonfinite.empty(),
                  nonfinite.empty() ? "all of them" : nonfinite);
  const auto out_of_range = std::count_if(
      labels, labels + n, [k = k](std::int32_t label) { return label < 0 || label >= k; });
  if (out_of_range > 0) {
    certificate.add("labels in range", false,
                    std::to_string(out_of_range) + " of " + std::to_string(n) +
                        " labels are outside [0, " + std::to_string(k) + ")");
  }
  if (!certificate.passed) return found;

  // The exact step from these centroids: labels to compare with, and where it would lead.
  std::vector<std::int32_t> exact_labels(n);
  std::vector<float> next(k * d);
  engine_->reset(centroids);
  engine_->step(1);
  engine_->fetch(next.data(), exact_labels.data());

  Shape shape = shape_;
  shape.precision = claims.precision;
  StepEvidence<float> step = evidence(centroids, labels);
  step.shape = shape;
  Traits traits = claims.traits;
  traits.labels_of = LabelsOf::returned;
  const double work = static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(d);
  VerifyOptions options;
  options.budget = kByDefinition;
  Certificate nearest;
  certify_labels(traits, step, options, nearest);
  if (work > kByDefinition) {
    StepEvidence<float> all = step;
    all.exact_labels = exact_labels.data();
    Certificate by_engine;
    certify_labels(traits, all, options, by_engine);
    by_engine.merge(nearest, "of a sample, by the definition: ");
    nearest = by_engine;
  }
  if (nearest.passed || claims.traits.labels_of == LabelsOf::returned) {
    certificate.merge(nearest, "");
  } else {
    // Of the iteration before: then the centroids are the means of the points with these labels.
    found.labels_of = LabelsOf::starting;
    certificate.labels_differing = nearest.labels_differing;
    certificate.points_checked = n;
    Traits own = claims.traits;
    own.exact = false;
    certify_own_means(own, step, certificate);
    if (!certificate.passed) certificate.merge(nearest, "not of the returned centroids either: ");
  }
  if (claims.settled && found.labels_of == LabelsOf::returned) {
    certify_own_means(claims.traits, step, certificate);
    certificate.checks.back().name = "nothing changes any more: " + certificate.checks.back().name;
  }
  const Quality quality = quality_of(points_, centroids, labels, shape_, threads_);
  found.inertia = quality.inertia;
  found.empty_clusters = quality.empty_clusters;
  const double after =
      quality_of(points_, next.data(), exact_labels.data(), shape_, threads_).inertia;
  found.left = found.inertia > 0 ? std::max(0.0, 1 - after / found.inertia) : 0;
  return found;
}

}  // namespace kmeans
