// SPDX-License-Identifier: Apache-2.0
//
// Which int8 filter is used: the processor's best, or the one that is asked for.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "harness/support/errors.h"
#include "implementations/openmp/_int8_dispatch.h"
#include "implementations/openmp/_int8_quantise.h"

namespace kmeans::openmp {
// Unnamed on purpose: variants are compiled with different options (implementations/cpu/_lloyd.h).
namespace {

struct Int8Choice {
  std::string name;
  Int8Filter filter = nullptr;
  void (*open_tiles)(const Int8Tiling&) = nullptr;  ///< Only where the filter works on tiles.
  void (*close_tiles)() = nullptr;
  Int8Bytes bytes = kInt8Unsigned;  ///< Of points.
};

/// A thread may call the filter while it has one of these.
class Int8Session {
 public:
  Int8Session(const Int8Choice& choice, const Int8Tiling& tiling) : close_(choice.close_tiles) {
    if (choice.open_tiles != nullptr) choice.open_tiles(tiling);
  }
  ~Int8Session() {
    if (close_ != nullptr) close_();
  }
  Int8Session(const Int8Session&) = delete;
  Int8Session& operator=(const Int8Session&) = delete;

 private:
  void (*close_)();
};

/// Has the processor AMX with tiles of bytes, and does the kernel let this process use them? It saves
/// their registers, 8 KiB, only for processes that have asked.
inline bool amx_int8_usable() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kTileAndInt8 = 3U << 24;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTileAndInt8) != kTileAndInt8)
    return false;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

/// What this processor can run, the best last.
inline std::vector<Int8Choice> int8_choices() {
  std::vector<Int8Choice> choices{
      {"amx-emulated", int8_amx_emulated::filter, int8_amx_emulated::open_tiles,
       int8_amx_emulated::close_tiles},
      {"dotprod-emulated", int8_dotprod_emulated::filter, nullptr, nullptr, kInt8Signed},
      {"plain", int8_plain::filter}};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    choices.push_back({"avx2", int8_avx2::filter, nullptr, nullptr, kInt8OfPairs});
  }
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
    if (amx_int8_usable()) {
      choices.push_back({"amx", int8_amx::filter, int8_amx::open_tiles, int8_amx::close_tiles});
    }
  }
#endif
#if defined(KMEANS_INT8_DOTPROD)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
    choices.push_back({"dotprod", int8_dotprod::filter, nullptr, nullptr, kInt8Signed});
  }
#endif
  return choices;
}

/// Up to so many coordinates a tile is multiplied in one step, and to store its sums and load them again
/// costs more than it saves: measured, AMX is slower than AVX512-VNNI at 32 coordinates, faster at 128.
inline constexpr std::int64_t kInt8RegisterCoordinates = 64;

/// Of int8_choices(), for points of d coordinates.
inline const Int8Choice& best_int8_choice(const std::vector<Int8Choice>& choices, std::int64_t d) {
  const Int8Choice& best = choices.back();
  const bool in_tiles = best.open_tiles != nullptr && choices.size() > 1;
  return in_tiles && d <= kInt8RegisterCoordinates ? choices[choices.size() - 2] : best;
}

/// The best of them, or the one that KMEANS_BENCH_INT8 asks for.
inline Int8Choice choose_int8_filter(std::int64_t d) {
  static const std::vector<Int8Choice> choices =
      int8_choices();  // asks the processor, which takes a while
  const char* wanted = std::getenv("KMEANS_BENCH_INT8");
  if (wanted == nullptr || *wanted == '\0') return best_int8_choice(choices, d);
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
