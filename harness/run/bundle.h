// SPDX-License-Identifier: Apache-2.0
//
// Results that somebody hands over: a folder of result files with a manifest of their hashes, the source
// that they were measured with, and the machine (docs/bundles.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/record/result_file.h"

namespace kmeans {

/// The manifest's name in the folder. No *.json: those are results.
inline constexpr const char* kBundleManifest = "bundle.manifest";

struct BundleRequest {
  std::vector<std::filesystem::path> results;  ///< Result files, or one folder of them.
  std::filesystem::path out;                   ///< Empty: the folder itself.
  /// Of plugins: FILE, or NAME=FILE with the name of the plugin's file or of one of its variants.
  std::vector<std::string> sources;
  bool draft = false;  ///< Not for publication: local changes may be there.
};

/// Writes the folder; returns its manifest. Throws InputError where results are of several machines or
/// of another build, incomplete, or measured with changes that are not committed.
nlohmann::json write_bundle(const BundleRequest& request);

struct Bundle {
  nlohmann::json manifest;
  std::vector<ResultFile> results;
};

/// A bundle that is whole: every file is there with its hash, and no result that is not listed. Throws
/// InputError naming the file.
Bundle load_bundle(const std::filesystem::path& folder);

/// Variants of the bundle that are plugins and whose source it lacks.
std::vector<std::string> plugins_without_source(const Bundle& bundle);

/// In what the sources of this program are not those that the bundle was measured with, a clause each.
std::vector<std::string> source_differences(const nlohmann::json& manifest);

/// Shapes at which a variant of the bundle is run again: those that it was measured at, made small.
struct SmallShape {
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;

  bool operator==(const SmallShape& other) const {
    return n == other.n && d == other.d && k == other.k;
  }
};

struct BundledVariant {
  std::string name;
  std::string plugin_sha256;  ///< Empty for variants of the suite.
  std::vector<SmallShape> shapes;
  std::set<std::string> precisions;  ///< That have times.
};

/// The variants that have times in the bundle, by name.
std::vector<BundledVariant> bundled_variants(const std::vector<ResultFile>& results);

}  // namespace kmeans
