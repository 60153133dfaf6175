// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "harness/compare/compare_gate.h"
#include "harness/record/agreement.h"
#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/only.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

// A clock and a neighbour on the same core explain a pace of up to about twice the best
// (docs/running.md). What is worse says little of the timed part between two looks.
constexpr double kSlowestClock = 2;
// The verifier lets each side be 1 % away from the exact trajectory (harness/verify/verify.cpp).
constexpr double kInertiaTolerance = 0.02;
constexpr double kExactInertiaTolerance = 1e-12;
// Of the machine's memory: a kernel reserves a little more or less.
constexpr double kMemoryTolerance = 0.02;

std::string shown(const json& value) {
  std::string text = value.is_null() ? "nothing" : to_line(value);
  if (text.size() > 80) text = valid_utf8(text.substr(0, 77)) + "...";
  return text;
}

// --- Times ---

std::vector<double> pooled(const std::vector<std::vector<double>>& samples) {
  std::vector<double> all;
  for (const auto& process : samples) all.insert(all.end(), process.begin(), process.end());
  std::sort(all.begin(), all.end());
  return all;
}

double smallest(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

/// By factors: "33 % faster" could be 3/4 of the time or 2/3 of it.
std::string direction(double ratio) {
  const std::string factor = formatted("%.4g", std::max(ratio, 1 / ratio));
  if (factor == "1") return "equal";
  return ratio > 1 ? "takes " + factor + " times as long" : factor + " times as fast";
}

using Interval = std::pair<double, double>;

/// Quotients of the processes that ran next to each other; an odd one at the end has no partner.
std::vector<double> quotients(const std::vector<double>& base, const std::vector<double>& changed) {
  std::vector<double> ratios(std::min(base.size(), changed.size()));
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = changed[i] / base[i];
  return ratios;
}

// In turns there are two ways to look: at pairs, which is sharp where something slows now both
// processes of a pair, now one, now neither; and at all processes, which needs fewer of them. Each
// way gets a share of the error, so that the better one may be taken; a quiet machine, where the
// second is better, can afford the smaller share.
constexpr double kShareOfPairs = 0.8;
constexpr double kShareOfAll = 1 - kShareOfPairs;

double p_of(const TimePair& pair) {
  const auto base = process_times(pair.base, pair.in_turns);
  const auto changed = process_times(pair.changed, pair.in_turns);
  const double all = mann_whitney(base, changed).p;
  if (!pair.in_turns) return all;
  const double paired = sign_test_p(quotients(base, changed));
  return std::min({1.0, paired / kShareOfPairs, all / kShareOfAll});
}

/// The smallest that p_of could give, whatever the times.
double least_p(const TimePair& pair) {
  const std::size_t m = pair.base.size();
  const std::size_t n = pair.changed.size();
  if (!pair.in_turns) return smallest_p(m, n);
  const double paired = std::exp2(1 - static_cast<double>(std::min(m, n)));
  return std::min({1.0, paired / kShareOfPairs, smallest_p(m, n) / kShareOfAll});
}

std::optional<Interval> interval_of(const TimePair& pair, double confidence) {
  const auto base = process_times(pair.base, pair.in_turns);
  const auto changed = process_times(pair.changed, pair.in_turns);
  if (!pair.in_turns) return ratio_interval(base, changed, confidence);
  const double error = 1 - confidence;
  const auto paired = paired_interval(quotients(base, changed), 1 - kShareOfPairs * error);
  const auto all = ratio_interval(base, changed, 1 - kShareOfAll * error);
  if (!all || !paired) return all ? all : paired;
  const auto width = [](const Interval& interval) { return interval.second / interval.first; };
  return width(*paired) <= width(*all) ? paired : all;
}

double ratio_of(const TimePair& pair) {
  if (!pair.in_turns) return headline_median(pair.changed) / headline_median(pair.base);
  return paired_ratio(quotients(process_times(pair.base, pair.in_turns),
                                process_times(pair.changed, pair.in_turns)));
}

/// Do all samples of one side lie so far from all of the other that a few processes will do? In
/// turns more of them are to be had, and a neighbour gives such gaps to a few.
bool far_apart(const TimePair& pair, double gap, double limit) {
  return !pair.in_turns && std::min(pair.base.size(), pair.changed.size()) >= 2 &&
         gap >= std::max(kClearGap, limit);
}

/// The verdict from what is known of one cell; `family` is how many cells were tested.
void decide(const TimePair& pair, const CompareSettings& settings, std::size_t family,
            TimeVerdict& result) {
  const auto base = pooled(pair.base);
  const auto changed = pooled(pair.changed);
  const std::size_t m = pair.base.size();
  const std::size_t n = pair.changed.size();
  const double limit = 1 + settings.effect;
  const double beyond = std::max(result.ratio, 1 / result.ratio);
  const CellVerdict side = result.ratio > 1 ? CellVerdict::slower : CellVerdict::faster;
  const std::string processes = formatted("%zu and %zu processes", m, n);
  const std::string by =
      direction(result.ratio) + (pair.in_turns ? " by its pairs" : " by the medians");

  if (result.p_adjusted && *result.p_adjusted <= settings.false_discovery_rate && beyond >= limit) {
    result.verdict = side;
    result.why = formatted("%s; p = %.2g, corrected %.2g, %s", by.c_str(), result.p,
                           *result.p_adjusted, processes.c_str());
    return;
  }
  const double gap = std::max(changed.front() / base.back(), base.front() / changed.back());
  if (far_apart(pair, gap, limit)) {
    result.verdict = side;
    result.why = formatted("%s; even the nearest samples of the two sides are %.3g times apart, %s",
                           by.c_str(), gap, processes.c_str());
    return;
  }
  if (result.low && *result.low >= 1 / limit && *result.high <= limit) {
    result.verdict = CellVerdict::same;
    result.why = "the interval lies within " + format_percent(settings.effect);
    return;
  }
  result.verdict = CellVerdict::unclear;
  if (std::min(m, n) < 2) {
    result.why = by + "; one process on a side cannot show how processes differ";
  } else if (!result.p_adjusted) {
    result.why = formatted("%s; p cannot be below %.2g with %s", by.c_str(), least_p(pair),
                           processes.c_str());
  } else if (*result.p_adjusted <= settings.false_discovery_rate) {
    result.why =
        by + ", surely not equal, but perhaps by less than " + format_percent(settings.effect);
  } else if (beyond >= limit) {
    result.why = formatted("%s; p = %.2g, corrected %.2g, is not a discovery among %s", by.c_str(),
                           result.p, *result.p_adjusted, counted(family, "cell", "cells").c_str());
    const double rate = settings.false_discovery_rate;
    if (least_p(pair) * static_cast<double>(family) > rate) {
      result.why += formatted("; %zu processes a side can show it alone",
                              processes_needed(family, pair.in_turns ? rate * kShareOfAll : rate));
    }
  } else {
    result.why = by + "; the interval reaches beyond " + format_percent(settings.effect);
  }
}

/// By which share new could have been slower as a whole, with the spread that both sides have, and
/// be called so, as the only slow one of `family` cells.
std::optional<double> smallest_seen(const TimePair& pair, const CompareSettings& settings,
                                    std::size_t family, double ratio) {
  if (std::min(pair.base.size(), pair.changed.size()) < 2) return std::nullopt;
  const double limit = 1 + settings.effect;
  // By the gap: new would have to be moved until its quickest sample is that far off.
  std::optional<double> factor;
  if (!pair.in_turns) {
    factor = std::max(kClearGap, limit) * ratio * pooled(pair.base).back() /
             pooled(pair.changed).front();
  }
  // By the test: it rejects where its interval does not hold 1.
  const double rate = settings.false_discovery_rate / std::max<double>(1, family);
  if (const auto interval = interval_of(pair, 1 - rate)) {
    const double by_test = ratio / interval->first;
    factor = factor ? std::min(*factor, by_test) : by_test;
  }
  if (!factor) return std::nullopt;
  return std::max(*factor, limit) - 1;
}

// --- Machines and builds ---

/// Values by pointer, of the parts of a context that may differ between runs of one machine.
std::map<std::string, json> flat(const json& value) {
  std::map<std::string, json> result;
  if (!value.is_object() && !value.is_array()) return result;
  const json leaves = value.flatten();
  for (const auto& item : leaves.items()) result[item.key()] = item.value();
  return result;
}

std::string spoken(const std::string& what, const json& base, const json& changed) {
  return what + ": " + shown(base) + " in base, " + shown(changed) + " in new";
}

/// "/openblas/core" -> "openblas core".
std::string plain_name(const std::string& prefix, std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', ' ');
  return valid_utf8(prefix + pointer);
}

class Sentences {
 public:
  void add(const std::string& sentence) {
    if (said_.insert(sentence).second) sentences_.push_back(sentence);
  }
  void compare(const std::string& what, const json& base, const json& changed) {
    if (base != changed) add(spoken(what, base, changed));
  }
  void compare_flat(const std::string& prefix, const json& base, const json& changed) {
    const auto before = flat(base);
    const auto after = flat(changed);
    for (const auto& [pointer, value] : before) {
      const auto found = after.find(pointer);
      compare(plain_name(prefix, pointer), value, found == after.end() ? json() : found->second);
    }
    for (const auto& [pointer, value] : after) {
      if (!before.contains(pointer)) compare(plain_name(prefix, pointer), json(), value);
    }
  }
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::vector<std::string> sentences_;
  std::set<std::string> said_;
};

constexpr const char* kHardwareOfCpu[] = {
    "model",         "vendor",       "architecture", "physical_cores",
    "logical_cores", "allowed_cpus", "cgroup_cpus",  "usable_threads",
    "smt_siblings",  "numa_nodes",   "instructions",
};
constexpr const char* kHardwareOfGpu[] = {"name", "memory_bytes", "compute_capability", "mig"};

bool is_hardware_of_cpu(const std::string& key) {
  return key == "caches" || std::find(std::begin(kHardwareOfCpu), std::end(kHardwareOfCpu), key) !=
                                std::end(kHardwareOfCpu);
}

std::string cache_text(const json& cpu) {
  std::string text;
  const json caches = member(cpu, "caches");
  if (!caches.is_array()) return text;
  for (const auto& cache : caches) {
    if (!cache.is_object()) continue;
    const json bytes = member(cache, "bytes");
    text += (text.empty() ? "" : ", ") +
            formatted("L%s %s ", to_line(member(cache, "level")).c_str(),
                      to_line(member(cache, "type")).c_str()) +
            (bytes.is_number() ? format_bytes(bytes.get<double>()) : shown(bytes)) + " x " +
            to_line(member(cache, "instances"));
  }
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  return text;
}

/// What of an experiment decides what is run, and how often: keys of the file, and of the scale.
constexpr const char* kKeysOfSpec[] = {"data", "init", "variants", "traces", "studies", "fits"};
constexpr std::size_t kSpecKeysShown = 4;
constexpr std::size_t kExperimentsNamed = 3;

/// One sentence for two files of an experiment that was changed in between; empty: the same.
std::string spec_difference(const ResultFile& base, const ResultFile& changed) {
  std::vector<std::string> found;
  const auto compare = [&](const std::string& key, const json& before, const json& after) {
    if (before == after) return;
    const bool plain = !before.is_structured() && !after.is_structured();
    found.push_back(plain ? key + " " + shown(before) + " in base, " + shown(after) + " in new"
                          : "other " + key);
  };
  const auto scale_of = [](const ResultFile& file) {
    const json scale = member(member(file.spec, "scales"), file.scale.c_str());
    return scale.is_object() ? scale : json::object();
  };
  const json before = scale_of(base);
  const json after = scale_of(changed);
  std::set<std::string> keys;
  for (const auto* scale : {&before, &after}) {
    for (const auto& item : scale->items()) keys.insert(item.key());
  }
  for (const auto& key : keys) {
    compare(valid_utf8(key), member(before, key.c_str()), member(after, key.c_str()));
  }
  for (const char* key : kKeysOfSpec)
    compare(key, member(base.spec, key), member(changed.spec, key));
  std::string text;
  for (std::size_t i = 0; i < std::min(found.size(), kSpecKeysShown); ++i) {
    text += (text.empty() ? "" : "; ") + found[i];
  }
  if (found.size() > kSpecKeysShown) {
    text += formatted("; and %zu more", found.size() - kSpecKeysShown);
  }
  return text.empty() ? text : base.experiment + ": " + text;
}

/// What may differ between two runs that are still comparable, and has to be known.
void list_differences(const ResultFile& base, const ResultFile& changed, Sentences& sentences) {
  const json& before = base.context;
  const json& after = changed.context;
  for (const auto* file : {&base, &changed}) {
    const json& suite = file->context.at("suite");
    const std::string side = file == &base ? "base" : "new";
    const std::string sanitizers = text_in(suite, "sanitizers");
    if (suite.at("git_dirty") == true) sentences.add(side + " was built from a changed tree");
    if (suite.at("build_type") != "Release") {
      sentences.add(side + " is a " + suite.at("build_type").get<std::string>() +
                    " build: its times are not those of the variants");
    }
    if (!sanitizers.empty()) {
      sentences.add(side + " was built with sanitizers: its times are not those of the variants");
    }
    if (!file->complete) {
      sentences.add(formatted("%s: %s (%s) is incomplete, %zu of %lld cells", side.c_str(),
                              file->experiment.c_str(), file->scale.c_str(), file->cells.size(),
                              static_cast<long long>(file->planned_cells)));
    }
    std::string doubtful;
    const json conditions = member(file->context, "conditions");
    for (const auto& condition : conditions) {
      if (!condition.is_object() || member(condition, "state") != "doubtful") continue;
      doubtful += (doubtful.empty() ? "" : ", ") + shown(member(condition, "check"));
    }
    if (!doubtful.empty()) {
      sentences.add(side + " was measured under doubtful conditions: " + doubtful);
    }
    for (const auto& warning : file->context.at("environment").at("warnings")) {
      sentences.add(side + ": " + warning.get<std::string>());
    }
  }
  if (const auto sentence = spec_difference(base, changed); !sentence.empty()) {
    sentences.add(sentence);
  }
  const json& machine_before = before.at("machine");
  const json& machine_after = after.at("machine");
  sentences.compare("machine", machine_before.at("id"), machine_after.at("id"));
  for (const auto& sentence : hardware_differences(before, after)) sentences.add(sentence);
  for (const char* key : {"version", "git_commit", "build_type", "sanitizers", "compiler",
                          "variant_flags", "march", "cuda"}) {
    sentences.compare(key, member(before.at("suite"), key), member(after.at("suite"), key));
  }
  sentences.compare("threads", before.at("threads"), after.at("threads"));
  const auto soft = [](const json& machine) {
    json cpu = machine.at("cpu");
    for (const auto& item : machine.at("cpu").items()) {
      if (is_hardware_of_cpu(item.key()) || item.key() == "current_mhz" || item.key() == "flags") {
        cpu.erase(item.key());
      }
    }
    return cpu;
  };
  sentences.compare_flat("cpu", soft(machine_before), soft(machine_after));
  sentences.compare("cpu flags", member(machine_before.at("cpu"), "flags"),
                    member(machine_after.at("cpu"), "flags"));
  const json& gpus_before = machine_before.at("gpus");
  const json& gpus_after = machine_after.at("gpus");
  if (gpus_before.size() == gpus_after.size()) {
    for (std::size_t i = 0; i < gpus_before.size(); ++i) {
      json one = gpus_before[i];
      json other = gpus_after[i];
      for (const char* key : kHardwareOfGpu) {
        one.erase(key);
        other.erase(key);
      }
      sentences.compare_flat("GPU " + std::to_string(i), one, other);
    }
  }
  sentences.compare_flat("os", machine_before.at("os"), machine_after.at("os"));
  sentences.compare_flat("library", machine_before.at("libraries"), machine_after.at("libraries"));
  sentences.compare("transparent huge pages",
                    member(machine_before.at("memory"), "transparent_huge_pages"),
                    member(machine_after.at("memory"), "transparent_huge_pages"));
  const auto variables = [](const json& context) {
    json result = member(context.at("environment"), "variables");
    if (result.is_object()) result.erase("KMEANS_BENCH_CACHE");
    return result;
  };
  sentences.compare_flat("environment", variables(before), variables(after));
  sentences.compare("environment variables overridden for workers",
                    before.at("environment").at("neutralised"),
                    after.at("environment").at("neutralised"));
  sentences.compare("how OpenMP threads wait", member(before.at("environment"), "openmp_waiting"),
                    member(after.at("environment"), "openmp_waiting"));
}

/// The differences of all experiments; those that not all of them share say whose they are.
std::vector<std::string> attributed(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& found) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> experiments;
  for (const auto& [experiment, sentences] : found) {
    for (const auto& sentence : sentences) {
      auto& names = experiments[sentence];
      if (names.empty()) order.push_back(sentence);
      names.push_back(experiment);
    }
  }
  for (auto& sentence : order) {
    const auto& names = experiments.at(sentence);
    const bool named = sentence.starts_with(names.front() + ": ") ||
                       sentence.find(": " + names.front() + " (") != std::string::npos;
    if (named || names.size() == found.size()) continue;
    std::string whose = names.front();
    for (std::size_t i = 1; i < std::min(names.size(), kExperimentsNamed); ++i) {
      whose += ", " + names[i];
    }
    if (names.size() > kExperimentsNamed) {
      whose += formatted(" and %zu more", names.size() - kExperimentsNamed);
    }
    sentence = whose + ": " + sentence;
  }
  return order;
}

