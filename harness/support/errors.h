// SPDX-License-Identifier: Apache-2.0
//
// Errors that end a command, with the exit code each one leads to.
#pragma once

#include <stdexcept>
#include <string>

namespace kmeans {

enum ExitCode : int {
  kExitOk = 0,
  kExitGateFailed = 1,
  kExitBadInput = 2,
  kExitUnusableEnvironment = 3,
  kExitCellsFailed = 4,
  kExitOutputFailed = 5,
  kExitUndecided = 6,
  kExitInterrupted = 130,
};

/// Base of errors whose text is meant for the user: what is wrong, where, what would be right.
class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// The user's file, option or experiment is wrong.
class InputError : public UserError {
 public:
  explicit InputError(const std::string& message) : UserError(kExitBadInput, message) {}
};

/// Something that the machine lacks.
class EnvironmentError : public UserError {
 public:
  explicit EnvironmentError(const std::string& message)
      : UserError(kExitUnusableEnvironment, message) {}
};

/// A result could not be written.
class OutputError : public UserError {
 public:
  explicit OutputError(const std::string& message) : UserError(kExitOutputFailed, message) {}
};

}  // namespace kmeans
