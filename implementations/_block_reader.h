// SPDX-License-Identifier: Apache-2.0
//
// Rows of the points, one block after the other, brought into buffers while the block before is worked on.
// Where memory does not hold the points they are read from their file, past the system's cache of pages
// (O_DIRECT) where the file system can do that: what is read once an iteration gains nothing there, and
// would drive out what does. Elsewhere through that cache, each block being given back once it has been
// read. Points in memory are copied, for those who can take them from certain memory alone.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "harness/support/direct_file.h"
#include "harness/variant.h"

namespace kmeans {

/// Bytes of a row of float32 points.
inline std::int64_t row_bytes(const Shape& shape) {
  return shape.d * static_cast<std::int64_t>(sizeof(float));
}

/// Rows of a block of so many bytes; tests have fewer.
inline std::int64_t rows_of_block(const Shape& shape, std::int64_t bytes) {
  const char* text = std::getenv("KMEANS_BENCH_BLOCK_BYTES");
  if (text != nullptr) bytes = std::atoll(text);
  return std::clamp<std::int64_t>(bytes / row_bytes(shape), 1, std::max<std::int64_t>(1, shape.n));
}

class BlockReader {
 public:
  /// Two reads at a time keep a disk at work between one and the next.
  static constexpr int kReadersOfDisk = 2;

  /// Throws std::runtime_error where the file cannot be read.
  BlockReader(const Problem<float>& problem, std::int64_t rows_of_block,
              int readers = kReadersOfDisk)
      : file_(problem.beyond_memory ? problem.points_file : ""),
        points_(problem.points),
        n_(problem.shape.n),
        row_bytes_(row_bytes(problem.shape)),
        rows_(rows_of_block),
        blocks_((n_ + rows_of_block - 1) / rows_of_block),
        readers_(readers) {
    if (from_file()) {
      open_file();
      offset_ = stamp_.st_size - n_ * row_bytes_;
      if (offset_ < 0) fail("is cut short: it has " + std::to_string(stamp_.st_size) + " bytes");
    }
    for (int buffer = 0; buffer < buffers(readers); ++buffer) {
      buffers_.emplace_back(rows_ * row_bytes_ + 2 * kDirectSector);
    }
  }
  ~BlockReader() {
    end_threads();
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  /// So many blocks will be asked for, from the first on and round and round.
  void start(std::int64_t count) {
    end_threads();
    claimed_ = 0;
    released_ = 0;
    taken_ = 0;
    count_ = count;
    failure_ = nullptr;
    ending_ = false;
    for (auto& buffer : buffers_) buffer.holds = -1;
    for (int reader = 0; reader < readers_; ++reader) threads_.emplace_back([this] { read_on(); });
  }

  /// The next block's rows, until release(); null after a failure, which finish() reports.
  const float* next() {
    const std::int64_t block = taken_++;
    Buffer& buffer = buffer_of(block);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ != nullptr || buffer.holds == block; });
    return failure_ != nullptr ? nullptr : buffer.rows;
  }

  /// The first of those that next() has given.
  void release() {
    {
      const std::lock_guard lock(mutex_);
      released_ += 1;
    }
    changed_.notify_all();
  }

  /// After the last block. Throws what went wrong.
  void finish() {
    end_threads();
    if (failure_) std::rethrow_exception(failure_);
  }

  /// For library_info().
  [[nodiscard]] std::string way() const {
    if (!from_file()) return "copied by " + std::to_string(readers_) + " threads";
    return direct_ ? "past the page cache" : "through the page cache";
  }

  /// Calls use(address, bytes) with each buffer.
  template <class Use>
  void each_buffer(const Use& use) const {
    for (const auto& buffer : buffers_) use(buffer.data.get(), buffer.bytes);
  }

  /// Of so many readers: two more blocks are for the one that is worked on, and for one that waits for it.
  static constexpr int buffers(int readers) { return readers + 2; }
  static double bytes(double bytes_of_block, int readers = kReadersOfDisk) {
    return buffers(readers) * (bytes_of_block + 2 * kDirectSector);
  }

 private:
  struct Buffer {
    explicit Buffer(std::int64_t size) : data(make_read_buffer(size)), bytes(size) {
      if (data == nullptr) throw std::bad_alloc();
    }
    ReadBuffer data;
    std::int64_t bytes;
    const float* rows = nullptr;
    std::int64_t holds = -1;  // which block, counted from the start
  };

