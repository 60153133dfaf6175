// SPDX-License-Identifier: Apache-2.0
#include "harness/record/advice.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "harness/record/kinds.h"
#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/formatted.h"
#include "harness/support/json_member.h"

namespace kmeans {
namespace {

using nlohmann::json;
using Terms = CostModel::Terms;
constexpr std::size_t kTerms = CostModel::kTerms;

// Of the deviations from the fitted sum: their size, that of what repeats do not share, and over which
// ratio of n, of d or of k they stay alike (natural logarithms). Chosen once; half or twice of
// each changes the back-test's errors by a hundredth.
constexpr double kDeviation = 0.6;
constexpr double kRepeat = 0.08;
constexpr std::array kReach{3.0, 2.5, 2.5};
// How alike times on different kinds of data are, and of short and of long runs.
constexpr double kOtherKind = 0.9;
constexpr std::int64_t kLongRun = 20;
constexpr double kNineOfTen = 1.645;  // standard deviations
constexpr int kReweightings = 15;
// Of the squares of the terms' factors: of three shapes five terms are not known, and any of many would do.
constexpr double kRidge = 1e-3;
constexpr double kTiny = 1e-12;  // seconds

Terms terms_of(const Shape& shape) {
  const Sizes sizes(shape);
  return {operations_2nkd(shape), compulsory_bytes(shape), sizes.n * sizes.k, sizes.n, 1};
}

constexpr std::array<const char*, kTerms> kTermNames{"arithmetic", "memory", "points x clusters",
                                                     "points", "fixed costs"};

/// In place: the lower factor of a symmetric matrix, row by row. False where there is none.
bool factorise(std::vector<double>& matrix, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * size + j];
      for (std::size_t t = 0; t < j; ++t) sum -= matrix[i * size + t] * matrix[j * size + t];
      if (i == j && !(sum > 0)) return false;
      matrix[i * size + j] = i == j ? std::sqrt(sum) : sum / matrix[j * size + j];
    }
  }
  return true;
}

std::vector<double> solve_lower(const std::vector<double>& factor, std::vector<double> values) {
  const std::size_t size = values.size();
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t t = 0; t < i; ++t) values[i] -= factor[i * size + t] * values[t];
    values[i] /= factor[i * size + i];
  }
  return values;
}

std::vector<double> solve_upper(const std::vector<double>& factor, std::vector<double> values) {
  const std::size_t size = values.size();
  for (std::size_t i = size; i-- > 0;) {
    for (std::size_t t = i + 1; t < size; ++t) values[i] -= factor[t * size + i] * values[t];
    values[i] /= factor[i * size + i];
  }
  return values;
}

/// What least squares over any of the terms start from: the products of weighted rows, summed.
struct NormalEquations {
  std::array<Terms, kTerms> matrix{};
  Terms right{};
};

NormalEquations normal_equations(const std::vector<Terms>& rows,
                                 const std::vector<double>& weights) {
  NormalEquations sums;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double weight = weights[r] * weights[r];
    for (std::size_t i = 0; i < kTerms; ++i) {
      sums.right[i] += weight * rows[r][i];
      for (std::size_t j = 0; j < kTerms; ++j) {
        sums.matrix[i][j] += weight * rows[r][i] * rows[r][j];
      }
    }
  }
  return sums;
}

/// Least squares over the terms of `chosen` (bits), others 0; absent where a factor would be
/// negative or the terms do not separate them.
std::optional<Terms> fit_chosen(const NormalEquations& sums, unsigned chosen) {
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < kTerms; ++c) {
    if ((chosen >> c & 1U) != 0) columns.push_back(c);
  }
  const std::size_t size = columns.size();
  std::vector<double> matrix(size * size);
  std::vector<double> right(size);
  for (std::size_t i = 0; i < size; ++i) {
    right[i] = sums.right[columns[i]];
    for (std::size_t j = 0; j < size; ++j) {
      matrix[i * size + j] = sums.matrix[columns[i]][columns[j]];
    }
  }
  for (std::size_t i = 0; i < size; ++i) matrix[i * size + i] += kRidge;
  if (!factorise(matrix, size)) return std::nullopt;
  const auto solution = solve_upper(matrix, solve_lower(matrix, right));
  Terms factors{};
  for (std::size_t i = 0; i < size; ++i) {
    if (!(solution[i] >= 0)) return std::nullopt;
    factors[columns[i]] = solution[i];
  }
  return factors;
}

