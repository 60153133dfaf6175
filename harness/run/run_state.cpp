// SPDX-License-Identifier: Apache-2.0
#include "harness/run/run_state.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "harness/machine/gpu.h"
#include "harness/run/out_folder.h"
#include "harness/run/sampling.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kAssembleEvery{10};

EnvironmentReport agreed_environment(const RunRequest& asked, const JournalContent& journal) {
  EnvironmentReport environment = asked.surroundings.environment;
  const json& header = journal.header;
  if (!header.is_object() || environment.waiting == "set") return environment;
  const std::string began = header.at("identity").value("openmp_waiting", std::string());
  if (began == "passive" || began == "default") environment.waiting = began;
  return environment;
}

}  // namespace

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

bool CellState::finished() const {
  return stopped || std::distance(done.begin(), done.lower_bound(processes)) >= processes;
}

RunState::RunState(const RunRequest& asked)
    : asked_(asked),
      build_(build_identity()),
      journal_(asked.settings.out / (asked.experiment.name + ".journal.jsonl"),
               asked.settings.resume),
      environment_(agreed_environment(asked, journal_.content())),
      progress_(stderr) {}

json RunState::identity() const {
  const BuildInfo& build = build_info();
  const RunSettings& settings = asked_.settings;
  const std::string spec = to_line(asked_.experiment.document.value);
  const GpuDevice* gpu = current_gpu();
  const Sampling& sampling = asked_.plan.agreed_sampling();
  json all{{"experiment", name()},
           {"scale", asked_.plan.scale},
           {"spec_sha256", sha256_hex(spec.data(), spec.size())},
           {"machine", asked_.surroundings.machine_id},
           {"build", build_},
           {"build_type", build.build_type},
           {"sanitizers", build.sanitizers},
           {"compiler", build.compiler},
           {"variant_flags", build.variant_flags},
           {"keep_environment", settings.keep_environment},
           {"threads", settings.threads},
           {"processes", sampling.processes},
           {"repetitions", sampling.repetitions},
           {"max_seconds", sampling.max_seconds},
           {"openmp_waiting", environment_.waiting},
           {"gpu", gpu != nullptr ? json(gpu->uuid) : json()}};
  const json lasting =
      lasting_environment(asked_.surroundings.environment, settings.keep_environment);
  for (const auto& [variable, value] : lasting.items()) all["variable " + variable] = value;
  return all;
}

void RunState::begin() {
  if (!journal_.damage().empty()) progress_.note("warning: " + journal_.damage());
  const json now = presentable(identity());
  const json& header = journal_.content().header;
  if (header.is_null()) {
    started_ = utc_now();
    keep_earlier_result();
    journal_.write_header(started_, now);
  } else {
    started_ = header.at("started").get<std::string>();
    std::string text;
    for (const auto& difference : identity_differences(header.at("identity"), now)) {
      text += "\n  " + difference;
    }
    if (!text.empty() && !asked_.settings.force) {
      throw InputError("the run in " + asked_.settings.out.string() + " cannot be resumed:" + text +
                       "\nRun without --resume to start over, or with --force to mix the two");
    }
    if (!text.empty()) {
      progress_.note("warning: resuming a run although" + text);
      journal_.write_header(started_, now);
    }
  }
  collect();
}

/// A run that continues nothing replaces nothing either: the result file of an earlier one gets
/// another name, which no reader takes for a result.
void RunState::keep_earlier_result() {
  const auto file = result_file();
  std::error_code error;
  if (!std::filesystem::exists(file, error) || is_experiment(file)) return;
  const auto kept = keep_as_earlier(file, started_);
  progress_.note("the earlier " + file.filename().string() + " is kept as " +
                 kept.filename().string() +
                 (asked_.settings.resume ? "" : "; --resume continues a run"));
}

/// The cells to run, and what the journal knows of them.
void RunState::collect() {
  for (const auto& [key, record] : journal_.content().processes) {
    // A failure is not an answer: a resumed run tries again.
    if (record.result.status == "error") retry_.insert(key);
  }
  for (const auto& cell : asked_.plan.cells) {
    if (!cell.to_run()) continue;
    CellState state;
    state.cell = &cell;
    state.processes = cell.sampling.processes;
    state.repetitions = cell.sampling.repetitions;
    cells_.push_back(std::move(state));
  }
  for (auto& state : cells_) review(state);
}

