// SPDX-License-Identifier: Apache-2.0
//
// Runs experiments with a shell script in place of the worker: what it does is decided by k.
#include "harness/run/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "datasets/dataset.h"
#include "harness/record/result_file.h"
#include "harness/run/journal.h"
#include "harness/study.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/process.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// k = 2 crashes, 3 hangs, 4 is wrong, 5 exits, 6 writes rubbish, 8 gives other bits each time,
// 9 skips itself, 20 to 29 are slow, 30 to 32 were disturbed, 33 and 34 disagree; every other k is
// well.
constexpr const char* kFakeWorker = R"SH(#!/bin/sh
role=$1 job=$2 result=$3
value() { tr ',{}' '\n\n\n' < "$job" | sed -n "s/.*\"$1\": *\([^\",]*\).*/\1/p"; }
k=$(value k)
repetitions=$(value repetitions)
echo "$role k=$k repetitions=$repetitions threads=$OMP_NUM_THREADS" >> "$(dirname "$0")/calls.log"
status=ok reason= pace= samples=0.001,0.0011,0.0012 hash=0123456789abcdef
if [ "$role" = trace-worker ] && [ -f "$0.trace" ]; then
  cat "$0.trace" > "$result"
  exit 0
fi
if [ "$role" = trace-worker ]; then
  echo '{"status": "ok", "reason": null, "iterations": [], "label_hash": null}' > "$result"
  exit 0
fi
if [ "$role" = study-worker ]; then
  [ "$k" = 2 ] && { echo "about to crash"; kill -SEGV $$; }
  echo '{"status": "ok", "reason": null, "rows": [{"a": 1}], "findings": {"b": "two"},
         "notes": ["a note"], "seconds": 0.5}' > "$result"
  exit 0
fi
if [ "$role" = fit-worker ]; then
  [ "$k" = 2 ] && kill -SEGV $$
  echo '{"status": "ok", "reason": null, "best": null, "rows": [], "calls": [], "estimators": {},
         "notes": ["of the worker"], "seconds": 0.5}' > "$result"
  exit 0
fi
if [ "$repetitions" != 0 ]; then
  case $k in
    2) echo "about to crash"; kill -SEGV $$ ;;
    3) sleep 600 & sleep 600 ;;
    4) status=wrong reason="label 7 is wrong" samples= ;;
    5) printf 'cannot \033[1mstart\377\n' >&2; exit 3 ;;
    6) echo '{"status": "ok"' > "$result"; exit 0 ;;
    8) hash=$(printf '%016x' $$) ;;
    9) status=skipped reason="no such device" samples= ;;
    # Disturbed at each odd attempt: half the pace, and twice the time.
    30) echo >> "$0.attempts"
        if [ $(($(wc -l < "$0.attempts") % 2)) = 1 ]; then
          pace=0.000001,0.000002 samples=0.002,0.0022,0.0024
        else
          pace=0.000001,0.000001
        fi ;;
    31) pace=0.000001,0.000001 ;; # alone in a run, it would know no better
    32) pace=0.000001,0.0000016 ;;
    # Two speeds by turns, or another one every time.
    33) echo >> "$0.attempts33"
        if [ $(($(wc -l < "$0.attempts33") % 2)) = 0 ]; then samples=0.01,0.011,0.012; fi ;;
    34) echo >> "$0.attempts34"
        samples=$(($(wc -l < "$0.attempts34") * $(wc -l < "$0.attempts34"))) ;;
    2?) sleep 0.3
        # From the call of that number on, until the file is gone.
        while hold=$(cat "$0.hold" 2>&-) &&
              [ "$(grep -vc repetitions=0 "$(dirname "$0")/calls.log")" -ge "$hold" ]; do
          sleep 0.05
        done ;;
  esac
fi
cat > "$result" <<END
{"status": "$status", "reason": "$reason", "samples": [$samples], "stopping": "complete",
 "setup_seconds": 0.25, "stages": {}, "inertia": 12.5, "label_hash": "$hash",
 "centroid_hash": "$hash", "empty_clusters": 0, "any_empty_clusters": false, "outcome": "$hash",
 "verification": {"passed": true}, "traffic": null, "library": {}, "pace": [$pace]}
END
)SH";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
}

constexpr std::array kOfMachine{"other processes used", "the host of this virtual machine withheld",
                                "CPU quota was used up", "lowered its clock because of heat"};

/// As every command reads a result file.
void expect_sound(const json& result) {
  EXPECT_NO_THROW(parse_result_file(result.dump(1), "demo.json"));
}

