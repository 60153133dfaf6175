// SPDX-License-Identifier: Apache-2.0
#include "datasets/scikit_learn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <system_error>

#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"

extern char** environ;

namespace kmeans {
namespace {

std::string python_program() {
  if (const char* chosen = std::getenv("KMEANS_BENCH_PYTHON"); chosen && *chosen != '\0') {
    return chosen;
  }
  const std::string own = source_root() + "/.venv/bin/python";
  return access(own.c_str(), X_OK) == 0 ? own : "python3";
}

[[noreturn]] void fail(const std::string& python, const std::string& why) {
  throw EnvironmentError(
      "the zhihu2023 data set is made by scikit-learn, and " + python + " could not: " + why +
      ". `make setup` provides the project's Python environment; or set KMEANS_BENCH_PYTHON to an "
      "interpreter that has scikit-learn (about 3 GB of free memory are needed once)");
}

// All of a pipe, of which the end is kept.
std::string read_tail(int descriptor) {
  constexpr std::size_t kKept = 2000;
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto got = read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > 2 * kKept) text.erase(0, text.size() - kKept);
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

void make_zhihu2023(const std::filesystem::path& out) {
  const std::string python = python_program();
  const std::string script = require_source_root() + "/datasets/make_zhihu2023.py";
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(python, "no pipe: " + std::generic_category().message(errno));
  }
  std::string program = python;
  std::string script_argument = script;
  std::string option = "--out";
  std::string path = out.string();
  std::array<char*, 5> arguments{program.data(), script_argument.data(), option.data(), path.data(),
                                 nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    fail(python, std::generic_category().message(error));
  }
  const std::string said = read_tail(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    fail(python, "it was ended by signal " + std::to_string(signal) +
                     (signal == SIGKILL ? " (out of memory?)" : ""));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail(python, valid_utf8(said.substr(said.find_last_of('\n') + 1)));
  }
}

}  // namespace kmeans