double dot(const Terms& a, const Terms& b) {
  double sum = 0;
  for (std::size_t c = 0; c < kTerms; ++c) sum += a[c] * b[c];
  return sum;
}

/// Factors, none negative, by which the rows come nearest to 1: so few terms that all are tried.
Terms fit_nonnegative(const std::vector<Terms>& rows, const std::vector<double>& weights) {
  const NormalEquations sums = normal_equations(rows, weights);
  Terms best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned chosen = 1; chosen < 1U << kTerms; ++chosen) {
    const auto factors = fit_chosen(sums, chosen);
    if (!factors) continue;
    double squares = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double miss = weights[r] * (dot(*factors, rows[r]) - 1);
      squares += miss * miss;
    }
    squares += kRidge * dot(*factors, *factors);
    if (squares < least) {
      least = squares;
      best = *factors;
    }
  }
  return best;
}

/// Errors count by their ratio, large ones by less than their square.
Terms fit_sum(const std::vector<Observation>& observations) {
  std::vector<Terms> rows;
  Terms scale{};
  for (const auto& one : observations) {
    Terms row = terms_of(one.problem.shape);
    for (std::size_t c = 0; c < kTerms; ++c) {
      row[c] /= one.seconds;
      scale[c] = std::max(scale[c], row[c]);
    }
    rows.push_back(row);
  }
  for (auto& row : rows) {
    for (std::size_t c = 0; c < kTerms; ++c) row[c] /= scale[c];
  }
  std::vector<double> weights(rows.size(), 1);
  Terms factors{};
  for (int turn = 0; turn < kReweightings; ++turn) {
    factors = fit_nonnegative(rows, weights);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double ratio = std::max(dot(factors, rows[r]), 1e-3);
      weights[r] = 1 / std::sqrt(std::max(std::abs(std::log(ratio)), 0.05) * ratio);
    }
  }
  for (std::size_t c = 0; c < kTerms; ++c) factors[c] /= scale[c];
  return factors;
}

bool is_kind(const AdviceProblem& a, const AdviceProblem& b) {
  return a.kind.empty() || b.kind.empty() || a.kind == b.kind;
}

bool is_long(const AdviceProblem& problem) { return problem.iterations > kLongRun; }

/// 2: as many iterations; 1: as long a run, as far as the model distinguishes lengths.
int nearness_of_lengths(const AdviceProblem& a, const AdviceProblem& b) {
  if (a.iterations == b.iterations) return 2;
  return is_long(a) == is_long(b) ? 1 : 0;
}

/// How alike the deviations at two problems are: 1 at the same.
double alike(const AdviceProblem& a, const AdviceProblem& b) {
  const Sizes x(a.shape);
  const Sizes y(b.shape);
  const std::array ratios{std::log(x.n / y.n) / kReach[0], std::log(x.d / y.d) / kReach[1],
                          std::log(x.k / y.k) / kReach[2]};
  double squares = 0;
  for (const double ratio : ratios) squares += ratio * ratio;
  const double distance = std::sqrt(3 * squares);
  const bool same = is_kind(a, b) && is_long(a) == is_long(b);
  return (1 + distance) * std::exp(-distance) * (same ? 1 : kOtherKind);
}

/// Nine of ten times lie within this factor, where `variance` of the deviation is left open.
double factor_of(double variance) {
  return std::exp(kNineOfTen * std::sqrt(std::max(variance, 0.0) + kRepeat * kRepeat));
}

