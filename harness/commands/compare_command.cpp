// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/compare/interleave.h"
#include "harness/compare/machines.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/number.h"
#include "harness/support/only.h"
#include "harness/support/process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// GitHub refuses a step summary above 1024 KiB.
constexpr int kMarkdownKib = 1000;

struct CompareOptions {
  std::string base;
  std::string changed;
  std::string markdown;
  std::string json_file;
  std::string effect = "5%";
  std::string false_discovery_rate = "5%";
  std::string only;
  std::string undecided;
  int markdown_kib = kMarkdownKib;
  std::string experiment;
  std::vector<std::string> others;  ///< With --machines, beyond the third.
  std::string scale = "quick";
  std::string out = "compared";
  double minutes = 10;
  std::uint64_t order_seed = 1;
  int threads = 0;
  bool run = false;
  bool plugin = false;
  bool machines = false;
  bool same_commit = false;
  bool resume = false;
  bool gate = false;
  bool all = false;
  bool cross_hardware = false;
  bool allow_missing = false;
  bool geometric_mean = false;
  bool steady_clock = false;
};

/// "5%" or "0.05" -> 0.05.
double share(const std::string& option, const std::string& text, double most) {
  const auto percent = text.find('%');
  const bool in_percent = percent != std::string::npos && percent + 1 == text.size();
  std::string digits = in_percent ? text.substr(0, percent) : text;
  if (in_percent && !digits.empty() && digits.back() == ' ') digits.pop_back();
  double value = std::nan("");
  const bool is_number = parse_number(digits, value);
  if (in_percent) value /= 100;
  if (!is_number || !(value > 0) || value > most) {
    throw InputError(option + " " + valid_utf8(text) + ": give a share such as 5% or 0.05, above " +
                     "0 and at most " + std::to_string(static_cast<int>(100 * most)) + "%");
  }
  return value;
}

/// What the user called it; of an absolute path the last parts, since where someone keeps files
/// says nothing about the results.
std::string label_of(const std::string& path, int parts = 1) {
  std::filesystem::path name(path);
  if (!name.has_filename()) name = name.parent_path();
  if (!name.is_absolute()) return valid_utf8(name.string());
  std::filesystem::path last = name.filename();
  for (name = name.parent_path(); parts > 1 && name.has_filename(); --parts) {
    last = name.filename() / last;
    name = name.parent_path();
  }
  return valid_utf8(last.string());
}

/// Labels of both sides, which differ where that takes no more than the folders they lie in.
std::pair<std::string, std::string> labels_of(const std::string& base, const std::string& changed) {
  const int parts = label_of(base) == label_of(changed) ? 2 : 1;
  return {label_of(base, parts), label_of(changed, parts)};
}

int exit_status(GateOutcome outcome, const std::string& undecided) {
  switch (outcome) {
    case GateOutcome::passed: return kExitOk;
    case GateOutcome::failed: return kExitGateFailed;
    case GateOutcome::undecided: break;
  }
  return undecided == "pass" ? kExitOk : undecided == "fail" ? kExitGateFailed : kExitUndecided;
}

/// False when interrupted.
bool measured_in_turns(const CompareOptions& options, const CompareSettings& settings) {
  InterleaveSettings turns;
  if (options.plugin) {
    const std::string here = std::filesystem::read_symlink("/proc/self/exe").string();
    turns.base_program = here;
    turns.new_program = here;
    turns.base_plugin = options.base;
    turns.new_plugin = options.changed;
  } else {
    turns.base_program = options.base;
    turns.new_program = options.changed;
  }
  turns.experiment = options.experiment;
  turns.scale = options.scale;
  turns.only = options.only;
  turns.out = options.out;
  turns.minutes = options.minutes;
  turns.order_seed = options.order_seed;
  turns.threads = options.threads;
  turns.resume = options.resume;
  turns.compare = settings;
  const InterruptGuard guard;
  return measure_in_turns(turns);
}

void refuse_two_outputs(const CompareOptions& options) {
  if (options.markdown != "-" || options.json_file != "-") return;
  throw InputError(
      "--markdown - and --json - would both go to standard output; name a file for "
      "one of them");
}

/// Standard output has the text, or what `-` asked for instead.
void print_outputs(const CompareOptions& options, const nlohmann::json& json,
                   const std::string& markdown, const std::string& text) {
  if (!options.json_file.empty() && options.json_file != "-") {
    write_json_file(options.json_file, json);
  }
  if (!options.markdown.empty() && options.markdown != "-") {
    write_file_atomically(options.markdown, markdown);
  }
  const std::string shown = options.markdown == "-"    ? markdown
                            : options.json_file == "-" ? presentable(json).dump(1) + "\n"
                                                       : text;
  std::fputs(shown.c_str(), stdout);
}

