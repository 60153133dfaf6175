// SPDX-License-Identifier: Apache-2.0
#include "harness/run/bundle.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kBundleVersion = 1;
constexpr const char* kSources = "sources";  // the folder of plugins' sources

// Small enough that all variants of a machine are checked within minutes.
constexpr std::int64_t kMaxPoints = 2000;
constexpr std::int64_t kMaxCoordinates = 64;
constexpr std::int64_t kMaxClusters = 40;
constexpr std::size_t kMaxSmallShapes = 3;

// What decides what is measured; files of the tests and of the figures do not.
constexpr const char* kMeasuredFolders[] = {"cmake",   "datasets",        "experiments",
                                            "harness", "implementations", "plugin"};

std::string shown(const fs::path& path) { return valid_utf8(path.string()); }

/// Sources of the folder by their path in the tree, with their hashes.
void add_sources(const fs::path& root, const std::string& folder,
                 std::map<std::string, std::string>& hashes) {
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string path = entry.path().lexically_relative(root).generic_string();
    if (!entry.is_regular_file() || path.find("__pycache__") != std::string::npos) continue;
    hashes[path] = sha256_file(entry.path());
  }
}

const std::map<std::string, std::string>& source_hashes() {
  static const std::map<std::string, std::string> known = [] {
    const fs::path root = require_source_root();
    std::map<std::string, std::string> hashes;
    for (const char* folder : kMeasuredFolders) add_sources(root, folder, hashes);
    hashes["CMakeLists.txt"] = sha256_file(root / "CMakeLists.txt");
    return hashes;
  }();
  return known;
}

/// One hash of all sources: of lines "<sha256>  <path>", by path, as sha256sum writes them.
std::string sources_hash() {
  std::string lines;
  for (const auto& [path, hash] : source_hashes())
    lines.append(hash).append("  ").append(path) += '\n';
  return sha256_hex(lines.data(), lines.size());
}

/// The variant's own file in the tree; empty for plugins and for those that this tree lacks.
std::string file_of(const std::string& backend, const std::string& variant) {
  for (const char* extension : {".cpp", ".cu", ".py"}) {
    std::string path = "implementations/" + backend + "/" + variant + extension;
    if (source_hashes().count(path) > 0) return path;
  }
  return "";
}

bool is_plugin(const CellResult& cell) { return cell.backend == "plugin"; }

std::string plugin_hash(const CellResult& cell) {
  const json library = cell.data.value("library", json::object());
  return library.is_object() ? library.value("plugin sha256", "") : "";
}

void check_result(const ResultFile& result, bool draft) {
  const std::string name = shown(result.path) + ": ";
  const json& suite = result.context.at("suite");
  if (suite.at("git_commit").get<std::string>() != build_info().git_commit) {
    throw InputError(name + "was measured by commit " +
                     suite.at("git_commit").get<std::string>().substr(0, 12) +
                     ", this program is of " + build_info().git_commit.substr(0, 12) +
                     "; bundle with the program that measured, since the bundle carries the hash "
                     "of its sources");
  }
  if (draft) return;
  if (!result.complete) {
    throw InputError(name +
                     "is not complete; `run --resume` completes it, --draft bundles it as it "
                     "is, not for publication");
  }
  if (suite.at("git_dirty").get<bool>()) {
    throw InputError(name +
                     "was measured with changes that are not committed; commit, build and "
                     "measure again, or bundle it with --draft, not for publication");
  }
}

std::vector<ResultFile> load_all(const std::vector<fs::path>& paths) {
  std::vector<ResultFile> results;
  for (const auto& path : paths) {
    for (auto& result : load_results(path)) results.push_back(std::move(result));
  }
  for (const auto& result : results) {
    if (result.machine == results.front().machine) continue;
    throw InputError(shown(result.path) + ": is of machine " + result.machine + ", " +
                     shown(results.front().path) + " of " + results.front().machine +
                     "; a bundle is of one machine");
  }
  return results;
}

