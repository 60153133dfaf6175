// SPDX-License-Identifier: Apache-2.0
//
// Which cells of two results are the same work, and what changed in their answers (docs/comparing.md).
#pragma once

#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/record/result_file.h"

namespace kmeans {

/// A cell on both sides; null where a side has none.
struct MatchedCell {
  const CellResult* base;
  const CellResult* changed;
};

/// Pairs by key; what is left by the contents of the data file; and across hardware by the key
/// without its threads. What finds no partner has a null.
std::vector<MatchedCell> match_cells(const ResultFile& base, const ResultFile& changed,
                                     bool cross_hardware);

/// Names the cell of the other side that differs in one respect alone.
std::string absence(const CellKey& key, const std::vector<MatchedCell>& matches);

/// Why the two are not the same work; empty if they are.
std::string incomparable(const ResultFile& base_file, const CellResult& base,
                         const ResultFile& new_file, const CellResult& changed);

/// Are a cell's times relative to a pace worth something? A GPU has a clock of its own.
bool goes_with_pace(const CellResult& cell);

/// A cell's times as they would be at a pace (harness/machine/pace.h), if the whole of each went with it.
CellResult at_pace(const CellResult& cell, double pace);

/// Does a variant that promises no bits give others in each process, so that those of two runs
/// cannot be compared?
bool bits_vary(const CellResult& base, const CellResult& changed);

/// All but the verdict on its times.
ComparedCell compare_cell(const ResultFile& base_file, const CellResult& base,
                          const CellResult& changed);

/// Traces, studies and fits.
void compare_records(const ResultFile& base, const ResultFile& changed,
                     const CompareSettings& settings, Comparison& comparison);

}  // namespace kmeans
