// SPDX-License-Identifier: Apache-2.0
//
// One libFuzzer program for all targets; KMEANS_FUZZ_TARGET=csv chooses. (libFuzzer starts itself
// again for some of its modes, with its own options only.)
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

using kmeans::fuzz::Target;

const Target* chosen = nullptr;

std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* asked = std::getenv("KMEANS_FUZZ_TARGET");
  const std::string name = asked != nullptr ? asked : "";
  chosen = kmeans::fuzz::find_target(name);
  if (chosen == nullptr) {
    std::fprintf(stderr, "kmeans-fuzz: '%s' is not a target; set KMEANS_FUZZ_TARGET to one of:",
                 name.c_str());
    for (const auto& target : kmeans::fuzz::all_targets()) {
      std::fprintf(stderr, " %s", target.name.c_str());
    }
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    chosen->run(view(data, size));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kmeans-fuzz %s: %s\n", chosen->name.c_str(), error.what());
    std::abort();
  }
  return 0;
}
