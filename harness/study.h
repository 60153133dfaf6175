// SPDX-License-Identifier: Apache-2.0
//
// Studies: questions about arithmetic, or about code as a source prints it, that no timed cell
// answers. How many labels does TF32 change? What does a float sum of a million distances lose? A
// study is one file of experiments/studies/; experiments name it under "studies", the harness gives
// it data, and its rows go into the result file, where figures and claims find them.
//
// A study must give the same rows on every run and machine, times aside; it keeps to `threads`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kmeans {

struct StudyInput {
  nlohmann::json parameters = nlohmann::json::object();  ///< As the experiment gives them.
  std::int64_t n = 0;                                    ///< 0: the experiment gives no data.
  std::int64_t d = 0;
  std::int64_t k = 0;
  const float* points = nullptr;     ///< n x d, row-major; null without data.
  const float* centroids = nullptr;  ///< k x d, the first centroids; null without data.
  std::string points_file;           ///< Where the points are mapped from, for Problem.
  int threads = 1;
};

struct StudyOutput {
  /// Flat objects: values are numbers, strings, booleans or null. All rows should have the same
  /// keys.
  std::vector<nlohmann::json> rows;
  /// One flat object: the few numbers that answer the question, by name.
  nlohmann::json findings = nlohmann::json::object();
  /// What else a reader has to know: arithmetics left out here and why, for example.
  std::vector<std::string> notes;
  /// Keys of the rows that differ from run to run: times, and ratios to a library's answer. Where a row
  /// names a `library`, all of its values are that library's.
  std::vector<std::string> varying;
  /// Why the outcome contradicts what must hold (a count off the model's); empty if all is well.
  std::string wrong;
};

struct Study {
  std::string name;     ///< Lower case with underscores; its file's stem.
  std::string summary;  ///< One line: the question.
  std::string source;   ///< Id of the source it is about; empty for none.
  bool needs_data = false;
  /// Throws InputError for parameters that are missing or out of range.
  StudyOutput (*run)(const StudyInput&) = nullptr;
};

/// All studies linked into this program, by name.
const std::vector<Study>& all_studies();

/// Throws InputError naming the closest known names.
const Study& require_study(std::string_view name);

namespace detail {
struct StudyRegistration {
  explicit StudyRegistration(Study study);
};
}  // namespace detail

}  // namespace kmeans

/// At the end of a study's file: KMEANS_STUDY(.name = "float_loss", .summary = "...", .run = run);
#define KMEANS_STUDY(...)                                                      \
  static const ::kmeans::detail::StudyRegistration kmeans_study_registration { \
    ::kmeans::Study { __VA_ARGS__ }                                            \
  }
