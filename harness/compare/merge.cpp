// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/merge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "harness/record/measures.h"
#include "harness/record/wrong_elsewhere.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Machines of one kind whose limits are this far apart are not alike.
constexpr double kUnlikeRates = 1.10;
constexpr std::size_t kNamesShown = 3;

std::string name_of(const ResultFile& part) { return printable(part.path.string()); }

/// What is the same for machines of one kind: hardware, without the marks of the single piece and
/// what changes from hour to hour.
json kind_of(const json& machine) {
  json kind{{"id", member(machine, "id")}};
  for (const char* key : {"model", "architecture", "instructions", "allowed_cpus", "usable_threads",
                          "smt_siblings"}) {
    kind["cpu"][key] = member(member(machine, "cpu"), key);
  }
  kind["gpus"] = json::array();
  for (const auto& gpu : member(machine, "gpus")) {
    json one;
    for (const char* key : {"name", "memory_bytes", "driver", "compute_capability",
                            "power_limit_watts", "mig", "ecc"}) {
      one[key] = member(gpu, key);
    }
    kind["gpus"].push_back(std::move(one));
  }
  for (const char* key : {"name", "version", "libc"}) {
    kind["os"][key] = member(member(machine, "os"), key);
  }
  kind["libraries"] = member(machine, "libraries");
  return kind;
}

constexpr const char* kWaiting = "environment/openmp_waiting";
constexpr const char* kNamed = "KMEANS_BENCH_MACHINE";

std::string id_of(const ResultFile& part) {
  const json id = member(member(part.context, "machine"), "id");
  return id.is_string() ? id.get<std::string>() : "";
}

/// GPUs bear marks of the single piece: where all parts saw the same ones, under whatever name, they
/// were measured on one machine.
bool same_gpus(const std::vector<ResultFile>& parts) {
  const auto marks = [](const ResultFile& part) {
    std::set<std::string> found;
    for (const auto& gpu : member(member(part.context, "machine"), "gpus")) {
      const json uuid = member(gpu, "uuid");
      if (uuid.is_string()) found.insert(uuid.get<std::string>());
    }
    return found;
  };
  const auto first = marks(parts.front());
  return !first.empty() && std::all_of(parts.begin(), parts.end(), [&](const ResultFile& part) {
    return marks(part) == first;
  });
}

json waiting_of(const ResultFile& part) {
  return member(member(part.context, "environment"), "openmp_waiting");
}

/// Has anything been measured whose threads wait for one another? Else it does not matter how.
bool threads_wait(const std::vector<ResultFile>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const ResultFile& part) {
    if (!part.traces.empty() || !part.studies.empty() || !part.fits.empty()) return true;
    return std::any_of(part.cells.begin(), part.cells.end(), [](const auto& cell) {
      const json threads = member(cell.data, "threads");
      return cell.data.at("status") != "skipped" && !(threads.is_number() && threads <= 1);
    });
  });
}

/// What all parts must share, by the name that a refusal gives it.
std::map<std::string, json> shared_by_parts(const ResultFile& part, bool waiting_matters,
                                            bool name_matters) {
  const json& context = part.context;
  const json environment = member(context, "environment");
  json variables = member(environment, "variables");
  // Which of several equal GPUs a part took says nothing: the machine's fingerprint says what they
  // are, its cells which one ran them.
  if (variables.is_object()) {
    variables.erase("CUDA_VISIBLE_DEVICES");
    if (!name_matters) variables.erase(kNamed);
  }
  std::map<std::string, json> shared{{"experiment", part.experiment},
                                     {"scale", part.scale},
                                     {"spec", part.spec},
                                     {"threads", member(context, "threads")},
                                     {"sampling", member(context, "sampling")},
                                     {"environment/variables", std::move(variables)}};
  if (waiting_matters) shared[kWaiting] = waiting_of(part);
  const json suite = member(context, "suite");
  for (const auto& [key, value] : suite.items()) shared["suite/" + key] = value;
  const json kind = kind_of(member(context, "machine"));
  for (const auto& [key, value] : kind.items()) {
    if (key != "id" || name_matters) shared["machine/" + key] = value;
  }
  return shared;
}

