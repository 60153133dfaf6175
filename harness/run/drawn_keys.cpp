// SPDX-License-Identifier: Apache-2.0
#include "harness/run/drawn_keys.h"

#include "harness/machine/environment.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/machine_process.h"
#include "harness/support/text.h"
#include "harness/variants/python_backend.h"

namespace kmeans {
namespace {

constexpr double kTimeoutSeconds = 60;
constexpr int kFaultsFound = 2;  // of plots/check.py

// The suite's package, whatever lies in the folder where the command was given.
constexpr const char* kProgram =
    "import sys; sys.path[0] = sys.argv.pop(1); from plots.check import main; sys.exit(main())";

bool is_drawn(const Experiment& experiment) {
  const auto& value = experiment.document.value;
  return value.contains("published") || value.contains("claims") || value.contains("figures");
}

}  // namespace

std::string check_drawn_keys(const std::vector<const Experiment*>& experiments) {
  const PythonLocation python = find_python();
  std::vector<std::string> command{python.interpreter, "-B", "-c", kProgram, source_root()};
  const auto arguments = command.size();
  for (const Experiment* one : experiments) {
    if (is_drawn(*one)) command.push_back(one->document.source);
  }
  if (command.size() == arguments) return "";
  if (python.interpreter.empty()) return python.missing;
  const auto output = capture_output(command, changed_environment({}), kTimeoutSeconds);
  if (output.ok) return "";
  std::string text = valid_utf8(output.text);
  text.erase(text.find_last_not_of('\n') + 1);
  if (output.status == kFaultsFound && !text.empty()) throw InputError(text);
  return text.empty() ? python.interpreter + " " + output.problem : text;
}

}  // namespace kmeans
