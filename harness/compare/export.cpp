// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/export.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "harness/compare/derived.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/only.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// One unit, whatever the size of a cell: compare.py drops rows whose unit changes, and prints whole
// units only.
constexpr const char* kGoogleUnit = "ns";
constexpr double kGoogleUnits = 1e9;

const std::vector<std::pair<std::string, ExportFormat>>& formats() {
  static const std::vector<std::pair<std::string, ExportFormat>> kFormats{
      {"google-benchmark", ExportFormat::google_benchmark},
      {"csv", ExportFormat::csv},
      {"derived", ExportFormat::derived}};
  return kFormats;
}

struct Chosen {
  const ResultFile* file = nullptr;
  const CellResult* cell = nullptr;
  std::string name;  // Unique over all experiments of a machine, and the same in every export.
};

std::string name_of(const ResultFile& file, const CellResult& cell) {
  return valid_utf8(file.experiment + "/" + cell.key.text());
}

std::vector<Chosen> choose(const std::vector<ResultFile>& results, const std::string& only) {
  const Pattern expression(only);
  std::vector<Chosen> chosen;
  std::vector<UnitName> units;
  for (const auto& file : results) {
    for (const auto& cell : file.cells) {
      units.push_back({file.experiment, cell.key.text()});
      if (takes(expression, units.back())) {
        chosen.push_back({&file, &cell, name_of(file, cell)});
      }
    }
  }
  if (chosen.empty()) {
    throw InputError(only.empty() ? "nothing to export: the results hold no cells"
                                  : takes_none(only, units));
  }
  return chosen;
}

/// The headline number, which processes that disagree do not have.
std::optional<double> headline(const CellResult& cell) {
  return cell.unsteady.empty() ? cell.median : std::nullopt;
}

