// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/answer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/variants/registry.h"
#include "harness/verify/resolution.h"

namespace kmeans {
namespace {

// How much farther than at the end the answer's own centroids may have been from the exact ones one
// iteration before it.
constexpr double kFartherBefore = 4;

/// Steps by which answers are judged: exact ones of float32 points, float64 ones of others.
template <class T>
class RightSteps {
 public:
  RightSteps(const AnswerFromOutside<T>& answer, T max_abs) : answer_(answer) {
    if constexpr (std::is_same_v<T, float>) {
      const auto* engine = exact_engine(EngineOn::threads);
      if (engine == nullptr) engine = &definition();
      variant_ = engine->factory.make_float(Precision::f32);
      Problem<float> problem;
      problem.shape = answer.shape;
      problem.shape.precision = Precision::f32;
      problem.points = answer.points;
      problem.max_abs = max_abs;
      problem.threads = answer.threads;
      variant_->setup(problem);
    }
  }

  /// Moves the centroids by so many steps; the labels are those of the last.
  void run(std::int64_t iterations, std::vector<T>& centroids, std::vector<std::int32_t>& labels) {
    labels.resize(answer_.shape.n);
    if (iterations == 0) return;
    if constexpr (std::is_same_v<T, float>) {
      variant_->reset(centroids.data());
      variant_->step(iterations);
      variant_->fetch(centroids.data(), labels.data());
    } else {
      for (std::int64_t step = 0; step < iterations; ++step) {
        float64_step(answer_.points, answer_.shape, answer_.threads, centroids, labels);
      }
    }
  }

  std::vector<std::int32_t> labels_by(const T* owners) {
    std::vector<T> centroids(owners, owners + answer_.shape.k * answer_.shape.d);
    std::vector<std::int32_t> labels;
    run(1, centroids, labels);
    return labels;
  }

 private:
  const AnswerFromOutside<T>& answer_;
  std::unique_ptr<Variant<float>> variant_;
};

/// The last step of the right trajectory.
template <class T>
struct LastStep {
  std::vector<T> before;
  std::vector<T> after;
  std::vector<std::int32_t> labels;  // found in it
  std::vector<std::int32_t> shown;   // that an answer shows: found in it, or by `after`
};

template <class T>
LastStep<T> last_step_of(const Traits& traits, const AnswerFromOutside<T>& answer,
                         RightSteps<T>& steps) {
  LastStep<T> last;
  last.before.assign(answer.initial, answer.initial + answer.shape.k * answer.shape.d);
  steps.run(answer.iterations - 1, last.before, last.labels);
  last.after = last.before;
  steps.run(1, last.after, last.labels);
  last.shown =
      traits.labels_of == LabelsOf::returned ? steps.labels_by(last.after.data()) : last.labels;
  return last;
}

/// Empty where all are finite.
template <class T>
std::string not_finite(const AnswerFromOutside<T>& answer) {
  const std::int64_t d = answer.shape.d;
  for (std::int64_t c = 0; c < answer.shape.k * d; ++c) {
    if (std::isfinite(answer.centroids[c])) continue;
    return "centroids finite: cluster " + std::to_string(c / d) + ", coordinate " +
           std::to_string(c % d) + " is " +
           formatted("%g", static_cast<double>(answer.centroids[c]));
  }
  return "";
}

/// Empty where all are in [0, k).
template <class T>
std::string out_of_range(const AnswerFromOutside<T>& answer) {
  std::int64_t count = 0;
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < answer.shape.n; ++i) {
    if (answer.labels[i] >= 0 && answer.labels[i] < answer.shape.k) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return "labels in range: " + std::to_string(count) + " of " + std::to_string(answer.shape.n) +
         " labels are outside [0, k), k = " + std::to_string(answer.shape.k) + "; first: point " +
         std::to_string(first);
}

template <class T>
void compare_labels(const AnswerFromOutside<T>& answer, const std::vector<std::int32_t>& exact,
                    AnswerJudgement& judgement) {
  for (std::int64_t i = 0; i < answer.shape.n; ++i) {
    if (answer.labels[i] == exact[i]) continue;
    if (judgement.labels_differing++ == 0) {
      judgement.first_differing = {i, answer.labels[i], exact[i]};
    }
  }
}

/// The largest distance of a centroid from where it should be, of clusters that have points: where a
/// cluster without points is says nothing of how exact the others were.
template <class T>
double largest_distance(const AnswerFromOutside<T>& answer, const LastStep<T>& right) {
  const auto [n, d, k, precision] = answer.shape;
  std::vector<char> used(k, 0);
  for (const std::int32_t label : right.labels) used[label] = 1;
  double largest = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    if (used[j] == 0) continue;
    largest = std::max(
        largest, exact::squared_distance(answer.centroids + j * d, right.after.data() + j * d, d));
  }
  return std::sqrt(largest);
}

template <class T>
bool is_exact(const AnswerFromOutside<T>& answer, const LastStep<T>& right) {
  return std::memcmp(answer.centroids, right.after.data(), right.after.size() * sizeof(T)) == 0 &&
         std::equal(right.labels.begin(), right.labels.end(), answer.labels);
}

template <class T>
class Judge {
 public:
  Judge(const Traits& traits, const AnswerFromOutside<T>& answer, T max_abs)
      : traits_(traits),
        answer_(answer),
        max_abs_(max_abs),
        steps_(answer, max_abs),
        right_(last_step_of(traits, answer, steps_)) {}

