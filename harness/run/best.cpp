// SPDX-License-Identifier: Apache-2.0
#include "harness/run/best.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "datasets/generators.h"
#include "harness/machine/gpu.h"
#include "harness/machine/ranks.h"
#include "harness/record/agreement.h"
#include "harness/record/measures.h"
#include "harness/run/estimate.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr int kProcesses = 3;     // of a cell at the front
constexpr int kMaxProcesses = 7;  // of one whose processes disagree, as in a run
constexpr double kFront = 1.5;    // times the quickest fit
constexpr double kMayLead = 4;    // by the first iterations alone, of who skips work in later ones
// A process makes them to be certified, to be profiled, and at least once to be timed.
constexpr double kPassesOfProcess = 4;
constexpr double kShareOfCell = 0.1;  // of the budget: the timed part of a cell, all its processes
constexpr double kShareOfProcess = 0.25;
constexpr double kShareOfUnknown = 0.5;  // while nothing is known of anybody
constexpr double kShareOfPlugins = 0.5;  // who brings a slow one wants to know how slow
constexpr double kLeastOfProcess = 5;  // seconds: Python, and a GPU's driver, take a while to begin
constexpr double kLeastLeft = 0.3;     // seconds: less is nothing
// Estimates are right within a factor of about 2 on processors, and less so on GPUs.
constexpr double kHopeless = 4;
constexpr std::size_t kBeforeBaseline = 3;
constexpr double kCheap = 0.25;  // of the time that the next first process is expected to take

const Parameter* parameter_of(const Generator& generator, const char* name) {
  const auto found = std::find_if(generator.parameters.begin(), generator.parameters.end(),
                                  [&](const Parameter& one) { return one.name == name; });
  return found == generator.parameters.end() ? nullptr : &*found;
}

std::vector<double> medians_of(const CellNews& news) {
  std::vector<double> medians;
  for (const auto* process : news.processes) medians.push_back(median_of(process->result.samples));
  return medians;
}

bool is_timed(const CellNews& news) {
  return !news.stopped && !news.processes.empty() &&
         std::all_of(news.processes.begin(), news.processes.end(), [](const auto* process) {
           const auto& samples = process->result.samples;
           return !samples.empty() && std::all_of(samples.begin(), samples.end(),
                                                  [](double s) { return std::isfinite(s); });
         });
}

/// Of Python variants the iterations alone: an interpreter starts once, not in every fit.
double fit_seconds(const CellNews& news, std::int64_t iterations, double iteration) {
  const double steps = static_cast<double>(iterations) * iteration;
  if (news.cell->backend == "python") return steps;
  std::vector<double> setups;
  for (const auto* process : news.processes) setups.push_back(process->result.setup_seconds);
  return median_of(setups) + steps;
}

AnswerKind kind_of(const CellNews& news) {
  return answer_kind(news.cell->exact, news.cell->key.shape.precision);
}

/// So few processes, or so discordant ones, that another would show more.
bool wants_more(const CellNews& news) {
  const auto count = static_cast<int>(news.processes.size());
  if (count < kProcesses) return true;
  return count < kMaxProcesses && !agreement_of(medians_of(news)).majority();
}

bool skips_work(const Cell& cell) {
  const RegisteredVariant* variant = find_variant(cell.key.variant);
  return variant != nullptr && variant->traits.skips_work;
}

bool of_one_variant(const Cell& a, const Cell& b) {
  return a.key.variant == b.key.variant && a.key.shape.precision == b.key.shape.precision;
}

/// The quickest fit of each kind, of all whose fit is known. Who is unsteady counts by its slowest process.
std::map<AnswerKind, double> quickest_fits(const std::vector<const CellNews*>& news,
                                           std::int64_t iterations) {
  std::map<AnswerKind, double> best;
  for (const CellNews* one : news) {
    if (!is_timed(*one) || one->cell->backend == "python") continue;
    const auto medians = medians_of(*one);
    const bool steady = agreement_of(medians).majority();
    const double fit =
        fit_seconds(*one, iterations, steady ? median_of(medians) : std::ranges::max(medians));
    const auto known = best.emplace(kind_of(*one), fit).first;
    known->second = std::min(known->second, fit);
  }
  return best;
}

bool is_plugin(const Cell& cell) {
  const RegisteredVariant* variant = find_variant(cell.key.variant);
  return variant != nullptr && variant->backend == kPluginBackend;
}

}  // namespace

