// SPDX-License-Identifier: Apache-2.0
//
// Environment variables that change how fast or how exactly a library computes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/support/process.h"

namespace kmeans {

struct EnvironmentReport {
  nlohmann::json variables = nlohmann::json::object();  ///< name -> value, allow-listed names only
  std::vector<std::string> warnings;                    ///< sentences
  std::vector<std::string> crippling;  ///< names of the variables that hold a baseline back
  /// How OpenMP threads of workers wait for each other: "passive", asleep; "default", as their
  /// runtime likes, which spins; "set", as a variable of the user's says.
  std::string waiting = "default";
};

/// How they should wait where other work shares the cores, or not: a thread that spins at a barrier
/// keeps the core that another thread of the team is waiting for (docs/openmp.md). What the user
/// has set wins.
std::string suitable_waiting(const EnvironmentReport& report, bool cores_are_shared);

/// The same program with the same arguments, in this process. Returns where it cannot be started.
void start_again(char** arguments);

/// Lets OpenMP threads of this process spin for about 0.05 ms at a barrier before they sleep, unless a
/// variable says how they wait. The runtime reads that as it is loaded, so the program restarts with
/// the same arguments; call it first in main(). Where it cannot restart, it goes on as it is.
void wait_briefly(char** arguments);

/// Looks at this process's environment. Paths inside values are shortened to their last part.
EnvironmentReport inspect_environment();

/// What workers see of the recorded variables, name -> value: without those that are set or removed
/// for each worker, and those that only name places or the machine.
nlohmann::json lasting_environment(const EnvironmentReport& report, bool keep);

/// What to change for a worker process: the thread counts of every numerical library become
/// `threads`, and crippling variables are removed. With `keep`, whatever the user has set stays,
/// and only thread counts that are not set are added.
EnvironmentChanges worker_environment(const EnvironmentReport& report, int threads, bool keep);

/// The `context.environment` of a result file: {variables, neutralised, warnings}; `neutralised`
/// holds the names of variables that were set and that `changes` removes or gives another value.
nlohmann::json environment_context(const EnvironmentReport& report,
                                   const EnvironmentChanges& changes);

}  // namespace kmeans
