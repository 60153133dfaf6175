// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/machine/gpu_option.h"
#include "harness/machine/ranks.h"
#include "harness/support/clock.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/option_checks.h"
#include "harness/support/pattern.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/shared_library.h"
#include "harness/verify/battery.h"

namespace kmeans {
namespace {

struct VerifyCommand {
  std::string only;
  int threads = 0;
  bool list_cases = false;
  bool verbose = false;
  bool apart = false;  ///< This process verifies what may crash, for another one (verify_apart).
  double at_most = 0;
  double timeout = kSecondsOfProblem;
  std::uint64_t fresh_seed = 1;
  std::vector<std::int64_t> fresh_shapes{};  ///< n, d, k of problems in place of the battery's.
  bool with_battery = false;                 ///< The battery's as well.
  std::vector<std::string> precisions{};     ///< These alone; empty: all that a variant has.
};

// Before what a process apart comes to next, in its output: "f32", which problem of how many, its name.
constexpr char kProblemMark = '\x01';
// Of a process apart until its first problem: plugins are asked what they are.
constexpr double kSecondsToStart = 120;
// Where no terminal shows the problem all the time, one line in so many seconds is a sign of life.
constexpr double kSecondsBetweenLines = 10;

/// Which problem a variant is at, on standard error.
class ShownProblem {
 public:
  void show(std::size_t number, std::size_t total, const std::string& what) {
    if (!line_.rewrites()) {
      if (seconds_since(last_) < kSecondsBetweenLines) return;
      last_ = Clock::now();
    }
    line_.update(number, total, what, -1);
  }

 private:
  ProgressLine line_{stderr};
  Clock::time_point last_ = Clock::now();
};

/// Which problem a process apart is at, by its output.
class WatchedProblem {
 public:
  WatchedProblem(std::string variant, double limit) : variant_(std::move(variant)), limit_(limit) {}

  /// False when it has been at one problem for longer than the limit.
  bool goes_on(const std::string& output) {
    note_last_of(output);
    if (total_ > 0) shown_.show(number_, total_, variant_ + " " + precision_ + ", " + name_);
    hangs_ = seconds_since(since_) >= (mark_ ? limit_ : kSecondsToStart);
    return !hangs_;
  }

  [[nodiscard]] bool hangs() const { return hangs_; }

  /// "took longer than 60 s" and how many problems came before.
  [[nodiscard]] std::string describe_hang() const {
    if (!mark_) return "came to no problem within " + formatted("%g s", kSecondsToStart);
    return precision_ + " took longer than " + formatted("%g s", limit_) + " (--timeout), after " +
           counted(number_ > 0 ? number_ - 1 : 0, "problem", "problems") + " of " +
           std::to_string(total_);
  }

 private:
  void note_last_of(const std::string& output) {
    const auto begin = output.rfind(kProblemMark);
    const auto end = begin == std::string::npos ? begin : output.find('\n', begin);
    if (end == std::string::npos) return;  // what was printed since has pushed it out, or it is cut
    const std::string mark = output.substr(begin, end - begin);
    if (mark_ == mark) return;
    mark_ = mark;
    since_ = Clock::now();
    if (mark.size() == 1) return;  // the end
    std::istringstream words(mark.substr(1));
    words >> precision_ >> number_ >> total_;
    std::getline(words >> std::ws, name_);
  }