json best_data(const BestProblem& problem) {
  if (!problem.file.empty()) {
    json data{{"file", problem.file}};
    if (problem.csv.drop_first > 0) data["drop_first"] = problem.csv.drop_first;
    if (problem.csv.drop_last > 0) data["csv_drop_last"] = problem.csv.drop_last;
    if (!problem.csv.kept.empty()) data["columns"] = columns_text(problem.csv);
    if (problem.csv.header != CsvColumns::Header::automatic) {
      data["header"] = problem.csv.header == CsvColumns::Header::yes;
    }
    return data;
  }
  if (problem.data == kMixture) {
    // Clusters that overlap, as those of experiments/cpu-frontier-mixture.json.
    return {{"generator", "blobs"},
            {"seed", problem.seed},
            {"k", "sweep"},
            {"low", -1.75},
            {"high", 1.75}};
  }
  const Generator& generator = require_generator(problem.data);
  json data{{"generator", generator.name}};
  if (parameter_of(generator, "seed") != nullptr) data["seed"] = problem.seed;
  if (parameter_of(generator, "k") != nullptr) data["k"] = "sweep";
  return data;
}

json best_variants(const Pattern& only, const std::vector<Precision>& precisions) {
  json variants = json::array();
  for (const auto& variant : all_variants()) {
    const Traits& traits = variant.traits;
    if (!traits.wrong_because.empty() || !only.found_in(traits.name)) continue;
    if (shares_nothing(variant, process_ranks().size(), gpus_in_use())) continue;
    const bool wide_alone = traits.precisions == std::vector{Precision::f64};
    for (const Precision precision : traits.precisions) {
      const bool wanted = precisions.empty() ? precision != Precision::f64 || wide_alone
                                             : std::find(precisions.begin(), precisions.end(),
                                                         precision) != precisions.end();
      if (wanted)
        variants.push_back({{"variant", traits.name}, {"precision", to_string(precision)}});
    }
  }
  return variants;
}

Experiment best_experiment(const BestProblem& problem, const json& variants, double seconds) {
  json shape{{"k", problem.k}};
  if (problem.file.empty()) shape.update({{"n", problem.n}, {"d", problem.d}});
  json shapes = json::array({shape});
  if (problem.whole > problem.iterations) {
    shape["iterations"] = problem.whole;
    shapes.push_back(shape);
  }
  const json scale{{"sweep", shapes},
                   {"iterations", problem.iterations},
                   {"processes", kProcesses},
                   {"max_seconds", std::max(1e-3, kShareOfCell * seconds)},
                   {"timeout_seconds", std::max(0.1, kShareOfUnknown * seconds)}};
  const json document{{"name", "best"},
                      {"title", "Every variant that can run, on one problem"},
                      {"data", best_data(problem)},
                      {"init", problem.init},
                      {"variants", variants},
                      {"scales", {{"quick", scale}}}};
  return parse_experiment(parse_json(document.dump(1), "the experiment of `best`"));
}

const char* title_of(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::exact:
      return "Exact: the same labels and centroids, bit for bit, on every machine";
    case AnswerKind::certified:
      return "Certified: differ from exact by no more than rounding explains";
    case AnswerKind::approximate: break;
  }
  return "Approximate: a shorter precision decides labels; certified for that precision";
}

void BudgetChooser::rank(const std::vector<CellNews>& news) {
  few_ = std::numeric_limits<std::int64_t>::max();
  for (const auto& one : news) few_ = std::min(few_, one.cell->key.iterations);
  for (const auto& one : news) {
    if (is_whole(*one.cell)) continue;
    order_.push_back(one.cell);
    expected_[one.cell] = estimated_seconds_of_first(*one.cell, threads_);
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](const Cell* a, const Cell* b) { return expected_.at(a) < expected_.at(b); });
  // Who brings a variant asks for it.
  const auto others = std::stable_partition(order_.begin(), order_.end(),
                                            [](const Cell* cell) { return is_plugin(*cell); });
  plugins_ = static_cast<int>(others - order_.begin());
  // Every ratio needs it.
  const auto baseline = std::find_if(order_.begin(), order_.end(), [](const Cell* cell) {
    return cell->key.variant == kBestBaseline;
  });
  if (baseline - order_.begin() > static_cast<std::ptrdiff_t>(kBeforeBaseline)) {
    if (baseline == order_.end()) return;
    std::rotate(order_.begin() + kBeforeBaseline, baseline, baseline + 1);
  }
}

Choice BudgetChooser::first_of(const Cell& cell, bool any_known) const {
  const double left = left_();
  const double expected = expected_.at(&cell);
  const std::string budget = formatted("--seconds %g", seconds_);
  if (left < kLeastLeft) return {&cell, 0, true, "not reached within " + budget};
  if (expected > kHopeless * left) {
    return {&cell, 0, true,
            "not begun: expected to take roughly " + format_seconds(expected) + ", with " +
                format_seconds(left) + " of " + budget + " left"};
  }
  // One row is better than several that were given up.
  double share = any_known ? kShareOfProcess : kShareOfUnknown;
  if (is_plugin(cell)) share = std::max(share, kShareOfPlugins / plugins_);
  const double most = std::max(kLeastOfProcess, share * seconds_);
  const bool last = left <= most;
  const double limit = std::min(left, most);
  return {
      &cell, limit, false,
      "given up after " + format_seconds(limit) + (last ? ", at the end of " : " of ") + budget};
}

