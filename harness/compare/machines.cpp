// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/machines.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "harness/compare/compare.h"
#include "harness/record/agreement.h"
#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_member.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// An iteration that takes more than so many times its limit on both machines is not bound by it.
constexpr double kNearLimit = 4;
// A rate times a time is the bytes again, up to rounding.
constexpr double kSameBytes = 1e-6;

// --- One machine ---

/// The rates of a device that a reader compares times with; null where none was measured.
json limits_of(const json& ceilings) {
  json limits = json::object();
  for (const char* key :
       {"read_gbytes_per_second", "read_gbytes_per_second_l2", "read_gbytes_per_second_cache",
        "fma_gflops", "gemm_gflops", "launch_seconds", "grid_barrier_seconds"}) {
    json value = member(ceilings, key);
    if (value.is_object()) {
      for (auto it = value.begin(); it != value.end();) {
        it = it->is_number() ? std::next(it) : value.erase(it);
      }
    }
    if (value.is_number() || value.is_object()) limits[key] = value;
  }
  const json link = member(member(ceilings, "host_to_device_gbytes_per_second"), "pinned");
  if (link.is_number()) limits["host_to_device_gbytes_per_second"] = link;
  return limits.empty() ? json() : limits;
}

/// "NVIDIA H100 80GB HBM3" -> "H100": without the maker and the memory.
std::string short_gpu_name(std::string name) {
  static constexpr std::string_view kMaker = "NVIDIA ";
  if (name.starts_with(kMaker)) name.erase(0, kMaker.size());
  const auto memory = name.find("GB");
  if (memory == std::string::npos) return name;
  const auto space = name.rfind(' ', memory);
  return space == std::string::npos || space == 0 ? name : name.substr(0, space);
}

json machine_json(const MachineResults& machine) {
  const ResultFile& newest = with_newest_ceilings(machine.files);
  const json& context = newest.context;
  const json& hardware = context.at("machine");
  const json gpus = member(hardware, "gpus");
  const json ceilings = member(context, "ceilings");
  json gpu;
  if (gpus.is_array() && !gpus.empty()) gpu = valid_utf8(text_in(gpus.front(), "name"));
  json files = json::array();
  for (const auto& file : machine.files) {
    const json& suite = file.context.at("suite");
    files.push_back({{"experiment", file.experiment},
                     {"scale", file.scale},
                     {"complete", file.complete},
                     {"git_commit", suite.at("git_commit")},
                     {"git_dirty", suite.at("git_dirty")},
                     {"schema_version", kResultSchemaVersion},
                     {"started", file.context.at("started")}});
  }
  return {{"label", machine.label},
          {"name", machine.label},
          {"machine", newest.machine},
          {"cpu", valid_utf8(text_in(member(hardware, "cpu"), "model"))},
          {"threads", member(member(hardware, "cpu"), "usable_threads")},
          {"gpu", gpu},
          {"gpus", gpus.is_array() ? gpus.size() : 0},
          {"limits",
           {{"file", newest.experiment},
            {"gpu", limits_of(member(ceilings, "gpu"))},
            {"cpu", limits_of(ceilings)}}},
          {"files", files}};
}

/// Machines go by their GPU, else by their processor, where that distinguishes them.
void name_machines(std::vector<json>& machines) {
  const auto try_names = [&](const auto& name_of) {
    std::set<std::string> names;
    for (const auto& machine : machines) names.insert(name_of(machine));
    if (names.size() < machines.size() || names.contains("")) return false;
    for (auto& machine : machines) machine["name"] = name_of(machine);
    return true;
  };
  if (try_names([](const json& m) { return short_gpu_name(text_in(m, "gpu")); })) return;
  const bool gpus = std::any_of(machines.begin(), machines.end(),
                                [](const json& machine) { return machine.at("gpu").is_string(); });
  if (!gpus) try_names([](const json& m) { return text_in(m, "cpu"); });
}

// --- One cell ---

using CellPlace = std::pair<std::string, std::string>;  // experiment, key
using Found = std::pair<const ResultFile*, const CellResult*>;

std::map<CellPlace, Found> cells_by_place(const std::vector<ResultFile>& files) {
  std::map<CellPlace, Found> found;
  for (const auto& file : files) {
    for (const auto& cell : file.cells) found[{file.experiment, cell.key.text()}] = {&file, &cell};
  }
  return found;
}

