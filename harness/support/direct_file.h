// SPDX-License-Identifier: Apache-2.0
//
// Files that are read past the system's cache of pages, and memory to read them into.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace kmeans {

/// To which such reads are aligned, in the file and in memory.
inline constexpr std::int64_t kDirectSector = 4096;

struct FreeMemory {
  void operator()(char* data) const { std::free(data); }
};
using ReadBuffer = std::unique_ptr<char, FreeMemory>;

/// At least so many bytes; null where there is no memory. Of huge pages where there are any: a disk is asked
/// for one piece a page, and gives far less in small ones.
inline ReadBuffer make_read_buffer(std::int64_t bytes) {
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  const std::int64_t unit = bytes >= kHugePage ? kHugePage : kDirectSector;
  const auto rounded = static_cast<std::size_t>((bytes + unit - 1) / unit * unit);
  ReadBuffer data(static_cast<char*>(std::aligned_alloc(static_cast<std::size_t>(unit), rounded)));
#if defined(MADV_HUGEPAGE)
  if (data && unit == kHugePage) (void)::madvise(data.get(), rounded, MADV_HUGEPAGE);
#endif
  return data;
}

struct DirectFile {
  int descriptor = -1;  ///< Less than 0: it cannot be opened; errno says why.
  bool direct = false;  ///< Else it is read through the cache.
};

/// For reading, past the cache where the file system can do that. Some take the wish and refuse the first read.
inline DirectFile open_direct(const char* file) {
  const int descriptor = ::open(file, O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (descriptor >= 0) {
    const ReadBuffer sector = make_read_buffer(kDirectSector);
    if (sector && ::pread(descriptor, sector.get(), kDirectSector, 0) >= 0) {
      return {descriptor, true};
    }
    ::close(descriptor);
  }
  return {::open(file, O_RDONLY | O_CLOEXEC), false};
}

}  // namespace kmeans
