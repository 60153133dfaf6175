// SPDX-License-Identifier: Apache-2.0
//
// The data sets of a record, and what repeating its answers costs.
#include <algorithm>
#include <new>

#include "harness/run/coordinator.h"
#include "harness/run/reproduce_parts.h"
#include "harness/support/errors.h"
#include "harness/support/memory_left.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"

namespace kmeans::reproduce_parts {

using nlohmann::json;

namespace {

constexpr double kSecondsPerCoordinate = 1e-7;    // of a data set that is made and hashed
constexpr double kExactPerSecondAndThread = 5e9;  // multiply-adds of the fast exact variant
constexpr double kPlainPerSecond = 5e8;           // of a variant whose record has no time
constexpr double kShortestTimeout = 300;          // seconds
constexpr double kTimeoutOfEstimate = 20;

double work(const CellResult& cell) {
  return static_cast<double>(cell.key.shape.n) * static_cast<double>(cell.key.shape.d) *
         static_cast<double>(cell.key.shape.k) * static_cast<double>(cell.key.iterations + 1);
}

}  // namespace

double RecordCosts::coordinates(const std::string& label) const {
  const json record = member(member(file_.context, "datasets"), label.c_str());
  const json n = member(record, "n");
  const json d = member(record, "d");
  return n.is_number() && d.is_number() ? n.get<double>() * d.get<double>() : 0;
}

double RecordCosts::data(const std::string& label) const {
  return coordinates(label) * kSecondsPerCoordinate;
}

std::string RecordCosts::why_too_long() const {
  return "estimated to take more than the " + format_duration(settings_.at_most_seconds) +
         " allowed (--at-most, --all)";
}

// How much longer it takes with the threads of this machine.
double RecordCosts::thread_factor(int recorded) const {
  return std::max(1.0, static_cast<double>(recorded) / static_cast<double>(settings_.threads));
}

double RecordCosts::cell(const CellResult& cell) const {
  if (cell.median) {
    return *cell.median * static_cast<double>(cell.key.iterations + 1) *
           thread_factor(cell.key.threads);
  }
  return work(cell) / kPlainPerSecond;
}

double RecordCosts::exact(const CellResult& cell) const {
  return work(cell) / (kExactPerSecondAndThread * settings_.threads);
}

double RecordCosts::trace(const json& trace) const {
  const json each = member(trace, "seconds_per_iteration");
  const json iterations = member(trace, "iterations");
  const json n = member(trace, "n");
  const json d = member(trace, "d");
  if (!each.is_number() || !iterations.is_array() || !n.is_number() || !d.is_number()) return 0;
  // Each iteration is looked at in float64, too.
  const double look = n.get<double>() * d.get<double>() * 2e-9;
  return (each.get<double>() * thread_factor(threads_of_run(file_)) + look) *
         static_cast<double>(iterations.size());
}

double RecordCosts::study(const json& study) const {
  const json seconds = member(study, "seconds");
  return seconds.is_number() ? seconds.get<double>() * thread_factor(threads_of_run(file_)) : 0;
}

double RecordCosts::fit(const json& fit) const {
  constexpr double kBesides = 3;  // a process's start, its first call, and the judgement
  const auto estimators = exact_estimators(fit);
  double seconds = 0;
  for (const auto& call : member(fit, "calls")) {
    const bool own = std::find(estimators.begin(), estimators.end(),
                               text_of(member(call, "estimator"))) != estimators.end();
    const json taken = member(call, "seconds");
    if (own && taken.is_number()) seconds += 2 * taken.get<double>();
  }
  return (seconds + kBesides * static_cast<double>(estimators.size())) *
         thread_factor(threads_of_run(file_));
}

int threads_of_run(const ResultFile& file) {
  const json threads = member(file.context, "threads");
  return threads.is_number_integer() ? std::max(1, threads.get<int>()) : 1;
}

double RecordCosts::timeout(double estimate) {
  return std::max(kShortestTimeout, kTimeoutOfEstimate * estimate);
}

RecordedData::RecordedData(const ResultFile& file, const ReproduceSettings& settings,
                           const RecordCosts& costs, double memory)
    : file_(file),
      settings_(settings),
      costs_(costs),
      memory_(memory),
      preparation_(settings.cache, build_identity()) {}

// Makes the data set or finds it in the cache, once, and holds it against the record.
const RecordedData::Known& RecordedData::known(const std::string& label) {
  const auto [entry, added] = known_.try_emplace(label);
  if (added) entry->second.judgement = judge(label, entry->second);
  return entry->second;
}

Judgement RecordedData::judge(const std::string& label, Known& found) const {
  const json record = member(member(file_.context, "datasets"), label.c_str());
  if (record.is_null()) {
    return {Reproduced::not_run, "the file does not describe the data set " + label};
  }
  if (costs_.too_long(costs_.data(label))) return {Reproduced::not_run, costs_.why_too_long()};
  const ScalarType scalar = member(record, "scalar") == "f64" ? ScalarType::f64 : ScalarType::f32;
  const double bytes = costs_.coordinates(label) * static_cast<double>(size_of(scalar));
  if (bytes > memory_) {
    return {Reproduced::not_run,
            "needs " + format_bytes(bytes) + " of memory, has " + format_bytes(memory_)};
  }
  try {
    found.spec = parse_dataset(member(record, "spec"), "/context/datasets/" + label + "/spec");
    const StoredDataset stored = materialise(found.spec, scalar, settings_.cache);
    found.n = stored.n;
    found.d = stored.d;
    if (member(record, "sha256") == stored.sha256) return {Reproduced::equal, ""};
    return {Reproduced::differs, was_and_is("SHA-256", member(record, "sha256"), stored.sha256)};
  } catch (const EnvironmentError& error) {
    // A generator that fails the catalogue's checksum has broken its promise.
    const std::string what = error.what();
    const bool broken = what.find("as the catalogue says") != std::string::npos;
    return {broken ? Reproduced::differs : Reproduced::not_run,
            "the data could not be made: " + what};
  } catch (const InputError& error) {
    return {Reproduced::not_run, std::string("the data are not at hand: ") + error.what()};
  } catch (const std::bad_alloc&) {
    return {Reproduced::not_run,
            "the data could not be made: out of host memory: needs more than " + memory_left()};
  }
}

std::optional<TaskFiles> RecordedData::files(const std::string& label, Task task,
                                             std::string& why_not) {
  const Known& found = known(label);
  if (found.judgement.verdict == Reproduced::differs) {
    why_not = "its points are not those of the record";
    return std::nullopt;
  }
  if (found.judgement.verdict == Reproduced::not_run) {
    why_not = found.judgement.detail;
    return std::nullopt;
  }
  task.dataset = found.spec;
  if (found.n != task.shape.n || found.d != task.shape.d) {
    why_not = "its data set has another shape than the record says";
    return std::nullopt;
  }
  try {
    return preparation_.files(task, points_scalar(task.shape.precision));
  } catch (const NotMeasurable& error) {
    why_not = error.what();
  } catch (const EnvironmentError& error) {
    why_not = error.what();
  } catch (const InputError& error) {
    why_not = error.what();
  }
  return std::nullopt;
}

}  // namespace kmeans::reproduce_parts
