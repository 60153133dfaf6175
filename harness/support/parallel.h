// SPDX-License-Identifier: Apache-2.0
//
// Work over blocks of a fixed size, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kmeans {

inline constexpr std::int64_t kBlock = 4096;

/// Number of blocks of kBlock that cover n.
inline std::int64_t block_count(std::int64_t n) { return (n + kBlock - 1) / kBlock; }

/// Calls work(part) for every part of [0, parts), on up to `threads` threads. The first exception
/// is passed on.
template <class Work>
void for_each_part(std::int64_t parts, int threads, const Work& work) {
  const auto used =
      static_cast<int>(std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(1, parts)));
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto run = [&] {
    try {
      for (std::int64_t p = next.fetch_add(1); p < parts; p = next.fetch_add(1)) work(p);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  };
  if (used == 1) {
    run();
  } else {
    std::vector<std::thread> team;
    for (int i = 1; i < used; ++i) team.emplace_back(run);
    run();
    for (auto& member : team) member.join();
  }
  if (failure) std::rethrow_exception(failure);
}

/// Calls work(block, begin, end) for every block of [0, n), on up to `threads` threads. The first
/// exception is passed on.
template <class Work>
void for_blocks(std::int64_t n, int threads, const Work& work) {
  for_each_part(block_count(n), threads, [&](std::int64_t block) {
    work(block, block * kBlock, std::min(n, (block + 1) * kBlock));
  });
}

}  // namespace kmeans