// --- Cells ---

json dataset_hash(const ResultFile& file, const CellResult& cell) {
  const json& datasets = file.context.at("datasets");
  const auto found = datasets.find(cell.key.points());
  return found == datasets.end() ? json() : found->at("sha256");
}

/// Why the two are not the same work; empty if they are.
std::string incomparable(const ResultFile& base_file, const CellResult& base,
                         const ResultFile& new_file, const CellResult& changed) {
  const Shape& was = base.key.shape;
  const Shape& is = changed.key.shape;
  if (was.n != is.n || was.d != is.d) {
    return formatted("the data have other sizes: %lld x %lld in base, %lld x %lld in new",
                     static_cast<long long>(was.n), static_cast<long long>(was.d),
                     static_cast<long long>(is.n), static_cast<long long>(is.d));
  }
  if (base.init != changed.init) {
    return "the first centroids differ: " + valid_utf8(base.init) + " in base, " +
           valid_utf8(changed.init) + " in new";
  }
  const json before = dataset_hash(base_file, base);
  const json after = dataset_hash(new_file, changed);
  // A cell that never ran may have no data set on file; one that did computed with something.
  for (const auto& [side, cell, hash] :
       {std::tuple{"base", &base, &before}, std::tuple{"new", &changed, &after}}) {
    if (hash->is_null() && cell->status == "ok") {
      return std::string("the SHA-256 of its data is not on record in ") + side;
    }
  }
  if (!before.is_null() && !after.is_null() && before != after) {
    return "the data differ: SHA-256 " + before.get<std::string>().substr(0, 12) + " in base, " +
           after.get<std::string>().substr(0, 12) + " in new";
  }
  if (base.exact != changed.exact) {
    return std::string("the variant is ") + (base.exact ? "" : "not ") + "exact in base, " +
           (changed.exact ? "" : "not ") + "exact in new";
  }
  return "";
}

