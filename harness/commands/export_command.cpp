// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "harness/compare/export.h"
#include "harness/record/result_file.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

struct ExportOptions {
  std::vector<std::string> results;
  std::string format;
  std::string out = "-";
  std::string only;
};

void write_out(const std::string& out, const std::string& text) {
  if (out != "-") {
    write_file_atomically(out, text);
    return;
  }
  // A reader that has gone is reported by the exit status, not by a signal.
  std::signal(SIGPIPE, SIG_IGN);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) {
    throw OutputError(std::string("cannot write to standard output: ") + std::strerror(errno));
  }
}

/// One line for all files: times that are those of no commit look like any others to their reader.
void warn_of_unfit(const Unfit& unfit) {
  std::string text;
  for (const auto& [experiment, faults] : unfit) {
    text += (text.empty() ? "" : "; ") + experiment + " was ";
    for (const auto& fault : faults) text += (&fault == &faults.front() ? "" : " and ") + fault;
  }
  if (text.empty()) return;
  std::fprintf(stderr, "warning: not for publication: %s\n", printable(text).c_str());
}

int run_export(const ExportOptions& options) {
  const ExportFormat format = parse_export_format(options.format);
  std::vector<ResultFile> results;
  for (const auto& path : options.results) {
    for (auto& file : load_results(path)) results.push_back(std::move(file));
  }
  std::vector<NamedFile> inputs;
  for (const auto& file : results) inputs.push_back({"which is exported", file.path});
  check_outputs({{"--out", options.out}}, inputs);
  const Export exported = export_results(results, format, options.only);
  write_out(options.out, exported.text);

  warn_of_unfit(exported.not_for_publication);
  for (const auto& file : results) {
    if (!file.complete) {
      std::fprintf(stderr, "%s is incomplete: %zu of %lld cells\n", file.path.string().c_str(),
                   file.cells.size(), static_cast<long long>(file.planned_cells));
    }
  }
  std::string text = "exported " + counted(exported.cells, "cell", "cells");
  std::size_t omitted = 0;
  std::string which;
  for (const auto& [status, count] : exported.omitted) {
    omitted += count;
    which += (which.empty() ? "" : ", ") + std::to_string(count) + " " + status;
  }
  if (omitted > 0) text += "; left out " + counted(omitted, "cell", "cells") + ": " + which;
  if (exported.unsteady > 0) {
    text +=
        "; of those exported, " + std::to_string(exported.unsteady) + " unsteady, without a number";
  }
  if (exported.noted > 0) {
    text += "; of those exported, " + std::to_string(exported.noted) + " with a note";
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  return kExitOk;
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportOptions>();
  auto* command = app.add_subcommand("export", "Convert result files for compare.py, spreadsheets");
  command->add_option("results", options->results, "Result files, or folders of one machine")
      ->required();
  command
      ->add_option("--format", options->format,
                   "google-benchmark (its tools/compare.py), csv, or derived (what pages draw)")
      ->required()
      ->check(CLI::IsMember(export_format_names()));
  command->add_option("--out", options->out, "File to write; - for standard output")
      ->capture_default_str();
  command->add_option(
      "--only", options->only,
      "Regular expression, found in a cell's key, an experiment's name or experiment/key");
  command->footer(
      "Cells that are not ok have no time and are left out, and counted on standard error; csv\n"
      "keeps them, with status and reason. docs/exports.md says what each form leaves out.");
  command->callback([options, &action] { action = [options] { return run_export(*options); }; });
}

}  // namespace kmeans
