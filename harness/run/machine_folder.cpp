// SPDX-License-Identifier: Apache-2.0
#include "harness/run/machine_folder.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/machine/machine.h"
#include "harness/support/build_info.h"
#include "harness/support/json_member.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// The machine of a folder's smallest result file, "" where there is none: all files of a folder are of one machine.
std::string machine_of(const std::filesystem::path& folder) {
  std::optional<std::pair<std::uintmax_t, std::filesystem::path>> smallest;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".json") continue;
    const std::pair found{entry.file_size(ignored), entry.path()};
    if (!smallest || found < *smallest) smallest = found;
  }
  if (!smallest) return "";
  std::ifstream stream(smallest->second);
  const json result = json::parse(stream, nullptr, false);
  const json id = member(member(member(result, "context"), "machine"), "id");
  return id.is_string() ? id.get<std::string>() : "";
}

}  // namespace

std::filesystem::path folder_of_machine(const std::filesystem::path& results,
                                        const std::string& id) {
  std::error_code ignored;
  if (std::filesystem::is_directory(results / id, ignored)) return results / id;
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(results, ignored)) {
    if (entry.is_directory(ignored)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  const auto found = std::find_if(folders.begin(), folders.end(),
                                  [&](const auto& folder) { return machine_of(folder) == id; });
  return found != folders.end() ? *found : results / id;
}

std::filesystem::path results_of_this_machine() {
  return folder_of_machine(std::filesystem::path(require_source_root()) / "results", machine_id());
}

}  // namespace kmeans
