// SPDX-License-Identifier: Apache-2.0
//
// The folder that results are written to.
#pragma once

#include <filesystem>
#include <string>

namespace kmeans {

/// Creates the folder and tries it. Throws OutputError.
void check_writable(const std::filesystem::path& folder);

/// Removes what processes that were killed left half written: NAME.tmp-PID, with -COUNT or without,
/// and .writable-PID.
void remove_abandoned_files(const std::filesystem::path& folder);

/// Keeps the folder's place as `last-measured` in the data cache, for results/index.html to open
/// there. What was measured does not depend on it, so a failure is no error.
void note_last_measured(const std::filesystem::path& cache, const std::filesystem::path& folder);

/// Is this an experiment, next to which its result is asked for?
bool is_experiment(const std::filesystem::path& file);

/// Gives an earlier result file another name, which no reader takes for a result: NAME.before-STAMP.
/// Returns it. Throws OutputError.
std::filesystem::path keep_as_earlier(const std::filesystem::path& file, std::string stamp);

}  // namespace kmeans
