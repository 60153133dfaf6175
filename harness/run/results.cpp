// SPDX-License-Identifier: Apache-2.0
#include "harness/run/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/agreement.h"
#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/run/job.h"
#include "harness/study.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Iterations of the whole calls that are reported: one, as many as a clustering of well-placed seeds
// takes, and scikit-learn's default limit.
constexpr std::array kWholeCalls{1, 20, 300};
json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

struct Verdict {
  std::string status = "ok";
  std::string reason;
  const ProcessRecord* culprit = nullptr;
};

/// The worst that any process found: wrong before error before skipped.
Verdict judge(const CellEvidence& evidence) {
  for (const char* status : {"wrong", "error", "skipped"}) {
    for (const auto* process : evidence.processes) {
      if (process->result.status == status) return {status, process->result.reason, process};
    }
  }
  for (const auto* process : evidence.processes) {
    const auto& samples = process->result.samples;
    const bool positive = std::all_of(samples.begin(), samples.end(), [](double sample) {
      return std::isfinite(sample) && sample > 0;
    });
    if (samples.empty() || !positive) {
      return {"error",
              "process " + std::to_string(process->process) + " measured no positive duration",
              process};
    }
  }
  return {};
}

json certificate_of(const CellEvidence& evidence, const Verdict& verdict) {
  json reused;
  const auto look_at = [&](const ProcessRecord& process) -> json {
    const json& own = process.result.verification;
    if (!own.is_object()) return nullptr;
    if (!own.contains("reused")) return own;
    if (reused.is_null()) reused = own;
    return nullptr;
  };
  if (verdict.culprit != nullptr) {
    if (json own = look_at(*verdict.culprit); !own.is_null()) return own;
  }
  for (const auto* process : evidence.processes) {
    if (json own = look_at(*process); !own.is_null()) return own;
  }
  return reused;
}

/// Of the n k distances of each iteration.
double computed_share(std::int64_t count, const Shape& shape, std::int64_t iterations) {
  return static_cast<double>(count) / (static_cast<double>(shape.n) * static_cast<double>(shape.k) *
                                       static_cast<double>(iterations));
}

/// What every process says of its library: where they differ, all values.
json libraries(const CellEvidence& evidence, bool& same) {
  std::map<std::string, std::vector<std::string>> said;
  for (const auto* process : evidence.processes) {
    for (const auto& [key, value] : process->result.library) {
      auto& values = said[key];
      if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
    }
  }
  json all = json::object();
  for (const auto& [key, values] : said) {
    std::string text;
    for (const auto& value : values) text += (text.empty() ? "" : "; ") + value;
    all[key] = text;
  }
  for (const auto* process : evidence.processes) {
    // A process that came to no answer may not have come to its library.
    if (process->result.status != "ok") continue;
    const auto& own = process->result.library;
    same = same && own.size() == all.size() &&
           std::all_of(own.begin(), own.end(),
                       [&](const auto& entry) { return all.at(entry.first) == entry.second; });
  }
  return all;
}

double traffic_bytes(const JobResult& result) {
  if (!result.traffic) return std::nan("");
  return result.traffic->read_bytes + result.traffic->written_bytes + result.traffic->atomic_bytes;
}

/// Seconds of a call that sets up and runs so many iterations.
json whole_calls(double setup, double per_iteration) {
  json calls = json::object();
  for (const int iterations : kWholeCalls) {
    calls[std::to_string(iterations)] = number_or_null(setup + iterations * per_iteration);
  }
  return calls;
}

/// What the processes of a cell measured, side by side.
struct Gathered {
  std::vector<std::vector<double>> samples;
  std::vector<std::vector<double>> device_samples;
  std::vector<double> setups;
  std::map<std::string, std::vector<double>> stages;
  std::set<std::int64_t> stopped_after;  ///< Iterations, of a library that may stop early.
  std::size_t repetitions = 0;
  bool cut_short = false;

