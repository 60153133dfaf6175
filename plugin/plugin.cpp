// SPDX-License-Identifier: Apache-2.0
//
// Compiled into every plugin that is a shared library: what its variants register with, and the one
// function that it exports. kmeans_bench_add_plugin() adds it.
#include "harness/plugin.h"

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifdef __clang__
#define KMEANS_PLUGIN_COMPILER "Clang " __clang_version__
#else
#define KMEANS_PLUGIN_COMPILER "GCC " __VERSION__
#endif

namespace kmeans {
namespace {

std::vector<Registration>& registrations() {
  static std::vector<Registration> all;
  return all;
}

}  // namespace

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::f64: return "f64";
    case Precision::f32: return "f32";
    case Precision::tf32: return "tf32";
    case Precision::f16: return "f16";
    case Precision::bf16: return "bf16";
  }
  return "unknown";
}

bool register_variant(Traits traits, Factory factory, const char* /*file*/) {
  registrations().push_back({std::move(traits), std::move(factory)});
  return true;
}

Registration registered_variant(const std::string& name) {
  for (const Registration& one : registrations()) {
    if (one.traits.name == name) return one;
  }
  throw std::logic_error("no variant '" + name + "' is in this plugin");
}

}  // namespace kmeans

extern "C" __attribute__((visibility("default"))) const kmeans::PluginInterface*
kmeans_bench_plugin() {
  static const kmeans::PluginInterface plugin{kmeans::kContract, kmeans::kContractLayout,
                                              KMEANS_PLUGIN_COMPILER, &kmeans::registrations()};
  return &plugin;
}
