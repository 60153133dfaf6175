// SPDX-License-Identifier: Apache-2.0
//
// How this program was built; implemented by a generated file (cmake/build_info.cpp.in).
#pragma once

#include <filesystem>
#include <string>

namespace kmeans {

struct BuildInfo {
  std::string version;        ///< of the suite, from VERSION
  std::string git_commit;     ///< full hash, or "unknown"
  bool git_dirty = true;      ///< files outside results/ differed, or sources were unknown to git
  std::string build_type;     ///< "Release", ...
  std::string sanitizers;     ///< empty, or "address,undefined"
  std::string compiler;       ///< "GNU 12.2.0"
  std::string variant_flags;  ///< options the variants were compiled with
  std::string march;
  std::string cuda;        ///< CUDA compiler version, empty without CUDA
  std::string source_dir;  ///< where the sources were; see source_root()
  std::string build_dir;   ///< where the program was built
};

const BuildInfo& build_info();

/// The suite's source tree (experiments/, implementations/python/, plots/): $KMEANS_BENCH_ROOT if
/// set, else the tree that this program lies in, so that a clone which was copied or moved reads
/// its own files, else where it was built from.
std::string source_root();

/// Empty, or a sentence: where source_root() was looked for and is not.
std::string missing_source_tree();

/// source_root(), or EnvironmentError with that sentence.
std::string require_source_root();

/// For source_root(): the tree of a program in `program_folder`, or "". A source tree is known by
/// its CMakeLists.txt.
std::string find_source_tree(const std::filesystem::path& program_folder, const BuildInfo& build);

/// Where generated data sets and reference trajectories are kept: $KMEANS_BENCH_CACHE if set, else
/// <source root>/.cache. Throws EnvironmentError when there is neither.
std::string cache_root();

}  // namespace kmeans
