// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/commands/columns.h"
#include "harness/machine/machine.h"
#include "harness/record/advice.h"
#include "harness/record/limit.h"
#include "harness/record/result_file.h"
#include "harness/run/best.h"
#include "harness/support/build_info.h"
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

// Nine of ten times within more than this: too far from what is on file to go by.
constexpr double kFar = 2;

struct AdviseOptions {
  std::string machine;
  Shape shape;
  std::int64_t iterations = 10;
  std::string only;
};

struct Advised {
  const AdviceSeries* series = nullptr;
  AnswerKind kind = AnswerKind::exact;
  Prediction iteration;
  std::optional<Prediction> setup;
  std::optional<double> whole;  ///< None of Python variants, as in `best`.
  std::optional<double> share;
};

/// Why a variant would not run at a shape there; empty if it would, or if this build does not know it.
/// Whether it can run here is of no interest.
std::string reason_against(const AdviceSeries& series, const Shape& shape, const json& machine) {
  const RegisteredVariant* variant = find_variant(series.variant);
  if (variant == nullptr) return "";
  if (variant->traits.supports) {
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

Advised advised(const AdviceSeries& series, const AdviseOptions& options, const json& context) {
  Shape shape = options.shape;
  shape.precision = parse_precision(series.precision);
  const AdviceProblem problem{shape, "", options.iterations};
  Advised one;
  one.series = &series;
  one.kind = answer_kind(series.exact, shape.precision);
  one.iteration = CostModel(series.iterations).predict(problem);
  if (!series.setups.empty()) one.setup = CostModel(series.setups).predict(problem);
  const auto limit = machine_limit(context.value("ceilings", json()), last_level_cache(context),
                                   shape, series.threads, series.gpu);
  const RegisteredVariant* variant = find_variant(series.variant);
  if (limit && variant != nullptr && !variant->traits.skips_work &&
      one.iteration.seconds < limit->seconds) {
    // What does all the work cannot be faster: the model went too far from what is on file.
    one.iteration.seconds = limit->seconds;
    one.iteration.most = "the machine's limit; predicted below it";
  }
  if (limit) one.share = limit->seconds / one.iteration.seconds;
  if (series.variant.rfind("python_", 0) != 0) {
    one.whole = static_cast<double>(options.iterations) * one.iteration.seconds +
                (one.setup ? one.setup->seconds : 0);
  }
  return one;
}

void print_block(AnswerKind kind, const std::vector<Advised>& all, std::int64_t iterations) {
  std::vector<std::vector<std::string>> lines{
      {"variant", "", "threads", "iteration", "within a factor of", "setup",
       counted(iterations, "iteration", "iterations") + " with setup", "of the limit",
       "shapes on file", "most of it"}};
  for (const auto& one : all) {
    if (one.kind != kind) continue;
    const double factor = one.iteration.factor;
    lines.push_back({one.series->variant, one.series->precision,
                     one.series->gpu ? "GPU" : std::to_string(one.series->threads),
                     format_seconds(one.iteration.seconds), formatted("%.2f", factor),
                     one.setup ? format_seconds(one.setup->seconds) : "-",
                     one.whole ? format_seconds(*one.whole) : "-",
                     one.share ? format_percent(*one.share) : "-",
                     std::to_string(one.series->shapes()),
                     one.iteration.most + (factor > kFar ? "; far from what is on file" : "")});
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
         (series.gpu ? "" : ", " + counted(series.threads, "thread", "threads"));
}

/// Who comes first in its table, as `best` ends; of the first table that has anybody.
void print_first(const std::vector<Advised>& all, const AdviseOptions& options) {
  if (all.empty()) return;
  const auto& first = *std::min_element(
      all.begin(), all.end(), [](const Advised& a, const Advised& b) { return a.kind < b.kind; });
  const AdviceSeries& series = *first.series;
  std::printf(
      "%s: expected to take %s an iteration, within a factor of %.2f. There, run it with:\n"
      "kmeans-bench fit points.npy -k %lld --variant %s --precision %s%s --out fitted\n",
      printable(with_threads(series)).c_str(), format_seconds(first.iteration.seconds).c_str(),
      first.iteration.factor, static_cast<long long>(options.shape.k),
      printable(series.variant).c_str(), printable(series.precision).c_str(),
      series.gpu ? "" : (" --threads " + std::to_string(series.threads)).c_str());
}

void print_back_test(const std::vector<AdviceSeries>& series) {
  const BackTest test = back_test(series);
  std::printf(
      "Each shape on file, predicted from the others: %zu times, off by %.1f %% in the median "
      "(set-ups\nby %.1f %%), %.0f %% within their factor; of %zu problems the fastest was "
      "predicted "
      "first in %.0f %%, among\nthe first two in %.0f %%.\n",
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

std::string results_folder(const AdviseOptions& options) {
  if (!options.machine.empty()) return options.machine;
  return (std::filesystem::path(require_source_root()) / "results" / machine_id()).string();
}

std::vector<ResultFile> results_of(const AdviseOptions& options) {
  const std::string folder = results_folder(options);
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) {
    throw InputError(folder +
                     " does not exist: --machine names a folder of results, such as "
                     "results/nvidia-h200" +
                     (options.machine.empty() ? "; of this machine there are none yet "
                                                "(`kmeans-bench run map` makes some)"
                                              : ""));
  }
  return load_results(folder);
}

int advise(const AdviseOptions& options) {
  if (options.shape.k > options.shape.n) {
    throw InputError("-k " + std::to_string(options.shape.k) +
                     ": must be from 1 to n = " + std::to_string(options.shape.n));
  }
  const Pattern only(options.only);
  const auto results = results_of(options);
  const ResultFile& limits = with_newest_ceilings(results);
  const json& context = limits.context;
  const json machine = context.value("machine", json::object());
  const auto series = series_of(results);
  std::vector<Advised> all;
  std::map<std::string, std::vector<std::string>> left_out;
  for (const auto& one : series) {
    if (!only.found_in(one.variant)) continue;
    Shape shape = options.shape;
    shape.precision = parse_precision(one.precision);
    std::string reason = reason_against(one, shape, machine);
    if (reason.empty() && one.shapes() < kShapesForAdvice) {
      reason = formatted("measured at fewer than %zu shapes", kShapesForAdvice);
    }
    if (reason.empty()) {
      all.push_back(advised(one, options, context));
    } else {
      left_out[reason].push_back(with_threads(one));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Advised& a, const Advised& b) {
    if (a.whole && b.whole) return *a.whole < *b.whole;
    return a.whole.has_value() != b.whole.has_value() ? a.whole.has_value()
                                                      : a.iteration.seconds < b.iteration.seconds;
  });
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
                      "Folder of results, or a result file [results/<machine>, this one]");
  command->add_option("--iterations", options->iterations, "Iterations of a call")
      ->transform(whole_number(1, 1000000))
      ->capture_default_str();
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