/// Are a cell's times relative to a pace worth something? A GPU has a clock of its own.
bool goes_with_pace(const CellResult& cell) {
  return !cell.paces.empty() && !member(cell.data, "gpu").is_object();
}

/// A cell's times as they would be at a pace (harness/machine/pace.h), if the whole of each went with it.
CellResult at_pace(const CellResult& cell, double pace) {
  CellResult result = cell;
  for (std::size_t process = 0; process < result.samples.size(); ++process) {
    const double slower = std::min(cell.paces[process] / pace, kSlowestClock);
    for (double& sample : result.samples[process]) sample /= slower;
  }
  result.median = headline_median(result.samples);
  result.data.erase("seconds_per_iteration");  // its interval is that of the times as measured
  return result;
}

ComparedSide side_of(const CellResult& cell) {
  ComparedSide side;
  side.status = cell.status;
  side.reason = cell.reason;
  if (!cell.samples.empty()) side.seconds = headline_median(cell.samples);
  side.processes = cell.samples.size();
  for (const auto& process : cell.samples) side.samples += process.size();
  side.unsteady = cell.unsteady;
  side.noted = cell.noted;
  const json summary = member(cell.data, "seconds_per_iteration");
  if (summary.is_object()) {
    const json low = member(summary, "ci95_low");
    const json high = member(summary, "ci95_high");
    if (low.is_number() && high.is_number()) {
      side.low = low.get<double>();
      side.high = high.get<double>();
    }
  }
  return side;
}

