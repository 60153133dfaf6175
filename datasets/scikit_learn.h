// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "datasets/dataset.h"

namespace kmeans {

/// Runs datasets/make_with_scikit_learn.py with the project's Python ($KMEANS_BENCH_PYTHON, else the
/// source tree's .venv, else python3) to write the whole set of the description's generator as
/// float64 npy. Throws EnvironmentError saying what to do when that fails.
void make_with_scikit_learn(const DatasetSpec& spec, const std::filesystem::path& out);

}  // namespace kmeans
