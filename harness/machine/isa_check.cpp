// SPDX-License-Identifier: Apache-2.0
//
// The variants may be compiled for the machine that built them (-march=native). On a lesser
// processor this ends the program with a message before anything else runs, instead of an illegal
// instruction somewhere later. This file itself is compiled for the plainest processor.
#include <unistd.h>

#include <cstring>

#if defined(__x86_64__)
namespace {

void say(const char* text) {
  const auto ignored = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(ignored);
}

// Earlier than every other static initialiser, which may already hold such instructions.
__attribute__((constructor(101))) void check_instruction_set() {
  __builtin_cpu_init();
#define KMEANS_REQUIRE(feature)                                                                \
  if (!__builtin_cpu_supports(feature)) {                                                      \
    say("kmeans-bench: this program was built for a processor with " feature                   \
        ", which this one lacks. Rebuild here, or configure with -DKMEANS_MARCH=x86-64 for a " \
        "program that runs anywhere.\n");                                                      \
    _exit(3);                                                                                  \
  }
#include "required_isa.inc"
#undef KMEANS_REQUIRE
}

}  // namespace
#endif
