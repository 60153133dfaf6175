// SPDX-License-Identifier: Apache-2.0
#include "harness/run/drawn_keys.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "harness/machine/environment.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
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

/// What plots/check.py found, a line each: ["FILE", "/pointer", "reason"].
std::string placed(const std::string& lines, const std::vector<const Experiment*>& experiments) {
  std::istringstream stream(lines);
  std::string text;
  for (std::string line; std::getline(stream, line);) {
    const auto fault = parse_json(line, "plots/check.py").value;
    const auto [file, pointer, reason] = fault.get<std::array<std::string, 3>>();
    const auto experiment =
        std::find_if(experiments.begin(), experiments.end(),
                     [&](const Experiment* one) { return one->document.source == file; });
    const bool is_placed = experiment != experiments.end() && !pointer.empty();
    text += text.empty() ? "" : "\n";
    if (is_placed) text += (*experiment)->document.where(pointer) + ": " + pointer + ": ";
    text += reason;
  }
  return text;
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
  if (output.status == kFaultsFound && !text.empty()) throw InputError(placed(text, experiments));
  return text.empty() ? python.interpreter + " " + output.problem : text;
}

}  // namespace kmeans
