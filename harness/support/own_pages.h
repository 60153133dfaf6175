// SPDX-License-Identifier: Apache-2.0
//
// Memory that goes back to the system as soon as nobody needs it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace kmeans {

/// An allocator that gives large arrays pages of their own. malloc may keep what is freed, next to what the same call
/// needs afterwards.
template <class T>
struct OwnPages {
  using value_type = T;

  OwnPages() = default;
  template <class Other>
  explicit OwnPages(const OwnPages<Other>& /*other*/) {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw std::bad_array_new_length();
    }
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kLarge) return static_cast<T*>(::operator new(bytes));
    void* const pages =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(pages, bytes, MADV_HUGEPAGE);  // a wish: may fail
#endif
    return static_cast<T*>(pages);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    bytes < kLarge ? ::operator delete(memory) : void(munmap(memory, bytes));
  }

  friend bool operator==(const OwnPages& /*one*/, const OwnPages& /*other*/) { return true; }

 private:
  static constexpr std::size_t kLarge = std::size_t{4} << 20;
};

template <class T>
using LargeVector = std::vector<T, OwnPages<T>>;

}  // namespace kmeans
