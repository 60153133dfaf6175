// SPDX-License-Identifier: Apache-2.0
//
// kmeans-bench data: generates data sets, looks into files, verifies the catalogue.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// Adds the subcommand `data`. When it was on the command line, `action` does the work and returns
/// the exit code.
void add_data_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
