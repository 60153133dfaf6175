// SPDX-License-Identifier: Apache-2.0
//
// One libFuzzer program for all targets; KMEANS_FUZZ_TARGET=csv chooses. (libFuzzer starts itself
// anew for some of its modes, with its own options only.)
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/targets.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using kmeans::fuzz::Target;

const Target* chosen = nullptr;

std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Puts a text where libFuzzer wants it; 0 where it does not fit.
std::size_t give(const std::string& text, std::uint8_t* data, std::size_t max_size) {
  if (text.empty() || text.size() > max_size) return 0;
  text.copy(reinterpret_cast<char*>(data), text.size());
  return text.size();
}

bool as_tree(unsigned seed) {
  // Every fourth mutation is one of bytes, so that the JSON parser itself is not spared.
  return (chosen->json || chosen->lines) && seed % 4 != 0;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* asked = std::getenv("KMEANS_FUZZ_TARGET");
  const std::string name = asked != nullptr ? asked : "";
  chosen = kmeans::fuzz::find_target(name);
  if (chosen == nullptr) {
    std::fprintf(stderr,
                 "kmeans-fuzz: '%s' is no target; set KMEANS_FUZZ_TARGET to one of:", name.c_str());
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

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  if (as_tree(seed)) {
    const auto text = kmeans::fuzz::mutate_json(view(data, size), chosen->lines, seed);
    if (const std::size_t given = give(text, data, max_size); given > 0) return given;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* first, std::size_t first_size,
                                                 const std::uint8_t* second,
                                                 std::size_t second_size, std::uint8_t* out,
                                                 std::size_t max_out_size, unsigned seed) {
  if (as_tree(seed)) {
    const auto text = kmeans::fuzz::cross_json(view(first, first_size), view(second, second_size),
                                               chosen->lines, seed);
    if (const std::size_t given = give(text, out, max_out_size); given > 0) return given;
  }
  // The beginning of one and the end of the other.
  std::string text(view(first, first_size).substr(0, seed % (first_size + 1)));
  text += view(second, second_size).substr((seed / 7) % (second_size + 1));
  text.resize(text.size() < max_out_size ? text.size() : max_out_size);
  return give(text, out, max_out_size);
}
