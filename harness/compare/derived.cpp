// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/derived.h"

#include <filesystem>
#include <map>

#include "harness/record/advice.h"
#include "harness/record/kinds.h"
#include "harness/record/limit.h"
#include "harness/record/measures.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/precision.h"
#include "harness/support/sha256.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr int kDerivedVersion = 3;
constexpr std::size_t kRanks =
    500;  // of so many samples; of more, those of so many hold the median as well

json measured(double rate) { return rate > 0 ? json(rate) : json(); }

json place(const ResultFile& file, const CellResult& cell, bool gpu) {
  const Rates rates = rates_of(file, cell, gpu);
  return {measured(rates.read_gbytes_per_second), measured(rates.fma_gflops)};
}

json facts_of(const ResultFile& file, const CellResult& cell) {
  json facts{{"answer", name_of(answer_kind(cell.exact, cell.key.shape.precision))},
             {"data", kind_of_data(file.context, cell.key.dataset)},
             {"cpu", place(file, cell, false)}};
  // A stage may run on a GPU although the points lie with the processor.
  if (on_gpu(cell) || member(cell.data, "stage_work").is_object())
    facts["gpu"] = place(file, cell, true);
  if (const auto limit = limit_of(file, cell)) {
    facts["limit"] = {limit->seconds, limit->binds};
    if (cell.median && cell.unsteady.empty()) facts["share"] = limit->seconds / *cell.median;
  }
  if (cell.status == "ok" && !cell.unsteady.empty()) facts["slowest"] = slowest_process(cell);
  return facts;
}

json facts_of(const ResultFile& file) {
  json cells = json::array();
  for (const auto& cell : file.cells) cells.push_back(facts_of(file, cell));
  return {{"file", file.path.filename().string()},
          {"sha256", sha256_file(file.path)},
          {"cells", std::move(cells)}};
}

json model_of(const AdviceSeries& series, const ResultFile& newest) {
  json limits = json::array();
  for (const double part : parts_of_limit(newest, parse_precision(series.precision), series.threads,
                                          series.gpu, series.gpus)) {
    limits.push_back(measured(std::stod(formatted("%.4g", part))));
  }
  const auto numbers = [](const std::vector<Observation>& observations) {
    return observations.empty() ? json() : CostModel(observations).numbers();
  };
  return {{"variant", series.variant},      {"precision", series.precision},
          {"threads", series.threads},      {"gpus", series.gpus},
          {"beats", series.beats_limit},    {"refused", series.refused.numbers()},
          {"limits", std::move(limits)},    {"iteration", numbers(series.iterations)},
          {"setup", numbers(series.setups)}};
}

/// The files of a folder: a line each, and one for each model.
std::string set_of(const std::vector<ResultFile>& results) {
  std::string files;
  for (const auto& file : results) {
    files += (files.empty() ? "" : ",\n") + to_line(facts_of(file));
  }
  std::string models;
  const ResultFile& newest = with_newest_ceilings(results);
  for (const auto& series : series_of(results)) {
    if (series.shapes() < kShapesForAdvice) continue;
    models += (models.empty() ? "" : ",\n") + to_line(model_of(series, newest));
  }
  return "{\"newest\": " + json(newest.path.filename().string()).dump() + ", \"files\": [\n" +
         files + "\n], \"models\": [\n" + models + "\n]}";
}

json median_ranks() {
  json ranks = json::array();
  for (std::size_t count = 0; count <= kRanks; ++count) ranks.push_back(median_rank(count));
  return ranks;
}

}  // namespace

std::string derived_facts(std::vector<ResultFile> results) {
  std::map<std::filesystem::path, std::vector<ResultFile>> folders;
  for (auto& file : results) folders[file.path.parent_path()].push_back(std::move(file));
  std::string text;
  for (const auto& [folder, files] : folders) text += (text.empty() ? "" : ",\n") + set_of(files);
  return "{\"derived_version\": " + std::to_string(kDerivedVersion) +
         ", \"constants\": " + to_line(advice_constants()) +
         ", \"median_ranks\": " + median_ranks().dump() + ", \"sets\": [\n" + text + "\n]}\n";
}

}  // namespace kmeans
