// SPDX-License-Identifier: Apache-2.0
//
// Which folder of results is of a machine like this one.
#pragma once

#include <filesystem>
#include <string>

namespace kmeans {

/// `results`/ID; where there is none, the first folder in `results` with a result of a machine of that id; where there
/// is none either, results/ID, which does not exist.
std::filesystem::path folder_of_machine(const std::filesystem::path& results,
                                        const std::string& id);

/// Of the machine at work, in the source tree. Throws EnvironmentError where there is no tree.
std::filesystem::path results_of_this_machine();

}  // namespace kmeans
