// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/generators.h"
#include "harness/commands/advising.h"
#include "harness/commands/best_table.h"
#include "harness/commands/csv_options.h"
#include "harness/commands/surroundings.h"
#include "harness/machine/gpu.h"
#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/machine/ranks.h"
#include "harness/record/advice.h"
#include "harness/record/kinds.h"
#include "harness/record/measures.h"
#include "harness/run/best.h"
#include "harness/run/coordinator.h"
#include "harness/run/estimate.h"
#include "harness/run/fit_choice.h"
#include "harness/run/fit_length.h"
#include "harness/run/out_folder.h"
#include "harness/run/workers.h"
#include "harness/support/atomic_file.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/option_checks.h"
#include "harness/support/precision.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using Clock = std::chrono::steady_clock;

// Iterations that are timed, where none are asked for and a fit takes more: as many as leave time for a first
// process of each variant that could have one, and never so few that bounds and trees do not pay off unless the budget
// has not even time for some.
constexpr std::array kIterations{100, 50, 20, 10, 5, 3, 2, 1};
constexpr int kFew = 5;
constexpr std::size_t kSome = 6;  // variants
constexpr double kShareOfFirst = 0.5;
constexpr double kShareOfQuickest =
    0.25;                            // of the budget: a first process, and the exact trajectory
constexpr double kShareOfFit = 0.1;  // how many iterations a fit takes is looked up
constexpr double kSomeIterations = 20;
constexpr double kExactRate =
    2e10;  // multiply-adds in a second of one thread: a little slower than they are
// Estimates are right within a factor of about 2: beyond that there is no hope.
constexpr double kHopeless = 2;
constexpr double kShareOfLook = 0.1;  // of the budget: for others at work; twice that for ceilings
constexpr double kToFinish = 0.3;     // seconds: for the table
// Coordinates and multiply-adds in a second of one thread: a little slower than they are.
constexpr double kGenerationRate = 2e7;
constexpr double kShareOfSeeding = 0.05;
constexpr double kShareOfPlugins = 0.5;  // until they have said what they are

struct BestOptions {
  BestProblem problem;
  std::vector<std::string> precisions;
  std::string only;
  std::string json_file;
  std::string device;  ///< As typed.
  double seconds = 30;
  int threads = 0;
  std::int64_t fit = kIterationsOfFit;  ///< Iterations of the fit that is ranked.
  std::optional<FitLength> length;      ///< As found here.
  bool iterations_given = false;
  /// Of the command's time: before plugins are asked what they are.
  Clock::time_point begin = Clock::now();

  [[nodiscard]] bool generated() const { return problem.file.empty(); }
};

/// Sizes that the generator has a default for, as real points have.
void complete_sizes(BestOptions& options) {
  BestProblem& problem = options.problem;
  if (!options.generated() || problem.data == kMixture) return;
  for (const Parameter& one : require_generator(problem.data).parameters) {
    const auto own = static_cast<std::int64_t>(one.fallback.value_or(0));
    if (one.name == "n" && problem.n == 0) problem.n = own;
    if (one.name == "d" && problem.d == 0) problem.d = own;
  }
}

/// What of the command has nothing to do with the points' contents.
void check_problem(const BestOptions& options) {
  const BestProblem& problem = options.problem;
  if (!options.generated() && (problem.n > 0 || problem.d > 0 || problem.data != kMixture)) {
    throw InputError("--n, --d and --data are of generated points; " + problem.file +
                     " has its own: leave them out, or leave the file out");
  }
  if (options.generated() && (problem.n == 0 || problem.d == 0)) {
    throw InputError(
        "best: name a file of points (best points.npy -k 40), give the size of generated ones "
        "(best --n 2e6 --d 96 -k 1000), or name real ones (best --data photograph -k 64)");
  }
  if (!options.json_file.empty() && options.json_file != "-") {
    std::vector<NamedFile> inputs;
    if (!options.generated()) inputs.push_back({"the points", problem.file});
    check_outputs({{"--json", options.json_file}}, inputs);
    const auto folder = std::filesystem::absolute(options.json_file).parent_path();
    check_writable(folder);
  }
}

