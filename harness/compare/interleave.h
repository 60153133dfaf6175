// SPDX-License-Identifier: Apache-2.0
//
// Two programs measured in turns (docs/comparing.md): each is started once, as `run --turns`, plans
// the experiment and holds its own results; which of them runs its next process, of which cell, is
// drawn here. Lines of JSON travel through their standard input and output.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "harness/compare/compare.h"
#include "harness/support/turns.h"

namespace kmeans {

/// The round of the first look, which its cells must have before any is judged; then looks grow
/// rarer, since each is another chance to be wrong.
int next_look(int last = 0);

/// When a cell has been measured enough.
class Looks {
 public:
  /// Takes a look; true when the cell needs no more rounds: it is within the effect, or at two
  /// looks in a row it was surely faster, or surely slower with its whole interval beyond the
  /// effect.
  bool decide(const TimeVerdict& verdict, const CompareSettings& settings);

 private:
  int apart_ = 0;
};

struct InterleaveSettings {
  std::string base_program;
  std::string new_program;
  /// Both or neither: what the same program takes as its plugin on either side (docs/plugins.md). Without
  /// `only`, their variants alone are measured.
  std::string base_plugin{};
  std::string new_plugin{};
  std::string experiment;
  std::string scale = "quick";
  std::string only;
  std::filesystem::path out;  ///< Gets the folders base and new.
  double minutes = 10;
  std::uint64_t order_seed = 1;
  int threads = 0;  ///< 0: as each program finds them.
  bool resume = false;
  CompareSettings compare;
};

/// Measures until every cell is decided or the time is up. An InterruptGuard should live. Throws
/// InputError, EnvironmentError and OutputError; false when interrupted.
bool measure_in_turns(const InterleaveSettings& settings);

}  // namespace kmeans
