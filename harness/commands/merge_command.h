// SPDX-License-Identifier: Apache-2.0
//
// kmeans-bench merge: the parts of one experiment as one result file.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

/// Adds `merge`; when it is chosen, `action` becomes what it does.
void add_merge_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
