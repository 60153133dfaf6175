// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "harness/compare/compare_answers.h"
#include "harness/compare/compare_context.h"
#include "harness/compare/compare_gate.h"
#include "harness/support/errors.h"
#include "harness/support/json_member.h"
#include "harness/support/only.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

double smallest(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

using FileKey = std::pair<std::string, std::string>;

std::string named(const std::vector<ResultFile>& files) {
  std::string text;
  for (const auto& file : files) {
    text += (text.empty() ? "" : ", ") + file.experiment + " (" + file.scale + ")";
  }
  return text;
}

json side_json(const std::vector<ResultFile>& files, const std::string& label) {
  const json& machine = files.front().context.at("machine");
  json gpus;
  for (const auto& gpu : machine.at("gpus")) {
    const std::string name = text_in(gpu, "name");
    gpus = gpus.is_null() ? json(name) : json(gpus.get<std::string>() + ", " + name);
  }
  json list = json::array();
  for (const auto& file : files) {
    const json& suite = file.context.at("suite");
    list.push_back({{"experiment", file.experiment},
                    {"scale", file.scale},
                    {"complete", file.complete},
                    {"ended", !member(file.context, "finished").is_null()},
                    {"git_commit", suite.at("git_commit")},
                    {"git_dirty", suite.at("git_dirty")},
                    {"started", file.context.at("started")}});
  }
  return {{"label", label},
          {"machine", files.front().machine},
          {"cpu", member(machine.at("cpu"), "model")},
          {"gpu", gpus},
          {"files", list}};
}

void refuse_other_hardware(
    const std::vector<std::pair<const ResultFile*, const ResultFile*>>& pairs,
    const CompareSettings& settings) {
  if (settings.cross_hardware) return;
  Sentences sentences;
  for (const auto& [base, changed] : pairs) {
    for (const auto& sentence : hardware_differences(base->context, changed->context)) {
      sentences.add(sentence);
    }
  }
  std::string list;
  for (const auto& sentence : sentences.take()) list += "\n  " + sentence;
  if (list.empty()) return;
  throw InputError("base and new come from different hardware:" + list +
                   "\nA difference in time is then no regression. Measure the base on this "
                   "machine, or ask which machine is faster with --machines (cell by cell, as if "
                   "it were one: --cross-hardware)");
}

/// Worst first: correctness apart, the largest slowdown leads, then the largest gain, then what is
/// unclear, by how far it is off.
void sort_cells(std::vector<ComparedCell>& cells) {
  const auto rank = [](const ComparedCell& cell) {
    const double size = cell.times ? std::abs(std::log(cell.times->ratio)) : 0;
    return std::tuple{static_cast<int>(cell.verdict), -size};
  };
  std::stable_sort(cells.begin(), cells.end(), [&](const auto& a, const auto& b) {
    return std::tuple{rank(a), a.experiment, a.key.text()} <
           std::tuple{rank(b), b.experiment, b.key.text()};
  });
}

/// The two were measured by one session of `compare --run`.
bool took_turns(const ResultFile& base, const ResultFile& changed) {
  const std::string session = text_in(base.context, "turns");
  return !session.empty() && session == text_in(changed.context, "turns");
}

}  // namespace

const char* to_string(CellVerdict verdict) {
  switch (verdict) {
    case CellVerdict::slower: return "slower";
    case CellVerdict::faster: return "faster";
    case CellVerdict::unclear: return "unclear";
    case CellVerdict::same: return "same";
    case CellVerdict::untimed: return "untimed";
  }
  return "?";
}

std::size_t Comparison::count(CellVerdict verdict) const {
  return static_cast<std::size_t>(std::count_if(
      cells.begin(), cells.end(), [&](const auto& cell) { return cell.verdict == verdict; }));
}

std::size_t Comparison::correctness_regressions() const {
  const auto broken = [](const auto& one) { return one.correctness_regression; };
  return static_cast<std::size_t>(std::count_if(cells.begin(), cells.end(), broken) +
                                  std::count_if(records.begin(), records.end(), broken));
}