  std::string variant_;
  double limit_;
  ShownProblem shown_;
  std::optional<std::string> mark_;
  std::string precision_;
  std::size_t number_ = 0;
  std::size_t total_ = 0;
  std::string name_;
  Clock::time_point since_ = Clock::now();
  bool hangs_ = false;
};

double size_of(const BatteryCase& test) {
  return static_cast<double>(test.n) * static_cast<double>(test.d) * static_cast<double>(test.k);
}

/// What became of one variant in one precision.
struct Tally {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  Certificate worst;
  std::string first;  ///< The first problem that failed, with its reason.
  std::string notes;  ///< A line for each problem that failed or was skipped.
};

void count(const BatteryCase& test, const BatteryResult& result, Tally& tally) {
  switch (result.verdict) {
    case Verdict::passed: ++tally.passed; break;
    case Verdict::skipped:
      ++tally.skipped;
      tally.notes += "    skipped '" + test.name + "': " + result.detail + "\n";
      break;
    case Verdict::failed:
    case Verdict::error: {
      ++tally.failed;
      const std::string what = std::string(result.verdict == Verdict::failed ? "wrong" : "error") +
                               " on '" + test.name + "': " + result.detail;
      if (tally.first.empty()) tally.first = what;
      tally.notes += "    " + what + "\n";
      break;
    }
  }
  const Certificate& found = result.certificate;
  Certificate& worst = tally.worst;
  worst.labels_differing = std::max(worst.labels_differing, found.labels_differing);
  worst.largest_excess_of_bound =
      std::max(worst.largest_excess_of_bound, found.largest_excess_of_bound);
  worst.centroid_error_of_bound =
      std::max(worst.centroid_error_of_bound, found.centroid_error_of_bound);
}

Tally run_problems(const RegisteredVariant& variant, Precision precision,
                   const std::vector<BatteryCase>& battery, int threads, bool apart) {
  ShownProblem shown;
  const std::string who = variant.traits.name + " " + to_string(precision) + ", ";
  Tally tally;
  for (std::size_t i = 0; i < battery.size(); ++i) {
    if (apart) {  // who started this process shows it
      std::printf("%c%s %zu %zu %s\n", kProblemMark, to_string(precision), i + 1, battery.size(),
                  battery[i].name.c_str());
      std::fflush(stdout);
    } else {
      shown.show(i + 1, battery.size(), who + battery[i].name);
    }
    count(battery[i], run_battery_case(variant, battery[i], precision, threads), tally);
  }
  return tally;
}

void print_tally(const RegisteredVariant& variant, Precision precision, const Tally& tally,
                 bool verbose) {
  std::printf("%-26s %-5s %7d %7d %7d", variant.traits.name.c_str(), to_string(precision),
              tally.passed, tally.failed, tally.skipped);
  if (verbose) {
    std::printf("  %11.3g%% %12.3g %12.3g", 100 * tally.worst.labels_differing,
                tally.worst.largest_excess_of_bound, tally.worst.centroid_error_of_bound);
  }
  std::printf("\n");
  const bool kept_wrong = !variant.traits.wrong_because.empty();
  if (verbose) {
    std::fputs(tally.notes.c_str(), stdout);
  } else if (tally.failed > 0 && !kept_wrong) {
    std::printf("    failed %d of %d, first: %s; --verbose for all\n", tally.failed,
                tally.passed + tally.failed, tally.first.c_str());
  }
  if (kept_wrong) {
    std::printf("    wrong as expected, and never timed: %s\n",
                variant.traits.wrong_because.c_str());
  }
  std::fflush(stdout);
}

std::vector<BatteryCase> all_problems(const VerifyCommand& command) {
  if (command.fresh_shapes.empty()) return make_battery();
  std::vector<BatteryCase> cases;
  if (command.with_battery) cases = make_battery();
  for (std::size_t i = 0; i + 2 < command.fresh_shapes.size(); i += 3) {
    const std::int64_t* shape = command.fresh_shapes.data() + i;
    for (auto& one : make_fresh_cases(shape[0], shape[1], shape[2], command.fresh_seed + i)) {
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

std::vector<BatteryCase> chosen_battery(const VerifyCommand& command) {
  auto battery = all_problems(command);
  const double at_most = command.at_most;
  if (at_most > 0) {
    battery.erase(std::remove_if(battery.begin(), battery.end(),
                                 [&](const BatteryCase& test) { return size_of(test) > at_most; }),
                  battery.end());
  }
  return battery;
}

int list_cases(const std::vector<BatteryCase>& battery) {
  for (const auto& test : battery) {
    std::printf("%-32s  n = %lld, d = %lld, k = %lld\n", test.name.c_str(),
                static_cast<long long>(test.n), static_cast<long long>(test.d),
                static_cast<long long>(test.k));
  }
  return kExitOk;
}

/// How many variants there were, and what became of them.
struct Verified {
  std::size_t checked = 0;
  std::size_t failed = 0;
  std::size_t unavailable = 0;
};

/// A plugin may crash, if it is a shared library with the process that verifies it, and hang; a
/// library of Python's may hang.
bool may_hang(const RegisteredVariant& variant) {
  return variant.backend == "python" || !plugin_file(variant.traits.name).empty();
}

void verify_apart(const RegisteredVariant& variant, const VerifyCommand& command, int threads,
                  Verified& verified) {
  std::vector<std::string> options{"--threads", std::to_string(threads)};
  if (command.verbose) options.emplace_back("--verbose");
  if (command.at_most > 0) {
    options.insert(options.end(), {"--at-most", formatted("%.17g", command.at_most)});
  }
  if (gpus_in_use() > 1) {
    options.insert(options.end(), {"--gpus", std::to_string(gpus_in_use())});
  }
  for (const std::string& precision : command.precisions) {
    options.insert(options.end(), {"--precisions", precision});
  }
  const VerifiedApart outcome =
      verify_in_process_apart(variant.traits.name, options, command.timeout);
  std::fputs(outcome.rows.c_str(), stdout);
  std::fflush(stdout);
  if (outcome.end == VerifiedApart::End::not_run) return;
  ++verified.checked;
  verified.failed += outcome.end == VerifiedApart::End::failed ? 1 : 0;
}

bool is_asked_for(Precision precision, const VerifyCommand& command) {
  const auto& asked = command.precisions;
  return asked.empty() ||
         std::find(asked.begin(), asked.end(), to_string(precision)) != asked.end();
}

void verify_variant(const RegisteredVariant& variant, const std::vector<BatteryCase>& battery,
                    int threads, const VerifyCommand& command, Verified& verified) {
  if (const Support available = availability(variant); !available.ok) {
    std::printf("%-26s unavailable: %s\n", variant.traits.name.c_str(), available.reason.c_str());
    ++verified.unavailable;
    return;
  }
  if (const int ranks = process_ranks().size(); ranks > 1 && !variant.traits.shards) {
    std::printf("%-26s unavailable: needs all points, so %d ranks cannot share its work\n",
                variant.traits.name.c_str(), ranks);
    ++verified.unavailable;
    return;
  }
  if (gpus_in_use() > 1 && !variant.traits.many_gpus) {
    std::printf("%-26s unavailable: shares its points among no GPUs\n",
                variant.traits.name.c_str());
    ++verified.unavailable;
    return;
  }
  // Under a launcher a process that is started here would take itself for another rank.
  if (!command.apart && may_hang(variant) && process_ranks().size() == 1) {
    return verify_apart(variant, command, threads, verified);
  }
  int tried = 0;
  bool bad = false;
  for (const Precision precision : variant.traits.precisions) {
    if (!is_asked_for(precision, command)) continue;
    const Tally tally = run_problems(variant, precision, battery, threads, command.apart);
    print_tally(variant, precision, tally, command.verbose);
    tried += tally.passed + tally.failed;
    // A variant that is kept although it is wrong must be found wrong.
    const bool kept_wrong = !variant.traits.wrong_because.empty();
    const bool ran = tally.passed + tally.failed > 0;
    bad = bad || (kept_wrong ? ran && tally.failed == 0 : tally.failed > 0);
  }
  verified.checked += tried > 0 ? 1 : 0;
  verified.failed += bad ? 1 : 0;
}

int conclude(const Verified& verified, bool verbose) {
  if (verbose) {
    std::printf(
        "\n\"labels\": largest share that differs from the exact labels, explained by rounding "
        "where the\nproblem passed; the other two are shares of what rounding at the declared "
        "precision explains (at\nmost 1).\n");
  }
  std::string rest;
  if (verified.unavailable > 0) {
    rest = "; " + std::to_string(verified.unavailable) + " unavailable here";
  }
  if (verified.checked == 0) {
    std::fflush(stdout);
    throw EnvironmentError("nothing was verified: no variant ran on any problem" + rest);
  }
  const std::string all = counted(verified.checked, "variant", "variants");
  if (verified.failed == 0) {
    std::printf("\n%s passed%s\n", all.c_str(), rest.c_str());
    return kExitOk;
  }
  std::printf("\n%zu of %s failed%s\n", verified.failed, all.c_str(), rest.c_str());
  return kExitCellsFailed;
}

int run_verify(const VerifyCommand& command) {
  const auto battery = chosen_battery(command);
  if (command.list_cases) return list_cases(battery);
  const Pattern only(command.only);
  const int threads = command.threads > 0 ? command.threads : threads_per_rank();
  const auto plugins = plugin_names();
  std::vector<const RegisteredVariant*> chosen;
  for (const auto& variant : all_variants()) {
    // Who brings a variant asks for it; others only by name.
    const bool asked =
        !command.only.empty() || plugins.empty() || variant.backend == kPluginBackend;
    if (asked && only.found_in(variant.traits.name)) chosen.push_back(&variant);
  }
  if (chosen.empty()) {
    throw InputError("--only '" + command.only + "' matches no variant (`kmeans-bench list`)");
  }
  Verified verified;
  if (command.apart) {
    for (const auto* variant : chosen) {
      verify_variant(*variant, battery, threads, command, verified);
    }
    std::printf("%c%c\n", kProblemMark, kProblemMark);  // it came to the end
    if (verified.checked == 0) return kExitUnusableEnvironment;
    return verified.failed == 0 ? kExitOk : kExitCellsFailed;
  }
  std::printf("%zu awkward problems per variant, %d thread%s; certificates: docs/exact-step.md\n\n",
              battery.size(), threads, threads == 1 ? "" : "s");
  std::fputs(verify_header().c_str(), stdout);
  if (command.verbose) std::printf("  %12s %12s %12s", "labels", "excess/bound", "mean/bound");
  std::printf("\n");
  std::fflush(stdout);
  for (const auto* variant : chosen) {
    verify_variant(*variant, battery, threads, command, verified);
  }
  return conclude(verified, command.verbose);
}

const std::string kEnd(1, kProblemMark);  // in place of a problem

/// Rows of the table without the marks; the problem that was come to last goes to `problem`.
std::string rows_of(const std::string& output, std::string& problem) {
  std::string rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() == kProblemMark) {
      problem = line.substr(1);
      for (int word = 0; word < 3 && problem != kEnd; ++word) {
        problem.erase(0, problem.find(' ') + 1);
      }
    } else {
      rows += valid_utf8(line) + "\n";
    }
  }
  return rows;
}

}  // namespace

std::string verify_header() {
  return formatted("%-26s %-5s %7s ", "variant", "", "passed") +
         formatted("%7s %7s", "failed", "skipped");
}

VerifiedApart verify_in_process_apart(const std::string& variant,
                                      const std::vector<std::string>& options,
                                      double seconds_of_problem) {
  ProcessRequest request;
  request.command = {"/proc/self/exe", "verify", "--apart", "--only", "^" + variant + "$"};
  request.command.insert(request.command.end(), options.begin(), options.end());
  request.environment = environment_of(variant);
  request.timeout_seconds = std::numeric_limits<double>::infinity();
  WatchedProblem watched(variant, seconds_of_problem);
  request.goes_on = [&](const std::string& output) { return watched.goes_on(output); };
  const InterruptGuard guard;
  const ProcessOutcome outcome = run_process(request);
  if (outcome.end == ProcessOutcome::End::interrupted) {
    throw UserError(kExitInterrupted, "interrupted");
  }
  std::string problem;
  VerifiedApart verified;
  verified.rows = rows_of(outcome.output, problem);
  // A variant may end its process with any status.
  const bool ended = outcome.end == ProcessOutcome::End::exited && problem == kEnd;
  if (ended && outcome.code == kExitUnusableEnvironment) return verified;
  const bool passed = ended && outcome.succeeded();
  verified.end = passed ? VerifiedApart::End::passed : VerifiedApart::End::failed;
  if (passed || (ended && outcome.code == kExitCellsFailed)) return verified;
  const std::string where = problem.empty() || problem == kEnd ? "" : " on '" + problem + "'";
  verified.rows += formatted("%-26s ", variant.c_str()) +
                   (watched.hangs() ? watched.describe_hang() : outcome.describe()) + where + "\n";
  return verified;
}

void add_verify_command(CLI::App& app, Action& action) {
  auto command = std::make_shared<VerifyCommand>();
  auto* verify = app.add_subcommand("verify", "Certify every variant on awkward problems");
  verify->add_option("--only", command->only,
                     "Variants whose name matches this regular expression");
  verify->add_option("--threads", command->threads, "CPU threads; default: all usable ones")
      ->transform(whole_number(1, kMaxThreads));
  verify
      ->add_option("--at-most", command->at_most,
                   "Leave out problems with a larger n * k * d: for runs under a memory or race "
                   "checker")
      ->check(positive_number());
  verify
      ->add_option(
          "--timeout", command->timeout,
          "End a plugin or a Python variant that is at one problem for longer than so many\n"
          "seconds; it has failed, and the next variant's turn comes")
      ->check(positive_number())
      ->capture_default_str();
  add_device_option(*verify);
  add_plugin_option(*verify);
  add_gpus_option(*verify);
  // For processes that this program starts.
  verify->add_flag("--apart", command->apart)->group("");
  verify->add_option("--fresh-seed", command->fresh_seed)->group("");
  verify->add_option("--fresh-shapes", command->fresh_shapes)->delimiter(',')->group("");
  verify->add_flag("--with-battery", command->with_battery)->group("");
  verify->add_option("--precisions", command->precisions)->delimiter(',')->group("");
  verify->add_flag("--list", command->list_cases, "Show the problems and stop");
  verify->add_flag(
      "--verbose", command->verbose,
      "Also every problem that failed or was skipped, and\nhow near to its bounds a variant came");
  verify->callback([command, &action] { action = [command] { return run_verify(*command); }; });
}

}  // namespace kmeans