  [[nodiscard]] bool from_file() const { return !file_.empty(); }
  Buffer& buffer_of(std::int64_t block) {
    return buffers_[static_cast<std::size_t>(block) % buffers_.size()];
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(file_ + ", which is read block by block, " + what);
  }
  [[noreturn]] void fail(const std::string& what, int error) const {
    fail(what + ": " + std::generic_category().message(error));
  }

  void open_file() {
    const DirectFile opened = open_direct(file_.c_str());
    descriptor_ = opened.descriptor;
    direct_ = opened.direct;
    if (descriptor_ < 0) fail("cannot be opened", errno);
    if (::fstat(descriptor_, &stamp_) != 0) {
      const int error = errno;
      ::close(descriptor_);
      fail("cannot be examined", error);
    }
  }

  void end_threads() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  void read_on() {
    try {
      while (const auto block = claim()) {
        Buffer& buffer = buffer_of(*block);
        const float* rows = read_block(*block % blocks_, buffer.data.get());
        {
          const std::lock_guard lock(mutex_);
          buffer.rows = rows;
          buffer.holds = *block;
        }
        changed_.notify_all();
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        ending_ = true;
      }
      changed_.notify_all();
    }
  }

  /// The next block to read, once there is a buffer for it.
  std::optional<std::int64_t> claim() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return ending_ || claimed_ == count_ || claimed_ < released_ + held(); });
    if (ending_ || claimed_ == count_) return std::nullopt;
    return claimed_++;
  }

  [[nodiscard]] std::int64_t held() const { return static_cast<std::int64_t>(buffers_.size()); }

  const float* read_block(std::int64_t block, char* buffer) const {
    const std::int64_t rows = std::min(rows_, n_ - block * rows_);
    if (!from_file()) {
      const char* from = reinterpret_cast<const char*>(points_) + block * rows_ * row_bytes_;
      std::memcpy(buffer, from, static_cast<std::size_t>(rows * row_bytes_));
      return reinterpret_cast<const float*>(buffer);
    }
    const std::int64_t begin = offset_ + block * rows_ * row_bytes_;
    const std::int64_t from = begin / kDirectSector * kDirectSector;
    const std::int64_t needed = begin + rows * row_bytes_ - from;
    const std::int64_t whole = (needed + kDirectSector - 1) / kDirectSector * kDirectSector;
    std::int64_t done = 0;
    while (done < needed) {
      const auto got =
          ::pread(descriptor_, buffer + done, static_cast<std::size_t>(whole - done), from + done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot be read at byte " + std::to_string(from + done), errno);
      done += got;
      // Less than a sector comes at the file's end alone, and nothing behind it.
      if (done < needed && (got == 0 || done % kDirectSector != 0)) {
        fail("was cut short meanwhile: it ends at byte " + std::to_string(from + done));
      }
    }
    if (!direct_) (void)::posix_fadvise(descriptor_, from, whole, POSIX_FADV_DONTNEED);
    check_unchanged();
    return reinterpret_cast<const float*>(buffer + (begin - from));
  }

  void check_unchanged() const {
    struct stat now {};
    if (::fstat(descriptor_, &now) != 0) fail("cannot be examined", errno);
    if (now.st_size != stamp_.st_size || now.st_mtim.tv_sec != stamp_.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != stamp_.st_mtim.tv_nsec) {
      fail("was changed meanwhile: an iteration has seen some points before and some after");
    }
  }

  std::string file_;  // empty: the points are in memory
  const float* points_;
  std::int64_t n_;
  std::int64_t row_bytes_;
  std::int64_t rows_;    // of a block
  std::int64_t blocks_;  // of all rows
  int readers_;
  std::int64_t offset_ = 0;
  int descriptor_ = -1;
  bool direct_ = false;
  struct stat stamp_ {};
  std::vector<Buffer> buffers_;
  std::vector<std::thread> threads_;
  std::int64_t taken_ = 0;  // by next()

  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::int64_t count_ = 0;
  std::int64_t claimed_ = 0;
  std::int64_t released_ = 0;
  bool ending_ = false;
  std::exception_ptr failure_;
};

}  // namespace kmeans
