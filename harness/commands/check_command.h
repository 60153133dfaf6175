// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// `check`: judges labels and centroids that were made anywhere.
void add_check_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
