// SPDX-License-Identifier: Apache-2.0
#include "harness/record/wrong_elsewhere.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace kmeans {
namespace {

constexpr const char* kBeginning = "the variant is wrong at ";

}  // namespace

void mark_wrong_elsewhere(nlohmann::json& cells) {
  std::map<std::string, std::vector<std::string>> wrong;
  for (const auto& cell : cells) {
    if (cell.at("status") == "wrong") wrong[cell.at("variant")].push_back(cell.at("key"));
  }
  for (auto& cell : cells) {
    auto& noted = cell.at("noted");
    noted.erase(std::remove_if(noted.begin(), noted.end(),
                               [](const nlohmann::json& sentence) {
                                 return sentence.get<std::string>().rfind(kBeginning, 0) == 0;
                               }),
                noted.end());
    const auto found = wrong.find(cell.at("variant"));
    if (cell.at("status") != "ok" || found == wrong.end()) continue;
    const std::size_t others = found->second.size() - 1;
    noted.push_back(kBeginning + found->second.front() +
                    (others > 0 ? " and in " + std::to_string(others) + " more" : "") +
                    " in this run");
  }
}

}  // namespace kmeans
