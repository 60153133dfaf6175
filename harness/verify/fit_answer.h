// SPDX-License-Identifier: Apache-2.0
//
// The answer of a whole fit, judged by itself: centroids and labels from anywhere, and nothing of the way
// that led to them. docs/fits.md says what is certified.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/verify/verify.h"

namespace kmeans {

struct FitClaims {
  /// Of these count exact, distance, centres and labels_of.
  Traits traits;
  Precision precision = Precision::f32;
  /// It says that one more iteration would change nothing.
  bool settled = false;
};

struct FitJudgement {
  Certificate certificate;
  /// Whose labels they are found to be: "returned", or "starting" for those of the iteration before.
  LabelsOf labels_of = LabelsOf::returned;
  double inertia = 0;  ///< Of the labels against the centroids that came with them, in float64.
  /// What one exact iteration more would take off it, as a share.
  double left = 0;
  std::int64_t empty_clusters = 0;
  std::string label_hash;
  std::string centroid_hash;
};

/// Of several problems that are one answer, as of a product quantiser: centroids and labels lie one after the other.
/// `judgements`: of each, in their order.
FitJudgement joined(const std::vector<FitJudgement>& judgements);

/// Judges fits of one set of points to one k. Refers to the points.
class FitJudge {
 public:
  /// Points are finite, and the exact step resolves them.
  FitJudge(const float* points, Shape shape, int threads);
  ~FitJudge();
  FitJudge(const FitJudge&) = delete;
  FitJudge& operator=(const FitJudge&) = delete;

  [[nodiscard]] FitJudgement judge(const FitClaims& claims, const float* centroids,
                                   const std::int32_t* labels);

 private:
  [[nodiscard]] StepEvidence<float> evidence(const float* centroids,
                                             const std::int32_t* labels) const;

  const float* points_;
  Shape shape_;
  int threads_;
  float max_abs_;
  std::unique_ptr<Variant<float>> engine_;
};

}  // namespace kmeans
