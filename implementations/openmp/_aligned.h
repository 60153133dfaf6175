// SPDX-License-Identifier: Apache-2.0
//
// Memory on lines and pages of its own.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "implementations/openmp/_kept_memory.h"

namespace kmeans::openmp {

/// An array that starts on a cache line, or on a huge page if it is large enough to need some. Its
/// elements are left uninitialised, so that the thread that writes them first decides where they
/// live; in the library, the one that did so in an earlier call.
template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::int64_t count) {
    constexpr std::size_t kLine = 64;
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kLine;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    data_ = hold(memory(alignment, rounded + kLine * (rounded == 0)));
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
    std::size_t bytes = 0;
    void operator()(T* data) const { KeptMemory::of_process().give({data, bytes}); }
  };
  using Held = std::unique_ptr<T[], Free>;

  static Block memory(std::size_t alignment, std::size_t bytes) {
    KeptMemory& kept = KeptMemory::of_process();
    const Block block = kept.take(bytes, alignment);
    if (block.data != nullptr) return block;
    void* data = std::aligned_alloc(alignment, bytes);
    if (data == nullptr) {
      kept.give_back();
      data = std::aligned_alloc(alignment, bytes);
    }
    if (data == nullptr) throw std::bad_alloc();
    return {data, bytes};
  }
  static Held hold(Block block) { return Held(static_cast<T*>(block.data), Free{block.bytes}); }

  Held data_;
};

/// A value on cache lines of its own, so that threads which write neighbours do not disturb each
/// other (two lines, because processors fetch them in pairs).
template <class T>
struct alignas(128) Padded {
  T value{};
};

}  // namespace kmeans::openmp
