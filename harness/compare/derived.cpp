// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/derived.h"

#include <filesystem>
#include <map>

#include "harness/record/kinds.h"
#include "harness/record/limit.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/sha256.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr int kDerivedVersion = 1;

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
  return facts;
}

json facts_of(const ResultFile& file) {
  json cells = json::array();
  for (const auto& cell : file.cells) cells.push_back(facts_of(file, cell));
  return {{"file", file.path.filename().string()},
          {"sha256", sha256_file(file.path)},
          {"cells", std::move(cells)}};
}

}  // namespace

std::string derived_facts(const std::vector<ResultFile>& results) {
  std::map<std::filesystem::path, std::string> folders;
  for (const auto& file : results) {
    std::string& files = folders[file.path.parent_path()];
    files += (files.empty() ? "" : ",\n") + to_line(facts_of(file));
  }
  // A line a file: a change of one shows as such.
  std::string text;
  for (const auto& [folder, files] : folders) {
    text += (text.empty() ? "" : ",\n") + ("{\"files\": [\n" + files + "\n]}");
  }
  return "{\"derived_version\": " + std::to_string(kDerivedVersion) + ", \"sets\": [\n" + text +
         "\n]}\n";
}

}  // namespace kmeans
