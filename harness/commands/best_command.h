// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// `best`: which variant for these points on this machine, within a budget of seconds.
void add_best_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
