// SPDX-License-Identifier: Apache-2.0
//
// `kmeans-bench verify`: every available variant over the battery of awkward problems.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kmeans {

void add_verify_command(CLI::App& app, std::function<int()>& action);

}  // namespace kmeans