  [[nodiscard]] Agreement agreement() const { return agreement_of(process_medians(samples)); }
  [[nodiscard]] bool events_tell() const {
    return std::all_of(device_samples.begin(), device_samples.end(), [](const auto& process) {
      return std::all_of(process.begin(), process.end(),
                         [](double sample) { return std::isfinite(sample); });
    });
  }
  [[nodiscard]] bool events_for_all() const {
    return std::equal(
        samples.begin(), samples.end(), device_samples.begin(), device_samples.end(),
        [](const auto& host, const auto& device) { return host.size() == device.size(); });
  }
};

Gathered gather(const Cell& cell, const CellEvidence& evidence) {
  Gathered all;
  all.cut_short = static_cast<int>(evidence.processes.size()) < cell.sampling.processes;
  for (const auto* process : evidence.processes) {
    const JobResult& own = process->result;
    all.samples.push_back(own.samples);
    all.device_samples.push_back(own.device_samples);
    all.repetitions = std::max(all.repetitions, own.samples.size());
    all.cut_short =
        all.cut_short || static_cast<int>(own.samples.size()) < cell.sampling.repetitions;
    all.setups.push_back(own.setup_seconds);
    for (const auto& [stage, seconds] : own.stages) all.stages[stage].push_back(seconds);
    if (own.executed_iterations) all.stopped_after.insert(*own.executed_iterations);
  }
  return all;
}

/// What a cell whose points memory does not hold reads, held against what its disk gives; null for others.
json streamed_of(const CellEvidence& evidence, const std::vector<std::vector<double>>& samples) {
  json streamed;
  std::vector<double> rates;
  for (const auto* process : evidence.processes) {
    const json& own = process->result.streamed;
    if (!own.is_object()) continue;
    if (streamed.is_null()) streamed = own;
    const json& rate = own.at("disk_gbytes_per_second");
    if (rate.is_number()) rates.push_back(rate.get<double>());
  }
  if (streamed.is_null()) return streamed;
  const double seconds = summarise_processes(samples).at("median");
  const double read = streamed.at("bytes_per_iteration").get<double>() / seconds * 1e-9;
  streamed["gbytes_per_second"] = number_or_null(read);
  if (rates.empty()) return streamed;
  streamed["disk_gbytes_per_second"] = median_of(rates);
  streamed["share_of_disk"] = number_or_null(read / median_of(rates));
  return streamed;
}

void add_times(const Cell& cell, const CellEvidence& evidence, const Gathered& all, json& result) {
  const Shape& shape = cell.task.shape;
  for (const auto& [stage, values] : all.stages) {
    result["stages"][stage] = median_of(values);
    result["stage_samples_seconds_per_iteration"][stage] = values;
  }
  const JobResult& first = evidence.processes.front()->result;
  result["stage_work"] = first.stage_work;
  if (!all.stopped_after.empty()) result["executed_iterations"] = *all.stopped_after.begin();
  if (!first.rank_times.is_null()) result["rank_times"] = first.rank_times;
  if (const json streamed = streamed_of(evidence, all.samples); !streamed.is_null()) {
    result["streamed"] = streamed;
  }
  result["samples_seconds_per_iteration"] = all.samples;
  const json times = summarise_processes(all.samples);
  const double seconds = times.at("median");
  result["seconds_per_iteration"] = times;
  result["repetitions"] = all.repetitions;
  result["stopping"] = !evidence.finished ? "interrupted"
                       : all.cut_short    ? "time budget"
                                          : "complete";
  result["setup_seconds"] = number_or_null(median_of(all.setups));
  result["gflops"] = operations_zechner(shape) / seconds * 1e-9;
  result["gflops_2nkd"] = operations_2nkd(shape) / seconds * 1e-9;
  result["gbytes_per_second"] = {
      {"compulsory", compulsory_bytes(shape) / seconds * 1e-9},
      {"as_written", number_or_null(traffic_bytes(first) / seconds * 1e-9)}};
  if (all.events_for_all() && all.events_tell()) {
    result["device_seconds_per_iteration"] = summarise_processes(all.device_samples);
  }
  result["gpu"] = first.gpu;
  result["pace"] = paces(evidence);
  if (auto sentence = unsteadiness(all.agreement()); !sentence.empty()) {
    result["unsteady"].push_back(std::move(sentence));
  } else {
    result["whole_call_seconds"] = whole_calls(median_of(all.setups), seconds);
  }
}

