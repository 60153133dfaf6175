// SPDX-License-Identifier: Apache-2.0
//
// The program's commands. Each adds itself; when it is chosen, `action` becomes what it does, and
// returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace kmeans {

using Action = std::function<int()>;

/// What each variant would take at a shape, from the results on file; nothing is run.
void add_advise_command(CLI::App& app, Action& action);
/// Which variant for these points on this machine, within a budget of seconds.
void add_best_command(CLI::App& app, Action& action);
/// Results that are handed over (docs/bundles.md), and what a machine that gets them can check.
void add_bundle_command(CLI::App& app, Action& action);
void add_check_bundle_command(CLI::App& app, Action& action);
/// Judges labels and centroids that were made anywhere.
void add_check_command(CLI::App& app, Action& action);
/// Two sets of results: what is faster, what slower, and what is wrong.
void add_compare_command(CLI::App& app, Action& action);
/// Generates data sets, looks into files, verifies the catalogue.
void add_data_command(CLI::App& app, Action& action);
/// Result files in the forms of other programs.
void add_export_command(CLI::App& app, Action& action);
/// Clusters the user's own file.
void add_fit_command(CLI::App& app, Action& action);
/// Every variant, whether it can run here, and why not.
void add_list_command(CLI::App& app, Action& action);
/// Fingerprint, environment and measured ceilings.
void add_machine_command(CLI::App& app, Action& action);
/// The parts of one experiment as one result file.
void add_merge_command(CLI::App& app, Action& action);
/// Are the answers of a result file the same on this machine?
void add_reproduce_command(CLI::App& app, Action& action);
/// Measures experiments.
void add_run_command(CLI::App& app, Action& action);
/// Every available variant over the battery of awkward problems.
void add_verify_command(CLI::App& app, Action& action);

/// What a process of its own said of a variant that it verified, and may have died of.
struct VerifiedApart {
  enum class End { passed, failed, not_run } end = End::not_run;
  std::string rows;  ///< Lines of the table; of a crash with the problem it came to.
};

/// Verifies one variant by `kmeans-bench verify` with these options, in a process of its own.
VerifiedApart verify_in_process_apart(const std::string& variant,
                                      const std::vector<std::string>& options);

}  // namespace kmeans
