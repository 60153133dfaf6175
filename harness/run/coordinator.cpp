// SPDX-License-Identifier: Apache-2.0
#include "harness/run/coordinator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "harness/machine/gpu.h"
#include "harness/machine/machine.h"
#include "harness/machine/machine_check.h"
#include "harness/machine/pace.h"
#include "harness/run/job.h"
#include "harness/run/journal.h"
#include "harness/run/out_folder.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/preparation.h"
#include "harness/run/run_result.h"
#include "harness/run/trace_recorder.h"
#include "harness/run/workers.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"
#include "harness/support/turns.h"

namespace kmeans {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kAssembleEverySeconds = 10;
// Further attempts at a process that was disturbed although it waited.
constexpr int kMaxRetries = 3;
constexpr std::chrono::seconds kSearchForPace{1};

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

/// What tells that a file was written to, without reading it.
struct FileStamp {
  std::uintmax_t bytes = 0;
  std::filesystem::file_time_type modified;

  explicit FileStamp(const std::filesystem::path& file) {
    std::error_code gone;
    bytes = std::filesystem::file_size(file, gone);
    if (!gone) modified = std::filesystem::last_write_time(file, gone);
  }
  bool operator==(const FileStamp& other) const {
    return bytes == other.bytes && modified == other.modified;
  }
};

/// A number stream that is the same everywhere, for the order of runs (splitmix64).
class OrderStream {
 public:
  explicit OrderStream(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[next() % i]);
  }

 private:
  std::uint64_t state_;
};

/// A cell while it runs.
struct CellState {
  const Cell* cell = nullptr;
  TaskFiles files;
  std::optional<ExactTrajectory> exact;
  int processes = 1;     ///< That it should get.
  int repetitions = 1;   ///< In the next one.
  bool stopped = false;  ///< Nothing more to learn: wrong, skipped or broken.
  std::set<int> done;
  std::vector<std::string> certified;
  double wall_seconds = 0;  ///< Of the processes so far.

  [[nodiscard]] bool wants(int process) const {
    return !stopped && process < processes && done.count(process) == 0;
  }
  /// All that were planned; processes that disagree may get more.
  [[nodiscard]] bool finished() const {
    return stopped || std::distance(done.begin(), done.lower_bound(processes)) >= processes;
  }
};

class Run {
 public:
  Run(const Experiment& experiment, const Plan& plan, const RunSurroundings& surroundings,
      const RunSettings& settings)
      : experiment_(experiment),
        plan_(plan),
        surroundings_(surroundings),
        settings_(settings),
        build_(build_identity()),
        journal_(settings.out / (experiment.name + ".journal.jsonl"), settings.resume),
        environment_(agreed_environment()),
        workers_(settings.worker_command, environment_, settings.keep_environment),
        preparation_(settings.cache, build_),
        trajectories_(preparation_, workers_, settings.threads, plan.timeout_seconds),
        recorder_(trajectories_, workers_, plan, settings.threads),
        progress_(stderr) {}

  RunSummary run() {
    agree_with_journal();
    collect();
    prepare();
    try {
      if (settings_.turns) {
        if (!take_turns()) return conclude();
      } else if (settings_.choose) {
        measure_chosen();
      } else {
        measure();
      }
      record_traces();
      carry_out_studies();
    } catch (const InputError&) {
      assemble(false);  // what was measured before is on file
      throw;
    }
    return conclude();
  }

 private:
  static bool interrupted() { return InterruptGuard::interrupted(); }

