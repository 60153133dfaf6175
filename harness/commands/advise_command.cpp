// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/commands/advising.h"
#include "harness/commands/columns.h"
#include "harness/machine/gpu.h"
#include "harness/machine/machine.h"
#include "harness/record/advice.h"
#include "harness/record/limit.h"
#include "harness/record/result_file.h"
#include "harness/run/best.h"
#include "harness/run/machine_folder.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_member.h"
#include "harness/support/option_checks.h"
#include "harness/support/pattern.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using nlohmann::json;

struct AdviseOptions {
  std::string machine;
  Shape shape;
  std::string kind;  ///< Of the data; empty: any.
  std::int64_t iterations = kIterationsOfFit;
  std::string only;
};

struct Advised : Advice {
  AnswerKind kind = AnswerKind::exact;
};

/// Why a variant would not run at a shape there; empty if it would, or if this build does not know it.
/// Whether it can run here is of no interest.
std::string reason_against(const AdviceSeries& series, const Shape& shape, const json& machine) {
  const RegisteredVariant* variant = find_variant(series.variant);
  if (variant == nullptr) return "";
  // What depends on the GPU, it knows of this machine's alone.
  const json& there = machine.value("gpus", json::array());
  const GpuDevice* here = current_gpu();
  const bool elsewhere = series.gpu && here != nullptr && !there.empty() &&
                         text_in(there.front(), "name") != here->name;
  if (variant->traits.supports && !elsewhere) {
    if (const Support support = variant->traits.supports(shape); !support.ok) return support.reason;
  }
  const double need = memory_need(*variant, shape, series.threads);
  const double memory = number_in(member(machine, "memory"), "total_bytes").value_or(0);
  if (memory > 0 && need > memory) {
    return "needs " + format_bytes(need) + " of memory, that machine has " + format_bytes(memory);
  }
  const double device_need = device_memory_need(*variant, shape);
  const json gpus = machine.value("gpus", json::array());
  const double device = gpus.empty() ? 0 : number_in(gpus.front(), "memory_bytes").value_or(0);
  if (series.gpu && device > 0 && device_need > device) {
    return "needs " + format_bytes(device_need) + " of GPU memory, that machine has " +
           format_bytes(device);
  }
  return "";
}

Advised advised(const AdviceSeries& series, const AdviseOptions& options, const std::string& run,
                const json& context) {
  Shape shape = options.shape;
  shape.precision = parse_precision(series.precision);
  const auto limit = machine_limit(member(context, "ceilings"), last_level_cache(context), shape,
                                   series.threads, series.gpu, {}, series.gpus);
  return {advice_of(series, {shape, options.kind, options.iterations}, run, limit),
          answer_kind(series.exact, shape.precision)};
}

std::string where(const AdviceSeries& series) {
  if (!series.gpu) return std::to_string(series.threads);
  return series.gpus == 1 ? "GPU" : std::to_string(series.gpus) + " GPUs";
}

/// What the iteration's time rests on, where that is not a model's term.
std::string basis_of(const Advised& one) {
  if (one.basis == Basis::predicted) return one.iteration.most;
  std::string text = one.iteration.most;
  if (one.basis == Basis::scaled) {
    text += " from " + counted(one.on_file.iterations, "iteration", "iterations");
    if (!one.on_file.kind.empty()) text += " on " + one.on_file.kind;
  }
  return text + (one.unsteady ? "; unsteady: its slowest process" : "");
}

void print_block(AnswerKind kind, const std::vector<Advised>& all, std::int64_t iterations) {
  std::vector<std::vector<std::string>> lines{
      {"variant", "", "threads", "iteration", "within a factor of", "setup",
       "fit of " + counted(iterations, "iteration", "iterations"), "of the limit", "shapes on file",
       "most of it"}};
  for (const auto& one : all) {
    if (one.kind != kind) continue;
    const double factor = one.iteration.factor;
    lines.push_back({one.series->variant, one.series->precision, where(*one.series),
                     format_seconds(one.iteration.seconds),
                     one.basis == Basis::measured ? "-" : formatted("%.2f", factor),
                     one.setup ? format_seconds(one.setup->seconds) : "-",
                     one.fit ? format_seconds(*one.fit) : "-",
                     one.share ? format_percent(*one.share) : "-",
                     std::to_string(one.series->shapes()),
                     basis_of(one) + (factor > kFarFromFile ? "; far from what is on file" : "")});
  }
  if (lines.size() == 1) return;
  std::printf("%s\n%s\n", title_of(kind), aligned(lines).c_str());
}

void print_left_out(const std::map<std::string, std::vector<std::string>>& left_out) {
  if (left_out.empty()) return;
  std::printf("Left out\n");
  for (const auto& [reason, names] : left_out) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : "; ") + name;
    std::printf("  %s: %s\n", printable(text).c_str(), printable(reason).c_str());
  }
  std::printf("\n");
}

