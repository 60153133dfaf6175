// SPDX-License-Identifier: Apache-2.0
#include "harness/record/result_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/errors.h"
#include "harness/support/json_reader.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Traces hold an object for every iteration, studies a row for every point of a line; the largest
// file so far has 1.2 MB.
constexpr JsonLimits kResultLimits{std::size_t{128} << 20, 32, 5'000'000};
// Of numbers that are formed from one another: more than rounding between them is damage.
constexpr double kTolerance = 1e-6;
// A profiling pass adds marks and waits to each iteration, and may be disturbed as any other part: of a
// step of a microsecond, by a thousand times itself, when something else gets the core. Yet its stages are
// not a hundred times as long as the slowest whole step, and a tenth of a second.
constexpr double kStagesOverStep = 100;
constexpr double kLongestDisturbance = 0.1;

/// 64 bits in hexadecimal.
std::string hash_in(const JsonReader& node) {
  std::string result = node.text();
  const bool hexadecimal = std::all_of(result.begin(), result.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (result.size() != 16 || !hexadecimal) node.fail_type("16 hexadecimal digits");
  return result;
}

/// Durations by process; none is without.
std::vector<std::vector<double>> groups_of_times(const JsonReader& list) {
  std::vector<std::vector<double>> groups;
  for (const JsonReader& process : list.elements()) {
    std::vector<double> own;
    for (const JsonReader& sample : process.elements()) own.push_back(sample.positive());
    if (own.empty()) process.fail("a process without samples");
    groups.push_back(std::move(own));
  }
  return groups;
}

std::vector<double> pooled(const std::vector<std::vector<double>>& groups) {
  std::vector<double> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// A number that the file says twice must be the same both times.
void require_near(const JsonReader& stated, double expected, const std::string& whose,
                  const std::string& what) {
  const double value = stated.number();
  if (std::abs(value - expected) <= kTolerance * std::abs(expected)) return;
  stated.fail(whose + ": " + shortened(stated.value()) + " is not " + what + ", " +
              shortened(json(expected)));
}

/// Null is an answer too, and not that of samples that give a number.
void require_number(const JsonReader& stated, const std::string& whose) {
  if (stated.present() && stated.value().is_null()) {
    stated.fail(whose + ": null, but its samples give a number");
  }
}

std::string name_of(const CellResult& cell) { return "cell " + valid_utf8(cell.key.text()); }

void require_absent(const JsonReader& node, const char* what) {
  if (node) node.fail(std::string(what) + " belong to status \"ok\" alone");
}

void check_summary(const JsonReader& summary, const CellResult& cell) {
  const json expected = summarise_processes(cell.samples);
  for (const auto& [name, value] : expected.items()) {
    const auto stated = summary[name];
    if (!value.is_null()) require_number(stated, name_of(cell));
    if (!stated) continue;
    if (value.is_null()) {
      stated.fail(name_of(cell) + ": " + shortened(stated.value()) +
                  ", but so few samples bound no median");
    }
    const std::string of = name == "median" ? "processes' medians" : "samples";
    require_near(stated, value, name_of(cell), "the " + name + " of the " + of);
  }
}

/// Rates are those of the models of docs/metrics.md at the median.
void check_rates(const JsonReader& node, const CellResult& cell) {
  const Shape& shape = cell.key.shape;
  const auto check = [&](const JsonReader& rate, double work, const char* model) {
    require_number(rate, name_of(cell));
    if (rate) require_near(rate, work / *cell.median * 1e-9, name_of(cell), model);
  };
  check(node["gflops"], operations_zechner(shape), "nk(3d+2) + d(n+k) over the median");
  check(node["gflops_2nkd"], operations_2nkd(shape), "2nkd over the median");
  if (const auto rates = node["gbytes_per_second"]) {
    check(rates["compulsory"], compulsory_bytes(shape), "the compulsory traffic over the median");
    if (const auto rate = rates["as_written"]) rate.not_negative();
  }
}

void check_counts(const JsonReader& node, const CellResult& cell) {
  std::size_t most = 0;
  for (const auto& process : cell.samples) most = std::max(most, process.size());
  if (const auto processes = node["processes"]) {
    require_near(processes, static_cast<double>(cell.samples.size()), name_of(cell),
                 "the number of processes with samples");
  }
  if (const auto repetitions = node["repetitions"]) {
    require_near(repetitions, static_cast<double>(most), name_of(cell),
                 "the largest number of samples of a process");
  }
}

void check_stages(const JsonReader& node, const CellResult& cell) {
  const auto stages = node["stages"];
  if (!stages) return;
  const auto samples = node["stage_samples_seconds_per_iteration"];
  double whole = 0;
  for (const auto& [name, stage] : stages.members()) {
    whole += stage.not_negative();
    const auto own = samples ? samples[name] : samples;
    if (!own) continue;
    std::vector<double> times;
    for (const JsonReader& sample : own.elements()) times.push_back(sample.not_negative());
    if (times.empty()) own.fail("a stage without samples");
    std::sort(times.begin(), times.end());
    require_near(stage, percentile(times, 0.5), name_of(cell), "the median of the stage's samples");
  }
  const auto all = pooled(cell.samples);
  const double slowest = *std::max_element(all.begin(), all.end());
  if (whole > kStagesOverStep * slowest + kLongestDisturbance) {
    stages.fail(name_of(cell) + ": its stages take " + shortened(json(whole)) +
                " s, the slowest whole step " + shortened(json(slowest)) + " s");
  }
}

/// Zero where the text is not a number.
std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? number : 0;
}

/// Setup and so many iterations of the median, of a cell for which one number speaks.
void check_whole_calls(const JsonReader& node, const CellResult& cell) {
  const auto setup = node["setup_seconds"];
  const double seconds = setup ? setup.not_negative() : 0;
  const auto calls = node["whole_call_seconds"];
  if (!calls) return;
  for (const auto& [count, stated] : calls.members()) {
    if (!stated) continue;
    const std::int64_t steps = number_of(count);
    if (steps < 1) stated.fail("'" + valid_utf8(count) + "' is not a number of iterations");
    if (!cell.unsteady.empty())
      stated.fail(name_of(cell) + ": is unsteady, so it has no such time");
    if (!setup) stated.fail(name_of(cell) + ": has no setup_seconds, so it has no such time");
    require_near(stated, seconds + static_cast<double>(steps) * *cell.median, name_of(cell),
                 "setup and " + count + " iterations of the median");
  }
}

/// What the file says twice: its samples and what is formed from them.
void check_statistics(const JsonReader& node, const CellResult& cell) {
  if (cell.status == "ok") {
    check_rates(node, cell);
    check_counts(node, cell);
    check_stages(node, cell);
    check_whole_calls(node, cell);
    return;
  }
  require_absent(node["gflops_2nkd"], "rates");
  require_absent(node["device_seconds_per_iteration"], "times");
  for (const char* key : {"gbytes_per_second", "whole_call_seconds", "stages"}) {
    const auto object = node[key];
    if (!object) continue;
    for (const auto& [name, member] : object.members()) require_absent(member, "times and rates");
  }
}

void read_times(const JsonReader& node, CellResult& cell) {
  const JsonReader samples = node["samples_seconds_per_iteration"];
  cell.samples = groups_of_times(samples);
  const auto summary = node["seconds_per_iteration"];
  const auto gflops = node["gflops"];
  if (cell.status != "ok") {
    if (!cell.samples.empty()) samples.fail("times belong to status \"ok\" alone");
    if (summary) summary.fail("times belong to status \"ok\" alone");
    if (gflops) gflops.fail("rates belong to status \"ok\" alone");
    return;
  }
  if (cell.samples.empty()) samples.fail("status is \"ok\", but there are no samples");
  if (!summary) node.fail("status is \"ok\", but \"seconds_per_iteration\" is missing or null");
  cell.median = summary["median"].positive();
  check_summary(summary, cell);
  if (gflops) cell.gflops = gflops.not_negative();
  if (const auto rates = node["gbytes_per_second"]) {
    if (const auto rate = rates["compulsory"]) {
      cell.compulsory_gbytes_per_second = rate.not_negative();
    }
  }
}

void read_paces(const JsonReader& node, CellResult& cell) {
  const auto pace = node["pace"];
  if (!pace) return;
  const double best = pace["best_seconds"].positive();
  const JsonReader ratios = pace["ratios"];
  bool whole = true;
  for (const JsonReader& ratio : ratios.elements()) {
    if (ratio.value().is_null()) {
      whole = false;
    } else {
      const double seconds = best * ratio.positive();
      if (!(seconds > 0) || !std::isfinite(seconds)) ratio.fail("times best_seconds is not a time");
      cell.paces.push_back(seconds);
    }
  }
  if (cell.samples.size() != ratios.value().size()) {
    ratios.fail("one number a process is wanted, " + std::to_string(cell.samples.size()));
  }
  if (!whole) cell.paces.clear();
}

std::vector<std::string> sentences(const JsonReader& list) {
  return list.each([](const JsonReader& sentence) { return sentence.text(); });
}

void read_doubts(const JsonReader& node, CellResult& cell) {
  cell.unsteady = sentences(node["unsteady"]);
  cell.noted = sentences(node["noted"]);
  if (cell.status != "ok" && !cell.unsteady.empty()) {
    node["unsteady"].fail("only times can be unsteady, and they belong to status \"ok\" alone");
  }
}

CellKey read_key(const JsonReader& node) {
  CellKey key;
  const std::string stated = node["key"].nonempty_text();
  key.variant = node["variant"].nonempty_text();
  key.shape.precision = node["precision"].parsed(parse_precision);
  key.dataset = node["dataset"].nonempty_text();
  key.shape.n = node["n"].integer(1);
  key.shape.d = node["d"].integer(1);
  key.shape.k = node["k"].integer(1);
  key.iterations = node["iterations"].integer(1);
  key.threads = node["threads"].integer<int>(1);
  if (const auto ranks = node["ranks"]) key.ranks = ranks.integer<int>(2);
  if (const auto gpus = node["gpus"]) key.gpus = gpus.integer<int>(2);
  if (stated != key.text()) {
    node["key"].fail(shortened(node["key"].value()) +
                     " does not fit the cell's own fields, which make \"" + valid_utf8(key.text()) +
                     "\"");
  }
  return key;
}

CellResult read_cell(const JsonReader& node) {
  CellResult cell;
  cell.key = read_key(node);
  cell.backend = node["backend"].nonempty_text();
  cell.init = node["init"].text();
  cell.exact = node["exact"].boolean();
  cell.status = node["status"].one_of({"ok", "wrong", "skipped", "error"});
  if (const auto reason = node["reason"]) cell.reason = reason.text();
  if ((cell.status == "ok") != cell.reason.empty()) {
    node["reason"].fail(cell.status == "ok" ? "a cell that is \"ok\" has no reason"
                                            : "must say why the cell is \"" + cell.status + "\"");
  }
  read_times(node, cell);
  read_paces(node, cell);
  if (const auto inertia = node["inertia"]) cell.inertia = inertia.not_negative();
  if (const auto hash = node["label_hash"]) cell.label_hash = hash_in(hash);
  if (const auto hash = node["centroid_hash"]) cell.centroid_hash = hash_in(hash);
  if (const auto count = node["empty_clusters"]) {
    cell.empty_clusters = count.integer(0);
  }
  if (const auto reason = node["wrong_because"]) cell.wrong_because = reason.text();
  read_doubts(node, cell);
  check_statistics(node, cell);
  if (const auto verification = node["verification"]) {
    const bool passed = verification["passed"].boolean();
    if (cell.status == "ok" && !passed) {
      verification["passed"].fail("status is \"ok\", but the certificate failed");
    }
  } else if (cell.status == "ok") {
    node.fail("status is \"ok\", but there is no certificate (\"verification\")");
  }
  cell.data = node.value();
  return cell;
}

/// The parts of the context that readers rely on, by type.
void check_context(const JsonReader& context) {
  context["command_line"].text();
  context["started"].text();
  if (const auto finished = context["finished"]) finished.text();
  const JsonReader suite = context["suite"];
  for (const char* key : {"version", "git_commit", "build_type", "compiler"}) {
    suite[key].text();
  }
  suite["git_dirty"].boolean();
  for (const char* key : {"sanitizers", "variant_flags", "march", "cuda"}) {
    if (const auto text = suite[key]) text.text();
  }
  const JsonReader machine = context["machine"];
  machine["id"].nonempty_text();
  const JsonReader cpu = machine["cpu"];
  cpu.require_object();
  if (const auto model = cpu["model"]) model.text();
  for (const char* key : {"logical_cores", "physical_cores", "usable_threads", "allowed_cpus"}) {
    if (const auto count = cpu[key]) count.integer(0);
  }
  for (const JsonReader& gpu : machine["gpus"].elements()) gpu["name"].text();
  for (const char* key : {"memory", "os", "libraries"}) machine[key].require_object();
  if (const auto ceilings = context["ceilings"]) ceilings.require_object();
  const JsonReader environment = context["environment"];
  if (const auto variables = environment["variables"]) variables.require_object();
  for (const char* key : {"neutralised", "warnings"}) {
    for (const JsonReader& text : environment[key].elements()) text.text();
  }
  context["threads"].integer(1);
  for (const auto& [label, dataset] : context["datasets"].members()) {
    dataset["sha256"].nonempty_text();
    dataset["scalar"].one_of({"f32", "f64"});
  }
  context["seeds"].require_object();
  for (const JsonReader& key : context["run_order"].elements()) key.text();
}

/// The time of a trace whose whole runs were timed is their median over its iterations.
void check_runs(const JsonReader& trace) {
  const auto runs = trace["runs_seconds"];
  const auto seconds = trace["seconds_per_iteration"];
  if (trace["status"].value() != "ok") {
    require_absent(seconds, "times");
    require_absent(runs, "times");
    return;
  }
  const std::string whose = "trace " + shortened(trace["name"].value());
  if (seconds) seconds.positive();
  if (!runs) return;
  std::vector<double> times = pooled(groups_of_times(runs));
  const JsonReader iterations = trace["iterations"];
  const std::size_t steps = iterations.elements().size();
  if (times.empty() || steps == 0) runs.fail(whose + ": times without runs or iterations");
  if (!seconds) trace.fail(whose + ": runs were timed, but \"seconds_per_iteration\" is missing");
  std::sort(times.begin(), times.end());
  require_near(seconds, percentile(times, 0.5) / static_cast<double>(steps), whose,
               "the median of its runs over its iterations");
}

/// Nothing that is not right has a time; its median is that of its calls.
void check_fit(const JsonReader& fit) {
  const std::string whose = "fit " + shortened(fit["name"].value());
  std::map<std::string, std::vector<double>> seconds;
  if (const auto calls = fit["calls"]) {
    for (const JsonReader& call : calls.elements()) {
      seconds[call["estimator"].nonempty_text()].push_back(call["seconds"].positive());
    }
  }
  if (!fit["rows"]) return;
  for (const JsonReader& row : fit["rows"].elements()) {
    const std::string estimator = row["estimator"].nonempty_text();
    const std::string status = row["status"].one_of({"ok", "wrong", "skipped", "error"});
    auto own = seconds.find(estimator);
    if (status != "ok") {
      for (const char* key : {"seconds", "seconds_low", "seconds_high", "first_call_seconds"}) {
        require_absent(row[key], "times");
      }
      if (own != seconds.end())
        row.fail(whose + ": times of " + estimator + ", which is " + status);
      continue;
    }
    const double median = row["seconds"].positive();
    if (own == seconds.end()) row.fail(whose + ": no calls of " + estimator);
    std::sort(own->second.begin(), own->second.end());
    static_cast<void>(median);
    require_near(row["seconds"], percentile(own->second, 0.5), whose, "the median of its calls");
  }
}

json read_list(const JsonReader& root, const char* key, const char* named_by) {
  const auto list = root[key];
  if (!list) return json::array();
  std::set<std::string> names;
  for (const JsonReader& element : list.elements()) {
    const JsonReader name = element[named_by];
    if (!names.insert(name.nonempty_text()).second) {
      name.fail(shortened(name.value()) + " appears twice");
    }
    element["status"].one_of({"ok", "wrong", "skipped", "error"});
  }
  return list.value();
}

PlannedNames read_planned(const JsonReader& node) {
  const auto names = [&](const char* key) {
    return node[key].each([](const JsonReader& name) { return name.nonempty_text(); });
  };
  // Files written before there were fits name none.
  return {names("cells"), names("traces"), names("studies"),
          node["fits"].present() ? names("fits") : std::vector<std::string>{}};
}

ResultFile from_document(const JsonDocument& document) {
  const JsonReader root(document);
  const JsonReader version = root["schema_version"];
  if (version.integer(0) != kResultSchemaVersion) {
    version.fail("this result file has schema version " + shortened(version.value()) +
                 ", this program reads version " + std::to_string(kResultSchemaVersion));
  }
  ResultFile file;
  file.path = document.source;
  file.experiment = root["experiment"].nonempty_text();
  file.scale = root["scale"].one_of({"quick", "paper"});
  file.complete = root["complete"].boolean();
  file.planned_cells = root["planned_cells"].integer(0);
  if (const auto planned = root["planned"]) file.planned = read_planned(planned);
  const JsonReader context = root["context"];
  check_context(context);
  file.machine = context["machine"]["id"].nonempty_text();
  file.context = context.value();
  const JsonReader spec = root["spec"];
  spec.require_object();
  file.spec = spec.value();
  std::set<std::string> keys;
  for (const JsonReader& node : root["cells"].elements()) {
    CellResult cell = read_cell(node);
    if (!keys.insert(cell.key.text()).second) {
      node["key"].fail(shortened(node["key"].value()) + " appears twice");
    }
    file.cells.push_back(std::move(cell));
  }
  if (file.complete && file.planned_cells != static_cast<std::int64_t>(file.cells.size())) {
    root["complete"].fail("says complete, but the file holds " + std::to_string(file.cells.size()) +
                          " of " + std::to_string(file.planned_cells) + " planned cells");
  }
  file.traces = read_list(root, "traces", "name");
  if (const auto traces = root["traces"]) {
    for (const JsonReader& trace : traces.elements()) check_runs(trace);
  }
  file.studies = read_list(root, "studies", "name");
  file.fits = read_list(root, "fits", "name");
  if (const auto fits = root["fits"]) {
    for (const JsonReader& fit : fits.elements()) check_fit(fit);
  }
  return file;
}

/// Other JSON may lie next to result files: exports, comparisons.
bool is_other_json(const json& value) {
  return !value.is_object() || (!value.contains("schema_version") && !value.contains("experiment"));
}

}  // namespace