/// What is noted of a cell but for the real machine's own troubles, which may come at any time.
std::vector<std::string> noted_of(const json& cell) {
  std::vector<std::string> noted;
  for (const std::string sentence : cell.at("noted")) {
    const bool of_machine =
        std::any_of(kOfMachine.begin(), kOfMachine.end(),
                    [&](const char* words) { return sentence.find(words) != std::string::npos; });
    if (!of_machine) noted.push_back(sentence);
  }
  return noted;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    script_ = folder_ / "worker.sh";
    write_text(script_, kFakeWorker);
    std::filesystem::permissions(script_, std::filesystem::perms::owner_all);
    settings_.worker_command = {script_.string()};
    settings_.out = folder_ / "out";
    settings_.cache = folder_ / "cache";
    settings_.command_line = "kmeans-bench run demo";
    settings_.threads = 2;
    surroundings_.machine_id = "test-machine";
    surroundings_.machine = json::parse(
        R"({"id": "test-machine", "cpu": {}, "gpus": [], "memory": {}, "os": {}, "libraries": {}})");
    surroundings_.limits.cpus = 64;
    journal_ = settings_.out / "demo.journal.jsonl";
  }
  /// An experiment of one cell for each k, and a trace.
  void use(const std::vector<int>& clusters, double timeout_seconds = 300) {
    json value = json::parse(R"({
      "name": "demo", "title": "Demo", "data": {"generator": "uniform", "seed": 1},
      "init": "first", "variants": ["reference"],
      "scales": {"quick": {"sweep": {"n": [40], "d": [2]}, "iterations": 4}},
      "traces": [{"name": "path", "variant": "reference", "n": 50, "d": 2, "k": 4,
                  "iterations": 3}]})");
    value["scales"]["quick"]["sweep"]["k"] = clusters;
    value["scales"]["quick"]["timeout_seconds"] = timeout_seconds;
    experiment_ = parse_experiment(parse_json(value.dump(1), "demo.json"));
    PlanOptions options;
    options.threads = settings_.threads;
    options.memory_bytes = 1e12;
    plan_ = plan_experiment(experiment_, options);
  }

  RunSummary run() { return run_experiment(experiment_, plan_, surroundings_, settings_); }

  [[nodiscard]] json result() const { return read_json_file(settings_.out / "demo.json"); }

  [[nodiscard]] json cell_with(int k) const {
    const json whole = result();
    for (const auto& cell : whole.at("cells")) {
      if (cell.at("k") == k) return cell;
    }
    return nullptr;
  }

  /// Calls of the fake worker for cells and traces; those for exact trajectories are left out.
  [[nodiscard]] std::vector<std::string> calls() const {
    std::ifstream stream(folder_ / "calls.log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) {
      if (line.find("repetitions=0") == std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  /// The slow workers end no more, from their call of that number on.
  void hold_from_call(int number) const {
    write_text(script_.string() + ".hold", std::to_string(number));
  }
  void hold_no_more() const { std::filesystem::remove(script_.string() + ".hold"); }

  /// Until the workers have been called that often, or ten minutes have passed.
  void wait_for_calls(std::size_t count) const {
    for (int attempt = 0; calls().size() < count && attempt < 60000; ++attempt) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  std::filesystem::path script_;
  std::filesystem::path journal_;
  Experiment experiment_;
  Plan plan_;
  RunSurroundings surroundings_;
  RunSettings settings_;
};

TEST_F(CoordinatorTest, MeasuresDisturbedProcessesAgainWithPatience) {
  use({30});
  settings_.patience = 0.1;
  run();
  const json cell = cell_with(30);
  EXPECT_EQ(cell.at("samples_seconds_per_iteration"),
            json::parse("[[0.001, 0.0011, 0.0012], [0.001, 0.0011, 0.0012], "
                        "[0.001, 0.0011, 0.0012]]"));
  // Attempts 1 and 3 were disturbed; of the repeated ones, 4 and 5, the second was, too.
  EXPECT_EQ(cell.at("pace"), json::parse(R"({"best_seconds": 1e-6, "ratios": [1, 1, 1],
                                             "retries": 3})"));
  EXPECT_THAT(noted_of(cell), IsEmpty());
  expect_sound(result());
  // The journal has the last word on each process, also for a resumed run.
  settings_.resume = true;
  const auto before = calls().size();
  run();
  EXPECT_EQ(calls().size(), before);
  EXPECT_EQ(cell_with(30), cell);
}

TEST_F(CoordinatorTest, GivesUpOnCoresThatStaySlow) {
  use({31, 32});
  settings_.patience = 0.1;
  run();
  EXPECT_EQ(cell_with(31).at("pace").at("retries"), 0);
  const json cell = cell_with(32);
  EXPECT_EQ(cell.at("pace").at("retries"), 9) << "three times each of three processes";
  EXPECT_NEAR(cell.at("pace").at("ratios").at(0).get<double>(), 1.6, 1e-9);
  EXPECT_THAT(cell.at("noted").dump(), HasSubstr("take 1.60 times as long as at its best"));
}

TEST_F(CoordinatorTest, WithoutPatienceTellsWhatWasDisturbed) {
  use({30});
  run();
  const json cell = cell_with(30);
  // Three processes disagreed; the fifth made the disturbed ones the majority.
  EXPECT_EQ(cell.at("pace").at("ratios"), json::parse("[2, 1, 2, 1, 2]"));
  EXPECT_EQ(cell.at("pace").at("retries"), 0);
  EXPECT_THAT(cell.at("noted").dump(), HasSubstr("take 2.00 times as long as at its best"));
}

TEST_F(CoordinatorTest, MeasuresFurtherUntilAMajorityAgrees) {
  use({10, 33});
  const RunSummary summary = run();
  EXPECT_EQ(summary.unsteady, 0U);
  EXPECT_GE(summary.noted, 1U);
  EXPECT_THAT(noted_of(cell_with(10)), IsEmpty());
  EXPECT_EQ(cell_with(10).at("processes"), 3);
  const json cell = cell_with(33);
  EXPECT_EQ(cell.at("processes"), 5) << "slow processes took turns with fast ones";
  EXPECT_EQ(cell.at("seconds_per_iteration").at("median"), 0.0011);
  EXPECT_THAT(cell.at("unsteady"), IsEmpty());
  EXPECT_THAT(cell.at("noted").dump(), HasSubstr("2 of 5 processes lie apart"));
  expect_sound(result());
  // A resumed run decides by the journal, and so alike.
  settings_.resume = true;
  const auto before = calls().size();
  run();
  EXPECT_EQ(calls().size(), before);
  EXPECT_EQ(cell_with(33), cell);
}

TEST_F(CoordinatorTest, AResumedRunMeasuresTheFurtherProcessesThatAreMissing) {
  use({33});
  run();
  const json cell = cell_with(33);
  std::vector<std::string> kept;
  std::istringstream lines(text_of(journal_));
  for (std::string line; std::getline(lines, line);) {
    const json entry = json::parse(line);
    if (entry.value("process", 0) < 4) kept.push_back(line + "\n");
  }
  std::string text;
  for (const auto& line : kept) text += line;
  write_text(journal_, text);
  write_text(folder_ / "worker.sh.attempts33", "\n\n\n\n");
  settings_.resume = true;
  const auto before = calls().size();
  run();
  EXPECT_EQ(calls().size(), before + 1);
  EXPECT_EQ(cell_with(33).at("samples_seconds_per_iteration"),
            cell.at("samples_seconds_per_iteration"));
}

TEST_F(CoordinatorTest, ACellThatMoreProcessesDoNotCureIsUnsteady) {
  use({34});
  const RunSummary summary = run();
  EXPECT_EQ(summary.ok, 2U);  // it, and a trace
  EXPECT_EQ(summary.unsteady, 1U);
  const json cell = cell_with(34);
  EXPECT_THAT(noted_of(cell), IsEmpty());
  EXPECT_EQ(cell.at("status"), "ok");
  EXPECT_EQ(cell.at("processes"), 7) << "three planned: four further at most";
  EXPECT_THAT(cell.at("unsteady").dump(), HasSubstr("its processes disagree: 1 process at 1 s"));
}

TEST_F(CoordinatorTest, MeasuresEveryCellInSeveralProcesses) {
  use({10, 11});
  const RunSummary summary = run();
  EXPECT_EQ(summary.ok, 3U);  // two cells and a trace
  EXPECT_FALSE(summary.interrupted);
  const json whole = result();
  expect_sound(whole);
  EXPECT_EQ(whole.at("complete"), true);
  EXPECT_EQ(whole.at("planned_cells"), 2);
  const json& cell = whole.at("cells").at(0);
  EXPECT_EQ(cell.at("status"), "ok");
  EXPECT_EQ(cell.at("processes"), 3);
  EXPECT_EQ(cell.at("samples_seconds_per_iteration").size(), 3U);
  EXPECT_EQ(cell.at("stopping"), "complete");
  EXPECT_EQ(cell.at("seconds_per_iteration").at("median"), 0.0011);
  const json& context = whole.at("context");
  EXPECT_EQ(context.at("machine").at("id"), "test-machine");
  EXPECT_EQ(context.at("run_order").size(), 2U);
  EXPECT_EQ(context.at("datasets").size(), 2U);  // of the cells, and of the trace
  EXPECT_EQ(whole.at("spec"), experiment_.document.value);
  EXPECT_EQ(calls().size(), 7U);
  // The reference is single-threaded whatever the run has.
  for (const auto& call : calls()) EXPECT_THAT(call, HasSubstr("threads=1"));
}

TEST_F(CoordinatorTest, RoundsInterleaveTheCells) {
  use({10, 11, 12, 13});
  run();
  const auto made = calls();
  ASSERT_EQ(made.size(), 13U);
  for (std::ptrdiff_t round = 0; round < 3; ++round) {
    std::vector<std::string> one(made.begin() + 4 * round, made.begin() + 4 * round + 4);
    std::sort(one.begin(), one.end());
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_THAT(one[i], HasSubstr("k=" + std::to_string(10 + i) + " "));
    }
  }
}

TEST_F(CoordinatorTest, AChooserDecidesWhatIsMeasured) {
  use({3, 10, 11, 12});
  plan_.traces.clear();
  settings_.choose = [&](const std::vector<CellNews>& news) -> std::optional<Choice> {
    const auto cell_of = [&](std::int64_t k) {
      return std::find_if(news.begin(), news.end(),
                          [&](const CellNews& one) { return one.cell->key.shape.k == k; });
    };
    if (cell_of(12)->processes.size() < 2) return Choice{cell_of(12)->cell, 30, false, ""};
    if (!cell_of(3)->stopped) return Choice{cell_of(3)->cell, 0.3, false, "it took too long"};
    if (!cell_of(11)->stopped) return Choice{cell_of(11)->cell, 0, true, "no time was left"};
    if (cell_of(10)->processes.empty()) return Choice{cell_of(10)->cell, 30, false, ""};
    return std::nullopt;
  };
  const RunSummary summary = run();
  EXPECT_EQ(summary.ok, 2U);
  EXPECT_EQ(summary.skipped, 2U);
  EXPECT_TRUE(summary.complete) << "every cell has a word";
  expect_sound(result());
  EXPECT_EQ(cell_with(12).at("processes"), 2);
  EXPECT_EQ(cell_with(12).at("stopping"), "time budget") << "three were planned";
  EXPECT_EQ(cell_with(10).at("processes"), 1);
  EXPECT_EQ(cell_with(3).at("status"), "skipped") << "ended by the chooser, not a hang";
  EXPECT_EQ(cell_with(3).at("reason"), "it took too long");
  EXPECT_EQ(cell_with(11).at("reason"), "no time was left");
  const auto made = calls();
  ASSERT_EQ(made.size(), 4U);
  EXPECT_THAT(made[0], HasSubstr("k=12 "));
  EXPECT_THAT(made[1], HasSubstr("k=12 "));
  EXPECT_THAT(made[2], HasSubstr("k=3 "));
  EXPECT_THAT(made[3], HasSubstr("k=10 "));
}

TEST_F(CoordinatorTest, AFurtherProcessThatAChooserEndsIsForgotten) {
  use({10});
  plan_.traces.clear();
  int asked = 0;
  settings_.choose = [&](const std::vector<CellNews>& news) -> std::optional<Choice> {
    if (asked == 2) return std::nullopt;
    ++asked;
    // Not even the shell begins within that.
    return Choice{news.front().cell, asked == 1 ? 30 : 1e-6, false, "it took too long"};
  };
  run();
  EXPECT_EQ(asked, 2);
  const json cell = cell_with(10);
  EXPECT_EQ(cell.at("status"), "ok");
  EXPECT_EQ(cell.at("processes"), 1);
}

TEST_F(CoordinatorTest, OrderFollowsTheSeed) {
  const auto order_with = [&](std::uint64_t seed) {
    settings_.order_seed = seed;
    run();
    return result().at("context").at("run_order");
  };
  use({10, 11, 12, 13, 14, 15});
  const json first = order_with(1);
  EXPECT_EQ(order_with(1), first);
  EXPECT_NE(order_with(2), first);
}

TEST_F(CoordinatorTest, FailuresCostTheirCellOnly) {
  use({2, 4, 5, 6, 9, 10});
  const RunSummary summary = run();
  EXPECT_EQ(summary.ok, 2U);
  EXPECT_EQ(summary.wrong, 1U);
  EXPECT_EQ(summary.failed, 3U);
  EXPECT_EQ(summary.skipped, 1U);
  expect_sound(result());
  EXPECT_EQ(result().at("complete"), true);
  const auto reason = [&](int k) { return cell_with(k).at("reason").get<std::string>(); };
  EXPECT_EQ(reason(2), "killed by SIGSEGV: about to crash");
  EXPECT_EQ(cell_with(4).at("status"), "wrong");
  EXPECT_EQ(reason(4), "label 7 is wrong");
  EXPECT_EQ(reason(5), "exit status 3: cannot \\x1b[1mstart\xEF\xBF\xBD");
  EXPECT_THAT(reason(6), StartsWith("the worker ended without a whole result: result.json:2:1: "));
  EXPECT_EQ(reason(9), "no such device");
  for (const int k : {2, 4, 5, 6, 9}) {
    EXPECT_THAT(cell_with(k).at("samples_seconds_per_iteration"), IsEmpty()) << k;
    EXPECT_EQ(cell_with(k).at("processes"), 1) << k;  // the first one was enough
  }
}

TEST_F(CoordinatorTest, ReasonsDoNotTellWhereSomeoneKeepsFiles) {
  use({5});
  std::string script = kFakeWorker;
  const std::string home = std::getenv("HOME");
  script.replace(script.find("cannot"), 6,
                 "cannot read " + settings_.cache.string() + "/x.npy " + home + "/lib/y.so");
  write_text(script_, script);
  run();
  EXPECT_THAT(cell_with(5).at("reason").get<std::string>(),
              StartsWith("exit status 3: cannot read x.npy ~/lib/y.so"));
}

TEST_F(CoordinatorTest, InputsThatAWorkerWroteToAreMadeAgain) {
  use({10, 11});
  std::string script = kFakeWorker;
  script.insert(
      script.find("cat > \"$result\""),
      "file=$(tr , '\\n' < \"$job\" | sed -n 's/.*\"points_file\": *\"\\([^\"]*\\)\".*/\\1/p'); "
      "[ $k = 11 ] && [ \"$repetitions\" != 0 ] && "
      "printf 1 | dd of=\"$file\" bs=1 seek=200 conv=notrunc 2>/dev/null\n");
  write_text(script_, script);
  run();
  EXPECT_EQ(cell_with(10).at("status"), "ok");
  EXPECT_EQ(cell_with(11).at("status"), "error");
  EXPECT_THAT(cell_with(11).at("reason").get<std::string>(), HasSubstr("was written to"));
  // The cache holds the right points again, as the record says.
  const auto stored = materialise(plan_.cells[0].task.dataset, ScalarType::f32, settings_.cache);
  EXPECT_EQ(result().at("context").at("datasets").at(plan_.cells[0].task.label).at("sha256"),
            stored.sha256);
}

TEST_F(CoordinatorTest, HangingWorkersAreEnded) {
  // A worker that does not hang may need a while as well, where others have the processors.
  int seconds = 1;
  for (; seconds < 100; seconds *= 4) {
    use({3, 10}, seconds);
    run();
    if (cell_with(10).at("status") == "ok") break;
  }
  EXPECT_EQ(cell_with(3).at("reason"), "timeout after " + std::to_string(seconds) + " s");
  EXPECT_EQ(cell_with(10).at("status"), "ok");
}

TEST_F(CoordinatorTest, UnequalBitsAreSaid) {
  use({8});
  run();
  EXPECT_EQ(cell_with(8).at("bit_equal_across_processes"), false);
}

TEST_F(CoordinatorTest, MissingWorkerIsAnErrorOfTheCell) {
  use({10});
  settings_.worker_command = {(folder_ / "no-such-program").string()};
  run();
  EXPECT_EQ(cell_with(10).at("status"), "error");
  EXPECT_THAT(cell_with(10).at("reason").get<std::string>(), HasSubstr("could not be started"));
}

TEST_F(CoordinatorTest, ResumedCompleteRunMeasuresNothingAgain) {
  use({4, 10});
  run();
  const json before = result();
  const auto made = calls().size();
  settings_.resume = true;
  run();
  EXPECT_EQ(calls().size(), made);
  const json after = result();
  EXPECT_EQ(after.at("cells"), before.at("cells"));
  for (const char* key : {"run_order", "datasets", "started"}) {
    EXPECT_EQ(after.at("context").at(key), before.at("context").at(key));
  }
}

TEST_F(CoordinatorTest, ResumeTriesFailuresAgain) {
  use({5, 10});
  run();
  EXPECT_EQ(cell_with(5).at("status"), "error");
  const auto made = calls().size();
  std::string mended = kFakeWorker;
  mended.replace(mended.find("    5) "), 7, "    99) ");
  write_text(script_, mended);
  settings_.resume = true;
  run();
  EXPECT_EQ(cell_with(5).at("status"), "ok");
  EXPECT_EQ(cell_with(5).at("processes"), 3);
  EXPECT_EQ(calls().size(), made + 3);
}

TEST_F(CoordinatorTest, ResumeAfterAnyBreakLeadsToTheSameCells) {
  use({10, 11});
  run();
  const json whole = result();
  const std::string journal = text_of(journal_);
  settings_.resume = true;
  for (const std::size_t length : {journal.size() / 2, journal.size() - 5}) {
    write_text(journal_, journal.substr(0, length));
    std::filesystem::remove(settings_.out / "demo.json");
    run();
    const json now = result();
    EXPECT_EQ(now.at("complete"), true);
    ASSERT_EQ(now.at("cells").size(), whole.at("cells").size());
    for (std::size_t i = 0; i < now.at("cells").size(); ++i) {
      EXPECT_EQ(now.at("cells").at(i).at("samples_seconds_per_iteration"),
                whole.at("cells").at(i).at("samples_seconds_per_iteration"));
    }
    expect_sound(now);
  }
}

TEST_F(CoordinatorTest, ResumeOnAnotherMachineIsRefused) {
  use({10});
  run();
  settings_.resume = true;
  surroundings_.machine_id = "other-machine";
  EXPECT_THAT(test::message_of([&] { run(); }),
              HasSubstr("machine was \"test-machine\", is \"other-machine\""));
  settings_.force = true;
  EXPECT_NO_THROW(run());
}

TEST_F(CoordinatorTest, ResumeInOtherCircumstancesIsRefused) {
  use({10});
  surroundings_.environment.variables = {{"KMEANS_BENCH_CACHE", "here"}};
  run();
  settings_.resume = true;
  const auto refusal = [&] { return test::message_of([&] { run(); }); };
  surroundings_.environment.variables = {{"KMEANS_BENCH_CACHE", "there"}};
  EXPECT_EQ(refusal(), "");  // a place changes no time
  surroundings_.environment.variables = {{"KMEANS_BENCH_SIMD", "sse2"}};
  EXPECT_THAT(refusal(), HasSubstr("variable KMEANS_BENCH_SIMD was null, is \"sse2\""));
  surroundings_.environment.variables = json::object();
  settings_.threads = 3;
  EXPECT_THAT(refusal(), HasSubstr("threads was 2, is 3"));
  settings_.threads = 2;
  plan_.cells.front().sampling.repetitions = 7;
  EXPECT_THAT(refusal(), HasSubstr("repetitions was 3, is 7"));
}

TEST_F(CoordinatorTest, ARunThatContinuesNothingKeepsTheEarlierResult) {
  use({10, 11});
  EXPECT_TRUE(run().complete);
  const json whole = result();
  plan_.cells[1].selected = false;
  EXPECT_FALSE(run().complete);
  EXPECT_EQ(result().at("cells").size(), 1U);
  // Nor does a resumed one whose journal is gone.
  std::filesystem::remove(journal_);
  settings_.resume = true;
  run();
  std::vector<json> kept;
  for (const auto& entry : std::filesystem::directory_iterator(settings_.out)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("demo.json.before-", 0) == 0) kept.push_back(read_json_file(entry.path()));
  }
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_THAT(kept, ::testing::Contains(whole));
}

TEST_F(CoordinatorTest, AVariantThatIsWrongSomewhereIsMarkedElsewhere) {
  use({4, 10});
  run();
  EXPECT_EQ(cell_with(4).at("status"), "wrong");
  const json other = cell_with(10);
  EXPECT_EQ(other.at("status"), "ok");
  const json& said = other.at("noted");
  EXPECT_THAT(said.dump(),
              HasSubstr("the variant is wrong at " + cell_with(4).at("key").get<std::string>()));
}

TEST_F(CoordinatorTest, AFolderInPlaceOfTheResultFileIsFoundFirst) {
  use({10});
  std::filesystem::create_directories(settings_.out / "demo.json");
  EXPECT_THROW(run(), OutputError);
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(CoordinatorTest, WhatKilledProcessesLeftIsRemoved) {
  use({10});
  std::filesystem::create_directories(settings_.out);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);  // nobody has this number now
  const auto dead = settings_.out / ("demo.json.tmp-" + std::to_string(child));
  const auto living = settings_.out / ("other.json.tmp-" + std::to_string(::getppid()));
  const auto foreign = settings_.out / "notes.tmp-mine";
  const auto counted = settings_.out / (".demo.json.tmp-" + std::to_string(child) + "-0");
  for (const auto& file : {dead, counted, living, foreign}) write_text(file, "half");
  run();
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_FALSE(std::filesystem::exists(counted));
  EXPECT_TRUE(std::filesystem::exists(living));
  EXPECT_TRUE(std::filesystem::exists(foreign));
}

TEST_F(CoordinatorTest, ResumeOfAnotherExperimentIsRefused) {
  use({10});
  run();
  settings_.resume = true;
  use({10, 11});
  EXPECT_THROW(run(), InputError);
}

TEST_F(CoordinatorTest, ResumeWithFewerCellsKeepsTheOthers) {
  use({10, 11});
  run();
  settings_.resume = true;
  plan_.cells[1].selected = false;
  run();
  EXPECT_EQ(result().at("cells").size(), 2U);
  EXPECT_EQ(result().at("planned_cells"), 2);
}

TEST_F(CoordinatorTest, StudiesAreRunOnceAndKeptInTheFile) {
  use({10});
  StudySpec spec;
  spec.name = "question";
  spec.study = "test_echo";
  spec.scales = {"quick"};
  spec.parameters = {{"times", 3}};
  spec.data = experiment_.data;
  spec.init = experiment_.init;
  plan_.studies.push_back({{}, spec});
  spec.name = "with-data";
  plan_.studies.push_back({{}, spec, plan_.cells[0].task});
  spec.name = "crashes";
  plan_.studies.push_back({{}, spec, plan_.cells[0].task});
  plan_.studies.back().task->shape.k = 2;
  const RunSummary summary = run();
  EXPECT_EQ(summary.ok, 4U);  // a cell, the trace, two studies
  EXPECT_EQ(summary.failed, 1U);
  const json studies = result().at("studies");
  ASSERT_EQ(studies.size(), 3U);
  EXPECT_EQ(studies[0].at("name"), "question");
  EXPECT_EQ(studies[0].at("summary"), "gives back what it gets");
  EXPECT_TRUE(studies[0].at("n").is_null());
  EXPECT_EQ(studies[0].at("parameters"), spec.parameters);
  EXPECT_EQ(studies[0].at("rows"), json::parse(R"([{"a": 1}])"));
  EXPECT_EQ(studies[0].at("findings").at("b"), "two");
  EXPECT_EQ(studies[1].at("k"), 10);
  EXPECT_EQ(studies[1].at("dataset"), plan_.cells[0].task.label);
  EXPECT_EQ(studies[2].at("status"), "error");
  EXPECT_THAT(studies[2].at("reason").get<std::string>(), HasSubstr("SIGSEGV"));
  const std::size_t before = calls().size();
  settings_.resume = true;
  run();
  EXPECT_EQ(calls().size(), before + 1);  // the crash alone is tried again
}

TEST_F(CoordinatorTest, FitsAreRunOnceAndKeptInTheFile) {
  use({10});
  FitSpec spec;
  spec.name = "whole-k10";
  spec.estimators = {"faiss"};
  plan_.fits.push_back({{}, spec, plan_.cells[0].task});
  spec.name = "crashes-k2";
  plan_.fits.push_back({{}, spec, plan_.cells[0].task});
  plan_.fits.back().task.shape.k = 2;
  spec.name = "too-large-k10";
  plan_.fits.push_back({{}, spec, plan_.cells[0].task});
  plan_.fits.back().skip_reason = "needs more memory";
  const RunSummary summary = run();
  EXPECT_EQ(summary.ok, 3U);  // a cell, the trace, a fit
  EXPECT_EQ(summary.failed, 1U);
  EXPECT_EQ(summary.skipped, 1U);
  EXPECT_TRUE(summary.complete);
  const json fits = result().at("fits");
  ASSERT_EQ(fits.size(), 3U);
  EXPECT_EQ(fits[0].at("name"), "whole-k10");
  EXPECT_EQ(fits[0].at("dataset"), plan_.cells[0].task.label);
  EXPECT_EQ(fits[0].at("notes"), json::array({"of the worker"}));
  EXPECT_EQ(fits[1].at("status"), "error");
  EXPECT_THAT(fits[1].at("reason").get<std::string>(), HasSubstr("SIGSEGV"));
  EXPECT_EQ(fits[1].at("rows"), json::array());
  EXPECT_EQ(fits[2].at("reason"), "needs more memory");
  expect_sound(result());
  const std::size_t before = calls().size();
  settings_.resume = true;
  run();
  EXPECT_EQ(calls().size(), before + 1);  // the crash alone is tried again
}

TEST_F(CoordinatorTest, WhatOnlyLeavesOutIsMissing) {
  use({10, 11});
  plan_.cells[1].selected = false;
  EXPECT_FALSE(run().complete);
  EXPECT_EQ(result().at("cells").size(), 1U);
  EXPECT_EQ(result().at("planned_cells"), 2);
  EXPECT_EQ(result().at("complete"), false);
  EXPECT_TRUE(result().at("context").at("finished").is_string());
  EXPECT_EQ(calls().size(), 4U);
  expect_sound(result());
  // A resumed run that leaves out nothing completes it.
  plan_.cells[1].selected = true;
  settings_.resume = true;
  EXPECT_TRUE(run().complete);
  EXPECT_EQ(result().at("complete"), true);
  EXPECT_EQ(result().at("cells").size(), 2U);
}

TEST_F(CoordinatorTest, ALeftOutTraceIsMissing) {
  use({10});
  plan_.traces[0].selected = false;
  EXPECT_FALSE(run().complete);
  EXPECT_EQ(result().at("planned_cells"), 1);
  EXPECT_EQ(result().at("cells").size(), 1U);
  EXPECT_EQ(result().at("complete"), false);
  EXPECT_THAT(result().at("traces"), IsEmpty());
  EXPECT_EQ(calls().size(), 3U);
}

TEST_F(CoordinatorTest, AResumedNarrowedRunKeepsSkippedTraces) {
  use({7});
  plan_.traces.front().skip_reason = "no such device";
  EXPECT_TRUE(run().complete);
  settings_.resume = true;
  plan_.traces.front().selected = false;  // as --only leaves it
  EXPECT_TRUE(run().complete);
  EXPECT_EQ(result().at("traces").at(0).at("status"), "skipped");
}

TEST_F(CoordinatorTest, ATraceOffTheExactTrajectoryIsWrongAndHasNoTime) {
  use({7});
  const auto trace_with = [&](double inertia) {
    json reply = json::parse(R"({
      "status": "ok", "reason": null, "seconds_per_iteration": 0.5, "runs_seconds": [[1.0]],
      "label_hash": null, "verification": {"passed": true, "checks": []},
      "trajectory": {"max_abs": 1},
      "iterations": [{"iteration": 1}, {"iteration": 2}]})");
    reply["iterations"][1]["inertia"] = inertia;
    write_text(script_.string() + ".trace", reply.dump());
    std::filesystem::remove_all(settings_.out);
    run();
    return result().at("traces").at(0);
  };
  const json right = trace_with(12.5);  // as the fake worker says of the exact one
  EXPECT_EQ(right.at("status"), "ok") << right.dump();
  EXPECT_EQ(right.at("seconds_per_iteration"), 0.5);
  EXPECT_TRUE(right.at("verification").at("passed").get<bool>());
  const json wrong = trace_with(14);
  EXPECT_EQ(wrong.at("status"), "wrong");
  EXPECT_THAT(wrong.at("reason").get<std::string>(), HasSubstr("exact trajectory"));
  EXPECT_FALSE(wrong.at("verification").at("passed").get<bool>());
  EXPECT_TRUE(wrong.at("seconds_per_iteration").is_null());
  EXPECT_TRUE(wrong.at("runs_seconds").is_null());
}

