// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harness/compare/merge.h"
#include "harness/record/result_file.h"
#include "harness/run/out_folder.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr std::size_t kMissingShown = 5;

struct MergeOptions {
  std::vector<std::string> parts;
  std::string out;
};

std::vector<ResultFile> load_parts(const std::vector<std::string>& paths) {
  std::vector<ResultFile> parts;
  std::set<std::filesystem::path> seen;
  for (const auto& path : paths) {
    std::error_code error;
    const auto real = std::filesystem::weakly_canonical(path, error);
    if (!seen.insert(error ? std::filesystem::path(path) : real).second) {
      throw InputError(path + " is named twice; name each part once");
    }
    parts.push_back(load_result_file(path));
  }
  if (parts.size() < 2) {
    throw InputError(
        "merge: there is nothing to join in one file; name all parts of the experiment");
  }
  return parts;
}

int run_merge(const MergeOptions& options) {
  const auto parts = load_parts(options.parts);
  std::filesystem::path out = options.out;
  if (std::filesystem::is_directory(out)) out /= parts.front().experiment + ".json";
  std::vector<NamedFile> inputs;
  for (const auto& part : parts) inputs.push_back({"a part", part.path});
  check_outputs({{"--out", out}}, inputs);

  const Merged merged = merge_results(parts);
  // What is written must be as good as what was read.
  parse_result_file(merged.result.dump(), "the joined result");
  if (std::filesystem::exists(out)) {
    const auto kept = keep_as_earlier(out, merged.result.at("context").at("started"));
    std::fprintf(stderr, "the earlier %s is kept as %s\n", printable(out.string()).c_str(),
                 printable(kept.filename().string()).c_str());
  }
  write_json_file(out, merged.result);
  for (const auto& warning : merged.warnings) {
    std::fprintf(stderr, "warning: %s\n", printable(warning).c_str());
  }
  std::printf("%s: %s of %s from %s\n", printable(out.string()).c_str(),
              counted(merged.result.at("cells").size(), "cell", "cells").c_str(),
              parts.front().experiment.c_str(), counted(parts.size(), "part", "parts").c_str());
  if (merged.missing.empty()) {
    std::printf("complete\n");
    return kExitOk;
  }
  std::printf("partial: %zu of what the experiment has are in no part:\n", merged.missing.size());
  for (std::size_t i = 0; i < merged.missing.size() && i < kMissingShown; ++i) {
    std::printf("  %s\n", printable(merged.missing[i]).c_str());
  }
  if (merged.missing.size() > kMissingShown) std::printf("  ...\n");
  return kExitOk;
}

}  // namespace

void add_merge_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<MergeOptions>();
  auto* command = app.add_subcommand("merge", "Join the parts of an experiment (run --shard)");
  command->add_option("parts", options->parts, "Result files, each of a part of one experiment")
      ->required();
  command->add_option("--out", options->out, "File to write, or a folder for <experiment>.json")
      ->required();
  command->footer(
      "Parts are measured by the same build on machines of one kind (run --shard 1/2, run --shard\n"
      "2/2), and share no cell. What does not belong together is refused, with every difference.\n"
      "An earlier file of that name is renamed. More in docs/running.md.");
  command->callback([options, &action] { action = [options] { return run_merge(*options); }; });
}

}  // namespace kmeans
