// SPDX-License-Identifier: Apache-2.0
#include "harness/run/estimators.h"

#include <algorithm>
#include <filesystem>

#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr const char* kPrefix = "fit_";

std::filesystem::path folder() {
  return std::filesystem::path(source_root()) / "implementations" / "python";
}

}  // namespace

std::vector<std::string> known_estimators() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder(), error)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() == ".py" && stem.rfind(kPrefix, 0) == 0 && stem != "fit_server") {
      names.push_back(stem.substr(std::string(kPrefix).size()));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_estimator_file(const std::string& name) {
  return std::filesystem::path(name).extension() == ".py";
}

std::string require_estimator(const std::string& name) {
  if (is_estimator_file(name)) return name;
  const auto names = known_estimators();
  // Without a source tree there is nothing to compare with: the run then says so.
  if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) return name;
  throw InputError("unknown estimator '" + valid_utf8(name) + "'; " + closest_names(name, names) +
                   " (or give the path of a .py file)");
}

std::string estimator_file(const std::string& name) {
  return is_estimator_file(name) ? name : (folder() / (kPrefix + name + ".py")).string();
}

std::string estimator_name(const std::string& name) {
  return is_estimator_file(name) ? std::filesystem::path(name).stem().string() : name;
}

}  // namespace kmeans
