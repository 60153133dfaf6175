// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/plugins.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "harness/support/errors.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"
#include "harness/variants/python_backend.h"
#include "harness/variants/registry.h"
#include "harness/variants/shared_library.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;

// Absolute paths, one a line; how workers learn of them.
constexpr const char* kVariable = "KMEANS_PLUGINS";
// And how long each may take to say what it is.
constexpr const char* kSecondsVariable = "KMEANS_PLUGIN_SECONDS";
constexpr double kPluginSeconds = 30;  // a cold disk is slow, a hang is longer

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
  const bool loaded = file.extension() == ".py" || is_shared_library(file.string());
  const auto executable = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  if (!loaded && (fs::status(file).permissions() & executable) == fs::perms::none) {
    throw InputError(
        "--plugin " + given +
        ": is neither a shared library (.so) nor a Python file (.py) nor a program that may be "
        "executed (chmod +x)");
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

// By the variant's name; filled by discover_plugins().
std::vector<std::pair<std::string, std::string>>& found_plugins() {
  static std::vector<std::pair<std::string, std::string>> found;
  return found;
}

RegisteredVariant unusable_library(const std::string& file, const std::string& reason) {
  RegisteredVariant variant;
  variant.traits.name = name_of(file);
  variant.traits.summary = "a shared library that cannot be used";
  // The likeliest ones: asked for either, the answer should be the reason, not a wrong precision.
  variant.traits.precisions = {Precision::f64, Precision::f32};
  variant.backend = kPluginBackend;
  variant.available = Support::no(reason);
  return variant;
}

std::vector<RegisteredVariant> variants_of_library(const std::string& file, FirstLoad first) {
  std::string problem;
  if (first == FirstLoad::by_another_process) problem = problem_of_loading(file);
  try {
    if (problem.empty()) return load_shared_library(file);
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  return {unusable_library(file, problem)};
}

std::vector<RegisteredVariant> variants_of(const std::string& file, FirstLoad first) {
  std::vector<RegisteredVariant> variants;
  if (is_shared_library(file)) {
    variants = variants_of_library(file, first);
  } else {
    PythonLocation location = find_python();
    location.plugin = file;
    variants = {describe_plugin(location, name_of(file))};
  }
  for (RegisteredVariant& variant : variants) {
    variant.traits.source = valid_utf8(fs::path(file).filename().string()) + ", sha256 " +
                            sha256_file(file).substr(0, 16);
  }
  return variants;
}

void discover_plugin(const std::string& file, FirstLoad first) {
  auto variants = variants_of(file, first);
  for (const RegisteredVariant& variant : variants) {
    const std::string& name = variant.traits.name;
    if (find_variant(name) != nullptr) {
      throw InputError("--plugin " + file + ": a variant is named '" + name +
                       "' already; rename the " +
                       (name == name_of(file) ? "file" : "plugin's variant"));
    }
    found_plugins().emplace_back(name, file);
  }
  register_runtime_variants(std::move(variants));
}

}  // namespace

void add_plugin_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--plugin",
          [](const std::vector<std::string>& files) {
            for (const std::string& file : files) add_file(file);
          },
          "Also the variants of this file: a shared library (.so), Python (.py), or any program "
          "(docs/plugins.md)")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

std::vector<std::string> plugin_names() {
  std::vector<std::string> names;
  for (const auto& [name, file] : found_plugins()) names.push_back(name);
  return names;
}

std::string plugin_file(const std::string& name) {
  for (const auto& [found, file] : found_plugins()) {
    if (found == name) return file;
  }
  return "";
}

EnvironmentChanges environment_of(const std::string& name) {
  const std::string file = plugin_file(name);
  return {{kVariable, file.empty() ? std::nullopt : std::optional(file)}};
}

std::vector<std::pair<std::string, std::string>> plugin_info(const std::string& name) {
  return shared_library_info(plugin_file(name));
}

void give_plugins(double seconds) {
  ::setenv(kSecondsVariable, std::to_string(std::min(seconds, kPluginSeconds)).c_str(), 1);
}

double plugin_seconds() {
  const char* text = std::getenv(kSecondsVariable);
  const double given = text != nullptr ? std::strtod(text, nullptr) : 0;
  return given > 0 ? std::min(given, kPluginSeconds) : kPluginSeconds;
}

void discover_plugins(FirstLoad first) {
  static std::once_flag once;
  std::call_once(once, [first] {
    for (const std::string& file : plugin_files()) discover_plugin(file, first);
  });
}

}  // namespace kmeans
