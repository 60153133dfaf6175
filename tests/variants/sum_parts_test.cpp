// SPDX-License-Identifier: Apache-2.0
//
// Sums in parts that ranks add each by itself.
#include "implementations/_sum_parts.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "harness/support/random.h"

namespace kmeans {
namespace {

/// What the parts of all ranks come to, added as a call between ranks does; no addition may leave 64 bits.
__int128 added_up(const SumParts& parts, const std::vector<__int128>& of_ranks) {
  constexpr std::int64_t kStride = 3;
  std::array<std::int64_t, 3 * kStride> sums{};
  for (const __int128 sum : of_ranks) {
    std::array<std::int64_t, 3 * kStride> own{};
    parts.split(sum, own.data(), kStride);
    for (std::size_t p = 0; p < own.size(); ++p) {
      EXPECT_FALSE(__builtin_add_overflow(sums[p], own[p], &sums[p]));
    }
  }
  for (std::int64_t p = 0; p < std::ssize(sums); ++p) {
    const bool part = p % kStride == 0 && p / kStride < parts.count();
    EXPECT_TRUE(part || sums[p] == 0) << p;
  }
  return parts.join(sums.data(), kStride);
}

TEST(SumParts, AddUpToTheSumWhateverTheRanksHave) {
  SplitMix64 random(5);
  constexpr __int128 kMost = static_cast<__int128>(1) << 115;
  for (const int ranks : {1, 2, 3, 7, 1000, 1024, 1025, 50000}) {
    const SumParts parts(ranks);
    EXPECT_EQ(parts.count(), ranks <= 1024 ? 2 : 3);
    for (int turn = 0; turn < 12; ++turn) {
      std::vector<__int128> of_ranks;
      __int128 sum = 0;
      for (int r = 0; r < ranks; ++r) {
        auto own = static_cast<__int128>(random.next()) << 64 | random.next();
        own = (own >> 13) / ranks;                         // of both signs, together below 2^115
        if (turn == 1) own = -1;                           // all lower bits
        if (turn == 2) own = (kMost - 1) / ranks;          // the largest
        if (turn == 3) own = -(kMost / ranks);             // the least
        if (turn == 4) own = 0;                            // ranks without a point
        if (turn == 5) own = r % 2 == 0 ? kMost : -kMost;  // which leave nothing
        if (turn == 6) own = (__int128{1} << 53) - 1;      // lower parts full
        if (turn == 7) own = -(__int128{1} << 53);         // and empty
        if (turn == 5 && r % 2 == 0 && r + 1 == ranks) own = 0;
        of_ranks.push_back(own);
        sum += own;
      }
      EXPECT_TRUE(added_up(parts, of_ranks) == sum) << ranks << " ranks, turn " << turn;
    }
  }
}

}  // namespace
}  // namespace kmeans
