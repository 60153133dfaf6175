// SPDX-License-Identifier: Apache-2.0
#include "harness/support/build_info.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path folder_of_this_program() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

/// The file that CMake begins with says whose tree it is.
bool is_source_tree(const fs::path& folder) {
  std::ifstream file(folder / "CMakeLists.txt");
  constexpr int kLines = 20;
  std::string line;
  for (int i = 0; i < kLines && std::getline(file, line); ++i) {
    if (line.rfind("project(kmeans-bench ", 0) == 0) return true;
  }
  return false;
}

bool lies_within(const fs::path& folder, const fs::path& outer) {
  const auto relative = folder.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

std::string find_source_tree(const fs::path& program_folder, const BuildInfo& build) {
  // A build folder may lie anywhere, in the tree of another clone too: where it was configured, the
  // sources are the ones that it was configured for.
  if (is_source_tree(build.source_dir) && lies_within(program_folder, build.build_dir)) {
    return build.source_dir;
  }
  for (fs::path folder = program_folder; folder.has_relative_path();
       folder = folder.parent_path()) {
    if (is_source_tree(folder)) return folder.string();
  }
  return is_source_tree(build.source_dir) ? build.source_dir : "";
}

std::string source_root() {
  const std::string chosen = variable("KMEANS_BENCH_ROOT");
  if (!chosen.empty()) return chosen;
  static const std::string found = find_source_tree(folder_of_this_program(), build_info());
  return found.empty() ? build_info().source_dir : found;
}

std::string missing_source_tree() {
  const std::string chosen = variable("KMEANS_BENCH_ROOT");
  std::error_code unknown;
  if (!chosen.empty()) {
    if (fs::is_directory(chosen, unknown)) return "";
    return "KMEANS_BENCH_ROOT is '" + valid_utf8(chosen) + "', which is not a folder";
  }
  if (is_source_tree(source_root())) return "";
  return "the suite's source tree is neither above the program, in " +
         valid_utf8(folder_of_this_program().string()) + ", nor where that was built, in " +
         valid_utf8(build_info().source_dir) + "; set KMEANS_BENCH_ROOT to it";
}

std::string require_source_root() {
  const std::string missing = missing_source_tree();
  if (!missing.empty()) throw EnvironmentError(missing);
  return source_root();
}

std::string cache_root() {
  const std::string chosen = variable("KMEANS_BENCH_CACHE");
  if (!chosen.empty()) return chosen;
  const std::string missing = missing_source_tree();
  if (!missing.empty()) {
    throw EnvironmentError("there is no place for the cache (KMEANS_BENCH_CACHE names one): " +
                           missing);
  }
  return source_root() + "/.cache";
}

}  // namespace kmeans
