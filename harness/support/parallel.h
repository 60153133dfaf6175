// SPDX-License-Identifier: Apache-2.0
//
// Work over parts of a fixed size, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace kmeans {

inline constexpr std::int64_t kBlock = 4096;

/// Number of blocks of kBlock that cover n.
inline std::int64_t block_count(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

/// Processors that this process may use (its affinity mask), at least 1.
int usable_processors();

/// Threads that so much work is worth: at least one, and one more for each time that it is `of_one`, which takes as
/// long as starting a thread.
inline int worth_threads(double work, double of_one, int threads) {
  return static_cast<int>(std::clamp(work / of_one, 1.0, std::max(1.0, 1.0 * threads)));
}

/// Who is at a piece of work. Helpers that the system has not run before it is over stay out, so nobody waits for
/// them: next to a busy process a new thread may wait some milliseconds for a core.
class Gathering {
 public:
  /// False: it is over.
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (!over_) ++inside_;
    return !over_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_one();
  }
  /// Waits for those inside.
  void end() {
    std::unique_lock lock(mutex_);
    over_ = true;
    empty_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ = 0;
  bool over_ = false;
};

/// Calls work(part) for every part of [0, parts), on up to `threads` threads. When calls throw, the
/// exception of the lowest part is passed on, whatever the number of threads.
template <class Work>
void for_each_part(std::int64_t parts, int threads, const Work& work) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::int64_t failed_part = parts;
  std::exception_ptr failure;

  // Parts are handed out in ascending order and every started one is finished, so that the lowest
  // failing part is always among those that ran.
  const auto run = [&] {
    while (!failed) {
      const std::int64_t part = next.fetch_add(1);
      if (part >= parts) return;
      try {
        work(part);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = true;
        if (part < failed_part) {
          failed_part = part;
          failure = std::current_exception();
        }
      }
    }
  };

  const std::int64_t wanted = std::min<std::int64_t>(threads, parts);
  const auto gathering = wanted > 1 ? std::make_shared<Gathering>() : nullptr;
  for (std::int64_t helper = 1; helper < wanted; ++helper) {
    try {
      std::thread([&run, gathering] {
        if (!gathering->enter()) return;  // then `run` is no more
        run();
        gathering->leave();
      }).detach();
    } catch (const std::system_error&) {
      break;  // No more threads to be had: the ones there are do all the work.
    }
  }
  run();
  if (gathering != nullptr) gathering->end();
  if (failure) std::rethrow_exception(failure);
}

/// Calls work(block, begin, end) for every block of [0, n), as for_each_part does.
template <class Work>
void for_blocks(std::int64_t n, int threads, const Work& work) {
  for_each_part(block_count(n), threads, [&](std::int64_t block) {
    work(block, block * kBlock, std::min(n, (block + 1) * kBlock));
  });
}

/// Calls work(begin, end) for consecutive ranges of at most `grain` that cover [0, count), on all
/// usable processors, as for_each_part does. Ranges depend on count and grain alone.
template <class Work>
void parallel_ranges(std::int64_t count, std::int64_t grain, const Work& work) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t ranges = (count - 1) / grain + 1;
  for_each_part(ranges, usable_processors(), [&](std::int64_t range) {
    work(range * grain, range + 1 == ranges ? count : (range + 1) * grain);
  });
}

}  // namespace kmeans
