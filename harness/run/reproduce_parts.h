// SPDX-License-Identifier: Apache-2.0
//
// What the parts of `reproduce` share; reproduce.h is what others see.
#pragma once

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

namespace kmeans::reproduce_parts {

/// Null where there is none.
nlohmann::json member(const nlohmann::json& value, const char* key);
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

}  // namespace kmeans::reproduce_parts
