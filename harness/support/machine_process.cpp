// SPDX-License-Identifier: Apache-2.0
#include "harness/support/machine_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "harness/support/spawn.h"

namespace kmeans {
namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;

using Clock = std::chrono::steady_clock;

int milliseconds_until(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

/// Reads to the end of the pipe; false if the deadline came first.
bool drain(int pipe, Clock::time_point deadline, std::string& text) {
  char buffer[4096];
  while (true) {
    pollfd waiting{pipe, POLLIN, 0};
    const int ready = poll(&waiting, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = read(pipe, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const auto room = kMaxOutput - text.size();
    text.append(buffer, std::min(static_cast<std::size_t>(got), room));
  }
}

/// Waits for the exit of the child; false if the deadline came first.
bool reap(pid_t child, Clock::time_point deadline, int& status) {
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) {
      status = 0;  // Somebody else collected it: its output is all that can be judged.
      return true;
    }
    if (Clock::now() >= deadline) return false;
    usleep(1000);
  }
}

}  // namespace

ProcessOutput capture_output(const std::vector<std::string>& command,
                             const std::vector<std::string>& environment, double timeout_seconds) {
  ProcessOutput output;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_seconds));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    output.problem = std::string("could not be started: ") + std::strerror(errno);
    return output;
  }

  SpawnRequest request{.command = command, .environment = &environment, .output = ends[1]};
  request.in_path = true;
  request.own_group = true;
  pid_t child = 0;
  const int error = spawn(request, child);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    output.missing = error == ENOENT;
    output.problem = std::string("could not be started: ") + std::strerror(error);
    return output;
  }

  int status = 0;
  const bool in_time = drain(ends[0], deadline, output.text) && reap(child, deadline, status);
  close(ends[0]);
  if (!in_time) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    output.problem =
        "did not end within " + std::to_string(static_cast<int>(timeout_seconds + 0.999)) + " s";
  } else if (WIFSIGNALED(status)) {
    output.problem = "was ended by signal " + std::to_string(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    output.problem = "exited with status " + std::to_string(WEXITSTATUS(status));
    output.exited = true;
    output.status = WEXITSTATUS(status);
  } else {
    output.exited = true;
    output.ok = true;
  }
  return output;
}

}  // namespace kmeans