void add_answer(const Cell& cell, const CellEvidence& evidence, json& result) {
  const JobResult& answer = evidence.processes.front()->result;
  if (answer.computed_distances) {
    result["computed_share"] =
        computed_share(*answer.computed_distances, cell.task.shape, cell.key.iterations);
  }
  result["inertia"] = number_or_null(answer.inertia);
  result["label_hash"] = answer.label_hash;
  result["centroid_hash"] = answer.centroid_hash;
  result["empty_clusters"] = answer.empty_clusters;
  if (evidence.processes.size() > 1) {
    result["bit_equal_across_processes"] = same_bits_everywhere(evidence);
  }
}

void add_notes(const Cell& cell, const CellEvidence& evidence, const Gathered& all,
               const MachineLimits& limits, json& result) {
  json& noted = result["noted"];
  noted = notes_on(cell, evidence, result["seconds_per_iteration"],
                   result["device_seconds_per_iteration"], result["stages"], limits);
  if (auto sentence = outlying_processes(all.agreement()); !sentence.empty()) {
    noted.push_back(std::move(sentence));
  }
  if (all.samples.size() == 1) {
    noted.push_back("measured in one process: nothing shows whether another would agree");
  }
  if (result["inertia"].is_null()) noted.push_back("the inertia is not finite");
  if (all.stopped_after.size() > 1) {
    noted.push_back("its processes stopped after different numbers of iterations");
  }
  if (!all.events_tell()) noted.push_back("device events measured no duration");
}

}  // namespace

json assemble_cell(const std::string& experiment, const Cell& cell, const CellEvidence& evidence,
                   const MachineLimits& limits) {
  const Verdict verdict =
      cell.skip_reason.empty() ? judge(evidence) : Verdict{"skipped", cell.skip_reason, nullptr};
  const bool ok = verdict.status == "ok";
  json result{{"experiment", experiment},
              {"backend", cell.backend},
              {"exact", cell.exact},
              {"init", cell.task.init},
              {"status", verdict.status},
              {"reason", ok ? json(nullptr) : json(verdict.reason)},
              {"samples_seconds_per_iteration", json::array()},
              {"processes", evidence.processes.size()},
              {"repetitions", 0},
              {"stages", json::object()},
              {"stage_samples_seconds_per_iteration", json::object()},
              {"stage_work", json::object()},
              {"gbytes_per_second", {{"compulsory", nullptr}, {"as_written", nullptr}}},
              {"unsteady", json::array()},
              {"noted", json::array()},
              {"library", json::object()},
              {"gpu", nullptr},
              {"pace", nullptr},
              {"device_seconds_per_iteration", nullptr},
              {"whole_call_seconds", whole_calls(std::nan(""), std::nan(""))},
              {"setup_includes", cell.includes.empty() ? json() : json(cell.includes)},
              {"wrong_because", cell.wrong_because.empty() ? json() : json(cell.wrong_because)},
              {"verification", certificate_of(evidence, verdict)}};
  result.update(to_json(cell.key));
  for (const char* absent :
       {"executed_iterations", "computed_share", "seconds_per_iteration", "stopping",
        "setup_seconds", "gflops", "gflops_2nkd", "inertia", "label_hash", "centroid_hash",
        "bit_equal_across_processes", "empty_clusters", "load_average"}) {
    result[absent] = nullptr;
  }
  if (evidence.processes.empty()) return result;

  const ProcessRecord& first = *evidence.processes.front();
  result["load_average"] = {{"before", first.load_before},
                            {"after", evidence.processes.back()->load_after}};
  bool same_library = true;
  result["library"] = libraries(evidence, same_library);
  if (!ok) return result;

  const Gathered all = gather(cell, evidence);
  add_times(cell, evidence, all, result);
  add_answer(cell, evidence, result);
  add_notes(cell, evidence, all, limits, result);
  if (!same_library) {
    result["noted"].push_back("its processes ran with other libraries or settings; library " +
                              std::string("names all of them"));
  }
  return result;
}

