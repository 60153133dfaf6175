// SPDX-License-Identifier: Apache-2.0
//
// What differs between two results before any cell is looked at: machines, builds, conditions, and the
// experiment itself (docs/comparing.md).
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/result_file.h"

namespace kmeans {

/// "threads: 2 in base, 4 in new".
std::string spoken(const std::string& what, const nlohmann::json& base,
                   const nlohmann::json& changed);

/// Sentences on differences, each once.
class Sentences {
 public:
  void add(const std::string& sentence);
  void compare(const std::string& what, const nlohmann::json& base, const nlohmann::json& changed);
  /// Every value under the two, by its place.
  void compare_flat(const std::string& prefix, const nlohmann::json& base,
                    const nlohmann::json& changed);
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::vector<std::string> sentences_;
  std::set<std::string> said_;
};

/// What may differ between two runs that are still comparable, and has to be known.
void list_differences(const ResultFile& base, const ResultFile& changed, Sentences& sentences);

/// The differences of all experiments; those that not all of them share say whose they are.
std::vector<std::string> attributed(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& found);

}  // namespace kmeans
