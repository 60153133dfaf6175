// SPDX-License-Identifier: Apache-2.0
//
// Sets that Python has: what scikit-learn makes or holds, and real points in packages.
#pragma once

#include <filesystem>
#include <string>

#include "datasets/dataset.h"
#include "harness/support/errors.h"

namespace kmeans {

/// Python has not the package that a set comes from.
class PackageMissing : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

/// Runs datasets/make_with_scikit_learn.py or datasets/read_from_package.py with the project's Python
/// ($KMEANS_BENCH_PYTHON, else the source tree's .venv, else python3) to write the whole set of the
/// description's generator as float64 npy. Throws EnvironmentError, or PackageMissing,
/// saying what to do when that fails.
void make_with_python(const DatasetSpec& spec, const std::filesystem::path& out);

/// Where a set of a package does not come out as the catalogue says: what to look at. Empty for others.
std::string doubt_about_package(const DatasetSpec& spec);

}  // namespace kmeans
