// SPDX-License-Identifier: Apache-2.0
#include "harness/run/machine_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scoped.h"

namespace kmeans {
namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::string of_machine(const std::string& id) {
  return R"({"context": {"machine": {"id": ")" + id + R"("}}})";
}

TEST(MachineFolder, IsTheOneOfThatNameOrOfThatMachine) {
  const test::TemporaryFolder folder;
  const auto& results = folder.path();
  write(results / "reference-one" / "map.json", of_machine("one"));
  write(results / "reference-one" / "journal.jsonl", "");
  write(results / "broken" / "map.json", "{");
  write(results / "derived.json", of_machine("two"));
  std::filesystem::create_directories(results / "empty");
  EXPECT_EQ(folder_of_machine(results, "one"), results / "reference-one");
  EXPECT_EQ(folder_of_machine(results, "two"), results / "two");
  write(results / "one" / "map.json", of_machine("one"));
  EXPECT_EQ(folder_of_machine(results, "one"), results / "one");
  EXPECT_EQ(folder_of_machine(results / "absent", "one"), results / "absent" / "one");
}

TEST(MachineFolder, FindsTheReferenceOfThisRepository) {
  const auto results = std::filesystem::path(KMEANS_SOURCE_DIR) / "results";
  EXPECT_EQ(folder_of_machine(results, "xeon-16core-avx512-h200"), results / "nvidia-h200");
}

}  // namespace
}  // namespace kmeans