std::string shortly(const json& value) {
  constexpr std::size_t kMax = 60;
  const std::string text = to_line(value);
  return text.size() <= kMax ? text : text.substr(0, kMax) + "...";
}

/// The first place where two values differ, and how.
std::string difference(const std::string& name, const json& one, const json& other) {
  if (one.is_object() && other.is_object()) {
    std::set<std::string> keys;
    for (const auto& item : one.items()) keys.insert(item.key());
    for (const auto& item : other.items()) keys.insert(item.key());
    for (const auto& key : keys) {
      const json left = member(one, key.c_str());
      const json right = member(other, key.c_str());
      if (left != right) return difference(name + "/" + key, left, right);
    }
  }
  return name + ": " + shortly(one) + " and " + shortly(other);
}

/// Why a file cannot be a part at all, or "".
std::string unfit(const ResultFile& part) {
  if (part.complete) return "is complete: there is nothing to add to it";
  if (!part.planned) {
    return "does not say what the whole experiment has (\"planned\"): a program that knows --shard "
           "writes it";
  }
  if (member(part.context, "finished").is_null()) {
    return "is of a run that was interrupted or still goes on; end it (run --resume) first";
  }
  return "";
}

void refuse_strangers(const std::vector<ResultFile>& parts) {
  std::string text;
  for (const auto& part : parts) {
    const std::string why = unfit(part);
    if (!why.empty()) text += "\n  " + name_of(part) + " " + why;
  }
  if (!text.empty()) throw InputError("these files cannot be joined:" + text);
  const ResultFile& first = parts.front();
  const bool waiting_matters = threads_wait(parts);
  const bool name_matters = !same_gpus(parts);
  const auto shared = shared_by_parts(first, waiting_matters, name_matters);
  for (const auto& part : parts) {
    const auto own = shared_by_parts(part, waiting_matters, name_matters);
    std::set<std::string> names;
    for (const auto& item : shared) names.insert(item.first);
    for (const auto& item : own) names.insert(item.first);
    std::string differences;
    for (const auto& name : names) {
      const auto left = shared.find(name);
      const auto right = own.find(name);
      const json one = left == shared.end() ? json() : left->second;
      const json other = right == own.end() ? json() : right->second;
      if (one == other) continue;
      differences += "\n    " + difference(name, one, other);
      if (name == kWaiting)
        differences += " (alike if OMP_WAIT_POLICY=passive is set for each run)";
    }
    if (differences.empty() && !(*part.planned == *first.planned)) {
      differences = "\n    planned: the whole experiment has other cells, traces or studies";
    }
    if (!differences.empty()) {
      text += "\n  " + name_of(first) + " and " + name_of(part) + differences;
    }
  }
  if (!text.empty()) throw InputError("these files are not parts of one result:" + text);
}

bool skipped_alike(const json& one, const json& other) {
  return one.at("status") == "skipped" && other.at("status") == "skipped" &&
         member(one, "reason") == member(other, "reason");
}

/// By name, what all parts hold of one kind. Throws where two hold the same.
class Holdings {
 public:
  void add(const std::string& name, const json& value, const ResultFile& part) {
    const auto [known, added] = held_.try_emplace(name, &value, &part);
    // What cannot run needs no measuring: a resumed part says it of all cells.
    if (added || skipped_alike(*known->second.first, value)) return;
    ++twice_;
    if (twice_ <= kNamesShown) {
      text_ += "\n  " + printable(name) + " in " + name_of(*known->second.second) + " and " +
               name_of(part);
    }
  }
  void refuse_doubles() const {
    if (twice_ == 0) return;
    throw InputError("parts share nothing, but " + std::to_string(twice_) +
                     " of what these files hold is in two of them:" + text_ +
                     (twice_ > kNamesShown ? "\n  ..." : ""));
  }
  /// In the order of the whole; what is missing goes to the list.
  json in_order(const std::vector<std::string>& names, std::vector<std::string>& missing) const {
    json all = json::array();
    for (const auto& name : names) {
      const auto found = held_.find(name);
      if (found == held_.end()) {
        missing.push_back(name);
      } else {
        all.push_back(*found->second.first);
      }
    }
    return all;
  }

