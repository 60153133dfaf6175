// SPDX-License-Identifier: Apache-2.0
#include "harness/run/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>

#include "harness/machine/gpu_state.h"
#include "harness/machine/machine_check.h"
#include "harness/machine/pace.h"
#include "harness/record/agreement.h"
#include "harness/record/statistics.h"
#include "harness/run/job.h"
#include "harness/study.h"
#include "harness/support/formatted.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr double kCeilingTolerance = 1.05;
// Samples of one process that are farther apart are noted. On a shared machine one process in ten
// is above 1.6 without more to be told than its interval tells.
constexpr double kWideSpread = 2;
// The profiling pass does what the timed part does, once more: farther apart than this, one of the
// two was disturbed (docs/metrics.md).
constexpr double kStagesApart = 2;
// Processes beyond those planned, of a cell whose processes disagree, may take so many times the
// time of the planned ones; all of a run's together this share of it, or so many seconds.
constexpr double kFurtherOfCell = 2;
constexpr double kFurtherOfCellAtLeast = 5;  // seconds
constexpr double kFurtherOfRun = 0.5;
constexpr double kFurtherAtLeast = 30;
// Iterations of the whole calls that are told: one, as many as a clustering of well-placed seeds
// takes, and scikit-learn's default limit.
constexpr std::array kWholeCalls{1, 20, 300};
// Processes of a GPU's cell agree up to this factor; what a comparison calls the same by default.
constexpr double kAgreement = 1.05;
// Device events and the host's clock must agree on steps that are long beside a launch.
constexpr double kClockTolerance = 0.10;
constexpr double kLongStepSeconds = 5e-3;
constexpr std::size_t kFewestForSpread = 3;
// Set-up, verification and process start may take this many times the budget of the timed part
// before a cell gets fewer processes.
constexpr double kOverheadFactor = 6;

