// SPDX-License-Identifier: Apache-2.0
//
// How the threads of a team wait for each other: nobody passes alone, and whoever waits for long sleeps.
#include <gtest/gtest.h>

#include <pthread.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "implementations/openmp/_barrier.h"
#include "implementations/openmp/_crew.h"

namespace kmeans::openmp {
namespace {

using std::chrono::milliseconds;

/// Nanoseconds of a processor that the calling thread has had.
std::int64_t own_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

TEST(Patience, IsLongUntilItFailsAndThenShortForTwiceAsManyWaitsEachTime) {
  Patience patience;
  for (int wait = 0; wait < 1000; ++wait) {
    ASSERT_EQ(patience.nanoseconds(), Patience::kLong);
    patience.spun();
  }
  for (int stretch = Patience::kShortest; stretch <= Patience::kLongest; stretch *= 2) {
    ASSERT_EQ(patience.nanoseconds(), Patience::kLong);
    patience.failed();
    for (int wait = 0; wait < stretch; ++wait) {
      ASSERT_EQ(patience.nanoseconds(), Patience::kShort) << stretch << ' ' << wait;
      wait % 2 == 0 ? patience.spun() : patience.failed();
    }
  }
}

TEST(Patience, IsNoneWhileShortWaitsAreInVain) {
  Patience patience;
  patience.failed();
  for (int turn = 0; turn < 3; ++turn) {
    for (int wait = 0; wait < Patience::kOnOneCore; ++wait) {
      ASSERT_EQ(patience.nanoseconds(), Patience::kShort) << wait;
      patience.failed();
    }
    ASSERT_EQ(patience.nanoseconds(), 0);
    patience.failed();
    ASSERT_EQ(patience.nanoseconds(), 0);
    patience.spun();
  }
  ASSERT_EQ(patience.nanoseconds(), Patience::kShort);
  for (int wait = 3 * (Patience::kOnOneCore + 2); wait < Patience::kShortest; ++wait) {
    patience.failed();
  }
  EXPECT_EQ(patience.nanoseconds(), Patience::kLong);
}

TEST(Patience, ForgetsOnceAsManyLongWaitsHaveBeenGood) {
  Patience patience;
  const auto pass = [&](int waits) {
    for (int wait = 0; wait < waits; ++wait) patience.spun();
  };
  patience.failed();
  pass(Patience::kShortest);
  patience.failed();
  pass(2 * Patience::kShortest);
  pass(4 * Patience::kShortest - 1);  // one too few
  patience.failed();
  pass(4 * Patience::kShortest - 1);
  EXPECT_EQ(patience.nanoseconds(), Patience::kShort);
  pass(1 + 8 * Patience::kShortest);
  patience.failed();
  pass(Patience::kShortest);
  EXPECT_EQ(patience.nanoseconds(), Patience::kLong);
}

/// With another process on every core, each wait may fail.
TEST(Patience, OfWaitsThatAllFailFewAreLong) {
  Patience patience;
  int many = 0;
  for (int wait = 0; wait < 20000; ++wait) {
    many += patience.nanoseconds() == Patience::kLong ? 1 : 0;
    patience.failed();
  }
  EXPECT_LE(many, 10);
}

TEST(Barrier, NobodyPassesBeforeAllAreThere) {
  Barrier barrier;
  for (const int threads : {1, 2, 5, 3}) {
    constexpr int kRounds = 2000;
    std::vector<int> rounds(threads, 0);  // written before a wait, read after it
    std::vector<int> wrong(threads, 0);
    const auto work = [&](int thread) {
      for (int round = 1; round <= kRounds; ++round) {
        rounds[thread] = round;
        barrier.wait(threads);
        for (const int other : rounds) wrong[thread] += other != round ? 1 : 0;
        barrier.wait(threads);
      }
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
    for (auto& other : others) other.join();
    for (int thread = 0; thread < threads; ++thread) EXPECT_EQ(wrong[thread], 0) << threads;
  }
}

/// By the waiting thread's own clock, which a neighbour does not move.
TEST(Barrier, WhoWaitsForLongSleeps) {
  constexpr int kWaits = 5;
  Barrier barrier;
  std::int64_t spent = 0;
  std::thread waits([&] {
    const std::int64_t begin = own_time();
    for (int wait = 0; wait < kWaits; ++wait) barrier.wait(2);
    spent = own_time() - begin;
  });
  for (int wait = 0; wait < kWaits; ++wait) {
    std::this_thread::sleep_for(milliseconds(60));
    barrier.wait(2);
  }
  waits.join();
  // One wait is long, the others are short; a system may count in ticks of some milliseconds.
  EXPECT_LE(spent, 10 * Patience::kLong) << "of 300 ms";
}

TEST(Crew, EachThreadIsCalledOnceBeforeItGoesOn) {
  Crew crew;
  for (int round = 0; round < 2000; ++round) {
    const int threads = 1 + round * 7 % 6;
    std::array<std::atomic<int>, 6> calls{};
    crew.run(threads,
             [&](int thread, int present) { calls[thread] += present == threads ? 1 : 100; });
    for (int thread = 0; thread < 6; ++thread) {
      ASSERT_EQ(calls[thread], thread < threads ? 1 : 0) << round << ' ' << threads;
    }
  }
}

TEST(Crew, IsOfTheThreadThatCallsAndSleepsBetweenCalls) {
  const Crew* first = &Crew::own();
  const Crew* other = nullptr;
  std::thread([&] { other = &Crew::own(); }).join();
  EXPECT_EQ(first, &Crew::own());
  EXPECT_NE(first, other);
  std::array<clockid_t, 4> clocks{};
  Crew::own().run(4,
                  [&](int thread, int) { pthread_getcpuclockid(pthread_self(), &clocks[thread]); });
  const auto spent = [&] {
    std::int64_t sum = 0;
    for (int thread = 1; thread < 4; ++thread) {
      timespec time{};
      clock_gettime(clocks[thread], &time);
      sum += std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
    }
    return sum;
  };
  const std::int64_t before = spent();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LE(spent() - before, 30'000'000) << "of 600 ms";
}

}  // namespace
}  // namespace kmeans::openmp
