// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "harness/support/errors.h"

namespace kmeans {

/// A folder of its own where temporary files lie, removed with all that is in it.
class TemporaryFolder {
 public:
  /// `purpose` is part of its name.
  explicit TemporaryFolder(const std::string& purpose) {
    const auto root = std::filesystem::temp_directory_path();
    std::string name = (root / ("kmeans-" + purpose + "-XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr) {
      throw EnvironmentError(name + ": a temporary folder cannot be created");
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kmeans
