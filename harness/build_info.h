// SPDX-License-Identifier: Apache-2.0
//
// How this program was built; implemented by a generated file (cmake/build_info.cpp.in).
#pragma once

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
};

const BuildInfo& build_info();

/// The suite's source tree (experiments/, implementations/python/, plots/): $KMEANS_BENCH_ROOT if
/// set, else where this program was built from.
std::string source_root();

/// Where generated data sets and reference trajectories are kept: $KMEANS_BENCH_CACHE if set, else
/// <source root>/.cache.
std::string cache_root();

}  // namespace kmeans