 private:
  std::map<std::string, std::pair<const json*, const ResultFile*>> held_;
  std::size_t twice_ = 0;
  std::string text_;
};

json merged_datasets(const std::vector<ResultFile>& parts) {
  json all = json::object();
  std::string text;
  for (const auto& part : parts) {
    const json datasets = member(part.context, "datasets");
    for (const auto& [label, dataset] : datasets.items()) {
      const auto known = all.find(label);
      if (known == all.end()) {
        all[label] = dataset;
      } else if (*known != dataset) {
        text += "\n  " + difference(printable(label), *known, dataset) + " (" + name_of(part) + ")";
      }
    }
  }
  if (!text.empty()) throw InputError("under one name the parts had other points:" + text);
  return all;
}

/// Of each check the worst that any part found.
json worst_conditions(const std::vector<ResultFile>& parts) {
  static const std::map<std::string, int> kRank{{"good", 0}, {"unknown", 1}, {"doubtful", 2}};
  const auto rank = [](const json& condition) {
    const auto found = kRank.find(condition.value("state", std::string()));
    return found == kRank.end() ? 1 : found->second;
  };
  json all = json::array();
  for (const auto& part : parts) {
    for (const auto& condition : member(part.context, "conditions")) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const json& other) {
        return other.at("check") == condition.at("check");
      });
      if (known == all.end()) {
        all.push_back(condition);
      } else if (rank(condition) > rank(*known)) {
        *known = condition;
      }
    }
  }
  return all;
}

json united(const std::vector<ResultFile>& parts, const char* key) {
  json all = json::array();
  for (const auto& part : parts) {
    for (const auto& text : member(member(part.context, "environment"), key)) {
      if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
    }
  }
  return all;
}

/// Rates by their place in the ceilings.
void collect_rates(const json& ceilings, const std::string& place,
                   std::map<std::string, double>& rates) {
  for (const auto& [key, value] : ceilings.items()) {
    if (key == "details") continue;
    const std::string name = place.empty() ? key : place + "/" + key;
    if (value.is_object()) collect_rates(value, name, rates);
    const bool rate =
        name.find("gbytes") != std::string::npos || name.find("gflops") != std::string::npos;
    if (rate && value.is_number()) rates[name] = value;
  }
}

std::vector<std::string> unlike_ceilings(const std::vector<ResultFile>& parts) {
  std::map<std::string, std::pair<double, double>> ranges;
  for (const auto& part : parts) {
    const json ceilings = member(part.context, "ceilings");
    if (!ceilings.is_object()) continue;
    std::map<std::string, double> rates;
    collect_rates(ceilings, "", rates);
    for (const auto& [name, rate] : rates) {
      const auto known = ranges.try_emplace(name, rate, rate).first;
      known->second.first = std::min(known->second.first, rate);
      known->second.second = std::max(known->second.second, rate);
    }
  }
  std::vector<std::string> warnings;
  for (const auto& [name, range] : ranges) {
    if (range.second <= kUnlikeRates * range.first) continue;
    warnings.push_back(
        formatted("The parts' machines are not alike: %s was %.4g on one and %.4g "
                  "on another.",
                  name.c_str(), range.first, range.second));
  }
  return warnings;
}

/// Where it was not refused, since nothing that was measured waits.
std::vector<std::string> unlike_waiting(const std::vector<ResultFile>& parts) {
  const json first = waiting_of(parts.front());
  for (const auto& part : parts) {
    const json own = waiting_of(part);
    if (own == first) continue;
    return {"OpenMP threads waited as " + shortly(first) + " in one part and as " + shortly(own) +
            " in another; no cell has more than one."};
  }
  return {};
}

/// Where they were not refused, since the GPUs are the same ones.
std::vector<std::string> other_names(const std::vector<ResultFile>& parts) {
  const std::string first = id_of(parts.front());
  std::set<std::string> named;
  std::vector<std::string> warnings;
  for (const auto& part : parts) {
    const std::string own = id_of(part);
    if (own == first || !named.insert(own).second) continue;
    warnings.push_back("A part calls its machine " + printable(own) +
                       "; by the UUIDs of its GPUs it is the machine that the result calls " +
                       printable(first) + ".");
  }
  return warnings;
}

