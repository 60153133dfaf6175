// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace kmeans {

struct ProcessOutput {
  bool ok = false;       ///< ran, and exited with status 0 within the time limit
  std::string text;      ///< standard output, at most 1 MiB
  std::string problem;   ///< a clause for messages ("exited with status 9"); empty when ok
  bool missing = false;  ///< there is no such program
  bool exited = false;   ///< ended by itself within the time limit
  int status = 0;        ///< with which it exited
};

/// Runs a program found through $PATH, with nothing on standard input and standard error dropped.
/// After the time limit it is killed together with whatever it started.
ProcessOutput capture_output(const std::vector<std::string>& command,
                             const std::vector<std::string>& environment, double timeout_seconds);

}  // namespace kmeans
