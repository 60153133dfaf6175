// SPDX-License-Identifier: Apache-2.0
//
// Do the sanitizers of this build find what they are there for, and keep silent about code that is
// right? Each fault is committed in a process of its own (a "death test").
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "harness/support/build_info.h"

namespace kmeans {
namespace {

class SanitizersTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static bool built_with(const std::string& sanitizer) {
    return build_info().sanitizers.find(sanitizer) != std::string::npos;
  }
};

#define KMEANS_NEEDS(sanitizer) \
  if (!built_with(sanitizer)) GTEST_SKIP() << "built without the sanitizer '" << (sanitizer) << "'"

constexpr int kRounds = 20;
constexpr std::int64_t kValues = 10000;

/// Adds to one number from two threads of OpenMP; with or without a lock.
std::int64_t add_from_two_threads([[maybe_unused]] bool locked) {
  volatile std::int64_t sum = 0;
#ifdef _OPENMP
#pragma omp parallel num_threads(2)
  for (int i = 0; i < 1000; ++i) {
    if (locked) {
#pragma omp critical
      sum = sum + 1;
    } else {
      sum = sum + 1;
    }
  }
#endif
  return sum;
}

TEST_F(SanitizersTest, ThreadFindsARaceBetweenThreadsOfOpenMp) {
  KMEANS_NEEDS("thread");
  EXPECT_DEATH(add_from_two_threads(false), "data race");
}

TEST_F(SanitizersTest, ThreadFindsARaceBetweenStandardThreads) {
  KMEANS_NEEDS("thread");
  const auto race = [] {
    volatile int sum = 0;
    std::thread other([&] {
      for (int i = 0; i < 1000; ++i) sum = sum + 1;
    });
    for (int i = 0; i < 1000; ++i) sum = sum + 1;
    other.join();
  };
  EXPECT_DEATH(race(), "data race");
}

// Without Archer each of these is reported: threads meet inside the runtime, where the sanitizer
// does not look. A report ends the program (TSAN_OPTIONS=halt_on_error=1), so none came.
TEST_F(SanitizersTest, ThreadUnderstandsHowThreadsOfOpenMpMeet) {
#ifndef _OPENMP
  GTEST_SKIP() << "built without OpenMP";
#else
  EXPECT_EQ(add_from_two_threads(true), 2000);
  std::vector<std::int64_t> values(kValues);
  for (int round = 0; round < kRounds; ++round) {
    // Fork and join, static and dynamic shares.
#pragma omp parallel for num_threads(2)
    for (std::int64_t i = 0; i < kValues; ++i) values[static_cast<std::size_t>(i)] = i;
    std::int64_t sum = 0;
#pragma omp parallel for num_threads(2) schedule(dynamic, 100) reduction(+ : sum)
    for (std::int64_t i = 0; i < kValues; ++i) {
      sum += values[static_cast<std::size_t>(kValues - 1 - i)];
    }
    ASSERT_EQ(sum, kValues * (kValues - 1) / 2);
    // A barrier inside a region, and work of one thread that the others read.
    std::int64_t first = 0;
    std::int64_t seen = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp single
      first = round;
#pragma omp for
      for (std::int64_t i = 0; i < kValues; ++i) values[static_cast<std::size_t>(i)] += first;
#pragma omp barrier
#pragma omp master
      seen = std::accumulate(values.begin(), values.end(), std::int64_t{0});
    }
    ASSERT_EQ(seen, sum + round * kValues);
  }
#endif
}

TEST_F(SanitizersTest, AddressFindsAnAccessBeyondTheEnd) {
  KMEANS_NEEDS("address");
  const auto overrun = [] {
    std::vector<float> values(10);
    volatile std::size_t past_the_end = values.size();
    values.data()[past_the_end] = 1;
  };
  EXPECT_DEATH(overrun(), "heap-buffer-overflow");
}

TEST_F(SanitizersTest, AddressFindsALeak) {
  KMEANS_NEEDS("address");
  const auto leak = [] {
    for (int i = 0; i < 100; ++i) {
      void* volatile lost = std::malloc(1000);  // NOLINT(cppcoreguidelines-no-malloc)
      static_cast<void>(lost);
    }
    std::exit(0);
  };
  EXPECT_DEATH(leak(), "detected memory leaks");
}

TEST_F(SanitizersTest, UndefinedFindsAnOverflow) {
  KMEANS_NEEDS("undefined");
  const auto overflow = [] {
    volatile std::int64_t most = std::numeric_limits<std::int64_t>::max();
    most = most + 1;
  };
  EXPECT_DEATH(overflow(), "signed integer overflow");
}

}  // namespace
}  // namespace kmeans