  [[nodiscard]] json identity() const {
    const BuildInfo& build = build_info();
    const std::string spec = to_line(experiment_.document.value);
    const GpuDevice* gpu = current_gpu();
    // What --processes, --repetitions and --max-seconds have made of the experiment's own.
    const Sampling& sampling = plan_.cells.empty() ? plan_.sampling : plan_.cells.front().sampling;
    json all{{"experiment", experiment_.name},
             {"scale", plan_.scale},
             {"spec_sha256", sha256_hex(spec.data(), spec.size())},
             {"machine", surroundings_.machine_id},
             {"build", build_},
             {"build_type", build.build_type},
             {"sanitizers", build.sanitizers},
             {"compiler", build.compiler},
             {"variant_flags", build.variant_flags},
             {"keep_environment", settings_.keep_environment},
             {"threads", settings_.threads},
             {"processes", sampling.processes},
             {"repetitions", sampling.repetitions},
             {"max_seconds", sampling.max_seconds},
             {"openmp_waiting", environment_.waiting},
             {"gpu", gpu != nullptr ? json(gpu->uuid) : json()}};
    const json environment =
        lasting_environment(surroundings_.environment, settings_.keep_environment);
    for (const auto& [name, value] : environment.items()) all["variable " + name] = value;
    return all;
  }

  /// A resumed run lets OpenMP's threads wait as it began, whoever shares the cores by now.
  [[nodiscard]] EnvironmentReport agreed_environment() const {
    EnvironmentReport environment = surroundings_.environment;
    const json& header = journal_.content().header;
    if (!header.is_object() || environment.waiting == "set") return environment;
    const std::string began = header.at("identity").value("openmp_waiting", std::string());
    if (began == "passive" || began == "default") environment.waiting = began;
    return environment;
  }

  void agree_with_journal() {
    if (!journal_.damage().empty()) progress_.note("warning: " + journal_.damage());
    const json now = presentable(identity());
    const json& header = journal_.content().header;
    if (header.is_null()) {
      started_ = utc_now();
      keep_earlier_result();
      journal_.write_header(started_, now);
      return;
    }
    started_ = header.at("started").get<std::string>();
    const auto differences = identity_differences(header.at("identity"), now);
    if (differences.empty()) return;
    std::string text;
    for (const auto& difference : differences) text += "\n  " + difference;
    if (!settings_.force) {
      throw InputError("the run in " + settings_.out.string() + " cannot be resumed:" + text +
                       "\nRun without --resume to start anew, or with --force to mix the two");
    }
    progress_.note("warning: resuming a run although" + text);
    journal_.write_header(started_, now);
  }

  /// A run that continues nothing replaces nothing either: the result file of an earlier one gets
  /// another name, which no reader takes for a result.
  void keep_earlier_result() {
    const auto file = result_file();
    std::error_code error;
    if (!std::filesystem::exists(file, error) || is_experiment(file)) return;
    const auto kept = keep_as_earlier(file, started_);
    progress_.note("the earlier " + file.filename().string() + " is kept as " +
                   kept.filename().string() +
                   (settings_.resume ? "" : "; --resume continues a run"));
  }

  /// The cells to run, and what the journal knows of them.
  void collect() {
    for (const auto& [key, record] : journal_.content().processes) {
      // A failure is not an answer: a resumed run tries again.
      if (record.result.status == "error") retry_.insert(key);
    }
    for (const auto& cell : plan_.cells) {
      if (!cell.selected || !cell.skip_reason.empty()) continue;
      CellState state;
      state.cell = &cell;
      state.processes = cell.sampling.processes;
      state.repetitions = cell.sampling.repetitions;
      states_.push_back(std::move(state));
    }
    for (auto& state : states_) review(state);
  }

  [[nodiscard]] const ProcessRecord* record_of(const Cell& cell, int process) const {
    const auto& processes = journal_.content().processes;
    const auto found = processes.find({cell.key.text(), process});
    return found == processes.end() ? nullptr : &found->second;
  }

  /// All that the journal holds of a cell, in order.
  [[nodiscard]] std::vector<const ProcessRecord*> processes_of(const Cell& cell) const {
    std::vector<const ProcessRecord*> found;
    const auto& processes = journal_.content().processes;
    for (auto one = processes.lower_bound({cell.key.text(), 0});
         one != processes.end() && one->first.first == cell.key.text(); ++one) {
      found.push_back(&one->second);
    }
    return found;
  }

