// SPDX-License-Identifier: Apache-2.0
//
// kmeans-bench reproduce: are the answers of a result file the same on this machine?
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// Adds `reproduce`; when it is chosen, `action` becomes what it does.
void add_reproduce_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
