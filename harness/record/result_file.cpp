// SPDX-License-Identifier: Apache-2.0
#include "harness/record/result_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "harness/record/agreement.h"
#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
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
// A profiling pass adds marks and waits to each iteration, and may be disturbed as any other part.
// Yet its stages are not a hundred times as long as the slowest whole step.
constexpr double kStagesOverStep = 100;

std::string shortened(const json& value) {
  std::string text = to_line(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return valid_utf8(text);
}

/// A value of the document with its place, so that every complaint can name it.
class Node {
 public:
  Node(const JsonDocument& document, std::string pointer, const json& value)
      : document_(&document), pointer_(std::move(pointer)), value_(&value) {}

  [[noreturn]] void fail(const std::string& reason) const {
    throw InputError(document_->where(pointer_) + ": " + (pointer_.empty() ? "" : pointer_ + ": ") +
                     reason);
  }
  [[noreturn]] void fail_type(const std::string& what) const {
    fail(shortened(*value_) + " must be " + what);
  }

  [[nodiscard]] const json& value() const { return *value_; }
  [[nodiscard]] bool has(const char* key) const {
    return value_->is_object() && value_->contains(key);
  }

  [[nodiscard]] Node at(const char* key) const {
    require_object();
    const auto found = value_->find(key);
    if (found == value_->end()) fail("lacks \"" + std::string(key) + "\"");
    return {*document_, pointer_to(pointer_, key), *found};
  }
  /// Absent and null are the same to a reader.
  [[nodiscard]] std::optional<Node> maybe(const char* key) const {
    require_object();
    const auto found = value_->find(key);
    if (found == value_->end() || found->is_null()) return std::nullopt;
    return Node{*document_, pointer_to(pointer_, key), *found};
  }
  [[nodiscard]] std::vector<Node> elements() const {
    if (!value_->is_array()) fail_type("a list [...]");
    std::vector<Node> nodes;
    nodes.reserve(value_->size());
    for (std::size_t i = 0; i < value_->size(); ++i) {
      nodes.emplace_back(*document_, pointer_to(pointer_, i), (*value_)[i]);
    }
    return nodes;
  }

  void require_object() const {
    if (!value_->is_object()) fail_type("an object {...}");
  }
  [[nodiscard]] std::string text() const {
    if (!value_->is_string()) fail_type("a string");
    return value_->get<std::string>();
  }
  [[nodiscard]] std::string name() const {
    std::string result = text();
    if (result.empty()) fail("must not be empty");
    return result;
  }
  [[nodiscard]] bool boolean() const {
    if (!value_->is_boolean()) fail_type("true or false");
    return value_->get<bool>();
  }
  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const bool fits = value_->is_number_unsigned()
                          ? value_->get<std::uint64_t>() <=
                                static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
                          : value_->is_number_integer();
    if (!fits) fail_type("an integer");
    const auto result = value_->get<std::int64_t>();
    if (result < least || result > most) {
      fail_type("an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return result;
  }
  [[nodiscard]] double number() const {
    if (!value_->is_number() || !std::isfinite(value_->get<double>())) fail_type("a number");
    return value_->get<double>();
  }
  [[nodiscard]] double positive() const {
    const double result = number();
    if (!(result > 0)) fail_type("a positive number");
    return result;
  }
  [[nodiscard]] double not_negative() const {
    const double result = number();
    if (!(result >= 0)) fail_type("a number that is not negative");
    return result;
  }
  [[nodiscard]] std::string one_of(std::initializer_list<std::string_view> choices) const {
    std::string result = text();
    if (std::find(choices.begin(), choices.end(), result) == choices.end()) {
      std::string list;
      for (const auto choice : choices) list += (list.empty() ? "" : ", ") + std::string(choice);
      fail_type("one of " + list);
    }
    return result;
  }
  /// 64 bits in hexadecimal.
  [[nodiscard]] std::string hash() const {
    std::string result = text();
    const bool hexadecimal = std::all_of(result.begin(), result.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
    if (result.size() != 16 || !hexadecimal) fail_type("16 hexadecimal digits");
    return result;
  }

 private:
  const JsonDocument* document_;
  std::string pointer_;
  const json* value_;
};

constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();

/// Durations by process; none is without.
std::vector<std::vector<double>> groups_of_times(const Node& list) {
  std::vector<std::vector<double>> groups;
  for (const Node& process : list.elements()) {
    std::vector<double> own;
    for (const Node& sample : process.elements()) own.push_back(sample.positive());
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
void require_near(const Node& stated, double expected, const std::string& whose,
                  const std::string& what) {
  const double value = stated.number();
  if (std::abs(value - expected) <= kTolerance * std::abs(expected)) return;
  stated.fail(whose + ": " + shortened(stated.value()) + " is not " + what + ", " +
              shortened(json(expected)));
}

std::string name_of(const CellResult& cell) { return "cell " + valid_utf8(cell.key.text()); }

void require_absent(const std::optional<Node>& node, const char* what) {
  if (node) node->fail(std::string(what) + " belong to status \"ok\" alone");
}

void check_summary(const Node& summary, const CellResult& cell, std::int64_t version) {
  const bool first_version = version == 1;
  const json expected =
      first_version ? summarise(pooled(cell.samples)) : summarise_processes(cell.samples);
  for (const auto& [name, value] : expected.items()) {
    const auto stated = summary.maybe(name.c_str());
    if (!stated) continue;
    if (value.is_null()) {
      stated->fail(name_of(cell) + ": " + shortened(stated->value()) +
                   ", but so few samples bound no median");
    }
    const std::string of = !first_version && name == "median" ? "processes' medians" : "samples";
    require_near(*stated, value, name_of(cell), "the " + name + " of the " + of);
  }
}

/// Rates are those of the models of docs/metrics.md at the median.
void check_rates(const Node& node, const CellResult& cell) {
  const Shape& shape = cell.key.shape;
  const auto check = [&](const std::optional<Node>& rate, double work, const char* model) {
    if (rate) require_near(*rate, work / *cell.median * 1e-9, name_of(cell), model);
  };
  check(node.maybe("gflops"), operations_zechner(shape), "nk(3d+2) + d(n+k) over the median");
  check(node.maybe("gflops_2nkd"), operations_2nkd(shape), "2nkd over the median");
  if (const auto rates = node.maybe("gbytes_per_second")) {
    check(rates->maybe("compulsory"), compulsory_bytes(shape),
          "the compulsory traffic over the median");
    if (const auto rate = rates->maybe("as_written")) static_cast<void>(rate->not_negative());
  }
}

void check_counts(const Node& node, const CellResult& cell) {
  std::size_t most = 0;
  for (const auto& process : cell.samples) most = std::max(most, process.size());
  if (const auto processes = node.maybe("processes")) {
    require_near(*processes, static_cast<double>(cell.samples.size()), name_of(cell),
                 "the number of processes with samples");
  }
  if (const auto repetitions = node.maybe("repetitions")) {
    require_near(*repetitions, static_cast<double>(most), name_of(cell),
                 "the largest number of samples of a process");
  }
}

void check_stages(const Node& node, const CellResult& cell) {
  const auto stages = node.maybe("stages");
  if (!stages) return;
  stages->require_object();
  const auto samples = node.maybe("stage_samples_seconds_per_iteration");
  double whole = 0;
  for (const auto& item : stages->value().items()) {
    const Node stage = stages->at(item.key().c_str());
    whole += stage.not_negative();
    const auto own = samples ? samples->maybe(item.key().c_str()) : std::nullopt;
    if (!own) continue;
    std::vector<double> times;
    for (const Node& sample : own->elements()) times.push_back(sample.not_negative());
    if (times.empty()) own->fail("a stage without samples");
    std::sort(times.begin(), times.end());
    require_near(stage, percentile(times, 0.5), name_of(cell), "the median of the stage's samples");
  }
  const auto all = pooled(cell.samples);
  const double slowest = *std::max_element(all.begin(), all.end());
  if (whole > kStagesOverStep * slowest) {
    stages->fail(name_of(cell) + ": its stages take " + shortened(json(whole)) +
                 " s, the slowest whole step " + shortened(json(slowest)) + " s");
  }
}

/// Zero where the text is no number.
std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? number : 0;
}

/// Setup and so many iterations of the median, of a cell for which one number speaks.
void check_whole_calls(const Node& node, const CellResult& cell) {
  const auto setup = node.maybe("setup_seconds");
  const double seconds = setup ? setup->not_negative() : 0;
  const auto calls = node.maybe("whole_call_seconds");
  if (!calls) return;
  calls->require_object();
  for (const auto& item : calls->value().items()) {
    const auto stated = calls->maybe(item.key().c_str());
    if (!stated) continue;
    const std::int64_t steps = number_of(item.key());
    if (steps < 1) stated->fail("'" + valid_utf8(item.key()) + "' is no number of iterations");
    if (!cell.unsteady.empty())
      stated->fail(name_of(cell) + ": is unsteady, so it has no such time");
    if (!setup) stated->fail(name_of(cell) + ": has no setup_seconds, so it has no such time");
    require_near(*stated, seconds + static_cast<double>(steps) * *cell.median, name_of(cell),
                 "setup and " + item.key() + " iterations of the median");
  }
}

/// What the file says twice: its samples and what is formed from them.
void check_statistics(const Node& node, const CellResult& cell) {
  if (cell.status == "ok") {
    check_rates(node, cell);
    check_counts(node, cell);
    check_stages(node, cell);
    check_whole_calls(node, cell);
    return;
  }
  require_absent(node.maybe("gflops_2nkd"), "rates");
  require_absent(node.maybe("device_seconds_per_iteration"), "times");
  for (const char* key : {"gbytes_per_second", "whole_call_seconds", "stages"}) {
    const auto object = node.maybe(key);
    if (!object) continue;
    object->require_object();
    for (const auto& item : object->value().items()) {
      require_absent(object->maybe(item.key().c_str()), "times and rates");
    }
  }
}

void read_times(const Node& node, CellResult& cell, std::int64_t version) {
  const Node samples = node.at("samples_seconds_per_iteration");
  cell.samples = groups_of_times(samples);
  const auto summary = node.maybe("seconds_per_iteration");
  const auto gflops = node.maybe("gflops");
  if (cell.status != "ok") {
    if (!cell.samples.empty()) samples.fail("times belong to status \"ok\" alone");
    if (summary) summary->fail("times belong to status \"ok\" alone");
    if (gflops) gflops->fail("rates belong to status \"ok\" alone");
    return;
  }
  if (cell.samples.empty()) samples.fail("status is \"ok\", but there are no samples");
  if (!summary) node.fail("status is \"ok\", but \"seconds_per_iteration\" is missing or null");
  cell.median = summary->at("median").positive();
  check_summary(*summary, cell, version);
  if (gflops) cell.gflops = gflops->not_negative();
  if (const auto rates = node.maybe("gbytes_per_second")) {
    if (const auto rate = rates->maybe("compulsory")) {
      cell.compulsory_gbytes_per_second = rate->not_negative();
    }
  }
}

void read_paces(const Node& node, CellResult& cell) {
  const auto pace = node.maybe("pace");
  if (!pace) return;
  const double best = pace->at("best_seconds").positive();
  const Node ratios = pace->at("ratios");
  bool whole = true;
  for (const Node& ratio : ratios.elements()) {
    if (ratio.value().is_null()) {
      whole = false;
    } else {
      const double seconds = best * ratio.positive();
      if (!(seconds > 0) || !std::isfinite(seconds)) ratio.fail("times best_seconds is no time");
      cell.paces.push_back(seconds);
    }
  }
  if (cell.samples.size() != ratios.value().size()) {
    ratios.fail("one number a process is wanted, " + std::to_string(cell.samples.size()));
  }
  if (!whole) cell.paces.clear();
}

std::vector<std::string> sentences(const Node& list) {
  std::vector<std::string> texts;
  for (const Node& sentence : list.elements()) texts.push_back(sentence.text());
  return texts;
}

/// What version 1 calls suspect in one list. Its word on samples that spread makes a cell unsteady
/// where its processes disagree as those of later versions would.
void read_suspect(const Node& node, CellResult& cell) {
  for (auto& sentence : sentences(node.at("suspect"))) {
    const bool spread = sentence.rfind("samples spread widely", 0) == 0;
    const std::string disagree = spread && !cell.samples.empty()
                                     ? unsteadiness(agreement_of(process_medians(cell.samples)))
                                     : std::string();
    if (disagree.empty()) {
      cell.noted.push_back(std::move(sentence));
    } else {
      cell.unsteady.push_back(disagree);
    }
  }
}

void read_doubts(const Node& node, CellResult& cell, std::int64_t version) {
  if (version == 1) {
    read_suspect(node, cell);
    return;
  }
  cell.unsteady = sentences(node.at("unsteady"));
  cell.noted = sentences(node.at("noted"));
  if (cell.status != "ok" && !cell.unsteady.empty()) {
    node.at("unsteady").fail("only times can be unsteady, and they belong to status \"ok\" alone");
  }
}

CellKey read_key(const Node& node) {
  CellKey key;
  const std::string stated = node.at("key").name();
  key.variant = node.at("variant").name();
  key.shape.precision =
      parse_precision(node.at("precision").one_of({"f64", "f32", "tf32", "f16", "bf16"}));
  key.dataset = node.at("dataset").name();
  key.shape.n = node.at("n").integer(1, kMany);
  key.shape.d = node.at("d").integer(1, kMany);
  key.shape.k = node.at("k").integer(1, kMany);
  key.iterations = node.at("iterations").integer(1, kMany);
  key.threads = static_cast<int>(node.at("threads").integer(1, std::numeric_limits<int>::max()));
  if (stated != key.text()) {
    node.at("key").fail(shortened(node.at("key").value()) +
                        " does not fit the cell's own fields, which make \"" +
                        valid_utf8(key.text()) + "\"");
  }
  return key;
}

CellResult read_cell(const Node& node, std::int64_t version) {
  CellResult cell;
  cell.key = read_key(node);
  cell.backend = node.at("backend").name();
  cell.init = node.at("init").text();
  cell.exact = node.at("exact").boolean();
  cell.status = node.at("status").one_of({"ok", "wrong", "skipped", "error"});
  if (const auto reason = node.maybe("reason")) cell.reason = reason->text();
  if ((cell.status == "ok") != cell.reason.empty()) {
    node.at("reason").fail(cell.status == "ok"
                               ? "a cell that is \"ok\" has no reason"
                               : "must say why the cell is \"" + cell.status + "\"");
  }
  read_times(node, cell, version);
  read_paces(node, cell);
  if (const auto inertia = node.maybe("inertia")) cell.inertia = inertia->not_negative();
  if (const auto hash = node.maybe("label_hash")) cell.label_hash = hash->hash();
  if (const auto hash = node.maybe("centroid_hash")) cell.centroid_hash = hash->hash();
  if (const auto count = node.maybe("empty_clusters")) {
    cell.empty_clusters = count->integer(0, kMany);
  }
  if (const auto reason = node.maybe("wrong_because")) cell.wrong_because = reason->text();
  read_doubts(node, cell, version);
  check_statistics(node, cell);
  if (const auto verification = node.maybe("verification")) {
    const bool passed = verification->at("passed").boolean();
    if (cell.status == "ok" && !passed) {
      verification->at("passed").fail("status is \"ok\", but the certificate failed");
    }
  } else if (cell.status == "ok") {
    node.fail("status is \"ok\", but there is no certificate (\"verification\")");
  }
  cell.data = node.value();
  return cell;
}

/// The parts of the context that readers rely on, by type.
void check_context(const Node& context) {
  static_cast<void>(context.at("command_line").text());
  static_cast<void>(context.at("started").text());
  if (const auto finished = context.maybe("finished")) static_cast<void>(finished->text());
  const Node suite = context.at("suite");
  for (const char* key : {"version", "git_commit", "build_type", "compiler"}) {
    static_cast<void>(suite.at(key).text());
  }
  static_cast<void>(suite.at("git_dirty").boolean());
  for (const char* key : {"sanitizers", "variant_flags", "march", "cuda"}) {
    if (const auto text = suite.maybe(key)) static_cast<void>(text->text());
  }
  const Node machine = context.at("machine");
  static_cast<void>(machine.at("id").name());
  const Node cpu = machine.at("cpu");
  cpu.require_object();
  if (const auto model = cpu.maybe("model")) static_cast<void>(model->text());
  for (const char* key : {"logical_cores", "physical_cores", "usable_threads", "allowed_cpus"}) {
    if (const auto count = cpu.maybe(key)) static_cast<void>(count->integer(0, kMany));
  }
  for (const Node& gpu : machine.at("gpus").elements()) static_cast<void>(gpu.at("name").text());
  for (const char* key : {"memory", "os", "libraries"}) machine.at(key).require_object();
  if (const auto ceilings = context.maybe("ceilings")) ceilings->require_object();
  const Node environment = context.at("environment");
  if (const auto variables = environment.maybe("variables")) variables->require_object();
  for (const char* key : {"neutralised", "warnings"}) {
    for (const Node& text : environment.at(key).elements()) static_cast<void>(text.text());
  }
  static_cast<void>(context.at("threads").integer(1, kMany));
  const Node datasets = context.at("datasets");
  datasets.require_object();
  for (const auto& item : datasets.value().items()) {
    const Node dataset = datasets.at(item.key().c_str());
    static_cast<void>(dataset.at("sha256").name());
    static_cast<void>(dataset.at("scalar").one_of({"f32", "f64"}));
  }
  context.at("seeds").require_object();
  for (const Node& key : context.at("run_order").elements()) static_cast<void>(key.text());
}

/// The time of a trace whose whole runs were timed is their median over its iterations.
void check_runs(const Node& trace, std::int64_t version) {
  const auto runs = trace.maybe("runs_seconds");
  const auto seconds = trace.maybe("seconds_per_iteration");
  if (trace.at("status").value() != "ok") {
    if (version == 1) return;  // kept times of wrong traces; readers leave them out
    require_absent(seconds, "times");
    require_absent(runs, "times");
    return;
  }
  const std::string whose = "trace " + shortened(trace.at("name").value());
  if (seconds) static_cast<void>(seconds->positive());
  if (!runs) return;
  std::vector<double> times = pooled(groups_of_times(*runs));
  const Node iterations = trace.at("iterations");
  const std::size_t steps = iterations.elements().size();
  if (times.empty() || steps == 0) runs->fail(whose + ": times without runs or iterations");
  if (!seconds) trace.fail(whose + ": runs were timed, but \"seconds_per_iteration\" is missing");
  std::sort(times.begin(), times.end());
  require_near(*seconds, percentile(times, 0.5) / static_cast<double>(steps), whose,
               "the median of its runs over its iterations");
}

json read_list(const Node& root, const char* key, const char* named_by) {
  const auto list = root.maybe(key);
  if (!list) return json::array();
  std::set<std::string> names;
  for (const Node& element : list->elements()) {
    const Node name = element.at(named_by);
    if (!names.insert(name.name()).second) {
      name.fail(shortened(name.value()) + " appears twice");
    }
    const std::string status = element.at("status").one_of({"ok", "wrong", "skipped", "error"});
    static_cast<void>(status);
  }
  return list->value();
}

ResultFile from_document(const JsonDocument& document) {
  const Node root(document, "", document.value);
  root.require_object();
  const Node version = root.at("schema_version");
  const std::int64_t schema = version.integer(0, kMany);
  if (schema < kOldestResultSchemaVersion || schema > kResultSchemaVersion) {
    version.fail("this result file has schema version " + shortened(version.value()) +
                 ", this program reads versions " + std::to_string(kOldestResultSchemaVersion) +
                 " to " + std::to_string(kResultSchemaVersion));
  }
  ResultFile file;
  file.path = document.source;
  file.experiment = root.at("experiment").name();
  file.scale = root.at("scale").one_of({"quick", "paper"});
  file.complete = root.at("complete").boolean();
  file.planned_cells = root.at("planned_cells").integer(0, kMany);
  const Node context = root.at("context");
  check_context(context);
  file.machine = context.at("machine").at("id").name();
  file.context = context.value();
  const Node spec = root.at("spec");
  spec.require_object();
  file.spec = spec.value();
  std::set<std::string> keys;
  for (const Node& node : root.at("cells").elements()) {
    CellResult cell = read_cell(node, schema);
    if (!keys.insert(cell.key.text()).second) {
      node.at("key").fail(shortened(node.at("key").value()) + " appears twice");
    }
    file.cells.push_back(std::move(cell));
  }
  if (file.complete && file.planned_cells != static_cast<std::int64_t>(file.cells.size())) {
    root.at("complete")
        .fail("says complete, but the file holds " + std::to_string(file.cells.size()) + " of " +
              std::to_string(file.planned_cells) + " planned cells");
  }
  file.traces = read_list(root, "traces", "name");
  if (const auto traces = root.maybe("traces")) {
    for (const Node& trace : traces->elements()) check_runs(trace, schema);
  }
  file.studies = read_list(root, "studies", "name");
  return file;
}

/// Other JSON may lie beside result files: exports, comparisons.
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
                       result.scale + ") a second time, beside " +
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

}  // namespace kmeans
