// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_result.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "harness/record/measures.h"
#include "harness/record/wrong_elsewhere.h"
#include "harness/support/build_info.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// A unit's entry of the result file; null where nothing is known of it.

json entry_of(const RunFacts& facts, const Cell& cell, bool skipped) {
  const auto evidence = facts.evidence_of(cell);
  if (!skipped && evidence.processes.empty()) return nullptr;
  return assemble_cell(facts.experiment.name, cell, evidence, facts.surroundings.limits);
}

json assemble(const PlannedTrace& trace, const json& recorded) {
  return assemble_trace(trace, recorded);
}
json assemble(const PlannedStudy& study, const json& recorded) {
  return assemble_study(study, recorded);
}
json assemble(const PlannedFit& fit, const json& recorded) { return assemble_fit(fit, recorded); }

template <class RecordedUnit>
json entry_of(const RunFacts& facts, const RecordedUnit& unit, bool skipped) {
  const auto& records = facts.journal.of(unit.kPart);
  const auto found = records.find(unit.name());
  const bool recorded = found != records.end();
  return recorded || skipped ? assemble(unit, recorded ? found->second : json()) : json();
}

/// All that is known of a list of units. Returns whether that is all that was planned.
template <class PlannedUnit>
bool add_units(const RunFacts& facts, const std::vector<PlannedUnit>& units, json& entries) {
  bool complete = true;
  for (const auto& unit : units) {
    // A resumed run keeps what earlier ones found, also outside this one's --only.
    const bool skipped = !unit.skip_reason.empty() && (unit.selected || facts.settings.resume);
    json entry = entry_of(facts, unit, skipped);
    if (entry.is_null()) {
      complete = false;
    } else {
      entries.push_back(std::move(entry));
    }
  }
  return complete;
}

json sampling_of(const Plan& plan) {
  const Sampling& sampling = plan.agreed_sampling();
  return {{"processes", sampling.processes},
          {"repetitions", sampling.repetitions},
          {"min_seconds", sampling.min_seconds},
          {"max_seconds", sampling.max_seconds}};
}

/// The names of all that the whole experiment has, in its order.
json planned_names(const Plan& plan) {
  json names{{"cells", json::array()},
             {"traces", json::array()},
             {"studies", json::array()},
             {"fits", json::array()}};
  const auto list = [](Part part) {
    return part == Part::cell    ? "cells"
           : part == Part::trace ? "traces"
           : part == Part::study ? "studies"
                                 : "fits";
  };
  each_unit(plan, [&](const auto& unit) { names[list(unit.kPart)].push_back(unit.name()); });
  return names;
}

json context_of(const RunFacts& facts, bool ended) {
  const BuildInfo& build = build_info();
  json data_seeds = json::object();
  const json& datasets = facts.journal.datasets;
  for (const auto& [label, dataset] : datasets.items()) {
    if (dataset.at("spec").contains("seed")) data_seeds[label] = dataset.at("spec").at("seed");
  }
  const auto changes = worker_environment(facts.environment, facts.settings.threads,
                                          facts.settings.keep_environment);
  json context{
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
      {"command_line", facts.settings.command_line},
      {"started", facts.started},
      {"finished", ended ? json(utc_now()) : json(nullptr)},
      {"machine", facts.surroundings.machine},
      {"conditions",
       facts.surroundings.conditions.is_array() ? facts.surroundings.conditions : json::array()},
      {"ceilings", facts.surroundings.limits.ceilings},
      {"environment", environment_context(facts.environment, changes)},
      {"threads", facts.settings.threads},
      {"sampling", sampling_of(facts.plan)},
      {"datasets", datasets},
      {"seeds",
       {{"order", facts.settings.order_seed},
        {"data", data_seeds},
        {"init", facts.experiment.init}}},
      {"run_order", facts.journal.run_order}};
  if (!facts.settings.turns.empty()) context["turns"] = valid_utf8(facts.settings.turns);
  return context;
}

}  // namespace

std::string status_of(const json& result) {
  const auto found = result.find("status");
  return found != result.end() && found->is_string() ? found->get<std::string>() : "error";
}

json run_result(const RunFacts& facts, bool ended) {
  json cells = json::array();
  json traces = json::array();
  json studies = json::array();
  json fits = json::array();
  const bool all_cells = add_units(facts, facts.plan.cells, cells);
  const bool all_traces = add_units(facts, facts.plan.traces, traces);
  const bool all_studies = add_units(facts, facts.plan.studies, studies);
  const bool all_fits = add_units(facts, facts.plan.fits, fits);
  mark_wrong_elsewhere(cells);
  json surroundings = context_of(facts, ended);
  const bool complete = ended && all_cells && all_traces && all_studies && all_fits;
  json result{{"schema_version", kResultSchemaVersion},
              {"experiment", facts.experiment.name},
              {"scale", facts.plan.scale},
              {"complete", complete},
              {"planned_cells", facts.plan.cells.size()},
              {"context", std::move(surroundings)},
              {"spec", facts.experiment.document.value},
              {"cells", std::move(cells)},
              {"traces", std::move(traces)},
              {"studies", std::move(studies)},
              {"fits", std::move(fits)}};
  // Parts are put in this order, and found complete by it (harness/compare/merge.h).
  if (!complete) result["planned"] = planned_names(facts.plan);
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
  for (const char* part : {"cells", "traces", "studies", "fits"}) {
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
