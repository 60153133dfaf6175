// SPDX-License-Identifier: Apache-2.0
#include "harness/run/machine_folder.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "harness/machine/machine.h"
#include "harness/support/build_info.h"

namespace kmeans {
namespace {

/// To read all of them as JSON would take a second.
bool is_of_machine(const std::filesystem::path& file, const std::string& id) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str().find("\"id\": \"" + id + "\"") != std::string::npos;
}

std::vector<std::filesystem::path> inside(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> all;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

std::vector<std::filesystem::path> results_of_machine(const std::filesystem::path& results,
                                                      const std::string& id) {
  std::error_code ignored;
  if (std::filesystem::is_directory(results / id, ignored)) return {results / id};
  std::vector<std::filesystem::path> most;
  for (const auto& folder : inside(results)) {
    auto files = inside(folder);
    std::erase_if(files, [&](const auto& file) {
      return file.extension() != ".json" || !is_of_machine(file, id);
    });
    if (files.size() > most.size()) most = std::move(files);
  }
  return most;
}

std::vector<std::filesystem::path> results_of_this_machine() {
  return results_of_machine(std::filesystem::path(require_source_root()) / "results", machine_id());
}

std::vector<ResultFile> load_all_results(
    const std::vector<std::filesystem::path>& files_or_folders) {
  std::vector<ResultFile> all;
  for (const auto& one : files_or_folders) {
    auto loaded = load_results(one);
    std::move(loaded.begin(), loaded.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace kmeans
