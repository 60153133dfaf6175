// SPDX-License-Identifier: Apache-2.0
//
// Memory from call to call, where the variants are in another program: what the system gives is cleared page by page
// when it is first written, which takes as long as several iterations of a small problem.
#pragma once

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "harness/support/crews_work.h"

namespace kmeans::openmp {

/// Some memory.
struct Block {
  void* data = nullptr;
  std::byte* begin = nullptr;  ///< Of the pages that it is on; null: it is std::aligned_alloc()'s.
  std::size_t bytes = 0;       ///< Of these pages.
};

/// Pages that are free, for who asks next. Neighbours are joined, so what one family leaves serves another whose arrays
/// have other sizes. Where none suits, free ones are returned for those that the system gives: a call's peak is hardly
/// higher than if nothing were kept.
class KeptMemory {
 public:
  static constexpr std::size_t kMost = std::size_t{128} << 20;  ///< Bytes free.
  /// Bytes of a block: smaller ones the allocator keeps.
  static constexpr std::size_t kFewest = std::size_t{32} << 10;
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  /// Never destroyed, since others may still give blocks back then. Without a lock, which a forked child might find
  /// taken for ever.
  static KeptMemory& of_process() {
    KeptMemory* there = made_.load(std::memory_order_acquire);
    if (there != nullptr) return *there;
    auto own = std::make_unique<KeptMemory>();
    return made_.compare_exchange_strong(there, own.get()) ? *own.release() : *there;
  }

  /// `alignment`: kLine or kHugePage, of which `bytes` is a multiple. Throws std::bad_alloc.
  Block take(std::size_t bytes, std::size_t alignment) {
    for (const bool again : {false, true}) {
      const bool kept = bytes >= kFewest && at_work();
      const Block block =
          kept ? take_pages(bytes, alignment) : Block{.data = std::aligned_alloc(alignment, bytes)};
      if (block.data != nullptr) return block;
      if (!again) give_back();
    }
    throw std::bad_alloc();
  }

  void give(const Block& block) {
    if (block.begin == nullptr) return std::free(block.data);
    if (process_ != ::getpid() || block.bytes > kMost) {
      munmap(block.begin, block.bytes);
      return;
    }
    const std::lock_guard lock(mutex_);
    try {
      join(block.begin, block.bytes);
    } catch (const std::bad_alloc&) {
      munmap(block.begin, block.bytes);
    }
    while (held_ > kMost) unmap_largest(rounded(held_ - kMost, kHugePage));
  }

  /// Returns all to the system, for other programs too.
  void give_back() {
    if (process_ != ::getpid()) return;
    {
      const std::lock_guard lock(mutex_);
      while (!free_.empty()) unmap_largest();
      next_place_ = 0;
    }
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
  }

  /// Free bytes.
  [[nodiscard]] std::size_t held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  using Ranges = std::map<std::byte*, std::size_t>;

  /// Not in a forked child, where another thread may have had the lock for ever.
  [[nodiscard]] bool at_work() const { return crews_work() && process_ == ::getpid(); }

  /// Arrays that are read together begin at different places in their pages: else they would meet in the same lines of
  /// the caches.
  Block take_pages(std::size_t bytes, std::size_t alignment) {
    const std::lock_guard lock(mutex_);
    constexpr std::size_t kPlaces = 16;
    const std::size_t place = alignment == kHugePage ? 0 : next_place_++ % kPlaces * 4 * kLine;
    const std::size_t wanted = rounded(bytes + place, page_);
    auto best = best_of(wanted, alignment);
    if (best == free_.end()) {
      for (std::size_t before = held_; !free_.empty() && before - held_ < wanted;) unmap_largest();
      const std::size_t all = rounded(wanted, kHugePage);
      std::byte* const fresh = map(all);
      if (fresh == nullptr) return {};
      try {
        join(fresh, all);
      } catch (const std::bad_alloc&) {
        munmap(fresh, all);
        return {};
      }
      best = best_of(wanted, alignment);
    }
    std::byte* const begin = aligned(best->first, alignment);
    cut(best, begin, wanted);
    return {begin + place, begin, wanted};
  }

