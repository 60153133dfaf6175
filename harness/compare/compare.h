// SPDX-License-Identifier: Apache-2.0
//
// One set of results against another, cell by cell (docs/comparing.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/result_file.h"
#include "harness/support/pattern.h"

namespace kmeans {

/// A difference without a test, too: by so many times between all samples of the two sides. From
/// this factor on, a single cell's own samples are called too widely spread (harness/run/results.cpp).
constexpr double kClearGap = 1.5;

/// What counts as a difference.
struct CompareSettings {
  double effect = 0.05;                ///< Smaller relative differences do not matter.
  double confidence = 0.95;            ///< Of the interval of a ratio.
  double false_discovery_rate = 0.05;  ///< Of the corrected test, over all cells.
  bool steady_clock = false;           ///< Times relative to the pace next to them.
  bool cross_hardware = false;         ///< Other hardware is allowed.
  bool allow_missing = false;          ///< Missing cells do not fail the gate.
  bool geometric_mean = false;         ///< Also summarise all ratios in one.
  std::optional<Pattern> only;         ///< Cells that it takes (support/only.h).
};

enum class CellVerdict { slower, faster, unclear, same, untimed };
const char* to_string(CellVerdict verdict);

/// Of the gate, and of each cell with times under it.
enum class GateOutcome { passed, failed, undecided };
const char* to_string(GateOutcome outcome);

/// Samples of one cell on both sides, by process; in the same unit, positive.
struct TimePair {
  std::vector<std::vector<double>> base;
  std::vector<std::vector<double>> changed;
  /// Process i of the one ran next to process i of the other, in random order.
  bool in_turns = false;
};

/// What each process of a side counts by: the median of its repetitions; in turns, which are meant
/// for machines with neighbours, the fastest, since neighbours only ever slow down.
std::vector<double> process_times(const std::vector<std::vector<double>>& samples, bool in_turns);

struct TimeVerdict {
  CellVerdict verdict = CellVerdict::unclear;
  std::string why;
  double ratio = 1;  ///< Median of the processes, new over base; in turns by the pairs.
  std::optional<double> low;
  std::optional<double> high;  ///< Of the interval; absent with too few processes.
  double p = 1;                ///< By the processes: docs/comparing.md, Statistics.
  /// After correction; absent where p could not have been small enough, whatever was measured.
  std::optional<double> p_adjusted;
  /// From which share on this cell alone would have been called slower; absent where nothing would
  /// have been enough.
  std::optional<double> sees;
  bool clearly_slower = false;  ///< So far that no spread of the processes is an excuse.
};

/// The cells of a variant, or all, as one.
struct GroupVerdict {
  std::string variant;  ///< Empty: all cells.
  std::size_t cells = 0;
  CellVerdict verdict = CellVerdict::unclear;
  double ratio = 1;
  std::optional<double> low;
  std::optional<double> high;
  double p = 1;
  double p_adjusted = 1;
  std::optional<double> sees;  ///< As in a cell, for a slowdown that all of them share.
  bool doubtful = false;       ///< The verdict rests on cells that are in doubt.
};

/// Judges all cells of a comparison together: the correction needs all of them.
std::vector<TimeVerdict> judge_times(const std::vector<TimePair>& pairs,
                                     const CompareSettings& settings);

/// A cell on one side.
struct ComparedSide {
  std::string status;
  std::string reason;
  std::optional<double> seconds;  ///< Median per iteration.
  std::optional<double> low;
  std::optional<double> high;  ///< Its 95 % interval, as the result file has it.
  std::size_t processes = 0;
  std::size_t samples = 0;
  std::vector<std::string> unsteady;  ///< Why its processes disagree.
  std::vector<std::string> noted;     ///< Conditions to be known.
};

struct ComparedCell {
  std::string experiment;
  CellKey key;  ///< In base.
  CellKey new_key;
  std::string backend;
  ComparedSide base;
  ComparedSide changed;
  std::optional<TimeVerdict> times;  ///< Where both sides have them.
  CellVerdict verdict = CellVerdict::untimed;
  std::string why;
  std::vector<std::string> correctness;  ///< What changed besides the time.
  bool correctness_regression = false;
  bool lost = false;          ///< Measured in base, skipped in new.
  bool still_broken = false;  ///< Wrong or failed on both sides, and not known to be.

  std::optional<GateOutcome> outcome;  ///< Where both sides have times.
  std::string outcome_why;             ///< Where the verdict alone does not say it.

  [[nodiscard]] bool unsteady() const {
    return !base.unsteady.empty() || !changed.unsteady.empty();
  }
  [[nodiscard]] bool noted() const { return !base.noted.empty() || !changed.noted.empty(); }
};

/// A trace or a study on both sides; only those that changed.
struct ComparedRecord {
  std::string experiment;
  std::string kind;  ///< "trace" or "study"
  std::string name;
  std::vector<std::string> correctness;
  bool correctness_regression = false;
  bool lost = false;  ///< Ran in base, skipped in new.
};

struct MissingCell {
  std::string experiment;
  std::string key;
  std::string reason;
  bool record = false;  ///< A trace or a study, named by `key`.
};

struct GateResult {
  GateOutcome outcome = GateOutcome::passed;
  std::vector<std::string> reasons;    ///< Why it failed.
  std::vector<std::string> undecided;  ///< What could not be decided.
  std::vector<std::string> notes;
};

struct Comparison {
  CompareSettings settings;
  nlohmann::json base;  ///< As in the JSON of a comparison.
  nlohmann::json changed;
  std::vector<std::string> differences;
  std::vector<ComparedCell> cells;   ///< Worst first.
  std::vector<GroupVerdict> groups;  ///< By variant; all cells last.
  bool interleaved = false;          ///< The two took turns, process by process.
  std::vector<ComparedRecord> records;
  std::vector<MissingCell> missing;
  std::vector<MissingCell> added;
  std::optional<double> geometric_mean_ratio;
  std::size_t timed = 0;      ///< Cells with times on both sides.
  std::size_t bits_vary = 0;  ///< Cells whose bits are not compared, as they vary within a side.
  GateResult gate;

  [[nodiscard]] std::size_t count(CellVerdict verdict) const;
  [[nodiscard]] std::size_t correctness_regressions() const;
};

/// Compares what both hold. `base_label` and `new_label` are what the user called them. Throws
/// InputError when nothing is in both, and when the hardware differs without `cross_hardware`.
Comparison compare_results(const std::vector<ResultFile>& base, const std::string& base_label,
                           const std::vector<ResultFile>& changed, const std::string& new_label,
                           const CompareSettings& settings);

/// Sentences on what differs in hardware between the machines of two contexts; empty: the same.
std::vector<std::string> hardware_differences(const nlohmann::json& base,
                                              const nlohmann::json& changed);

/// What this pair of results could have seen: "A slowdown is seen from 22 % on in ...".
std::string sees_line(const Comparison& comparison);

/// docs/comparing.md has its fields.
nlohmann::json to_json(const Comparison& comparison);

/// For a terminal. `all`: also the cells that are the same.
std::string to_text(const Comparison& comparison, bool all);

/// GitHub-flavoured, at most `limit` bytes: cut between rows, with a line that says how many are
/// missing and that `whole` has them.
std::string to_markdown(const Comparison& comparison, bool all, std::size_t limit,
                        const std::string& whole);

/// Text from outside as it may stand in a Markdown table: no markup, mention, link or formula.
std::string markdown_escaped(std::string_view text);

}  // namespace kmeans