json number_or_null(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

double number_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

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

bool same_bits_everywhere(const CellEvidence& evidence) {
  const JobResult& first = evidence.processes.front()->result;
  return std::all_of(evidence.processes.begin(), evidence.processes.end(),
                     [&](const auto* process) {
                       return process->result.label_hash == first.label_hash &&
                              process->result.centroid_hash == first.centroid_hash;
                     });
}

/// What every process says of its library: where they differ, all values. A slowdown that was
/// planted in one of them stays to be seen.
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

double largest_number(const json& object, const std::vector<const char*>& keys) {
  double largest = std::nan("");
  if (!object.is_object()) return largest;
  for (const char* key : keys) largest = std::fmax(largest, number_at(object, key));
  return largest;
}

void doubt_ceiling(const char* what, const char* unit, double value, double ceiling, json& noted) {
  if (std::isfinite(value) && std::isfinite(ceiling) && value > kCeilingTolerance * ceiling) {
    noted.push_back(formatted("%s of %.3g %s is above the measured ceiling of %.3g %s", what, value,
                              unit, ceiling, unit));
  }
}

/// Of a GPU cell: ceilings, the GPU's state around it, and the second clock. Several GPUs, which are of
/// one kind, can do together what was measured of one, times their number.
void doubt_gpu(const Cell& cell, const CellEvidence& evidence, double seconds,
               const json& device_times, const json& ceilings, json& noted) {
  const Shape& shape = cell.task.shape;
  if (ceilings.is_object() && !cell.skips_work) {
    const auto part = [&](const char* key) {
      return ceilings.contains(key) ? ceilings.at(key) : json();
    };
    const char* name = to_string(shape.precision);
    const char* scalar = shape.precision == Precision::f64 ? "f64" : "f32";
    const double rate = std::fmax(largest_number(part("gemm_gflops"), {name}),
                                  largest_number(part("fma_gflops"), {scalar}));
    const auto gpus = static_cast<double>(cell.key.gpus);
    doubt_ceiling("2nkd", "GFLOP/s", operations_2nkd(shape) / seconds * 1e-9, gpus * rate, noted);
    const double bandwidth =
        largest_number(ceilings, {"read_gbytes_per_second", "read_gbytes_per_second_l2"});
    doubt_ceiling("compulsory traffic", "GB/s", compulsory_bytes(shape) / seconds * 1e-9,
                  gpus * bandwidth, noted);
  }
  const double step = seconds * static_cast<double>(cell.key.iterations);
  if (device_times.is_object() && step >= kLongStepSeconds) {
    const double device = device_times.at("median");
    if (std::abs(device / seconds - 1) > kClockTolerance) {
      noted.push_back(formatted("device events say %.4g s per iteration, the host's clock %.4g s",
                                device, seconds));
    }
  }
  std::set<std::string> said;
  for (const auto* process : evidence.processes) {
    const json& gpu = process->result.gpu;
    if (!gpu.is_object()) continue;
    for (auto& sentence : gpu_state_doubts(gpu.at("before"), gpu.at("after"))) {
      if (said.insert(sentence).second) noted.push_back(std::move(sentence));
    }
  }
}

/// A process's pace as a multiple of the best.
std::optional<double> pace_ratio(const ProcessRecord& process, const CellEvidence& evidence) {
  const auto pace = pace_of(process);
  if (!pace || !evidence.best_pace) return std::nullopt;
  return *pace / *evidence.best_pace;
}

/// How much slower than at best the cores were beside each process; null where nobody knows.
json paces(const CellEvidence& evidence) {
  if (!evidence.best_pace) return nullptr;
  json ratios = json::array();
  int retries = 0;
  for (const auto* process : evidence.processes) {
    const auto ratio = pace_ratio(*process, evidence);
    ratios.push_back(ratio ? json(*ratio) : json());
    retries += process->retries;
  }
  return {{"best_seconds", *evidence.best_pace}, {"ratios", ratios}, {"retries", retries}};
}

/// Do a GPU's times follow the pace of its host's cores? Most do not, so processes that agree with
/// one another are believed; fewer than three tell nothing.
bool follows_pace(const CellEvidence& evidence) {
  if (evidence.processes.size() < kFewestForSpread) return true;
  std::vector<double> medians;
  for (const auto* process : evidence.processes) {
    medians.push_back(median_of(process->result.samples));
  }
  const auto [fastest, slowest] = std::minmax_element(medians.begin(), medians.end());
  return *slowest > kAgreement * *fastest;
}

/// Within one process: processes that lie apart have a sentence of their own.
void note_spread(const CellEvidence& evidence, json& noted) {
  double widest = 1;
  for (const auto* process : evidence.processes) {
    const auto& samples = process->result.samples;
    const auto [fastest, slowest] = std::minmax_element(samples.begin(), samples.end());
    widest = std::max(widest, *slowest / *fastest);
  }
  if (widest > kWideSpread) {
    noted.push_back(formatted(
        "samples of one process spread widely: the slowest is %.2f times the fastest", widest));
  }
}

/// Where a single sample was disturbed, nothing but the profiling pass can tell.
void note_stages(const Cell& cell, double seconds, const json& stages, json& noted) {
  // Every stage on a GPU waits at both ends, which tells little of short iterations.
  if (stages.empty() || (cell.gpu && seconds < kLongStepSeconds)) return;
  double sum = 0;
  for (const auto& stage : stages) sum += stage.get<double>();
  if (sum > kStagesApart * seconds || sum * kStagesApart < seconds) {
    noted.push_back(
        formatted("its stages take %.3g times the median iteration: timed part or profiling pass "
                  "was disturbed",
                  sum / seconds));
  }
}

json doubts(const Cell& cell, const CellEvidence& evidence, const json& times,
            const json& device_times, const json& stages, const MachineLimits& limits) {
  json noted = json::array();
  const Shape& shape = cell.task.shape;
  const double seconds = times.at("median");
  const json& ceilings = limits.ceilings;
  const auto part = [&](const char* key) {
    return ceilings.is_object() && ceilings.contains(key) ? ceilings.at(key) : json();
  };
  if (cell.gpu) doubt_gpu(cell, evidence, seconds, device_times, part("gpu"), noted);
  // Ceilings are those of the processor; a variant that skips work does less than is modelled. 2nkd
  // is what a matrix product needs, so it bounds the work of every other variant from below.
  if (!cell.gpu && !cell.skips_work) {
    const bool wide = shape.precision == Precision::f64;
    const char* one = wide ? "f64_one_thread" : "f32_one_thread";
    const char* all = wide ? "f64_all_threads" : "f32_all_threads";
    double ceiling = cell.key.threads == 1 ? largest_number(part("fma_gflops"), {one})
                                           : largest_number(part("fma_gflops"), {one, all});
    if (cell.key.threads > 1) {
      ceiling = std::fmax(ceiling, largest_number(part("gemm_gflops"), {wide ? "f64" : "f32"}));
    }
    doubt_ceiling("2nkd", "GFLOP/s", operations_2nkd(shape) / seconds * 1e-9, ceiling, noted);
    const double point_bytes = static_cast<double>(shape.n) * static_cast<double>(shape.d) *
                               static_cast<double>(size_of(points_scalar(shape.precision)));
    const bool cached = !limits.cache_bytes || point_bytes <= *limits.cache_bytes;
    const double bandwidth =
        cached
            ? largest_number(ceilings, {"read_gbytes_per_second", "read_gbytes_per_second_cache"})
            : largest_number(ceilings, {"read_gbytes_per_second"});
    doubt_ceiling("compulsory traffic", "GB/s", compulsory_bytes(shape) / seconds * 1e-9, bandwidth,
                  noted);
  }
  note_spread(evidence, noted);
  note_stages(cell, seconds, stages, noted);
  if (cell.deterministic && !same_bits_everywhere(evidence)) {
    noted.push_back("declared deterministic, but its processes gave different bits");
  }
  double load = 0;
  for (const auto* process : evidence.processes) load = std::max(load, process->load_before);
  // One worker runs at a time and may keep all processors busy, so only more than that is foreign.
  if (load > limits.cpus + 1.0) {
    noted.push_back(
        formatted("the machine was busy: load average %.1f on %d processors", load, limits.cpus));
  }
  const int threads = cell.key.threads * cell.key.ranks;
  if (limits.usable_threads > 0 && threads > limits.usable_threads) {
    noted.push_back(std::to_string(threads) + " threads shared " +
                    std::to_string(limits.usable_threads) + " that can run at once here");
  }
  std::set<std::string> said;
  for (const auto* process : evidence.processes) {
    for (const auto& sentence : process->result.doubts) {
      if (said.insert(sentence).second) noted.push_back(sentence);
    }
  }
  std::vector<json> activities;
  for (const auto* process : evidence.processes) activities.push_back(process->activity);
  for (auto& sentence : activity_doubts(activities)) noted.push_back(std::move(sentence));
  double slowest = 1;
  for (const auto* process : evidence.processes) {
    slowest = std::max(slowest, pace_ratio(*process, evidence).value_or(1));
  }
  if (slowest > kNotedPace && (!cell.gpu || follows_pace(evidence))) {
    noted.push_back(
        formatted("something on the same cores, or a lower clock, made a fixed computation beside "
                  "it take %.2f times as long as at its best",
                  slowest));
  }
  return noted;
}

}  // namespace

