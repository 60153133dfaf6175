// SPDX-License-Identifier: Apache-2.0
//
// Experiment files (docs/experiments.md): what to run, read and checked before anything runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/support/json_file.h"
#include "harness/variant.h"

namespace kmeans {

/// An entry of a `variants` list.
struct VariantChoice {
  std::string name;                    ///< "*": every variant that takes the shape.
  std::optional<Precision> precision;  ///< Absent: the variant's first.
  std::optional<int> threads;          ///< Absent: those of the run.
  int ranks = 1;                       ///< That share the work (docs/scaling.md).
  int gpus = 1;                        ///< The same, of one process.
  std::optional<double> at_most_nkd;   ///< Larger shapes are left out, and the result says so.
  std::string pointer;                 ///< Where it stands in the file.
};

/// A point of a sweep. n and d are absent for a data set from a file, which has its own.
struct SweepShape {
  std::optional<std::int64_t> n;
  std::optional<std::int64_t> d;
  std::int64_t k = 1;
  std::optional<std::int64_t> iterations;  ///< Absent: those of the scale.
};

/// How long and how often a cell is measured.
struct Sampling {
  int processes = 3;
  int repetitions = 3;
  double min_seconds = 0.02;
  double max_seconds = 10;
  double timeout_seconds = 300;
};

/// `quick` or `paper`.
struct Scale {
  std::vector<SweepShape> shapes;
  std::int64_t iterations = 10;
  Sampling sampling;
  std::vector<VariantChoice> variants;
};

/// A run that is recorded iteration by iteration.
struct TraceSpec {
  std::string name;
  VariantChoice variant;
  SweepShape shape;
  std::int64_t iterations = 1;
  nlohmann::json data;
  std::string init;
  std::vector<std::string> scales;
  std::int64_t keep_points = 0;
  bool keep_centroids = true;
  nlohmann::json expected;  ///< null, or {inertia, relative_tolerance, labels_begin}
  std::string stop;         ///< As parse_stop takes it; empty: all iterations.
  std::string pointer;      ///< Where it stands in the file.
};

/// A study (harness/study.h) that is run once.
struct StudySpec {
  std::string name;
  std::string study;
  std::optional<SweepShape> shape;  ///< Absent: it takes no data.
  nlohmann::json data;
  std::string init;
  std::vector<std::string> scales;
  nlohmann::json parameters = nlohmann::json::object();
  double timeout_seconds = 300;
  std::string pointer;
};

/// Whole fits of one set of points to one k, by several estimators (docs/fits.md).
struct FitSpec {
  std::string name;  ///< With its k: "photograph-k64".
  SweepShape shape;
  nlohmann::json data;
  std::string init;  ///< Of the task, which fits do not start from.
  std::vector<std::string> scales;
  std::vector<std::string> estimators;
  int seeds = 10;
  int processes = 2;
  double max_seconds = 20;  ///< Budget of an estimator's timed calls.
  std::string from;         ///< Way to choose given first centroids; empty: the estimator's own.
  std::int64_t iterations = 0;  ///< From given centroids; 0: the estimator's own rule.
  int starts = 0;               ///< Of which the best is kept; 0: the estimator's own number.
  int problems = 1;             ///< Into which the columns are cut, each with k clusters.
  std::optional<double> known_inertia;  ///< The best that anybody has found.
  double timeout_seconds = 3600;
  std::string pointer;
};

struct Experiment {
  std::string name;
  std::string title;
  nlohmann::json data;  ///< Without n and d; "k" may be "sweep".
  std::string init;
  std::map<std::string, Scale> scales;
  std::vector<TraceSpec> traces;
  std::vector<StudySpec> studies;
  std::vector<FitSpec> fits;
  JsonDocument document;  ///< The file, for messages and for the result's `spec`.

  /// Throws InputError naming the scales there are.
  [[nodiscard]] const Scale& scale(const std::string& name) const;
};

/// Checks a document whole: unknown keys, wrong types, ranges, unknown variants, k > n in an
/// explicit shape, empty sweeps. Throws InputError with file:line:column, JSON pointer and reason.
Experiment parse_experiment(JsonDocument document);

/// By name ("goldsborough2017": a file of experiments/) or by path. The `name` inside must be the
/// file's stem.
Experiment load_experiment(const std::string& name_or_path);

/// Names of the experiments that come with the suite.
std::vector<std::string> known_experiments();

/// Does the experiment take its points from a file, which then fixes n and d?
bool takes_points_from_file(const nlohmann::json& data);

}  // namespace kmeans