double relative_difference(double base, double changed) {
  if (base == changed) return 0;
  return base > 0 ? changed / base - 1 : 1;
}

/// What a change of status means: a sentence, and is it a regression?
void compare_status(const std::string& base, const std::string& changed, const std::string& reason,
                    std::vector<std::string>& sentences, bool& regression, bool& lost) {
  if (base == changed) return;
  std::string sentence = "was " + base + ", is " + changed;
  if (!reason.empty()) sentence += ": " + valid_utf8(reason);
  sentences.push_back(sentence);
  regression = regression || changed == "wrong" || (changed == "error" && base == "ok");
  lost = base == "ok" && changed == "skipped";
}

/// Do the bits of a cell differ from process to process?
bool varies(const CellResult& cell) {
  return member(cell.data, "bit_equal_across_processes") == false;
}

/// Does a variant that promises no bits give others in each process, so that those of two runs
/// cannot be compared?
bool bits_vary(const CellResult& base, const CellResult& changed) {
  return !base.exact && (varies(base) || varies(changed));
}

/// Names of the checks that did not pass, of a cell that says it is right.
std::vector<std::string> failed_checks(const CellResult& cell) {
  std::vector<std::string> names;
  const json verification = member(cell.data, "verification");
  if (!verification.is_object()) return names;
  if (member(verification, "passed") == false) names.emplace_back("the verification as a whole");
  const json checks = member(verification, "checks");
  if (!checks.is_array()) return names;
  for (const auto& check : checks) {
    if (!check.is_object() || member(check, "passed") != false) continue;
    const std::string name = text_in(check, "name");
    names.push_back(name.empty() ? "one without a name" : valid_utf8(name));
  }
  return names;
}