/// Labels of several results: as short as they can be and still differ.
std::vector<std::string> labels_of(const std::vector<std::string>& places) {
  std::vector<std::string> labels;
  for (int parts = 1; parts <= 3; ++parts) {
    labels.clear();
    for (const auto& place : places) labels.push_back(label_of(place, parts));
    if (std::set<std::string>(labels.begin(), labels.end()).size() == labels.size()) break;
  }
  return labels;
}

int compare_machine_results(const CompareOptions& options) {
  if (options.run || options.gate || !options.undecided.empty() || options.steady_clock ||
      options.allow_missing || options.geometric_mean) {
    throw InputError(
        "--machines compares machines, not builds: it has no --run, --gate, --undecided, "
        "--steady-clock, --allow-missing and --geometric-mean");
  }
  std::vector<std::string> places{options.base, options.changed};
  if (!options.experiment.empty()) places.push_back(options.experiment);
  places.insert(places.end(), options.others.begin(), options.others.end());
  refuse_two_outputs(options);
  MachinesSettings settings;
  settings.effect = share("--effect", options.effect, 10);
  settings.same_commit = options.same_commit;
  if (!options.only.empty()) settings.only = Pattern(options.only);
  const auto labels = labels_of(places);
  std::vector<MachineResults> machines;
  std::vector<NamedFile> inputs;
  for (std::size_t i = 0; i < places.size(); ++i) {
    machines.push_back({labels[i], load_results(places[i])});
    for (const auto& file : machines.back().files) {
      inputs.push_back({"which is compared", file.path});
    }
  }
  check_outputs({{"--json", options.json_file}, {"--markdown", options.markdown}}, inputs);
  const auto pairs = compare_machines(machines, settings);
  print_outputs(options, machines_to_json(pairs, settings),
                machines_to_markdown(pairs, options.all), machines_to_text(pairs, options.all));
  const bool agree = std::all_of(pairs.begin(), pairs.end(), [](const MachinePair& pair) {
    return pair.disagreements.empty();
  });
  return agree ? kExitOk : kExitCellsFailed;
}

