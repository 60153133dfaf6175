// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/disk_rate.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "harness/support/clock.h"
#include "harness/support/direct_file.h"

namespace kmeans {
namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;
constexpr int kAtOnce = 2;  // one read is under way while the other begins or ends

/// An open file, and blocks of it.
class Source {
 public:
  explicit Source(const std::filesystem::path& file) : file_(open_direct(file.c_str())) {
    struct stat status {};
    if (file_.descriptor >= 0 && ::fstat(file_.descriptor, &status) == 0) bytes_ = status.st_size;
  }
  ~Source() {
    if (file_.descriptor >= 0) ::close(file_.descriptor);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] bool direct() const { return file_.direct; }
  [[nodiscard]] std::int64_t blocks() const { return (bytes_ + kBlockBytes - 1) / kBlockBytes; }

  /// Bytes read; less than 0: it failed.
  std::int64_t read(std::int64_t block, void* to) const {
    const std::int64_t first = block * kBlockBytes;
    const std::int64_t end = std::min(bytes_, first + kBlockBytes);
    if (!file_.direct)
      (void)::posix_fadvise(file_.descriptor, first, end - first, POSIX_FADV_DONTNEED);
    std::int64_t done = 0;
    while (first + done < end) {
      const auto got = ::pread(file_.descriptor, static_cast<char*>(to) + done,
                               static_cast<std::size_t>(kBlockBytes - done), first + done);
      if (got <= 0) return -1;
      done += got;
    }
    return done;
  }

 private:
  DirectFile file_;
  std::int64_t bytes_ = 0;
};

/// Written to, so that no page is made while the clock runs.
ReadBuffer make_touched_buffer() {
  ReadBuffer memory = make_read_buffer(kBlockBytes);
  if (memory) std::memset(memory.get(), 1, kBlockBytes);
  return memory;
}

}  // namespace

std::optional<DiskRate> measure_disk_rate(const std::filesystem::path& file, double seconds) {
  const Source source(file);
  if (source.blocks() == 0) return std::nullopt;
  ReadBuffer buffers[kAtOnce];
  for (auto& buffer : buffers) {
    buffer = make_touched_buffer();
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
