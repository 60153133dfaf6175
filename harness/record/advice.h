// SPDX-License-Identifier: Apache-2.0
//
// What an iteration, a set-up and a whole fit would take at a shape that nobody measured, from the cells
// on file of one machine (docs/advice.md): the order in which `advise`, `best` and the results' page
// (plots/templates/leaderboard.js) recommend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/limit.h"
#include "harness/record/refusals.h"
#include "harness/record/result_file.h"
#include "harness/variant.h"

namespace kmeans {

/// Iterations of a fit whose length nobody knows: about the middle of what photographs, word vectors and
/// customers take until no label changes (docs/advice.md).
inline constexpr std::int64_t kIterationsOfFit = 100;

/// A prediction that nine of ten times are not within this factor of is too far from what is on file to go by.
inline constexpr double kFarFromFile = 2;

/// A problem, as far as times depend on it.
struct AdviceProblem {
  Shape shape;
  std::string kind;  ///< Of the data: a generator's name, ...; empty: as good as any.
  std::int64_t iterations = kIterationsOfFit;
};

struct Observation {
  AdviceProblem problem;
  double seconds = 0;
  std::string run = {};  ///< The cells that were measured side by side: file, data and iterations.
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

  /// The fitted numbers, for pages that predict by themselves: `factors` of the terms, `shift`, and `on`, a list for
  /// each observation: n, d, k, kind of data, was the run long, weight.
  [[nodiscard]] nlohmann::json numbers() const;

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
  /// Of cells without a headline number the slowest process: whoever is behind that is behind all of them.
  std::vector<Observation> unsteady;
  std::vector<Observation> unsteady_setups;
  int gpus = 1;
  Refusals refused;  ///< Of the variant, on file.
  /// Was the variant faster than brute force could be, at any shape on file? Nobody else is predicted so.
  bool beats_limit = false;

  [[nodiscard]] std::size_t shapes() const;
  /// Is there a time of that run at that shape?
  [[nodiscard]] bool is_in(const std::string& run, const Shape& shape) const;
};

/// The model's constants, by the names that pages give them.
nlohmann::json advice_constants();

/// So many shapes make a model.
inline constexpr std::size_t kShapesForAdvice = 3;

/// The median of the slowest process of a cell with times: what counts of one whose processes disagree, since whoever
/// is behind that is behind all of them.
double slowest_process(const CellResult& cell);

/// Cells of one process with a headline number, by variant, precision, threads and GPUs.
std::vector<AdviceSeries> series_of(const std::vector<ResultFile>& results);

/// The cells of a machine that answer for a shape by themselves, as `Observation::run` names them: of those measured
/// side by side at exactly this shape the ones of this kind of data, then of as many iterations, or as long a run, then
/// the most. Empty where none were.
std::string run_at(const std::vector<ResultFile>& results, const AdviceProblem& problem);

/// What the time of an iteration rests on.
enum class Basis {
  measured,   ///< That very problem, as far as times depend on it.
  scaled,     ///< Its shape, in a run of other length or on another kind of data.
  predicted,  ///< The model.
};

/// What one series takes for one fit.
struct Advice {
  const AdviceSeries* series = nullptr;
  Basis basis = Basis::predicted;
  AdviceProblem on_file;  ///< What was measured, unless it is predicted.
  bool unsteady = false;  ///< So it was measured, and counts with its slowest process.
  Prediction iteration;
  std::optional<Prediction> setup;
  /// Set-up and all iterations. None of Python variants, whose set-up holds an interpreter's start.
  std::optional<double> fit;
  std::optional<double> share;  ///< Of the limit.
};

/// `run`: of run_at().
Advice advice_of(const AdviceSeries& series, const AdviceProblem& problem, const std::string& run,
                 const std::optional<Limit>& limit);

/// Who is the quicker fit; those that have none come last, in the order of their iterations.
bool is_quicker(const Advice& a, const Advice& b);

/// Every shape predicted from all others of its machine.
struct BackTest {
  std::size_t cells = 0;    ///< Predicted.
  double median_error = 0;  ///< |predicted / measured - 1|
  double covered = 0;       ///< Share of them within the factor.
  double median_setup_error = 0;
  std::size_t groups = 0;       ///< Runs in which at least three series have a fit.
  std::size_t best_first = 0;   ///< Of these, where the quickest fit was predicted to be it,
  std::size_t best_in_two = 0;  ///< or one of the two. One without a prediction is missed.
  std::size_t nearly_best_in_two =
      0;  ///< One of the two takes at most 5 % longer than the fastest.
};
BackTest back_test(const std::vector<AdviceSeries>& series);

}  // namespace kmeans