std::pair<std::int64_t, std::int64_t> size_of(const BestOptions& options,
                                              const PlanOptions& plan_options) {
  const BestProblem& problem = options.problem;
  auto [n, d] = options.generated() ? std::pair{problem.n, problem.d}
                                    : plan_options.size_of_file(parse_dataset(best_data(problem)));
  if (problem.k > n) {
    throw InputError("-k " + std::to_string(problem.k) +
                     ": must be from 1 to n = " + std::to_string(n) + " (the points of " +
                     (options.generated() ? problem.data : problem.file) + ")");
  }
  return {n, d};
}

/// The start that `fit` has, unless that alone would take much of the budget.
std::string suitable_init(const BestOptions& options, std::int64_t n, std::int64_t d, int threads) {
  static constexpr const char* kOfFits = "ward:1";
  const Shape shape{n, d, options.problem.k, Precision::f32};
  const double seconds = expected_seeding_seconds(parse_init(kOfFits), shape, threads);
  return seconds <= kShareOfSeeding * options.seconds ? kOfFits : "random:1";
}

std::vector<Precision> precisions_of(const BestOptions& options) {
  std::vector<Precision> precisions;
  for (const auto& name : options.precisions) precisions.push_back(parse_precision(name));
  return precisions;
}

/// Seconds until the quickest variant has answered; infinite where none can run.
double quickest(const Plan& plan, const BestOptions& options, int threads) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const auto& cell : plan.cells) {
    if (!cell.skip_reason.empty()) continue;
    seconds = std::min(seconds, estimated_seconds_of_first(cell, threads));
  }
  if (options.generated()) {
    const BestProblem& problem = options.problem;
    seconds += static_cast<double>(problem.n) * static_cast<double>(problem.d) /
               (kGenerationRate * threads);
  }
  return seconds;
}

/// Seconds until every variant has answered once that a quarter of the budget is expected to suffice for; `most`:
/// of the quickest alone.
double first_answers(const Plan& plan, const BestOptions& options, int threads, std::size_t most) {
  std::vector<double> seconds;
  for (const auto& cell : plan.cells) {
    if (!cell.skip_reason.empty()) continue;
    const double one = estimated_seconds_of_first(cell, threads);
    if (one <= kShareOfQuickest * options.seconds) seconds.push_back(one);
  }
  std::ranges::sort(seconds);
  if (seconds.size() > most) seconds.resize(most);
  if (seconds.empty()) return std::numeric_limits<double>::infinity();
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

BestProblem with_iterations(BestProblem problem, std::int64_t iterations) {
  problem.iterations = iterations;
  return problem;
}

struct PlannedBest {
  Experiment experiment;
  Plan plan;
};

PlannedBest plan_best(const BestProblem& problem, const nlohmann::json& variants, double seconds,
                      const PlanOptions& options) {
  PlannedBest planned{best_experiment(problem, variants, seconds), {}};
  planned.plan = plan_experiment(planned.experiment, options);
  for (const auto& warning : planned.plan.warnings) warn(warning);
  return planned;
}

/// Throws EnvironmentError where nothing can run, InputError where the budget is too short for
/// anything.
void refuse_hopeless(const PlannedBest& planned, const BestOptions& options, int threads) {
  const auto& cells = planned.plan.cells;
  const auto runs = [](const Cell& cell) { return cell.skip_reason.empty(); };
  if (std::none_of(cells.begin(), cells.end(), runs)) {
    std::string text;
    std::set<std::string> said;
    for (const auto& cell : cells) {
      if (said.insert(cell.skip_reason).second) {
        text += "\n  " + cell.key.variant + ": " + cell.skip_reason;
      }
    }
    throw EnvironmentError("no variant can run on this problem here:" + text);
  }
  const double seconds = quickest(planned.plan, options, threads);
  if (seconds <= kHopeless * options.seconds) return;
  throw InputError(
      formatted("--seconds %g is too little: ", options.seconds) +
      "the quickest variant is expected to take roughly " + format_duration(seconds) +
      " for the points and " +
      counted(cells.front().key.iterations, "verified iteration", "verified iterations") +
      formatted("; give --seconds %.0f or more, or fewer points", 2 * seconds));
}

/// A word for a shell.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_./:,+@%=-") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The program by the name that it was called by: what is printed is to be typed from where this was.
std::string program_name() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::string name;
  std::getline(stream, name, '\0');
  return name.empty() ? "kmeans-bench" : shell_word(name);
}

