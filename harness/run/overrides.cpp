// SPDX-License-Identifier: Apache-2.0
#include "harness/run/overrides.h"

#include <algorithm>
#include <utility>

#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

void check_names(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    try {
      if (name != "*") require_variant(name);
    } catch (const EnvironmentError&) {
      // Known, but not in this build: its cells are skipped with the reason.
    }
  }
}

void change_variants(json& holder, const Overrides& overrides) {
  if (!holder.contains("variants")) return;
  json& list = holder["variants"];
  if (!overrides.variants.empty()) list = overrides.variants;
  for (const auto& name : overrides.add_variants) {
    if (std::find(list.begin(), list.end(), json(name)) == list.end()) list.push_back(name);
  }
}

/// A shape {"n": 5} becomes a grid {"n": [5]}, as soon as one of its axes is a list.
void change_axes(json& entry, const Overrides& overrides) {
  for (const char* axis : {"n", "d", "k"}) {
    if (entry.contains(axis) && !entry[axis].is_array()) {
      entry[axis] = json::array({entry[axis]});
    }
  }
  if (!overrides.n.empty()) entry["n"] = overrides.n;
  if (!overrides.d.empty()) entry["d"] = overrides.d;
  if (!overrides.k.empty()) entry["k"] = overrides.k;
}

json changed_sweep(const json& sweep, const Overrides& overrides) {
  if (!sweep.is_array()) {
    json grid = sweep;
    change_axes(grid, overrides);
    return grid;
  }
  json grids = json::array();
  for (json entry : sweep) {
    change_axes(entry, overrides);
    // Shapes that differed in what was replaced alone are now one.
    if (std::find(grids.begin(), grids.end(), entry) == grids.end()) {
      grids.push_back(std::move(entry));
    }
  }
  return grids;
}

}  // namespace

bool Overrides::any() const {
  return !add_variants.empty() || !variants.empty() || !n.empty() || !d.empty() || !k.empty();
}

Experiment overridden(const Experiment& experiment, const Overrides& overrides) {
  check_names(overrides.variants);
  check_names(overrides.add_variants);
  const bool other_axes = !overrides.n.empty() || !overrides.d.empty() || !overrides.k.empty();
  if (takes_points_from_file(experiment.data) && (!overrides.n.empty() || !overrides.d.empty())) {
    throw InputError("--n and --d: experiment " + experiment.name +
                     " takes its points from a file, which has its own; --k can be given");
  }
  json changed = experiment.document.value;
  changed["name"] = experiment.name + "-changed";
  change_variants(changed, overrides);
  for (auto& scale : changed["scales"]) {
    change_variants(scale, overrides);
    if (other_axes) scale["sweep"] = changed_sweep(scale.at("sweep"), overrides);
  }
  if (other_axes || !overrides.variants.empty()) {
    for (const char* key :
         {"traces", "studies", "fits", "claims", "published", "figures", "baseline"}) {
      changed.erase(key);
    }
  }
  Experiment result = parse_experiment(
      parse_json(changed.dump(1), experiment.document.source + " with the options' changes"));
  // Files were found from the experiment's own folder.
  result.data = experiment.data;
  result.init = experiment.init;
  if (!result.traces.empty()) result.traces = experiment.traces;
  if (!result.studies.empty()) result.studies = experiment.studies;
  if (!result.fits.empty()) result.fits = experiment.fits;
  return result;
}

}  // namespace kmeans
