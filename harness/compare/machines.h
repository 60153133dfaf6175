// SPDX-License-Identifier: Apache-2.0
//
// The same cells on several machines: which is faster, by how much, at which shape
// (docs/comparing.md, Machines). Builds are not judged here: no gate, nothing is missing or lost.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/limit.h"
#include "harness/record/result_file.h"
#include "harness/support/pattern.h"

namespace kmeans {

struct MachinesSettings {
  double effect = 0.05;         ///< Smaller relative differences count as equal.
  double confidence = 0.95;     ///< Of an interval, where there are enough processes for it.
  bool same_commit = false;     ///< Other commits are refused.
  std::optional<Pattern> only;  ///< Cells whose key or experiment it is found in.
};

/// What an iteration takes its time for, by the limits of both machines (docs/comparing.md).
enum class WorkKind { memory, cache, products, launches, streaming, several, other };
const char* to_string(WorkKind kind);
/// "where points are read from memory"
const char* place_of(WorkKind kind);

/// Of the second machine against the first.
enum class MachineVerdict { faster, slower, equal, mixed, undecided };
const char* to_string(MachineVerdict verdict);

/// Seconds on the first machine over seconds on the second: above 1 the second is faster.
struct SpeedRatio {
  double ratio = 1;
  std::optional<double> low;
  std::optional<double> high;  ///< Absent with fewer than three processes on a side.
  double confidence = 0;       ///< Of the interval; 0 where there is none.
};

struct MachineCell {
  std::string experiment;
  CellKey key;  ///< On the first machine; on the second the threads may differ.
  int other_threads = 1;
  std::string backend;
  bool exact = false;
  bool on_gpu = false;
  int gpus = 1;
  bool unsteady = false;  ///< Its processes disagree on one machine or both.
  /// Commits differ, and so does the work that the files have for it: another program.
  bool changed = false;
  WorkKind kind = WorkKind::other;
  std::pair<double, double> seconds;  ///< Medians per iteration.
  std::pair<std::size_t, std::size_t> processes;
  std::pair<std::optional<Limit>, std::optional<Limit>> limits;
  SpeedRatio speed;
  MachineVerdict verdict = MachineVerdict::undecided;
  /// The fastest one that both machines have at this shape, of a CPU or of so many GPUs; an exact
  /// one where there is one, and of those one that is not `changed`.
  bool fastest = false;
};

/// Shapes of one kind of work, each by its fastest cell.
struct MachineGroup {
  bool on_gpu = false;
  WorkKind kind = WorkKind::other;
  std::size_t shapes = 0;
  std::size_t faster = 0;
  std::size_t slower = 0;
  std::size_t equal = 0;
  SpeedRatio speed;  ///< What the shapes have in common: docs/comparing.md.
  /// Places in `cells` of the shapes with the smallest and the largest ratio.
  std::pair<std::size_t, std::size_t> extremes;
  MachineVerdict verdict = MachineVerdict::undecided;
};

struct MachinePair {
  nlohmann::json first;  ///< Label, names, files and limits, as in the JSON.
  nlohmann::json second;
  /// The answer first, then whether the two compute the same.
  std::vector<std::string> sentences;
  /// Lists of text, of each machine: where experiments in both were measured by two commits.
  std::pair<nlohmann::json, nlohmann::json> commits;
  std::vector<MachineCell> cells;  ///< Timed on both, by shape.
  std::vector<MachineGroup> groups;
  std::vector<std::string> disagreements;  ///< Answers that should be the same and are not.
  std::size_t exact_answers = 0;           ///< Exact cells with an answer on both.
  std::size_t untimed = 0;                 ///< On both, with a time on one alone.
  std::size_t first_alone = 0;
  std::size_t second_alone = 0;
  std::vector<std::string> notes;        ///< Variants that changed.
  std::vector<std::string> left_out;     ///< Cells that are other work.
  std::vector<std::string> differences;  ///< Of machines, builds and settings.
};

/// Results of one machine, and what the user called them.
struct MachineResults {
  std::string label;
  std::vector<ResultFile> files;
};

/// Every machine against the first, in their order. Throws InputError where two of them share no
/// cell, and where commits differ although `same_commit` asks for one.
std::vector<MachinePair> compare_machines(const std::vector<MachineResults>& machines,
                                          const MachinesSettings& settings);

/// results/machines.schema.json has its fields.
nlohmann::json machines_to_json(const std::vector<MachinePair>& pairs,
                                const MachinesSettings& settings);

/// For a terminal. `all`: every cell, not the fastest of each shape alone.
std::string machines_to_text(const std::vector<MachinePair>& pairs, bool all);

/// GitHub-flavoured.
std::string machines_to_markdown(const std::vector<MachinePair>& pairs, bool all);

/// Judges one ratio by its interval: equal within the effect, faster or slower where the whole
/// interval lies on one side of 1, undecided otherwise.
MachineVerdict verdict_of(const SpeedRatio& speed, double effect);

/// The sentences that open every output; needs cells and groups.
std::vector<std::string> machine_sentences(const MachinePair& pair);

}  // namespace kmeans