template <class Add>
void compare_inertia(const AnswerDifference& inertia, bool exact, const Add& add) {
  if (inertia.after.is_null()) {
    add("the inertia is no longer finite", true);
    return;
  }
  const auto before = inertia.before.get<double>();
  const auto after = inertia.after.get<double>();
  const double difference = relative_difference(before, after);
  const double tolerance = exact ? kExactInertiaTolerance : kInertiaTolerance;
  if (std::abs(difference) <= tolerance) return;
  add(formatted("inertia %.9g in base, %.9g in new, a relative %.3g; at most %.2g is rounding",
                before, after, difference, tolerance),
      true);
}

/// Answers of two certified runs. Those of exact variants are defined to the last bit, on every
/// machine; of all others each side has passed its certificate, and other bits are but news: none
/// at all where they differ within one side.
void compare_answers(const CellResult& base, const CellResult& changed, ComparedCell& cell) {
  const auto add = [&](const std::string& sentence, bool regression) {
    cell.correctness.push_back(sentence);
    cell.correctness_regression = cell.correctness_regression || regression;
  };
  // What base did not know is not lost.
  auto differences = answer_differences(base, changed);
  std::erase_if(differences, [](const AnswerDifference& one) { return one.before.is_null(); });
  std::string others;
  for (const auto& [what, before, after] : differences) {
    if (what == "inertia" || what == "empty clusters") continue;
    if (after.is_null()) {
      add("the hash of its " + what + " is missing", true);
    } else if (base.exact) {
      add("other " + what + ": hash " + before.get<std::string>() + " in base, " +
              after.get<std::string>() + " in new, of an exact variant",
          true);
    } else {
      others += (others.empty() ? "other " : " and ") + what;
    }
  }
  if (!others.empty() && !bits_vary(base, changed)) add(others + ", both certified", false);
  const auto difference_in = [&](const char* what) {
    return std::find_if(differences.begin(), differences.end(),
                        [&](const AnswerDifference& one) { return one.what == what; });
  };
  if (const auto found = difference_in("inertia"); found != differences.end()) {
    compare_inertia(*found, base.exact, add);
  }
  const auto empty_clusters = difference_in("empty clusters");
  const bool uncounted = empty_clusters != differences.end() && empty_clusters->after.is_null();
  if (uncounted) add("the count of empty clusters is missing", true);
  for (const auto& check : failed_checks(changed)) {
    add("called verified although a check did not pass: " + check, true);
  }
  if (empty_clusters != differences.end() && !uncounted) {
    add(spoken("empty clusters", empty_clusters->before, empty_clusters->after), base.exact);
  }
  if (member(base.data, "bit_equal_across_processes") == true && varies(changed)) {
    add("its processes no longer agree bit for bit", base.exact);
  }
}

