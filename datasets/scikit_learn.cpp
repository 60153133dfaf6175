// SPDX-License-Identifier: Apache-2.0
#include "datasets/scikit_learn.h"

#include "datasets/python_script.h"
#include "harness/support/errors.h"

namespace kmeans {

void make_zhihu2023(const std::filesystem::path& out) {
  const ScriptOutcome outcome = run_python_script("make_zhihu2023.py", {"--out", out.string()});
  if (outcome.failure.empty()) return;
  throw EnvironmentError(
      "the zhihu2023 data set is made by scikit-learn, and " + outcome.python +
      " could not: " + outcome.failure +
      ". `make setup` provides the project's Python environment; or set KMEANS_BENCH_PYTHON to an "
      "interpreter that has scikit-learn (about 3 GB of free memory are needed once)");
}

}  // namespace kmeans
