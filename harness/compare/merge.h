// SPDX-License-Identifier: Apache-2.0
//
// Parts of one experiment, measured on machines of one kind, as one result (docs/running.md).
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/record/result_file.h"

namespace kmeans {

struct Merged {
  nlohmann::json result;              ///< As docs/results.md has it.
  std::vector<std::string> missing;   ///< Names of what no part holds.
  std::vector<std::string> warnings;  ///< Sentences on what makes the parts unlike.
};

/// Joins files that each hold a part of an experiment, in the order of the whole. The result is
/// complete when they hold all of it. Throws InputError, naming the files and every difference,
/// where they do not belong together: another experiment, scale, build, kind of machine, software,
/// environment or sampling, other points under one label, one cell in two of them, a file that is
/// complete or still running.
Merged merge_results(const std::vector<ResultFile>& parts);

}  // namespace kmeans
