// SPDX-License-Identifier: Apache-2.0
//
// A folder and a variable of the environment, for the time of a test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "harness/support/temporary_folder.h"

namespace kmeans::test {

/// With files of a test's own.
class TemporaryFolder : public kmeans::TemporaryFolder {
 public:
  TemporaryFolder() : kmeans::TemporaryFolder("test") {}

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path() / name, std::ios::binary) << content;
    return path() / name;
  }
};

/// Sets or removes a variable, and puts the old state back.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::optional<std::string>& value)
      : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old;
    assign(value);
  }
  ~ScopedVariable() { assign(old_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void assign(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  std::string name_;
  std::optional<std::string> old_;
};

}  // namespace kmeans::test