ComparedCell compare_cell(const ResultFile& base_file, const CellResult& base,
                          const CellResult& changed) {
  ComparedCell cell;
  cell.experiment = base_file.experiment;
  cell.key = base.key;
  cell.new_key = changed.key;
  cell.backend = base.backend;
  cell.base = side_of(base);
  cell.changed = side_of(changed);
  compare_status(base.status, changed.status, changed.reason, cell.correctness,
                 cell.correctness_regression, cell.lost);
  const auto broken = [](const CellResult& one) {
    return (one.status == "wrong" || one.status == "error") && !one.wrong_because;
  };
  cell.still_broken = broken(base) && broken(changed);
  if (base.status == "ok" && changed.status == "ok") {
    compare_answers(base, changed, cell);
  } else {
    cell.why = "untimed: " + base.status + " in base, " + changed.status + " in new";
  }
  return cell;
}

struct MatchedCell {
  const CellResult* base;
  const CellResult* changed;
};

/// A cell's key with the hash of its points instead of the name of the file that they came from;
/// empty where they came from no file. The same file at another place is the same work.
std::string key_by_content(const ResultFile& file, const CellResult& cell) {
  const json hash = dataset_hash(file, cell);
  if (!hash.is_string()) return "";
  const json spec = member(file.context.at("datasets").at(cell.key.points()), "spec");
  if (!spec.is_object() || !spec.contains("file")) return "";
  CellKey key = cell.key;
  key.dataset = hash.get<std::string>();
  return key.text();
}

