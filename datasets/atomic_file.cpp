// SPDX-License-Identifier: Apache-2.0
#include "datasets/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "harness/errors.h"
#include "harness/text.h"

namespace kmeans {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what, int error) {
  throw OutputError(file.string() + ": " + what + ": " + std::generic_category().message(error));
}

std::string temporary_prefix(const std::filesystem::path& file) {
  return "." + file.filename().string() + ".tmp-";
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path file) : file_(std::move(file)) {
  static std::atomic<unsigned> counter{0};
  temporary_ = folder_of(file_) / (temporary_prefix(file_) + std::to_string(getpid()) + "-" +
                                   std::to_string(counter++));
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(file_, "cannot be created", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    constexpr std::size_t kMost = std::size_t{1} << 30;  // some systems refuse 2 GiB at once
    const auto written = ::write(descriptor_, next, std::min(bytes, kMost));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(file_, "cannot be written", errno);
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail(file_, "cannot be flushed to disk", errno);
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    fail(file_, "cannot be closed", error);
  }
  if (rename(temporary_.c_str(), file_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    fail(file_, "cannot be put in place", error);
  }
  // The name itself becomes durable with its directory; some file systems cannot do that.
  const int folder = open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

void remove_stale_temporaries(const std::filesystem::path& file) {
  const std::string prefix = temporary_prefix(file);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(file), ignored)) {
    if (entry.path().filename().string().rfind(prefix, 0) == 0) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

void make_way(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto own = fs::symlink_status(file, error);
  if (!fs::exists(own) || fs::is_regular_file(fs::status(file, error))) return;
  std::string now = "is removed";
  if (fs::is_directory(own)) {
    // Whoever put it there may want it back.
    fs::path aside;
    int number = 0;
    do {
      aside = file;
      aside += ".aside-" + std::to_string(number++);
    } while (fs::exists(fs::symlink_status(aside, error)));
    fs::rename(file, aside, error);
    now = "is now " + aside.filename().string();
  } else {
    fs::remove(file, error);
  }
  if (error) fail(file, "is no regular file, and cannot be removed", error.value());
  std::fprintf(stderr,
               "kmeans-bench: %s in the cache is made again: what was there is no file, and %s\n",
               printable(file.filename().string()).c_str(), printable(now).c_str());
}

FileLock::FileLock(const std::filesystem::path& file) {
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(file, "cannot be created", errno);
  while (flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    close(descriptor_);
    fail(file, "cannot be locked", error);
  }
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace kmeans
