// SPDX-License-Identifier: Apache-2.0
//
// A k-means variant written in Python, behind the same contract as all others: a proxy here, and
// implementations/python/worker.py in a process of its own (docs/python-backend.md).
#pragma once

#include <memory>
#include <string>

#include "harness/variant.h"

namespace kmeans {

/// What runs Python variants, and where they are.
struct PythonLocation {
  std::string interpreter;  ///< Path of the program; empty if there is none.
  std::string worker;       ///< Path of worker.py.
  std::string folder;       ///< Holds the variants' files, python_*.py.
  std::string missing{};    ///< Why there is no interpreter.
  std::string plugin{};     ///< A file to use in place of the folder's: Python, or any program.
};

/// The variant of the file <folder>/<name>.py, or of the plugin. Its process starts in setup() and is killed with the
/// object. All errors are std::runtime_error: an exception in Python with its type, message and
/// line, or how the process died.
template <class T>
std::unique_ptr<Variant<T>> make_python_variant(const PythonLocation& location,
                                                const std::string& name, Precision precision);

}  // namespace kmeans