/// The points that were measured, written to a file.
std::string data_command(const PlannedBest& planned, const std::string& file) {
  const nlohmann::json& spec = planned.plan.cells.front().task.dataset.json;
  std::string text = program_name() + " data " + spec.at("generator").get<std::string>();
  for (const auto& [name, value] : spec.items()) {
    if (name != "generator") text += " --" + name + " " + value.dump();
  }
  return text + " --out " + file;
}

/// A folder for the answer that holds nothing yet.
std::string free_folder() {
  std::error_code ignored;
  std::string name = "fitted";
  for (int i = 2; std::filesystem::exists(name, ignored); ++i) name = "fitted-" + std::to_string(i);
  return name;
}

std::string fit_command(const PlannedBest& planned, const BestOptions& options,
                        const BestWinner& winner) {
  const std::string file = options.generated() ? "points.npy" : options.problem.file;
  std::string text;
  if (options.generated()) text = data_command(planned, file) + " && ";
  text += program_name() + " fit " + shell_word(file) + " -k " + std::to_string(options.problem.k) +
          " --variant " + winner.variant + " --precision " + winner.precision + " --init " +
          shell_word(options.problem.init);
  if (options.threads > 0) text += " --threads " + std::to_string(options.threads);
  if (!options.device.empty()) text += " --device " + shell_word(options.device);
  if (const std::string file_of_plugin = plugin_file(winner.variant); !file_of_plugin.empty()) {
    text += " --plugin " + shell_word(file_of_plugin);
  }
  return text + csv_arguments(options.problem.csv) + " --out " + free_folder();
}

std::string described_data(const PlannedBest& planned, const BestOptions& options) {
  if (!options.generated()) return options.problem.file;
  const nlohmann::json& spec = planned.plan.cells.front().task.dataset.json;
  const auto name_of_data = spec.at("generator").get<std::string>();
  const bool is_made = require_generator(name_of_data).prepare != nullptr;
  std::string text = is_made ? "generated points" : "real points";
  if (options.problem.data == kMixture) text += ", a mixture of overlapping clusters";
  text += " (" + name_of_data;
  for (const auto& [name, value] : spec.items()) {
    if (name != "generator" && name != "n" && name != "d") text += ", " + name + " " + value.dump();
  }
  return text + ")";
}

/// Whoever has no cell, and why.
std::vector<Absent> absent_variants(const PlannedBest& planned, const nlohmann::json& result,
                                    const Pattern& only) {
  std::vector<Absent> absent;
  const auto add = [&](const std::vector<std::string>& names, const std::string& reason) {
    std::vector<std::string> kept;
    std::copy_if(names.begin(), names.end(), std::back_inserter(kept),
                 [&](const std::string& name) { return only.found_in(name); });
    if (!kept.empty()) absent.push_back({std::move(kept), reason});
  };
  std::set<std::string> reached;
  for (const auto& cell : result.at("cells")) {
    reached.insert(cell.at("variant").get<std::string>() + cell.at("precision").get<std::string>());
  }
  for (const auto& cell : planned.plan.cells) {
    const std::string& variant = cell.key.variant;
    if (reached.insert(variant + to_string(cell.key.shape.precision)).second) {
      add({variant}, "not reached: interrupted");
    }
  }
  for (const auto& backend : missing_backends()) {
    add(backend.variants, "not in this build: " + backend.reason);
  }
  if (const std::string missing = missing_source_tree(); !missing.empty()) {
    absent.push_back({{"Python variants"}, "none, since " + missing});
  }
  for (const auto& variant : all_variants()) {
    if (shares_nothing(variant, process_ranks().size(), gpus_in_use())) {
      add({variant.traits.name}, "written for several ranks or GPUs: one has nothing to share");
    } else if (!variant.traits.wrong_because.empty()) {
      add({variant.traits.name}, "kept as its source prints it: the answers are wrong");
    }
  }
  return absent;
}

