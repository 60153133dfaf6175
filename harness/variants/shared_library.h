// SPDX-License-Identifier: Apache-2.0
//
// Variants in a shared library that keeps the contract of harness/plugin.h (docs/plugins.md). They run in
// the process that loads them, as compiled ones do.
#pragma once

#include <string>
#include <vector>

#include "harness/variants/registry.h"

namespace kmeans {

/// Does --plugin take the file for a shared library? By its name, *.so.
bool is_shared_library(const std::string& file);

/// The variants of a shared library, which stays loaded. Throws std::runtime_error saying why it is not
/// a plugin of this contract.
std::vector<RegisteredVariant> load_shared_library(const std::string& file);

/// Why the library cannot be loaded; empty if it can. Loaded by another process, which may die of it.
std::string problem_of_loading(const std::string& file);

/// That other process: `kmeans-bench plugin-probe FILE`. Returns its exit code.
int probe_shared_library(const std::string& file);

/// What results say of a library that is loaded: its name, SHA-256 and compiler.
std::vector<std::pair<std::string, std::string>> shared_library_info(const std::string& file);

}  // namespace kmeans
