// SPDX-License-Identifier: Apache-2.0
//
// The deterministic part of result files, once more on this machine: data, labels, centroids,
// inertia, traces, studies (docs/reproducing.md). No clock is looked at.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/record/result_file.h"
#include "harness/run/job.h"
#include "harness/run/sweep.h"
#include "harness/support/pattern.h"
#include "harness/verify/verify.h"

namespace kmeans {

enum class Reproduced {
  equal,    ///< Bit for bit.
  agrees,   ///< Other bits, which nothing promised; certified here, and as good within the bound.
  differs,  ///< Other bits where they are promised, or beyond the bound.
  not_run,  ///< Could not or should not run here, see the detail.
};
const char* to_string(Reproduced verdict);

/// How many answers have each verdict.
class VerdictCounts {
 public:
  void add(Reproduced verdict) { ++counts_[index(verdict)]; }
  void add(const VerdictCounts& others);
  [[nodiscard]] std::size_t of(Reproduced verdict) const { return counts_[index(verdict)]; }
  [[nodiscard]] std::size_t total() const;
  [[nodiscard]] std::size_t ran() const { return total() - of(Reproduced::not_run); }
  [[nodiscard]] nlohmann::json to_json() const;
  /// "3 equal, 0 agrees, 1 differs, 0 not run"
  [[nodiscard]] std::string text() const { return text(true); }
  /// "3 equal, 1 differs"; empty if there are none.
  [[nodiscard]] std::string text_of_found() const { return text(false); }

 private:
  static std::size_t index(Reproduced verdict) { return static_cast<std::size_t>(verdict); }
  [[nodiscard]] std::string text(bool zeros) const;

  std::array<std::size_t, 4> counts_{};
};

struct Judgement {
  Reproduced verdict = Reproduced::not_run;
  std::string detail;  ///< A sentence; may be empty for `equal`.
};

/// What became of one recorded answer.
struct Finding {
  std::string part;  ///< "data", "cell", "trace" or "study"
  std::string name;  ///< Label of the data, key of the cell, or name.
  Judgement judgement;
  std::string by;                ///< The variant that ran, where it is not the recorded one.
  bool promised = false;         ///< Were the bits promised here?
  double estimated_seconds = 0;  ///< What it was taken to cost before it ran.

  /// "cell NAME (by VARIANT)"
  [[nodiscard]] std::string title() const;
  /// "differs: cell NAME: DETAIL"
  [[nodiscard]] std::string text() const;
};

struct FileReport {
  const ResultFile* file = nullptr;
  /// In what this build and machine are not those of the record; empty: deterministic variants
  /// promise their bits.
  std::vector<std::string> surroundings;
  std::vector<Finding> findings;
  std::size_t without_answer = 0;  ///< Skipped and failed ones, which record no answer.

  [[nodiscard]] VerdictCounts counts() const;
  [[nodiscard]] VerdictCounts counts(const std::string& part) const;
};

struct ReproduceSettings {
  std::vector<std::string> worker_command{"/proc/self/exe"};
  std::filesystem::path cache;
  int threads = 1;
  double at_most_seconds = 30;  ///< Estimated, of one cell, trace, study or data set.
};

/// How far it is: done of total, what is next, seconds left by the estimates.
using ReproduceProgress = std::function<void(std::size_t, std::size_t, const std::string&, double)>;

/// The plan that a result file was measured by, made again from its `spec` by the planner of `run`. Of every
/// shape: the variants of its cells, with their threads, and `further` ones. Throws InputError for a spec
/// that is not an experiment.
Plan plan_of_record(const ResultFile& file, const std::vector<VariantChoice>& further,
                    double memory_bytes);

/// Repeats what `only` is found in: a cell's key, a trace's or a study's name, or the experiment's.
/// An InterruptGuard should live; an interrupted report ends early. Throws OutputError.
FileReport reproduce(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                     const ReproduceProgress& progress);

/// The report of all files as JSON (docs/reproducing.md).
nlohmann::json to_json(const std::vector<FileReport>& reports);

/// The outcome of a cell against the recorded one: what is not the same, a clause each.
std::vector<std::string> differences_of(const CellResult& recorded, const JobResult& here);

/// What of the answer of an `ok` cell its record lacks: nothing, in a file that is whole.
std::vector<std::string> absent_answers(const CellResult& recorded);

/// Up to which the recorded inertia and the one found here are both rounding alone, by the rule of
/// trajectory_floor in the variant's own precision. `scale`: of the trajectory that was found here.
InertiaFloor repetition_floor(const Traits& traits, const Shape& shape,
                              const TrajectoryScale& scale, double max_abs);

/// A trace against the recorded one, iteration by iteration. `promised`: its bits are.
/// `floor` is asked only when an inertia is beyond the relative bound: it may be rounding alone.
Judgement judge_trace(const nlohmann::json& recorded, const nlohmann::json& here, bool promised,
                      const std::function<InertiaFloor()>& floor = nullptr);

/// A study against the recorded one. Its rows and findings are the same everywhere, but for rows
/// whose `by` names a variant of the suite, which are left out.
Judgement judge_study(const nlohmann::json& recorded, const nlohmann::json& here);

/// A fit against the recorded one: the calls of exact estimators, which have the same bits everywhere.
Judgement judge_fit(const nlohmann::json& recorded, const nlohmann::json& here);

/// In what this build and machine differ from those of a result file's context, a clause each.
std::vector<std::string> surroundings_differences(const nlohmann::json& context);

}  // namespace kmeans
