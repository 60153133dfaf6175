// SPDX-License-Identifier: Apache-2.0
//
// kmeans-bench export: result files in the forms of other programs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// Adds `export`; when it is chosen, `action` becomes what it does.
void add_export_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