json assemble_trace(const PlannedTrace& trace, const json& recorded) {
  json result{{"name", trace.spec.name},
              {"variant", trace.spec.variant.name},
              {"precision", to_string(trace.precision)},
              {"dataset", trace.task.label},
              {"n", trace.task.shape.n},
              {"d", trace.task.shape.d},
              {"k", trace.task.shape.k},
              {"init", trace.task.init},
              {"stop", trace.spec.stop.empty() ? json() : json(trace.spec.stop)},
              {"status", "skipped"},
              {"reason", trace.skip_reason},
              {"iterations", json::array()},
              {"seconds_per_iteration", nullptr},
              {"runs_seconds", nullptr},
              {"expected", nullptr},
              {"verification", nullptr},
              {"wrong_because", nullptr},
              {"label_hash", nullptr},
              {"labels_begin", nullptr}};
  const auto* variant = find_variant(trace.spec.variant.name);
  if (variant != nullptr && !variant->traits.wrong_because.empty()) {
    result["wrong_because"] = variant->traits.wrong_because;
  }
  if (!recorded.is_object()) return result;
  for (const char* key : {"status", "reason", "iterations", "seconds_per_iteration", "runs_seconds",
                          "expected", "verification", "label_hash", "labels_begin", "points"}) {
    if (recorded.contains(key)) result[key] = recorded.at(key);
  }
  if (result["status"] == "ok") {
    result["reason"] = nullptr;
  } else {  // nothing that is not right has a time
    result["seconds_per_iteration"] = nullptr;
    result["runs_seconds"] = nullptr;
  }
  return result;
}

json assemble_fit(const PlannedFit& fit, const json& recorded) {
  const FitSpec& spec = fit.spec;
  json result{{"name", spec.name},
              {"dataset", fit.task.label},
              {"n", fit.task.shape.n},
              {"d", fit.task.shape.d},
              {"k", fit.task.shape.k},
              {"from", spec.from.empty() ? json() : json(spec.from)},
              {"iterations", spec.from.empty() ? json() : json(spec.iterations)},
              {"starts", spec.starts > 0 ? json(spec.starts) : json()},
              {"problems", spec.problems > 1 ? json(spec.problems) : json()},
              {"status", fit.skip_reason.empty() ? "error" : "skipped"},
              {"reason", fit.skip_reason.empty() ? json() : json(fit.skip_reason)},
              {"best", nullptr},
              {"rows", json::array()},
              {"calls", json::array()},
              {"estimators", json::object()},
              {"notes", json::array()},
              {"seconds", nullptr}};
  for (const char* key :
       {"status", "reason", "best", "rows", "calls", "estimators", "notes", "seconds"}) {
    if (recorded.contains(key)) result[key] = recorded.at(key);
  }
  return result;
}

json assemble_study(const PlannedStudy& study, const json& recorded) {
  json result{{"name", study.spec.name},
              {"study", study.spec.study},
              {"summary", require_study(study.spec.study).summary},
              {"status", "error"},
              {"reason", nullptr},
              {"dataset", nullptr},
              {"n", nullptr},
              {"d", nullptr},
              {"k", nullptr},
              {"init", nullptr},
              {"parameters", study.spec.parameters},
              {"rows", json::array()},
              {"findings", json::object()},
              {"notes", json::array()},
              {"varying", json::array()},
              {"seconds", nullptr}};
  if (study.task) {
    result["dataset"] = study.task->label;
    result["n"] = study.task->shape.n;
    result["d"] = study.task->shape.d;
    result["k"] = study.task->shape.k;
    result["init"] = study.task->init;
  }
  for (const char* key : {"status", "reason", "rows", "findings", "notes", "varying", "seconds"}) {
    if (recorded.contains(key)) result[key] = recorded.at(key);
  }
  return result;
}

}  // namespace kmeans
