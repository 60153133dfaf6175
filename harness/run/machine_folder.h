// SPDX-License-Identifier: Apache-2.0
//
// Which results are of a machine like this one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/result_file.h"

namespace kmeans {

/// The folder `results`/ID; where there is none, the files of machines of that id in the folder that has most of them.
/// Sorted; empty where there are none.
std::vector<std::filesystem::path> results_of_machine(const std::filesystem::path& results,
                                                      const std::string& id);

/// Of the machine at work, in the source tree. Throws EnvironmentError where there is no tree.
std::vector<std::filesystem::path> results_of_this_machine();
/// All of these. Throws as load_results() does.
std::vector<ResultFile> load_all_results(
    const std::vector<std::filesystem::path>& files_or_folders);

}  // namespace kmeans
