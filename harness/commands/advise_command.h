// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// `advise`: what each variant would take at a shape, from the results on file; nothing is run.
void add_advise_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