/// Puts the file where the bundle has it, which may be where it is. Nothing else is overwritten.
json take(const fs::path& from, const fs::path& folder, const std::string& name) {
  const fs::path to = folder / name;
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  const std::string hash = sha256_file(from);
  if (fs::exists(to)) {
    if (sha256_file(to) != hash) {
      throw InputError(shown(to) + ": is there already and not the same as " + shown(from) +
                       "; give another --out, or move it away");
    }
  } else if (!fs::copy_file(from, to, error)) {
    throw OutputError(shown(to) + ": cannot be written: " + error.message());
  }
  return {{"name", name}, {"sha256", hash}, {"bytes", fs::file_size(to)}};
}

json describe_variants(const std::vector<ResultFile>& results) {
  json variants = json::object();
  for (const auto& result : results) {
    for (const auto& cell : result.cells) {
      if (cell.status != "ok") continue;
      if (is_plugin(cell)) {
        variants[cell.key.variant] = {{"plugin_sha256", plugin_hash(cell)}};
      } else if (const std::string file = file_of(cell.backend, cell.key.variant); !file.empty()) {
        variants[cell.key.variant] = {{"file", file}, {"sha256", source_hashes().at(file)}};
      }
    }
  }
  return variants;
}

void check_plugin_sources(const json& variants, const BundleRequest& request) {
  for (const auto& [name, variant] : variants.items()) {
    if (!variant.contains("plugin_sha256") || !request.sources.empty()) continue;
    throw InputError("variant " + name +
                     " is a plugin; give its sources with --source FILE, so that others can read, "
                     "compile and check it");
  }
}

fs::path folder_of(const BundleRequest& request) {
  if (!request.out.empty()) return request.out;
  if (request.results.size() == 1 && fs::is_directory(request.results.front())) {
    return request.results.front();
  }
  throw InputError(
      "bundle: result files alone need --out FOLDER; a folder of results is bundled "
      "where it is");
}

/// A plain name, or one in sources/: a manifest may come from anybody.
bool is_bundled_name(const std::string& name) {
  const std::string prefix = std::string(kSources) + "/";
  const std::string rest = name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name;
  return !rest.empty() && rest != "." && rest != ".." && rest.find('/') == std::string::npos &&
         rest.find('\0') == std::string::npos;
}

void check_file(const fs::path& folder, const json& file) {
  const auto name = file.at("name").get<std::string>();
  if (!is_bundled_name(name)) {
    throw InputError(shown(folder / kBundleManifest) + ": '" + valid_utf8(name) +
                     "' is not the name of a file in the bundle");
  }
  const fs::path path = folder / name;
  if (!fs::is_regular_file(fs::symlink_status(path))) {
    throw InputError(shown(path) + ": the manifest names it, but it is not a file there");
  }
  if (sha256_file(path) != file.at("sha256").get<std::string>()) {
    throw InputError(shown(path) + ": is not as it was bundled: its SHA-256 is " +
                     sha256_file(path).substr(0, 16) + "..., the manifest's " +
                     valid_utf8(file.at("sha256").get<std::string>()).substr(0, 16) + "...");
  }
}

SmallShape small(const CellKey& key) {
  SmallShape shape{std::min(key.shape.n, kMaxPoints), std::min(key.shape.d, kMaxCoordinates),
                   std::min(key.shape.k, kMaxClusters)};
  shape.k = std::min(shape.k, shape.n);
  return shape;
}

}  // namespace

