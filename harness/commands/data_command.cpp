// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "datasets/catalogue.h"
#include "datasets/dataset.h"
#include "datasets/generators.h"
#include "datasets/points.h"
#include "harness/commands/csv_options.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/option_checks.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

struct DataOptions {
  std::string generator;
  std::map<std::string, std::string> values;  ///< Parameters as typed, by name.
  std::string precision;                      ///< Empty: that of the source.
  std::string out;
  bool list = false;
  bool catalogue = false;

  std::string inspected;
  CsvColumns csv;
  bool drop_nonfinite = false;
};

/// scikit-learn's sets are float64; ours are made in either.
bool is_made_in_f64(const DataOptions& options) {
  return require_generator(options.generator).prepare == nullptr;
}

ScalarType scalar_to_write(const DataOptions& options) {
  if (options.precision.empty()) return is_made_in_f64(options) ? ScalarType::f64 : ScalarType::f32;
  return options.precision == "f64" ? ScalarType::f64 : ScalarType::f32;
}

// The shortest text that reads back as the same number; whole numbers without a fraction.
std::string number(double value) {
  std::string text = json(value).dump();
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  return text;
}

std::string sha256_of(const Points& points) {
  return sha256_hex(points.data<void>(),
                    static_cast<std::size_t>(points.n() * points.d() * size_of(points.scalar())));
}

int list_generators() {
  for (const auto& generator : generators()) {
    std::printf("%s: %s\n", generator.name.c_str(), generator.summary.c_str());
    for (const auto& parameter : generator.parameters) {
      std::printf("  --%-10s %s, in [%s, %s]%s\n", parameter.name.c_str(),
                  parameter.meaning.c_str(), number(parameter.smallest).c_str(),
                  number(parameter.largest).c_str(),
                  parameter.fallback ? (" (default " + number(*parameter.fallback) + ")").c_str()
                                     : " (required)");
    }
  }
  return kExitOk;
}

template <class T>
std::pair<double, double> extremes(const Points& points) {
  const T* begin = points.data<T>();
  const auto [low, high] = std::minmax_element(begin, begin + points.n() * points.d());
  return {static_cast<double>(*low), static_cast<double>(*high)};
}

void describe(const Points& points, std::FILE* to = stdout) {
  const auto [low, high] =
      points.scalar() == ScalarType::f32 ? extremes<float>(points) : extremes<double>(points);
  std::fprintf(to, "n       %s\nd       %s\nscalar  %s\nmin     %s\nmax     %s\nsha256  %s\n",
               std::to_string(points.n()).c_str(), std::to_string(points.d()).c_str(),
               to_string(points.scalar()), number(low).c_str(), number(high).c_str(),
               sha256_of(points).c_str());
}

int inspect(const DataOptions& options) {
  LoadOptions load;
  load.csv = options.csv;
  std::vector<std::string> notes;
  std::string rounded;
  load.notes = &notes;
  load.rounded = &rounded;
  load.drop_nonfinite = options.drop_nonfinite;
  std::int64_t dropped = 0;
  load.points_dropped = &dropped;
  const Points points = load_points(options.inspected, load);
  print_notes(notes, rounded);
  std::printf("file    %s\n", options.inspected.c_str());
  if (options.drop_nonfinite) std::printf("dropped %s\n", std::to_string(dropped).c_str());
  describe(points);
  return kExitOk;
}

// What the entry's set comes out as; throws EnvironmentError when it cannot be made here.
Points make_entry(const CatalogueEntry& entry) {
  if (require_generator(entry.spec.json.at("generator")).prepare) {
    return generate(entry.spec, entry.scalar);
  }
  return load_points(materialise(entry.spec, entry.scalar, cache_root()).file);
}

int verify_catalogue() {
  const auto& entries = catalogue();
  int wrong = 0;
  int skipped = 0;
  for (const auto& entry : entries) {
    const std::string name = entry.spec.label() + " " + to_string(entry.scalar);
    std::string verdict;
    try {
      const Points points = make_entry(entry);
      const std::string sha256 = sha256_of(points);
      const std::string difference = difference_from(entry, sha256, points);
      if (!difference.empty()) {
        ++wrong;
        verdict = "WRONG: " + difference;
      } else {
        verdict = sha256 == entry.sha256 ? "ok" : "ok (within the tolerance; other last bits)";
      }
    } catch (const EnvironmentError& error) {
      ++skipped;
      verdict = std::string("skipped: ") + error.what();
    }
    std::printf("%-44s %s\n", name.c_str(), verdict.c_str());
  }
  const auto count = static_cast<int>(entries.size());
  std::printf("%d of %d catalogue entries are right, %d wrong, %d skipped\n",
              count - wrong - skipped, count, wrong, skipped);
  if (entries.empty()) {
    throw EnvironmentError("there is no catalogue at " + require_source_root() +
                           "/datasets/catalogue.json; set KMEANS_BENCH_ROOT to the source tree");
  }
  return wrong > 0 ? kExitUnusableEnvironment : kExitOk;
}

