// SPDX-License-Identifier: Apache-2.0
//
// Memory that is kept from call to call in other programs: who asks for as much gets it again, never too much is held.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "harness/support/crews_work.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_kept_memory.h"

namespace kmeans::openmp {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class Kept : public testing::Test {
 protected:
  void SetUp() override { crews_work() = true; }
  void TearDown() override {
    memory_.give_back();
    crews_work() = false;
  }
  /// Of an array that lived.
  static const char* freed(std::int64_t bytes) { return AlignedArray<char>(bytes).data(); }

  KeptMemory& memory_ = KeptMemory::of_process();
};

TEST_F(Kept, ServesWhoAsksForAsMuchOrHalfAsMuch) {
  const char* const first = freed(kMiB);
  EXPECT_EQ(memory_.held(), kMiB);
  {
    AlignedArray<float> again(kMiB / 4);
    EXPECT_EQ(static_cast<void*>(again.data()), first);
    EXPECT_EQ(memory_.held(), 0);
  }
  EXPECT_EQ(freed(kMiB / 2), first);
  EXPECT_EQ(memory_.held(), kMiB);  // all of it
}

TEST_F(Kept, TakesTheSmallestThatSuits) {
  {
    const AlignedArray<char> large(3 * kMiB);
    const AlignedArray<char> small(2 * kMiB);
  }
  const AlignedArray<char> taken(2 * kMiB - 64);
  EXPECT_EQ(memory_.held(), 3 * kMiB);
}

TEST_F(Kept, MakesPlaceForWhatItCannotServe) {
  freed(kMiB);
  const AlignedArray<char> larger(kMiB + 64);
  EXPECT_EQ(memory_.held(), 0);
  freed(kMiB);
  const AlignedArray<char> much_smaller(kMiB / 2 - 64);
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, LargeArraysBeginOnHugePages) {
  freed(8 * kMiB);
  AlignedArray<char> large(6 * kMiB);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % (2 * kMiB), 0U);
}

TEST_F(Kept, HoldsNoMoreThanItMay) {
  {
    std::vector<AlignedArray<char>> many;
    for (int i = 0; i < 5; ++i) many.emplace_back(30 * kMiB);
  }
  EXPECT_EQ(memory_.held(), 120 * kMiB);
  freed(129 * kMiB);
  EXPECT_LE(memory_.held(), 120 * kMiB);
  memory_.give_back();
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, LeavesSmallArraysToTheAllocator) {
  freed(kMiB / 8);
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, NothingInTheSuiteItself) {
  crews_work() = false;
  freed(kMiB);
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, AForkedChildHasMemoryOfItsOwn) {
  const char* const first = freed(kMiB);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(AlignedArray<char>(kMiB).data() != first ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory_.held(), kMiB);
}

}  // namespace
}  // namespace kmeans::openmp