void count_doubts(const std::vector<Chosen>& chosen, Export& result) {
  for (const auto& one : chosen) {
    result.unsteady += one.cell->unsteady.empty() ? 0 : 1;
    result.noted += one.cell->noted.empty() ? 0 : 1;
  }
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const auto& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

// Splits off what has no time to rely on, counted by status.
std::vector<Chosen> timed_only(const std::vector<Chosen>& chosen, Export& result) {
  std::vector<Chosen> timed;
  for (const auto& one : chosen) {
    if (one.cell->status == "ok" && headline(*one.cell)) {
      timed.push_back(one);
    } else if (one.cell->status == "ok" && !one.cell->unsteady.empty()) {
      ++result.omitted["ok, but unsteady"];
    } else {
      ++result.omitted[one.cell->status];
    }
  }
  if (timed.empty()) {
    throw InputError("nothing to export: of the " +
                     format_count(static_cast<std::int64_t>(chosen.size())) +
                     " cells chosen none is ok and steady, and only those have times to rely on");
  }
  return timed;
}

void require_one_machine(const std::vector<Chosen>& chosen) {
  const ResultFile& first = *chosen.front().file;
  for (const auto& one : chosen) {
    if (one.file->machine != first.machine) {
      throw InputError("results of two machines, '" + valid_utf8(first.machine) + "' (" +
                       first.path.string() + ") and '" + valid_utf8(one.file->machine) + "' (" +
                       one.file->path.string() + "): export each machine by itself");
    }
  }
}

void require_unique_names(const std::vector<Chosen>& chosen) {
  std::map<std::string, const ResultFile*> seen;
  for (const auto& one : chosen) {
    const auto [found, added] = seen.emplace(one.name, one.file);
    if (!added) {
      throw InputError("two cells are called '" + one.name + "', of " +
                       found->second->path.string() + " and " + one.file->path.string() +
                       ": export these files by themselves");
    }
  }
}

// A member of nested objects, or null.
// The one value that all files have, or all that there are.
json common_or_all(const std::vector<const ResultFile*>& files,
                   std::initializer_list<const char*> keys) {
  json values = json::array();
  for (const auto* file : files) {
    json value = member(file->context, keys);
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }
  return values.size() == 1 ? values.front() : values;
}

Unfit unfit_for_publication(const std::vector<Chosen>& chosen) {
  Unfit unfit;
  std::set<const ResultFile*> seen;
  for (const auto& one : chosen) {
    const ResultFile& file = *one.file;
    if (!seen.insert(&file).second) continue;
    std::vector<std::string> faults;
    if (member(file.context, {"suite", "git_dirty"}) == true) {
      faults.emplace_back("built from a modified tree");
    }
    if (!faults.empty()) unfit.emplace_back(file.experiment, std::move(faults));
  }
  return unfit;
}

// What Google Benchmark reports about machine and run, as far as a result file knows it; facts that
// it does not know are left out.
json google_context(const std::vector<Chosen>& chosen) {
  std::vector<const ResultFile*> files;
  json experiments = json::array();
  std::string date;
  for (const auto& one : chosen) {
    if (std::find(files.begin(), files.end(), one.file) != files.end()) continue;
    files.push_back(one.file);
    experiments.push_back(one.file->experiment);
    const json started = member(one.file->context, "started");
    if (started.is_string() && (date.empty() || started.get<std::string>() < date)) {
      date = started.get<std::string>();
    }
  }
  const json& first = files.front()->context;
  json context{{"json_schema_version", 1},
               {"date", date},
               {"host_name", files.front()->machine},
               {"executable", "kmeans-bench"},
               {"caches", json::array()},
               {"load_avg", json::array()},
               {"library_build_type",
                member(first, {"suite", "build_type"}) == "Debug" ? "debug" : "release"},
               {"cpu_time", "not measured: repeats real_time"},
               {"experiments", std::move(experiments)},
               {"kmeans_bench_version", common_or_all(files, {"suite", "version"})},
               {"git_commit", common_or_all(files, {"suite", "git_commit"})},
               {"git_dirty", common_or_all(files, {"suite", "git_dirty"})},
               {"compiler", common_or_all(files, {"suite", "compiler"})}};
  json unfit = json::array();
  for (const auto& [experiment, faults] : unfit_for_publication(chosen)) {
    for (const auto& fault : faults) unfit.push_back(experiment + ": " + fault);
  }
  if (!unfit.empty()) context["not_for_publication"] = std::move(unfit);
  const json cpu = member(first, {"machine", "cpu"});
  const json cores = member(cpu, "logical_cores");
  if (cores.is_number()) context["num_cpus"] = cores;
  for (const char* clock : {"max_mhz", "base_mhz", "current_mhz"}) {
    const json mhz = member(cpu, clock);
    if (mhz.is_number()) {
      context["mhz_per_cpu"] = mhz;
      break;
    }
  }
  const json governor = member(cpu, "governor");
  if (governor.is_string()) context["cpu_scaling_enabled"] = governor != "performance";
  for (const auto& cache : member(cpu, "caches")) {
    const json type = member(cache, "type");
    const json level = member(cache, "level");
    const json bytes = member(cache, "bytes");
    const json shared = member(cache, "shared_by_threads");
    if (!type.is_string() || !level.is_number() || !bytes.is_number()) continue;
    std::string name = type.get<std::string>();
    if (!name.empty() && name.front() >= 'a' && name.front() <= 'z') {
      name.front() = static_cast<char>(name.front() - 'a' + 'A');
    }
    context["caches"].push_back({{"type", name},
                                 {"level", level},
                                 {"size", bytes},
                                 {"num_sharing", shared.is_number() ? shared : json(1)}});
  }
  return context;
}

json google_benchmarks(const std::vector<Chosen>& chosen) {
  json rows = json::array();
  std::map<std::string, std::pair<std::size_t, std::size_t>> families;  // index, instances so far
  for (const auto& one : chosen) {
    const CellResult& cell = *one.cell;
    std::vector<double> samples;
    for (const auto& process : cell.samples) {
      samples.insert(samples.end(), process.begin(), process.end());
    }
    const std::string family =
        one.file->experiment + "/" + cell.key.variant + "/" + to_string(cell.key.shape.precision);
    auto& [index, instances] =
        families.emplace(family, std::pair{families.size(), std::size_t{0}}).first->second;
    json row{{"name", one.name},
             {"run_name", one.name},
             {"run_type", "iteration"},
             {"family_index", index},
             {"per_family_instance_index", instances++},
             {"repetitions", samples.size()},
             {"threads", cell.key.threads},
             {"iterations", cell.key.iterations},
             {"time_unit", kGoogleUnit}};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      row["repetition_index"] = i;
      row["real_time"] = samples[i] * kGoogleUnits;
      row["cpu_time"] = samples[i] * kGoogleUnits;
      rows.push_back(row);
    }
  }
  return rows;
}

