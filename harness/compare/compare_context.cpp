// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare_context.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/compare/compare.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Of the machine's memory: a kernel reserves a little more or less.
constexpr double kMemoryTolerance = 0.02;

std::string shown(const json& value) {
  std::string text = value.is_null() ? "nothing" : to_line(value);
  if (text.size() > 80) text = valid_utf8(text.substr(0, 77)) + "...";
  return text;
}

/// Values by pointer, of the parts of a context that may differ between runs of one machine.
std::map<std::string, json> flat(const json& value) {
  std::map<std::string, json> result;
  if (!value.is_object() && !value.is_array()) return result;
  const json leaves = value.flatten();
  for (const auto& item : leaves.items()) result[item.key()] = item.value();
  return result;
}

/// "/openblas/core" -> "openblas core".
std::string plain_name(const std::string& prefix, std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', ' ');
  return valid_utf8(prefix + pointer);
}

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

}  // namespace

std::string spoken(const std::string& what, const json& base, const json& changed) {
  return what + ": " + shown(base) + " in base, " + shown(changed) + " in new";
}

void Sentences::add(const std::string& sentence) {
  if (said_.insert(sentence).second) sentences_.push_back(sentence);
}

void Sentences::compare(const std::string& what, const json& base, const json& changed) {
  if (base != changed) add(spoken(what, base, changed));
}

void Sentences::compare_flat(const std::string& prefix, const json& base, const json& changed) {
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

}  // namespace kmeans
