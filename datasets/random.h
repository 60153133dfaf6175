// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are the same bits on every machine and compiler: a counter-based integer
// generator, and float64 transforms made only of operations that IEEE 754 rounds exactly
// (+ - * / sqrt). Nothing of <random> (its distributions are implementation-defined) and nothing of
// libm. Files that include this are compiled with -ffp-contract=off.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <span>

#include "harness/support/random.h"

namespace kmeans {

static_assert(FLT_EVAL_METHOD == 0, "float64 arithmetic must not be evaluated in excess precision");

/// SplitMix64 with random access: value number `index` of stream `stream` of seed `seed`.
class CounterRandom {
 public:
  constexpr CounterRandom(std::uint64_t seed, std::uint64_t stream)
      : key_(mix_bits(mix_bits(seed + kSplitMixIncrement) + (stream + 1) * kSplitMixIncrement)) {}

  /// 64 uniform bits.
  [[nodiscard]] constexpr std::uint64_t bits(std::uint64_t index) const {
    return bits_of_stream(key_, index);
  }

  [[nodiscard]] constexpr std::uint64_t key() const { return key_; }

  /// Multiples of 2^-53 in [0, 1).
  [[nodiscard]] constexpr double uniform(std::uint64_t index) const {
    return static_cast<double>(static_cast<std::int64_t>(bits(index) >> 11)) * 0x1p-53;
  }

  /// Odd multiples of 2^-53 in (0, 1): symmetric about 1/2, never 0 or 1.
  [[nodiscard]] constexpr double open_uniform(std::uint64_t index) const {
    return (static_cast<double>(static_cast<std::int64_t>(bits(index) >> 12)) + 0.5) * 0x1p-52;
  }

  /// An integer in [0, bound); the bias is below bound / 2^64.
  [[nodiscard]] constexpr std::int64_t below(std::uint64_t index, std::int64_t bound) const {
    const auto product =
        static_cast<unsigned __int128>(bits(index)) * static_cast<std::uint64_t>(bound);
    return static_cast<std::int64_t>(product >> 64);
  }

 private:
  std::uint64_t key_;
};

/// ln(x) for positive normal x, to about one unit in the last place for x not near 1.
double natural_logarithm(double x);

/// The quantile of the standard normal distribution at p in (0, 1): P(Z <= result) = p.
/// Relative error about 1e-15 (Wichura 1988, algorithm AS 241, PPND16).
double normal_quantile(double p);

/// Standard normal values number `first`, `first + 1`, ... of a stream. |value| <= 8.21.
void fill_normal(const CounterRandom& random, std::uint64_t first, std::span<double> values);

}  // namespace kmeans
