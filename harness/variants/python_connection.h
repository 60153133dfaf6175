// SPDX-License-Identifier: Apache-2.0
//
// A Python process that serves: one question, one answer, each a line of JSON over a socket.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/support/python_process.h"

namespace kmeans {

/// The process gave no answer in the time that it had, and was ended.
class NoAnswerInTime : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PythonConnection {
 public:
  /// Starts `arguments`, to which "--control FD" is added: the socket. `inherited` descriptors stay open
  /// in it. `name` begins messages. The process is killed with this object. Throws std::runtime_error.
  PythonConnection(std::string name, std::vector<std::string> arguments,
                   std::vector<int> inherited);

  /// Sends {"command": command, ...} and returns the answer. Throws std::runtime_error: an exception in
  /// Python with its type, message and line, or how the process died; NoAnswerInTime after so many seconds,
  /// where that is not 0.
  nlohmann::json call(const std::string& command, nlohmann::json request = nlohmann::json::object(),
                      double timeout_seconds = 0);

 private:
  bool send_line(std::string text);
  bool receive_line(double timeout_seconds);

  std::string name_;
  FileDescriptor socket_;
  std::unique_ptr<ChildProcess> process_;
  std::string line_;
};

}  // namespace kmeans
