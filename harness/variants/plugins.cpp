// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/plugins.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "harness/support/errors.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"
#include "harness/variants/python_backend.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;

// Absolute paths, one a line; how workers learn of them.
constexpr const char* kVariable = "KMEANS_PLUGINS";

std::vector<std::string> plugin_files() {
  std::vector<std::string> files;
  const char* text = std::getenv(kVariable);
  std::string rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    files.push_back(rest.substr(0, end));
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return files;
}

std::string name_of(const std::string& file) {
  std::string name;
  for (const char c : fs::path(file).stem().string()) {
    const auto byte = static_cast<unsigned char>(c);
    name += std::isalnum(byte) != 0 && byte < 128 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return name;
}

void add_file(const std::string& given) {
  std::error_code error;
  const fs::path file = fs::canonical(given, error);
  if (error || !fs::is_regular_file(file, error)) {
    throw InputError("--plugin " + given + ": there is no such file");
  }
  const bool python = file.extension() == ".py";
  const auto executable = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  if (!python && (fs::status(file).permissions() & executable) == fs::perms::none) {
    throw InputError(
        "--plugin " + given +
        ": is neither a Python file (.py) nor a program that may be executed (chmod +x)");
  }
  if (file.string().find('\n') != std::string::npos) {
    throw InputError("--plugin: the path has a line break");
  }
  auto files = plugin_files();
  if (std::find(files.begin(), files.end(), file.string()) != files.end()) return;
  files.push_back(file.string());
  std::string text;
  for (const std::string& one : files) text += (text.empty() ? "" : "\n") + one;
  ::setenv(kVariable, text.c_str(), 1);
}

RegisteredVariant describe(const std::string& file) {
  PythonLocation location = find_python();
  location.plugin = file;
  RegisteredVariant variant = describe_plugin(location, name_of(file));
  variant.traits.source = valid_utf8(fs::path(file).filename().string()) + ", sha256 " +
                          sha256_file(file).substr(0, 16);
  return variant;
}

}  // namespace

void add_plugin_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--plugin",
          [](const std::vector<std::string>& files) {
            for (const std::string& file : files) add_file(file);
          },
          "Also the variant of this file: Python, or any program (docs/plugins.md)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

std::vector<std::string> plugin_names() {
  std::vector<std::string> names;
  for (const std::string& file : plugin_files()) names.push_back(name_of(file));
  return names;
}

std::string plugin_file(const std::string& name) {
  for (const std::string& file : plugin_files()) {
    if (name_of(file) == name) return file;
  }
  return "";
}

void discover_plugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const std::string& file : plugin_files()) {
      const std::string name = name_of(file);
      if (find_variant(name) != nullptr) {
        throw InputError("--plugin " + file + ": a variant is named '" + name +
                         "' already; rename the file");
      }
      register_runtime_variants({describe(file)});
    }
  });
}

}  // namespace kmeans
