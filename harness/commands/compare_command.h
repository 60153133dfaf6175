// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// Adds `compare`; when it is chosen, `action` becomes what it does.
void add_compare_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
