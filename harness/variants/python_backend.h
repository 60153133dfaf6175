// SPDX-License-Identifier: Apache-2.0
//
// The Python backend of the registry: its variants are found when the program runs, not when it is
// built, so that they need no compiler and their libraries may be missing.
#pragma once

#include <string>
#include <vector>

#include "harness/variants/python_variant.h"
#include "harness/variants/registry.h"

namespace kmeans {

/// $KMEANS_BENCH_PYTHON, else the virtual environment .venv of the source tree, else python3 on
/// $PATH; with the variants of implementations/python.
PythonLocation find_python();

/// The variants of a location's folder, those that cannot run here with the reason. Asks the
/// interpreter, which imports no library for it. Never throws: where the answer is of no use, the
/// variants are listed by their files' names.
std::vector<RegisteredVariant> describe_python_variants(const PythonLocation& location);

/// The variant of the location's plugin, under this name; where it cannot run, with the reason. Never
/// throws.
RegisteredVariant describe_plugin(const PythonLocation& location, const std::string& name);

/// Adds the Python variants to the registry, once however often it is called. Never throws.
void discover_python_variants();

/// The variant of that name, for a worker. Python is asked only where no compiled variant has the
/// name: an interpreter's start takes longer than many a cell. Throws InputError.
const RegisteredVariant& require_variant_of_worker(const std::string& name);

}  // namespace kmeans