WorkKind kind_by(const Limit& limit) {
  if (limit.binds == "bandwidth") return limit.from_cache ? WorkKind::cache : WorkKind::memory;
  if (limit.binds == "arithmetic") return WorkKind::products;
  if (limit.binds == "a grid barrier") return WorkKind::launches;
  return WorkKind::streaming;
}

WorkKind kind_of(const MachineCell& cell) {
  if (cell.gpus > 1) return WorkKind::several;
  const auto& [first, second] = cell.limits;
  if (!first || !second) return WorkKind::other;
  const WorkKind kind = kind_by(*first);
  if (kind != kind_by(*second)) return WorkKind::other;
  if (kind == WorkKind::launches) return kind;  // many launches and barriers are its very point
  const bool near = cell.seconds.first <= kNearLimit * first->seconds ||
                    cell.seconds.second <= kNearLimit * second->seconds;
  return near ? kind : WorkKind::other;
}

/// Result files hold no hash of a variant's source, but the names of its stages and the bytes that
/// it declares to move. Those follow from the shape, and from the number of threads of some.
bool other_work(const CellResult& first, const CellResult& second) {
  const auto stages_of = [](const CellResult& cell) {
    std::set<std::string> names;
    const json stages = member(cell.data, "stages");
    if (stages.is_object()) {
      for (const auto& stage : stages.items()) names.insert(stage.key());
    }
    return names;
  };
  if (stages_of(first) != stages_of(second)) return true;
  const auto bytes_of = [](const CellResult& cell) -> std::optional<double> {
    const json rate = member(member(cell.data, "gbytes_per_second"), "as_written");
    if (!rate.is_number() || !cell.median) return std::nullopt;
    return rate.get<double>() * *cell.median;
  };
  const auto bytes = bytes_of(first);
  const auto others = bytes_of(second);
  if (!bytes || !others || first.key.threads != second.key.threads) return false;
  return std::abs(*bytes - *others) > kSameBytes * std::max(*bytes, *others);
}

// --- Ratios ---

/// At the confidence asked for; where processes are too few for that, between the smallest and the
/// largest quotient, which three processes a side make an interval of 90 %.
SpeedRatio speed_of(const std::vector<std::vector<double>>& first,
                    const std::vector<std::vector<double>>& second, double confidence) {
  SpeedRatio speed;
  speed.ratio = headline_median(first) / headline_median(second);
  const auto slower = process_medians(first);
  const auto faster = process_medians(second);
  auto interval = ratio_interval(faster, slower, confidence);
  speed.confidence = confidence;
  if (!interval && std::min(first.size(), second.size()) >= 3) {
    speed.confidence = 1 - smallest_p(first.size(), second.size());
    // A hair below: rounding must not lose the outermost quotients.
    interval = ratio_interval(faster, slower, speed.confidence - 1e-9);
  }
  if (!interval) {
    speed.confidence = 0;
    return speed;
  }
  speed.low = std::min(interval->first, speed.ratio);
  speed.high = std::max(interval->second, speed.ratio);
  return speed;
}

/// Beyond the effect both up and down in more than a few of the shapes: then they have no ratio in
/// common.
constexpr std::size_t kFewOf = 6;

struct ShapeMember {
  std::size_t cell = 0;
  Stratum processes;  ///< Base is the second machine, so that ratios are speed-ups.
};

MachineGroup judged_group(const std::vector<MachineCell>& cells,
                          const std::vector<ShapeMember>& members,
                          const MachinesSettings& settings) {
  const MachineCell& first = cells[members.front().cell];
  MachineGroup group;
  group.on_gpu = first.on_gpu;
  group.kind = first.kind;
  group.shapes = members.size();
  group.extremes = {members.front().cell, members.front().cell};
  std::vector<Stratum> strata;
  std::size_t up = 0;
  std::size_t down = 0;
  for (const auto& member : members) {
    const MachineCell& cell = cells[member.cell];
    const double ratio = cell.speed.ratio;
    const bool faster = cell.verdict == MachineVerdict::faster;
    const bool slower = cell.verdict == MachineVerdict::slower;
    group.faster += faster ? 1 : 0;
    group.slower += slower ? 1 : 0;
    group.equal += cell.verdict == MachineVerdict::equal ? 1 : 0;
    up += faster && ratio > 1 + settings.effect ? 1 : 0;
    down += slower && ratio < 1 / (1 + settings.effect) ? 1 : 0;
    auto& [least, most] = group.extremes;
    if (ratio < cells[least].speed.ratio) least = member.cell;
    if (ratio > cells[most].speed.ratio) most = member.cell;
    strata.push_back(member.processes);
  }
  if (members.size() == 1) {
    group.speed = first.speed;
    group.verdict = first.verdict;
    return group;
  }
  group.speed.ratio = stratified_test(strata).ratio;
  if (const auto interval = stratified_interval(strata, settings.confidence)) {
    group.speed.low = interval->first;
    group.speed.high = interval->second;
    group.speed.confidence = settings.confidence;
  }
  group.verdict = verdict_of(group.speed, settings.effect);
  const bool both_ways = std::min(up, down) > 0 && kFewOf * std::min(up, down) >= members.size();
  // Shapes that are decided one by one, and not alike.
  const std::size_t decided = group.faster + group.slower + group.equal;
  const bool unlike = std::max({group.faster, group.slower, group.equal}) < decided;
  const bool half_decided =
      group.verdict == MachineVerdict::undecided && 2 * decided >= members.size();
  if (both_ways || (half_decided && unlike)) group.verdict = MachineVerdict::mixed;
  return group;
}

