// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace kmeans {

/// Runs datasets/make_zhihu2023.py with the project's Python ($KMEANS_BENCH_PYTHON, else the source
/// tree's .venv, else python3) to write the whole set as float64 npy. Throws EnvironmentError
/// saying what to do when that fails.
void make_zhihu2023(const std::filesystem::path& out);

}  // namespace kmeans
