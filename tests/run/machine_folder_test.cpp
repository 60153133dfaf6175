// SPDX-License-Identifier: Apache-2.0
#include "harness/run/machine_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/scoped.h"

namespace kmeans {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void write(const std::filesystem::path& file, const std::string& id) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << "{\n \"context\": {\"machine\": {\"id\": \"" << id << "\"}}}";
}

TEST(MachineFolder, IsTheOneOfThatNameOrOfMostFilesOfThatMachine) {
  const test::TemporaryFolder folder;
  const auto& results = folder.path();
  write(results / "several" / "a.json", "one");
  write(results / "several" / "b.json", "one-more");
  write(results / "reference" / "map.json", "one");
  write(results / "reference" / "fits.json", "one");
  write(results / "reference" / "other.json", "another");
  write(results / "reference" / "map.journal.jsonl", "one");
  write(results / "derived.json", "two");
  std::filesystem::create_directories(results / "empty");
  EXPECT_THAT(results_of_machine(results, "one"),
              ElementsAre(results / "reference" / "fits.json", results / "reference" / "map.json"));
  EXPECT_THAT(results_of_machine(results, "one-more"), ElementsAre(results / "several" / "b.json"));
  EXPECT_THAT(results_of_machine(results, "two"), IsEmpty());
  write(results / "one" / "map.json", "one");
  EXPECT_THAT(results_of_machine(results, "one"), ElementsAre(results / "one"));
  EXPECT_THAT(results_of_machine(results / "absent", "one"), IsEmpty());
}

TEST(MachineFolder, HasFilesOfOneMachineAloneInThisRepository) {
  const auto results = std::filesystem::path(KMEANS_SOURCE_DIR) / "results";
  for (const char* id : {"epyc-2core-avx512", "xeon-16core-avx512-h200"}) {
    const auto found = load_all_results(results_of_machine(results, id));
    EXPECT_GE(found.size(), 10U) << id;
    for (const ResultFile& file : found) EXPECT_EQ(file.machine, id) << file.path;
  }
}

}  // namespace
}  // namespace kmeans
