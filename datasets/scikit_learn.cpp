// SPDX-License-Identifier: Apache-2.0
#include "datasets/scikit_learn.h"

#include <string>

#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/support/python_process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr double kTimeoutSeconds = 24 * 3600;  // it reads and computes for minutes

/// Why the program failed: the last thing that it said, else how it ended.
std::string reason_of(const ProcessOutcome& outcome) {
  std::string said = outcome.output;
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  const bool ended = outcome.end == ProcessOutcome::End::exited && !said.empty();
  return ended ? valid_utf8(said.substr(said.find_last_of('\n') + 1)) : outcome.describe();
}

}  // namespace

void make_zhihu2023(const std::filesystem::path& out) {
  const std::string script = require_source_root() + "/datasets/make_zhihu2023.py";
  const PythonProgram python = find_python_program(source_root());
  ProcessRequest request;
  request.command = {python.found, script, "--out", out.string()};
  request.timeout_seconds = kTimeoutSeconds;
  std::string why = "there is no such program";
  if (!python.found.empty()) {
    const ProcessOutcome outcome = run_process(request);
    if (outcome.succeeded()) return;
    why = reason_of(outcome);
  }
  throw EnvironmentError(
      "the zhihu2023 data set is made by scikit-learn, and " +
      valid_utf8(python.found.empty() ? python.sought : python.found) + " could not: " + why +
      ". `make setup` provides the project's Python environment; or set KMEANS_BENCH_PYTHON to an "
      "interpreter that has scikit-learn (about 3 GB of free memory are needed once)");
}

}  // namespace kmeans