/// Pairs what is left by `name`, where that is unmistakable; what has no name is left.
template <class NameInBase, class NameInNew>
void match_rest(std::vector<MatchedCell>& matches, std::map<std::string, const CellResult*>& rest,
                const NameInBase& in_base, const NameInNew& in_new) {
  std::map<std::string, std::vector<const CellResult*>> offered;
  std::map<std::string, int> wanted;
  for (const auto& [key, cell] : rest) offered[in_new(*cell)].push_back(cell);
  for (const auto& match : matches) {
    if (match.changed == nullptr) ++wanted[in_base(*match.base)];
  }
  for (auto& match : matches) {
    if (match.changed != nullptr) continue;
    const std::string name = in_base(*match.base);
    const auto found = offered.find(name);
    if (name.empty() || found == offered.end()) continue;
    if (found->second.size() != 1 || wanted[name] != 1) continue;
    match.changed = found->second.front();
    rest.erase(match.changed->key.text());
  }
}

/// Pairs by key; what is left by the contents of the data file; and across hardware by the key
/// without its threads. What finds no partner has a null.
std::vector<MatchedCell> match_cells(const ResultFile& base, const ResultFile& changed,
                                     bool cross_hardware) {
  std::map<std::string, const CellResult*> rest;
  for (const auto& cell : changed.cells) rest.emplace(cell.key.text(), &cell);
  std::vector<MatchedCell> matches;
  for (const auto& cell : base.cells) {
    const auto found = rest.find(cell.key.text());
    matches.push_back({&cell, found == rest.end() ? nullptr : found->second});
    if (found != rest.end()) rest.erase(found);
  }
  match_rest(
      matches, rest, [&](const CellResult& cell) { return key_by_content(base, cell); },
      [&](const CellResult& cell) { return key_by_content(changed, cell); });
  if (cross_hardware) {
    const auto work = [](const CellResult& cell) { return cell.key.work(); };
    match_rest(matches, rest, work, work);
  }
  for (const auto& cell : changed.cells) {
    if (rest.contains(cell.key.text())) matches.push_back({nullptr, &cell});
  }
  return matches;
}

/// Names the cell of the other side that differs in one respect alone.
std::string absence(const CellKey& key, const std::vector<MatchedCell>& matches) {
  for (const auto& match : matches) {
    if (match.base != nullptr || match.changed->key.variant != key.variant) continue;
    const CellKey& other = match.changed->key;
    const int differing =
        (other.shape.precision != key.shape.precision ? 1 : 0) +
        (other.dataset != key.dataset ? 1 : 0) + (other.shape.k != key.shape.k ? 1 : 0) +
        (other.iterations != key.iterations ? 1 : 0) + (other.threads != key.threads ? 1 : 0);
    if (differing == 1) {
      return "not in new, which has " + other.text() + ": other work is not compared";
    }
  }
  return "not in new";
}

// --- Traces and studies ---

bool is_exact_variant(const std::string& name, const ResultFile& file) {
  const auto cell = std::find_if(file.cells.begin(), file.cells.end(),
                                 [&](const CellResult& c) { return c.key.variant == name; });
  if (cell != file.cells.end()) return cell->exact;
  const RegisteredVariant* registered = find_variant(name);
  return registered != nullptr && registered->traits.exact;
}

void compare_trace(const ResultFile& file, const json& base, const json& changed,
                   ComparedRecord& record) {
  for (const char* key : {"variant", "precision", "dataset", "n", "d", "k", "init", "stop"}) {
    if (member(base, key) != member(changed, key)) {
      record.correctness.push_back("not compared, being other work: " +
                                   spoken(key, member(base, key), member(changed, key)));
      return;
    }
  }
  compare_status(text_in(base, "status"), text_in(changed, "status"), text_in(changed, "reason"),
                 record.correctness, record.correctness_regression, record.lost);
  if (text_in(base, "status") != "ok" || text_in(changed, "status") != "ok") return;
  const bool exact = is_exact_variant(text_in(base, "variant"), file);
  const auto add = [&](const std::string& sentence) {
    record.correctness.push_back(sentence);
    record.correctness_regression = record.correctness_regression || exact;
  };
  for (const auto& [what, before, after] : trace_differences(base, changed)) {
    if (what == "iterations") {
      add(to_line(before) + " iterations in base, " + to_line(after) + " in new");
    } else if (what == "labels" && after.is_null()) {
      add("the hash of its labels is missing");
      record.correctness_regression = true;
    } else if (what == "labels" && !before.is_null()) {
      add(spoken("label hash", before, after));
    }
  }
}

