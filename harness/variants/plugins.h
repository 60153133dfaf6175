// SPDX-License-Identifier: Apache-2.0
//
// Variants from outside of the source tree, --plugin FILE: a Python file that keeps the contract of
// implementations/python/contract.py, or any program (docs/plugins.md). Both run behind the Python worker.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kmeans {

/// RegisteredVariant::backend of all plugins.
inline constexpr const char* kPluginBackend = "plugin";

/// Adds --plugin to a command. It is known to the processes that this one starts.
void add_plugin_option(CLI::App& command);

/// Names of the variants that were given as plugins: their files' without extension, in lower case.
std::vector<std::string> plugin_names();

/// The plugin's path; empty for other variants.
std::string plugin_file(const std::string& name);

/// Adds the plugins to the registry, once however often it is called. Throws InputError for a name that
/// a variant has.
void discover_plugins();

}  // namespace kmeans
