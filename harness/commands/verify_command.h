// SPDX-License-Identifier: Apache-2.0
//
// `kmeans-bench verify`: every available variant over the battery of awkward problems.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace kmeans {

/// A plugin that takes longer for one problem of the battery hangs: the reference takes well under a
/// second, a program on a busy machine a few.
inline constexpr double kSecondsOfProblem = 60;

/// What a process of its own said of a variant that it verified, and may have died of.
struct VerifiedApart {
  enum class End { passed, failed, not_run } end = End::not_run;
  std::string rows;  ///< Lines of the table; of a crash or a hang with the problem it came to.
};

/// Verifies one variant by `kmeans-bench verify` with these options, in a process of its own, which is
/// ended when a problem takes longer than the limit. Throws UserError when interrupted.
VerifiedApart verify_in_process_apart(const std::string& variant,
                                      const std::vector<std::string>& options,
                                      double seconds_of_problem = kSecondsOfProblem);

/// The first line of the table whose rows those are.
std::string verify_header();

void add_verify_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
