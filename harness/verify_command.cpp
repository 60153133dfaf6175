// SPDX-License-Identifier: Apache-2.0
#include "harness/verify_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <regex>
#include <string>

#include "harness/battery.h"
#include "harness/errors.h"
#include "harness/gpu_option.h"
#include "harness/machine.h"

namespace kmeans {
namespace {

struct VerifyCommand {
  std::string only;
  int threads = 0;
  bool list_cases = false;
  bool verbose = false;
  double at_most = 0;
};

double size_of(const BatteryCase& test) {
  return static_cast<double>(test.n) * static_cast<double>(test.d) * static_cast<double>(test.k);
}

std::regex compile(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw InputError("--only '" + pattern + "' is no regular expression: " + error.what());
  }
}

int run_verify(const VerifyCommand& command) {
  auto battery = make_battery();
  if (command.at_most > 0) {
    battery.erase(
        std::remove_if(battery.begin(), battery.end(),
                       [&](const BatteryCase& test) { return size_of(test) > command.at_most; }),
        battery.end());
  }
  if (command.list_cases) {
    for (const auto& test : battery) {
      std::printf("%-32s  n = %lld, d = %lld, k = %lld\n", test.name.c_str(),
                  static_cast<long long>(test.n), static_cast<long long>(test.d),
                  static_cast<long long>(test.k));
    }
    return kExitOk;
  }
  const std::regex only = compile(command.only);
  const int threads = command.threads > 0 ? command.threads : usable_threads();
  std::printf("%zu awkward problems per variant, %d thread%s; certificates: docs/exact-step.md\n\n",
              battery.size(), threads, threads == 1 ? "" : "s");
  std::printf("%-26s %-5s %7s %7s %7s  %12s %12s %12s\n", "variant", "", "passed", "failed",
              "skipped", "labels", "excess/bound", "mean/bound");
  int matched = 0;
  int failures = 0;
  for (const auto& variant : all_variants()) {
    if (!std::regex_search(variant.traits.name, only)) continue;
    ++matched;
    if (const Support available = availability(variant); !available.ok) {
      std::printf("%-26s unavailable: %s\n", variant.traits.name.c_str(), available.reason.c_str());
      continue;
    }
    const bool kept_wrong = !variant.traits.wrong_because.empty();
    for (const Precision precision : variant.traits.precisions) {
      int passed = 0;
      int failed = 0;
      int skipped = 0;
      Certificate worst;
      std::string notes;
      for (const auto& test : battery) {
        const auto result = run_battery_case(variant, test, precision, threads);
        switch (result.verdict) {
          case Verdict::passed: ++passed; break;
          case Verdict::skipped:
            ++skipped;
            if (command.verbose) {
              notes += "    skipped '" + test.name + "': " + result.detail + "\n";
            }
            break;
          case Verdict::failed:
          case Verdict::error:
            ++failed;
            if (kept_wrong && result.verdict == Verdict::failed) break;
            notes += "    " + std::string(result.verdict == Verdict::failed ? "wrong" : "error") +
                     " on '" + test.name + "': " + result.detail + "\n";
            break;
        }
        worst.labels_differing =
            std::max(worst.labels_differing, result.certificate.labels_differing);
        worst.largest_excess_of_bound =
            std::max(worst.largest_excess_of_bound, result.certificate.largest_excess_of_bound);
        worst.centroid_error_of_bound =
            std::max(worst.centroid_error_of_bound, result.certificate.centroid_error_of_bound);
      }
      // A variant that is kept although it is wrong must be found wrong.
      failures += kept_wrong ? (failed > 0 ? 0 : 1) : failed;
      if (kept_wrong) {
        notes += "    wrong as expected, and never timed: " + variant.traits.wrong_because + "\n";
      }
      std::printf("%-26s %-5s %7d %7d %7d  %11.3g%% %12.3g %12.3g\n", variant.traits.name.c_str(),
                  to_string(precision), passed, failed, skipped, 100 * worst.labels_differing,
                  worst.largest_excess_of_bound, worst.centroid_error_of_bound);
      std::fputs(notes.c_str(), stdout);
      std::fflush(stdout);
    }
  }
  if (matched == 0) {
    throw InputError("--only '" + command.only + "' matches no variant (`kmeans-bench list`)");
  }
  std::printf(
      "\n\"labels\": largest share that differs from the exact labels; the other two are "
      "shares of what\nrounding at the declared precision explains (at most 1).\n");
  return failures == 0 ? kExitOk : kExitCellsFailed;
}

}  // namespace

void add_verify_command(CLI::App& app, std::function<int()>& action) {
  auto command = std::make_shared<VerifyCommand>();
  auto* verify = app.add_subcommand("verify", "Certify every variant on awkward problems");
  verify->add_option("--only", command->only,
                     "Variants whose name matches this regular expression");
  verify->add_option("--threads", command->threads, "CPU threads; default: all usable ones")
      ->check(CLI::PositiveNumber);
  verify
      ->add_option("--at-most", command->at_most,
                   "Leave out problems with a larger n * k * d: for runs under a memory or race "
                   "checker")
      ->check(CLI::PositiveNumber);
  add_device_option(*verify);
  verify->add_flag("--list", command->list_cases, "Show the problems and stop");
  verify->add_flag("--verbose", command->verbose, "Also say why problems were skipped");
  verify->callback([command, &action] { action = [command] { return run_verify(*command); }; });
}

}  // namespace kmeans
