// SPDX-License-Identifier: Apache-2.0
//
// What the parts of `reproduce` share; reproduce.h is what others see.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "harness/record/result_file.h"
#include "harness/run/job.h"
#include "harness/run/preparation.h"
#include "harness/run/reproduce.h"
#include "harness/run/sweep.h"
#include "harness/run/workers.h"
#include "harness/support/json_member.h"

namespace kmeans::reproduce_parts {

/// Empty for what is not a text.
std::string text_of(const nlohmann::json& value);
std::string was_and_is(const std::string& what, const nlohmann::json& recorded,
                       const nlohmann::json& here);
std::string joined(const std::vector<std::string>& clauses, const char* between = "; ");
/// The first line of a longer reason.
std::string first_line(const std::string& text);

/// Is this a variant, of this build or of a backend that it was built without?
bool is_variant(const std::string& name);

/// Of parallel variants that set none, on record.
int threads_of_run(const ResultFile& file);

/// An outcome that a process gave no answer in.
Judgement judge_failure(const std::string& problem);

/// A cell that ran with its certificate, against its record.
Judgement judge_certified(const CellResult& recorded, const JobResult& here, const Traits& traits,
                          const std::string& points_file);

/// Estimators of a fit whose answers have the same bits everywhere: those that are exact, and right.
std::vector<std::string> exact_estimators(const nlohmann::json& fit);

/// What repeating a record costs, roughly, to leave out what takes long: none of it ends up in a
/// result. In seconds.
class RecordCosts {
 public:
  RecordCosts(const ResultFile& file, const ReproduceSettings& settings)
      : file_(file), settings_(settings) {}

  /// Making a data set and hashing it.
  [[nodiscard]] double data(const std::string& label) const;
  /// The recorded variant, as the record's own times let expect.
  [[nodiscard]] double cell(const CellResult& cell) const;
  /// The fast exact variant in its place.
  [[nodiscard]] double exact(const CellResult& cell) const;
  [[nodiscard]] double trace(const nlohmann::json& trace) const;
  [[nodiscard]] double study(const nlohmann::json& study) const;
  /// Of the rows that promise their bits.
  [[nodiscard]] double fit(const nlohmann::json& fit) const;

  [[nodiscard]] bool too_long(double seconds) const { return seconds > settings_.at_most_seconds; }
  [[nodiscard]] std::string why_too_long() const;
  /// After which a process is ended.
  static double timeout(double estimate);
  /// Coordinates of a data set; 0 where the record does not say.
  [[nodiscard]] double coordinates(const std::string& label) const;

 private:
  [[nodiscard]] double thread_factor(int recorded) const;

  const ResultFile& file_;
  const ReproduceSettings& settings_;
};

/// The data sets of a record, made here or found in the cache.
class RecordedData {
 public:
  RecordedData(const ResultFile& file, const ReproduceSettings& settings, const RecordCosts& costs,
               double memory);

  /// Is it here what it is on record?
  const Judgement& judgement(const std::string& label) { return known(label).judgement; }

  /// Points and first centroids of a task, whose data set the record calls `label`. Where there are
  /// none, `why_not` says why.
  std::optional<TaskFiles> files(const std::string& label, Task task, std::string& why_not);

 private:
  struct Known {
    Judgement judgement;
    DatasetSpec spec;
    std::int64_t n = 0;
    std::int64_t d = 0;
  };

  const Known& known(const std::string& label);
  Judgement judge(const std::string& label, Known& found) const;

  const ResultFile& file_;
  const ReproduceSettings& settings_;
  const RecordCosts& costs_;
  double memory_;
  Preparation preparation_;
  std::map<std::string, Known> known_;
};

/// Ends a finding: there is nothing to judge.
struct NotRun {
  std::string reason;
};
struct Interrupted {};

/// The exact variant that answers for others; empty where the build has none.
const std::string& fast_exact();

/// What it takes to run the units of a record again: their plan, their data, and processes.
class Repetition {
 public:
  Repetition(const ResultFile& file, const ReproduceSettings& settings);

  [[nodiscard]] const ReproduceSettings& settings() const { return settings_; }
  [[nodiscard]] const RecordCosts& costs() const { return costs_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] double memory() const { return memory_; }
  RecordedData& data() { return data_; }
  Workers& workers() { return workers_; }

  /// Throws NotRun.
  TaskFiles files(const std::string& label, const Task& task);

  /// A cell, trace or study of the plan. Throws NotRun.
  template <class PlannedUnit>
  const PlannedUnit& unit_of(const std::vector<PlannedUnit>& units, const std::string& name) const {
    const auto found = std::find_if(units.begin(), units.end(),
                                    [&](const auto& unit) { return unit.name() == name; });
    if (found != units.end()) return *found;
    throw NotRun{not_planned_.empty() ? "the experiment on record does not have it" : not_planned_};
  }

  /// Why a unit of this variant does not run here; empty if it does.
  [[nodiscard]] std::string reason_not_to_run(const Unit& unit, const std::string& variant,
                                              double seconds) const;

  /// Absent when there is no result; `problem` says why. Throws Interrupted.
  std::optional<JobResult> answer(const Job& job, double estimate, std::string& problem);

 private:
  Plan planned(const ResultFile& file);

  const ReproduceSettings& settings_;
  const double memory_;
  const RecordCosts costs_;
  RecordedData data_;
  std::string not_planned_;  ///< Why there is no plan.
  const Plan plan_;
  Workers workers_;
};

/// The cells of a record, judged one by one.
class CellJudge {
 public:
  /// `same_surroundings`: of build and machine, as on record.
  CellJudge(Repetition& again, bool same_surroundings)
      : again_(again), same_surroundings_(same_surroundings) {}

  /// Throws NotRun and Interrupted.
  Judgement judge(const CellResult& cell, Finding& finding);

 private:
  [[nodiscard]] Job untimed_job(const CellKey& key, const TaskFiles& at_hand) const;
  [[nodiscard]] bool bits_promised(const CellResult& cell, const Traits& traits, int threads) const;
  Judgement stand_in(const CellResult& cell, const std::string& reason, Finding& finding);
  [[nodiscard]] CellKey exact_key(CellKey key) const;
  [[nodiscard]] bool has_exact_answer(const CellResult& cell) const;
  std::optional<JobResult> exact_answer(const CellResult& cell, std::string& why_not);
  Judgement judge_wrong_cell(const CellResult& cell, Job job);

  Repetition& again_;
  const bool same_surroundings_;
  std::map<std::string, JobResult> exact_answers_;
};

}  // namespace kmeans::reproduce_parts
