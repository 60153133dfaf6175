// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "harness/machine/gpu_option.h"
#include "harness/machine/machine.h"
#include "harness/run/bundle.h"
#include "harness/run/reproduce.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/formatted.h"
#include "harness/support/option_checks.h"
#include "harness/support/process.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

struct BundleOptions {
  std::vector<std::string> results;
  std::string out;
  std::vector<std::string> sources;
  bool draft = false;
};

struct CheckBundleOptions {
  std::string folder;
  std::int64_t seed = 0;
  double at_most = 1;
  int threads = 0;
  bool draft = false;
  double largest_problem = 0;  ///< n * k * d of the variants' problems; 0: any.
};

int run_bundle(const BundleOptions& options) {
  BundleRequest request;
  request.results.assign(options.results.begin(), options.results.end());
  request.sources.assign(options.sources.begin(), options.sources.end());
  request.out = options.out;
  request.draft = options.draft;
  const nlohmann::json manifest = write_bundle(request);
  std::string folder = options.out.empty() ? options.results.front() : options.out;
  std::printf("%s/%s: %s, %s, sources %s...\n", printable(folder).c_str(), kBundleManifest,
              counted(manifest.at("files").size(), "file", "files").c_str(),
              counted(manifest.at("variants").size(), "variant", "variants").c_str(),
              manifest.at("suite").at("sources_sha256").get<std::string>().substr(0, 16).c_str());
  if (options.draft) std::printf("a draft: not for publication\n");
  std::printf("check it: kmeans-bench check-bundle %s\n", printable(folder).c_str());
  return kExitOk;
}

/// What became of the variants.
struct CheckedVariants {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t not_run = 0;
};

/// One seed for all variants, small enough to be typed.
std::int64_t fresh_seed() {
  return static_cast<std::int64_t>(std::random_device()() % 1'000'000'000);
}

/// Why the variant that is here is not the one that was bundled; empty if it may be.
std::string stand_in(const BundledVariant& variant) {
  if (find_variant(variant.name) == nullptr) {
    return variant.plugin_sha256.empty()
               ? "not in this build"
               : "a plugin: compile its source, and give it with --plugin";
  }
  if (variant.plugin_sha256.empty()) return "";
  for (const auto& [key, value] : plugin_info(variant.name)) {
    if (key != "plugin sha256" || value == variant.plugin_sha256) continue;
    // Recompiled, or changed: its answers are checked either way.
    std::printf("%-26s another file than the one that was measured\n", variant.name.c_str());
  }
  return "";
}

void check_variant(const BundledVariant& variant, const CheckBundleOptions& options,
                   std::int64_t seed, CheckedVariants& found) {
  if (const std::string why = stand_in(variant); !why.empty()) {
    std::printf("%-26s not run: %s\n", valid_utf8(variant.name).c_str(), why.c_str());
    ++found.not_run;
    return;
  }
  std::string shapes;
  for (const SmallShape& shape : variant.shapes) {
    shapes += (shapes.empty() ? "" : ",") + std::to_string(shape.n) + "," +
              std::to_string(shape.d) + "," + std::to_string(shape.k);
  }
  std::string precisions;
  for (const std::string& precision : variant.precisions) {
    precisions += (precisions.empty() ? "" : ",") + precision;
  }
  std::vector<std::string> words{"--threads",      std::to_string(options.threads),
                                 "--fresh-seed",   std::to_string(seed),
                                 "--fresh-shapes", shapes,
                                 "--precisions",   precisions};
  // CI verifies the suite's own; nobody has done so for a plugin.
  if (!variant.plugin_sha256.empty()) words.emplace_back("--with-battery");
  if (options.largest_problem > 0) {
    words.insert(words.end(), {"--at-most", formatted("%.17g", options.largest_problem)});
  }
  const VerifiedApart verified = verify_in_process_apart(variant.name, words);
  std::fputs(verified.rows.c_str(), stdout);
  std::fflush(stdout);
  switch (verified.end) {
    case VerifiedApart::End::passed: ++found.passed; break;
    case VerifiedApart::End::failed: ++found.failed; break;
    case VerifiedApart::End::not_run: ++found.not_run; break;
  }
}

CheckedVariants check_variants(const Bundle& bundle, const CheckBundleOptions& options) {
  const std::int64_t seed = options.seed > 0 ? options.seed : fresh_seed();
  std::printf(
      "\nits variants in the precisions that have times: problems of shapes like its own, made "
      "small,\nby seed %lld (--seed repeats it); for a plugin those of `verify`, too\n%s\n",
      static_cast<long long>(seed), verify_header().c_str());
  std::fflush(stdout);
  CheckedVariants found;
  for (const BundledVariant& variant : bundled_variants(bundle.results)) {
    check_variant(variant, options, seed, found);
  }
  return found;
}

/// Recorded answers that take little time, once more.
VerdictCounts repeat_answers(const Bundle& bundle, const CheckBundleOptions& options) {
  std::printf("\nits recorded answers of at most %g s, once more\n", options.at_most);
  std::fflush(stdout);
  ReproduceSettings settings;
  settings.cache = cache_root();
  settings.threads = options.threads;
  settings.at_most_seconds = options.at_most;
  const InterruptGuard guard;
  VerdictCounts counts;
  for (const ResultFile& file : bundle.results) {
    const FileReport report = reproduce(file, Pattern(""), settings, [](auto&&...) {});
    std::printf("%-26s %s\n", valid_utf8(file.experiment).c_str(),
                report.counts().text_of_found().c_str());
    for (const Finding& finding : report.findings) {
      if (finding.judgement.verdict != Reproduced::differs) continue;
      std::printf("    %s\n", finding.text().c_str());
    }
    counts.add(report.counts());
    if (InterruptGuard::interrupted()) throw UserError(kExitInterrupted, "interrupted");
  }
  return counts;
}

/// Results that must not be published, a line each.
std::size_t print_unfit(const Bundle& bundle, bool draft) {
  std::size_t unfit = 0;
  const auto refuse = [&](const ResultFile& file, const char* why) {
    std::printf("%s: %s%s\n", valid_utf8(file.experiment).c_str(), why,
                draft ? " (a draft may)" : "");
    ++unfit;
  };
  for (const std::string& variant : plugins_without_source(bundle)) {
    std::printf("%s: a plugin without its source%s\n", valid_utf8(variant).c_str(),
                draft ? " (a draft may)" : "");
    ++unfit;
  }
  for (const ResultFile& file : bundle.results) {
    const nlohmann::json& suite = file.context.at("suite");
    if (suite.at("git_dirty").get<bool>()) {
      refuse(file, "measured with changes that are not committed");
    }
    if (suite.at("git_commit").get<std::string>() !=
        bundle.manifest.at("suite").value("git_commit", std::string())) {
      refuse(file, "measured by another commit than the manifest says");
    }
    if (!file.complete) refuse(file, "not complete");
  }
  return draft ? 0 : unfit;
}

int run_check_bundle(CheckBundleOptions options) {
  const Bundle bundle = load_bundle(options.folder);
  if (options.threads == 0) options.threads = usable_threads();
  std::printf("%s of %s, whole\n",
              counted(bundle.results.size(), "result file", "result files").c_str(),
              valid_utf8(bundle.results.front().machine).c_str());
  for (const std::string& line : source_differences(bundle.manifest)) {
    std::printf("  %s\n", line.c_str());
  }
  const bool draft = bundle.manifest.at("draft").get<bool>();
  if (draft) std::printf("a draft: not for publication\n");
  const std::size_t unfit = print_unfit(bundle, draft && options.draft);

  const CheckedVariants variants = check_variants(bundle, options);
  VerdictCounts answers;
  if (options.at_most > 0) answers = repeat_answers(bundle, options);
  std::printf("\nvariants: %zu passed, %zu failed, %zu not run\nrecorded answers: %s\n",
              variants.passed, variants.failed, variants.not_run, answers.text().c_str());
  const bool refused = unfit > 0 || (draft && !options.draft);
  if (refused) std::printf("not for publication\n");
  if (refused || variants.failed > 0 || answers.of(Reproduced::differs) > 0) return kExitGateFailed;
  if (variants.passed == 0) {
    throw EnvironmentError("none of the bundle's variants could be run here");
  }
  return kExitOk;
}

}  // namespace

