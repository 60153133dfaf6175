// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/record/result_file.h"
#include "harness/run/coordinator.h"
#include "harness/run/out_folder.h"
#include "harness/run/reproduce.h"
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

constexpr std::size_t kNamesShown = 6;

struct ReproduceOptions {
  std::vector<std::string> results;
  std::string only;
  double at_most = 30;
  bool all = false;
  int threads = 0;
  std::string json;
  bool verbose = false;
};

void print_file(const FileReport& report, bool verbose) {
  const ResultFile& file = *report.file;
  std::printf("%s, %s, of %s\n", valid_utf8(file.experiment).c_str(), file.scale.c_str(),
              valid_utf8(file.machine).c_str());
  if (report.surroundings.empty()) {
    std::printf(
        "  the build and machine of the record: deterministic variants promise their bits\n");
  } else if (verbose) {
    for (const auto& difference : report.surroundings) {
      std::printf("  not as on record: %s\n", difference.c_str());
    }
  }
  static const std::vector<std::pair<std::string, std::string>> kParts{{"data", "data sets"},
                                                                       {"cell", "cells"},
                                                                       {"trace", "traces"},
                                                                       {"study", "studies"},
                                                                       {"fit", "fits"}};
  for (const auto& [part, title] : kParts) {
    if (const std::string counts = report.counts(part).text_of_found(); !counts.empty()) {
      std::printf("  %-9s  %s\n", title.c_str(), counts.c_str());
    }
  }
  if (report.without_answer > 0) {
    std::printf("  %-9s  %zu skipped or failed on record, with no answer to repeat\n", "",
                report.without_answer);
  }
  for (const auto& finding : report.findings) {
    const Reproduced verdict = finding.judgement.verdict;
    if (verdict == Reproduced::not_run) continue;  // Listed by reason at the end.
    if (verdict != Reproduced::differs && !verbose) continue;
    std::printf("  %s\n", finding.text().c_str());
  }
  std::fflush(stdout);
}

void print_not_run(const std::vector<FileReport>& reports, double at_most, bool verbose) {
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& report : reports) {
    for (const auto& finding : report.findings) {
      if (finding.judgement.verdict != Reproduced::not_run) continue;
      std::string title = valid_utf8(report.file->experiment) + ": " + finding.title();
      if (finding.estimated_seconds > at_most) {
        title += ", about " + format_duration(finding.estimated_seconds);
      }
      names[finding.judgement.detail].push_back(std::move(title));
    }
  }
  if (names.empty()) return;
  std::printf("\nnot run:\n");
  for (const auto& [reason, which] : names) {
    std::printf("  %zu: %s\n", which.size(), reason.c_str());
    for (std::size_t i = 0; i < which.size(); ++i) {
      if (!verbose && i == kNamesShown && which.size() > kNamesShown + 1) {
        std::printf("      and %zu more (--verbose or --json for all)\n", which.size() - i);
        break;
      }
      std::printf("      %s\n", which[i].c_str());
    }
  }
}

int conclude(const std::vector<FileReport>& reports, const ReproduceOptions& options) {
  VerdictCounts counts;
  std::size_t repeated = 0;  // Data alone are not an answer.
  std::size_t without_answer = 0;
  for (const auto& report : reports) {
    counts.add(report.counts());
    repeated += report.counts().ran() - report.counts("data").ran();
    without_answer += report.without_answer;
  }
  if (InterruptGuard::interrupted()) {
    std::fprintf(stderr, "interrupted\n");
    return kExitInterrupted;
  }
  if (counts.total() == 0) {
    if (without_answer > 0) {
      throw EnvironmentError("nothing to repeat: what was chosen is skipped or failed on record");
    }
    std::vector<UnitName> units;
    for (const auto& report : reports) add_unit_names(*report.file, units);
    throw InputError(options.only.empty() ? "the results hold nothing to repeat"
                                          : takes_none(options.only, units));
  }
  if (options.json != "-") {
    std::printf("\n%s\n", counts.text().c_str());
  }
  if (std::fflush(stdout) != 0) throw OutputError("cannot write to standard output");
  if (counts.of(Reproduced::differs) > 0) return kExitGateFailed;
  if (repeated == 0) throw EnvironmentError("none of the answers could be repeated here");
  return kExitOk;
}