/// The same of a time that is taken from one other problem.
double factor_of_one(const AdviceProblem& measured, const AdviceProblem& asked) {
  const double all = kDeviation * kDeviation;
  const double shared = all * alike(measured, asked);
  return factor_of(all - shared * shared / (all + kRepeat * kRepeat));
}

using ShapeKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

ShapeKey key_of(const Observation& one) {
  const Shape& shape = one.problem.shape;
  return {shape.n, shape.d, shape.k};
}

/// Names the cells of one file, one set of points and one number of iterations.
std::string run_of(const ResultFile& file, const CellKey& key) {
  return file.path.filename().string() + "/" + key.dataset + "/T" + std::to_string(key.iterations);
}

using SeriesByKey = std::map<std::tuple<std::string, std::string, int, int>, AdviceSeries>;

/// Of one rank, or one GPU, what is written for several has nothing to share: others do the same without it.
bool shares_nothing(const CellResult& cell) {
  const std::string backend = cell.data.value("backend", "");
  return backend == "mpi" || (backend == "nccl" && cell.key.gpus == 1);
}

void add_cell(const CellResult& cell, const ResultFile& file, SeriesByKey& all) {
  if (cell.status != "ok" || !cell.median) return;
  const CellKey& key = cell.key;
  if (key.ranks > 1 || shares_nothing(cell)) return;  // what is asked for is one process
  auto& series = all[{key.variant, to_string(key.shape.precision), key.threads, key.gpus}];
  series.variant = key.variant;
  series.precision = to_string(key.shape.precision);
  series.threads = key.threads;
  series.exact = cell.exact;
  series.gpus = key.gpus;
  series.gpu = on_gpu(cell);
  const AdviceProblem problem{key.shape, kind_of_data(file.context, key.dataset), key.iterations};
  const std::string run = run_of(file, key);
  const bool steady = cell.unsteady.empty();
  if (steady) {
    series.iterations.push_back({problem, *cell.median, run});
  } else {
    series.unsteady.push_back({problem, slowest_process(cell), run});
  }
  const auto limit = limit_of(file, cell);
  if (limit && steady && *cell.median < limit->seconds) series.beats_limit = true;
  const auto setup = cell.data.find("setup_seconds");
  if (setup != cell.data.end() && setup->is_number() && setup->get<double>() > 0) {
    auto& setups = steady ? series.setups : series.unsteady_setups;
    setups.push_back({problem, setup->get<double>(), run});
  }
}

/// By variant.
std::map<std::string, Refusals> refusals_of(const std::vector<ResultFile>& results) {
  std::map<std::string, Refusals> refused;
  for (const auto& file : results) {
    for (const auto& cell : file.cells) {
      if (cell.status == "skipped") refused[cell.key.variant].add(cell.key.shape, cell.reason);
    }
  }
  return refused;
}

Refusals closed(Refusals refused, const AdviceSeries& series) {
  std::vector<std::int64_t> taken;
  for (const auto* all : {&series.iterations, &series.unsteady}) {
    for (const auto& one : *all) taken.push_back(one.problem.shape.d);
  }
  refused.close(taken);
  return refused;
}

std::size_t shapes_in(const std::vector<Observation>& observations) {
  std::set<ShapeKey> keys;
  for (const auto& one : observations) keys.insert(key_of(one));
  return keys.size();
}

struct Tested {
  const Observation* measured;
  std::optional<Prediction> predicted;
};

/// Every observation by a model of those at other shapes, where these are enough.
std::vector<Tested> leave_out_shapes(const std::vector<Observation>& observations) {
  std::map<ShapeKey, std::vector<const Observation*>> shapes;
  for (const auto& one : observations) shapes[key_of(one)].push_back(&one);
  std::vector<Tested> tested;
  for (const auto& [left_out, own] : shapes) {
    std::vector<Observation> others;
    for (const auto& one : observations) {
      if (key_of(one) != left_out) others.push_back(one);
    }
    std::optional<CostModel> model;
    if (shapes.size() > kShapesForAdvice) model.emplace(std::move(others));
    for (const auto* one : own) {
      tested.push_back({one, model ? std::optional(model->predict(one->problem)) : std::nullopt});
    }
  }
  return tested;
}

