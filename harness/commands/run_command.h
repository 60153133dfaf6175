// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// `kmeans-bench run`: measures experiments. Parsing the subcommand sets `action`.
void add_run_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
