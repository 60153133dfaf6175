// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace kmeans {

struct ScriptOutcome {
  std::string python;   ///< The interpreter that ran it, or was looked for.
  std::string failure;  ///< Empty: it succeeded. Else the last thing that it said, or how it ended.
  /// It failed since a package is not there, as the scripts say by this exit status.
  bool lacks_package = false;
  static constexpr int kLacksPackage = 3;
};

/// Runs datasets/NAME with the project's Python ($KMEANS_BENCH_PYTHON, else the source tree's .venv,
/// else python3).
ScriptOutcome run_python_script(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace kmeans
