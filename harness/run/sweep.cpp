// SPDX-License-Identifier: Apache-2.0
#include "harness/run/sweep.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "harness/machine/gpu.h"
#include "harness/machine/ranks.h"
#include "harness/record/measures.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_reader.h"
#include "harness/support/only.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"
#include "harness/variants/missing_backend.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// A variant of a `variants` list with everything about it that the shape does not decide.
struct ResolvedVariant {
  std::string name;
  std::string backend;
  const RegisteredVariant* registered = nullptr;  ///< Null: not in this build.
  Precision precision = Precision::f32;
  int threads = 1;
  int ranks = 1;
  int gpus = 1;
  std::optional<double> at_most_nkd;
  bool from_star = false;  ///< Left out, not skipped, where it does not take the shape.
  std::string problem;     ///< Why it cannot run whatever the shape.
};

/// Why so many ranks or GPUs cannot share the work of a variant; empty if they can.
std::string problem_with_sharing(const VariantChoice& choice, const Traits& traits) {
  if (choice.ranks > 1) {
    if (!traits.shards) return "needs all points, so ranks cannot share its work";
    if (traits.gpu) return "is not measured on ranks, only on the GPUs of one process (\"gpus\")";
    if (ranks_library().empty()) return "several ranks need MPI, which this build has not";
  }
  if (choice.gpus == 1) return "";
  if (!traits.many_gpus) return "works on one GPU, so several cannot share its points";
  const std::string problem = problem_with_gpus(choice.gpus);
  return problem.empty() ? "" : std::to_string(choice.gpus) + " GPUs: " + problem;
}

ResolvedVariant resolve(const VariantChoice& choice, const std::string& name, int threads_of_run) {
  // Where nothing else is said, the ranks share the processors that one would have.
  const int threads = std::max(1, threads_of_run / choice.ranks);
  ResolvedVariant result;
  result.ranks = choice.ranks;
  result.gpus = choice.gpus;
  result.name = name;
  result.registered = find_variant(name);
  result.at_most_nkd = choice.at_most_nkd;
  if (result.registered == nullptr) {
    const auto* backend = missing_backend_of(name);
    result.backend = backend != nullptr ? backend->name : name.substr(0, name.find('_'));
    result.problem = "not in this build" + (backend != nullptr ? ": " + backend->reason : "");
    result.precision = choice.precision.value_or(Precision::f32);
    result.threads = choice.threads.value_or(threads);
    return result;
  }
  const Traits& traits = result.registered->traits;
  result.backend = result.registered->backend;
  result.precision = choice.precision.value_or(traits.precisions.front());
  // A single-threaded variant runs on one thread whatever was asked, and the result says so.
  result.threads = traits.parallel ? choice.threads.value_or(threads) : 1;
  if (const Support available = availability(*result.registered); !available.ok) {
    result.problem = available.reason;
  } else {
    result.problem = problem_with_sharing(choice, traits);
  }
  return result;
}

std::vector<ResolvedVariant> resolve_all(const std::vector<VariantChoice>& choices, int threads) {
  std::vector<ResolvedVariant> result;
  for (const auto& choice : choices) {
    if (choice.name != "*") {
      result.push_back(resolve(choice, choice.name, threads));
      continue;
    }
    for (const auto& variant : all_variants()) {
      if (choice.precision && !takes(variant.traits, *choice.precision)) continue;
      result.push_back(resolve(choice, variant.traits.name, threads));
      result.back().from_star = true;
    }
  }
  return result;
}

/// What a reader of its times should know is in them besides; empty where there is nothing to say.
std::string what_is_inside(const Traits& traits) {
  std::string text;
  if (!traits.setup_note.empty()) text = "setup: " + traits.setup_note;
  if (!traits.timing_note.empty()) {
    text += (text.empty() ? "iterations: " : "; iterations: ") + traits.timing_note;
  }
  return text;
}

