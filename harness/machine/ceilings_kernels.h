// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of harness/machine/ceilings.cpp, one set per instruction set, chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kmeans {

/// Arrays are aligned to 64 bytes and their sizes are multiples of kCeilingBlockBytes.
inline constexpr std::size_t kCeilingBlockBytes = 4096;

struct CeilingKernels {
  const char* instructions;  ///< "avx512", "avx2", ...
  /// Run `rounds` dependent steps in every independent accumulator; return something made of all
  /// of them, so that none can be left out.
  double (*fma_f32)(std::int64_t rounds);
  double (*fma_f64)(std::int64_t rounds);
  double flops_per_round_f32;
  double flops_per_round_f64;
  /// Reads every byte once; returns something made of all of them.
  std::uint64_t (*read)(const void* from, std::size_t bytes);
  std::uint64_t (*read_streams)(const void* from, std::size_t bytes);
  void (*copy)(void* to, const void* from, std::size_t bytes);
  /// With stores that go past the caches; null where there are none.
  void (*copy_streaming)(void* to, const void* from, std::size_t bytes);
};

/// Those that this processor can run, the widest first; never empty.
const std::vector<CeilingKernels>& ceiling_kernels();

}  // namespace kmeans
