// SPDX-License-Identifier: Apache-2.0
//
// What follows from result files, for whoever draws them: no rule of it stands in another language
// (docs/exports.md).
#pragma once

#include <string>
#include <vector>

#include "harness/record/result_file.h"

namespace kmeans {

/// JSON: the files by folder, each with its SHA-256, so that a reader knows whose facts they are, and the fitted
/// models of `advise` of each folder.
std::string derived_facts(std::vector<ResultFile> results);

}  // namespace kmeans
