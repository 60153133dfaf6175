// SPDX-License-Identifier: Apache-2.0
//
// An answer that was made anywhere, by any program: labels and centroids after T iterations, judged as a
// variant's are. What a variant shows of its way, the centroids before its last step, may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/verify/verify.h"

namespace kmeans {

enum class AnswerVerdict {
  exact,      ///< The bits of the exact Lloyd step, labels and centroids.
  certified,  ///< The last step is certified from the centroids that it started from.
  rounded,    ///< Follows the exact trajectory up to rounding.
  undecided,  ///< A right step may lead here, and a wrong one.
  wrong,
};

/// "exact", "certified", ...
const char* to_string(AnswerVerdict verdict);

template <class T>
struct AnswerFromOutside {
  Shape shape;
  const T* points = nullptr;             ///< n x d, finite
  const T* initial = nullptr;            ///< k x d, finite
  std::int64_t iterations = 1;           ///< T
  const std::int32_t* labels = nullptr;  ///< n, whatever they are
  const T* centroids = nullptr;          ///< k x d, whatever they are
  const T* before = nullptr;  ///< k x d, the answer's own centroids after T - 1 iterations, or null
  int threads = 1;
};

/// A point whose label is not the exact trajectory's.
struct DifferingLabel {
  std::int64_t point = 0;
  std::int32_t label = 0;
  std::int32_t exact_label = 0;
};

struct AnswerJudgement {
  AnswerVerdict verdict = AnswerVerdict::wrong;
  std::string reason;  ///< One sentence.
  Certificate certificate;
  std::int64_t labels_differing = 0;  ///< From those of the exact trajectory.
  std::optional<DifferingLabel> first_differing;
  std::optional<double> inertia;  ///< Of the labels against the returned centroids.
  double exact_inertia = 0;       ///< The same of the exact trajectory.
};

/// `traits`: distance, labels_of, empty_clusters and sums of the program; precision in the shape. Runs
/// the exact trajectory, of float64 points the float64 one. Throws InputError for points that the exact
/// step refuses.
template <class T>
AnswerJudgement judge_answer(const Traits& traits, const AnswerFromOutside<T>& answer);

}  // namespace kmeans
