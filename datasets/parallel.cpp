// SPDX-License-Identifier: Apache-2.0
#include "datasets/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace kmeans {

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& work) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t ranges = (count - 1) / grain + 1;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::int64_t failed_range = ranges;
  std::exception_ptr failure;

  // Ranges are handed out in ascending order and every started one is finished, so that the lowest
  // failing range is always among those that ran.
  const auto run = [&] {
    while (!failed) {
      const std::int64_t range = next++;
      if (range >= ranges) return;
      try {
        work(range * grain, range + 1 == ranges ? count : (range + 1) * grain);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = true;
        if (range < failed_range) {
          failed_range = range;
          failure = std::current_exception();
        }
      }
    }
  };

  std::vector<std::thread> helpers;
  const auto threads = std::min<std::int64_t>(usable_processors(), ranges);
  helpers.reserve(static_cast<std::size_t>(threads));
  for (std::int64_t helper = 1; helper < threads; ++helper) {
    try {
      helpers.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // No more threads to be had: the ones there are do all the work.
    }
  }
  run();
  for (auto& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kmeans
