// SPDX-License-Identifier: Apache-2.0
#include "harness/support/build_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/datasets/test_tools.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

fs::path make_tree(const fs::path& folder, const std::string& project = "kmeans-bench") {
  fs::create_directories(folder);
  std::ofstream(folder / "CMakeLists.txt")
      << "# a line\ncmake_minimum_required(VERSION 3.25)\nproject(" << project << " VERSION 1)\n";
  return folder;
}

BuildInfo built_in(const fs::path& source, const fs::path& build) {
  BuildInfo info;
  info.source_dir = source.string();
  info.build_dir = build.string();
  return info;
}

TEST(SourceTree, IsTheOneThatAMovedOrCopiedProgramLiesIn) {
  const TemporaryFolder folder;
  const auto copy = make_tree(folder / "copy");
  const auto gone = folder / "gone";
  EXPECT_EQ(find_source_tree(copy / "build", built_in(gone, gone / "build")), copy);
  EXPECT_EQ(find_source_tree(copy / "out" / "build-ci", built_in(gone, gone / "build")), copy);
  // The first clone is still there.
  const auto first = make_tree(folder / "first");
  EXPECT_EQ(find_source_tree(copy / "build", built_in(first, first / "build")), copy);
}

TEST(SourceTree, OfABuildFolderThatWasNotMovedIsTheConfiguredOne) {
  const TemporaryFolder folder;
  const auto tree = make_tree(folder / "tree");
  EXPECT_EQ(find_source_tree(folder / "build", built_in(tree, folder / "build")), tree);
  const auto other = make_tree(folder / "other");
  EXPECT_EQ(find_source_tree(other / "build-x", built_in(tree, other / "build-x")), tree);
  EXPECT_EQ(find_source_tree(other / "build-x" / "tests", built_in(tree, other / "build-x")), tree);
}

TEST(SourceTree, FallsBackOnWhereTheProgramWasBuiltFromAndIsNotAnotherProject) {
  const TemporaryFolder folder;
  const auto tree = make_tree(folder / "tree");
  const auto other = make_tree(folder / "other", "something-else");
  EXPECT_EQ(find_source_tree(other / "bin", built_in(tree, tree / "build")), tree);
  EXPECT_EQ(find_source_tree(other / "bin", built_in(folder / "gone", folder / "gone/build")), "");
}

}  // namespace
}  // namespace kmeans
