// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/points.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/option_checks.h"
#include "harness/support/parallel.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"
#include "harness/verify/answer.h"

namespace kmeans {
namespace {

struct CheckCommand {
  std::string points;
  std::string init;
  std::string labels;
  std::string centroids;
  std::string before;
  std::int64_t iterations = 1;
  std::string precision;
  std::string distance = "expanded";
  std::string labels_of = "starting";
  std::string empty_clusters = "keep";
  int threads = 0;
  bool json = false;
};

std::string shape_of(const Points& points) {
  return std::to_string(points.n()) + " x " + std::to_string(points.d());
}

Points load(const std::string& file, std::optional<ScalarType> scalar, bool check_finite) {
  LoadOptions options;
  options.scalar = scalar;
  options.check_finite = check_finite;
  return load_points(file, options);
}

/// k x d centroids of the answer, or of where it began.
Points load_centroids(const std::string& option, const std::string& file, ScalarType scalar,
                      std::int64_t k, std::int64_t d, bool check_finite) {
  Points centroids = load(file, scalar, check_finite);
  if ((k == 0 || centroids.n() == k) && centroids.d() == d) return centroids;
  throw InputError(option + " " + file + ": shape " + shape_of(centroids) + " is not " +
                   (k == 0 ? "k" : std::to_string(k)) + " x " + std::to_string(d) + ", " +
                   (k == 0 ? "d of the points" : "as of the initial centroids") +
                   "; were files given in another order?");
}

/// The labels as they are; those that are not int32 become -1, which no label is.
std::vector<std::int32_t> load_labels(const std::string& file, std::int64_t n) {
  Points values = load(file, ScalarType::f64, false);
  if (values.d() == 1 && values.n() == n + 1 && values.data<double>()[0] == 0) {
    // pandas writes "0" above a column that has no name.
    LoadOptions options;
    options.scalar = ScalarType::f64;
    options.check_finite = false;
    options.csv.header = CsvColumns::Header::yes;
    try {
      values = load_points(file, options);
      std::fprintf(stderr,
                   "kmeans-bench: note: %s: line 1 reads 0, and there is one line too many for "
                   "%lld points: it is taken for a header\n",
                   printable(file).c_str(), static_cast<long long>(n));
    } catch (const InputError&) {
      // Not a csv file: the message below.
    }
  }
  if (values.d() != 1 || values.n() != n) {
    throw InputError("--labels " + file + ": shape " + shape_of(values) +
                     " is not one label for each "
                     "of the " +
                     std::to_string(n) + " points; were files given in another order?");
  }
  std::vector<std::int32_t> labels(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = values.data<double>()[i];
    if (!(value == std::floor(value))) {
      throw InputError("--labels " + file + ": label " + std::to_string(i) + " is " +
                       formatted("%g", value) +
                       ", not a whole number; were files given in another order?");
    }
    // Beyond int32 a label is beyond k too, on the same side.
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    labels[i] = static_cast<std::int32_t>(std::clamp(value, -kMost, kMost));
  }
  return labels;
}

Traits traits_of(const CheckCommand& command, Precision precision) {
  Traits traits;
  traits.name = "answer";
  traits.precisions = {precision};
  traits.distance = command.distance == "direct" ? Distance::direct : Distance::expanded;
  traits.labels_of = command.labels_of == "returned" ? LabelsOf::returned : LabelsOf::starting;
  traits.empty_clusters =
      command.empty_clusters == "relocate" ? EmptyClusters::relocate : EmptyClusters::keep;
  return traits;
}

nlohmann::json to_json(const AnswerJudgement& judgement, const Shape& shape,
                       std::int64_t iterations) {
  nlohmann::json json{{"verdict", to_string(judgement.verdict)},
                      {"reason", judgement.reason},
                      {"n", shape.n},
                      {"d", shape.d},
                      {"k", shape.k},
                      {"precision", to_string(shape.precision)},
                      {"iterations", iterations},
                      {"labels_differing", judgement.labels_differing},
                      {"first_differing", nullptr},
                      {"inertia", nullptr},
                      {"exact_inertia", judgement.exact_inertia},
                      {"certificate", to_json(judgement.certificate)}};
  if (judgement.first_differing) {
    json["first_differing"] = {{"point", judgement.first_differing->point},
                               {"label", judgement.first_differing->label},
                               {"exact_label", judgement.first_differing->exact_label}};
  }
  if (judgement.inertia && std::isfinite(*judgement.inertia)) json["inertia"] = *judgement.inertia;
  return json;
}

void print(const AnswerJudgement& judgement, const Shape& shape, std::int64_t iterations) {
  std::printf("%s: %s\n", to_string(judgement.verdict), printable(judgement.reason).c_str());
  std::printf("  n = %s, d = %lld, k = %lld, %s, %s\n", format_count(shape.n).c_str(),
              static_cast<long long>(shape.d), static_cast<long long>(shape.k),
              to_string(shape.precision), counted(iterations, "iteration", "iterations").c_str());
  std::printf("  labels that differ from the exact trajectory's: %lld (%.3g%%)",
              static_cast<long long>(judgement.labels_differing),
              100 * static_cast<double>(judgement.labels_differing) / static_cast<double>(shape.n));
  if (judgement.first_differing) {
    std::printf("; first: point %lld, label %d instead of %d",
                static_cast<long long>(judgement.first_differing->point),
                judgement.first_differing->label, judgement.first_differing->exact_label);
  }
  std::printf("\n  inertia of these labels to these centroids: ");
  if (judgement.inertia) {
    std::printf("%.17g", *judgement.inertia);
  } else {
    std::printf("none");
  }
  std::printf(" (exact trajectory: %.17g)\n", judgement.exact_inertia);
}

template <class T>
int check_as(const CheckCommand& command, const Points& points, Precision precision) {
  const ScalarType scalar = scalar_of<T>;
  const Points initial = load_centroids("--init", command.init, scalar, 0, points.d(), true);
  const std::int64_t k = initial.n();
  if (k > points.n()) {
    throw InputError("--init " + command.init + ": " + std::to_string(k) + " centroids for " +
                     std::to_string(points.n()) + " points; were files given in another order?");
  }
  const auto labels = load_labels(command.labels, points.n());
  const Points centroids =
      load_centroids("--centroids", command.centroids, scalar, k, points.d(), false);
  Points before;
  if (!command.before.empty()) {
    before = load_centroids("--before", command.before, scalar, k, points.d(), true);
  }
  AnswerFromOutside<T> answer;
  answer.shape = {points.n(), points.d(), k, precision};
  answer.points = points.data<T>();
  answer.initial = initial.data<T>();
  answer.iterations = command.iterations;
  answer.labels = labels.data();
  answer.centroids = centroids.data<T>();
  answer.before = before.empty() ? nullptr : before.data<T>();
  answer.threads = command.threads > 0 ? command.threads : usable_processors();
  const AnswerJudgement judgement = judge_answer(traits_of(command, precision), answer);
  if (command.json) {
    std::printf("%s\n", to_json(judgement, answer.shape, command.iterations).dump(2).c_str());
  } else {
    print(judgement, answer.shape, command.iterations);
  }
  if (judgement.verdict == AnswerVerdict::wrong) return kExitCellsFailed;
  return judgement.verdict == AnswerVerdict::undecided ? kExitUndecided : kExitOk;
}

int check(const CheckCommand& command) {
  std::optional<Precision> precision;
  if (!command.precision.empty()) precision = parse_precision(command.precision);
  std::optional<ScalarType> scalar;
  if (precision) scalar = *precision == Precision::f64 ? ScalarType::f64 : ScalarType::f32;
  const Points points = load(command.points, scalar, true);
  if (!precision) precision = points.scalar() == ScalarType::f64 ? Precision::f64 : Precision::f32;
  return *precision == Precision::f64 ? check_as<double>(command, points, *precision)
                                      : check_as<float>(command, points, *precision);
}

}  // namespace

void add_check_command(CLI::App& app, Action& action) {
  auto command = std::make_shared<CheckCommand>();
  auto* check_command =
      app.add_subcommand("check", "Judge labels and centroids that any program made");
  const auto file = [&](const char* name, std::string& value, const char* text) {
    return check_command->add_option(name, value, text);
  };
  file("--points", command->points, "n x d points, in any format that is read")->required();
  file("--init", command->init, "The k x d centroids that the program began with")->required();
  file("--labels", command->labels, "Its n labels, whole numbers from 0")->required();
  file("--centroids", command->centroids, "Its k x d centroids after T iterations")->required();
  check_command->add_option("-T,--iterations", command->iterations, "Lloyd iterations that it ran")
      ->required()
      ->transform(whole_number(1));
  file("--before", command->before,
       "Its own centroids after T - 1 iterations: certifies the last one, wherever rounding at a "
       "tie "
       "has led before");
  check_command->add_option(
      "--precision", command->precision,
      "Precision of its distances: f64, f32, tf32, f16, bf16; default: as the points");
  const auto choice = [&](const char* name, std::string& value, const char* text,
                          const std::vector<std::string>& choices) {
    check_command->add_option(name, value, text)
        ->check(CLI::IsMember(choices))
        ->capture_default_str();
  };
  choice(
      "--distance", command->distance,
      "How it forms them: as |x|^2 - 2 x.c + |c|^2, or directly; decides which rounding is granted",
      {"expanded", "direct"});
  choice(
      "--labels-of", command->labels_of,
      "Which centroids the labels belong to: those that the last iteration started from, or those "
      "returned, as of scikit-learn",
      {"starting", "returned"});
  choice("--empty-clusters", command->empty_clusters,
         "Whether these keep their centroid or are moved", {"keep", "relocate"});
  check_command->add_option("--threads", command->threads, "CPU threads; default: all usable ones")
      ->transform(whole_number(1, kMaxThreads));
  check_command->add_flag("--json", command->json, "Machine-readable");
  check_command->footer(
      "Example:\n"
      "  kmeans-bench check --points x.npy --init c0.npy --labels labels.npy \\\n"
      "      --centroids c.npy -T 20\n\n"
      "Exit codes: 0 exact, certified or rounded, 4 wrong, 6 undecided (docs/checking.md).");
  check_command->callback([command, &action] { action = [command] { return check(*command); }; });
}

}  // namespace kmeans
