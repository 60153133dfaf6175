// SPDX-License-Identifier: Apache-2.0
//
// Memory on lines and pages of its own.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "implementations/openmp/_kept_memory.h"

namespace kmeans::openmp {

/// An array that starts on a cache line, or on a huge page if it is large enough to need some. Its
/// elements are left uninitialised, so that the thread that writes them first decides where they
/// live; in the library, that of an earlier array that had the same pages.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::int64_t count) {
    constexpr std::size_t kLine = KeptMemory::kLine;
    constexpr std::size_t kHugePage = KeptMemory::kHugePage;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kLine;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    const Block block = KeptMemory::of_process().take(rounded + kLine * (rounded == 0), alignment);
    data_ = Held(static_cast<T*>(block.data), Free{block});
#if defined(MADV_HUGEPAGE)
    if (alignment == kHugePage) madvise(data_.get(), rounded, MADV_HUGEPAGE);  // a wish: may fail
#endif
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](std::int64_t index) { return data_.get()[index]; }
  const T& operator[](std::int64_t index) const { return data_.get()[index]; }

 private:
  struct Free {
    Block block;
    void operator()(T* /*data*/) const { KeptMemory::of_process().give(block); }
  };
  using Held = std::unique_ptr<T[], Free>;

  Held data_;
};

/// A value on cache lines of its own, so that threads which write neighbours do not disturb each
/// other (two lines, because processors fetch them in pairs).
template <class T>
struct alignas(128) Padded {
  T value{};
};

}  // namespace kmeans::openmp
