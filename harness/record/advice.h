// SPDX-License-Identifier: Apache-2.0
//
// What an iteration and a set-up would take at a shape that nobody measured, from the cells on file of
// one machine (docs/advice.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/result_file.h"
#include "harness/variant.h"

namespace kmeans {

/// A problem, as far as times depend on it.
struct AdviceProblem {
  Shape shape;
  std::string kind;  ///< Of the data: a generator's name, ...; empty: as good as any.
  std::int64_t iterations = 10;
};

struct Observation {
  AdviceProblem problem;
  double seconds = 0;
};

struct Prediction {
  double seconds = 0;
  /// Nine of ten times lie within the prediction divided and multiplied by this, if errors were
  /// normal; back_test() counts how many did.
  double factor = 1;
  std::string most;  ///< What takes most of it by the fitted terms: "arithmetic", ...
};

/// Times of one variant on one machine: a sum of terms with fitted factors, which are never negative,
/// times what its neighbours in (log n, log d, log k) deviate from that sum.
class CostModel {
 public:
  /// Not empty, all times positive.
  explicit CostModel(std::vector<Observation> observations);
  [[nodiscard]] Prediction predict(const AdviceProblem& problem) const;

  /// Multiply-adds, bytes, point-centroid pairs, points, and one.
  static constexpr std::size_t kTerms = 5;
  using Terms = std::array<double, kTerms>;

 private:
  [[nodiscard]] double log_sum(const AdviceProblem& problem) const;

  std::vector<Observation> observations_;
  Terms factors_{};
  double shift_ = 0;                ///< Median of what the sum misses, in logarithms.
  std::vector<double> factor_;      ///< Cholesky, of the observations' covariances.
  std::vector<double> deviations_;  ///< Of the observations, by the inverse covariance.
};

/// All that is on file of a variant with one precision and number of threads.
struct AdviceSeries {
  std::string variant;
  std::string precision;
  int threads = 1;
  bool exact = false;
  bool gpu = false;
  std::vector<Observation> iterations;
  std::vector<Observation> setups;

  [[nodiscard]] std::size_t shapes() const;
};

/// So many shapes make a model.
inline constexpr std::size_t kShapesForAdvice = 3;

/// Cells with a headline number, by variant, precision and threads.
std::vector<AdviceSeries> series_of(const std::vector<ResultFile>& results);

/// Every shape predicted from all others of its machine.
struct BackTest {
  std::size_t cells = 0;    ///< Predicted.
  double median_error = 0;  ///< |predicted / measured - 1|
  double covered = 0;       ///< Share of them within the factor.
  double median_setup_error = 0;
  std::size_t groups = 0;       ///< Problems at which at least three series were measured.
  std::size_t best_first = 0;   ///< Of these, where the fastest was predicted to be it,
  std::size_t best_in_two = 0;  ///< or one of the two fastest. One without a prediction is missed.
  std::size_t nearly_best_in_two =
      0;  ///< One of the two takes at most 5 % longer than the fastest.
};
BackTest back_test(const std::vector<AdviceSeries>& series);

}  // namespace kmeans
