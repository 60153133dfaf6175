// SPDX-License-Identifier: Apache-2.0
//
// Replays the fuzz corpus, without clang: every file through every target of tests/fuzz/targets.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace kmeans {
namespace {

struct Input {
  std::string folder;  ///< The target it was made for.
  std::filesystem::path file;
  std::string text;
};

std::vector<Input> corpus() {
  const std::filesystem::path root =
      std::filesystem::path(KMEANS_SOURCE_DIR) / "tests" / "fuzz" / "corpus";
  std::vector<Input> inputs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    inputs.push_back({entry.path().parent_path().filename().string(),
                      entry.path(),
                      {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()}});
  }
  std::sort(inputs.begin(), inputs.end(),
            [](const Input& a, const Input& b) { return a.file < b.file; });
  return inputs;
}

TEST(FuzzCorpus, EveryTargetReadsOrRefusesEveryFile) {
  const auto inputs = corpus();
  for (const auto& target : fuzz::all_targets()) {
    std::map<fuzz::Answer, int> own;
    for (const auto& input : inputs) {
      try {
        const auto answer = target.run(input.text);
        if (input.folder == target.name) ++own[answer];
      } catch (const std::exception& error) {
        ADD_FAILURE() << target.name << " on " << input.file << ": " << error.what();
      }
    }
    // A target that refuses everything tests nothing behind its first check.
    EXPECT_GE(own[fuzz::Answer::read], 1) << target.name;
    EXPECT_GE(own[fuzz::Answer::refused], 1) << target.name;
  }
}

TEST(FuzzCorpus, HoldsAFolderForEachTargetAndNoOther) {
  std::set<std::string> folders;
  for (const auto& input : corpus()) folders.insert(input.folder);
  std::set<std::string> targets;
  for (const auto& target : fuzz::all_targets()) targets.insert(target.name);
  EXPECT_EQ(folders, targets);
}

/// "[[[...]]]"
std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// A copy of such a value, or what prints it, calls itself for each level.
TEST(FuzzCorpus, NestingWithoutEndExhaustsNoStack) {
  for (const auto* name : {"dataset", "experiment", "result", "journal"}) {
    const std::string begin = R"({"study": "deep", "result": {"rows": )";
    const std::string text = begin + nested(300000) + "}}\n" + begin + "[]}}\n";
    EXPECT_EQ(fuzz::find_target(name)->run(text), fuzz::Answer::refused) << name;
  }
}

TEST(FuzzCorpus, ManyGridsAreOneSweep) {
  nlohmann::json grid{{"n", nlohmann::json::array()}, {"d", nlohmann::json::array()}, {"k", {1}}};
  for (int i = 1; i <= 800; ++i) {
    grid["n"].push_back(i);
    grid["d"].push_back(i);
  }
  const nlohmann::json experiment{{"name", "demo"},
                                  {"title", "Demo"},
                                  {"data", {{"generator", "uniform"}}},
                                  {"init", "first"},
                                  {"variants", {"reference"}},
                                  {"scales", {{"paper", {{"sweep", {grid, grid}}}}}}};
  // 640 000 shapes each, and no more than a million in all.
  EXPECT_EQ(fuzz::find_target("experiment")->run(experiment.dump()), fuzz::Answer::refused);
}

}  // namespace
}  // namespace kmeans