void RunState::agree_on_datasets(const json& now) {
  for (const auto& [label, dataset] : now.items()) {
    const json& known = journal_.content().datasets;
    if (known.contains(label)) {
      if (known.at(label).at("sha256") == dataset.at("sha256")) continue;
      const std::string text = "data set " + label + " had SHA-256 " +
                               known.at(label).at("sha256").get<std::string>() + ", has " +
                               dataset.at("sha256").get<std::string>();
      if (!asked_.settings.force) {
        throw InputError("the run in " + asked_.settings.out.string() +
                         " cannot be resumed: " + text + "; --force resumes it all the same");
      }
      progress_.note("warning: " + text);
    }
    journal_.append_dataset(label, dataset);
  }
}

const ProcessRecord& RunState::record_of(const Cell& cell, int process) const {
  return journal_.content().processes.at({cell.key.text(), process});
}

std::vector<const ProcessRecord*> RunState::processes_of(const Cell& cell) const {
  std::vector<const ProcessRecord*> found;
  const std::string key = cell.key.text();
  const auto& processes = journal_.content().processes;
  for (auto one = processes.lower_bound({key, 0});
       one != processes.end() && one->first.first == key; ++one) {
    found.push_back(&one->second);
  }
  return found;
}

void RunState::remember(ProcessRecord record) {
  record.result.reason = without_places(std::move(record.result.reason));
  record.load_after = load_average();
  journal_.append(record);
  retry_.erase({record.cell, record.process});
}

void RunState::review(CellState& state) {
  state.done.clear();
  state.certified.clear();
  state.wall_seconds = 0;
  const auto processes = processes_of(*state.cell);
  state.wants_stages = wants_stages(processes, state.cell->key.iterations);
  for (const auto* record : processes) {
    const int process = record->process;
    if (retry_.count({state.cell->key.text(), process}) != 0) continue;
    state.done.insert(process);
    for (const double pace : paces_of(*record)) {
      double& best = best_paces_.emplace(state.cell->key.threads, pace).first->second;
      best = std::min(best, pace);
    }
    state.wall_seconds += record->wall_seconds;
    if (record->result.status != "ok") {
      state.stopped = true;
      continue;
    }
    if (process == 0) {
      const auto decision =
          decide_sampling(state.cell->sampling, state.cell->key.iterations, *record);
      state.processes = decision.processes;
      state.repetitions = decision.repetitions;
    }
    state.certified.push_back(record->result.outcome);
  }
}

void RunState::stop(CellState& state, JobResult result) {
  remember({state.cell->key.text(), 0, std::move(result), 0, load_average()});
  state.stopped = true;
}

bool RunState::wants(Part part, const std::string& name) const {
  const auto& records = journal_.content().of(part);
  const auto found = records.find(name);
  return found == records.end() || status_of(found->second) == "error";
}

void RunState::remember(Part part, const std::string& name, json result) {
  const auto reason = result.find("reason");
  if (reason != result.end() && reason->is_string()) {
    *reason = without_places(reason->get<std::string>());
  }
  journal_.append(part, name, result);
}

/// Where someone keeps files says nothing about the results, and may name the user.
std::string RunState::without_places(std::string text) const {
  const char* home = std::getenv("HOME");
  const std::array<std::pair<std::string, std::string_view>, 4> places{
      {{asked_.settings.cache.string(), ""},
       {std::filesystem::absolute(asked_.settings.out).string(), ""},
       {source_root(), ""},
       {home != nullptr ? home : "", "~/"}}};
  for (const auto& [place, instead] : places) {
    if (place.size() < 2) continue;  // "/" is everywhere
    const std::string prefix = place + "/";
    for (auto at = text.find(prefix); at != std::string::npos;
         at = text.find(prefix, at + instead.size())) {
      text.replace(at, prefix.size(), instead);
    }
  }
  return text;
}

CellEvidence RunState::evidence_of(const Cell& cell) const {
  CellEvidence evidence;
  evidence.processes = processes_of(cell);
  for (const auto& state : cells_) {
    if (state.cell == &cell) evidence.finished = state.finished();
  }
  const auto known = best_paces_.find(cell.key.threads);
  if (known != best_paces_.end()) evidence.best_pace = known->second;
  return evidence;
}

std::filesystem::path RunState::result_file() const {
  return asked_.settings.out / (name() + ".json");
}

json RunState::assemble(bool ended) {
  const RunFacts facts{asked_, journal_.content(), environment_, started_,
                       [this](const Cell& cell) { return evidence_of(cell); }};
  json result = run_result(facts, ended);
  write_json_file(result_file(), result);
  assembled_ = std::chrono::steady_clock::now();
  return result;
}

void RunState::assemble_if_due() {
  if (std::chrono::steady_clock::now() - assembled_ > kAssembleEvery) assemble(false);
}

}  // namespace kmeans
