// SPDX-License-Identifier: Apache-2.0
//
// Variants from outside of the source tree, --plugin FILE: a shared library that keeps the contract of
// harness/variant.h, a Python file that keeps that of implementations/python/contract.py, or any program
// (docs/plugins.md). The latter two run behind the Python worker.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/support/process.h"

namespace kmeans {

/// RegisteredVariant::backend of all plugins.
inline constexpr const char* kPluginBackend = "plugin";

/// Adds --plugin to a command. It is known to the processes that this one starts.
void add_plugin_option(CLI::App& command);

/// Names of the variants that discover_plugins() found: of a shared library its own, of other files their
/// names without extension, in lower case.
std::vector<std::string> plugin_names();

/// The path of the plugin that has this variant; empty for other variants.
std::string plugin_file(const std::string& name);

/// What a process that needs this variant alone is started with: no other plugin is asked what it is.
EnvironmentChanges environment_of(const std::string& name);

/// What a cell's `library` says of a shared library that is a plugin; empty for other variants, whose own
/// library_info() says it.
std::vector<std::pair<std::string, std::string>> plugin_info(const std::string& name);

/// Who loads a shared library: whoever must survive it lets another process try before.
enum class FirstLoad { by_another_process, here };

/// Each plugin is to say within so many seconds what it is, here and in processes that this one starts;
/// never more than plugin_seconds() unless asked.
void give_plugins(double seconds);
double plugin_seconds();

/// Adds the plugins to the registry, once however often it is called. Throws InputError for a name that
/// a variant has.
void discover_plugins(FirstLoad first = FirstLoad::by_another_process);

}  // namespace kmeans
