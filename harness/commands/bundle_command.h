// SPDX-License-Identifier: Apache-2.0
//
// `kmeans-bench bundle` and `check-bundle`: results that are handed over, and what a machine that gets
// them can check (docs/bundles.md).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

void add_bundle_command(CLI::App& app, std::function<int()>& action);
void add_check_bundle_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
