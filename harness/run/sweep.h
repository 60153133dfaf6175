// SPDX-License-Identifier: Apache-2.0
//
// From an experiment to the list of what will run: one cell a configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "harness/record/cell_key.h"
#include "harness/run/experiment.h"
#include "harness/run/unit.h"
#include "harness/support/pattern.h"
#include "harness/variant.h"

namespace kmeans {

/// A data set with the initial centroids that a run starts from.
struct Task {
  DatasetSpec dataset;
  std::string label;  ///< Of the data set.
  std::string init;
  Shape shape;
  bool beyond_memory = false;  ///< Memory does not hold the points: only what streams takes them.
};

/// One configuration to measure.
struct Cell : Unit {
  static constexpr Part kPart = Part::cell;
  [[nodiscard]] std::string name() const { return key.text(); }

  CellKey key;
  std::string backend;
  bool exact = false;
  bool deterministic = true;
  bool skips_work = false;
  bool gpu = false;
  std::string wrong_because;  ///< Of Traits: not empty where a wrong answer is expected.
  std::string includes;       ///< Of Traits: what its setup and iterations contain besides.
  Task task;
  Sampling sampling;
};

/// One trace to record.
struct PlannedTrace : Unit {
  static constexpr Part kPart = Part::trace;
  [[nodiscard]] const std::string& name() const { return spec.name; }

  TraceSpec spec;
  Precision precision = Precision::f32;
  Task task;
  int threads = 1;
};

/// One study to run.
struct PlannedStudy : Unit {
  static constexpr Part kPart = Part::study;
  [[nodiscard]] const std::string& name() const { return spec.name; }

  StudySpec spec;
  std::optional<Task> task{};  ///< Absent: it takes no data.
};

/// Whole fits of one set of points to one k.
struct PlannedFit : Unit {
  static constexpr Part kPart = Part::fit;
  [[nodiscard]] const std::string& name() const { return spec.name; }

  FitSpec spec;
  Task task;
};

struct Plan {
  std::string scale;
  std::vector<Cell> cells;
  std::vector<PlannedTrace> traces;
  std::vector<PlannedStudy> studies;
  std::vector<PlannedFit> fits;
  double timeout_seconds = 300;
  Sampling sampling;  ///< Of cells and of traces that are timed.
  std::vector<std::string> warnings;

  /// What --processes, --repetitions and --max-seconds have made of the experiment's own.
  [[nodiscard]] const Sampling& agreed_sampling() const {
    return cells.empty() ? sampling : cells.front().sampling;
  }
};

struct PlanOptions {
  std::string scale = "quick";
  int threads = 1;                        ///< Of parallel variants that name no number.
  int processes = 0;                      ///< 0: as the experiment says.
  int repetitions = 0;                    ///< 0: as the experiment says.
  std::vector<VariantChoice> variants{};  ///< Not empty: in place of the experiment's own.
  double memory_bytes = 0;                ///< What a worker may use.
  /// Why a set of so many bytes cannot lie on the disk to be mapped, as points that memory does not hold
  /// have to; empty if it can. Absent: it can.
  std::function<std::string(const DatasetSpec&, double)> problem_with_mapping{};
  /// What a worker may use of the GPU's memory; unknown: not checked here.
  std::optional<double> device_memory_bytes;
  bool allow_many = false;  ///< More than kManyCells cells without a question.
  /// n and d of a data set that fixes them itself.
  std::function<std::pair<std::int64_t, std::int64_t>(const DatasetSpec&)> size_of_file;
};

inline constexpr std::size_t kManyCells = 5000;

/// The scalar type of points for a precision.
ScalarType points_scalar(Precision precision);

/// Seconds that a cell may take, from its operations at a rate that plain code reaches: an order of
/// magnitude, to ask before a sweep of days.
double rough_seconds(const Shape& shape, std::int64_t iterations, const Sampling& sampling);

/// Expands an experiment at a scale. Cells that cannot run carry a skip_reason; duplicates are
/// dropped with a warning. Throws InputError for what the experiment says wrongly.
Plan plan_experiment(const Experiment& experiment, const PlanOptions& options);

/// Selects the cells, traces, studies and fits that the expression takes (harness/support/only.h). Returns
/// how many these are.
std::size_t select(Plan& plan, const std::string& experiment, const Pattern& only);

}  // namespace kmeans