  /// Brings a cell's state in line with the journal.
  void review(CellState& state) {
    state.done.clear();
    state.certified.clear();
    state.wall_seconds = 0;
    for (const auto* record : processes_of(*state.cell)) {
      const int process = record->process;
      if (retry_.count({state.cell->key.text(), process}) != 0) continue;
      state.done.insert(process);
      learn_pace(state.cell->key.threads, *record);
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

  void prepare() {
    std::map<std::string, std::optional<ExactTrajectory>> exact;
    std::size_t count = 0;
    for (auto& state : states_) {
      if (interrupted()) return;
      ++count;
      const Cell& cell = *state.cell;
      if (progress_.rewrites()) {
        progress_.update(count, states_.size(), "preparing " + cell.task.label, -1);
      }
      try {
        state.files = files_of(cell.task, points_scalar(cell.task.shape.precision));
        if (state.finished()) continue;
        const ScalarType scalar = points_scalar(cell.task.shape.precision);
        const std::string name = cell.task.label + "/" + std::to_string(cell.task.shape.k) + "/" +
                                 std::to_string(cell.key.iterations) + "/" + to_string(scalar);
        auto found = exact.find(name);
        if (found == exact.end()) {
          found =
              exact.emplace(name, trajectories_.find(cell.task, cell.key.iterations, scalar)).first;
        }
        state.exact = found->second;
      } catch (const NotMeasurable& error) {
        stop(state, unreported("skipped", error.what()));
      } catch (const EnvironmentError& error) {
        stop(state,
             unreported("error", std::string("the data could not be made: ") + error.what()));
      } catch (const std::bad_alloc&) {
        stop(state, unreported("error", "the data could not be made: out of host memory"));
      }
    }
    for (const auto& trace : plan_.traces) {
      if (interrupted()) return;
      if (wants(trace)) prepare_trace(trace);
    }
    for (const auto& study : plan_.studies) {
      if (interrupted()) return;
      if (study.task && wants(study)) prepare_study(study);
    }
    agree_on_datasets();
  }

  /// Points that float32 cannot hold cost float32 cells only, but where nothing is float64 the
  /// experiment asks for what cannot be had.
  TaskFiles files_of(const Task& task, ScalarType scalar) {
    try {
      return preparation_.files(task, scalar);
    } catch (const PointsBeyondFloat32& error) {
      const auto wide = [](Precision precision) { return precision == Precision::f64; };
      const bool any =
          std::any_of(states_.begin(), states_.end(),
                      [&](const auto& state) { return wide(state.cell->task.shape.precision); }) ||
          std::any_of(plan_.traces.begin(), plan_.traces.end(),
                      [&](const auto& trace) { return trace.selected && wide(trace.precision); });
      if (!any) throw InputError(error.what());
      throw;
    }
  }

  /// The files of a trace or a study, before anything is measured, so that a broken file is found
  /// first. Absent where there are none: `record` is then told why.
  template <class Make, class Remember>
  std::optional<TaskFiles> prepared(const Make& make, const Remember& record) {
    try {
      return make();
    } catch (const NotMeasurable& error) {
      record(json{{"status", "skipped"}, {"reason", without_places(error.what())}});
    } catch (const EnvironmentError& error) {
      const std::string reason = std::string("the data could not be made: ") + error.what();
      record(to_json(unreported("error", without_places(reason))));
    }
    return std::nullopt;
  }

  void prepare_trace(const PlannedTrace& trace) {
    const auto make = [&] {
      TaskFiles files = files_of(trace.task, points_scalar(trace.precision));
      prepare_comparison(trace.task);
      return files;
    };
    const std::string& name = trace.spec.name;
    const auto files = prepared(make, [&](const json& why) { journal_.append_trace(name, why); });
    if (files) trace_files_[name] = *files;
  }

  /// The points that the exact trajectory follows. Where they cannot be had there is none.
  void prepare_comparison(const Task& task) {
    try {
      preparation_.files(task, ScalarType::f32);
    } catch (const PointsBeyondFloat32&) {
      progress_.note("warning: " + task.label + " does not fit float32: its traces are not " +
                     "compared with the exact trajectory");
    } catch (const NotMeasurable&) {
      // Float64 traces are compared with a trajectory in float64.
    }
  }

  void prepare_study(const PlannedStudy& study) {
    const auto make = [&] { return files_of(*study.task, ScalarType::f32); };
    const std::string& name = study.spec.name;
    const auto files = prepared(make, [&](const json& why) { journal_.append_study(name, why); });
    if (files) study_files_[name] = *files;
  }

  /// A resumed run must not mix measurements on different points.
  void agree_on_datasets() {
    const json now = preparation_.datasets();
    for (const auto& [label, dataset] : now.items()) {
      const json& known = journal_.content().datasets;
      if (known.contains(label)) {
        if (known.at(label).at("sha256") == dataset.at("sha256")) continue;
        const std::string text = "data set " + label + " had SHA-256 " +
                                 known.at(label).at("sha256").get<std::string>() + ", has " +
                                 dataset.at("sha256").get<std::string>();
        if (!settings_.force) {
          throw InputError("the run in " + settings_.out.string() + " cannot be resumed: " + text +
                           "; --force resumes it all the same");
        }
        progress_.note("warning: " + text);
      }
      journal_.append_dataset(label, dataset);
    }
  }

  [[nodiscard]] bool wants(const PlannedTrace& trace) const {
    if (!trace.selected || !trace.skip_reason.empty()) return false;
    const auto found = journal_.content().traces.find(trace.spec.name);
    return found == journal_.content().traces.end() || status_of(found->second) == "error";
  }

  [[nodiscard]] bool wants(const PlannedStudy& study) const {
    if (!study.selected) return false;
    const auto found = journal_.content().studies.find(study.spec.name);
    return found == journal_.content().studies.end() || status_of(found->second) == "error";
  }

  void stop(CellState& state, JobResult result) {
    remember({state.cell->key.text(), 0, std::move(result), 0, load_average()});
    state.stopped = true;
  }

  /// A line for whoever holds the other end of standard output.
  static void say(const json& line) {
    const std::string text = presentable(line).dump() + "\n";
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  [[nodiscard]] json told(const CellState& state) const {
    json samples = json::array();
    for (const int process : state.done) {
      const JobResult& result = record_of(*state.cell, process)->result;
      if (result.status == "ok") samples.push_back(result.samples);
    }
    return {{"key", state.cell->key.text()}, {"stopped", state.stopped}, {"samples", samples}};
  }

  /// One process at a time, of the cell whose key is read as JSON from standard input, answered by
  /// what is known of it (harness/compare/interleave.h). An empty key ends it. False when broken off.
  bool take_turns() {
    json cells = json::array();
    for (const auto& state : states_) cells.push_back(told(state));
    say({{"turns", kTurnsVersion}, {"cells", cells}});
    std::string line;
    while (!interrupted() && std::getline(std::cin, line)) {
      const json wanted = json::parse(line, nullptr, false);
      if (wanted.is_string() && wanted.get_ref<const std::string&>().empty()) {
        for (auto& state : states_) state.processes = static_cast<int>(state.done.size());
        return !interrupted();
      }
      const auto state = std::find_if(states_.begin(), states_.end(), [&](const auto& one) {
        return wanted == one.cell->key.text();
      });
      if (state == states_.end())
        throw InputError("--turns: no cell has the key " + to_line(wanted));
      if (!state->stopped) {
        run_process_of(*state, state->done.empty() ? 0 : *state->done.rbegin() + 1);
      }
      say(told(*state));
      if (seconds_since_assembly() > kAssembleEverySeconds) assemble(false);
    }
    abandoned_ = true;
    return false;
  }

  /// Process by process, as the settings' chooser says.
  void measure_chosen() {
    while (!interrupted()) {
      std::vector<CellNews> news;
      for (const auto& state : states_) {
        news.push_back({state.cell, processes_of(*state.cell), state.stopped});
      }
      const auto choice = settings_.choose(news);
      if (!choice) break;
      const auto state = std::find_if(states_.begin(), states_.end(),
                                      [&](const auto& one) { return one.cell == choice->cell; });
      if (state == states_.end()) throw std::logic_error("a cell was chosen that is not measured");
      if (choice->leave) {
        stop(*state, unreported("skipped", choice->reason));
        continue;
      }
      run_process_of(*state, state->done.empty() ? 0 : *state->done.rbegin() + 1, &*choice);
      if (seconds_since_assembly() > kAssembleEverySeconds) assemble(false);
    }
    if (interrupted()) return;
    for (auto& state : states_) state.processes = static_cast<int>(state.done.size());
  }

  /// Rounds: process r of every cell before process r + 1 of any, so that a machine that drifts
  /// drifts for all alike; in each round another random order.
  void measure() {
    OrderStream order(settings_.order_seed);
    measure_rounds(order);
    for (int attempt = 0; settings_.patience > 0 && attempt < kMaxRetries; ++attempt) {
      if (!measure_disturbed_again(order)) break;
      measure_rounds(order);  // a first process that was quicker now leaves time for more
    }
    while (measure_further(order)) continue;
  }

  [[nodiscard]] bool wants_further(const CellState& state) const {
    return !state.stopped && state.finished() &&
           wants_further_process(processes_of(*state.cell), state.processes);
  }

  [[nodiscard]] bool affords_further() const {
    double planned = 0;
    double further = 0;
    for (const auto& state : states_) {
      const auto [of_planned, of_further] =
          planned_and_further_seconds(processes_of(*state.cell), state.processes);
      planned += of_planned;
      further += of_further;
    }
    return affords_further_process(planned, further);
  }

  /// One more process for every cell whose processes disagree, while the run's budget lasts: what
  /// is measured further is chosen by disagreement alone, whichever side would gain by it. False
  /// when there is nothing to do any more.
  bool measure_further(OrderStream& order) {
    std::vector<CellState*> turn;
    for (auto& state : states_) {
      if (wants_further(state)) turn.push_back(&state);
    }
    order.shuffle(turn);
    if (!turn.empty() && affords_further() && !interrupted()) {
      progress_.note(experiment_.name + ": one more process " +
                     (turn.size() == 1
                          ? "for a cell whose"
                          : "each for " + std::to_string(turn.size()) + " cells whose") +
                     " processes disagree");
    }
    for (auto* state : turn) {
      if (interrupted()) return false;
      if (!affords_further()) {
        show(description(*state, record_of(*state->cell, *state->done.rbegin())->result));
        continue;
      }
      run_process_of(*state, *state->done.rbegin() + 1);
      if (seconds_since_assembly() > kAssembleEverySeconds) assemble(false);
    }
    return !turn.empty() && affords_further();
  }

  void measure_rounds(OrderStream& order) {
    int rounds = 0;
    for (const auto& state : states_) rounds = std::max(rounds, state.cell->sampling.processes);
    for (int round = 0; round < rounds; ++round) {
      std::vector<CellState*> turn;
      for (auto& state : states_) turn.push_back(&state);
      order.shuffle(turn);
      bool any = false;
      for (auto* state : turn) {
        if (interrupted()) return;
        if (!state->wants(round)) continue;
        any = true;
        run_process_of(*state, round);
        if (seconds_since_assembly() > kAssembleEverySeconds) assemble(false);
      }
      if (any && !interrupted()) assemble(false);
    }
  }

  /// The best pace so far of so many threads, looked for once before any is known.
  double best_pace(int threads) {
    auto known = best_paces_.find(threads);
    if (known == best_paces_.end()) {
      double best = measure_pace(threads);
      const auto end = Clock::now() + kSearchForPace;
      while (Clock::now() < end && !interrupted()) best = std::min(best, measure_pace(threads));
      known = best_paces_.emplace(threads, best).first;
    }
    return known->second;
  }

  void learn_pace(int threads, const ProcessRecord& record) {
    for (const double pace : paces_of(record)) {
      const auto known = best_paces_.emplace(threads, pace).first;
      known->second = std::min(known->second, pace);
    }
  }

  /// One more attempt at every process beside which the cores were slow. What is measured again is
  /// chosen by a computation that knows nothing of the variant, so the choice favours none. False
  /// when there is nothing to do any more.
  bool measure_disturbed_again(OrderStream& order) {
    std::vector<std::pair<CellState*, int>> turn;
    for (auto& state : states_) {
      if (state.stopped) continue;
      for (const int process : state.done) {
        const ProcessRecord& record = *record_of(*state.cell, process);
        const auto pace = pace_of(record);
        if (pace && *pace > kDisturbedPace * best_paces_.at(state.cell->key.threads) &&
            record.retries < kMaxRetries) {
          turn.emplace_back(&state, process);
        }
      }
    }
    order.shuffle(turn);
    if (!turn.empty()) {
      progress_.note(experiment_.name + ": measuring " + std::to_string(turn.size()) +
                     " processes again that a slow core disturbed");
    }
    for (const auto& [state, process] : turn) {
      if (interrupted()) return false;
      if (!state->stopped) run_process_of(*state, process);
      if (seconds_since_assembly() > kAssembleEverySeconds) assemble(false);
    }
    return !turn.empty();
  }

  /// Of two attempts at one process, the one to keep: a failure in any case, else the one beside
  /// which the cores were faster.
  void keep_better(const CellState& state, const ProcessRecord& earlier,
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
  [[nodiscard]] bool others_rely_on(const CellState& state, const ProcessRecord& earlier,
                                    const ProcessRecord& again) const {
    const std::string& outcome = earlier.result.outcome;
    if (again.result.outcome == outcome) return false;
    return std::any_of(state.done.begin(), state.done.end(), [&](int process) {
      return process != earlier.process &&
             record_of(*state.cell, process)->result.outcome == outcome;
    });
  }

  [[nodiscard]] Job process_job(const CellState& state, int process) {
    const Cell& cell = *state.cell;
    Job job = job_of(cell.key, state.files);
    job.repetitions = state.repetitions;
    job.min_seconds = cell.sampling.min_seconds;
    // The first process finds out how long things take, within its share of the budget; for the
    // others the repetitions are already cut to what fits.
    job.max_seconds = process == 0 ? cell.sampling.max_seconds / cell.sampling.processes
                                   : cell.sampling.max_seconds;
    job.patience = settings_.patience;
    if (settings_.patience > 0) job.best_pace = best_pace(cell.key.threads);
    job.profile = !settings_.choose;
    // An earlier attempt may hold the cell's one certificate; the new one then needs its own.
    if (state.done.count(process) == 0) job.certified_outcomes = state.certified;
    if (state.exact) compare_with(*state.exact, job);
    job.verify_threads = settings_.threads;
    job.verify_seed = static_cast<std::uint64_t>(process) + 1;
    return job;
  }

  void run_process_of(CellState& state, int process, const Choice* choice = nullptr) {
    const Cell& cell = *state.cell;
    const Job job = process_job(state, process);
    const ProcessRecord* earlier =
        state.done.count(process) != 0 ? record_of(cell, process) : nullptr;
    if (progress_.rewrites()) show(cell.key.text());
    ProcessRecord record{cell.key.text(), process, {}, 0, load_average()};
    // Of the first look: what is spoilt between two processes counts as well.
    const FileStamp points =
        stamps_.try_emplace(state.files.points.file, state.files.points.file).first->second;
    const FileStamp centroids(state.files.centroids);
    const Activity before = read_activity(metered_);
    const auto begin = Clock::now();
    auto answer = workers_.run(
        job, choice != nullptr ? choice->timeout_seconds : cell.sampling.timeout_seconds);
    if (answer.interrupted) return;  // abandoned: a resumed run begins this process anew
    if (answer.timed_out && choice != nullptr) {
      if (process == 0) stop(state, unreported("skipped", choice->reason));
      return;
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    record.wall_seconds = answer.wall_seconds;
    const bool written_to = !(FileStamp(state.files.points.file) == points) ||
                            !(FileStamp(state.files.centroids) == centroids);
    record.result = written_to
                        ? unreported("error",
                                     "the file of its points or initial centroids was written to "
                                     "meanwhile")
                        : std::move(answer.result);
    record.activity = activity_between(before, read_activity(metered_), seconds,
                                       cell.key.threads * cell.key.ranks, metered_.cpus.size());
    if (earlier != nullptr) keep_better(state, *earlier, record);
    const bool first_attempt = earlier == nullptr;
    remember(std::move(record));
    review(state);
    if (written_to) restore_inputs(state);
    const bool settled = first_attempt && state.finished() && !wants_further(state);
    if (progress_.rewrites() || (settings_.choose ? process == 0 : settled)) {
      show(description(state, record_of(cell, process)->result));
    }
  }

  /// The cells that come next must not compute with what a process left in the cache. Throws
  /// InputError where the points are the user's own file: they cannot be had again. What was
  /// measured before is written.
  void restore_inputs(CellState& state) {
    const std::string known = state.files.points.sha256;
    const Task& task = state.cell->task;
    state.files = preparation_.files_anew(task, points_scalar(task.shape.precision));
    stamps_.insert_or_assign(state.files.points.file, FileStamp(state.files.points.file));
    if (state.files.points.sha256 != known) {
      assemble(false);
      throw InputError(state.files.points.file.string() + " was written to during the run: its " +
                       "coordinates had SHA-256 " + known + ", have " + state.files.points.sha256);
    }
  }

  /// Where someone keeps files says nothing about the results, and may name the user.
  [[nodiscard]] std::string without_places(std::string text) const {
    const char* home = std::getenv("HOME");
    const std::array<std::pair<std::string, std::string_view>, 4> places{
        {{settings_.cache.string(), ""},
         {std::filesystem::absolute(settings_.out).string(), ""},
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

  /// The result of a trace or a study, as it goes into the journal.
  [[nodiscard]] json presented(json result) const {
    const auto reason = result.find("reason");
    if (reason != result.end() && reason->is_string()) {
      *reason = without_places(reason->get<std::string>());
    }
    return result;
  }

  void remember(ProcessRecord record) {
    record.result.reason = without_places(std::move(record.result.reason));
    record.load_after = load_average();
    journal_.append(record);
    retry_.erase({record.cell, record.process});
  }

  /// A word on a finished cell's headline number.
  [[nodiscard]] std::string headline_of(const CellState& state) const {
    const json cell = assemble_cell(experiment_.name, *state.cell, evidence_of(*state.cell),
                                    surroundings_.limits);
    if (status_of(cell) != "ok") return "";
    if (!cell.at("unsteady").empty()) {
      return ": unsteady: " + cell.at("unsteady").front().get<std::string>();
    }
    std::string text =
        ": " + format_seconds(cell.at("seconds_per_iteration").at("median").get<double>());
    const json& whole = cell.at("whole_call_seconds").at("20");
    if (whole.is_number()) {
      text += ", " + format_seconds(whole.get<double>()) + " for a call of 20 with setup";
    }
    if (!cell.at("noted").empty()) {
      text += ", noted: " + cell.at("noted").front().get<std::string>();
    }
    return text;
  }

  [[nodiscard]] std::string description(const CellState& state, const JobResult& result) const {
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

  /// Where processes are chosen one by one, nobody knows how many there will be: cells are counted.
  void show_chosen(const std::string& what) {
    const auto seen = std::count_if(states_.begin(), states_.end(), [](const CellState& state) {
      return state.stopped || !state.done.empty();
    });
    progress_.update(static_cast<std::size_t>(seen), states_.size(), experiment_.name + ": " + what,
                     -1);
  }

  void show(const std::string& what) {
    if (settings_.choose) {
      show_chosen(what);
      return;
    }
    std::size_t done = 0;
    std::size_t total = 0;
    double known_seconds = 0;
    double left = 0;
    std::size_t unknown = 0;
    for (const auto& state : states_) {
      const auto finished = state.done.size();
      const auto wanted = state.stopped ? finished : static_cast<std::size_t>(state.processes);
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
    if (done > 0) {
      left += known_seconds / static_cast<double>(done) * static_cast<double>(unknown);
    }
    progress_.update(done, total, experiment_.name + ": " + what, done > 0 ? left : -1);
  }

  void record_traces() {
    for (const auto& trace : plan_.traces) {
      if (interrupted()) return;
      const auto files = trace_files_.find(trace.spec.name);
      if (files == trace_files_.end()) continue;
      progress_.note(experiment_.name + ": trace " + trace.spec.name);
      const json result = recorder_.record(trace, files->second);
      if (result.is_null()) return;
      journal_.append_trace(trace.spec.name, presented(result));
    }
  }

  void carry_out_studies() {
    for (const auto& study : plan_.studies) {
      if (interrupted()) return;
      if (!wants(study)) continue;
      const auto files = study_files_.find(study.spec.name);
      if (study.task && files == study_files_.end()) continue;  // the journal knows why
      const StudyJob job = job_of(study, study.task ? &files->second : nullptr, settings_.threads);
      progress_.note(experiment_.name + ": study " + study.spec.name);
      const auto reply = workers_.run(job, study.spec.timeout_seconds);
      if (reply.interrupted) return;
      journal_.append_study(study.spec.name, presented(reply.result));
    }
  }

  [[nodiscard]] std::filesystem::path result_file() const {
    return settings_.out / (experiment_.name + ".json");
  }

  [[nodiscard]] double seconds_since_assembly() const {
    return std::chrono::duration<double>(Clock::now() - assembled_).count();
  }

  [[nodiscard]] CellEvidence evidence_of(const Cell& cell) const {
    CellEvidence evidence;
    evidence.processes = processes_of(cell);
    for (const auto& state : states_) {
      if (state.cell == &cell) evidence.finished = state.finished();
    }
    const auto known = best_paces_.find(cell.key.threads);
    if (known != best_paces_.end()) {
      evidence.best_pace = known->second;
    }
    return evidence;
  }

  json assemble(bool ended) {
    const RunTold told{experiment_,        plan_,
                       surroundings_,      settings_,
                       journal_.content(), environment_,
                       started_,           [this](const Cell& cell) { return evidence_of(cell); }};
    json result = run_result(told, ended);
    write_json_file(result_file(), result);
    assembled_ = Clock::now();
    return result;
  }

  RunSummary conclude() {
    const bool broken_off = interrupted() || abandoned_;
    RunSummary summary = summary_of(assemble(!broken_off));
    summary.interrupted = broken_off;
    summary.file = result_file();
    return summary;
  }

  const Experiment& experiment_;
  const Plan& plan_;
  const RunSurroundings& surroundings_;
  const RunSettings& settings_;
  std::string build_;
  CheckScope metered_{{}, allowed_cpus(), 1, {}};
  Journal journal_;
  EnvironmentReport environment_;
  Workers workers_;
  Preparation preparation_;
  ExactTrajectories trajectories_;
  TraceRecorder recorder_;
  std::map<std::filesystem::path, FileStamp> stamps_;  ///< Of files of points, when first used.
  ProgressLine progress_;
  std::string started_;
  std::vector<CellState> states_;
  std::map<std::string, TaskFiles> trace_files_;
  std::map<std::string, TaskFiles> study_files_;
  std::map<int, double> best_paces_;  // seconds, by the number of threads
  std::set<std::pair<std::string, int>> retry_;
  Clock::time_point assembled_ = Clock::now();
  bool abandoned_ = false;  // whoever asked for turns is gone
};

}  // namespace

RunSummary run_experiment(const Experiment& experiment, const Plan& plan,
                          const RunSurroundings& surroundings, const RunSettings& settings) {
  check_writable(settings.out);
  const auto file = settings.out / (experiment.name + ".json");
  if (std::filesystem::is_directory(file)) {
    throw OutputError(file.string() + " is a folder, where the result file belongs; move it, or " +
                      "choose another --out");
  }
  try {
    Run run(experiment, plan, surroundings, settings);
    remove_abandoned_files(settings.out);
    return run.run();
  } catch (const json::exception& error) {
    if (!settings.resume) throw;
    throw InputError("the journal of " + file.string() +
                     " holds what this program does not write (" + error.what() +
                     "); start anew without --resume");
  }
}

std::string build_identity() {
  const BuildInfo& build = build_info();
  if (!build.git_dirty) return build.git_commit;
  // The commit does not say what this program was built from.
  static const std::string hash = sha256_file("/proc/self/exe");
  return build.git_commit + "+" + hash.substr(0, 16);
}

}  // namespace kmeans