class Planner {
 public:
  Planner(const Experiment& experiment, const PlanOptions& options)
      : experiment_(experiment), options_(options), scale_(experiment.scale(options.scale)) {}

  Plan plan() {
    plan_.scale = options_.scale;
    plan_.timeout_seconds = scale_.sampling.timeout_seconds;
    plan_.sampling = sampling();
    const auto variants = resolve_all(
        options_.variants.empty() ? scale_.variants : options_.variants, options_.threads);
    const std::size_t count = scale_.shapes.size() * variants.size();
    if (count > kManyCells && !options_.allow_many) {
      throw InputError("experiment " + experiment_.name + " at scale " + options_.scale + " has " +
                       format_count(static_cast<std::int64_t>(count)) + " cells, more than " +
                       format_count(kManyCells) + ", and would take very roughly " +
                       format_duration(rough_seconds_of_all(variants)) +
                       "; narrow the sweep, or say --yes");
    }
    for (const auto& shape : scale_.shapes) {
      const Task task = task_for(experiment_.data, experiment_.init, shape, "/data");
      const std::int64_t iterations = shape.iterations.value_or(scale_.iterations);
      for (const auto& variant : variants) add_cell(variant, task, iterations);
    }
    const auto is_meant = [&](const auto& spec) {
      return std::ranges::count(spec.scales, options_.scale) > 0;
    };
    for (const auto& trace : experiment_.traces) {
      if (is_meant(trace)) add_trace(trace);
    }
    for (const auto& study : experiment_.studies) {
      if (is_meant(study)) add_study(study);
    }
    for (const auto& fit : experiment_.fits) {
      if (is_meant(fit)) add_fit(fit);
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] Sampling sampling() const {
    Sampling result = scale_.sampling;
    if (options_.processes > 0) result.processes = options_.processes;
    if (options_.repetitions > 0) result.repetitions = options_.repetitions;
    return result;
  }

  /// Of every shape with every variant, without a look at which can run.
  [[nodiscard]] double rough_seconds_of_all(const std::vector<ResolvedVariant>& variants) const {
    double seconds = 0;
    for (const auto& shape : scale_.shapes) {
      const Shape sizes{shape.n.value_or(1), shape.d.value_or(1), shape.k, Precision::f32};
      seconds += rough_seconds(sizes, shape.iterations.value_or(scale_.iterations), sampling());
    }
    return seconds * static_cast<double>(variants.size());
  }

  /// The data set of a shape. `pointer` says where its description stands in the file.
  /// Of a trace, a study or a fit, which may have data of its own.
  template <class Spec>
  Task task_of(const Spec& spec, const SweepShape& shape) {
    const bool own_data = spec.data != experiment_.data;
    return task_for(spec.data, spec.init, shape, own_data ? spec.pointer + "/data" : "/data");
  }

  Task task_for(const json& data, const std::string& init, const SweepShape& shape,
                const std::string& pointer) {
    Task task;
    task.init = init;
    json description = data;
    if (shape.n) description["n"] = *shape.n;
    if (shape.d) description["d"] = *shape.d;
    if (description.contains("k") && description["k"] == "sweep") description["k"] = shape.k;
    task.shape.n = shape.n.value_or(0);
    task.shape.d = shape.d.value_or(0);
    task.shape.k = shape.k;
    try {
      task.dataset = read_dataset(JsonReader(description, pointer, &experiment_.document));
    } catch (const InputError&) {
      // Where k exceeds n the cell is skipped anyway; a generator may object to that k first.
      if (shape.n && shape.k > *shape.n) {
        task.label = "n" + std::to_string(*shape.n) + "-d" + std::to_string(shape.d.value_or(0));
        return task;
      }
      throw;
    }
    task.label = task.dataset.label();
    const auto [known, added] = datasets_.emplace(task.label, task.dataset.json);
    if (!added && known->second != task.dataset.json) {
      throw InputError(experiment_.document.where(pointer) + ": two data sets share the label '" +
                       task.label + "': " + to_line(known->second) + " and " +
                       to_line(task.dataset.json));
    }
    if (!shape.n) {
      if (const auto found = sizes_.find(task.label); found != sizes_.end()) {
        std::tie(task.shape.n, task.shape.d) = found->second;
      } else {
        std::tie(task.shape.n, task.shape.d) = options_.size_of_file(task.dataset);
        sizes_[task.label] = {task.shape.n, task.shape.d};
      }
    }
    return task;
  }

  /// Why this variant does not run on this task; empty if it does. `not_taken` separates reasons
  /// that lie in the variant from those that lie in the machine.
  std::string reason_to_skip(const ResolvedVariant& variant, const Task& task,
                             bool& not_taken) const {
    const Shape& shape = task.shape;
    if (shape.k > shape.n) {
      return "n = " + std::to_string(shape.n) +
             " points are fewer than k = " + std::to_string(shape.k) + " clusters";
    }
    if (variant.registered != nullptr) {
      if (const Support support = supports(*variant.registered, shape); !support.ok) {
        not_taken = true;
        return support.reason;
      }
    }
    if (!variant.problem.empty()) return variant.problem;
    const double nkd =
        static_cast<double>(shape.n) * static_cast<double>(shape.k) * static_cast<double>(shape.d);
    if (variant.at_most_nkd && nkd > *variant.at_most_nkd) {
      return "left out by the experiment: n k d = " + formatted("%.3g", nkd) + " is more than " +
             formatted("%.3g", *variant.at_most_nkd);
    }
    const double need = memory_need(*variant.registered, shape, variant.threads);
    if (need > options_.memory_bytes && !task.beyond_memory) {
      return "needs " + format_bytes(need) + " of memory, has " +
             format_bytes(options_.memory_bytes);
    }
    const double device_need = device_memory_need(*variant.registered, shape, variant.gpus);
    if (device_need > 0 && options_.device_memory_bytes &&
        device_need > *options_.device_memory_bytes) {
      return "needs " + format_bytes(device_need) + " of GPU memory, has " +
             format_bytes(*options_.device_memory_bytes);
    }
    return "";
  }

  /// Is this a cell whose points memory does not hold, of a variant that takes them from a file? Ranks
  /// map their parts by themselves, and are not measured so.
  bool streams(const ResolvedVariant& variant, const Task& task) const {
    if (variant.registered == nullptr || !variant.registered->traits.streams) return false;
    if (variant.ranks > 1 || !supports(*variant.registered, task.shape).ok) return false;
    const Shape& shape = task.shape;
    return memory_need(*variant.registered, shape, variant.threads) > options_.memory_bytes &&
           memory_need_beside_points(*variant.registered, shape, variant.threads) <=
               options_.memory_bytes;
  }

  void add_cell(const ResolvedVariant& variant, const Task& task, std::int64_t iterations) {
    Cell cell;
    cell.backend = variant.backend;
    cell.task = task;
    cell.task.shape.precision = variant.precision;
    cell.key = {variant.name,    task.label,    cell.task.shape, iterations,
                variant.threads, variant.ranks, variant.gpus};
    cell.sampling = sampling();
    if (variant.registered != nullptr) {
      const Traits& traits = variant.registered->traits;
      cell.exact = traits.exact;
      cell.deterministic = traits.deterministic;
      cell.skips_work = traits.skips_work;
      cell.gpu = traits.gpu;
      cell.wrong_because = traits.wrong_because;
      cell.includes = what_is_inside(traits);
    }
    bool not_taken = false;
    cell.task.beyond_memory = streams(variant, cell.task);
    cell.skip_reason = reason_to_skip(variant, cell.task, not_taken);
    if (not_taken && variant.from_star) return;
    if (cell.task.beyond_memory && cell.skip_reason.empty() && options_.problem_with_mapping) {
      const Sizes sizes = cell.task.shape;
      cell.skip_reason =
          options_.problem_with_mapping(task.dataset, sizes.n * sizes.d * sizes.scalar);
    }
    const auto [first, added] = keys_.emplace(cell.key.text(), variant.from_star);
    if (!added) {
      // "*" next to a named variant is a wish for all, not a slip.
      if (!variant.from_star && !first->second) {
        plan_.warnings.push_back("cell " + cell.key.text() + " is asked for twice; it runs once");
      }
      return;
    }
    plan_.cells.push_back(std::move(cell));
  }

  void add_trace(const TraceSpec& spec) {
    PlannedTrace trace;
    trace.spec = spec;
    trace.task = task_of(spec, spec.shape);
    const auto variant = resolve(spec.variant, spec.variant.name, options_.threads);
    trace.precision = variant.precision;
    trace.threads = variant.threads;
    trace.task.shape.precision = variant.precision;
    bool not_taken = false;
    trace.skip_reason = reason_to_skip(variant, trace.task, not_taken);
    plan_.traces.push_back(std::move(trace));
  }

  void add_study(const StudySpec& spec) {
    PlannedStudy study;
    study.spec = spec;
    if (spec.shape) {
      study.task = task_of(spec, *spec.shape);
      study.task->shape.precision = Precision::f32;
    }
    plan_.studies.push_back(std::move(study));
  }

  void add_fit(const FitSpec& spec) {
    PlannedFit fit;
    fit.spec = spec;
    fit.task = task_of(spec, spec.shape);
    fit.task.shape.precision = Precision::f32;
    const Shape& shape = fit.task.shape;
    if (shape.k > shape.n) {
      fit.skip_reason = "n = " + std::to_string(shape.n) +
                        " points are fewer than k = " + std::to_string(shape.k) + " clusters";
    }
    if (shape.d % spec.problems != 0) {
      fit.skip_reason = "d = " + std::to_string(shape.d) + " is no multiple of " +
                        std::to_string(spec.problems) + " problems";
    }
    // Each estimator's process has the points, and the suite has them too, while libraries copy them.
    const Sizes sizes = shape;
    const auto copies = 2 * static_cast<double>(spec.estimators.size()) + 3;
    const double need = copies * sizes.n * sizes.d * sizes.scalar;
    if (need > options_.memory_bytes && options_.memory_bytes > 0) {
      fit.skip_reason = "needs about " + format_bytes(need) + " of memory for " +
                        std::to_string(spec.estimators.size()) +
                        " processes that hold the points, " + "has " +
                        format_bytes(options_.memory_bytes);
    }
    plan_.fits.push_back(std::move(fit));
  }

  const Experiment& experiment_;
  const PlanOptions& options_;
  const Scale& scale_;
  Plan plan_;
  std::map<std::string, bool> keys_;  ///< Does the cell come from "*"?
  std::map<std::string, json> datasets_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> sizes_;
};

}  // namespace

ScalarType points_scalar(Precision precision) {
  return precision == Precision::f64 ? ScalarType::f64 : ScalarType::f32;
}

double rough_seconds(const Shape& shape, std::int64_t iterations, const Sampling& sampling) {
  constexpr double kPlainOperationsPerSecond = 2e9;
  constexpr double kProcessSeconds = 0.5;
  const double work =
      operations_zechner(shape) * static_cast<double>(iterations) / kPlainOperationsPerSecond;
  const double repetition = std::max(work, sampling.min_seconds);
  const double wanted = repetition * sampling.repetitions * sampling.processes;
  const double timed = std::max(repetition, std::min(wanted, sampling.max_seconds));
  return timed + sampling.processes * (kProcessSeconds + std::min(work, repetition));
}

std::size_t select(Plan& plan, const std::string& experiment, const Pattern& only) {
  std::size_t count = 0;
  each_unit(plan, [&](auto& unit) {
    unit.selected = takes(only, {experiment, unit.name()});
    count += unit.selected ? 1 : 0;
  });
  return count;
}

Plan plan_experiment(const Experiment& experiment, const PlanOptions& options) {
  return Planner(experiment, options).plan();
}

}  // namespace kmeans
