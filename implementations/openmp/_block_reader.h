// SPDX-License-Identifier: Apache-2.0
//
// Rows of a file that memory does not hold, one block after the other, read while the block before is
// worked on. Past the system's cache of pages (O_DIRECT) where the file system can do that: what is read
// once an iteration gains nothing there, and would drive out what does. Elsewhere through that cache, each
// block being given back once it has been read.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
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

namespace kmeans::openmp {

class BlockReader {
 public:
  /// Two reads at a time keep a disk at work between one and the next; two more blocks are for the one
  /// that is worked on, and for one that waits for it.
  static constexpr int kReaders = 2;
  static constexpr int kBuffers = 4;

  /// Of a file that ends with n rows. Throws std::runtime_error where it cannot be read.
  BlockReader(std::string file, std::int64_t n, std::int64_t row_bytes, std::int64_t rows_of_block)
      : file_(std::move(file)),
        n_(n),
        row_bytes_(row_bytes),
        rows_(rows_of_block),
        blocks_((n + rows_of_block - 1) / rows_of_block) {
    open_file();
    offset_ = stamp_.st_size - n * row_bytes;
    if (offset_ < 0) fail("is cut short: it has " + std::to_string(stamp_.st_size) + " bytes");
    for (auto& buffer : buffers_) buffer = Buffer(rows_ * row_bytes_ + 2 * kDirectSector);
  }
  ~BlockReader() {
    end_threads();
    ::close(descriptor_);
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
    for (int reader = 0; reader < kReaders; ++reader) threads_.emplace_back([this] { read_on(); });
  }

  /// The next block's rows, until release(); null after a failure, which finish() tells.
  const float* next() {
    const std::int64_t block = taken_++;
    Buffer& buffer = buffers_[block % kBuffers];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ != nullptr || buffer.holds == block; });
    return failure_ != nullptr ? nullptr : buffer.rows;
  }

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

  [[nodiscard]] bool direct() const { return direct_; }

  static double bytes(double bytes_of_block) {
    return kBuffers * (bytes_of_block + 2 * kDirectSector);
  }

 private:
  struct Buffer {
    Buffer() = default;
    explicit Buffer(std::int64_t bytes) : data(make_read_buffer(bytes)) {
      if (data == nullptr) throw std::bad_alloc();
    }
    ReadBuffer data;
    const float* rows = nullptr;
    std::int64_t holds = -1;  // which block, counted from the start
  };

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
        const float* rows = read_block(*block % blocks_, buffers_[*block % kBuffers].data.get());
        {
          const std::lock_guard lock(mutex_);
          buffers_[*block % kBuffers].rows = rows;
          buffers_[*block % kBuffers].holds = *block;
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
                  [&] { return ending_ || claimed_ == count_ || claimed_ < released_ + kBuffers; });
    if (ending_ || claimed_ == count_) return std::nullopt;
    return claimed_++;
  }

  const float* read_block(std::int64_t block, char* buffer) const {
    const std::int64_t rows = std::min(rows_, n_ - block * rows_);
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

  std::string file_;
  std::int64_t n_;
  std::int64_t row_bytes_;
  std::int64_t rows_;    // of a block
  std::int64_t blocks_;  // of the file
  std::int64_t offset_ = 0;
  int descriptor_ = -1;
  bool direct_ = false;
  struct stat stamp_ {};
  Buffer buffers_[kBuffers];
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

}  // namespace kmeans::openmp
