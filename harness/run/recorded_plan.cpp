// SPDX-License-Identifier: Apache-2.0
//
// The plan of a run that a result file records, made again from its spec.
#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

#include "harness/record/cell_key.h"
#include "harness/run/estimators.h"
#include "harness/run/reproduce.h"
#include "harness/run/reproduce_parts.h"
#include "harness/study.h"
#include "harness/support/json_file.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using namespace reproduce_parts;
using nlohmann::json;

/// The entry of a list with this name; null where there is none.
const json* named(const json& list, const json& name) {
  for (const auto& one : list) {
    if (member(one, "name") == name) return &one;
  }
  return nullptr;
}

bool is_study(const json& name) {
  const auto& known = all_studies();
  return std::any_of(known.begin(), known.end(),
                     [&](const Study& one) { return name == one.name; });
}

bool is_estimator(const std::string& name) {
  const auto known = known_estimators();
  return is_estimator_file(name) || std::find(known.begin(), known.end(), name) != known.end();
}

/// The spec without what this build does not know, and what is only drawn. A trace of an unknown variant is
/// planned as one of the definition: another exact variant may answer for it.
json known_part(const ResultFile& file) {
  json spec = file.spec;
  for (const char* key : {"baseline", "published", "claims", "figures"}) spec.erase(key);
  spec["variants"] = {"*"};
  if (spec["scales"].is_object()) {
    for (auto& scale : spec["scales"]) scale.erase("variants");
  }
  json traces = json::array();
  for (json trace : member(spec, "traces")) {
    if (!trace.is_object() || named(file.traces, member(trace, "name")) == nullptr) continue;
    if (!is_variant(text_of(member(trace, "variant")))) {
      trace["variant"] = definition().traits.name;
    }
    traces.push_back(std::move(trace));
  }
  json studies = json::array();
  for (const json& study : member(spec, "studies")) {
    if (is_study(member(study, "study"))) studies.push_back(study);
  }
  json fits = json::array();
  for (json fit : member(spec, "fits")) {
    json known = json::array();
    for (const auto& estimator : member(fit, "estimators")) {
      if (is_estimator(text_of(estimator))) known.push_back(estimator);
    }
    if (known.empty()) continue;
    fit["estimators"] = std::move(known);
    fits.push_back(std::move(fit));
  }
  spec["fits"] = std::move(fits);
  spec["traces"] = std::move(traces);
  spec["studies"] = std::move(studies);
  return spec;
}

/// Paths in an experiment are relative to its folder, which nobody has recorded; what was read, is.
void find_recorded_file(json& data, const json& datasets) {
  const auto name_of = [](const json& spec) {
    return std::filesystem::path(text_of(member(spec, "file"))).filename();
  };
  if (!takes_points_from_file(data)) return;
  for (const auto& set : datasets) {
    const json spec = member(set, "spec");
    if (name_of(spec) == name_of(data)) data["file"] = spec.at("file");
  }
}

template <class Spec>
void find_recorded_files(std::vector<Spec>& specs, const json& recorded, const json& datasets) {
  for (auto& spec : specs) {
    find_recorded_file(spec.data, datasets);
    const json* record = named(recorded, spec.name);
    const std::string init = record != nullptr ? text_of(member(*record, "init")) : "";
    if (!init.empty()) spec.init = init;
  }
}

/// The variants of the cells: "*" may mean others here.
std::vector<VariantChoice> recorded_variants(const ResultFile& file) {
  std::vector<VariantChoice> choices;
  std::set<std::tuple<std::string, Precision, int, int, int>> seen;
  for (const CellResult& cell : file.cells) {
    const CellKey& key = cell.key;
    if (!seen.emplace(key.variant, key.shape.precision, key.threads, key.ranks, key.gpus).second) {
      continue;
    }
    choices.push_back({key.variant, key.shape.precision, key.threads, key.ranks, key.gpus, {}, ""});
  }
  return choices;
}

}  // namespace

Plan plan_of_record(const ResultFile& file, const std::vector<VariantChoice>& further,
                    double memory_bytes) {
  const json datasets = member(file.context, "datasets");
  Experiment experiment = parse_experiment(
      parse_json(known_part(file).dump(1), file.path.filename().string() + ": /spec"));
  find_recorded_file(experiment.data, datasets);
  find_recorded_files(experiment.traces, file.traces, datasets);
  find_recorded_files(experiment.studies, file.studies, datasets);
  for (auto& fit : experiment.fits) find_recorded_file(fit.data, datasets);
  if (!file.cells.empty()) experiment.init = file.cells.front().init;
  PlanOptions options;
  options.scale = file.scale;
  options.threads = threads_of_run(file);
  options.memory_bytes = memory_bytes;
  options.allow_many = true;
  options.variants = recorded_variants(file);
  options.variants.insert(options.variants.end(), further.begin(), further.end());
  options.size_of_file = [&](const DatasetSpec& spec) {
    json set = member(datasets, points_name(spec.label(), false).c_str());
    if (set.is_null()) set = member(datasets, points_name(spec.label(), true).c_str());
    const json n = member(set, "n");
    const json d = member(set, "d");
    if (!n.is_number_integer() || !d.is_number_integer())
      return std::pair<std::int64_t, std::int64_t>{};
    return std::pair{n.get<std::int64_t>(), d.get<std::int64_t>()};
  };
  return plan_experiment(experiment, options);
}

}  // namespace kmeans