double error_of(const Tested& one) {
  return std::abs(one.predicted->seconds / one.measured->seconds - 1);
}

bool is_covered(const Tested& one) {
  const double ratio = one.predicted->seconds / one.measured->seconds;
  return std::max(ratio, 1 / ratio) <= one.predicted->factor;
}

/// A fit of one series.
struct TestedFit {
  double measured = 0;
  std::optional<double> predicted;
};

/// Whether the quickest fit measured is the first, and among the first two, by prediction.
std::pair<bool, bool> place_of_best(const std::vector<TestedFit>& group) {
  const auto best = std::ranges::min_element(group, {}, &TestedFit::measured);
  if (!best->predicted) return {false, false};
  const auto before = std::ranges::count_if(group, [&](const TestedFit& other) {
    return other.predicted && *other.predicted < *best->predicted;
  });
  return {before == 0, before <= 1};
}

/// Does one of the first two by prediction take hardly longer than the quickest?
bool nearly_best_in_two(std::vector<TestedFit> group) {
  constexpr double kHardly = 1.05;  // as `compare` takes it: such differences do not matter
  const double least = std::ranges::min_element(group, {}, &TestedFit::measured)->measured;
  std::erase_if(group, [](const TestedFit& tested) { return !tested.predicted; });
  std::ranges::sort(group, {}, [](const TestedFit& tested) { return *tested.predicted; });
  if (group.size() > 2) group.resize(2);
  return std::ranges::any_of(
      group, [&](const TestedFit& tested) { return tested.measured <= kHardly * least; });
}

/// Not of Python variants, whose set-up holds an interpreter's start.
bool has_fit(const AdviceSeries& series) { return !series.variant.starts_with("python_"); }

double fit_seconds(double setup, double iteration, std::int64_t iterations) {
  return setup + static_cast<double>(iterations) * iteration;
}

TestedFit fit_of(const Tested& setup, const Tested& iteration) {
  TestedFit fit{fit_seconds(setup.measured->seconds, iteration.measured->seconds, kIterationsOfFit),
                {}};
  if (setup.predicted && iteration.predicted) {
    fit.predicted =
        fit_seconds(setup.predicted->seconds, iteration.predicted->seconds, kIterationsOfFit);
  }
  return fit;
}

using RunAtShape = std::tuple<ShapeKey, std::string, std::string>;

RunAtShape run_at_shape(const Observation& one) {
  return {key_of(one), one.run, to_string(one.problem.shape.precision)};
}

/// To so many digits: what a page holds.
double rounded(double value, int digits) { return std::stod(formatted("%.*g", digits, value)); }

}  // namespace

json advice_constants() {
  return {{"deviation", kDeviation}, {"repeat", kRepeat},
          {"reach", kReach},         {"otherKind", kOtherKind},
          {"longRun", kLongRun},     {"nineOfTen", kNineOfTen},
          {"far", kFarFromFile},     {"iterations", kIterationsOfFit}};
}

CostModel::CostModel(std::vector<Observation> observations)
    : observations_(std::move(observations)), factors_(fit_sum(observations_)) {
  const std::size_t size = observations_.size();
  for (const auto& one : observations_) {
    deviations_.push_back(std::log(one.seconds) - log_sum(one.problem));
  }
  shift_ = deviations_.empty() ? 0 : median_of(deviations_);
  for (double& deviation : deviations_) deviation -= shift_;
  factor_.resize(size * size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      factor_[i * size + j] =
          kDeviation * kDeviation * alike(observations_[i].problem, observations_[j].problem) +
          (i == j ? kRepeat * kRepeat : 0);
    }
  }
  // Cannot fail: the last summand keeps it definite.
  static_cast<void>(factorise(factor_, size));
  deviations_ = solve_upper(factor_, solve_lower(factor_, std::move(deviations_)));
}