TEST_F(CoordinatorTest, SecondRunOnOneResultFileIsRefused) {
  use({10});
  std::filesystem::create_directories(settings_.out);
  const Journal other(journal_, false);
  EXPECT_THROW(run(), OutputError);
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(CoordinatorTest, UnwritableOutputIsFoundBeforeMeasuring) {
  use({10});
  write_text(folder_ / "file", "x");
  settings_.out = folder_ / "file" / "out";
  EXPECT_THROW(run(), OutputError);
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(CoordinatorTest, InterruptionLeavesAValidIncompleteFile) {
  use({20, 21, 22, 23});
  hold_from_call(4);  // however late the signal comes
  {
    const InterruptGuard guard;
    std::thread user([this] {
      wait_for_calls(2);
      ::kill(::getpid(), SIGINT);
    });
    const RunSummary summary = run();
    user.join();
    EXPECT_TRUE(summary.interrupted);
  }
  hold_no_more();
  const json broken = result();
  EXPECT_EQ(broken.at("complete"), false);
  EXPECT_EQ(broken.at("planned_cells"), 4);
  EXPECT_LT(broken.at("cells").size(), 4U);
  EXPECT_TRUE(broken.at("context").at("finished").is_null());
  expect_sound(broken);
  settings_.resume = true;
  EXPECT_FALSE(run().interrupted);
  EXPECT_EQ(result().at("complete"), true);
  EXPECT_EQ(result().at("cells").size(), 4U);
  const json resumed = result();
  for (const auto& cell : resumed.at("cells")) EXPECT_EQ(cell.at("processes"), 3);
}

TEST_F(CoordinatorTest, KilledRunResumesWithoutDoubling) {
  use({20, 21, 22, 23});
  hold_from_call(5);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    run();
    ::_exit(0);
  }
  wait_for_calls(4);
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  hold_no_more();
  settings_.resume = true;
  run();
  const json whole = result();
  EXPECT_EQ(whole.at("complete"), true);
  ASSERT_EQ(whole.at("cells").size(), 4U);
  for (const auto& cell : whole.at("cells")) {
    EXPECT_EQ(cell.at("processes"), 3);
    EXPECT_EQ(cell.at("samples_seconds_per_iteration").size(), 3U);
  }
  // Twelve processes and the trace, and at most the one that the kill cost.
  EXPECT_LE(calls().size(), 14U);
}

ProcessOutcome run_shell(const std::string& script, double timeout_seconds = 600) {
  ProcessRequest request;
  request.command = {"/bin/sh", "-c", script};
  request.timeout_seconds = timeout_seconds;
  request.kept_output = 1000;
  return run_process(request);
}

TEST(Process, TellsHowItEnded) {
  EXPECT_TRUE(run_shell("exit 0").succeeded());
  EXPECT_EQ(run_shell("exit 3").describe(), "exit status 3");
  EXPECT_EQ(run_shell("kill -ABRT $$").describe(), "killed by SIGABRT");
  EXPECT_THAT(run_shell("kill -KILL $$").describe(), HasSubstr("SIGKILL (the kernel does so"));
  EXPECT_EQ(run_shell("echo out; echo err >&2").output, "out\nerr\n");
  EXPECT_EQ(run_shell("sleep 60", 0.2).describe(), "timeout after 200 ms");
}

TEST(Process, KeepsTheEndOfLongOutput) {
  const auto outcome = run_shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done");
  EXPECT_EQ(outcome.output.size(), 1000U);
  EXPECT_THAT(outcome.output, ::testing::EndsWith("line 19999\n"));
}

TEST(Process, StubbornProgramsAreKilled) {
  const auto outcome = run_shell("trap '' TERM; while :; do sleep 1; done", 0.2);
  EXPECT_EQ(outcome.end, ProcessOutcome::End::timed_out);
}

/// Whether the process that it printed is gone, or a zombie that its new parent has yet to reap. It sleeps
/// for an hour, and what was killed takes a moment to go.
bool goes(const ProcessOutcome& outcome) {
  const std::string stat = "/proc/" + std::to_string(std::stoi(outcome.output)) + "/stat";
  const auto alive = [&] {
    const std::string text = text_of(stat);
    return !text.empty() && text.find(") Z ") == std::string::npos;
  };
  for (int attempt = 0; alive() && attempt < 6000; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return !alive();
}

TEST(Process, GrandchildrenDoNotSurvive) {
  const auto outcome = run_shell("sleep 3600 & echo $!");
  ASSERT_TRUE(outcome.succeeded());
  EXPECT_TRUE(goes(outcome));
}

TEST(Process, NeitherDoThoseInASessionOfTheirOwn) {
  if (!std::filesystem::exists("/proc/self/task/" + std::to_string(::getpid()) + "/children")) {
    GTEST_SKIP() << "the kernel does not list children here";
  }
  const test::TemporaryFolder folder;
  const std::string there = (folder.path() / "there").string();
  const auto outcome =
      run_shell("setsid sh -c 'echo $$; touch " + there + "; exec sleep 3600' & until [ -e " +
                there + " ]; do sleep 0.05; done");
  ASSERT_TRUE(outcome.succeeded());
  ASSERT_FALSE(outcome.output.empty());
  EXPECT_TRUE(goes(outcome));
}

TEST(Process, OtherChildrenOfTheCallerLive) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::sleep(300);
    ::_exit(0);
  }
  EXPECT_TRUE(run_shell("setsid sleep 300 & exit 0").succeeded());
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Process, IsTheFirstToGoWhenMemoryRunsOut) {
  EXPECT_EQ(run_shell("cat /proc/self/oom_score_adj").output, "1000\n");
}

TEST(Process, EnvironmentIsChangedForTheProgramOnly) {
  ::setenv("KMEANS_TEST_GONE", "1", 1);
  ProcessRequest request;
  request.command = {"/bin/sh", "-c", "echo ${KMEANS_TEST_GONE-none} $KMEANS_TEST_NEW"};
  request.environment = {{"KMEANS_TEST_GONE", std::nullopt}, {"KMEANS_TEST_NEW", "yes"}};
  EXPECT_EQ(run_process(request).output, "none yes\n");
  EXPECT_STREQ(std::getenv("KMEANS_TEST_GONE"), "1");
  ::unsetenv("KMEANS_TEST_GONE");
}

TEST(Process, TailsAreReadable) {
  EXPECT_EQ(readable_tail("a\x1b[0mb\xff\n\n", 100), "a\\x1b[0mb\xEF\xBF\xBD");
  EXPECT_EQ(readable_tail("0123456789", 4), "6789");
  // One byte and two bytes that a terminal takes for the beginning of an order.
  EXPECT_EQ(readable_tail("\x07\xc2\x9b"
                          "2J \xc3\xa9\n.",
                          100),
            "\\x07\\x9b2J \xc3\xa9\n.");
}

}  // namespace
}  // namespace kmeans
