// SPDX-License-Identifier: Apache-2.0
//
// What `run` says at its end: the measured cells, sorted, and who was how much faster.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kmeans {

/// From a result file. For each shape (data, k, T, precision) its cells by their medians, and one
/// sentence: "A is 2.3 ± 0.1 times faster than B (3 processes with 9 samples on each side)", without
/// an error where only one process measured a side. A cell that is wrong, failed or unsteady has its
/// word in place of a number and no part in a sentence. Cells that were skipped are left out. Of more
/// than `most_rows` cells only the sentences are given.
std::string run_table(const nlohmann::json& result, std::size_t most_rows = 60);

}  // namespace kmeans
