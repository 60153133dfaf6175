// SPDX-License-Identifier: Apache-2.0
#include "implementations/cuda/_upload_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using kmeans::cuda::UploadThreads;

TEST(UploadThreads, WorkIsDoneAtTheSameTimeByTheSameThreadsAgain) {
  UploadThreads& threads = *new UploadThreads(3);  // its threads never end
  std::mutex mutex;
  std::set<std::thread::id> seen;
  for (int round = 0; round < 20; ++round) {
    std::barrier all_are_there(4);  // else this waits for ever
    threads.call(3, [&] {
      all_are_there.arrive_and_wait();
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(seen.size(), 4);
}

TEST(UploadThreads, ItEndsAfterAllThatHasBegunAndNothingBeginsLater) {
  UploadThreads& threads = *new UploadThreads(3);
  std::atomic<int> at_work{0};
  std::atomic<bool> over{false};
  std::atomic<int> late{0};
  for (int round = 0; round < 2000; ++round) {
    over = false;
    threads.call(3, [&] {
      ++at_work;
      if (over) ++late;
      std::this_thread::yield();
      --at_work;
    });
    EXPECT_EQ(at_work, 0);
    over = true;
    std::this_thread::yield();
  }
  EXPECT_EQ(late, 0);
}

TEST(UploadThreads, WhoFindsAllThreadsTakenDoesTheWorkAlone) {
  UploadThreads& threads = *new UploadThreads(2);
  std::barrier taken(4);
  std::latch free_again(1);
  std::jthread first([&] {
    threads.call(2, [&] {
      taken.arrive_and_wait();
      free_again.wait();
    });
  });
  taken.arrive_and_wait();  // two others and the first caller
  int calls = 0;
  const auto caller = std::this_thread::get_id();
  threads.call(2, [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  free_again.count_down();
}

TEST(UploadThreads, JobsAtTheSameTimeHaveThreadsOfTheirOwn) {
  UploadThreads& threads = *new UploadThreads(9);
  std::barrier all_are_there(12);  // three jobs of four, else this waits for ever
  const auto work = [&] { all_are_there.arrive_and_wait(); };
  std::jthread first([&] { threads.call(3, work); });
  std::jthread second([&] { threads.call(3, work); });
  threads.call(3, work);
}

TEST(UploadThreads, AnExceptionIsPassedOnAndThreadsGoOn) {
  UploadThreads& threads = *new UploadThreads(3);
  EXPECT_THROW(threads.call(3, [] { throw std::runtime_error("of a piece"); }), std::runtime_error);
  std::barrier all_are_there(4);
  threads.call(3, [&] { all_are_there.arrive_and_wait(); });
}

}  // namespace