/// What is computed, whatever the precision of the answer: points in float64 are others.
std::string problem_of(const MachineCell& cell) {
  const Shape& shape = cell.key.shape;
  return formatted("%d/%lld/%lld/%lld/%d/%lld/%d/", cell.on_gpu ? 0 : 1,
                   static_cast<long long>(shape.n), static_cast<long long>(shape.d),
                   static_cast<long long>(shape.k), shape.precision == Precision::f64 ? 1 : 0,
                   static_cast<long long>(cell.key.iterations), cell.gpus) +
         cell.key.dataset;
}

/// By shape, the fastest one first.
void sort_machine_cells(std::vector<MachineCell>& cells) {
  const auto place = [](const MachineCell& cell) {
    const Shape& shape = cell.key.shape;
    return std::tuple{!cell.on_gpu,  cell.gpus,        shape.n,         shape.d,
                      shape.k,       cell.key.dataset, shape.precision, cell.key.iterations,
                      !cell.fastest, cell.key.variant, cell.experiment};
  };
  std::stable_sort(cells.begin(), cells.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
}

/// Marks the fastest cell of each shape, an exact one where there is one, and of those one of the
/// same program, by the geometric mean of both machines' times; puts those of one kind together.
void judge_shapes(MachinePair& pair, const std::map<CellPlace, Stratum>& processes,
                  const MachinesSettings& settings) {
  std::map<std::string, std::size_t> best;
  const auto rank = [&](std::size_t i) {
    const MachineCell& cell = pair.cells[i];
    return std::tuple{!cell.exact, cell.changed, cell.seconds.first * cell.seconds.second};
  };
  for (std::size_t i = 0; i < pair.cells.size(); ++i) {
    const auto [found, added] = best.emplace(problem_of(pair.cells[i]), i);
    if (!added && rank(i) < rank(found->second)) found->second = i;
  }
  std::map<std::pair<bool, WorkKind>, std::vector<ShapeMember>> groups;
  for (const auto& [problem, i] : best) pair.cells[i].fastest = true;
  sort_machine_cells(pair.cells);
  for (std::size_t i = 0; i < pair.cells.size(); ++i) {
    const MachineCell& cell = pair.cells[i];
    if (!cell.fastest) continue;
    const Stratum& own = processes.at({cell.experiment, cell.key.text()});
    groups[{!cell.on_gpu, cell.kind}].push_back({i, own});
  }
  for (const auto& [where, members] : groups) {
    pair.groups.push_back(judged_group(pair.cells, members, settings));
  }
}

// --- Two machines ---

/// Of one experiment in both; experiments of one scale alone are compared.
bool same_experiment(const ResultFile& first, const ResultFile& second) {
  return first.experiment == second.experiment && first.scale == second.scale;
}

std::string commit_of(const ResultFile& file) {
  const json& suite = file.context.at("suite");
  return text_in(suite, "git_commit").substr(0, 12) +
         (member(suite, "git_dirty") == true ? " with local changes" : "");
}

/// Commits of the experiments in both that were measured by two; none of a machine stands twice.
std::pair<json, json> differing_commits(const std::vector<ResultFile>& first,
                                        const std::vector<ResultFile>& second,
                                        const std::set<std::string>& shared) {
  std::pair<json, json> commits{json::array(), json::array()};
  const auto add = [](json& list, const std::string& commit) {
    if (std::find(list.begin(), list.end(), commit) == list.end()) list.push_back(commit);
  };
  for (const auto& file : first) {
    for (const auto& other : second) {
      if (!same_experiment(file, other) || !shared.contains(file.experiment)) continue;
      if (commit_of(file) == commit_of(other)) continue;
      add(commits.first, commit_of(file));
      add(commits.second, commit_of(other));
    }
  }
  return commits;
}

std::string changed_note(const MachinePair& pair) {
  std::map<std::string, std::size_t> changed;
  for (const auto& cell : pair.cells) {
    if (cell.changed) ++changed[cell.key.variant];
  }
  if (changed.empty()) return "";
  std::string names;
  for (const auto& [variant, cells] : changed) {
    names += (names.empty() ? "" : ", ") + variant + " (" + counted(cells, "cell", "cells") + ")";
  }
  return "Changed between the commits, by stages or bytes on file: " + names +
         "; a shape counts by another cell that is as exact, where there is one";
}

std::string unseen_note(const MachinePair& pair) {
  if (pair.commits.first.empty()) return "";
  return "A variant that changed between the commits with the same stages and bytes looks like a "
         "change of machine: the files have no hash of its source. Measure both by one commit "
         "(docs/comparing.md)";
}

std::string refusal_of_commits(const MachinePair& pair) {
  std::string list;
  for (const auto& [machine, commits] :
       {std::pair{&pair.first, &pair.commits.first}, {&pair.second, &pair.commits.second}}) {
    list += "\n  " + text_in(*machine, "label") + ":";
    for (const auto& commit : *commits) list += " " + commit.get<std::string>();
  }
  return "the two were measured by different commits:" + list +
         "\nMeasure both by one, or leave out --same-commit";
}

/// One is right and the other wrong, of a variant that is not kept for being wrong.
bool one_is_wrong(const CellResult& first, const CellResult& second) {
  const bool wrong = (first.status == "wrong" && second.status == "ok") ||
                     (first.status == "ok" && second.status == "wrong");
  return wrong && !first.wrong_because && !second.wrong_because;
}

void compare_answers(const Comparison& comparison, const std::map<CellPlace, Found>& first,
                     const std::map<CellPlace, Found>& second, MachinePair& pair) {
  for (const auto& cell : comparison.cells) {
    const CellResult& one = *first.at({cell.experiment, cell.key.text()}).second;
    const CellResult& other = *second.at({cell.experiment, cell.new_key.text()}).second;
    const bool both = one.status == "ok" && other.status == "ok";
    if (both && one.exact) ++pair.exact_answers;
    const auto disagree = [&](const std::string& sentence) {
      pair.disagreements.push_back(cell.experiment + ": " + cell.key.text() + ": " + sentence);
    };
    if (one_is_wrong(one, other)) {
      disagree(one.status + " in base, " + other.status +
               " in new: " + valid_utf8(one.status == "wrong" ? one.reason : other.reason));
    } else if (both && cell.correctness_regression) {
      for (const auto& sentence : cell.correctness) disagree(sentence);
    }
  }
  for (const auto& record : comparison.records) {
    if (!record.correctness_regression) continue;
    for (const auto& sentence : record.correctness) {
      pair.disagreements.push_back(record.experiment + ": " + record.kind + " " + record.name +
                                   ": " + sentence);
    }
  }
}

/// compare speaks of base and new.
std::string with_names(std::string sentence, const MachinePair& pair) {
  for (const auto& [word, machine] :
       {std::pair{" in base", &pair.first}, {" in new", &pair.second}}) {
    const std::string name = " on " + text_in(*machine, "name");
    for (auto at = sentence.find(word); at != std::string::npos; at = sentence.find(word, at)) {
      sentence.replace(at, std::string_view(word).size(), name);
      at += name.size();
    }
  }
  for (const auto& [word, machine] : {std::pair{"base", &pair.first}, {"new", &pair.second}}) {
    const std::string start = word;
    if (sentence.starts_with(start + " ") || sentence.starts_with(start + ":")) {
      sentence.replace(0, start.size(), text_in(*machine, "name"));
    }
  }
  return sentence;
}

void refuse_nothing_shared(const MachineResults& first, const MachineResults& second) {
  const auto named = [](const MachineResults& machine) {
    std::string text = machine.label + " holds ";
    for (const auto& file : machine.files) {
      text += (&file == &machine.files.front() ? "" : ", ") + valid_utf8(file.experiment) + " (" +
              file.scale + ")";
    }
    return text;
  };
  for (const auto& file : first.files) {
    for (const auto& other : second.files) {
      if (same_experiment(file, other)) return;
    }
  }
  throw InputError("nothing to compare: " + named(first) + "; " + named(second) +
                   "; experiment and scale must be equal");
}

MachinePair compare_two(const MachineResults& first, const MachineResults& second,
                        const json& first_json, const json& second_json,
                        const MachinesSettings& settings) {
  MachinePair pair;
  pair.first = first_json;
  pair.second = second_json;
  refuse_nothing_shared(first, second);
  CompareSettings rules;
  rules.effect = settings.effect;
  rules.confidence = settings.confidence;
  rules.cross_hardware = true;
  rules.only = settings.only;
  const Comparison comparison =
      compare_results(first.files, first.label, second.files, second.label, rules);
  const auto on_first = cells_by_place(first.files);
  const auto on_second = cells_by_place(second.files);

  std::map<CellPlace, Stratum> processes;
  std::set<std::string> shared;
  for (const auto& compared : comparison.cells) {
    if (!compared.times) {
      if (compared.base.seconds || compared.changed.seconds) ++pair.untimed;
      continue;
    }
    const auto& [file, one] = on_first.at({compared.experiment, compared.key.text()});
    const auto& [other_file, other] = on_second.at({compared.experiment, compared.new_key.text()});
    shared.insert(compared.experiment);
    MachineCell cell;
    cell.experiment = compared.experiment;
    cell.key = compared.key;
    cell.other_threads = compared.new_key.threads;
    cell.backend = compared.backend;
    cell.exact = one->exact;
    cell.on_gpu = on_gpu(*one);
    cell.gpus = gpus_of(*one);
    cell.unsteady = compared.unsteady();
    cell.changed = commit_of(*file) != commit_of(*other_file) && other_work(*one, *other);
    cell.seconds = {*compared.base.seconds, *compared.changed.seconds};
    cell.processes = {one->samples.size(), other->samples.size()};
    cell.limits = {limit_of(*file, *one), limit_of(*other_file, *other)};
    cell.kind = kind_of(cell);
    cell.speed = speed_of(one->samples, other->samples, settings.confidence);
    cell.verdict = verdict_of(cell.speed, settings.effect);
    processes[{cell.experiment, cell.key.text()}] = {process_medians(other->samples),
                                                     process_medians(one->samples)};
    pair.cells.push_back(std::move(cell));
  }
  if (pair.cells.empty()) {
    throw InputError("no cell has a time both in " + first.label + " and in " + second.label +
                     (settings.only ? " among those of --only" : ""));
  }
  pair.commits = differing_commits(first.files, second.files, shared);
  if (!pair.commits.first.empty() && settings.same_commit) {
    throw InputError(refusal_of_commits(pair));
  }
  for (const auto& missing : comparison.missing) {
    if (missing.reason.starts_with("not comparable: ")) {
      pair.left_out.push_back(missing.experiment + ": " + missing.key + ": " +
                              with_names(missing.reason, pair));
    } else if (!missing.record) {
      ++pair.first_alone;
    }
  }
  for (const auto& added : comparison.added) {
    const auto found = on_second.find({added.experiment, added.key});
    if (found != on_second.end() && found->second.second->status != "skipped") ++pair.second_alone;
  }
  compare_answers(comparison, on_first, on_second, pair);
  for (auto& sentence : pair.disagreements) sentence = with_names(sentence, pair);
  for (const auto& sentence : comparison.differences) {
    pair.differences.push_back(with_names(sentence, pair));
  }
  judge_shapes(pair, processes, settings);
  pair.notes = {changed_note(pair), unseen_note(pair)};
  std::erase(pair.notes, "");
  pair.sentences = machine_sentences(pair);
  return pair;
}

json speed_json(const SpeedRatio& speed) {
  const auto number = [](const std::optional<double>& value) {
    return value ? json(*value) : json(nullptr);
  };
  return {{"speedup", speed.ratio},
          {"speedup_low", number(speed.low)},
          {"speedup_high", number(speed.high)},
          {"confidence", speed.confidence > 0 ? json(speed.confidence) : json(nullptr)}};
}

json cell_json(const MachineCell& cell) {
  const auto limit = [](const std::optional<Limit>& one) {
    if (!one) return json(nullptr);
    return json{{"seconds", one->seconds}, {"binds", one->binds}, {"from_cache", one->from_cache}};
  };
  json result = {{"experiment", cell.experiment},
                 {"backend", cell.backend},
                 {"gpus", cell.on_gpu ? cell.gpus : 0},
                 {"exact", cell.exact},
                 {"unsteady", cell.unsteady},
                 {"changed", cell.changed},
                 {"fastest", cell.fastest},
                 {"kind", to_string(cell.kind)},
                 {"seconds", {cell.seconds.first, cell.seconds.second}},
                 {"processes", {cell.processes.first, cell.processes.second}},
                 {"threads", {cell.key.threads, cell.other_threads}},
                 {"limits", {limit(cell.limits.first), limit(cell.limits.second)}},
                 {"verdict", to_string(cell.verdict)}};
  result.update(speed_json(cell.speed));
  json key = to_json(cell.key);
  for (const char* own : {"threads", "gpus"}) key.erase(own);
  result.update(key);
  return result;
}

}  // namespace