ResultFile parse_result_file(std::string text, const std::string& source) {
  return from_document(parse_json(std::move(text), source, kResultLimits));
}

ResultFile load_result_file(const std::filesystem::path& file) {
  ResultFile result = from_document(read_json_document(file, kResultLimits));
  result.path = file;
  return result;
}

std::vector<ResultFile> load_results(const std::filesystem::path& file_or_folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto status = fs::status(file_or_folder, error);
  if (!fs::exists(status)) {
    throw InputError(valid_utf8(file_or_folder.string()) +
                     ": there is no such file or folder; give a result file or a folder of them");
  }
  std::vector<ResultFile> results;
  if (!fs::is_directory(status)) {
    results.push_back(load_result_file(file_or_folder));
    return results;
  }
  std::vector<fs::path> files;
  fs::directory_iterator entries(file_or_folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (entries->path().extension() == ".json") files.push_back(entries->path());
  }
  if (error) {
    throw InputError(valid_utf8(file_or_folder.string()) + ": cannot be read: " + error.message());
  }
  std::sort(files.begin(), files.end());
  std::map<std::pair<std::string, std::string>, fs::path> seen;
  for (const auto& file : files) {
    const JsonDocument document = read_json_document(file, kResultLimits);
    if (is_other_json(document.value)) continue;
    ResultFile result = from_document(document);
    result.path = file;
    const auto [before, is_new] = seen.emplace(std::pair{result.experiment, result.scale}, file);
    if (!is_new) {
      throw InputError(valid_utf8(file.string()) + ": holds " + result.experiment + " (" +
                       result.scale + ") a second time, next to " +
                       valid_utf8(before->second.filename().string()) +
                       "; give one of the files, or a folder for each");
    }
    results.push_back(std::move(result));
  }
  if (results.empty()) {
    throw InputError(valid_utf8(file_or_folder.string()) +
                     ": holds no result file; give a folder such as results/<machine>");
  }
  return results;
}

void add_unit_names(const ResultFile& file, std::vector<UnitName>& units) {
  for (const auto& cell : file.cells) units.push_back({file.experiment, cell.key.text()});
  for (const json* list : {&file.traces, &file.studies, &file.fits}) {
    for (const auto& one : *list) {
      const auto name = one.find("name");
      if (name != one.end() && name->is_string()) units.push_back({file.experiment, *name});
    }
  }
}

}  // namespace kmeans
