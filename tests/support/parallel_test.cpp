// SPDX-License-Identifier: Apache-2.0
//
// Work in parts, for whose threads nobody waits who need not, and memory that goes back.
#include "harness/support/parallel.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/support/own_pages.h"

namespace kmeans {
namespace {

TEST(ForEachPart, DoesEachPartOnce) {
  for (const int threads : {1, 2, 7}) {
    for (const int parts : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> times(parts);
      for_each_part(parts, threads, [&](std::int64_t part) { ++times[part]; });
      for (const auto& one : times) EXPECT_EQ(one, 1) << threads << ' ' << parts;
    }
  }
}

TEST(ForEachPart, PassesOnTheErrorOfTheLowestPart) {
  for (const int threads : {1, 2, 7}) {
    try {
      for_each_part(100, threads, [](std::int64_t part) {
        if (part >= 20) throw std::runtime_error(std::to_string(part));
      });
      FAIL() << threads;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), std::string("20")) << threads;
    }
  }
}

TEST(Gathering, WaitsForThoseInsideAndLetsNobodyInAfterwards) {
  Gathering gathering;
  ASSERT_TRUE(gathering.enter());
  std::atomic<bool> done = false;
  std::thread helper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    done = true;
    gathering.leave();
  });
  gathering.end();
  EXPECT_TRUE(done);
  EXPECT_FALSE(gathering.enter());
  helper.join();
}

TEST(WorthThreads, AreOneAtLeastAndNoMoreThanThereAre) {
  EXPECT_EQ(worth_threads(0, 100, 4), 1);
  EXPECT_EQ(worth_threads(199, 100, 4), 1);
  EXPECT_EQ(worth_threads(200, 100, 4), 2);
  EXPECT_EQ(worth_threads(1e18, 100, 4), 4);
  EXPECT_EQ(worth_threads(1e18, 100, 0), 1);
}

TEST(LargeVector, GivesItsPagesBack) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::uintptr_t middle = 0;
  unsigned char resident = 0;
  const auto is_there = [&] {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return mincore(reinterpret_cast<void*>(middle), 1, &resident) == 0 || errno != ENOMEM;
  };
  {
    LargeVector<double> large(3 << 20, 1.0);
    middle = reinterpret_cast<std::uintptr_t>(large.data() + large.size() / 2) / page * page;
    EXPECT_TRUE(is_there());
    LargeVector<double> small(3, 2.0);
    small.insert(small.end(), large.begin(), large.end());
    EXPECT_EQ(small[2] + small[3], 3);
  }
  EXPECT_FALSE(is_there());
}

}  // namespace
}  // namespace kmeans