  AnswerJudgement judge() {
    compare_labels(answer_, right_.shown, judgement_);
    judgement_.exact_inertia = inertia_of(right_.after.data(), right_.shown.data());
    for (const std::string& nonsense : {not_finite(answer_), out_of_range(answer_)}) {
      if (!nonsense.empty()) return conclude(AnswerVerdict::wrong, nonsense);
    }
    judgement_.inertia = inertia_of(answer_.centroids, answer_.labels);
    if (std::is_same_v<T, float> && traits_.labels_of == LabelsOf::starting &&
        is_exact(answer_, right_)) {
      return conclude(AnswerVerdict::exact,
                      "labels and centroids have the bits of the exact Lloyd step");
    }
    return judge_rounded();
  }

 private:
  AnswerJudgement conclude(AnswerVerdict verdict, std::string reason) {
    judgement_.verdict = verdict;
    judgement_.reason = std::move(reason);
    return judgement_;
  }

  double inertia_of(const T* centroids, const std::int32_t* labels) {
    return quality_of(answer_.points, centroids, labels, answer_.shape, answer_.threads).inertia;
  }

  StepEvidence<T> evidence(const T* starting) {
    StepEvidence<T> step;
    step.shape = answer_.shape;
    step.points = answer_.points;
    step.max_abs = max_abs_;
    step.starting = starting;
    step.returned = answer_.centroids;
    step.labels = answer_.labels;
    step.threads = answer_.threads;
    return step;
  }

  Certificate inertia_certificate() {
    Certificate certificate;
    const ScalarType scalar = scalar_of<T>;
    const TrajectoryScale scale =
        trajectory_scale(right_.after.data(), right_.shown.data(), answer_.shape);
    std::vector<char> used(answer_.shape.k, 0);
    for (const std::int32_t label : right_.labels) used[label] = 1;
    const bool any_empty = std::find(used.begin(), used.end(), 0) != used.end();
    certify_trajectory(
        traits_, *judgement_.inertia, judgement_.exact_inertia, any_empty, certificate,
        trajectory_floor(traits_, answer_.shape, scalar, scale, static_cast<double>(max_abs_)));
    return certificate;
  }

