// SPDX-License-Identifier: Apache-2.0
//
// Which k-means for these points, here: the experiment of every variant that could run, and how a
// budget of seconds is spent on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datasets/points.h"
#include "harness/record/kinds.h"
#include "harness/run/coordinator.h"
#include "harness/run/experiment.h"
#include "harness/support/pattern.h"
#include "harness/variant.h"

namespace kmeans {

/// What others are held against.
inline constexpr const char* kBestBaseline = "python_sklearn_lloyd";
/// The generated data that are taken where none are named: overlapping clusters, as many as k.
inline constexpr const char* kMixture = "mixture";

/// A clustering problem, as it was asked for.
struct BestProblem {
  std::string file;  ///< Empty: generated points.
  CsvColumns csv;
  std::string data = kMixture;  ///< That, or a generator's name.
  std::int64_t seed = 1;        ///< Of generated points.
  std::int64_t n = 0;           ///< Of generated points.
  std::int64_t d = 0;
  std::int64_t k = 0;
  std::string init;
  std::int64_t iterations = 10;
  std::int64_t whole =
      0;  ///< Iterations of a fit, of which those are the first; 0: no more than those are timed.
};

/// The description of its data set, without n and d. Throws InputError for an unknown generator.
nlohmann::json best_data(const BestProblem& problem);

/// Every variant and precision that may answer: those of `precisions`, or, if that is empty, all
/// but float64 of every variant that has another. Variants that are kept although they are wrong
/// answer nothing, and are not in it, nor are those of several ranks or GPUs where there is one.
nlohmann::json best_variants(const Pattern& only, const std::vector<Precision>& precisions);

/// The experiment "best", whose cells are measured in at most `seconds`.
Experiment best_experiment(const BestProblem& problem, const nlohmann::json& variants,
                           double seconds);

/// The heading of a table of such answers.
const char* title_of(AnswerKind kind);

/// Spends a budget on the cells of a plan: first one process of each, what is expected to be quick
/// first, and further ones of those at the front, whose order is the question, once they cost little
/// compared with the next. No process outlasts the budget, no first one a quarter of it, but half of it until there is
/// a time at all; plugins share half. Who is unsteady leads others by its slowest process. Where cells have a fit's
/// first iterations, and others all of them, the former come first, then the fits of those that may lead, for which all
/// that is left may be spent.
class BudgetChooser {
 public:
  /// `fit`: iterations of the fit that is ranked; `left`: seconds of the budget that are left.
  BudgetChooser(double seconds, std::int64_t fit, int threads, std::function<double()> left)
      : seconds_(seconds), fit_(fit), threads_(threads), left_(std::move(left)) {}

  std::optional<Choice> next(const std::vector<CellNews>& news);

 private:
  void rank(const std::vector<CellNews>& news);
  [[nodiscard]] Choice first_of(const Cell& cell, bool any_known) const;
  /// The next of the cells that have all iterations: to be measured, or left out.
  [[nodiscard]] std::optional<Choice> whole_fit(const std::vector<CellNews>& news) const;
  [[nodiscard]] bool is_whole(const Cell& cell) const { return cell.key.iterations > few_; }
  /// Those that stand for their variant: of all iterations if these were begun, right or wrong; else of the first.
  [[nodiscard]] std::vector<const CellNews*> standing(const std::vector<CellNews>& news) const;
  /// `seconds`: what it is expected to take.
  std::optional<Choice> further(const std::vector<CellNews>& news, double& seconds) const;

  double seconds_;
  std::int64_t fit_;
  int threads_;
  std::function<double()> left_;
  std::vector<const Cell*> order_;
  std::map<const Cell*, double> expected_;  ///< Seconds of the first process.
  std::map<const Cell*, int> asked_;        ///< Further processes.
  int plugins_ = 0;                         ///< Cells of plugins.
  std::int64_t few_ = 0;                    ///< The least that a cell has.
};

}  // namespace kmeans