std::optional<Choice> BudgetChooser::further(const std::vector<CellNews>& news,
                                             double& seconds) const {
  const auto all = standing(news);
  const auto best = quickest_fits(all, fit_);
  const double left = left_();
  std::optional<Choice> choice;
  std::pair fewest{std::numeric_limits<int>::max(), 0.0};
  for (const CellNews* known : all) {
    const CellNews& one = *known;
    if (!is_timed(one) || !wants_more(one)) continue;
    const double fit = fit_seconds(one, fit_, median_of(medians_of(one)));
    const auto leader = best.find(kind_of(one));
    const bool front = leader == best.end() || fit <= kFront * leader->second;
    if (!front && one.cell->key.variant != kBestBaseline) continue;
    // One that was ended before its time is not asked for for ever.
    const auto asked = asked_.find(one.cell);
    if (asked != asked_.end() && asked->second >= kMaxProcesses) continue;
    if (left < kLeastLeft || one.processes.front()->wall_seconds > left) continue;
    const std::pair standing{static_cast<int>(one.processes.size()), fit};
    if (standing >= fewest) continue;
    fewest = standing;
    seconds = one.processes.front()->wall_seconds;
    // One that hangs must not take the rest of the budget with it.
    const double most = std::max(kLeastOfProcess, kHopeless * seconds);
    choice = Choice{one.cell, std::min(left, most), false, ""};
  }
  return choice;
}

std::vector<const CellNews*> BudgetChooser::standing(const std::vector<CellNews>& news) const {
  std::vector<const CellNews*> all;
  for (const auto& one : news) {
    const bool replaced = std::ranges::any_of(news, [&](const CellNews& other) {
      return is_whole(*other.cell) && !is_whole(*one.cell) && !other.processes.empty() &&
             of_one_variant(*one.cell, *other.cell);
    });
    if (!replaced) all.push_back(&one);
  }
  return all;
}

std::optional<Choice> BudgetChooser::whole_fit(const std::vector<CellNews>& news) const {
  std::vector<const CellNews*> first_ones;
  for (const auto& one : news) {
    if (!is_whole(*one.cell)) first_ones.push_back(&one);
  }
  const auto best = quickest_fits(standing(news), fit_);
  std::optional<std::pair<double, Choice>> quickest;
  const double left = left_();
  for (const auto& one : news) {
    if (!is_whole(*one.cell) || !one.processes.empty() || one.stopped) continue;
    const auto first = std::ranges::find_if(
        first_ones, [&](const CellNews* known) { return of_one_variant(*known->cell, *one.cell); });
    if (first == first_ones.end() || !is_timed(**first)) {
      return Choice{one.cell, 0, true, "its first iterations have no time"};
    }
    const double iteration = median_of(medians_of(**first));
    const double fit = fit_seconds(**first, fit_, iteration);
    const auto leader = best.find(kind_of(one));
    const double most = skips_work(*one.cell) ? kMayLead : kFront;
    const bool may_lead = leader == best.end() || fit <= most * leader->second;
    if (!may_lead && one.cell->key.variant != kBestBaseline) {
      return Choice{one.cell, 0, true, "by its first iterations it is far behind"};
    }
    const double expected = (*first)->processes.front()->wall_seconds +
                            kPassesOfProcess * static_cast<double>(fit_ - few_) * iteration;
    if (expected > left) {
      return Choice{one.cell, 0, true,
                    "its first iterations alone were timed: all are expected to take " +
                        format_seconds(expected) + ", with " + format_seconds(left) + " left"};
    }
    if (quickest && quickest->first <= fit) continue;
    const double limit = std::min(left, std::max(kLeastOfProcess, kHopeless * expected));
    quickest = {fit, Choice{one.cell, limit, false, "given up after " + format_seconds(limit)}};
  }
  if (!quickest) return std::nullopt;
  return std::move(quickest->second);
}

std::optional<Choice> BudgetChooser::next(const std::vector<CellNews>& news) {
  if (order_.empty()) rank(news);
  double seconds = 0;
  const auto more = further(news, seconds);
  for (const Cell* cell : order_) {
    const auto one = std::find_if(news.begin(), news.end(),
                                  [&](const CellNews& known) { return known.cell == cell; });
    if (one == news.end() || !one->processes.empty() || one->stopped) continue;
    // Certainty about the front first, where it costs little compared with a look at another.
    if (more && seconds <= kCheap * expected_.at(cell)) {
      ++asked_[more->cell];
      return more;
    }
    return first_of(*cell, std::ranges::any_of(news, is_timed));
  }
  if (auto whole = whole_fit(news)) return whole;
  if (more) ++asked_[more->cell];
  return more;
}

}  // namespace kmeans
