// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare.h"
#include "harness/record/cell_key.h"

namespace kmeans {

using nlohmann::json;

json to_json(const Comparison& comparison) {
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json(nullptr);
  };
  const auto side = [&](const ComparedSide& one) {
    return json{{"status", one.status},
                {"reason", one.reason.empty() ? json(nullptr) : json(one.reason)},
                {"seconds", number(one.seconds)},
                {"ci95_low", number(one.low)},
                {"ci95_high", number(one.high)},
                {"processes", one.processes},
                {"samples", one.samples},
                {"unsteady", one.unsteady},
                {"noted", one.noted}};
  };
  json cells = json::array();
  for (const auto& cell : comparison.cells) {
    const bool timed = cell.times.has_value();
    cells.push_back({{"experiment", cell.experiment},
                     {"new_key", cell.new_key.text()},
                     {"backend", cell.backend},
                     {"base", side(cell.base)},
                     {"new", side(cell.changed)},
                     {"ratio", timed ? json(cell.times->ratio) : json(nullptr)},
                     {"ratio_low", timed ? number(cell.times->low) : json(nullptr)},
                     {"ratio_high", timed ? number(cell.times->high) : json(nullptr)},
                     {"p", timed ? json(cell.times->p) : json(nullptr)},
                     {"p_adjusted", timed ? number(cell.times->p_adjusted) : json(nullptr)},
                     {"sees", timed ? number(cell.times->sees) : json(nullptr)},
                     {"verdict", to_string(cell.verdict)},
                     {"why", cell.why},
                     {"outcome", cell.outcome ? json(to_string(*cell.outcome)) : json(nullptr)},
                     {"outcome_why", cell.outcome_why},
                     {"correctness", cell.correctness},
                     {"correctness_regression", cell.correctness_regression},
                     {"still_broken", cell.still_broken}});
    cells.back().update(to_json(cell.key));
  }
  json records = json::array();
  for (const auto& record : comparison.records) {
    records.push_back({{"experiment", record.experiment},
                       {"kind", record.kind},
                       {"name", record.name},
                       {"correctness", record.correctness},
                       {"correctness_regression", record.correctness_regression},
                       {"lost", record.lost}});
  }
  json groups = json::array();
  for (const auto& group : comparison.groups) {
    groups.push_back({{"variant", group.variant.empty() ? json(nullptr) : json(group.variant)},
                      {"cells", group.cells},
                      {"verdict", to_string(group.verdict)},
                      {"ratio", group.ratio},
                      {"ratio_low", number(group.low)},
                      {"ratio_high", number(group.high)},
                      {"p", group.p},
                      {"p_adjusted", group.p_adjusted},
                      {"sees", number(group.sees)},
                      {"doubtful", group.doubtful}});
  }
  json missing = json::array();
  for (const auto& cell : comparison.missing) {
    missing.push_back(
        {{"experiment", cell.experiment}, {"key", cell.key}, {"reason", cell.reason}});
  }
  json added = json::array();
  for (const auto& cell : comparison.added) {
    added.push_back({{"experiment", cell.experiment}, {"key", cell.key}});
  }
  const CompareSettings& settings = comparison.settings;
  return {{"comparison_version", 2},
          {"base", comparison.base},
          {"new", comparison.changed},
          {"settings",
           {{"effect", settings.effect},
            {"confidence", settings.confidence},
            {"false_discovery_rate", settings.false_discovery_rate},
            {"steady_clock", settings.steady_clock},
            {"cross_hardware", settings.cross_hardware},
            {"allow_missing", settings.allow_missing}}},
          {"interleaved", comparison.interleaved},
          {"differences", comparison.differences},
          {"bits_vary", comparison.bits_vary},
          {"counts",
           {{"cells", comparison.cells.size()},
            {"faster", comparison.count(CellVerdict::faster)},
            {"slower", comparison.count(CellVerdict::slower)},
            {"same", comparison.count(CellVerdict::same)},
            {"unclear", comparison.count(CellVerdict::unclear)},
            {"untimed", comparison.count(CellVerdict::untimed)},
            {"correctness", comparison.correctness_regressions()},
            {"missing", comparison.missing.size()},
            {"added", comparison.added.size()}}},
          {"geometric_mean_ratio", number(comparison.geometric_mean_ratio)},
          {"cells", cells},
          {"groups", groups},
          {"sees", sees_line(comparison)},
          {"records", records},
          {"missing", missing},
          {"added", added},
          {"gate",
           {{"outcome", to_string(comparison.gate.outcome)},
            {"reasons", comparison.gate.reasons},
            {"undecided", comparison.gate.undecided},
            {"notes", comparison.gate.notes}}}};
}

}  // namespace kmeans
