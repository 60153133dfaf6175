// SPDX-License-Identifier: Apache-2.0
//
// Memory from call to call, where the variants are in another program: what the system gives is cleared page by page
// when it is first written, which takes as long as several iterations of a small problem.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "harness/support/crews_work.h"

namespace kmeans::openmp {

/// Memory of std::aligned_alloc().
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// Blocks that were freed, for who asks for as much again. One that does not suit makes place for what is asked of the
/// system, so a call's peak is hardly higher than if nothing were kept.
class KeptMemory {
 public:
  static constexpr std::size_t kMost = std::size_t{128} << 20;  ///< Bytes of all.
  static constexpr std::size_t kFewest = std::size_t{256}
                                         << 10;  ///< Of one: smaller ones the allocator keeps.

  /// Never destroyed, since others may still give blocks back then.
  static KeptMemory& of_process() {
    static auto* const kept = new KeptMemory;
    return *kept;
  }

  /// A block of at least so many bytes, and at most twice as many; or none. `alignment`: a power of two.
  Block take(std::size_t bytes, std::size_t alignment) {
    if (bytes < kFewest || !at_work()) return {};
    const std::lock_guard lock(mutex_);
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      const bool suits = block->bytes >= bytes && block->bytes <= 2 * bytes &&
                         reinterpret_cast<std::uintptr_t>(block->data) % alignment == 0;
      if (suits && (best == blocks_.end() || block->bytes < best->bytes)) best = block;
    }
    if (best == blocks_.end()) {
      free_oldest(bytes);
      return {};
    }
    const Block taken = *best;
    blocks_.erase(best);
    held_ -= taken.bytes;
    return taken;
  }

  /// Keeps or frees it.
  void give(Block block) {
    if (block.bytes < kFewest || block.bytes > kMost || !at_work()) return std::free(block.data);
    const std::lock_guard lock(mutex_);
    const std::size_t all = held_ + block.bytes;
    if (all > kMost) free_oldest(all - kMost);
    blocks_.push_back(block);
    held_ += block.bytes;
  }

  /// Frees all, for other programs too.
  void give_back() {
    if (process_ != ::getpid()) return;
    const std::lock_guard lock(mutex_);
    free_oldest(held_);
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
  }

  /// Bytes.
  [[nodiscard]] std::size_t held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  /// Not in a forked child, where another thread may have had the lock for ever.
  [[nodiscard]] bool at_work() const { return crews_work() && process_ == ::getpid(); }

  void free_oldest(std::size_t bytes) {
    std::size_t freed = 0;
    auto block = blocks_.begin();
    for (; block != blocks_.end() && freed < bytes; ++block) {
      freed += block->bytes;
      std::free(block->data);
    }
    blocks_.erase(blocks_.begin(), block);
    held_ -= freed;
  }

  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::vector<Block> blocks_;  // the oldest first
  std::size_t held_ = 0;
};

}  // namespace kmeans::openmp