std::string with_threads(const AdviceSeries& series) {
  return series.variant + " " + series.precision +
         (series.gpus > 1 ? ", " + where(series)
          : series.gpu    ? ""
                          : ", " + counted(series.threads, "thread", "threads"));
}

/// Who comes first in its table, as `best` ends; of the first table that has anybody.
void print_first(const std::vector<Advised>& all, const AdviseOptions& options) {
  if (all.empty()) return;
  const auto& first = *std::min_element(
      all.begin(), all.end(), [](const Advised& a, const Advised& b) { return a.kind < b.kind; });
  const AdviceSeries& series = *first.series;
  const double factor = first.iteration.factor;
  std::string text = with_threads(series) + ": ";
  if (first.fit) {
    text += "a fit of " + counted(options.iterations, "iteration", "iterations") +
            (first.basis == Basis::measured ? " takes " : " is expected to take ") +
            format_seconds(*first.fit) + " after its seeding, ";
  }
  text += format_seconds(first.iteration.seconds) + " an iteration, ";
  if (first.basis != Basis::predicted) text += basis_of(first) + " at this shape";
  if (first.basis == Basis::scaled) text += ", ";
  if (first.basis != Basis::measured) {
    text += formatted("within a factor of %.2f%s", factor,
                      factor > kFarFromFile ? ": far from what is on file" : "");
  }
  text += ".";
  std::string how;
  if (series.gpus > 1) {
    how = " --gpus " + std::to_string(series.gpus);
  } else if (!series.gpu) {
    how = " --threads " + std::to_string(series.threads);
  }
  std::printf(
      "%s There, run it with:\n"
      "kmeans-bench fit points.npy -k %lld --variant %s --precision %s%s --out fitted\n",
      printable(text).c_str(), static_cast<long long>(options.shape.k),
      printable(series.variant).c_str(), printable(series.precision).c_str(), how.c_str());
}

void print_back_test(const std::vector<AdviceSeries>& series) {
  const BackTest test = back_test(series);
  if (test.groups == 0) {
    std::printf("Too few shapes on file to test predictions by those of others.\n");
    return;
  }
  std::printf(
      "Each shape on file, predicted from the others: %zu times, off by %.1f %% in the median "
      "(set-ups\nby %.1f %%), %.0f %% within their factor; of %zu runs the quickest fit "
      "was predicted first in\n%.0f %%, among the first two in %.0f %%.\n",
      test.cells, 100 * test.median_error, 100 * test.median_setup_error, 100 * test.covered,
      test.groups,
      100 * static_cast<double>(test.best_first) /
          static_cast<double>(std::max<std::size_t>(1, test.groups)),
      100 * static_cast<double>(test.best_in_two) /
          static_cast<double>(std::max<std::size_t>(1, test.groups)));
}

/// When a run began, "" where that is not known.
std::string started(const ResultFile& file) {
  const json when = file.context.value("started", json());
  return when.is_string() ? when.get<std::string>() : "";
}

/// For messages.
std::string results_folder(const AdviseOptions& options) {
  if (!options.machine.empty()) return options.machine;
  const auto found = results_of_this_machine();
  if (found.empty()) return "results/" + machine_id();
  const bool is_file = found.front().extension() == ".json";
  return (is_file ? found.front().parent_path() : found.front()).string();
}

std::vector<ResultFile> results_of(const AdviseOptions& options) {
  static const std::string kUse =
      "--machine names a folder of results, such as results/nvidia-h200";
  if (options.machine.empty()) {
    const auto found = results_of_this_machine();
    if (!found.empty()) return load_all_results(found);
    throw InputError("no results of a machine like this one (" + machine_id() +
                     ") are on file; `kmeans-bench run map` makes some, and " + kUse);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(options.machine, ignored)) {
    throw InputError(options.machine + " does not exist: " + kUse);
  }
  return load_results(options.machine);
}

/// The series by their fits; `left_out`: why others are not there.
std::vector<Advised> ranked(const std::vector<AdviceSeries>& series,
                            const std::vector<ResultFile>& results, const AdviseOptions& options,
                            std::map<std::string, std::vector<std::string>>& left_out) {
  const Pattern only(options.only);
  const json& context = with_newest_ceilings(results).context;
  const json machine = context.value("machine", json::object());
  const std::string run = run_at(results, {options.shape, options.kind, options.iterations});
  std::vector<Advised> all;
  for (const auto& one : series) {
    if (!only.found_in(one.variant)) continue;
    Shape shape = options.shape;
    shape.precision = parse_precision(one.precision);
    std::string reason = reason_against(one, shape, machine);
    if (!one.is_in(run, shape)) {
      if (reason.empty()) reason = one.refused.reason_against(shape);
      if (reason.empty() && one.shapes() < kShapesForAdvice) {
        reason = formatted("measured at fewer than %zu shapes", kShapesForAdvice);
      }
    }
    if (reason.empty()) {
      all.push_back(advised(one, options, run, context));
    } else {
      left_out[reason].push_back(with_threads(one));
    }
  }
  std::ranges::stable_sort(all, is_quicker);
  return all;
}