  [[nodiscard]] Ranges::iterator best_of(std::size_t bytes, std::size_t alignment) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const auto gap = static_cast<std::size_t>(aligned(range->first, alignment) - range->first);
      const bool suits = range->second >= gap + bytes;
      if (suits && (best == free_.end() || range->second < best->second)) best = range;
    }
    return best;
  }

  /// From a huge page on, the last of those mapped: where the system maps downwards, next to the pages before. Null:
  /// there is no memory.
  static std::byte* map(std::size_t bytes) {
    void* const data = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(data);
    std::byte* const first = aligned(begin + 1, kHugePage);
    munmap(begin, first - begin);
    if (first < begin + kHugePage) munmap(first + bytes, begin + kHugePage - first);
    return first;
  }

  void join(std::byte* begin, std::size_t bytes) {
    auto range = free_.emplace(begin, bytes).first;
    held_ += bytes;
    if (const auto next = std::next(range); next != free_.end() && begin + bytes == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) return;
    const auto before = std::prev(range);
    if (before->first + before->second != begin) return;
    before->second += range->second;
    free_.erase(range);
  }

  void cut(Ranges::iterator range, std::byte* begin, std::size_t bytes) {
    const auto gap = static_cast<std::size_t>(begin - range->first);
    const std::size_t behind = range->second - gap - bytes;
    if (behind > 0) free_.emplace(begin + bytes, behind);
    held_ -= bytes;
    range->second = gap;
    if (gap == 0) free_.erase(range);
  }

  /// Its last bytes, at most so many.
  void unmap_largest(std::size_t most = SIZE_MAX) {
    const auto smaller = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto range = std::max_element(free_.begin(), free_.end(), smaller);
    const std::size_t bytes = std::min(most, range->second);
    range->second -= bytes;
    held_ -= bytes;
    munmap(range->first + range->second, bytes);
    if (range->second == 0) free_.erase(range);
  }

  static std::size_t rounded(std::size_t bytes, std::size_t to) {
    return (bytes + to - 1) / to * to;
  }
  static std::byte* aligned(std::byte* address, std::size_t to) {
    return address + (to - reinterpret_cast<std::uintptr_t>(address) % to) % to;
  }

  const pid_t process_ = ::getpid();
  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::mutex mutex_;
  Ranges free_;
  std::size_t held_ = 0;
  std::size_t next_place_ = 0;
  static inline std::atomic<KeptMemory*> made_{nullptr};
};

/// Of std::vector, for what may be large.
template <class T>
struct KeptAllocator {
  using value_type = T;
  static_assert(alignof(T) <= KeptMemory::kLine && sizeof(Block) <= KeptMemory::kLine);

  KeptAllocator() = default;
  template <class U>
  KeptAllocator(const KeptAllocator<U>& /*other*/) {}  // NOLINT: as allocators convert

  T* allocate(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + KeptMemory::kLine - 1) / KeptMemory::kLine;
    const Block block =
        KeptMemory::of_process().take((bytes + 1) * KeptMemory::kLine, KeptMemory::kLine);
    ::new (block.data) Block(block);  // on a line of its own
    return reinterpret_cast<T*>(static_cast<std::byte*>(block.data) + KeptMemory::kLine);
  }
  void deallocate(T* values, std::size_t /*count*/) {
    auto* const block = reinterpret_cast<std::byte*>(values) - KeptMemory::kLine;
    KeptMemory::of_process().give(*reinterpret_cast<Block*>(block));
  }

  friend bool operator==(const KeptAllocator&, const KeptAllocator&) { return true; }
};
template <class T>
using KeptVector = std::vector<T, KeptAllocator<T>>;

}  // namespace kmeans::openmp