void add_bundle_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<BundleOptions>();
  auto* command = app.add_subcommand(
      "bundle", "Make results ready to hand over: hashes of files and sources, environment");
  command->add_option("results", options->results, "Result files, or a folder of one machine")
      ->required();
  command->add_option("--out", options->out,
                      "Copy the files to this folder [the folder of results itself]");
  command
      ->add_option(
          "--source", options->sources,
          "A source file of a plugin, to go with it. NAME=FILE says of which: by its file\n"
          "or its variant")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command->add_flag("--draft", options->draft,
                    "Incomplete results and local changes, too; not for publication");
  command->footer("More in docs/bundles.md.");
  command->callback([options, &action] { action = [options] { return run_bundle(*options); }; });
}

void add_check_bundle_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<CheckBundleOptions>();
  auto* command = app.add_subcommand(
      "check-bundle", "Check that a bundle is whole and its variants give right answers here");
  command->add_option("folder", options->folder, "The bundle")->required();
  command->add_option("--seed", options->seed, "Of the small problems [another one each time]")
      ->transform(whole_number(1, kLargestSeed));
  command
      ->add_option(
          "--at-most", options->at_most,
          "Repeat recorded answers that are estimated to take at most this many seconds; 0: "
          "none")
      ->check(number_within(0, 1e9))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads of parallel variants [all]")
      ->transform(whole_number(1, kMaxThreads));
  command->add_flag("--draft", options->draft, "Accept a draft");
  // For tests, as verify's --at-most.
  command->add_option("--largest-problem", options->largest_problem)->group("");
  add_plugin_option(*command);
  add_device_option(*command);
  command->footer(
      "Exit status: 0 nothing failed, 1 something did or is not for publication, 2 not whole,\n"
      "3 nothing could be run here. More in docs/bundles.md.");
  command->callback(
      [options, &action] { action = [options] { return run_check_bundle(*options); }; });
}

}  // namespace kmeans
