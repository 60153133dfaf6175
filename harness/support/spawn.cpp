// SPDX-License-Identifier: Apache-2.0
#include "harness/support/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

namespace kmeans {

std::vector<char*> exec_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  // exec() takes pointers to char for historical reasons only: it never writes through them.
  for (const auto& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int spawn(const SpawnRequest& request, pid_t& process) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  if (request.input < 0) {
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  } else {
    ::posix_spawn_file_actions_adddup2(&files, request.input, STDIN_FILENO);
  }
  ::posix_spawn_file_actions_adddup2(&files, request.output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, request.errors.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  if (request.own_group) {
    sigset_t no_signals;
    sigemptyset(&no_signals);
    ::posix_spawnattr_setsigmask(&attributes, &no_signals);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  }
  const auto arguments = exec_pointers(request.command);
  std::vector<char*> own;
  if (request.environment != nullptr) own = exec_pointers(*request.environment);
  char* const* variables = request.environment != nullptr ? own.data() : environ;
  const auto start = request.in_path ? ::posix_spawnp : ::posix_spawn;
  const int error =
      start(&process, arguments.front(), &files, &attributes, arguments.data(), variables);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace kmeans
