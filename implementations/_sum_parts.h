// SPDX-License-Identifier: Apache-2.0
//
// Sums of weighted points have 128 bits (docs/exact-step.md); calls between ranks and between GPUs add 64. So a
// sum travels in parts that are added each by itself: the lower ones are never negative, and so short that as many as
// there are ranks fit into 64 bits; the last one has the rest, with the sign.
#pragma once

#include <cstdint>

#include "harness/support/random.h"  // KMEANS_HOST_DEVICE

namespace kmeans {

class SumParts {
 public:
  /// No sum of a rank, of some ranks or of all is beyond 2^115: weights add up to at most 2^53, coordinates are at most
  /// 2^62.
  explicit constexpr SumParts(int ranks = 1)
      : count_(ranks <= 1024 ? 2 : 3), bits_(ranks <= 1024 ? 53 : 40) {}

  /// Integers that a sum takes.
  [[nodiscard]] KMEANS_HOST_DEVICE constexpr int count() const { return count_; }

  /// Part p goes to, or is at, parts[p * stride].
  KMEANS_HOST_DEVICE constexpr void split(__int128 sum, std::int64_t* parts,
                                          std::int64_t stride) const {
    for (int p = 0; p + 1 < count_; ++p, sum >>= bits_) {
      parts[p * stride] = static_cast<std::int64_t>(sum) & ((std::int64_t{1} << bits_) - 1);
    }
    parts[(count_ - 1) * stride] = static_cast<std::int64_t>(sum);
  }
  [[nodiscard]] KMEANS_HOST_DEVICE constexpr __int128 join(const std::int64_t* parts,
                                                           std::int64_t stride) const {
    __int128 sum = parts[(count_ - 1) * stride];
    for (int p = count_ - 2; p >= 0; --p) sum = (sum << bits_) + parts[p * stride];
    return sum;
  }

 private:
  int count_;
  int bits_;  // of all parts but the last
};

}  // namespace kmeans
