// SPDX-License-Identifier: Apache-2.0
//
// The `fit` command: clusters the user's own file.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

void add_fit_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
