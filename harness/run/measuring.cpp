// SPDX-License-Identifier: Apache-2.0
#include "harness/run/measuring.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "harness/machine/machine.h"
#include "harness/machine/pace.h"
#include "harness/record/measures.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/sampling.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/support/text.h"

namespace kmeans {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

FileStamp::FileStamp(const std::filesystem::path& file) {
  std::error_code gone;
  bytes = std::filesystem::file_size(file, gone);
  if (!gone) modified = std::filesystem::last_write_time(file, gone);
}

/// The best pace so far of so many threads, looked for once before any is known.
double Measuring::best_pace(int threads) {
  constexpr std::chrono::seconds kSearch{1};
  auto& paces = run_.best_paces();
  auto known = paces.find(threads);
  if (known == paces.end()) {
    double best = measure_pace(threads);
    const auto end = Clock::now() + kSearch;
    while (Clock::now() < end && !InterruptGuard::interrupted()) {
      best = std::min(best, measure_pace(threads));
    }
    known = paces.emplace(threads, best).first;
  }
  return known->second;
}

Job Measuring::job_for(const CellState& state, int process) {
  const Cell& cell = *state.cell;
  const RunSettings& settings = run_.asked().settings;
  Job job = job_of(cell.key, state.files);
  job.beyond_memory = cell.task.beyond_memory;
  job.repetitions = state.repetitions;
  job.min_seconds = cell.sampling.min_seconds;
  // The first process finds out how long things take, within its share of the budget; for the
  // others the repetitions are already cut to what fits.
  job.max_seconds = process == 0 ? cell.sampling.max_seconds / cell.sampling.processes
                                 : cell.sampling.max_seconds;
  job.patience = settings.patience;
  if (settings.patience > 0) job.best_pace = best_pace(cell.key.threads);
  const bool again = state.done.count(process) != 0;
  job.profile = !settings.choose &&
                (again ? !run_.record_of(cell, process).result.stages.empty() : state.wants_stages);
  // An earlier attempt may hold the cell's one certificate; the new one then needs its own.
  if (!again) job.certified_outcomes = state.certified;
  if (state.exact) compare_with(*state.exact, job);
  job.verify_threads = settings.threads;
  job.verify_seed = static_cast<std::uint64_t>(process) + 1;
  return job;
}

/// Of two attempts at one process, the one to keep: a failure in any case, else the one next to
/// which the cores were faster.
void Measuring::keep_better(const CellState& state, const ProcessRecord& earlier,
                            ProcessRecord& again) const {
  again.retries = earlier.retries + 1;
  const auto was = pace_of(earlier);
  const auto is = pace_of(again);
  if (again.result.status == "ok" &&
      (!was || !is || *is >= *was || others_rely_on(state, earlier, again))) {
    again.result = earlier.result;
    again.activity = earlier.activity;
  }
}

/// Is the certificate of an earlier attempt another process's too, and lost with it?
bool Measuring::others_rely_on(const CellState& state, const ProcessRecord& earlier,
                               const ProcessRecord& again) const {
  const std::string& outcome = earlier.result.outcome;
  if (again.result.outcome == outcome) return false;
  return std::any_of(state.done.begin(), state.done.end(), [&](int process) {
    return process != earlier.process &&
           run_.record_of(*state.cell, process).result.outcome == outcome;
  });
}

void Measuring::run_process(CellState& state, int process, const Choice* choice) {
  const Cell& cell = *state.cell;
  const Job job = job_for(state, process);
  const bool first_attempt = state.done.count(process) == 0;
  const bool rewrites = run_.progress().rewrites();
  if (rewrites) show(cell.key.text());
  ProcessRecord record{cell.key.text(), process, {}, 0, load_average()};
  // Of the first look: what is spoilt between two processes counts as well.
  const auto& [points_file, points] =
      *stamps_.try_emplace(state.files.points.file, state.files.points.file).first;
  const FileStamp centroids(state.files.centroids);
  const Activity before = read_activity(metered_);
  const auto begin = Clock::now();
  auto answer = workers_.run(
      job, choice != nullptr ? choice->timeout_seconds : cell.sampling.timeout_seconds);
  if (answer.interrupted) return;  // abandoned: a resumed run repeats this process
  if (answer.timed_out && choice != nullptr) {
    if (process == 0) run_.stop(state, unreported("skipped", choice->reason));
    return;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  record.wall_seconds = answer.wall_seconds;
  const bool written_to =
      FileStamp(points_file) != points || FileStamp(state.files.centroids) != centroids;
  record.result = written_to ? unreported("error",
                                          "the file of its points or initial centroids was written "
                                          "to meanwhile")
                             : std::move(answer.result);
  record.activity = activity_between(before, read_activity(metered_), seconds,
                                     cell.key.threads * cell.key.ranks, metered_.cpus.size());
  if (!first_attempt) keep_better(state, run_.record_of(cell, process), record);
  run_.remember(std::move(record));
  run_.review(state);
  if (written_to) restore_inputs(state);
  const bool settled = first_attempt && state.finished() && !wants_further(state);
  const bool chosen = static_cast<bool>(run_.asked().settings.choose);
  if (rewrites || (chosen ? process == 0 : settled)) show(state, process);
}

bool Measuring::wants_further(const CellState& state) const {
  return !state.stopped && state.finished() &&
         wants_further_process(run_.processes_of(*state.cell), state.processes);
}

/// The cells that come next must not compute with what a process left in the cache. Throws
/// InputError where the points are the user's own file: they cannot be had again. What was
/// measured before is written.
void Measuring::restore_inputs(CellState& state) {
  const std::string known = state.files.points.sha256;
  const Task& task = state.cell->task;
  state.files = preparation_.files_anew(task, points_scalar(task.shape.precision));
  stamps_.insert_or_assign(state.files.points.file, FileStamp(state.files.points.file));
  if (state.files.points.sha256 != known) {
    run_.assemble(false);
    throw InputError(state.files.points.file.string() + " was written to during the run: its " +
                     "coordinates had SHA-256 " + known + ", have " + state.files.points.sha256);
  }
}

// ---- what is said

void Measuring::show(const CellState& state, int process) {
  show(description(state, run_.record_of(*state.cell, process).result));
}

/// How far the run is. Where processes are chosen one by one, nobody knows how many there will be: cells
/// are counted.
void Measuring::show(const std::string& what) {
  const bool chosen = static_cast<bool>(run_.asked().settings.choose);
  std::size_t done = 0;
  std::size_t total = 0;
  double known_seconds = 0;
  double left = 0;
  std::size_t unknown = 0;
  for (const auto& state : run_.cells()) {
    const auto finished =
        chosen ? static_cast<std::size_t>(state.stopped || !state.done.empty()) : state.done.size();
    const auto wanted = chosen          ? std::size_t{1}
                        : state.stopped ? finished
                                        : static_cast<std::size_t>(state.processes);
    done += finished;
    total += std::max(finished, wanted);
    known_seconds += state.wall_seconds;
    if (state.finished()) continue;
    if (finished == 0) {
      unknown += wanted;
    } else {
      left += state.wall_seconds / static_cast<double>(finished) *
              static_cast<double>(wanted - finished);
    }
  }
  // A cell that has not run yet is taken to be like the average one.
  if (done > 0) left += known_seconds / static_cast<double>(done) * static_cast<double>(unknown);
  run_.progress().update(done, total, run_.name() + ": " + what, done > 0 && !chosen ? left : -1);
}

/// A word on a finished cell's headline number.
std::string Measuring::headline_of(const CellState& state) const {
  const json cell = assemble_cell(run_.name(), *state.cell, run_.evidence_of(*state.cell),
                                  run_.asked().surroundings.limits);
  if (status_of(cell) != "ok") return "";
  if (!cell.at("unsteady").empty()) {
    return ": unsteady: " + cell.at("unsteady").front().get<std::string>();
  }
  std::string text =
      ": " + format_seconds(cell.at("seconds_per_iteration").at("median").get<double>());
  const json& whole = cell.at("whole_call_seconds").at("20");
  if (whole.is_number()) {
    text +=
        ", " + format_seconds(whole.get<double>()) + " for setup and 20 iterations, by these times";
  }
  if (!cell.at("noted").empty()) {
    text += ", noted: " + cell.at("noted").front().get<std::string>();
  }
  return text;
}

std::string Measuring::description(const CellState& state, const JobResult& result) const {
  std::string text = state.cell->key.text();
  if (result.status != "ok") {
    return text + ": " + result.status + ": " + result.reason.substr(0, result.reason.find('\n'));
  }
  if (state.finished()) return text + headline_of(state);
  std::vector<double> samples;
  std::copy_if(result.samples.begin(), result.samples.end(), std::back_inserter(samples),
               [](double sample) { return std::isfinite(sample); });
  std::sort(samples.begin(), samples.end());
  if (!samples.empty()) text += ": " + format_seconds(percentile(samples, 0.5));
  return text;
}

}  // namespace kmeans