  AnswerJudgement judge_rounded() {
    const bool own_start = answer_.iterations == 1 || answer_.before != nullptr;
    const T* starting = answer_.iterations == 1     ? answer_.initial
                        : answer_.before != nullptr ? answer_.before
                                                    : right_.before.data();
    StepEvidence<T> step = evidence(starting);
    const T* owners = traits_.labels_of == LabelsOf::returned ? answer_.centroids : starting;
    const auto exact_labels = steps_.labels_by(owners);
    step.exact_labels = exact_labels.data();
    Certificate certificate = certify_step(traits_, step, {});
    certificate.merge(inertia_certificate(), "");
    judgement_.certificate = certificate;
    if (certificate.passed) {
      return conclude(AnswerVerdict::certified,
                      own_start
                          ? "the last step is right up to rounding, from the centroids that "
                            "it started from"
                          : "the last step is right up to rounding, from the centroids of the "
                            "exact trajectory");
    }
    if (own_start) return conclude(AnswerVerdict::wrong, certificate.failure());
    return judge_without_start(step);
  }

  /// The centroids from which the last step started are unknown, and not those of the exact trajectory.
  void forget_start(StepEvidence<T>& step) {
    step.starting_error = kFartherBefore * largest_distance(answer_, right_);
    step.kept_error =
        kept_error_of(traits_, answer_.shape, scalar_of<T>, static_cast<double>(max_abs_));
  }

  AnswerJudgement judge_without_start(StepEvidence<T> step) {
    forget_start(step);
    Certificate lenient = certify_step(traits_, step, {});
    lenient.merge(inertia_certificate(), "");
    if (lenient.passed && follows()) {
      judgement_.certificate = lenient;
      return conclude(
          AnswerVerdict::rounded,
          "centroids are those of the exact trajectory up to rounding, and labels up to "
          "where such centroids leave them open");
    }
    const bool labels_alone = std::all_of(
        judgement_.certificate.checks.begin(), judgement_.certificate.checks.end(),
        [this](const Check& check) { return check.passed || may_be_of_another_way(check.name); });
    if (!labels_alone || follows()) {
      return conclude(AnswerVerdict::wrong, judgement_.certificate.failure());
    }
    return conclude(
        AnswerVerdict::undecided,
        "leaves the exact trajectory, as rounding at a tie, another number of iterations "
        "or a fault would do; the centroids before the last iteration (--before) decide");
  }

  /// Of a check that fails where the last step started elsewhere than on the exact trajectory.
  bool may_be_of_another_way(const std::string& check) {
    return check == "empty clusters keep their centroid" ||
           check == (traits_.labels_of == LabelsOf::returned
                         ? "centroids are the means of the starting labels"
                         : "labels within rounding");
  }

  /// Are the centroids, up to rounding, the means of the exact trajectory's labels?
  bool follows() {
    StepEvidence<T> step = evidence(right_.before.data());
    step.labels = right_.labels.data();
    step.exact_labels = right_.labels.data();
    forget_start(step);
    Traits traits = traits_;
    traits.labels_of = LabelsOf::starting;
    return certify_step(traits, step, {}).passed;
  }

  const Traits& traits_;
  const AnswerFromOutside<T>& answer_;
  T max_abs_;
  RightSteps<T> steps_;
  LastStep<T> right_;
  AnswerJudgement judgement_;
};

}  // namespace

const char* to_string(AnswerVerdict verdict) {
  switch (verdict) {
    case AnswerVerdict::exact: return "exact";
    case AnswerVerdict::certified: return "certified";
    case AnswerVerdict::rounded: return "rounded";
    case AnswerVerdict::undecided: return "undecided";
    case AnswerVerdict::wrong: return "wrong";
  }
  return "wrong";
}

template <class T>
AnswerJudgement judge_answer(const Traits& traits, const AnswerFromOutside<T>& answer) {
  const T max_abs = largest_abs(answer.points, answer.shape.n * answer.shape.d, answer.threads);
  if constexpr (std::is_same_v<T, float>) {
    const std::string lost = lost_by_fixed_point_at(answer.points, answer.shape.n, answer.shape.d,
                                                    max_abs, answer.threads);
    if (!lost.empty()) throw InputError(lost);
  }
  return Judge<T>(traits, answer, max_abs).judge();
}

template AnswerJudgement judge_answer(const Traits&, const AnswerFromOutside<float>&);
template AnswerJudgement judge_answer(const Traits&, const AnswerFromOutside<double>&);

}  // namespace kmeans