const char* to_string(WorkKind kind) {
  switch (kind) {
    case WorkKind::memory: return "memory";
    case WorkKind::cache: return "cache";
    case WorkKind::products: return "products";
    case WorkKind::launches: return "launches";
    case WorkKind::streaming: return "streaming";
    case WorkKind::several: return "several";
    case WorkKind::other: return "other";
  }
  return "?";
}

const char* place_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::memory: return "where points are read from memory";
    case WorkKind::cache: return "where points are read from the cache";
    case WorkKind::products: return "where products bind";
    case WorkKind::launches: return "where launches and barriers bind";
    case WorkKind::streaming: return "where points are streamed";
    case WorkKind::several: return "on several GPUs";
    case WorkKind::other: return "far from every limit";
  }
  return "?";
}

const char* to_string(MachineVerdict verdict) {
  switch (verdict) {
    case MachineVerdict::faster: return "faster";
    case MachineVerdict::slower: return "slower";
    case MachineVerdict::equal: return "equal";
    case MachineVerdict::mixed: return "mixed";
    case MachineVerdict::undecided: return "undecided";
  }
  return "?";
}

MachineVerdict verdict_of(const SpeedRatio& speed, double effect) {
  if (!speed.low || !speed.high) return MachineVerdict::undecided;
  if (*speed.low >= 1 / (1 + effect) && *speed.high <= 1 + effect) return MachineVerdict::equal;
  if (*speed.low > 1) return MachineVerdict::faster;
  if (*speed.high < 1) return MachineVerdict::slower;
  return MachineVerdict::undecided;
}

