// SPDX-License-Identifier: Apache-2.0
#include "datasets/scikit_learn.h"

#include <string>
#include <vector>

#include "datasets/python_script.h"
#include "harness/support/errors.h"

namespace kmeans {

void make_with_scikit_learn(const DatasetSpec& spec, const std::filesystem::path& out) {
  const auto name = spec.json.at("generator").get<std::string>();
  std::vector<std::string> arguments{name, "--out", out.string()};
  if (spec.json.contains("picture")) {
    arguments.insert(arguments.end(), {"--picture", spec.json.at("picture").dump()});
  }
  const ScriptOutcome outcome = run_python_script("make_with_scikit_learn.py", arguments);
  if (outcome.failure.empty()) return;
  throw EnvironmentError(
      "the " + name + " data set is made by scikit-learn, and " + outcome.python +
      " could not: " + outcome.failure +
      ". `make setup` provides the project's Python environment; or set KMEANS_BENCH_PYTHON to an "
      "interpreter that has scikit-learn" +
      (name == "zhihu2023"    ? " (about 3 GB of free memory are needed once)"
       : name == "photograph" ? " and Pillow"
                              : ""));
}

}  // namespace kmeans