/// Throws InputError for a kind of data that no file there has.
void check_kind(const AdviseOptions& options, const std::vector<AdviceSeries>& series) {
  std::set<std::string> kinds;
  for (const auto& one : series) {
    for (const auto* all : {&one.iterations, &one.unsteady}) {
      for (const auto& observation : *all) kinds.insert(observation.problem.kind);
    }
  }
  kinds.erase("");
  if (options.kind.empty() || kinds.contains(options.kind)) return;
  std::string known;
  for (const auto& kind : kinds) known += (known.empty() ? "" : ", ") + kind;
  throw InputError("--data '" + options.kind + "': " + results_folder(options) + " has " + known);
}

int advise(const AdviseOptions& options) {
  if (options.shape.k > options.shape.n) {
    throw InputError("-k " + std::to_string(options.shape.k) +
                     ": must be from 1 to n = " + std::to_string(options.shape.n));
  }
  const auto results = results_of(options);
  const auto series = series_of(results);
  check_kind(options, series);
  std::map<std::string, std::vector<std::string>> left_out;
  const auto all = ranked(series, results, options, left_out);
  const ResultFile& limits = with_newest_ceilings(results);
  std::printf(
      "%s: n = %s, d = %lld, k = %lld; predicted from results on file, nothing was run; limits as "
      "%s "
      "has them, of %s\n\n",
      printable(limits.machine).c_str(), format_count(options.shape.n).c_str(),
      static_cast<long long>(options.shape.d), static_cast<long long>(options.shape.k),
      printable(limits.path.filename().string()).c_str(), printable(started(limits)).c_str());
  for (const AnswerKind kind :
       {AnswerKind::exact, AnswerKind::certified, AnswerKind::approximate}) {
    print_block(kind, all, options.iterations);
  }
  print_left_out(left_out);
  print_back_test(series);
  print_first(all, options);
  if (!all.empty()) return kExitOk;
  std::fflush(stdout);
  throw InputError("no variant that takes the shape has enough results in " +
                   results_folder(options));
}

}  // namespace

std::optional<ExpectedHere> advised_here(const Shape& shape, const std::string& kind,
                                         std::int64_t iterations, const std::string& only) {
  AdviseOptions options;
  options.kind = kind;
  options.only = only;
  options.shape = shape;
  options.iterations = iterations;
  try {
    const auto results = results_of(options);
    const auto series = series_of(results);
    std::map<std::string, std::vector<std::string>> left_out;
    for (const auto& one : ranked(series, results, options, left_out)) {
      if (one.kind != AnswerKind::exact || !one.fit || one.series->gpus > 1) continue;
      return {{one.series->variant, *one.fit}};
    }
  } catch (const UserError&) {
    return std::nullopt;  // no results, or older ones: `advise` says which
  }
  return std::nullopt;
}

void add_advise_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<AdviseOptions>();
  auto* command =
      app.add_subcommand("advise", "What each variant would take, from results on file");
  const auto size = [&](const char* name, std::int64_t& value, const char* text) {
    command->add_option(name, value, text)->required()->transform(whole_size(1));
  };
  size("--n", options->shape.n, "Points (2e6 is a number)");
  size("--d", options->shape.d, "Coordinates of a point");
  size("-k,--clusters", options->shape.k, "Number of clusters, 1 to n");
  command->add_option("--machine", options->machine,
                      "Folder of results, or a result file [of a machine like this one]");
  command
      ->add_option("--iterations", options->iterations,
                   "Iterations of a fit; how many until no label changes, nobody knows before")
      ->transform(whole_number(1, 1000000))
      ->capture_default_str();
  command->add_option("--data", options->kind,
                      "Kind of the points, as results there name it (gaussian, 'blobs from "
                      "-1.75', file, ...)\n[any]");
  command->add_option("--only", options->only,
                      "Variants whose name matches this regular expression");
  command->footer(
      "Example:\n"
      "  kmeans-bench advise --n 2e6 --d 96 -k 1000 --machine results/nvidia-h200\n\n"
      "Nothing is run. Each time has the factor within which nine of ten are expected; the last\n"
      "lines say how well that holds for what is on file, and who is expected to be the first.\n"
      "`kmeans-bench best` measures.");
  command->callback([options, &action] { action = [options] { return advise(*options); }; });
}

}  // namespace kmeans
