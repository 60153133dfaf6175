// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_result.h"

#include <cstddef>

#include "harness/record/wrong_elsewhere.h"
#include "harness/support/build_info.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// Each adds to the result what is known, and returns whether that is all that was planned.
bool add_cells(const RunTold& told, json& cells) {
  bool complete = true;
  for (const auto& cell : told.plan.cells) {
    const auto evidence = told.evidence_of(cell);
    const bool skipped = !cell.skip_reason.empty() && (cell.selected || told.settings.resume);
    // A resumed run keeps what earlier ones found, also outside this one's --only.
    if (!skipped && evidence.processes.empty()) {
      complete = false;
      continue;
    }
    cells.push_back(assemble_cell(told.experiment.name, cell, evidence, told.surroundings.limits));
  }
  return complete;
}

bool add_traces(const RunTold& told, json& traces) {
  bool complete = true;
  for (const auto& trace : told.plan.traces) {
    const auto found = told.journal.traces.find(trace.spec.name);
    const bool recorded = found != told.journal.traces.end();
    const bool skipped = !trace.skip_reason.empty() && (trace.selected || told.settings.resume);
    if (!recorded && !skipped) {
      complete = false;
      continue;
    }
    traces.push_back(assemble_trace(trace, recorded ? found->second : json()));
  }
  return complete;
}

bool add_studies(const RunTold& told, json& studies) {
  bool complete = true;
  for (const auto& study : told.plan.studies) {
    const auto found = told.journal.studies.find(study.spec.name);
    if (found == told.journal.studies.end()) {
      complete = false;
      continue;
    }
    studies.push_back(assemble_study(study, found->second));
  }
  return complete;
}

/// A slowdown that an earlier part of the run was measured with is no longer in the environment.
void tell_of_planted(const json& cells, json& context) {
  std::size_t planted = 0;
  for (const auto& cell : cells) planted += cell.at("library").contains("planted slowdown");
  if (planted == 0) return;
  context["environment"]["warnings"].push_back(
      "A slowdown was planted on purpose in " + std::to_string(planted) + " of " +
      std::to_string(cells.size()) + " cells: these times only calibrate `compare`.");
}

/// What --processes, --repetitions and --max-seconds have made of the experiment's own.
json sampling_of(const Plan& plan) {
  const Sampling& sampling = plan.cells.empty() ? plan.sampling : plan.cells.front().sampling;
  return {{"processes", sampling.processes},
          {"repetitions", sampling.repetitions},
          {"min_seconds", sampling.min_seconds},
          {"max_seconds", sampling.max_seconds}};
}

/// The names of all that the whole experiment has, in its order.
json planned_names(const Plan& plan) {
  json names{{"cells", json::array()}, {"traces", json::array()}, {"studies", json::array()}};
  for (const auto& cell : plan.cells) names["cells"].push_back(cell.key.text());
  for (const auto& trace : plan.traces) names["traces"].push_back(trace.spec.name);
  for (const auto& study : plan.studies) names["studies"].push_back(study.spec.name);
  return names;
}

json context_of(const RunTold& told, bool ended) {
  const BuildInfo& build = build_info();
  json data_seeds = json::object();
  const json& datasets = told.journal.datasets;
  for (const auto& [label, dataset] : datasets.items()) {
    if (dataset.at("spec").contains("seed")) data_seeds[label] = dataset.at("spec").at("seed");
  }
  const auto changes =
      worker_environment(told.environment, told.settings.threads, told.settings.keep_environment);
  return {
      {"suite",
       {{"version", build.version},
        {"git_commit", build.git_commit},
        {"git_dirty", build.git_dirty},
        {"build_type", build.build_type},
        {"sanitizers", build.sanitizers},
        {"compiler", build.compiler},
        {"variant_flags", build.variant_flags},
        {"march", build.march},
        {"cuda", build.cuda}}},
      {"command_line", told.settings.command_line},
      {"started", told.started},
      {"finished", ended ? json(utc_now()) : json(nullptr)},
      {"machine", told.surroundings.machine},
      {"conditions",
       told.surroundings.conditions.is_array() ? told.surroundings.conditions : json::array()},
      {"ceilings", told.surroundings.limits.ceilings},
      {"environment", environment_context(told.environment, changes)},
      {"threads", told.settings.threads},
      {"sampling", sampling_of(told.plan)},
      {"datasets", datasets},
      {"seeds",
       {{"order", told.settings.order_seed}, {"data", data_seeds}, {"init", told.experiment.init}}},
      {"run_order", told.journal.run_order}};
}

}  // namespace

std::string status_of(const json& result) {
  const auto found = result.find("status");
  return found != result.end() && found->is_string() ? found->get<std::string>() : "error";
}

json run_result(const RunTold& told, bool ended) {
  json cells = json::array();
  json traces = json::array();
  json studies = json::array();
  const bool all_cells = add_cells(told, cells);
  const bool all_traces = add_traces(told, traces);
  const bool all_studies = add_studies(told, studies);
  mark_wrong_elsewhere(cells);
  json surroundings = context_of(told, ended);
  tell_of_planted(cells, surroundings);
  const bool complete = ended && all_cells && all_traces && all_studies;
  json result{{"schema_version", kResultSchemaVersion},
              {"experiment", told.experiment.name},
              {"scale", told.plan.scale},
              {"complete", complete},
              {"planned_cells", told.plan.cells.size()},
              {"context", std::move(surroundings)},
              {"spec", told.experiment.document.value},
              {"cells", std::move(cells)},
              {"traces", std::move(traces)},
              {"studies", std::move(studies)}};
  // Parts are put in this order, and found complete by it (harness/compare/merge.h).
  if (!complete) result["planned"] = planned_names(told.plan);
  return result;
}

RunSummary summary_of(const json& result) {
  RunSummary summary;
  summary.complete = result.at("complete");
  for (const auto& cell : result.at("cells")) {
    if (!cell.at("unsteady").empty()) {
      ++summary.unsteady;
    } else if (status_of(cell) == "ok" && !cell.at("noted").empty()) {
      ++summary.noted;
    }
  }
  for (const char* part : {"cells", "traces", "studies"}) {
    for (const auto& entry : result.at(part)) {
      const std::string status = status_of(entry);
      ++(status == "ok"        ? summary.ok
         : status == "wrong"   ? summary.wrong
         : status == "skipped" ? summary.skipped
                               : summary.failed);
      if (status == "wrong" && entry.contains("wrong_because") &&
          !entry.at("wrong_because").is_null()) {
        ++summary.wrong_as_expected;
      }
    }
  }
  return summary;
}

}  // namespace kmeans
