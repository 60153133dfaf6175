// SPDX-License-Identifier: Apache-2.0
//
// SplitMix64 (Steele, Lea, Flood 2014; constants: Stafford's variant 13): integers alone, so the
// same numbers on every machine. Nothing of <random>, whose distributions differ.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define KMEANS_HOST_DEVICE __host__ __device__
#else
#define KMEANS_HOST_DEVICE
#endif

namespace kmeans {

inline constexpr std::uint64_t kSplitMixIncrement =
    0x9E3779B97F4A7C15U;  // 2^64 / golden ratio, odd

/// The finaliser, a bijection of 64-bit words.
KMEANS_HOST_DEVICE constexpr std::uint64_t mix_bits(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9U;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBU;
  return word ^ (word >> 31);
}

/// Value number `index` of the stream that has this key (datasets/random.h).
KMEANS_HOST_DEVICE constexpr std::uint64_t bits_of_stream(std::uint64_t key, std::uint64_t index) {
  return mix_bits(key + (index + 1) * kSplitMixIncrement);
}

/// Numbers one after another; datasets/random.h has those with random access.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() { return mix_bits(state_ += kSplitMixIncrement); }

  /// Multiples of 2^-53 in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// In [0, bound), with a bias below bound / 2^64.
  constexpr std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::uint64_t state_;
};

}  // namespace kmeans
