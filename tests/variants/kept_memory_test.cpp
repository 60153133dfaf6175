// SPDX-License-Identifier: Apache-2.0
//
// Memory that is kept from call to call in other programs: it serves who asks next, never too much is held.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  void SetUp() override {
    memory_.give_back();
    crews_work() = true;
  }
  void TearDown() override {
    crews_work() = false;
    memory_.give_back();
  }
  /// The free bytes after an array of so many has lived.
  std::size_t held_after(std::int64_t bytes) {
    { const AlignedArray<char> array(bytes); }
    return memory_.held();
  }

  KeptMemory& memory_ = KeptMemory::of_process();
};

TEST_F(Kept, ServesWhoAsksNext) {
  const std::size_t held = held_after(kMiB);
  EXPECT_GE(held, kMiB);
  EXPECT_LE(held, 2 * kMiB);  // a huge page
  {
    AlignedArray<float> first(kMiB / 8);
    AlignedArray<float> second(kMiB / 8);
    first[kMiB / 8 - 1] = second[0] = 1;
    EXPECT_LE(memory_.held(), held - kMiB);
  }
  EXPECT_EQ(memory_.held(), held);
}

TEST_F(Kept, JoinsNeighboursWhateverTheOrder) {
  const std::size_t held = held_after(8 * kMiB);
  {
    std::vector<AlignedArray<char>> parts;
    for (int i = 0; i < 7; ++i) parts.emplace_back(kMiB);
    for (const int i : {3, 1, 5, 0, 6, 2, 4}) parts[i] = {};
  }
  EXPECT_EQ(memory_.held(), held);
  const AlignedArray<char> all(8 * kMiB);
  EXPECT_EQ(memory_.held(), held - 8 * kMiB);
}

TEST_F(Kept, JoinsWhatWasMappedApart) {
  const char* first = nullptr;
  const char* second = nullptr;
  {
    const AlignedArray<char> one(4 * kMiB);
    const AlignedArray<char> another(4 * kMiB);
    first = one.data();
    second = another.data();
  }
  if (second + 4 * kMiB != first) GTEST_SKIP() << "this system does not map downwards";
  EXPECT_EQ(memory_.held(), 8 * kMiB);
  const AlignedArray<char> both(8 * kMiB);
  EXPECT_EQ(both.data(), second);
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, NoTwoArraysShareMemory) {
  constexpr std::int64_t kArrays = 40;
  std::vector<AlignedArray<std::int64_t>> arrays(kArrays);
  std::vector<std::int64_t> sizes(kArrays);
  std::uint32_t random = 1;
  for (int turn = 0; turn < 4000; ++turn) {
    random = random * 1664525 + 1013904223;
    const std::int64_t one = (random >> 8) % kArrays;
    for (std::int64_t i = 0; i < sizes[one]; ++i) ASSERT_EQ(arrays[one][i], one);
    const std::int64_t most = turn % 50 == 0 ? kMiB : 20000;
    sizes[one] = turn % 3 == 0 ? 0 : 1 + (random >> 12) % most;
    arrays[one] = AlignedArray<std::int64_t>(sizes[one]);
    std::fill_n(arrays[one].data(), sizes[one], one);
  }
  arrays.clear();
  EXPECT_LE(memory_.held(), KeptMemory::kMost);
}

TEST_F(Kept, ReturnsWhatDoesNotSuit) {
  held_after(4 * kMiB);
  const AlignedArray<char> larger(6 * kMiB);
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, ArraysBeginOnLinesAndLargeOnesOnHugePages) {
  held_after(9 * kMiB);
  const auto rest = [](const auto& array, std::int64_t of) {
    return reinterpret_cast<std::uintptr_t>(array.data()) % of;
  };
  const AlignedArray<char> small(kMiB);
  const AlignedArray<char> another(kMiB);
  const AlignedArray<char> large(6 * kMiB);
  EXPECT_EQ(rest(small, 64), 0U);
  EXPECT_EQ(rest(another, 64), 0U);
  EXPECT_NE(rest(small, 4096), rest(another, 4096));
  EXPECT_EQ(rest(large, 2 * kMiB), 0U);
}

TEST_F(Kept, HoldsNoMoreThanItMay) {
  {
    std::vector<AlignedArray<char>> many;
    for (int i = 0; i < 5; ++i) many.emplace_back(30 * kMiB);
  }
  EXPECT_EQ(memory_.held(), KeptMemory::kMost);
  held_after(129 * kMiB);
  EXPECT_LE(memory_.held(), KeptMemory::kMost);
  memory_.give_back();
  EXPECT_EQ(memory_.held(), 0);
}

TEST_F(Kept, VectorsToo) {
  const std::size_t held = held_after(4 * kMiB);
  {
    KeptVector<double> values(100000, 1.5);
    EXPECT_LT(memory_.held(), held);
    values.resize(110000);
    KeptVector<double> few(3, 2.5);
    const KeptVector<double> moved = std::move(values);
    EXPECT_EQ(moved[99999], 1.5);
    EXPECT_EQ(moved[109999], 0);
    EXPECT_EQ(few[2], 2.5);
  }
  EXPECT_EQ(memory_.held(), held);
}

TEST_F(Kept, LeavesSmallArraysToTheAllocator) { EXPECT_EQ(held_after(kMiB / 64), 0); }

TEST_F(Kept, NothingInTheSuiteItself) {
  crews_work() = false;
  EXPECT_EQ(held_after(kMiB), 0);
}

TEST_F(Kept, AForkedChildHasMemoryOfItsOwn) {
  const std::size_t held = held_after(kMiB);
  auto before = std::make_optional<AlignedArray<char>>(kMiB / 2);
  const std::size_t left = memory_.held();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    before.reset();
    const AlignedArray<char> own(kMiB / 2);
    _exit(memory_.held() == left ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  before.reset();
  EXPECT_EQ(memory_.held(), held);
}

}  // namespace
}  // namespace kmeans::openmp
