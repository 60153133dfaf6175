// SPDX-License-Identifier: Apache-2.0
#include "harness/run/experiment.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "harness/run/estimators.h"
#include "harness/run/experiment_parts.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_each.h"
#include "harness/support/json_reader.h"
#include "harness/support/text.h"

namespace kmeans {
using nlohmann::json;

const Scale& Experiment::scale(const std::string& wanted) const {
  const auto found = scales.find(wanted);
  if (found != scales.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name_of_scale, scale] : scales) names.push_back(name_of_scale);
  throw InputError(document.source + ": experiment " + name + " has no scale '" + wanted + "'; " +
                   closest_names(wanted, names));
}

bool takes_points_from_file(const json& data) { return data.is_object() && data.contains("file"); }

Experiment parse_experiment(JsonDocument document) {
  using namespace experiment_parts;
  Experiment experiment;
  experiment.document = std::move(document);
  expand_each(experiment.document);
  const JsonReader top(experiment.document);
  top.allow_only({"$schema", "name", "title", "description", "source", "data", "init", "variants",
                  "baseline", "scales", "traces", "studies", "fits", "published", "claims",
                  "figures"});
  for (const char* key : {"$schema", "description", "source"}) top[key].text("");
  experiment.name = read_name(top["name"]);
  experiment.title = top["title"].text();
  experiment.data = read_data(top["data"]);
  experiment.init = read_init(top["init"]);
  const auto variants = read_variants(top["variants"]);
  if (top["baseline"].present()) read_variant(top["baseline"], false);
  experiment.scales = read_scales(top["scales"], variants, takes_points_from_file(experiment.data));
  if (top["traces"].present()) experiment.traces = read_traces(top["traces"], experiment);
  if (top["studies"].present()) experiment.studies = read_studies(top["studies"], experiment);
  if (top["fits"].present()) experiment.fits = read_fits(top["fits"], experiment);
  // What these lists hold is read, and checked, by plots/ alone.
  for (const char* key : {"published", "claims", "figures"}) {
    if (top[key].present()) static_cast<void>(top[key].elements());
  }
  return experiment;
}

std::vector<std::string> known_experiments() {
  std::vector<std::string> names;
  std::error_code error;
  const auto folder = std::filesystem::path(source_root()) / "experiments";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "schema") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

/// A relative path is one from the experiment's own folder, wherever the command was given. One
/// that is there not, but in the current folder, is taken with a note: so it was meant once.
std::string found_file(const std::string& name, const std::filesystem::path& folder) {
  const std::filesystem::path file = name;
  if (file.is_absolute()) return name;
  const auto beside = (folder / file).lexically_normal();
  std::error_code ignored;
  if (beside == file.lexically_normal() || std::filesystem::exists(beside, ignored) ||
      !std::filesystem::exists(file, ignored)) {
    return beside.string();
  }
  std::fprintf(stderr,
               "note: %s is not next to the experiment; that of the current folder is read\n",
               printable(name).c_str());
  return name;
}

void find_data(json& data, const std::filesystem::path& folder) {
  if (!takes_points_from_file(data) || !data.at("file").is_string()) return;
  data["file"] = found_file(data.at("file").get<std::string>(), folder);
}

void find_init(std::string& init, const std::filesystem::path& folder) {
  // A name without a folder or ending is a file only where there is one.
  if (init.find_first_of("/.") == std::string::npos || init.find(':') != std::string::npos) return;
  init = found_file(init, folder);
}

void find_files(Experiment& experiment, const std::filesystem::path& folder) {
  find_data(experiment.data, folder);
  find_init(experiment.init, folder);
  for (auto& trace : experiment.traces) {
    find_data(trace.data, folder);
    find_init(trace.init, folder);
  }
  for (auto& study : experiment.studies) {
    find_data(study.data, folder);
    find_init(study.init, folder);
  }
  for (auto& fit : experiment.fits) {
    find_data(fit.data, folder);
    for (auto& name : fit.estimators) {
      if (is_estimator_file(name)) name = found_file(name, folder);
    }
  }
}

}  // namespace

Experiment load_experiment(const std::string& name_or_path) {
  std::filesystem::path file = name_or_path;
  const bool is_path = file.has_parent_path() || file.extension() == ".json";
  if (!is_path) {
    require_source_root();
    const auto names = known_experiments();
    if (std::find(names.begin(), names.end(), name_or_path) == names.end()) {
      throw InputError("unknown experiment '" + valid_utf8(name_or_path) + "'; " +
                       closest_names(name_or_path, names) + " (or give the path of a .json file)");
    }
    file = std::filesystem::path(source_root()) / "experiments" / (name_or_path + ".json");
  }
  Experiment experiment = parse_experiment(read_json_document(file));
  find_files(experiment, file.parent_path());
  if (file.stem() != experiment.name) {
    throw InputError(experiment.document.where("/name") + ": /name: \"" + experiment.name +
                     "\" must be the file's stem, \"" + file.stem().string() + "\"");
  }
  return experiment;
}

}  // namespace kmeans