std::vector<double> paces_of(const ProcessRecord& process) {
  auto paces = process.result.pace;
  paces.erase(std::remove_if(paces.begin(), paces.end(),
                             [](double pace) { return !(std::isfinite(pace) && pace > 0); }),
              paces.end());
  return paces;
}

std::optional<double> pace_of(const ProcessRecord& process) {
  const auto paces = paces_of(process);
  if (paces.empty()) return std::nullopt;
  return *std::max_element(paces.begin(), paces.end());
}

int fewest_processes(double iteration_seconds) {
  constexpr double kLongIteration = kAgreeingProcesses * 1;
  return iteration_seconds < kLongIteration ? 3 : 2;
}

SamplingDecision decide_sampling(const Sampling& wanted, std::int64_t iterations,
                                 const ProcessRecord& first) {
  SamplingDecision decision{wanted.processes, wanted.repetitions, false};
  const auto& samples = first.result.samples;
  const double sample = median_of(samples);
  if (!std::isfinite(sample)) return decision;
  const auto steps = static_cast<double>(first.result.executed_iterations.value_or(iterations));
  const double repetition = std::max(sample * steps, wanted.min_seconds);
  const double spent = repetition * static_cast<double>(samples.size());
  const double left = std::max(0.0, wanted.max_seconds - spent);
  const int others = wanted.processes - 1;
  const double affordable = repetition > 0 ? std::floor(left / repetition) : 1e9;
  if (affordable < others) {
    decision.repetitions = 1;
    decision.processes = 1 + static_cast<int>(affordable);
  } else if (others > 0) {
    decision.repetitions =
        static_cast<int>(std::min<double>(wanted.repetitions, std::floor(affordable / others)));
  }
  const double overhead = first.wall_seconds - spent;
  const double allowed = kOverheadFactor * wanted.max_seconds;
  if (overhead * decision.processes > allowed) {
    decision.processes = std::clamp(static_cast<int>(allowed / overhead), 1, decision.processes);
  }
  decision.processes =
      std::max(decision.processes, std::min(fewest_processes(sample), wanted.processes));
  decision.cut_short = decision.processes < wanted.processes ||
                       decision.repetitions < wanted.repetitions ||
                       static_cast<int>(samples.size()) < wanted.repetitions;
  return decision;
}