int run_reproduce(const ReproduceOptions& options) {
  const Pattern only(options.only);
  std::vector<ResultFile> files;
  for (const auto& path : options.results) {
    for (auto& file : load_results(path)) files.push_back(std::move(file));
  }
  ReproduceSettings settings;
  settings.cache = cache_root();
  settings.threads = options.threads > 0 ? options.threads : usable_threads();
  settings.at_most_seconds =
      options.all ? std::numeric_limits<double>::infinity() : options.at_most;

  // Before minutes of work, not after.
  const bool json_alone = options.json == "-";
  if (!options.json.empty() && !json_alone) {
    std::vector<NamedFile> inputs;
    for (const auto& file : files) inputs.push_back({"which is repeated", file.path});
    check_outputs({{"--json", options.json}}, inputs);
    const std::filesystem::path out = options.json;
    const bool through = std::filesystem::exists(out) && !std::filesystem::is_regular_file(out);
    if (!through) check_writable(out.has_parent_path() ? out.parent_path() : ".");
  }

  const InterruptGuard guard;
  ProgressLine progress(stderr);
  std::vector<FileReport> reports;
  for (const auto& file : files) {
    if (InterruptGuard::interrupted()) break;
    const auto show = [&](std::size_t done, std::size_t total, const std::string& what,
                          double left) {
      if (done == 0) {
        progress.note("repeating " + valid_utf8(file.experiment) + " of " +
                      valid_utf8(file.machine) + ": " + std::to_string(total) +
                      " answers, very roughly " + format_duration(left));
      }
      if (progress.rewrites()) {
        progress.update(done, total, valid_utf8(file.experiment) + ": " + valid_utf8(what), left);
      }
    };
    reports.push_back(reproduce(file, only, settings, show));
    if (!reports.back().findings.empty() && !json_alone) {
      print_file(reports.back(), options.verbose);
    }
  }
  if (json_alone) {
    std::printf("%s\n", presentable(to_json(reports)).dump(1).c_str());
  } else {
    if (!options.json.empty()) write_json_file(options.json, to_json(reports));
    print_not_run(reports, settings.at_most_seconds, options.verbose);
  }
  return conclude(reports, options);
}

}  // namespace

void add_reproduce_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReproduceOptions>();
  auto* command = app.add_subcommand(
      "reproduce", "Repeat the recorded answers of result files, and say where they differ");
  command->add_option("results", options->results, "Result files, or folders of one machine")
      ->required();
  command->add_option("--only", options->only,
                      "Regular expression, found in a cell's key, a trace's, a study's or an\n"
                      "experiment's name, or in experiment/key");
  command
      ->add_option("--at-most", options->at_most,
                   "Leave out what is estimated to take more seconds than this")
      ->check(positive_number())
      ->capture_default_str();
  command->add_flag("--all", options->all, "Leave out nothing because of its time");
  command->add_option("--threads", options->threads, "CPU threads of parallel variants [all]")
      ->transform(whole_number(1, kMaxThreads));
  command->add_option("--json", options->json,
                      "Also write the report to this file; - prints it instead of the\ntext");
  command->add_flag("--verbose", options->verbose, "Say what became of every answer");
  add_plugin_option(*command);
  add_device_option(*command);
  command->footer(
      "Nothing is timed. Answers of exact variants must be equal bit for bit on every machine;\n"
      "others where build, machine and threads are those of the record, else they are certified.\n"
      "Exit status: 0 nothing differs, 1 something does, 2 bad input, 3 nothing could be run,\n"
      "130 interrupted. More in docs/reproducing.md.");
  command->callback([options, &action] { action = [options] { return run_reproduce(*options); }; });
}

}  // namespace kmeans