void compare_records(const ResultFile& base, const ResultFile& changed,
                     const CompareSettings& settings, Comparison& comparison) {
  const auto selected = [&](const std::string& name) {
    return !settings.only || takes(*settings.only, {base.experiment, name});
  };
  const auto compare_list = [&](const char* kind, const json& before, const json& after) {
    std::map<std::string, const json*> by_name;
    for (const auto& record : after) by_name.emplace(text_in(record, "name"), &record);
    for (const auto& record : before) {
      const std::string name = text_in(record, "name");
      if (!selected(name)) continue;
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        if (text_in(record, "status") != "skipped") {
          comparison.missing.push_back(
              {base.experiment, std::string(kind) + " " + name, "not in new", true});
        }
        continue;
      }
      ComparedRecord compared{base.experiment, kind, name, {}, false, false};
      if (std::string_view(kind) == "trace") {
        compare_trace(base, record, *found->second, compared);
      } else {
        compare_status(text_in(record, "status"), text_in(*found->second, "status"),
                       text_in(*found->second, "reason"), compared.correctness,
                       compared.correctness_regression, compared.lost);
      }
      if (!compared.correctness.empty()) comparison.records.push_back(std::move(compared));
    }
  };
  compare_list("trace", base.traces, changed.traces);
  compare_list("study", base.studies, changed.studies);
  compare_list("fit", base.fits, changed.fits);
}

// --- The whole ---

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

std::vector<double> process_times(const std::vector<std::vector<double>>& samples, bool in_turns) {
  return in_turns ? process_minima(samples) : process_medians(samples);
}

std::vector<TimeVerdict> judge_times(const std::vector<TimePair>& pairs,
                                     const CompareSettings& settings) {
  std::vector<TimeVerdict> results(pairs.size());
  std::vector<std::size_t> tested;
  std::vector<double> p;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TimeVerdict& result = results[i];
    result.ratio = ratio_of(pairs[i]);
    result.p = p_of(pairs[i]);
    if (const auto interval = interval_of(pairs[i], settings.confidence)) {
      // Of a few processes the interval may miss the ratio, which is printed.
      result.low = std::min(interval->first, result.ratio);
      result.high = std::max(interval->second, result.ratio);
    }
    // A test that can never reject adds no false discovery, and must not blunt the others.
    if (least_p(pairs[i]) <= settings.false_discovery_rate) {
      tested.push_back(i);
      p.push_back(result.p);
    }
  }
  const auto adjusted = benjamini_hochberg(p);
  for (std::size_t i = 0; i < tested.size(); ++i) results[tested[i]].p_adjusted = adjusted[i];
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    decide(pairs[i], settings, tested.size(), results[i]);
    results[i].clearly_slower = clearly_slower(pairs[i], settings);
    results[i].sees = smallest_seen(pairs[i], settings, tested.size(), results[i].ratio);
  }
  return results;
}

std::vector<std::string> hardware_differences(const json& base, const json& changed) {
  Sentences sentences;
  const json& before = base.at("machine");
  const json& after = changed.at("machine");
  for (const char* key : kHardwareOfCpu) {
    sentences.compare(plain_name("cpu ", key), member(before.at("cpu"), key),
                      member(after.at("cpu"), key));
  }
  sentences.compare("cpu caches", cache_text(before.at("cpu")), cache_text(after.at("cpu")));
  const auto gpus = [](const json& machine) {
    json list = json::array();
    for (const auto& gpu : machine.at("gpus")) {
      json one = json::array();
      for (const char* key : kHardwareOfGpu) one.push_back(member(gpu, key));
      list.push_back(one);
    }
    return list;
  };
  const json gpus_before = gpus(before);
  const json gpus_after = gpus(after);
  if (gpus_before != gpus_after) {
    const auto listed = [](const json& list) { return list.empty() ? json("none") : list; };
    sentences.add(spoken("GPUs", listed(gpus_before), listed(gpus_after)));
  }
  const json memory_before = member(before.at("memory"), "total_bytes");
  const json memory_after = member(after.at("memory"), "total_bytes");
  if (memory_before.is_number() && memory_after.is_number()) {
    const double one = memory_before.get<double>();
    const double other = memory_after.get<double>();
    if (std::abs(one - other) > kMemoryTolerance * std::max(one, other)) {
      sentences.add("memory: " + format_bytes(one) + " in base, " + format_bytes(other) +
                    " in new");
    }
  }
  return sentences.take();
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
