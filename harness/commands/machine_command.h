// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// `kmeans-bench machine`: fingerprint, environment and measured ceilings. Parsing the subcommand
/// sets `action`.
void add_machine_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