std::pair<double, double> planned_and_further_seconds(
    const std::vector<const ProcessRecord*>& processes, int planned) {
  std::pair<double, double> seconds{0, 0};
  for (const auto* process : processes) {
    (process->process < planned ? seconds.first : seconds.second) += process->wall_seconds;
  }
  return seconds;
}

bool wants_further_process(const std::vector<const ProcessRecord*>& processes, int planned) {
  // One process was asked for: nothing can disagree.
  if (planned < 2 || static_cast<int>(processes.size()) < planned) return false;
  std::vector<double> medians;
  for (const auto* process : processes) {
    medians.push_back(median_of(process->result.samples));
    if (!std::isfinite(medians.back())) return false;
  }
  if (agreement_of(medians).settled(static_cast<std::size_t>(planned))) return false;
  if (static_cast<int>(processes.size()) >= 2 * planned + 1) return false;
  const auto [of_planned, of_further] = planned_and_further_seconds(processes, planned);
  return of_further <= std::max(kFurtherOfCellAtLeast, kFurtherOfCell * of_planned);
}

bool affords_further_process(double planned_seconds, double further_seconds) {
  return further_seconds < std::max(kFurtherAtLeast, kFurtherOfRun * planned_seconds);
}

json assemble_cell(const std::string& experiment, const Cell& cell, const CellEvidence& evidence,
                   const MachineLimits& limits) {
  const Shape& shape = cell.task.shape;
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

  std::vector<std::vector<double>> samples;
  std::vector<std::vector<double>> device_samples;
  std::vector<double> setups;
  std::map<std::string, std::vector<double>> stage_samples;
  std::set<std::int64_t> stopped_after;
  std::size_t repetitions = 0;
  bool cut_short = static_cast<int>(evidence.processes.size()) < cell.sampling.processes;
  for (const auto* process : evidence.processes) {
    const JobResult& own = process->result;
    samples.push_back(own.samples);
    device_samples.push_back(own.device_samples);
    repetitions = std::max(repetitions, own.samples.size());
    cut_short = cut_short || static_cast<int>(own.samples.size()) < cell.sampling.repetitions;
    setups.push_back(own.setup_seconds);
    for (const auto& [stage, seconds] : own.stages) stage_samples[stage].push_back(seconds);
    if (own.executed_iterations) stopped_after.insert(*own.executed_iterations);
  }
  for (const auto& [stage, values] : stage_samples) {
    result["stages"][stage] = median_of(values);
    result["stage_samples_seconds_per_iteration"][stage] = values;
  }
  const JobResult& answer = first.result;
  result["stage_work"] = answer.stage_work;
  if (!stopped_after.empty()) result["executed_iterations"] = *stopped_after.begin();
  if (answer.computed_distances) {
    result["computed_share"] =
        computed_share(*answer.computed_distances, shape, cell.key.iterations);
  }
  if (!answer.rank_times.is_null()) result["rank_times"] = answer.rank_times;
  result["samples_seconds_per_iteration"] = samples;
  const json times = summarise_processes(samples);
  const double seconds = times.at("median");
  result["seconds_per_iteration"] = times;
  result["repetitions"] = repetitions;
  result["stopping"] = !evidence.finished ? "interrupted" : cut_short ? "time budget" : "complete";
  result["setup_seconds"] = number_or_null(median_of(setups));
  result["gflops"] = operations_zechner(shape) / seconds * 1e-9;
  result["gflops_2nkd"] = operations_2nkd(shape) / seconds * 1e-9;
  result["gbytes_per_second"] = {
      {"compulsory", compulsory_bytes(shape) / seconds * 1e-9},
      {"as_written", number_or_null(traffic_bytes(answer) / seconds * 1e-9)}};
  result["inertia"] = number_or_null(answer.inertia);
  result["label_hash"] = answer.label_hash;
  result["centroid_hash"] = answer.centroid_hash;
  result["empty_clusters"] = answer.empty_clusters;
  if (evidence.processes.size() > 1) {
    result["bit_equal_across_processes"] = same_bits_everywhere(evidence);
  }
  bool events_tell = true;
  bool events_for_all = true;
  for (std::size_t p = 0; p < samples.size(); ++p) {
    for (const double sample : device_samples[p])
      events_tell = events_tell && std::isfinite(sample);
    events_for_all = events_for_all && device_samples[p].size() == samples[p].size();
  }
  if (events_for_all && events_tell) {
    result["device_seconds_per_iteration"] = summarise_processes(device_samples);
  }
  result["gpu"] = answer.gpu;
  result["pace"] = paces(evidence);
  const Agreement agreement = agreement_of(process_medians(samples));
  if (auto sentence = unsteadiness(agreement); !sentence.empty()) {
    result["unsteady"].push_back(std::move(sentence));
  } else {
    result["whole_call_seconds"] = whole_calls(median_of(setups), seconds);
  }
  json& noted = result["noted"];
  noted = doubts(cell, evidence, times, result["device_seconds_per_iteration"], result["stages"],
                 limits);
  if (auto sentence = outlying_processes(agreement); !sentence.empty()) {
    noted.push_back(std::move(sentence));
  }
  if (samples.size() == 1)
    noted.push_back("measured in one process: nothing tells whether another would agree");
  if (result["inertia"].is_null()) noted.push_back("the inertia is not finite");
  if (stopped_after.size() > 1) {
    noted.push_back("its processes stopped after different numbers of iterations");
  }
  if (!events_tell) noted.push_back("device events measured no duration");
  if (!same_library) {
    noted.push_back("its processes ran with other libraries or settings; library " +
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
              {"seconds", nullptr}};
  if (study.task) {
    result["dataset"] = study.task->label;
    result["n"] = study.task->shape.n;
    result["d"] = study.task->shape.d;
    result["k"] = study.task->shape.k;
    result["init"] = study.task->init;
  }
  for (const char* key : {"status", "reason", "rows", "findings", "notes", "seconds"}) {
    if (recorded.contains(key)) result[key] = recorded.at(key);
  }
  return result;
}

std::vector<std::string> validate_result(const json& result) {
  std::vector<std::string> problems;
  const auto need = [&](const json& object, const std::string& where,
                        const std::vector<const char*>& keys) {
    if (!object.is_object()) {
      problems.push_back(where + " is not an object");
      return false;
    }
    for (const char* key : keys) {
      if (!object.contains(key)) problems.push_back(where + " lacks \"" + key + "\"");
    }
    return std::all_of(keys.begin(), keys.end(),
                       [&](const char* key) { return object.contains(key); });
  };
  if (!need(result, "the file",
            {"schema_version", "experiment", "scale", "complete", "planned_cells", "context",
             "spec", "cells", "traces", "studies"})) {
    return problems;
  }
  if (result.at("schema_version") != kResultSchemaVersion) {
    problems.push_back("schema_version is " + result.at("schema_version").dump() + ", not " +
                       std::to_string(kResultSchemaVersion));
  }
  need(result.at("context"), "context",
       {"suite", "command_line", "started", "finished", "machine", "ceilings", "environment",
        "threads", "datasets", "seeds", "run_order"});
  std::set<std::string> keys;
  for (const auto& cell : result.at("cells")) {
    const std::string name = text_at(cell, "key");
    const std::string where = "cell " + name;
    if (!need(cell, where,
              {"key", "variant", "status", "reason", "samples_seconds_per_iteration",
               "seconds_per_iteration", "gflops", "verification"})) {
      continue;
    }
    if (!keys.insert(name).second) problems.push_back(where + " appears twice");
    const bool ok = cell.at("status") == "ok";
    if (ok != cell.at("reason").is_null()) {
      problems.push_back(where + ": a reason belongs to every status but ok");
    }
    if (ok == cell.at("samples_seconds_per_iteration").empty() ||
        ok == cell.at("seconds_per_iteration").is_null() || ok == cell.at("gflops").is_null()) {
      problems.push_back(where + ": times belong to status ok alone");
    }
  }
  const auto& planned = result.at("planned_cells");
  if (result.at("complete") == true && planned != result.at("cells").size()) {
    problems.push_back("complete, but holds " + std::to_string(result.at("cells").size()) + " of " +
                       planned.dump() + " planned cells");
  }
  return problems;
}

}  // namespace kmeans
