// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/disk_rate.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace kmeans {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;
constexpr int kAtOnce = 2;  // one read is under way while the other begins or ends

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// An open file, and blocks of it.
class Source {
 public:
  explicit Source(const std::filesystem::path& file) {
    descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    direct_ = descriptor_ >= 0 && take_direct_read();
    if (descriptor_ >= 0 && !direct_) ::close(descriptor_);
    if (!direct_) descriptor_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0) bytes_ = status.st_size;
  }
  ~Source() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] bool direct() const { return direct_; }
  [[nodiscard]] std::int64_t blocks() const { return (bytes_ + kBlockBytes - 1) / kBlockBytes; }

  /// Bytes read; less than 0: it failed.
  std::int64_t read(std::int64_t block, void* to) const {
    const std::int64_t first = block * kBlockBytes;
    const std::int64_t end = std::min(bytes_, first + kBlockBytes);
    if (!direct_) (void)::posix_fadvise(descriptor_, first, end - first, POSIX_FADV_DONTNEED);
    std::int64_t done = 0;
    while (first + done < end) {
      const auto got = ::pread(descriptor_, static_cast<char*>(to) + done,
                               static_cast<std::size_t>(kBlockBytes - done), first + done);
      if (got <= 0) return -1;
      done += got;
    }
    return done;
  }

 private:
  [[nodiscard]] bool take_direct_read() const {
    alignas(4096) static char sector[4096];
    return ::pread(descriptor_, sector, sizeof sector, 0) >= 0;
  }

  int descriptor_ = -1;
  bool direct_ = false;
  std::int64_t bytes_ = 0;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, Free>;

/// Of huge pages where there are any: a disk is asked for one piece a page, and gives far less in small
/// ones. Written to, so that no page is made while the clock runs.
Buffer make_buffer() {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  Buffer memory(std::aligned_alloc(kHugePage, kBlockBytes));
  if (!memory) return memory;
#if defined(MADV_HUGEPAGE)
  (void)::madvise(memory.get(), kBlockBytes, MADV_HUGEPAGE);
#endif
  std::memset(memory.get(), 1, kBlockBytes);
  return memory;
}

}  // namespace

std::optional<DiskRate> measure_disk_rate(const std::filesystem::path& file, double seconds) {
  const Source source(file);
  if (source.blocks() == 0) return std::nullopt;
  Buffer buffers[kAtOnce];
  for (auto& buffer : buffers) {
    buffer = make_buffer();
    if (!buffer) return std::nullopt;
  }
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<bool> failed{false};
  const auto begin = Clock::now();
  const auto read_on = [&](void* buffer) {
    while (!failed && seconds_since(begin) < seconds) {
      const std::int64_t got = source.read(next.fetch_add(1) % source.blocks(), buffer);
      if (got < 0) {
        failed = true;
      } else {
        bytes += got;
      }
    }
  };
  std::thread other(read_on, buffers[1].get());
  read_on(buffers[0].get());
  other.join();
  if (failed) return std::nullopt;
  return DiskRate{static_cast<double>(bytes) / seconds_since(begin), source.direct()};
}

}  // namespace kmeans