json CostModel::numbers() const {
  json on = json::array();
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    const AdviceProblem& problem = observations_[i].problem;
    on.push_back({problem.shape.n, problem.shape.d, problem.shape.k, problem.kind, is_long(problem),
                  rounded(deviations_[i], 5)});
  }
  json factors = json::array();
  for (const double factor : factors_) factors.push_back(rounded(factor, 6));
  return {{"factors", std::move(factors)}, {"shift", rounded(shift_, 6)}, {"on", std::move(on)}};
}

double CostModel::log_sum(const AdviceProblem& problem) const {
  return std::log(std::max(dot(factors_, terms_of(problem.shape)), kTiny));
}

Prediction CostModel::predict(const AdviceProblem& problem) const {
  std::vector<double> covariances;
  double deviation = shift_;
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    covariances.push_back(kDeviation * kDeviation * alike(problem, observations_[i].problem));
    deviation += covariances.back() * deviations_[i];
  }
  double variance = kDeviation * kDeviation;
  for (const double known : solve_lower(factor_, covariances)) variance -= known * known;
  Prediction prediction;
  prediction.seconds = std::exp(log_sum(problem) + deviation);
  prediction.factor = factor_of(variance);
  const Terms terms = terms_of(problem.shape);
  std::size_t largest = 0;
  for (std::size_t c = 1; c < kTerms; ++c) {
    if (factors_[c] * terms[c] > factors_[largest] * terms[largest]) largest = c;
  }
  prediction.most = kTermNames.at(largest);
  return prediction;
}

std::size_t AdviceSeries::shapes() const { return shapes_in(iterations); }

bool AdviceSeries::is_in(const std::string& run, const Shape& shape) const {
  const auto here = [&](const Observation& one) {
    return one.run == run && key_of(one) == key_of({{shape, "", 0}, 0});
  };
  return !run.empty() &&
         (std::ranges::any_of(iterations, here) || std::ranges::any_of(unsteady, here));
}

double slowest_process(const CellResult& cell) {
  return std::ranges::max(process_medians(cell.samples));
}

std::vector<AdviceSeries> series_of(const std::vector<ResultFile>& results) {
  SeriesByKey all;
  for (const auto& file : results) {
    for (const auto& cell : file.cells) add_cell(cell, file, all);
  }
  std::set<std::string> beating;
  for (const auto& [key, one] : all) {
    if (one.beats_limit) beating.insert(one.variant);
  }
  auto refused = refusals_of(results);
  std::vector<AdviceSeries> series;
  for (auto& [key, one] : all) {
    one.refused = closed(refused[one.variant], one);
    one.beats_limit = beating.contains(one.variant);
    series.push_back(std::move(one));
  }
  return series;
}

std::string run_at(const std::vector<ResultFile>& results, const AdviceProblem& problem) {
  struct Run {
    std::string name;
    std::array<int, 2> near{};  // how near its data and its length are
    std::size_t cells = 0;
    bool exact = false;
  };
  const Shape& shape = problem.shape;
  std::vector<Run> runs;  // in the order of the files, and there of the cells
  for (const auto& file : results) {
    for (const auto& cell : file.cells) {
      const Shape& own = cell.key.shape;
      if (cell.status != "ok" || own.n != shape.n || own.d != shape.d || own.k != shape.k) continue;
      const std::string name = run_of(file, cell.key);
      auto run = std::ranges::find(runs, name, &Run::name);
      if (run == runs.end()) {
        const AdviceProblem there{own, kind_of_data(file.context, cell.key.dataset),
                                  cell.key.iterations};
        run = runs.insert(
            runs.end(),
            {name, {is_kind(there, problem) ? 1 : 0, nearness_of_lengths(there, problem)}});
      }
      ++run->cells;
      run->exact |= cell.exact;
    }
  }
  // A page says the same: fewer than three, or none that is exact, say little.
  std::erase_if(runs, [](const Run& run) { return !run.exact || run.cells < 3; });
  const auto most = std::ranges::max_element(
      runs, {}, [](const Run& run) { return std::pair(run.near, run.cells); });
  return most == runs.end() ? "" : most->name;
}