void write_result(const BestOptions& options, const nlohmann::json& result) {
  if (options.json_file.empty()) return;
  if (options.json_file == "-") {
    std::printf("%s\n", presentable(result).dump(1).c_str());
    return;
  }
  std::error_code ignored;
  const std::filesystem::path file = options.json_file;
  if (std::filesystem::is_regular_file(file, ignored)) {
    const auto kept = keep_as_earlier(file, utc_now());
    std::fprintf(stderr, "the earlier %s is kept as %s\n", printable(file.string()).c_str(),
                 printable(kept.filename().string()).c_str());
  }
  write_json_file(file, result);
}

/// A result on standard output is not to be mixed with words about it.
std::FILE* words(const BestOptions& options) { return options.json_file == "-" ? stderr : stdout; }

/// The fit that variants are ranked by.
std::string said_length(const BestOptions& options) {
  const std::string text = counted(options.fit, "iteration", "iterations");
  if (options.iterations_given) return text;
  if (!options.length) return "a fit of " + text + " (its real length is not known)";
  if (options.length->settled) return "a fit of " + text + ", after which no label changes";
  return "a fit of " + text + " (labels still changed after " +
         std::to_string(options.length->iterations) + ")";
}

/// "ward:1, which takes 93 ms".
std::string said_seeding(const BestOptions& options) {
  if (!options.length) return options.problem.init;
  return options.problem.init + ", which takes " + format_seconds(options.length->seeding_seconds);
}

void print_problem(const PlannedBest& planned, const BestOptions& options, int threads) {
  const Shape& shape = planned.plan.cells.front().task.shape;
  std::fprintf(words(options), "%s: n = %s, d = %lld, k = %lld; %s, from %s, %s, within %g s\n",
               printable(described_data(planned, options)).c_str(), format_count(shape.n).c_str(),
               static_cast<long long>(shape.d), static_cast<long long>(shape.k),
               said_length(options).c_str(), printable(said_seeding(options)).c_str(),
               counted(threads, "thread", "threads").c_str(), options.seconds);
  if (options.problem.iterations < options.fit) {
    std::fprintf(words(options),
                 "Times are of the first %s: the budget goes to more variants first%s.\n",
                 counted(options.problem.iterations, "iteration", "iterations").c_str(),
                 options.problem.whole > 0 ? ", then to whole fits of the quickest" : "");
  }
  std::fflush(words(options));
}

void say_what_is_rounded(const PlannedBest& planned, const BestOptions& options) {
  if (options.generated()) return;
  const auto& cells = planned.plan.cells;
  const bool narrow = std::any_of(cells.begin(), cells.end(), [](const Cell& cell) {
    return cell.key.shape.precision != Precision::f64;
  });
  std::string note;
  try {
    // In the cache already: the size was asked for.
    note = materialise(cells.front().task.dataset, narrow ? ScalarType::f32 : ScalarType::f64,
                       cache_root())
               .rounded;
  } catch (const InputError&) {
    return;  // the measurement says what is wrong
  }
  if (note.empty()) return;
  std::fprintf(words(options), "%s\n", printable(note).c_str());
  std::fflush(words(options));
}

