// SPDX-License-Identifier: Apache-2.0
//
// Seeds by the fast passes are those by the plain ones, on problems of every kind, with any number of
// threads.
#include <gtest/gtest.h>

#include <cstdint>

#include "datasets/plus_plus.h"
#include "datasets/ward.h"
#include "harness/support/faster_seeding.h"
#include "harness/verify/ranked_seeding.h"
#include "tests/variants/random_seeding.h"
#include "tests/variants/thread_ranks.h"

namespace kmeans {
namespace {

TEST(SeedDistancesTest, FastPassesGiveTheSeedsOfPlainOnes) {
  if (faster_seeding().distances == nullptr) GTEST_SKIP() << "this build has plain passes alone";
  for (std::uint64_t number = 0; number < 500; ++number) {
    RandomSeeding seeding(number);
    const auto plain = plain_seed_distances(seeding.problem);
    const auto right = plus_plus_rows(seeding.problem, seeding.k, number, *plain);
    for (const int threads : {1, 2, 7}) {
      if (threads > 1 && number % 10 != 0) continue;  // below 4096 points one thread does it all
      seeding.problem.threads = threads;
      const auto fast = faster_seeding().distances(seeding.problem);
      ASSERT_EQ(plus_plus_rows(seeding.problem, seeding.k, number, *fast), right)
          << seeding.what << ", " << threads << " threads";
    }
  }
}

TEST(SeedDistancesTest, RanksChooseTheSameSeeds) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    const RandomSeeding seeding(number);
    const auto& whole = seeding.problem;
    const auto right = plus_plus_rows(whole, seeding.k, number);
    const auto merged = ward_centroids(whole, seeding.k, number);
    for (const int size : {1, 2, 3, 7}) {
      ThreadRanks all(size);
      all.run([&](Communicator& ranks) {
        const std::int64_t first = first_row(whole.n, ranks.rank(), size);
        SeedingProblem<float> own = whole;
        own.points += first * whole.d;
        own.n = first_row(whole.n, ranks.rank() + 1, size) - first;
        if (own.weights != nullptr) own.weights += first;
        const auto own_board = seed_distances(own);
        RankedBoard<float> board(ranks, *own_board, first, whole.d);
        EXPECT_EQ(plus_plus_rows(whole, seeding.k, number, board), right)
            << seeding.what << ", rank " << ranks.rank() << " of " << size;
        if (seeding.k > 200) return;  // each rank merges all cells
        const auto again = seed_distances(own);
        RankedBoard<float> second(ranks, *again, first, whole.d);
        const auto centroids = ward_centroids(whole, seeding.k, number, second);
        EXPECT_TRUE(centroids.empty() || centroids == merged) << seeding.what;
      });
    }
  }
}

}  // namespace
}  // namespace kmeans
