// SPDX-License-Identifier: Apache-2.0
//
// Result files as the commands that only read them see them (compare, export, reproduce): checked
// once, then typed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/answers.h"
#include "harness/record/cell_key.h"
#include "harness/support/only.h"

namespace kmeans {

/// One configuration as a result file has it (docs/results.md). Times in seconds per iteration.
struct CellResult : Answer {
  CellKey key;
  std::string backend;
  std::string init;
  bool exact = false;
  std::string status;                        ///< "ok", "wrong", "skipped" or "error"
  std::string reason;                        ///< Empty for "ok".
  std::vector<std::vector<double>> samples;  ///< By process; empty unless "ok".
  /// Seconds of the fixed computation next to each process (harness/machine/pace.h); empty unless known for
  /// all of them.
  std::vector<double> paces;
  std::optional<double> median;
  std::optional<double> gflops;
  std::optional<double> compulsory_gbytes_per_second;
  std::optional<std::string> wrong_because;  ///< A variant that is kept although it is wrong.
  std::vector<std::string> unsteady;         ///< Not empty: it has no headline number.
  std::vector<std::string> noted;
  nlohmann::json data;  ///< The whole cell.
};

/// What a whole experiment has, in its order, by name.
struct PlannedNames {
  std::vector<std::string> cells;
  std::vector<std::string> traces;
  std::vector<std::string> studies;
  std::vector<std::string> fits;

  bool operator==(const PlannedNames& other) const = default;
};

/// One experiment on one machine.
struct ResultFile {
  std::filesystem::path path;
  std::string experiment;
  std::string scale;
  bool complete = false;
  std::int64_t planned_cells = 0;
  std::optional<PlannedNames> planned;  ///< Of a file that is not complete; older ones lack it.
  std::string machine;                  ///< context.machine.id
  nlohmann::json context;
  nlohmann::json spec;
  std::vector<CellResult> cells;
  nlohmann::json traces;   ///< Array.
  nlohmann::json studies;  ///< Array; empty for files written before there were any.
  nlohmann::json fits;     ///< The same.
};

/// Checks everything that the members above hold, and the rules of docs/results.md (keys unique,
/// times for "ok" alone, finite and positive). Throws InputError with "source:line:column: reason".
/// Another schema version is refused, with both numbers.
ResultFile parse_result_file(std::string text, const std::string& source);

/// The same from a regular file.
ResultFile load_result_file(const std::filesystem::path& file);

/// A result file, or those of a folder results/<machine>, by name. Throws InputError also where a
/// folder holds none, or two of one experiment and scale.
std::vector<ResultFile> load_results(const std::filesystem::path& file_or_folder);

/// Adds cells, traces, studies and fits, as --only chooses among them.
void add_unit_names(const ResultFile& file, std::vector<UnitName>& units);

}  // namespace kmeans