std::size_t sample_count(const CellResult& cell) {
  std::size_t count = 0;
  for (const auto& process : cell.samples) count += process.size();
  return count;
}

std::string csv(const std::vector<Chosen>& chosen) {
  // A column and how to get it from a cell.
  using Get = std::string (*)(const Chosen&);
  static const auto number = [](const json& value) {
    return value.is_number() ? value.dump() : std::string();
  };
  static const auto when_steady = [](const Chosen& one, const json& value) {
    return headline(*one.cell) ? number(value) : std::string();
  };
  static const auto optional_number = [](const auto& value) {
    return value ? json(*value).dump() : std::string();
  };
  static const std::vector<std::pair<const char*, Get>> kColumns{
      {"experiment", [](const Chosen& one) { return one.file->experiment; }},
      {"scale", [](const Chosen& one) { return one.file->scale; }},
      {"machine", [](const Chosen& one) { return one.file->machine; }},
      {"git_commit",
       [](const Chosen& one) {
         const json commit = member(one.file->context, {"suite", "git_commit"});
         return commit.is_string() ? commit.get<std::string>() : std::string();
       }},
      {"key", [](const Chosen& one) { return one.cell->key.text(); }},
      {"variant", [](const Chosen& one) { return one.cell->key.variant; }},
      {"backend", [](const Chosen& one) { return one.cell->backend; }},
      {"precision",
       [](const Chosen& one) { return std::string(to_string(one.cell->key.shape.precision)); }},
      {"exact", [](const Chosen& one) { return std::string(one.cell->exact ? "true" : "false"); }},
      {"dataset", [](const Chosen& one) { return one.cell->key.dataset; }},
      {"init", [](const Chosen& one) { return one.cell->init; }},
      {"n", [](const Chosen& one) { return std::to_string(one.cell->key.shape.n); }},
      {"d", [](const Chosen& one) { return std::to_string(one.cell->key.shape.d); }},
      {"k", [](const Chosen& one) { return std::to_string(one.cell->key.shape.k); }},
      {"iterations", [](const Chosen& one) { return std::to_string(one.cell->key.iterations); }},
      {"threads", [](const Chosen& one) { return std::to_string(one.cell->key.threads); }},
      {"status", [](const Chosen& one) { return one.cell->status; }},
      {"reason", [](const Chosen& one) { return one.cell->reason; }},
      {"seconds_per_iteration",
       [](const Chosen& one) { return optional_number(headline(*one.cell)); }},
      {"ci95_low",
       [](const Chosen& one) {
         return when_steady(one, member(one.cell->data, {"seconds_per_iteration", "ci95_low"}));
       }},
      {"ci95_high",
       [](const Chosen& one) {
         return when_steady(one, member(one.cell->data, {"seconds_per_iteration", "ci95_high"}));
       }},
      {"processes", [](const Chosen& one) { return std::to_string(one.cell->samples.size()); }},
      {"samples", [](const Chosen& one) { return std::to_string(sample_count(*one.cell)); }},
      {"gflops",
       [](const Chosen& one) {
         return headline(*one.cell) ? optional_number(one.cell->gflops) : std::string();
       }},
      {"gbytes_per_second_compulsory",
       [](const Chosen& one) {
         return headline(*one.cell) ? optional_number(one.cell->compulsory_gbytes_per_second)
                                    : std::string();
       }},
      {"inertia", [](const Chosen& one) { return optional_number(one.cell->inertia); }},
      {"empty_clusters",
       [](const Chosen& one) { return optional_number(one.cell->empty_clusters); }},
      {"label_hash", [](const Chosen& one) { return one.cell->label_hash.value_or(""); }},
      {"centroid_hash", [](const Chosen& one) { return one.cell->centroid_hash.value_or(""); }},
      {"setup_seconds",
       [](const Chosen& one) { return number(member(one.cell->data, "setup_seconds")); }},
      {"whole_call_seconds_1",
       [](const Chosen& one) {
         return number(member(one.cell->data, {"whole_call_seconds", "1"}));
       }},
      {"whole_call_seconds_20",
       [](const Chosen& one) {
         return number(member(one.cell->data, {"whole_call_seconds", "20"}));
       }},
      {"whole_call_seconds_300",
       [](const Chosen& one) {
         return number(member(one.cell->data, {"whole_call_seconds", "300"}));
       }},
      {"unsteady", [](const Chosen& one) { return joined(one.cell->unsteady); }},
      {"noted", [](const Chosen& one) { return joined(one.cell->noted); }}};
  std::string text;
  for (const auto& column : kColumns) text += (text.empty() ? "" : ",") + std::string(column.first);
  text += '\n';
  for (const auto& one : chosen) {
    bool first = true;
    for (const auto& column : kColumns) {
      if (!first) text += ',';
      first = false;
      text += csv_field(column.second(one));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

const std::vector<std::string>& export_format_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, format] : formats()) names.push_back(name);
    return names;
  }();
  return kNames;
}

