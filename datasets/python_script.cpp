// SPDX-License-Identifier: Apache-2.0
#include "datasets/python_script.h"

#include "harness/support/build_info.h"
#include "harness/support/process.h"
#include "harness/support/python_process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr double kTimeoutSeconds = 24 * 3600;  // it reads and computes for minutes

std::string reason_of(const ProcessOutcome& outcome) {
  std::string said = outcome.output;
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  const bool ended = outcome.end == ProcessOutcome::End::exited && !said.empty();
  return ended ? valid_utf8(said.substr(said.find_last_of('\n') + 1)) : outcome.describe();
}

}  // namespace

ScriptOutcome run_python_script(const std::string& name,
                                const std::vector<std::string>& arguments) {
  const std::string script = require_source_root() + "/datasets/" + name;
  const PythonProgram python = find_python_program(source_root());
  if (python.found.empty()) return {valid_utf8(python.sought), "there is no such program", false};
  ProcessRequest request;
  request.command = {python.found, script};
  request.command.insert(request.command.end(), arguments.begin(), arguments.end());
  request.timeout_seconds = kTimeoutSeconds;
  const ProcessOutcome outcome = run_process(request);
  const bool lacks_package =
      outcome.end == ProcessOutcome::End::exited && outcome.code == ScriptOutcome::kLacksPackage;
  return {valid_utf8(python.found), outcome.succeeded() ? "" : reason_of(outcome), lacks_package};
}

}  // namespace kmeans
