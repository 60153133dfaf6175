// SPDX-License-Identifier: Apache-2.0
#include "harness/record/refusals.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kmeans {
namespace {

Shape shape(std::int64_t n, std::int64_t d, std::int64_t k) { return {n, d, k, Precision::f32}; }

bool refuses(const Refusals& refusals, std::int64_t n, std::int64_t d, std::int64_t k) {
  return !refusals.reason_against(shape(n, d, k)).empty();
}

TEST(Refusals, OfCoordinatesLieBeyondThoseThatItTook) {
  Refusals two;
  for (const std::int64_t d : {1, 3, 16})
    two.add(shape(10, d, 2), "d = " + std::to_string(d) + ": x");
  two.close({2});
  EXPECT_FALSE(refuses(two, 10, 2, 2));
  EXPECT_TRUE(refuses(two, 10, 1, 2));
  EXPECT_TRUE(refuses(two, 10, 3, 2));
  EXPECT_EQ(two.reason_against(shape(10, 5, 2)), "d = 5: it refused 3");
}

TEST(Refusals, AReasonThatNamesTheMostSaysMoreThanItsCell) {
  Refusals most;
  most.add(shape(10, 100, 2), "d = 100 exceeds 32 coordinates that a thread keeps in registers");
  most.close({3, 24});
  EXPECT_FALSE(refuses(most, 10, 32, 2));
  EXPECT_TRUE(refuses(most, 10, 33, 2));
}

TEST(Refusals, OfClustersHoldFromSoManyCoordinatesOn) {
  Refusals wide;
  wide.add(shape(10, 128, 1024), "d = 128, k = 1024: registers hold at most ...");
  wide.add(shape(10, 3, 2000), "d = 3, k = 2000: registers hold at most ...");
  wide.close({3, 64});
  EXPECT_FALSE(refuses(wide, 10, 128, 256)) << "not for its coordinates alone";
  EXPECT_FALSE(refuses(wide, 10, 64, 1024));
  EXPECT_TRUE(refuses(wide, 10, 200, 1024));
  EXPECT_TRUE(refuses(wide, 10, 3, 2000));
  Refusals streams;
  streams.add(shape(10, 3, 20000), "k = 20000: a stream for every cluster");
  streams.close({3});
  EXPECT_TRUE(refuses(streams, 10, 1, 20000));
  EXPECT_FALSE(refuses(streams, 10, 100, 19999));
}

std::string no_room(std::int64_t bytes) {
  return "points, centroids and sums need " + std::to_string(bytes) +
         " bytes of shared memory on each of 132 multiprocessors, and there are 232448";
}

/// As results/nvidia-h200 has them, of cuda_resident.
TEST(Refusals, OfWhatDoesNotFitOnTheChipHoldForAllThatNeedsMore) {
  Refusals chip;
  chip.add(shape(500000, 3, 20000), no_room(1668236));
  chip.add(shape(1048576, 32, 256), no_room(1232484));
  chip.add(shape(16777216, 16, 64), no_room(8918626));
  chip.close({2, 3});
  // What such a GPU took and refused at other times.
  EXPECT_FALSE(refuses(chip, 500000, 3, 1000));
  EXPECT_FALSE(refuses(chip, 150000, 24, 16));
  EXPECT_FALSE(refuses(chip, 1000000, 2, 100));
  EXPECT_TRUE(refuses(chip, 150000, 24, 1000));
  EXPECT_TRUE(refuses(chip, 1000000, 12, 30));
  EXPECT_TRUE(refuses(chip, 1000000, 2, 4096));
  EXPECT_TRUE(refuses(chip, 4000000, 3, 8)) << "no coordinate nor cluster more than it took";
  EXPECT_EQ(chip.reason_against(shape(16777216, 16, 64)),
            "needs about 8.41 MiB on each of 132 multiprocessors, that GPU has 227 KiB");
}

TEST(Refusals, WhatIsNotOfTheShapeRefusesNothing) {
  Refusals none;
  for (const char* reason :
       {"left out by the experiment: n k d = 1e+12 is more than 1.5e+11",
        "needs 9.45 GiB of GPU memory, has 4 GiB", "Python 3.12.3 lacks cuvs-cu13", "",
        "d = 7: said of another shape", "d = ", "d = x", "k = -3: x",
        "points, centroids and sums need 1 bytes of shared memory on each of no multiprocessors"}) {
    none.add(shape(1000, 10, 10), reason);
  }
  none.close({2});
  EXPECT_FALSE(refuses(none, 1000000000, 4096, 100000));
  EXPECT_EQ(none.numbers().dump(), R"({"chip":null,"d":[0,0],"dk":[]})");
}

}  // namespace
}  // namespace kmeans