/// Was no cell skipped because the budget ran out?
bool all_measured(const nlohmann::json& result) {
  return std::ranges::none_of(result.at("cells"), [](const nlohmann::json& cell) {
    const nlohmann::json& reason = cell.at("reason");
    return cell.at("status") == "skipped" && reason.is_string() &&
           reason.get<std::string>().find("--seconds") != std::string::npos;
  });
}

/// Whom `advise` names among the exact ones, if that is another, and what became of it here.
std::string said_of_advice(const BestTable& table, const Task& task, const BestOptions& options) {
  if (!table.exact_fits.contains(table.winner->variant)) return "";
  // Another file's points say no more of these than generated ones do.
  const std::string kind = options.generated() ? kind_of_data(task.dataset.json) : "";
  const auto expected = advised_here(task.shape, kind, options.fit, options.only);
  if (!expected || expected->variant == table.winner->variant) return "";
  const auto here = table.exact_fits.find(expected->variant);
  return formatted(" From results on file `advise` expects %s first, %s a fit: ",
                   expected->variant.c_str(), format_seconds(expected->fit).c_str()) +
         (here == table.exact_fits.end()
              ? "it was not measured here."
              : "here, on these points, it takes " + format_seconds(here->second) + ".");
}

int print_answer(const PlannedBest& planned, const BestOptions& options, const Pattern& only,
                 const RunSummary& summary, const nlohmann::json& result,
                 std::optional<double> cache_bytes, int threads) {
  std::FILE* out = words(options);
  std::string why;
  const Shape& shape = planned.plan.cells.front().task.shape;
  const std::string unchosen = variant_for_fit(shape, options.fit, threads, false, why).traits.name;
  const BestTable table =
      best_table(result, {options.fit, cache_bytes, unchosen, all_measured(result)},
                 absent_variants(planned, result, only));
  std::fprintf(out, "\n%s", printable(table.text).c_str());
  if (table.winner) {
    const std::string sentence =
        table.winner->sentence + said_of_advice(table, planned.plan.cells.front().task, options);
    std::fprintf(out, "%s Run it with:\n%s\n", sentence.c_str(),
                 printable(fit_command(planned, options, *table.winner)).c_str());
  }
  std::fflush(out);
  if (summary.interrupted) {
    std::fprintf(stderr, "interrupted: this is what was known by then\n");
    return kExitInterrupted;
  }
  if (summary.wrong > summary.wrong_as_expected || summary.failed > 0) return kExitCellsFailed;
  if (!table.winner) {
    // Small problems are none the quicker for fewer points.
    const double seconds = quickest(planned.plan, options, threads);
    const bool small = seconds <= kShareOfQuickest * options.seconds;
    throw InputError(
        formatted("nothing was measured within --seconds %g; give ", options.seconds) +
        (small ? formatted("%.0f or more: the quickest variant is expected to take "
                           "%s of it, the start and the look at this machine took the "
                           "rest",
                           std::max(15.0, 2 * options.seconds), format_seconds(seconds).c_str())
               : "more, or fewer points, clusters or iterations"));
  }
  return kExitOk;
}

/// The plan for as many iterations as were asked for, else as the budget has time for: more variants come first.
PlannedBest plan_within_budget(BestOptions& options, const nlohmann::json& variants,
                               const PlanOptions& plan_options) {
  const auto plan = [&](std::int64_t iterations) {
    options.problem.iterations = iterations;
    return plan_best(options.problem, variants, options.seconds, plan_options);
  };
  if (options.iterations_given) return plan(options.problem.iterations);
  PlannedBest planned = plan(options.fit);
  const auto is_short_enough = [&] {
    const bool few = options.problem.iterations <= kFew;
    const double seconds = first_answers(planned.plan, options, plan_options.threads,
                                         few ? kSome : planned.plan.cells.size());
    return seconds <= kShareOfFirst * options.seconds;
  };
  for (const int iterations : kIterations) {
    if (is_short_enough()) break;
    if (iterations < options.problem.iterations) planned = plan(iterations);
  }
  if (options.length && options.length->settled && options.problem.iterations < options.fit) {
    options.problem.whole = options.fit;
    planned = plan(options.problem.iterations);
  }
  return planned;
}

