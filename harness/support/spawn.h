// SPDX-License-Identifier: Apache-2.0
//
// Starts a program that needs no preparation between fork and exec; who needs some: process.cpp,
// python_process.cpp.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace kmeans {

/// As exec() takes arguments and environment, null at the end. The strings have to stay.
std::vector<char*> exec_pointers(const std::vector<std::string>& strings);

struct SpawnRequest {
  std::vector<std::string> command;
  const std::vector<std::string>* environment = nullptr;  ///< This process's own where null.
  int input = -1;                    ///< A descriptor; nothing to read where there is none.
  int output = -1;                   ///< A descriptor.
  std::string errors = "/dev/null";  ///< A file for standard error, which is begun again.
  bool in_path = false;              ///< The program is looked for in $PATH.
  bool own_group = false;            ///< In a process group of its own, with no signal blocked.
};

/// 0 and the child's number, or what errno would be.
int spawn(const SpawnRequest& request, pid_t& process);

}  // namespace kmeans
