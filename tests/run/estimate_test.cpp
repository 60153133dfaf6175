// SPDX-License-Identifier: Apache-2.0
#include "harness/run/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/result_file.h"
#include "harness/run/reproduce.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr double kPlentyOfMemory = 1e12;

double seconds_at(const std::string& utc) {
  std::tm moment{};
  std::istringstream(utc) >> std::get_time(&moment, "%Y-%m-%dT%H:%M:%SZ");
  return static_cast<double>(::timegm(&moment));
}

Sampling sampling_of(const json& scale) {
  const Sampling defaults;
  Sampling sampling;
  sampling.processes = scale.value("processes", defaults.processes);
  sampling.repetitions = scale.value("repetitions", defaults.repetitions);
  sampling.min_seconds = scale.value("min_seconds", defaults.min_seconds);
  sampling.max_seconds = scale.value("max_seconds", defaults.max_seconds);
  return sampling;
}

/// Fits of which an estimator ran, with those that did.
std::vector<PlannedFit> fits_of(const ResultFile& file) {
  std::vector<PlannedFit> fits;
  for (PlannedFit& fit : plan_of_record(file, {}, kPlentyOfMemory).fits) {
    const auto result = std::ranges::find(file.fits, json(fit.spec.name),
                                          [](const json& one) { return one.at("name"); });
    if (result == file.fits.end()) continue;
    fit.spec.estimators.clear();
    for (const json& row : result->at("rows")) {
      if (row.at("status") != "skipped") fit.spec.estimators.push_back(row.at("estimator"));
    }
    fit.skip_reason.clear();  // real points may be missing here
    if (!fit.spec.estimators.empty()) fits.push_back(std::move(fit));
  }
  return fits;
}

/// What a result file's run had planned, as far as it was run.
Plan plan_of(const ResultFile& file) {
  Plan plan;
  plan.sampling = sampling_of(file.spec.at("scales").at(file.scale));
  for (const CellResult& result : file.cells) {
    if (result.status == "skipped") continue;
    Cell cell;
    cell.key = result.key;
    cell.backend = result.backend;
    cell.task.label = result.key.dataset;
    cell.task.shape = result.key.shape;
    cell.sampling = plan.sampling;
    plan.cells.push_back(cell);
  }
  for (const json& result : file.traces) {
    if (result.at("status") == "skipped") continue;
    PlannedTrace trace;
    trace.task.shape = {result.at("n"), result.at("d"), result.at("k"), Precision::f32};
    trace.spec.iterations = static_cast<std::int64_t>(result.at("iterations").size());
    if (result.contains("stop") && !result.at("stop").is_null())
      trace.spec.stop = result.at("stop");
    plan.traces.push_back(trace);
  }
  if (!file.fits.empty()) plan.fits = fits_of(file);
  return plan;
}

TEST(Estimate, IsWithinAFactorOfTwoOfWhatTheShippedExperimentsTook) {
  const auto folder =
      std::filesystem::path(KMEANS_SOURCE_DIR) / "results" / "reference-epyc-2core-avx512";
  std::size_t compared = 0;
  for (const ResultFile& file : load_results(folder)) {
    const json& context = file.context;
    if (file.scale != "quick" || !context.at("finished").is_string()) continue;
    const double took = seconds_at(context.at("finished")) - seconds_at(context.at("started"));
    if (took < 3) continue;  // the times on record are whole seconds
    double studies = 0;      // not estimated, but in what it took
    for (const json& study : file.studies) {
      if (study.at("seconds").is_number()) studies += study.at("seconds").get<double>();
    }
    const double estimate = estimated_seconds(plan_of(file), context.at("threads")) + studies;
    EXPECT_LT(estimate, 2 * took) << file.experiment << " took " << took << " s";
    EXPECT_GT(estimate, took / 2) << file.experiment << " took " << took << " s";
    ++compared;
  }
  EXPECT_GE(compared, 10U);
}

double seconds_of_first(const std::string& variant, const Shape& shape) {
  Cell cell;
  cell.key.variant = variant;
  cell.key.shape = cell.task.shape = shape;
  cell.key.threads = 2;
  cell.key.iterations = 10;
  cell.backend = "openmp";
  return estimated_seconds_of_first(cell, 2);
}

TEST(Estimate, KnowsWhoFormsDistancesOnBytesOrNotAtAll) {
  const Shape wide{100000, 768, 1000, Precision::f32};
  EXPECT_LT(seconds_of_first("openmp_int8", wide), 0.7 * seconds_of_first("openmp_exact", wide));
  EXPECT_EQ(seconds_of_first("openmp_best", wide), seconds_of_first("openmp_int8", wide));
  const Shape flat{500000, 3, 20000, Precision::f32};
  EXPECT_LT(seconds_of_first("openmp_tree", flat), 0.3 * seconds_of_first("openmp_exact", flat));
  EXPECT_EQ(seconds_of_first("openmp_best", flat), seconds_of_first("openmp_tree", flat));
  const Shape few{16000, 4, 16, Precision::f32};
  EXPECT_EQ(seconds_of_first("openmp_best", few), seconds_of_first("openmp_exact", few));
}

TEST(Estimate, CountsWhatIsRunAlone) {
  Plan plan;
  Cell cell;
  cell.key.variant = "cpu_naive";
  cell.backend = "cpu";
  cell.task.shape = {1000, 2, 4, Precision::f32};
  plan.cells = {cell, cell, cell};
  plan.cells[1].selected = false;
  plan.cells[2].skip_reason = "no";
  Plan single;
  single.cells = {cell};
  EXPECT_GT(estimated_seconds(single, 2), 0);
  EXPECT_EQ(estimated_seconds(plan, 2), estimated_seconds(single, 2));
}

}  // namespace
}  // namespace kmeans