/// How many iterations this fit takes, found by the quickest exact variant; what it cannot say is said of others.
void find_length(BestOptions& options, const PlannedBest& planned, int threads) {
  if (options.iterations_given) {
    options.fit = options.problem.iterations;
    return;
  }
  // Where not even some exact iterations fit in, the time is better spent otherwise.
  const Shape& shape = planned.plan.cells.front().task.shape;
  const double iteration = operations_2nkd(shape) / 2 / (kExactRate * threads);
  if (kSomeIterations * iteration > kShareOfFit * options.seconds) return;
  options.length =
      fit_length(planned.plan.cells.front().task.dataset, options.problem.k, options.problem.init,
                 threads, cache_root(), kShareOfFit * options.seconds, kLongestFit);
  if (!options.length) return;
  options.fit = options.length->iterations;
  if (!options.length->settled) options.fit = std::max(options.fit, kIterationsOfFit);
}

/// What an experiment would say by a key is an option here. What was measured before something ended
/// the run is in its file all the same.
RunSummary measure(const PlannedBest& planned, const BestOptions& options,
                   const RunSurroundings& surroundings, const RunSettings& settings) {
  try {
    return run_experiment(planned.experiment, planned.plan, surroundings, settings);
  } catch (const InputError& error) {
    const auto file = settings.out / "best.json";
    if (std::filesystem::exists(file)) {
      const nlohmann::json result = read_json_file(file, kNoJsonLimits);
      if (!result.at("cells").empty()) write_result(options, result);
    }
    static const std::string kKey = "with \"precision\": \"f64\"";
    std::string text = error.what();
    const auto at = text.find(kKey);
    if (at != std::string::npos) text.replace(at, kKey.size(), "with --precision f64");
    throw InputError(text);
  }
}

int run_best(BestOptions options) {
  const auto left = [&] {
    return options.seconds - kToFinish -
           std::chrono::duration<double>(Clock::now() - options.begin).count();
  };
  complete_sizes(options);
  check_problem(options);
  const Pattern only(options.only);
  const nlohmann::json variants = best_variants(only, precisions_of(options));
  if (variants.empty()) {
    throw InputError("--only '" + options.only + "' and --precision leave no variant " +
                     "(`kmeans-bench list`)");
  }
  const InterruptGuard guard;
  const int threads = options.threads > 0 ? options.threads : usable_threads();
  const PlanOptions plan_options = plan_options_here(threads);
  const auto [n, d] = size_of(options, plan_options);
  if (options.problem.init.empty()) {
    options.problem.init = suitable_init(options, n, d, threads);
  }
  PlannedBest planned = plan_best(
      with_iterations(options.problem, options.iterations_given ? options.problem.iterations : 1),
      variants, options.seconds, plan_options);
  refuse_hopeless(planned, options, threads);
  find_length(options, planned, threads);
  planned = plan_within_budget(options, variants, plan_options);
  print_problem(planned, options, threads);
  say_what_is_rounded(planned, options);

  const ScratchFolder scratch;
  LookAround look;
  look.check.seconds = std::min(look.check.seconds, kShareOfLook * options.seconds);
  look.quick_ceilings = 2 * kShareOfLook * options.seconds;
  const RunSurroundings surroundings = look_around(look, threads);
  RunSettings settings;
  settings.out = scratch.path();
  settings.cache = cache_root();
  settings.command_line = typed_command();
  settings.threads = threads;
  BudgetChooser chooser(options.seconds, options.fit, threads, left);
  settings.choose = [&](const std::vector<CellNews>& news) { return chooser.next(news); };
  // Of the exact trajectory: without it cells are certified by their steps alone.
  planned.plan.timeout_seconds = std::max(0.1, kShareOfQuickest * left());
  const RunSummary summary = measure(planned, options, surroundings, settings);
  const nlohmann::json result = read_json_file(summary.file, kNoJsonLimits);
  write_result(options, result);
  return print_answer(planned, options, only, summary, result, surroundings.limits.cache_bytes,
                      threads);
}

