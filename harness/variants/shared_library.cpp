// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/plugin.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/machine_process.h"
#include "harness/support/process.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"

namespace kmeans {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProbed = "\nplugin: can be loaded\n";
constexpr const char* kRefused = "\nplugin: ";

// By file. Hashed before it is loaded: a file that is replaced meanwhile then differs from this one.
std::map<std::string, std::vector<std::pair<std::string, std::string>>>& loaded_libraries() {
  static std::map<std::string, std::vector<std::pair<std::string, std::string>>> loaded;
  return loaded;
}

/// What dlopen says, without the path in front of it.
std::string without_path(std::string said, const std::string& file) {
  if (said.rfind(file + ": ", 0) == 0) said.erase(0, file.size() + 2);
  return valid_utf8(said);
}

const PluginInterface& interface_of(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error("it cannot be loaded: " + without_path(::dlerror(), file));
  }
  using Function = const PluginInterface* (*)();
  const auto function = reinterpret_cast<Function>(::dlsym(library, kPluginFunction));
  if (function == nullptr) {
    throw std::runtime_error(std::string("it exports no ") + kPluginFunction +
                             "(); kmeans_bench_add_plugin() adds it (docs/plugins.md)");
  }
  const PluginInterface& plugin = *function();
  if (plugin.contract != kContract) {
    throw std::runtime_error("it was compiled for contract " + std::to_string(plugin.contract) +
                             ", this program has contract " + std::to_string(kContract) +
                             "; compile it with this program's headers (docs/plugins.md)");
  }
  if (plugin.layout != kContractLayout) {
    throw std::runtime_error(
        "its types have another layout in memory (" + std::to_string(plugin.layout) +
        ", this program's " + std::to_string(kContractLayout) +
        "): it was compiled with another standard library or with options that change it, "
        "this program by " +
        build_info().compiler);
  }
  return plugin;
}

void check_traits(const Registration& variant, std::set<std::string>& names) {
  const Traits& traits = variant.traits;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  const std::string& name = traits.name;
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    throw std::runtime_error("its variant '" + valid_utf8(name) +
                             "' must have a name of a-z, 0-9 and _");
  }
  const std::string its = "its variant " + name + " ";
  if (!names.insert(name).second) throw std::runtime_error(its + "is there twice");
  if (traits.precisions.empty()) throw std::runtime_error(its + "has no precisions");
  for (const Precision precision : traits.precisions) {
    const bool made = precision == Precision::f64 ? static_cast<bool>(variant.factory.make_double)
                                                  : static_cast<bool>(variant.factory.make_float);
    if (made) continue;
    throw std::runtime_error(
        its + "names precision " + to_string(precision) + ", whose points are " +
        (precision == Precision::f64 ? "double" : "float") + ", but its class takes others");
  }
  if (traits.engine) {
    throw std::runtime_error(its + "is an `engine`: no plugin may say what a right answer is");
  }
  if (traits.shards || traits.gpu_shards || traits.many_gpus) {
    throw std::runtime_error(its + "takes shards or several GPUs, which plugins are not given");
  }
}

/// Calls whatever can be asked without running a variant, so that what crashes does so here.
void ask_everything(const Traits& traits) {
  const Shape shape{1000, 8, 4, traits.precisions.front()};
  if (traits.supports) (void)traits.supports(shape);
  if (traits.memory_bytes) (void)traits.memory_bytes(shape, 1);
  if (traits.device_bytes) (void)traits.device_bytes(shape);
  if (traits.counted_device_bytes) (void)traits.counted_device_bytes(shape);
  if (traits.traffic) (void)traits.traffic(shape);
  if (traits.stage_work) (void)traits.stage_work(shape);
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \r\n") + 1);
  return valid_utf8(text.substr(text.find_last_of('\n') + 1));
}

}  // namespace

bool is_shared_library(const std::string& file) { return fs::path(file).extension() == ".so"; }

std::vector<RegisteredVariant> load_shared_library(const std::string& file) {
  const std::string hash = sha256_file(file);
  const PluginInterface& plugin = interface_of(file);
  std::vector<RegisteredVariant> variants;
  std::set<std::string> names;
  for (const Registration& one : *plugin.variants) {
    check_traits(one, names);
    RegisteredVariant variant;
    variant.traits = one.traits;
    variant.factory = one.factory;
    variant.backend = kPluginBackend;
    for (std::string Traits::*text :
         {&Traits::summary, &Traits::timing_note, &Traits::setup_note, &Traits::wrong_because}) {
      variant.traits.*text = valid_utf8(variant.traits.*text);
    }
    variants.push_back(std::move(variant));
  }
  if (variants.empty()) throw std::runtime_error("it holds no KMEANS_VARIANT");
  loaded_libraries()[file] = {{"plugin", valid_utf8(fs::path(file).filename().string())},
                              {"plugin sha256", hash},
                              {"plugin compiler", valid_utf8(plugin.compiler)}};
  return variants;
}

std::string problem_of_loading(const std::string& file) {
  const ProcessOutput probe = capture_output({"/proc/self/exe", "plugin-probe", file},
                                             changed_environment({}), plugin_seconds());
  const std::string& said = probe.text;
  if (probe.ok && said.size() >= std::string(kProbed).size() &&
      said.compare(said.size() - std::string(kProbed).size(), std::string::npos, kProbed) == 0) {
    return "";
  }
  if (probe.exited && probe.status == kExitUnusableEnvironment) {
    if (const auto at = said.rfind(kRefused); at != std::string::npos) {
      return last_line(said.substr(at + std::string(kRefused).size()));
    }
  }
  return "a process that loads it " + (probe.ok ? "ends at once" : probe.problem);
}

int probe_shared_library(const std::string& file) {
  try {
    for (const auto& variant : load_shared_library(file)) ask_everything(variant.traits);
  } catch (const std::exception& error) {
    std::printf("%s%s\n", kRefused, error.what());
    return kExitUnusableEnvironment;
  }
  std::fputs(kProbed, stdout);
  return kExitOk;
}

std::vector<std::pair<std::string, std::string>> shared_library_info(const std::string& file) {
  const auto found = loaded_libraries().find(file);
  return found == loaded_libraries().end() ? std::vector<std::pair<std::string, std::string>>{}
                                           : found->second;
}

}  // namespace kmeans