std::vector<MachinePair> compare_machines(const std::vector<MachineResults>& machines,
                                          const MachinesSettings& settings) {
  std::vector<json> described;
  for (const auto& machine : machines) described.push_back(machine_json(machine));
  name_machines(described);
  std::vector<MachinePair> pairs;
  for (std::size_t i = 1; i < machines.size(); ++i) {
    pairs.push_back(
        compare_two(machines.front(), machines[i], described.front(), described[i], settings));
  }
  return pairs;
}

json machines_to_json(const std::vector<MachinePair>& pairs, const MachinesSettings& settings) {
  json list = json::array();
  for (const auto& pair : pairs) {
    json groups = json::array();
    for (const auto& group : pair.groups) {
      groups.push_back({{"gpu", group.on_gpu},
                        {"kind", to_string(group.kind)},
                        {"where", place_of(group.kind)},
                        {"shapes", group.shapes},
                        {"faster", group.faster},
                        {"slower", group.slower},
                        {"equal", group.equal},
                        {"smallest", pair.cells[group.extremes.first].speed.ratio},
                        {"largest", pair.cells[group.extremes.second].speed.ratio},
                        {"verdict", to_string(group.verdict)}});
      groups.back().update(speed_json(group.speed));
    }
    json cells = json::array();
    for (const auto& cell : pair.cells) cells.push_back(cell_json(cell));
    list.push_back({{"first", pair.first},
                    {"second", pair.second},
                    {"sentences", pair.sentences},
                    {"differing_commits", {pair.commits.first, pair.commits.second}},
                    {"answers",
                     {{"exact_cells", pair.exact_answers},
                      {"agree", pair.disagreements.empty()},
                      {"disagreements", pair.disagreements}}},
                    {"counts",
                     {{"timed", pair.cells.size()},
                      {"untimed", pair.untimed},
                      {"first_alone", pair.first_alone},
                      {"second_alone", pair.second_alone}}},
                    {"groups", groups},
                    {"cells", cells},
                    {"notes", pair.notes},
                    {"left_out", pair.left_out},
                    {"differences", pair.differences}});
  }
  return {{"machines_version", 1},
          {"settings", {{"effect", settings.effect}, {"confidence", settings.confidence}}},
          {"pairs", list}};
}

}  // namespace kmeans
