// SPDX-License-Identifier: Apache-2.0
//
// How a csv file is to be read: the same options in every command that reads points.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "datasets/points.h"

namespace kmeans {

/// --drop-first, --drop-last, --columns and --header; `csv` must outlive the parsing.
void add_csv_options(CLI::App& command, CsvColumns& csv);

/// The options that say the same, with a blank before each; empty for CsvColumns{}.
std::string csv_arguments(const CsvColumns& csv);

/// On standard error: how a file was understood, and what float32 rounds of it, if anything.
void print_notes(const std::vector<std::string>& notes, const std::string& rounded);

}  // namespace kmeans