Advice advice_of(const AdviceSeries& series, const AdviceProblem& problem, const std::string& run,
                 const std::optional<Limit>& limit) {
  Advice advice;
  advice.series = &series;
  const auto seconds_of = [&](const std::vector<Observation>& all) -> std::optional<double> {
    std::vector<double> own;
    for (const auto& one : all) {
      if (run.empty() || one.run != run || key_of(one) != key_of({problem, 0})) continue;
      own.push_back(one.seconds);
      advice.on_file = one.problem;
    }
    return own.empty() ? std::nullopt : std::optional(median_of(own));
  };
  auto own = seconds_of(series.iterations);
  auto setup = seconds_of(series.setups);
  if (!own) {
    own = seconds_of(series.unsteady);
    setup = seconds_of(series.unsteady_setups);
    advice.unsteady = own.has_value();
  }
  if (own) {
    const bool same =
        is_kind(advice.on_file, problem) && advice.on_file.iterations == problem.iterations;
    advice.basis = same ? Basis::measured : Basis::scaled;
    advice.iteration = {*own, same ? 1 : factor_of_one(advice.on_file, problem),
                        same ? "measured" : "scaled"};
    if (setup) advice.setup = {*setup, 1, "measured"};
  } else {
    advice.iteration = CostModel(series.iterations).predict(problem);
    if (!series.setups.empty()) advice.setup = CostModel(series.setups).predict(problem);
    if (limit && !series.beats_limit && advice.iteration.seconds < limit->seconds) {
      // The model went too far from what is on file.
      advice.iteration.seconds = limit->seconds;
      advice.iteration.most = "the machine's limit; predicted below it";
    }
  }
  if (limit) advice.share = limit->seconds / advice.iteration.seconds;
  if (advice.setup && has_fit(series)) {
    advice.fit = fit_seconds(advice.setup->seconds, advice.iteration.seconds, problem.iterations);
  }
  return advice;
}

bool is_quicker(const Advice& a, const Advice& b) {
  if (a.fit && b.fit) return *a.fit < *b.fit;
  if (a.fit.has_value() != b.fit.has_value()) return a.fit.has_value();
  return a.iteration.seconds < b.iteration.seconds;
}

BackTest back_test(const std::vector<AdviceSeries>& series) {
  BackTest result;
  std::vector<double> errors;
  std::vector<double> setup_errors;
  std::size_t covered = 0;
  std::map<std::pair<ShapeKey, std::string>, std::vector<TestedFit>> groups;
  for (const auto& one : series) {
    std::map<RunAtShape, Tested> setups;
    for (const auto& tested : leave_out_shapes(one.setups)) {
      setups.emplace(run_at_shape(*tested.measured), tested);
      if (tested.predicted) setup_errors.push_back(error_of(tested));
    }
    for (const auto& tested : leave_out_shapes(one.iterations)) {
      const auto setup = setups.find(run_at_shape(*tested.measured));
      if (setup != setups.end() && has_fit(one)) {
        groups[{key_of(*tested.measured), tested.measured->run}].push_back(
            fit_of(setup->second, tested));
      }
      if (!tested.predicted) continue;
      errors.push_back(error_of(tested));
      covered += is_covered(tested) ? 1 : 0;
    }
  }
  for (const auto& [problem, group] : groups) {
    if (group.size() < 3) continue;
    ++result.groups;
    const auto [first, in_two] = place_of_best(group);
    result.best_first += first ? 1 : 0;
    result.best_in_two += in_two ? 1 : 0;
    result.nearly_best_in_two += nearly_best_in_two(group) ? 1 : 0;
  }
  result.cells = errors.size();
  result.covered =
      errors.empty() ? 0 : static_cast<double>(covered) / static_cast<double>(errors.size());
  if (errors.empty()) return result;
  result.median_error = median_of(std::move(errors));
  if (!setup_errors.empty()) result.median_setup_error = median_of(std::move(setup_errors));
  return result;
}

}  // namespace kmeans
