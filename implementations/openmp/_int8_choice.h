// SPDX-License-Identifier: Apache-2.0
//
// Which int8 filter is used: the processor's best, or the one that is asked for.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "harness/support/errors.h"
#include "implementations/openmp/_int8_dispatch.h"

namespace kmeans::openmp {
// Unnamed on purpose: variants are compiled with different options (implementations/cpu/_lloyd.h).
namespace {

struct Int8Choice {
  std::string name;
  Int8Filter filter;
};

/// What this processor can run, the best last.
inline std::vector<Int8Choice> int8_choices() {
  std::vector<Int8Choice> choices{{"plain", int8_plain::filter}};
#if defined(__x86_64__)
  __builtin_cpu_init();
#if defined(KMEANS_INT8_AVXVNNI)
  if (__builtin_cpu_supports("avxvnni") && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("fma")) {
    choices.push_back({"avxvnni", int8_avxvnni::filter});
  }
#endif
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    choices.push_back({"avx512vnni-256", int8_avx512vnni_256::filter});
    choices.push_back({"avx512vnni", int8_avx512vnni::filter});
  }
#endif
  return choices;
}

/// The best of them, or the one that KMEANS_BENCH_INT8 asks for.
inline Int8Choice choose_int8_filter() {
  const std::vector<Int8Choice> choices = int8_choices();
  const char* wanted = std::getenv("KMEANS_BENCH_INT8");
  if (wanted == nullptr || *wanted == '\0') return choices.back();
  std::string names;
  for (const Int8Choice& choice : choices) {
    if (choice.name == wanted) return choice;
    names += (names.empty() ? "" : ", ") + choice.name;
  }
  throw EnvironmentError("KMEANS_BENCH_INT8 is '" + std::string(wanted) +
                         "', but this processor has: " + names);
}

}  // namespace
}  // namespace kmeans::openmp