json part_context(const ResultFile& part) {
  json own{{"cells", part.cells.size()},
           {"traces", part.traces.size()},
           {"studies", part.studies.size()},
           {"fits", part.fits.size()}};
  for (const char* key : {"command_line", "started", "finished", "machine", "conditions",
                          "ceilings", "seeds", "run_order"}) {
    own[key] = member(part.context, key);
  }
  return own;
}

/// The first part's, and of what differs by part all of it.
json merged_context(const std::vector<ResultFile>& parts, std::vector<std::string>& warnings) {
  json context = parts.front().context;
  std::string commands;
  json run_order = json::array();
  json each = json::array();
  for (const auto& part : parts) {
    const json& own = part.context;
    commands += (commands.empty() ? "" : "; ") + own.at("command_line").get<std::string>();
    context["started"] =
        std::min(context.at("started").get<std::string>(), own.at("started").get<std::string>());
    context["finished"] =
        std::max(context.at("finished").get<std::string>(), own.at("finished").get<std::string>());
    for (const auto& key : own.at("run_order")) run_order.push_back(key);
    const json seeds = member(own.at("seeds"), "data");
    for (const auto& [label, seed] : seeds.items()) context["seeds"]["data"][label] = seed;
    // A part may itself be joined from others, whose contexts stay.
    const json earlier = member(own, "parts");
    if (earlier.is_array()) {
      each.insert(each.end(), earlier.begin(), earlier.end());
    } else {
      each.push_back(part_context(part));
    }
  }
  context["command_line"] = commands;
  context["datasets"] = merged_datasets(parts);
  context["conditions"] = worst_conditions(parts);
  context["run_order"] = std::move(run_order);
  for (const char* key : {"neutralised", "warnings"}) {
    context["environment"][key] = united(parts, key);
  }
  for (const auto& found : {unlike_ceilings(parts), unlike_waiting(parts), other_names(parts)}) {
    for (const auto& warning : found) {
      context["environment"]["warnings"].push_back(warning);
      warnings.push_back(warning);
    }
  }
  context["parts"] = std::move(each);
  return context;
}

json names_of(const PlannedNames& planned) {
  return {{"cells", planned.cells},
          {"traces", planned.traces},
          {"studies", planned.studies},
          {"fits", planned.fits}};
}

}  // namespace

Merged merge_results(const std::vector<ResultFile>& parts) {
  refuse_strangers(parts);
  Holdings cells;
  Holdings traces;
  Holdings studies;
  Holdings fits;
  for (const auto& part : parts) {
    for (const auto& cell : part.cells) cells.add(cell.key.text(), cell.data, part);
    for (const auto& trace : part.traces) traces.add(trace.at("name"), trace, part);
    for (const auto& study : part.studies) studies.add(study.at("name"), study, part);
    for (const auto& fit : part.fits) fits.add(fit.at("name"), fit, part);
  }
  for (const auto* held : {&cells, &traces, &studies, &fits}) held->refuse_doubles();

  const ResultFile& first = parts.front();
  const PlannedNames& planned = *first.planned;
  Merged merged;
  if (member(first.context.at("suite"), "git_dirty") == json(true)) {
    merged.warnings.emplace_back(
        "the parts were measured with local changes of the source; nothing shows that these were "
        "the same");
  }
  json all_cells = cells.in_order(planned.cells, merged.missing);
  mark_wrong_elsewhere(all_cells);
  json all_traces = traces.in_order(planned.traces, merged.missing);
  json all_studies = studies.in_order(planned.studies, merged.missing);
  json all_fits = fits.in_order(planned.fits, merged.missing);
  merged.result = {{"schema_version", kResultSchemaVersion},
                   {"experiment", first.experiment},
                   {"scale", first.scale},
                   {"complete", merged.missing.empty()},
                   {"planned_cells", first.planned_cells},
                   {"context", merged_context(parts, merged.warnings)},
                   {"spec", first.spec},
                   {"cells", std::move(all_cells)},
                   {"traces", std::move(all_traces)},
                   {"studies", std::move(all_studies)},
                   {"fits", std::move(all_fits)}};
  if (!merged.missing.empty()) merged.result["planned"] = names_of(planned);
  return merged;
}

}  // namespace kmeans
