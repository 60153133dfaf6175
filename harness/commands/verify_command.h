// SPDX-License-Identifier: Apache-2.0
//
// `kmeans-bench verify`: every available variant over the battery of awkward problems.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace kmeans {

/// What a process of its own said of a variant that it verified, and may have died of.
struct VerifiedApart {
  enum class End { passed, failed, not_run } end = End::not_run;
  std::string rows;  ///< Lines of the table; of a crash with the problem it came to.
};

/// Verifies one variant by `kmeans-bench verify` with these options, in a process of its own.
VerifiedApart verify_in_process_apart(const std::string& variant,
                                      const std::vector<std::string>& options);

void add_verify_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