void add_problem_options(CLI::App& command, BestProblem& problem) {
  command.add_option(
      "file", problem.file,
      "Points: npy, csv, fvecs, bvecs, fbin, IDX, LIBSVM, Parquet or Arrow\n(docs/datasets.md); "
      "without one they are generated");
  command.add_option("-k,--clusters", problem.k, "Number of clusters, 1 to n")
      ->required()
      ->transform(whole_size(1));
  command.add_option("--n", problem.n, "Generated points (2e6 is a number) [of real ones all]")
      ->transform(whole_size(1));
  command.add_option("--d", problem.d, "Coordinates of a generated point [a real one's own]")
      ->transform(whole_size(1));
  command
      .add_option("--data", problem.data,
                  "Kind of generated points: mixture (overlapping\nclusters), or a generator of "
                  "`kmeans-bench data --list`")
      ->capture_default_str();
  command.add_option("--seed", problem.seed, "Seed of the generated points")
      ->transform(whole_number(0, kLargestSeed))
      ->capture_default_str();
  add_csv_options(command, problem.csv);
  command.add_option("--init", problem.init,
                     "First centroids, as for `fit` [ward:1, or random:1 where\nthat would "
                     "take much of the budget]");
}

}  // namespace

void add_best_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<BestOptions>();
  auto* command = app.add_subcommand("best", "Which variant for these points, on this machine?");
  add_problem_options(*command, options->problem);
  command->add_option("--seconds", options->seconds, "Time for everything")
      ->check(number_within(1, 86400))
      ->capture_default_str();
  auto* iterations = command->add_option(
      "--iterations", options->problem.iterations,
      "Iterations that variants are ranked by and timed in\n[a fit's, until no label changes]");
  iterations->transform(whole_number(1, 1000000));
  command
      ->add_option("--precision", options->precisions,
                   "f32, tf32, f16, bf16, f64; one or several,\ncomma-separated [all but f64]")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--only", options->only,
                      "Variants whose name matches this regular expression");
  add_plugin_option(*command);
  command->add_option("--threads", options->threads, "CPU threads; default: all usable ones")
      ->transform(whole_number(1, kMaxThreads));
  add_device_option(*command);
  command
      ->add_option("--json", options->json_file,
                   "Also write all that was measured, as a result file\n(docs/results.md); - for "
                   "standard output")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  kmeans-bench best points.npy -k 40\n"
      "  kmeans-bench best --n 2e6 --d 96 -k 1000 --seconds 120 --json best.json\n"
      "  kmeans-bench best --n 1e5 --d 2 -k 8 --data uniform --only 'openmp|sklearn'\n\n"
      "Every variant that can run here is verified and timed as by `run`, quick ones first; what\n"
      "the time did not suffice for is listed. The last line is the command that runs the best.\n"
      "Variants are ranked by a fit. That of a Python variant is not known here: it stands after\n"
      "the others, by its iteration. `kmeans-bench run fits` times whole fits of libraries.\n"
      "Exit status: 0 all well, 2 bad input or too little time for anything, 3 no variant can\n"
      "run, 4 some were wrong or failed, 5 --json could not be written, 130 interrupted.");
  command->callback([command, options, iterations, &action] {
    options->iterations_given = iterations->count() > 0;
    give_plugins(kShareOfPlugins * options->seconds);
    const CLI::Option* device = command->get_option("--device");
    if (device->count() > 0) options->device = device->as<std::string>();
    action = [options] { return run_best(*options); };
  });
}

}  // namespace kmeans
