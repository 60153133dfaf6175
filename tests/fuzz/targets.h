// SPDX-License-Identifier: Apache-2.0
//
// What the fuzzer calls, one function a target: arbitrary bytes go in, and either they are read or
// they are refused with a message. A target throws Fault when a promise is broken; crashes,
// accesses beyond the bytes and undefined behaviour are the sanitizers' business. The normal tests
// replay the corpus through the same functions, without clang.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/readers.h"
#include "harness/compare/compare.h"
#include "harness/compare/export.h"
#include "harness/record/measures.h"
#include "harness/record/result_file.h"
#include "harness/run/experiment.h"
#include "harness/run/journal.h"
#include "harness/run/results.h"
#include "harness/run/sampling.h"
#include "harness/run/sweep.h"
#include "harness/study.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"

namespace kmeans::fuzz {

/// A promise that the code under test broke.
class Fault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// What became of an input.
enum class Answer { read, refused };

struct Target {
  std::string name;                      ///< "npy", "experiment", ...; its corpus folder's name.
  Answer (*run)(std::string_view text);  /// Throws Fault.
};

namespace detail {

using nlohmann::json;

inline void require(bool promise, const std::string& what) {
  if (!promise) throw Fault(what);
}

/// A refusal must be fit to print; where `source` is given, it must begin with the place.
inline Answer refused(const std::exception& error, const std::string& source = "") {
  const std::string message = error.what();
  require(!message.empty(), "refused without a word");
  require(valid_utf8(message) == message, "the message is not UTF-8");
  require(message.rfind(source, 0) == 0, "the message does not say where: " + message);
  return Answer::refused;
}

// --- Files of points -------------------------------------------------------------------------

/// Reads every coordinate, so that a mapping beyond the bytes is noticed.
template <class T>
void look_at(const Points& points, bool finite) {
  const T* x = points.data<T>();
  bool all_finite = true;
  for (std::int64_t i = 0; i < points.n() * points.d(); ++i) all_finite &= std::isfinite(x[i]);
  require(all_finite || !finite, "a coordinate that is not finite was let through");
}

inline Answer read_once(const FileBytes& file, const LoadOptions& options) {
  try {
    const Points points = read_points(file, options);
    require(points.n() >= 1 && points.d() >= 1, "an empty matrix");
    require(options.max_points == 0 || points.n() <= options.max_points, "more points than asked");
    require(!options.scalar || points.scalar() == *options.scalar, "another scalar than asked");
    if (points.scalar() == ScalarType::f32) {
      look_at<float>(points, options.check_finite);
    } else {
      look_at<double>(points, options.check_finite);
    }
    return Answer::read;
  } catch (const InputError& error) {
    return refused(error, "fuzz");
  }
}

template <FileFormat format>
Answer read_file(std::string_view text) {
  // A block of exactly the right size lets the address sanitizer see the first byte too far.
  const std::shared_ptr<std::byte[]> bytes(new std::byte[text.size()]);
  if (!text.empty()) std::memcpy(bytes.get(), text.data(), text.size());
  const FileBytes file{"fuzz", {bytes.get(), text.size()}, bytes};

  LoadOptions options;
  options.format = format;
  const Answer answer = read_once(file, options);
  options.scalar = ScalarType::f32;
  options.max_points = 2;
  read_once(file, options);
  options.scalar = ScalarType::f64;
  options.check_finite = false;
  options.csv.drop_last = format == FileFormat::csv ? 1 : 0;
  read_once(file, options);
  options.csv.drop_last = 0;
  if (format == FileFormat::csv) options.csv.kept = {{2, 3}, {1, 1}};
  read_once(file, options);
  return answer;
}

// --- Descriptions of data --------------------------------------------------------------------

inline constexpr std::int64_t kMaxCoordinates = 4096;
/// Placing a million separated centres is possible, and takes longer than the fuzzer waits.
inline constexpr std::int64_t kMaxCentres = 100'000;

/// The product of sizes that are checked already.
inline bool small(std::int64_t n, std::int64_t d) {
  return n <= kMaxCoordinates && d <= kMaxCoordinates && n * d <= kMaxCoordinates;
}

inline Answer read_dataset(std::string_view text) {
  try {
    const JsonDocument document = parse_json(std::string(text), "fuzz.json");
    const DatasetSpec spec = parse_dataset(document.value);
    require(!spec.label().empty(), "a data set without a label");
    require(parse_dataset(spec.json).json == spec.json, "completing it twice changes it");
    const auto n = spec.json.value("n", std::int64_t{0});
    const auto d = spec.json.value("d", std::int64_t{0});
    if (!spec.json.contains("generator") || n < 1 || d < 1 || !small(n, d)) return Answer::read;
    if (spec.json.value("k", std::int64_t{1}) > kMaxCentres) return Answer::read;
    const Points points = generate(spec, ScalarType::f64);
    require(points.n() == n && points.d() == d, "generated another shape");
    look_at<double>(points, true);
    look_at<float>(generate(spec, ScalarType::f32), true);
    return Answer::read;
  } catch (const InputError& error) {
    return refused(error);
  }
}

inline Answer read_init(std::string_view text) {
  static const std::vector<double> coordinates{0, 0, 1, 0, 0, 1, 5, 5, 5, 6, 6, 5};
  static const Points points = make_points(coordinates.data(), 6, 2);
  Answer answer = Answer::refused;
  try {
    const InitSpec init = parse_init(std::string(text));
    answer = Answer::read;
    if (init.method == InitSpec::Method::file) return answer;  // the readers have targets
    for (const std::int64_t k : {1, 3, 7}) {
      try {
        const Points centroids = initial_centroids(points, k, init);
        require(centroids.n() == k && centroids.d() == 2, "other centroids than asked");
        look_at<double>(centroids, true);
      } catch (const InputError& error) {
        refused(error);
      }
    }
  } catch (const InputError& error) {
    return refused(error);
  }
  return answer;
}

// --- Experiments -----------------------------------------------------------------------------

/// A plan grows with the square of what the fuzzer finds; this many shapes show all there is.
inline constexpr std::size_t kMaxShapes = 32;

inline void check_plan(const Experiment& experiment, const std::string& scale) {
  PlanOptions options;
  options.scale = scale;
  options.threads = 2;
  options.memory_bytes = 1e9;
  options.device_memory_bytes = 1e9;
  options.size_of_file = [](const DatasetSpec&) {
    return std::pair<std::int64_t, std::int64_t>{1000, 3};
  };
  try {
    const Plan plan = plan_experiment(experiment, options);
    std::set<std::string> keys;
    for (const auto& cell : plan.cells) {
      require(keys.insert(cell.key.text()).second, "two cells of one key: " + cell.key.text());
      require(!cell.skip_reason.empty() || find_variant(cell.key.variant) != nullptr,
              "a cell would run without a variant: " + cell.key.text());
      require(cell.key.iterations >= 1 && cell.key.threads >= 1,
              "nothing to do: " + cell.key.text());
      require(!cell.skip_reason.empty() || cell.task.shape.k <= cell.task.shape.n,
              "more clusters than points: " + cell.key.text());
    }
  } catch (const InputError& error) {
    refused(error);
  }
}

inline Answer read_experiment(std::string_view text) {
  Experiment experiment;
  try {
    experiment = parse_experiment(parse_json(std::string(text), "fuzz.json"));
  } catch (const InputError& error) {
    return refused(error, "fuzz.json");
  }
  for (const auto& [name, scale] : experiment.scales) {
    require(!scale.shapes.empty() && !scale.variants.empty(), "an empty sweep was let through");
    if (scale.shapes.size() <= kMaxShapes && scale.variants.size() <= kMaxShapes) {
      check_plan(experiment, name);
    }
  }
  return Answer::read;
}

// --- Results ---------------------------------------------------------------------------------

/// Results next to themselves differ in nothing.
inline void compare_with_itself(const ResultFile& result) {
  try {
    const Comparison comparison = compare_results({result}, "fuzz", {result}, "fuzz", {});
    require(comparison.cells.size() == result.cells.size(), "a cell was not compared");
    require(comparison.count(CellVerdict::faster) + comparison.count(CellVerdict::slower) == 0,
            "faster or slower than itself");
    require(comparison.missing.empty() && comparison.added.empty(), "a cell misses itself");
    require(comparison.correctness_regressions() == 0, "not as right as itself");
    static_cast<void>(presentable(to_json(comparison)).dump());
    const std::string text = to_text(comparison, true);
    require(valid_utf8(text) == text, "the comparison's text is not UTF-8");
    constexpr std::size_t kLimit = 4000;
    const std::string markdown = to_markdown(comparison, true, kLimit, "the file");
    require(markdown.size() <= kLimit, "the Markdown is longer than allowed");
    require(valid_utf8(markdown) == markdown, "the Markdown is not UTF-8");
  } catch (const InputError& error) {
    refused(error);
  }
}

inline void export_in_all_forms(const ResultFile& result) {
  for (const auto& name : export_format_names()) {
    try {
      const Export exported = export_results({result}, parse_export_format(name), "");
      require(valid_utf8(exported.text) == exported.text, name + " is not UTF-8");
      require(name == "csv" || json::accept(exported.text), name + " is no JSON");
    } catch (const InputError& error) {
      refused(error);
    }
  }
}

/// The file without what is formed from its samples. A changed number contradicts the others, and
/// behind that nothing of the readers would be tried.
inline std::string without_statistics(std::string_view text) {
  json file = parse_json(std::string(text), "fuzz.json").value;
  const json::json_pointer cells("/cells");
  if (!file.is_object() || !file.contains(cells) || !file.at(cells).is_array()) return file.dump();
  for (json& cell : file.at(cells)) {
    if (!cell.is_object()) continue;
    for (const char* key : {"gflops", "gflops_2nkd", "gbytes_per_second", "whole_call_seconds",
                            "processes", "repetitions", "stages"}) {
      cell.erase(key);
    }
    const json samples = cell.value("samples_seconds_per_iteration", json());
    try {
      const auto times = samples.get<std::vector<std::vector<double>>>();
      const bool whole =
          !times.empty() &&
          std::none_of(times.begin(), times.end(), [](const auto& one) { return one.empty(); });
      if (whole) cell["seconds_per_iteration"] = summarise_processes(times);
    } catch (const json::exception&) {  // no times: to be refused as it is
    }
  }
  return presentable(file).dump();
}

inline ResultFile parse_result(std::string_view text) {
  try {
    return parse_result_file(std::string(text), "fuzz.json");
  } catch (const InputError& error) {
    refused(error, "fuzz.json");
    return parse_result_file(without_statistics(text), "fuzz.json");
  }
}

inline Answer read_result(std::string_view text) {
  try {
    const ResultFile result = parse_result(text);
    std::set<std::string> keys;
    for (const auto& cell : result.cells) {
      require(keys.insert(cell.key.text()).second, "two cells of one key: " + cell.key.text());
      const bool timed = cell.status == "ok";
      require(timed == !cell.samples.empty(), "times without \"ok\", or none with it");
      for (const auto& process : cell.samples) {
        for (const double sample : process) {
          require(std::isfinite(sample) && sample > 0, "a sample that is not a duration");
        }
      }
    }
    compare_with_itself(result);
    export_in_all_forms(result);
    return Answer::read;
  } catch (const InputError& error) {
    return refused(error, "fuzz.json");
  }
}

// --- The journal -----------------------------------------------------------------------------

/// A file of this process alone, in memory where the machine has such a place.
class ScratchFile {
 public:
  ScratchFile() {
    const std::filesystem::path memory = "/dev/shm";
    const auto folder =
        ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    path_ = folder / ("kmeans-fuzz-" + std::to_string(::getpid()) + ".journal.jsonl");
  }
  ~ScratchFile() { std::remove(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void write(std::string_view text) const {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    require(file != nullptr, "no place for a journal: " + path_.string());
    const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    require(std::fclose(file) == 0 && whole, "cannot write " + path_.string());
  }

 private:
  std::filesystem::path path_;
};

inline Cell some_cell() {
  Cell cell;
  cell.key = {"reference", "uniform-100x2-s1", {100, 2, 3, Precision::f32}, 1, 1};
  cell.backend = "cpu";
  cell.task.label = cell.key.dataset;
  cell.task.init = "first";
  cell.task.shape = cell.key.shape;
  return cell;
}

inline bool same(const JournalContent& a, const JournalContent& b) {
  if (a.header != b.header || a.run_order != b.run_order || a.traces != b.traces ||
      a.studies != b.studies || a.fits != b.fits || a.datasets != b.datasets ||
      a.processes.size() != b.processes.size()) {
    return false;
  }
  return std::equal(a.processes.begin(), a.processes.end(), b.processes.begin(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first &&
                             to_line(to_json(x.second)) == to_line(to_json(y.second));
                    });
}

/// Whole lines get the checksum that the program would have given them: behind a wrong one nothing
/// of the reader would be tried.
inline std::string sealed_lines(std::string_view text) {
  std::string sealed;
  while (!text.empty()) {
    const auto end = text.find('\n');
    sealed += end == std::string_view::npos ? std::string(text)
                                            : sealed_line(std::string(text.substr(0, end))) + "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return sealed;
}

/// A run that finds such a journal must resume from it, lose nothing, and come to a result.
inline Answer read_journal(std::string_view text) {
  static const ScratchFile file;
  file.write(sealed_lines(text));
  JournalContent content;
  try {
    content = Journal(file.path(), true).content();
  } catch (const InputError& error) {
    return refused(error, file.path().string());
  }
  {
    Journal resumed(file.path(), true);
    require(same(content, resumed.content()), "a second run finds something else");
    resumed.append(Part::study, "fuzz, after all others", {{"status", "ok"}});
  }
  content.studies["fuzz, after all others"] = {{"status", "ok"}};
  require(same(content, Journal(file.path(), true).content()), "a line was lost or doubled");

  std::map<std::string, CellEvidence> evidence;
  for (const auto& [key, record] : content.processes) {
    evidence[key.first].processes.push_back(&record);
  }
  for (const auto& [key, processes] : evidence) {
    const Cell cell = some_cell();
    decide_sampling(cell.sampling, cell.key.iterations, *processes.processes.front());
    const json assembled = assemble_cell("fuzz", cell, processes, {});
    require(assembled.at("status") == "ok" || assembled.at("seconds_per_iteration").is_null(),
            "a cell that is not ok has a time: " + key);
  }
  PlannedTrace trace;
  trace.task.shape = some_cell().task.shape;
  for (const auto& [name, recorded] : content.traces) assemble_trace(trace, recorded);
  PlannedStudy study;
  study.spec.study = all_studies().front().name;
  for (const auto& [name, recorded] : content.studies) assemble_study(study, recorded);
  PlannedFit fit;
  fit.task.shape = some_cell().task.shape;
  for (const auto& [name, recorded] : content.fits) assemble_fit(fit, recorded);
  return Answer::read;
}

}  // namespace detail

/// All targets, file formats first.
inline const std::vector<Target>& all_targets() {
  using namespace detail;
  static const std::vector<Target> targets{
      {"npy", read_file<FileFormat::npy>},
      {"csv", read_file<FileFormat::csv>},
      {"fvecs", read_file<FileFormat::fvecs>},
      {"bvecs", read_file<FileFormat::bvecs>},
      {"fbin", read_file<FileFormat::fbin>},
      {"idx", read_file<FileFormat::idx>},
      {"libsvm", read_file<FileFormat::libsvm>},
      {"automatic", read_file<FileFormat::automatic>},
      {"dataset", read_dataset},
      {"init", read_init},
      {"experiment", read_experiment},
      {"result", read_result},
      {"journal", read_journal},
  };
  return targets;
}

/// The target of that name, or null.
inline const Target* find_target(std::string_view name) {
  const auto found = std::find_if(all_targets().begin(), all_targets().end(),
                                  [&](const Target& target) { return target.name == name; });
  return found == all_targets().end() ? nullptr : &*found;
}

}  // namespace kmeans::fuzz
