// SPDX-License-Identifier: Apache-2.0
#include "harness/run/schedule.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/machine/pace.h"
#include "harness/run/sampling.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/process.h"
#include "harness/support/random.h"
#include "harness/support/turns.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Further attempts at a process that was disturbed although it waited.
constexpr int kMaxRetries = 3;

/// A process of a cell, to be measured.
using Turn = std::pair<CellState*, int>;

/// Rounds: process r of every cell before process r + 1 of any, so that a machine that drifts
/// drifts for all alike; in each round another random order.
class Rounds {
 public:
  Rounds(RunState& run, Measuring& measuring)
      : run_(run), measuring_(measuring), order_(run.asked().settings.order_seed) {}

  void measure() {
    measure_rounds();
    for (int attempt = 0; run_.asked().settings.patience > 0 && attempt < kMaxRetries; ++attempt) {
      if (!measure_disturbed_again()) break;
      measure_rounds();  // a first process that was quicker now leaves time for more
    }
    while (measure_further()) continue;
  }

 private:
  template <class T>
  void shuffle(std::vector<T>& turn) {
    for (std::size_t i = turn.size(); i > 1; --i) std::swap(turn[i - 1], turn[order_.next() % i]);
  }

  void run_process(CellState& state, int process) {
    measuring_.run_process(state, process);
    run_.assemble_if_due();
  }

  void measure_rounds() {
    int rounds = 0;
    for (const auto& state : run_.cells()) {
      rounds = std::max(rounds, state.cell->sampling.processes);
    }
    for (int round = 0; round < rounds; ++round) {
      std::vector<CellState*> turn;
      for (auto& state : run_.cells()) turn.push_back(&state);
      shuffle(turn);
      bool any = false;
      for (auto* state : turn) {
        if (InterruptGuard::interrupted()) return;
        if (!state->wants(round)) continue;
        any = true;
        run_process(*state, round);
      }
      if (any && !InterruptGuard::interrupted()) run_.assemble(false);
    }
  }

  /// One more attempt at every process next to which the cores were slow. What is measured again is
  /// chosen by a computation that knows nothing of the variant, so the choice favours none. False
  /// when there is nothing to do any more.
  bool measure_disturbed_again() {
    std::vector<Turn> turn;
    for (auto& state : run_.cells()) {
      if (state.stopped) continue;
      for (const int process : state.done) {
        const ProcessRecord& record = run_.record_of(*state.cell, process);
        const auto pace = pace_of(record);
        if (pace && *pace > kDisturbedPace * run_.best_paces().at(state.cell->key.threads) &&
            record.retries < kMaxRetries) {
          turn.emplace_back(&state, process);
        }
      }
    }
    shuffle(turn);
    if (!turn.empty()) {
      run_.progress().note(run_.name() + ": measuring " + std::to_string(turn.size()) +
                           " processes again that a slow core disturbed");
    }
    for (const auto& [state, process] : turn) {
      if (InterruptGuard::interrupted()) return false;
      if (!state->stopped) run_process(*state, process);
    }
    return !turn.empty();
  }

  [[nodiscard]] bool affords_further() const {
    double planned = 0;
    double further = 0;
    for (const auto& state : run_.cells()) {
      const auto [of_planned, of_further] =
          planned_and_further_seconds(run_.processes_of(*state.cell), state.processes);
      planned += of_planned;
      further += of_further;
    }
    return affords_further_process(planned, further);
  }

  /// One more process for every cell whose processes disagree, while the run's budget lasts: what
  /// is measured further is chosen by disagreement alone, whichever side would gain by it. False
  /// when there is nothing to do any more.
  bool measure_further() {
    std::vector<CellState*> turn;
    for (auto& state : run_.cells()) {
      if (measuring_.wants_further(state)) turn.push_back(&state);
    }
    shuffle(turn);
    if (!turn.empty() && affords_further() && !InterruptGuard::interrupted()) {
      run_.progress().note(run_.name() + ": one more process " +
                           (turn.size() == 1
                                ? "for a cell whose"
                                : "each for " + std::to_string(turn.size()) + " cells whose") +
                           " processes disagree");
    }
    for (auto* state : turn) {
      if (InterruptGuard::interrupted()) return false;
      if (affords_further()) {
        run_process(*state, state->next());
      } else {
        measuring_.show(*state, *state->done.rbegin());
      }
    }
    return !turn.empty() && affords_further();
  }

  RunState& run_;
  Measuring& measuring_;
  SplitMix64 order_;
};

/// The experiment is over for the cells with what they have.
void end_with_what_is_done(RunState& run) {
  for (auto& state : run.cells()) state.processes = static_cast<int>(state.done.size());
}

/// A line for whoever holds the other end of standard output.
void say(const json& line) {
  const std::string text = presentable(line).dump() + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

json described(const RunState& run, const CellState& state) {
  json samples = json::array();
  for (const int process : state.done) {
    const JobResult& result = run.record_of(*state.cell, process).result;
    if (result.status == "ok") samples.push_back(result.samples);
  }
  return {{"key", state.cell->key.text()}, {"stopped", state.stopped}, {"samples", samples}};
}

/// One process at a time, of the cell whose key is read as JSON from standard input, answered by
/// what is known of it (harness/compare/interleave.h). An empty key ends it. False when broken off.
bool take_turns(RunState& run, Measuring& measuring) {
  json cells = json::array();
  for (const auto& state : run.cells()) cells.push_back(described(run, state));
  say({{"turns", kTurnsVersion}, {"cells", cells}});
  std::string line;
  while (!InterruptGuard::interrupted() && std::getline(std::cin, line)) {
    const json wanted = json::parse(line, nullptr, false);
    if (wanted.is_string() && wanted.get_ref<const std::string&>().empty()) {
      end_with_what_is_done(run);
      return !InterruptGuard::interrupted();
    }
    const auto state = std::find_if(run.cells().begin(), run.cells().end(), [&](const auto& one) {
      return wanted == one.cell->key.text();
    });
    if (state == run.cells().end()) {
      throw InputError("--turns: no cell has the key " + to_line(wanted));
    }
    if (!state->stopped) measuring.run_process(*state, state->next());
    say(described(run, *state));
    run.assemble_if_due();
  }
  return false;
}

/// Process by process, as the settings' chooser says.
void measure_chosen(RunState& run, Measuring& measuring) {
  while (!InterruptGuard::interrupted()) {
    std::vector<CellNews> news;
    for (const auto& state : run.cells()) {
      news.push_back({state.cell, run.processes_of(*state.cell), state.stopped});
    }
    const auto choice = run.asked().settings.choose(news);
    if (!choice) return end_with_what_is_done(run);
    const auto state = std::find_if(run.cells().begin(), run.cells().end(),
                                    [&](const auto& one) { return one.cell == choice->cell; });
    if (state == run.cells().end()) {
      throw std::logic_error("a cell was chosen that is not measured");
    }
    if (choice->leave) {
      run.stop(*state, unreported("skipped", choice->reason));
      continue;
    }
    measuring.run_process(*state, state->next(), &*choice);
    run.assemble_if_due();
  }
}

}  // namespace

bool measure_cells(RunState& run, Measuring& measuring) {
  const RunSettings& settings = run.asked().settings;
  if (!settings.turns.empty()) return take_turns(run, measuring);
  if (settings.choose) {
    measure_chosen(run, measuring);
  } else {
    Rounds(run, measuring).measure();
  }
  return !InterruptGuard::interrupted();
}

}  // namespace kmeans