json write_bundle(const BundleRequest& request) {
  const fs::path folder = folder_of(request);
  const auto results = load_all(request.results);
  for (const auto& result : results) check_result(result, request.draft);
  const json variants = describe_variants(results);
  check_plugin_sources(variants, request);
  json files = json::array();
  for (const auto& result : results) {
    files.push_back(take(result.path, folder, result.path.filename().string()));
  }
  for (const auto& source : request.sources) {
    if (!fs::is_regular_file(source)) {
      throw InputError("--source " + shown(source) + ": there is no such file");
    }
    files.push_back(take(source, folder, std::string(kSources) + "/" + source.filename().string()));
  }
  const BuildInfo& build = build_info();
  json manifest{{"bundle_version", kBundleVersion},
                {"draft", request.draft},
                {"suite",
                 {{"version", build.version},
                  {"git_commit", build.git_commit},
                  {"compiler", build.compiler},
                  {"variant_flags", build.variant_flags},
                  {"cuda", build.cuda},
                  {"program_sha256", sha256_file("/proc/self/exe")},
                  {"sources_sha256", sources_hash()}}},
                {"machine", results.front().context.at("machine")},
                {"environment", results.front().context.value("environment", json::object())},
                {"variants", variants},
                {"files", files}};
  write_json_file(folder / kBundleManifest, manifest);
  return manifest;
}

Bundle load_bundle(const fs::path& folder) {
  const fs::path file = folder / kBundleManifest;
  if (!fs::is_regular_file(file)) {
    throw InputError(shown(file) + ": there is no such file; `kmeans-bench bundle` writes it");
  }
  Bundle bundle;
  bundle.manifest = read_json_file(file);
  std::set<std::string> listed;
  try {
    if (const json version = bundle.manifest.at("bundle_version"); version != kBundleVersion) {
      throw InputError(shown(file) + ": bundle_version is " + version.dump() +
                       ", this program reads " + std::to_string(kBundleVersion));
    }
    for (const json& one : bundle.manifest.at("files")) {
      check_file(folder, one);
      listed.insert(one.at("name").get<std::string>());
    }
    (void)bundle.manifest.at("draft").get<bool>();
    (void)bundle.manifest.at("suite").at("sources_sha256").get<std::string>();
    (void)source_differences(bundle.manifest);  // whose members are then as they must be
  } catch (const json::exception& error) {
    throw InputError(shown(file) + ": is not the manifest of a bundle: " + error.what());
  }
  bundle.results = load_results(folder);
  for (const auto& result : bundle.results) {
    if (listed.count(result.path.filename().string()) == 0) {
      throw InputError(shown(result.path) + ": is not in the manifest; bundle the folder again");
    }
  }
  return bundle;
}

std::vector<std::string> source_differences(const json& manifest) {
  std::vector<std::string> differences;
  const json& suite = manifest.at("suite");
  if (suite.at("sources_sha256").get<std::string>() == sources_hash()) return differences;
  differences.push_back("measured by commit " +
                        valid_utf8(suite.value("git_commit", "unknown")).substr(0, 12) +
                        ", these are the sources of " + build_info().git_commit.substr(0, 12));
  for (const auto& [name, variant] : manifest.at("variants").items()) {
    if (!variant.is_object() || !variant.contains("file")) continue;
    const auto found = source_hashes().find(variant.value("file", ""));
    if (found == source_hashes().end()) {
      differences.push_back("variant " + valid_utf8(name) + " is not in these sources");
    } else if (variant.value("sha256", std::string()) != found->second) {
      differences.push_back("variant " + valid_utf8(name) + " has another source here");
    }
  }
  return differences;
}

std::vector<BundledVariant> bundled_variants(const std::vector<ResultFile>& results) {
  std::map<std::string, BundledVariant> variants;
  for (const auto& result : results) {
    for (const auto& cell : result.cells) {
      if (cell.status != "ok") continue;
      BundledVariant& variant = variants[cell.key.variant];
      variant.name = cell.key.variant;
      if (is_plugin(cell)) variant.plugin_sha256 = plugin_hash(cell);
      const SmallShape shape = small(cell.key);
      auto& shapes = variant.shapes;
      if (shapes.size() < kMaxSmallShapes &&
          std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) {
        shapes.push_back(shape);
      }
    }
  }
  std::vector<BundledVariant> list;
  for (auto& [name, variant] : variants) list.push_back(std::move(variant));
  return list;
}

}  // namespace kmeans