int make_dataset(const DataOptions& options) {
  if (options.generator.empty()) {
    throw InputError(
        "data: name a generator (`data --list` shows all), or use `data inspect FILE`");
  }
  if (options.out.empty()) throw InputError("data: --out FILE.npy says where to write the points");
  json description{{"generator", options.generator}};
  for (const auto& [name, text] : options.values) {
    // Numbers are read as JSON; anything else stays text, which the description refuses by name.
    json value = json::parse(text, nullptr, false);
    description[name] = value.is_discarded() ? json(text) : std::move(value);
  }
  const DatasetSpec spec = parse_dataset(description);
  const ScalarType scalar = scalar_to_write(options);
  const bool converted = is_made_in_f64(options);
  const Points points = converted ? load_points(materialise(spec, scalar, cache_root()).file)
                                  : generate(spec, scalar);
  // Points on standard output are not to be mixed with words about them.
  const bool piped = options.out == "-" || options.out == "/dev/stdout";
  write_npy(piped ? "/dev/stdout" : options.out, points);
  if (converted && scalar == ScalarType::f32) {
    std::fprintf(stderr,
                 "kmeans-bench: the source of %s is float64; these points are rounded to float32 "
                 "(without --precision f32 they are not)\n",
                 printable(options.generator).c_str());
  }
  std::FILE* to = piped ? stderr : stdout;
  std::fprintf(to, "file    %s\n", printable(options.out).c_str());
  describe(points, to);
  return kExitOk;
}

/// What `data` lets through for its generators, `data inspect` does not know.
void refuse_unknown(const CLI::App& command, const CLI::App& inspector) {
  auto unknown = inspector.remaining();
  if (unknown.empty()) unknown = command.remaining();
  if (unknown.empty()) return;
  if (unknown.front().rfind('-', 0) != 0) {
    throw InputError("data inspect: takes one file; '" + valid_utf8(unknown.front()) +
                     "' is one argument too many");
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : inspector.get_options()) {
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
  }
  throw InputError("data inspect: unknown option '" + valid_utf8(unknown.front()) + "'; " +
                   closest_names(unknown.front(), known));
}

int run_data_command(const DataOptions& options, const CLI::App& command) {
  if (const auto unknown = command.remaining(); !unknown.empty()) {
    std::vector<std::string> known{"--precision", "--out", "--list", "--catalogue"};
    for (const auto& generator : generators()) {
      for (const auto& parameter : generator.parameters) known.push_back("--" + parameter.name);
    }
    throw InputError("data: unknown option '" + valid_utf8(unknown.front()) + "'; " +
                     closest_names(unknown.front(), known));
  }
  if (options.list) return list_generators();
  if (options.catalogue) return verify_catalogue();
  return make_dataset(options);
}

}  // namespace

void add_data_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<DataOptions>();
  auto* command =
      app.add_subcommand("data",
                         "Generate a data set, look into a file, or verify the catalogue.\n"
                         "  kmeans-bench data blobs --n 100000 --d 2 --k 5 --out blobs.npy\n"
                         "  kmeans-bench data inspect blobs.npy");
  command->add_option("generator", options->generator, "name of a generator (see --list)");
  std::vector<std::string> added;
  for (const auto& generator : generators()) {
    for (const auto& parameter : generator.parameters) {
      if (std::find(added.begin(), added.end(), parameter.name) != added.end()) continue;
      added.push_back(parameter.name);
      command
          ->add_option_function<std::string>(
              "--" + parameter.name,
              [options, name = parameter.name](const std::string& text) {
                options->values[name] = text;
              },
              parameter.meaning)
          ->type_name("NUMBER")
          ->group("Parameters (which generator takes which: --list)");
    }
  }
  command
      ->add_option("--precision", options->precision,
                   "f32 or f64; without it f64 for zhihu2023, digits and photograph, which "
                   "scikit-learn makes (f32 rounds), and f32 for the others, which are generated "
                   "in either")
      ->check(CLI::IsMember({"f32", "f64"}));
  command->add_option("--out", options->out, "npy file to write; - for standard output")
      ->type_name("FILE");
  command->add_flag("--list", options->list, "list the generators and their parameters");
  command->add_flag("--catalogue", options->catalogue,
                    "make every set of the catalogue and compare its SHA-256");

  command->allow_extras();  // refused by run_data_command, which knows the nearest option

  auto* inspector = command->add_subcommand(
      "inspect", "Check a file of points and print its shape, range and SHA-256.");
  inspector
      ->add_option("file", options->inspected,
                   "npy, csv, fvecs, bvecs, fbin, IDX, LIBSVM, Parquet or Arrow")
      ->required()
      ->type_name("FILE");
  add_csv_options(*inspector, options->csv);
  inspector->add_flag("--drop-nonfinite", options->drop_nonfinite,
                      "leave out points with NaN or infinity, and say how many");

  inspector->callback([options, command, inspector, &action] {
    action = [options, command, inspector] {
      refuse_unknown(*command, *inspector);
      return inspect(*options);
    };
  });
  command->callback([options, command, inspector, &action] {
    if (inspector->parsed()) return;
    action = [options, command] { return run_data_command(*options, *command); };
  });
}

}  // namespace kmeans
