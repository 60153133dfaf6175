// SPDX-License-Identifier: Apache-2.0
//
// Runs one program to its end, with a time limit, captured output and no way to outlive us.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kmeans {

/// While it lives, SIGINT and SIGTERM are noted instead of ending the program, and SIGPIPE is
/// ignored. A second signal ends the program at once. At most one may live at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Has a signal arrived? False when no guard lives.
  [[nodiscard]] static bool interrupted();
  /// Becomes readable when a signal arrives, or -1 when no guard lives.
  [[nodiscard]] static int descriptor();
};

/// This process's environment. Of a name that stands there twice, the first.
std::map<std::string, std::string> current_environment();

/// Name and new value, or nothing for "remove it".
using EnvironmentChanges = std::vector<std::pair<std::string, std::optional<std::string>>>;

/// This process's environment after the changes, as "NAME=value".
std::vector<std::string> changed_environment(const EnvironmentChanges& changes);

struct ProcessRequest {
  std::vector<std::string> command;  ///< Program (a path, not looked up) and arguments.
  EnvironmentChanges environment;
  double timeout_seconds = 300;
  std::size_t kept_output = std::size_t{64} << 10;  ///< The tail of stdout and stderr together.
  /// Asked about twice a second with the output that is kept so far: false ends the program as the
  /// time-out does.
  std::function<bool(const std::string& output)> goes_on{};
};

struct ProcessOutcome {
  enum class End { exited, signalled, timed_out, interrupted, not_started } end = End::not_started;
  int code = 0;  ///< Exit status, signal number, or errno of a failed start.
  double seconds = 0;
  double limit_seconds = 0;  ///< The time-out it ran under.
  std::string output;

  [[nodiscard]] bool succeeded() const { return end == End::exited && code == 0; }
  /// "killed by SIGSEGV", "exit status 3", "timeout after 300 s", ...
  [[nodiscard]] std::string describe() const;
};

/// Runs the program in a session of its own and waits. On time-out or interruption the whole
/// session's process group gets SIGTERM, then SIGKILL. When the calling process dies, the program
/// is killed by the kernel. What the program started and left behind is ended with it, in a session
/// of its own too (where the kernel lists children; the calling process then adopts orphans for
/// good). Never throws.
ProcessOutcome run_process(const ProcessRequest& request);

/// The last `bytes` of a program's output, fit for a report: valid UTF-8, control characters
/// spelled out.
std::string readable_tail(const std::string& output, std::size_t bytes);

}  // namespace kmeans
