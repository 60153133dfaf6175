// SPDX-License-Identifier: Apache-2.0
//
// `kmeans-bench list`: every variant, whether it can run here, and why not.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>

namespace kmeans {

/// {"variants": [...], "missing_backends": [...]}
nlohmann::json list_variants();

void add_list_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