ExportFormat parse_export_format(const std::string& name) {
  for (const auto& [known, format] : formats()) {
    if (known == name) return format;
  }
  throw InputError("unknown format '" + name + "'; " + closest_names(name, export_format_names()));
}

std::string csv_field(std::string_view text) {
  std::string field = valid_utf8(text);
  for (char& c : field) {
    // A line break or an escape sequence says nothing in a table.
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  // Spreadsheets run what begins like this; the apostrophe makes it text. Only texts can begin so:
  // the numbers of a result are not negative, and where one is, it is nothing else.
  const auto begin = field.find_first_not_of(' ');
  if (begin != std::string::npos &&
      std::string_view("=+-@").find(field[begin]) != std::string_view::npos) {
    field.insert(field.begin(), '\'');
  }
  if (field.find_first_of("\",") == std::string::npos && begin == 0) return field;
  if (field.empty()) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

Export export_results(const std::vector<ResultFile>& results, ExportFormat format,
                      const std::string& only) {
  Export result;
  if (format == ExportFormat::derived) {
    if (!only.empty()) throw InputError("--only: what is derived is that of whole files");
    for (const auto& file : results) result.cells += file.cells.size();
    result.text = derived_facts(results);
    return result;
  }
  const auto chosen = choose(results, only);
  result.not_for_publication = unfit_for_publication(chosen);
  if (format == ExportFormat::csv) {
    result.cells = chosen.size();
    result.text = csv(chosen);
    count_doubts(chosen, result);
    return result;
  }
  require_one_machine(chosen);
  require_unique_names(chosen);
  const auto timed = timed_only(chosen, result);
  count_doubts(timed, result);
  result.cells = timed.size();
  result.text =
      presentable({{"context", google_context(timed)}, {"benchmarks", google_benchmarks(timed)}})
          .dump(1) +
      "\n";
  return result;
}

}  // namespace kmeans
