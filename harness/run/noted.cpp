// SPDX-License-Identifier: Apache-2.0
#include "harness/run/noted.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "harness/machine/gpu_state.h"
#include "harness/machine/machine_check.h"
#include "harness/machine/pace.h"
#include "harness/record/limit.h"
#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/formatted.h"
#include "harness/support/json_member.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr double kCeilingTolerance = 1.05;
// Samples of one process that are farther apart are noted. On a shared machine one process in ten
// is above 1.6 without more to be said than its interval says.
constexpr double kWideSpread = 2;
// The profiling pass does what the timed part does, once more: farther apart than this, one of the
// two was disturbed (docs/metrics.md).
constexpr double kStagesApart = 2;
// Processes of a GPU's cell agree up to this factor; what a comparison calls the same by default.
constexpr double kAgreement = 1.05;
// Device events and the host's clock must agree on steps that are long compared with a launch.
constexpr double kClockTolerance = 0.10;
constexpr double kLongStepSeconds = 5e-3;
constexpr std::size_t kFewestForSpread = 3;

double largest_number(const json& object, const std::vector<const char*>& keys) {
  double largest = std::nan("");
  if (!object.is_object()) return largest;
  for (const char* key : keys)
    largest = std::fmax(largest, number_in(object, key).value_or(std::nan("")));
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
    const auto part = [&](const char* key) { return member(ceilings, key); };
    const char* name = to_string(shape.precision);
    const char* scalar = shape.precision == Precision::f64 ? "f64" : "f32";
    // An exact variant may filter by whatever is fastest; what rounds its distances is as fast as that allows.
    const double own = std::fmax(largest_number(part("gemm_gflops"), {name}),
                                 largest_number(part("fma_gflops"), {scalar}));
    const double fastest = fastest_of_gpu(ceilings, shape.precision);
    const double rate = cell.exact ? (fastest > 0 ? fastest : std::nan("")) : own;
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

/// Do a GPU's times follow the pace of its host's cores? Most do not, so processes that agree with
/// one another are believed; fewer than three say nothing.
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

/// Where a single sample was disturbed, nothing but the profiling pass can show it.
void note_stages(const Cell& cell, double seconds, const json& stages, json& noted) {
  // Every stage on a GPU waits at both ends, which says little about short iterations.
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

/// Ceilings are those of the processor; a variant that skips work does less than is modelled. 2nkd
/// is what a matrix product needs, so it bounds the work of every other variant from below.
void doubt_processor(const Cell& cell, double seconds, const MachineLimits& limits, json& noted) {
  const Shape& shape = cell.task.shape;
  const json& ceilings = limits.ceilings;
  const auto part = [&](const char* key) { return member(ceilings, key); };
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
      cached ? largest_number(ceilings, {"read_gbytes_per_second", "read_gbytes_per_second_cache"})
             : largest_number(ceilings, {"read_gbytes_per_second"});
  doubt_ceiling("compulsory traffic", "GB/s", compulsory_bytes(shape) / seconds * 1e-9, bandwidth,
                noted);
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

bool same_bits_everywhere(const CellEvidence& evidence) {
  const JobResult& first = evidence.processes.front()->result;
  return std::all_of(evidence.processes.begin(), evidence.processes.end(),
                     [&](const auto* process) {
                       return process->result.label_hash == first.label_hash &&
                              process->result.centroid_hash == first.centroid_hash;
                     });
}

json notes_on(const Cell& cell, const CellEvidence& evidence, const json& times,
              const json& device_times, const json& stages, const MachineLimits& limits) {
  json noted = json::array();
  const double seconds = times.at("median");
  if (cell.gpu) {
    doubt_gpu(cell, evidence, seconds, device_times, member(limits.ceilings, "gpu"), noted);
  }
  if (!cell.gpu && !cell.skips_work) doubt_processor(cell, seconds, limits, noted);
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
        formatted("something on the same cores, or a lower clock, made a fixed computation next to "
                  "it take %.2f times as long as at its best",
                  slowest));
  }
  return noted;
}

}  // namespace kmeans
