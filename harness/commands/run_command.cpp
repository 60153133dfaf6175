// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/commands/run_table.h"
#include "harness/commands/surroundings.h"
#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/machine/machine_check.h"
#include "harness/run/coordinator.h"
#include "harness/run/drawn_keys.h"
#include "harness/run/estimate.h"
#include "harness/run/out_folder.h"
#include "harness/run/overrides.h"
#include "harness/run/plan_part.h"
#include "harness/support/atomic_file.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/only.h"
#include "harness/support/option_checks.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"

namespace kmeans {
namespace {

struct RunOptions {
  std::vector<std::string> experiments;
  std::string scale = "quick";
  std::string only;
  std::string shard;
  std::string out;
  std::string turns;  ///< Name of a session of compare --run.
  Overrides overrides;
  bool list = false;
  bool resume = false;
  bool force = false;
  bool dry_run = false;
  bool keep_environment = false;
  bool yes = false;
  bool require_quiet = false;
  CheckOptions check{0.5, {}};
  int threads = 0;
  int processes = 0;
  int repetitions = 0;
  double patience = 0;
  double max_seconds = 0;  ///< 0: as the experiment says.
  std::uint64_t order_seed = 1;
};

struct PlannedExperiment {
  Experiment experiment;
  Plan plan;
};

/// The time that each cell may take. More processes than the experiment has would otherwise be
/// dropped by a budget that was meant for fewer.
void set_budgets(Plan& plan, const Sampling& own, const RunOptions& options) {
  for (auto& cell : plan.cells) {
    Sampling& sampling = cell.sampling;
    if (options.max_seconds > 0) {
      sampling.max_seconds = options.max_seconds;
    } else if (sampling.processes > own.processes) {
      sampling.max_seconds *= static_cast<double>(sampling.processes) / own.processes;
    }
  }
}

/// Read and checked, what is drawn of them too.
std::vector<Experiment> load_all(const std::vector<std::string>& names) {
  std::vector<Experiment> experiments;
  std::vector<const Experiment*> pointers;
  experiments.reserve(names.size());
  for (const auto& name : names) {
    experiments.push_back(load_experiment(name));
    pointers.push_back(&experiments.back());
  }
  const std::string unchecked = check_drawn_keys(pointers);
  if (!unchecked.empty()) {
    warn("published, claims and figures of the experiments are not checked: " + unchecked);
  }
  return experiments;
}

std::vector<PlannedExperiment> plan_all(const RunOptions& options, int threads) {
  PlanOptions plan_options = plan_options_here(threads);
  plan_options.scale = options.scale;
  plan_options.processes = options.processes;
  plan_options.repetitions = options.repetitions;
  plan_options.allow_many = options.yes;
  std::vector<PlannedExperiment> planned;
  for (Experiment& experiment : load_all(options.experiments)) {
    if (options.overrides.any()) experiment = overridden(experiment, options.overrides);
    const auto known = std::find_if(planned.begin(), planned.end(), [&](const auto& other) {
      return other.experiment.name == experiment.name;
    });
    if (known != planned.end()) {
      const JsonDocument& first = known->experiment.document;
      // Both would be written to one result file.
      if (first.text != experiment.document.text) {
        throw InputError("two different experiments are named \"" + experiment.name +
                         "\": " + first.source + " and " + experiment.document.source +
                         "; rename one, or run them with different --out");
      }
      warn("experiment " + experiment.name + " is named twice; it runs once");
      continue;
    }
    Plan plan = plan_experiment(experiment, plan_options);
    set_budgets(plan, experiment.scale(options.scale).sampling, options);
    if (plan.cells.empty() && plan.traces.empty() && plan.studies.empty() && plan.fits.empty()) {
      throw InputError("experiment " + experiment.name + " has nothing to run at scale " +
                       options.scale + ": no variant takes any of its shapes");
    }
    for (const auto& warning : plan.warnings) warn(experiment.name + ": " + warning);
    planned.push_back({std::move(experiment), std::move(plan)});
  }
  return planned;
}

/// Narrows the plans to --only; drops experiments that nothing of is left.
void narrow(std::vector<PlannedExperiment>& planned, const std::string& only) {
  if (only.empty()) return;
  const Pattern expression(only);
  std::vector<PlannedExperiment> kept;
  std::vector<UnitName> left;
  for (auto& one : planned) {
    if (select(one.plan, one.experiment.name, expression) > 0) {
      kept.push_back(std::move(one));
      continue;
    }
    each_unit(one.plan, [&](const auto& unit) {
      left.push_back({one.experiment.name, unit.name()});
    });
  }
  if (kept.empty()) {
    throw InputError(takes_none(only, left) + "\n--dry-run without --only lists all names");
  }
  planned = std::move(kept);
}

/// Leaves the plans of experiments with one part each; drops those that have none.
void deal_out(std::vector<PlannedExperiment>& planned, const std::string& text) {
  if (text.empty()) return;
  const PlanPart part = parse_plan_part(text);
  std::vector<PlannedExperiment> kept;
  for (auto& one : planned) {
    if (keep_part(one.plan, part) > 0) kept.push_back(std::move(one));
  }
  if (kept.empty()) {
    throw InputError("--shard " + text +
                     " is empty: there are fewer problems than parts; ask for " + "fewer parts");
  }
  planned = std::move(kept);
}

int dry_run(const std::vector<PlannedExperiment>& planned, double patience, int threads) {
  std::size_t runs = 0;
  std::size_t skips = 0;
  std::size_t studies = 0;
  double seconds = 0;
  double waiting = 0;
  for (const auto& one : planned) {
    std::printf("%s (%s)\n", one.experiment.name.c_str(), one.plan.scale.c_str());
    each_unit(one.plan, [&](const auto& unit) {
      if (!unit.selected) return;
      const std::string kind =
          unit.kPart == Part::cell ? std::string() : to_string(unit.kPart) + std::string(" ");
      ++(unit.to_run() ? runs : skips);
      std::printf("  %s  %s%s%s%s\n", unit.to_run() ? "run " : "skip", kind.c_str(),
                  unit.name().c_str(), unit.to_run() ? "" : ": ", unit.skip_reason.c_str());
      studies += unit.kPart == Part::study ? 1 : 0;
    });
    for (const auto& cell : one.plan.cells) {
      if (cell.to_run()) waiting += patience * cell.sampling.processes;
    }
    seconds += estimated_seconds(one.plan, threads);
  }
  std::printf("%zu to run, %zu to skip, roughly %s", runs, skips, format_duration(seconds).c_str());
  if (studies > 0) {
    std::printf(" without the %s", counted(studies, "study", "studies").c_str());
  }
  std::printf("; up to half as much again where processes disagree");
  if (patience > 0) {
    std::printf("; on a busy host up to %s more for patience, before further attempts",
                format_duration(waiting).c_str());
  }
  std::printf("\n");
  return kExitOk;
}

void print_summary(const std::vector<std::pair<std::string, RunSummary>>& summaries) {
  std::size_t width = 10;
  for (const auto& [name, summary] : summaries) width = std::max(width, name.size());
  std::printf("%-*s  %5s  %5s  %7s  %5s  %s\n", static_cast<int>(width), "experiment", "ok",
              "wrong", "skipped", "error", "results");
  for (const auto& [name, summary] : summaries) {
    std::printf("%-*s  %5zu  %5zu  %7zu  %5zu  %s%s\n", static_cast<int>(width), name.c_str(),
                summary.ok, summary.wrong, summary.skipped, summary.failed,
                summary.file.string().c_str(),
                summary.complete      ? ""
                : summary.interrupted ? " (incomplete)"
                                      : " (partial: --only or --shard left something out)");
  }
  std::fflush(stdout);
}

/// What the counts of cells that are ok do not show.
void print_doubts(const std::vector<std::pair<std::string, RunSummary>>& summaries) {
  std::size_t unsteady = 0;
  std::size_t noted = 0;
  for (const auto& [name, summary] : summaries) {
    unsteady += summary.unsteady;
    noted += summary.noted;
  }
  std::printf("of the timed cells %zu %s unsteady (no headline number), %zu %s a note\n", unsteady,
              unsteady == 1 ? "is" : "are", noted, noted == 1 ? "has" : "have");
  std::fflush(stdout);
}

/// The results of an experiment must not take the place of its own file or of its points.
void check_results(const std::vector<PlannedExperiment>& planned,
                   const std::filesystem::path& out) {
  for (const auto& one : planned) {
    const Experiment& experiment = one.experiment;
    std::vector<NamedFile> inputs{{"the experiment", experiment.document.source}};
    if (takes_points_from_file(experiment.data)) {
      inputs.push_back({"its points", experiment.data.at("file").get<std::string>()});
    }
    check_outputs({{"the result file", out / (experiment.name + ".json")},
                   {"the journal", out / (experiment.name + ".journal.jsonl")}},
                  inputs);
  }
}

int list_experiments() {
  std::size_t width = 0;
  const auto names = known_experiments();
  for (const auto& name : names) width = std::max(width, name.size());
  for (const auto& name : names) {
    std::printf("%-*s  %s\n", static_cast<int>(width), name.c_str(),
                printable(load_experiment(name).title).c_str());
  }
  return kExitOk;
}

/// The measured cells of an experiment, from its result file. What was measured is safe by then, so
/// nothing that happens here may end the command.
void print_table(const std::string& name, const std::filesystem::path& file) {
  try {
    const std::string table = run_table(read_json_file(file, kNoJsonLimits));
    if (!table.empty()) std::printf("%s\n%s\n", name.c_str(), printable(table).c_str());
  } catch (const std::exception& error) {
    warn("no table of " + name + ": " + error.what());
  }
}

int run(const RunOptions& options) {
  if (options.list) return list_experiments();
  if (options.experiments.empty()) {
    throw InputError("run: name an experiment (`kmeans-bench run --list`), or give its file");
  }
  const int threads = options.threads > 0 ? options.threads : usable_threads();
  auto planned = plan_all(options, threads);
  narrow(planned, options.only);
  deal_out(planned, options.shard);
  if (options.dry_run) return dry_run(planned, options.patience, threads);

  const InterruptGuard guard;
  RunSettings settings;
  settings.out = options.out.empty()
                     ? std::filesystem::path(require_source_root()) / "results" / machine_id()
                     : std::filesystem::path(options.out);
  settings.cache = cache_root();
  settings.command_line = typed_command();
  settings.order_seed = options.order_seed;
  settings.threads = threads;
  settings.resume = options.resume;
  settings.force = options.force;
  settings.keep_environment = options.keep_environment;
  settings.patience = options.patience;
  settings.turns = options.turns;
  if (!settings.turns.empty() && planned.size() != 1) {
    throw InputError("--turns is of one experiment; this names " + std::to_string(planned.size()));
  }
  check_results(planned, settings.out);
  check_writable(settings.out);
  const RunSurroundings surroundings =
      look_around({.check = options.check, .require_quiet = options.require_quiet}, threads);

  std::vector<std::pair<std::string, RunSummary>> summaries;
  bool failed = false;
  for (const auto& one : planned) {
    if (InterruptGuard::interrupted()) break;
    summaries.emplace_back(one.experiment.name,
                           run_experiment(one.experiment, one.plan, surroundings, settings));
    const RunSummary& summary = summaries.back().second;
    failed = failed || summary.wrong > summary.wrong_as_expected || summary.failed > 0;
  }
  if (settings.turns.empty() && !summaries.empty())
    note_last_measured(settings.cache, settings.out);
  if (!settings.turns.empty() && !summaries.empty() && summaries.front().second.interrupted) {
    return kExitInterrupted;
  }
  if (settings.turns.empty()) {
    for (const auto& [name, summary] : summaries) print_table(name, summary.file);
    print_summary(summaries);
    print_doubts(summaries);
  }
  if (InterruptGuard::interrupted()) {
    std::fprintf(stderr, "interrupted; continue with --resume\n");
    return kExitInterrupted;
  }
  return failed ? kExitCellsFailed : kExitOk;
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  auto* command = app.add_subcommand("run", "Measure experiments and write result files");
  command->add_option("experiments", options->experiments,
                      "Names (experiments/NAME.json) or paths of experiment files");
  command->add_flag("--list", options->list, "Show the experiments that come with the suite");
  command->add_option("--scale", options->scale, "quick or paper")
      ->check(CLI::IsMember({"quick", "paper"}))
      ->capture_default_str();
  command->add_option("--only", options->only,
                      "Regular expression, found in a cell's key (variant/precision/data/k/T/"
                      "threads), a trace's, a study's or an experiment's name, or in "
                      "experiment/key");
  command
      ->add_option("--shard", options->shard,
                   "I/N: part I of N, dealt out by problem; `kmeans-bench merge` joins the "
                   "parts")
      ->type_name("I/N");
  Overrides& overrides = options->overrides;
  command
      ->add_option("--add-variant", overrides.add_variants,
                   "Also this variant; results then go to\n<experiment>-changed.json, as with "
                   "--variant, --n, --d and --k")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_plugin_option(*command);
  command->add_option("--variant", overrides.variants, "This variant in place of all others")
      ->delimiter(',')
      ->allow_extra_args(false);
  for (const auto& [axis, values] : {std::pair{"--n", &overrides.n}, std::pair{"--d", &overrides.d},
                                     std::pair{"--k", &overrides.k}}) {
    command
        ->add_option(axis, *values,
                     "Replaces this axis of the sweep; a number or several, comma-separated")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->transform(whole_number(1));
  }
  command->add_option("--out", options->out, "Folder of result files [results/<machine>]");
  command->add_flag("--resume", options->resume,
                    "Continue an interrupted run: finished processes are kept");
  command->add_flag("--force", options->force,
                    "Resume although machine, build or experiment have changed");
  command->add_flag("--dry-run", options->dry_run, "Show what would run and write no results");
  add_device_option(*command);
  command->add_option("--threads", options->threads, "CPU threads of parallel variants [all]")
      ->transform(whole_number(1, kMaxThreads));
  command
      ->add_option("--processes", options->processes,
                   "Worker processes per cell; more than\nthe experiment's raise its time budget "
                   "in proportion")
      ->transform(whole_number(1, 1000));
  command->add_option("--repetitions", options->repetitions, "Timed repetitions per process")
      ->transform(whole_number(1, 10000));
  command
      ->add_option("--patience", options->patience,
                   "Seconds that a process may wait for\nmoments in which nothing slows its cores "
                   "down")
      ->check(number_within(0, 3600))
      ->capture_default_str();
  command
      ->add_option("--max-seconds", options->max_seconds,
                   "Time budget of a cell, over all its processes [the experiment's]")
      ->check(number_within(1e-3, 1e6));
  command->add_option("--order-seed", options->order_seed, "Seed of the order of runs")
      ->transform(whole_number(0, kLargestSeed))
      ->capture_default_str();
  command->add_flag("--keep-environment", options->keep_environment,
                    "Leave variables that cripple libraries as they are");
  command->add_flag("--require-quiet", options->require_quiet,
                    "Refuse (exit status 3) when something spoils measurements now; see "
                    "'machine --check'");
  add_check_options(*command, options->check);
  command->add_option("--turns", options->turns, "Name of a session of compare --run")
      ->group("");  // between two programs, not for people
  command->add_flag("--yes", options->yes,
                    "Run sweeps of more than " + std::to_string(kManyCells) + " cells");
  command->footer(
      "Each cell runs in several worker processes, one at a time, in a seeded random order; every\n"
      "answer is verified. Exit status: 0 all well, 2 bad input, 3 the machine lacks something or\n"
      "is not quiet as required, 4 some cells failed, 5 results could not be written, 130\n"
      "interrupted. More in docs/running.md.");
  command->callback([options, &action] {
    action = [options] {
      std::vector<std::string>& added = options->overrides.add_variants;
      const auto plugins = plugin_names();
      if (options->overrides.variants.empty()) {
        added.insert(added.end(), plugins.begin(), plugins.end());
      }
      return run(*options);
    };
  });
}

}  // namespace kmeans