Comparison compare_results(const std::vector<ResultFile>& base, const std::string& base_label,
                           const std::vector<ResultFile>& changed, const std::string& new_label,
                           const CompareSettings& settings) {
  Comparison comparison;
  comparison.settings = settings;
  comparison.base = side_json(base, base_label);
  comparison.changed = side_json(changed, new_label);

  std::map<FileKey, const ResultFile*> partners;
  for (const auto& file : changed) partners[{file.experiment, file.scale}] = &file;
  std::vector<std::pair<const ResultFile*, const ResultFile*>> pairs;
  std::set<const ResultFile*> paired;
  for (const auto& file : base) {
    const auto found = partners.find({file.experiment, file.scale});
    if (found == partners.end()) continue;
    pairs.emplace_back(&file, found->second);
    paired.insert(&file);
    paired.insert(found->second);
  }
  if (pairs.empty()) {
    throw InputError("nothing to compare: base holds " + named(base) + ", new holds " +
                     named(changed) + "; experiment and scale must be equal");
  }
  refuse_other_hardware(pairs, settings);

  const auto selected = [&](const ResultFile& file, const CellResult& cell) {
    return !settings.only || takes(*settings.only, {file.experiment, cell.key.text()});
  };
  const auto miss = [&](const ResultFile& file, const CellResult& cell, const std::string& reason) {
    if (selected(file, cell) && cell.status != "skipped") {
      comparison.missing.push_back({file.experiment, cell.key.text(), reason});
    }
  };
  for (const auto& file : base) {
    if (paired.contains(&file)) continue;
    for (const auto& cell : file.cells) miss(file, cell, "new has no such experiment and scale");
  }
  for (const auto& file : changed) {
    if (paired.contains(&file)) continue;
    for (const auto& cell : file.cells) {
      if (selected(file, cell)) comparison.added.push_back({file.experiment, cell.key.text(), ""});
    }
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  std::vector<TimePair> times;
  std::vector<std::size_t> timed;
  std::size_t at_one_pace = 0;
  bool turns = true;
  std::map<std::string, std::set<std::string>> library_changes;
  for (const auto& [base_file, new_file] : pairs) {
    Sentences own;
    list_differences(*base_file, *new_file, own);
    found.emplace_back(base_file->experiment, own.take());
    turns = turns && took_turns(*base_file, *new_file);
    const auto matches = match_cells(*base_file, *new_file, settings.cross_hardware);
    for (const auto& match : matches) {
      if (match.base == nullptr) {
        if (selected(*new_file, *match.changed)) {
          comparison.added.push_back({new_file->experiment, match.changed->key.text(), ""});
        }
        continue;
      }
      if (match.changed == nullptr) {
        miss(*base_file, *match.base, absence(match.base->key, matches));
        continue;
      }
      if (!selected(*base_file, *match.base) && !selected(*new_file, *match.changed)) continue;
      const std::string reason = incomparable(*base_file, *match.base, *new_file, *match.changed);
      if (!reason.empty()) {
        miss(*base_file, *match.base, "not comparable: " + reason);
        continue;
      }
      const CellResult* base_cell = match.base;
      const CellResult* new_cell = match.changed;
      std::pair<CellResult, CellResult> steady;
      if (settings.steady_clock && goes_with_pace(*base_cell) && goes_with_pace(*new_cell)) {
        const double pace = std::min(smallest(base_cell->paces), smallest(new_cell->paces));
        steady = {at_pace(*base_cell, pace), at_pace(*new_cell, pace)};
        base_cell = &steady.first;
        new_cell = &steady.second;
        ++at_one_pace;
      }
      if (bits_vary(*base_cell, *new_cell)) ++comparison.bits_vary;
      ComparedCell cell = compare_cell(*base_file, *base_cell, *new_cell);
      if (cell.base.seconds && cell.changed.seconds) {
        timed.push_back(comparison.cells.size());
        times.push_back({base_cell->samples, new_cell->samples, took_turns(*base_file, *new_file)});
      }
      Sentences libraries;
      libraries.compare_flat("", member(match.base->data, "library"),
                             member(match.changed->data, "library"));
      if (cell.base.seconds && cell.changed.seconds) {
        for (const auto& sentence : libraries.take()) {
          library_changes[sentence].insert(cell.key.variant);
        }
      }
      comparison.cells.push_back(std::move(cell));
    }
    compare_records(*base_file, *new_file, settings, comparison);
  }
  Sentences differences;
  for (const auto& sentence : attributed(found)) differences.add(sentence);
  for (const auto& [sentence, variants] : library_changes) {
    std::string names;
    for (const auto& name : variants) names += (names.empty() ? "" : ", ") + name;
    differences.add("library behind " + names + ":" + sentence);
  }
  if (settings.steady_clock) {
    differences.add("times are relative to a fixed computation next to them, as asked for, in " +
                    counted(at_one_pace, "cell", "cells") + " of " +
                    std::to_string(comparison.cells.size()));
  }
  comparison.differences = differences.take();

  const auto verdicts = judge_times(times, settings);
  double log_sum = 0;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    ComparedCell& cell = comparison.cells[timed[i]];
    cell.times = verdicts[i];
    cell.verdict = verdicts[i].verdict;
    cell.why = verdicts[i].why;
    log_sum += std::log(verdicts[i].ratio);
  }
  comparison.timed = timed.size();
  if (settings.geometric_mean && !timed.empty()) {
    comparison.geometric_mean_ratio = std::exp(log_sum / static_cast<double>(timed.size()));
  }
  comparison.interleaved = turns;
  judge_groups(times, timed, comparison);
  sort_cells(comparison.cells);
  judge_gate(comparison);
  return comparison;
}

}  // namespace kmeans
