// SPDX-License-Identifier: Apache-2.0
//
// Result files in the forms that other programs read (docs/exports.md). Our own files stay the
// truth: every export leaves something out.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/result_file.h"

namespace kmeans {

enum class ExportFormat {
  google_benchmark,  ///< A row a sample, same-named: Google Benchmark's tools/compare.py.
  csv,               ///< A line a cell, of every status.
  derived,           ///< What plots/ draws besides the results (harness/compare/derived.h).
};

/// "google-benchmark", "csv", "derived".
const std::vector<std::string>& export_format_names();

/// Throws InputError naming the admitted ones.
ExportFormat parse_export_format(const std::string& name);

/// Experiments whose times are those of no commit, and why, in a few words each.
using Unfit = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct Export {
  std::string text;                            ///< The whole file.
  std::size_t cells = 0;                       ///< That are in it.
  std::map<std::string, std::size_t> omitted;  ///< Cells that are not, by status.
  std::size_t unsteady = 0;                    ///< Cells in it without a headline number.
  std::size_t noted = 0;                       ///< Cells in it with a note.
  Unfit not_for_publication;
};

/// Exports the cells whose key or experiment `only` (a regular expression, empty for all) is found
/// in. Throws InputError when nothing is left to export, and, in Google's form, which has one
/// context for all, when two cells would get one name or the results are of several machines.
Export export_results(const std::vector<ResultFile>& results, ExportFormat format,
                      const std::string& only);

/// A field of a CSV file: quoted where it must be, on one line, and never a spreadsheet's formula.
std::string csv_field(std::string_view text);

}  // namespace kmeans