int compare_files(const CompareOptions& options) {
  if (options.plugin && !options.run) {
    throw InputError(
        "--plugin compares two plugins in turns: compare --run --plugin OLD NEW EXPERIMENT");
  }
  if (options.machines) return compare_machine_results(options);
  if (options.same_commit || !options.others.empty()) {
    throw InputError(options.same_commit ? "--same-commit is for compare --machines"
                                         : "more than two results are for compare --machines");
  }
  if (options.run == options.experiment.empty()) {
    throw InputError(options.run
                         ? "--run needs two programs and an experiment: compare --run OLD NEW "
                           "EXPERIMENT"
                         : "compare takes two results; an experiment is for compare --run");
  }
  refuse_two_outputs(options);
  CompareSettings settings;
  settings.effect = share("--effect", options.effect, 10);
  settings.false_discovery_rate = share("--fdr", options.false_discovery_rate, 0.5);
  settings.cross_hardware = options.cross_hardware;
  settings.allow_missing = options.allow_missing;
  settings.geometric_mean = options.geometric_mean;
  settings.steady_clock = options.steady_clock;
  if (!options.only.empty()) settings.only = Pattern(options.only);
  std::string base_place = options.base;
  std::string new_place = options.changed;
  if (options.run) {
    if (!measured_in_turns(options, settings)) {
      std::fprintf(stderr, "interrupted; continue with --resume\n");
      return kExitInterrupted;
    }
    base_place = (std::filesystem::path(options.out) / "base").string();
    new_place = (std::filesystem::path(options.out) / "new").string();
    // What both were asked to leave out is in neither.
    settings.only.reset();
  }
  const auto base = load_results(base_place);
  const auto changed = load_results(new_place);
  std::vector<NamedFile> inputs;
  for (const auto& file : base) inputs.push_back({"which is compared", file.path});
  for (const auto& file : changed) inputs.push_back({"which is compared", file.path});
  check_outputs({{"--json", options.json_file}, {"--markdown", options.markdown}}, inputs);
  const auto [base_label, new_label] = labels_of(base_place, new_place);
  const Comparison comparison = compare_results(base, base_label, changed, new_label, settings);
  if (comparison.cells.empty() && comparison.records.empty() && comparison.missing.empty() &&
      comparison.added.empty()) {
    std::vector<UnitName> units;
    for (const auto& file : base) add_unit_names(file, units);
    throw InputError(takes_none(options.only, units));
  }
  std::string markdown;
  if (!options.markdown.empty()) {
    const std::string whole = options.json_file.empty() || options.json_file == "-"
                                  ? "kmeans-bench compare with --json or --all"
                                  : label_of(options.json_file);
    markdown = to_markdown(comparison, options.all,
                           static_cast<std::size_t>(options.markdown_kib) * 1024, whole);
  }
  print_outputs(options, to_json(comparison), markdown, to_text(comparison, options.all));
  return options.gate ? exit_status(comparison.gate.outcome, options.undecided) : kExitOk;
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<CompareOptions>();
  auto* command = app.add_subcommand(
      "compare", "Compare results cell by cell: slower, faster, same or unclear; wrong answers");
  command
      ->add_option("base", options->base,
                   "Result file, or folder results/<machine>; with --run a program, or a\nplugin")
      ->required();
  command->add_option("new", options->changed, "The same, of what is to be judged")->required();
  command->add_option("experiment", options->experiment,
                      "With --run: what both are to run; with --machines a third result");
  command->add_option("others", options->others, "With --machines: further results");
  command->add_flag("--machines", options->machines,
                    "The results are of different machines: which is faster, by how much, at which "
                    "shape;\nothers against the first. Exit 4 when answers of exact variants "
                    "disagree");
  command->add_flag("--same-commit", options->same_commit,
                    "With --machines: refuse results of different commits");
  command->add_flag("--run", options->run,
                    "base and new are two builds of kmeans-bench: measure them in\nturns, process "
                    "by process, until every cell is decided");
  command->add_flag("--plugin", options->plugin,
                    "With --run: base and new are two plugins for this program\n(docs/plugins.md); "
                    "without --only, their variants alone are measured");
  command->add_option("--minutes", options->minutes, "With --run: time limit")
      ->check(CLI::Range(0.01, 10000.0))
      ->capture_default_str();
  command->add_option("--out", options->out, "With --run: folder for the results, base and new")
      ->capture_default_str();
  command->add_option("--scale", options->scale, "With --run: quick or paper")
      ->check(CLI::IsMember({"quick", "paper"}))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "With --run: CPU threads of parallel variants")
      ->check(CLI::Range(1, 4096));
  command->add_option("--order-seed", options->order_seed, "With --run: seed of the order of turns")
      ->capture_default_str();
  command->add_flag("--resume", options->resume, "With --run: continue from --out");
  command->add_option("--markdown", options->markdown,
                      "Also write Markdown to this file; - prints it instead of the text");
  command->add_option("--markdown-limit", options->markdown_kib, "Limit of its size, in KiB")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command->add_option("--json", options->json_file,
                      "Also write everything to this file; - prints it instead of the text");
  command->add_flag("--gate", options->gate,
                    "Exit 1 when something is slower, an answer broken or a cell missing, 6 when "
                    "that\nis undecided");
  command
      ->add_option("--undecided", options->undecided,
                   "pass or fail: exit 0 or 1 instead of 6 under --gate")
      ->check(CLI::IsMember({"pass", "fail"}));
  command->add_option("--effect", options->effect, "Differences up to this do not matter")
      ->capture_default_str();
  command
      ->add_option("--fdr", options->false_discovery_rate,
                   "Share of false alarms among the findings, on average")
      ->capture_default_str();
  command->add_flag("--steady-clock", options->steady_clock,
                    "Times relative to a fixed computation next to them: a clock that changed in "
                    "between is not a difference");
  command->add_flag("--cross-hardware", options->cross_hardware,
                    "Allow other hardware; parallel cells then match without their threads");
  command->add_flag("--allow-missing", options->allow_missing,
                    "Cells missing in new, and incomplete files, pass the gate");
  command->add_option(
      "--only", options->only,
      "Regular expression: cells in whose key, experiment's name or experiment/key it is found");
  command->add_flag("--all", options->all, "Show the cells that are the same, too");
  command->add_flag("--geometric-mean", options->geometric_mean,
                    "Also the geometric mean of all ratios");
  command->footer(
      "Exit codes: 0 compared; 1 and 6 with --gate: failed, undecided; 2 bad input or other "
      "hardware;\n4 with --machines: answers of exact variants disagree; 5 an output cannot be "
      "written.");
  command->callback([options, &action] { action = [options] { return compare_files(*options); }; });
}

}  // namespace kmeans
