// SPDX-License-Identifier: Apache-2.0
#include "harness/support/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr std::chrono::milliseconds kLockPoll{50};
constexpr int kSayAfter = 20;  // polls

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what, int error) {
  throw OutputError(file.string() + ": " + what + ": " + std::generic_category().message(error));
}

std::string temporary_prefix(const std::filesystem::path& file) {
  return "." + file.filename().string() + ".tmp-";
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

/// The file that a chain of symbolic links leads to, which need not exist. The links stay.
std::filesystem::path followed(std::filesystem::path file) {
  constexpr int kMaxLinks = 40;  // as the system's own limit
  const std::filesystem::path given = file;
  for (int links = 0;; ++links) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(file, error);
    if (error) return file;  // no link
    if (links == kMaxLinks) fail(given, "cannot be written", ELOOP);
    file = folder_of(file) / target;  // an absolute target replaces the folder
  }
}

/// The number of a descriptor of this process that the path names, as /dev/stdout does. Such a name
/// is a link to whatever is open there, which has to be continued, not replaced.
std::optional<int> descriptor_named(const std::filesystem::path& file) {
  const std::string name = file.lexically_normal().string();
  if (name == "/dev/stdout") return STDOUT_FILENO;
  if (name == "/dev/stderr") return STDERR_FILENO;
  static constexpr std::array<std::string_view, 2> kFolders{"/dev/fd/", "/proc/self/fd/"};
  for (const std::string_view folder : kFolders) {
    if (name.rfind(folder, 0) != 0) continue;
    int descriptor = -1;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + folder.size(), end, descriptor);
    if (error == std::errc() && stop == end) return descriptor;
  }
  return std::nullopt;
}

/// One regular file under whatever names, or one that both would create. What is not a regular file,
/// such as /dev/null, takes any number of outputs.
bool same_file(const std::filesystem::path& one, const std::filesystem::path& other) {
  if (one.empty() || other.empty() || descriptor_named(one) || descriptor_named(other))
    return false;
  std::error_code error;
  const bool exists = std::filesystem::exists(one, error);
  if (exists != std::filesystem::exists(other, error)) return false;
  if (exists) {
    return std::filesystem::is_regular_file(one, error) &&
           std::filesystem::equivalent(one, other, error);
  }
  const auto place = [&error](const std::filesystem::path& file) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(followed(file)), error);
  };
  return place(one) == place(other);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path file) : file_(std::move(file)) {
  if (const auto open_already = descriptor_named(file_)) {
    std::fflush(nullptr);  // what was printed before comes first
    descriptor_ = fcntl(*open_already, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail(file_, "cannot be written", errno);
    return;
  }
  struct stat there {};
  const bool exists = stat(file_.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {
    // A rename would put a file in place of a device, and leave a pipe's reader waiting for ever.
    descriptor_ = open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor_ < 0) fail(file_, "cannot be written", errno);
    return;
  }
  file_ = followed(file_);
  static std::atomic<unsigned> counter{0};
  temporary_ = folder_of(file_) / (temporary_prefix(file_) + std::to_string(getpid()) + "-" +
                                   std::to_string(counter++));
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(file_, "cannot be created", errno);
  constexpr mode_t kPermissions = 07777;
  // Whoever may read the old file may read the new one; where that cannot be set, it is not a failure.
  if (exists) static_cast<void>(fchmod(descriptor_, there.st_mode & kPermissions));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    constexpr std::size_t kMax = std::size_t{1} << 30;  // some systems refuse 2 GiB at once
    const auto written = ::write(descriptor_, next, std::min(bytes, kMax));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail(file_, "cannot be written", errno);
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::flush() {
  if (!temporary_.empty() && fsync(descriptor_) != 0) {
    fail(file_, "cannot be flushed to disk", errno);
  }
}

void AtomicFile::commit() {
  const bool written_through = temporary_.empty();
  flush();
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) {
    const int error = errno;
    if (!written_through) unlink(temporary_.c_str());
    fail(file_, "cannot be closed", error);
  }
  if (written_through) return;
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

void write_atomically(const std::filesystem::path& file, std::string_view text) {
  AtomicFile out(file);
  out.write(text.data(), text.size());
  out.commit();
}

void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& input : inputs) {
      if (same_file(outputs[i].file, input.file)) {
        throw InputError(outputs[i].name + " would overwrite " + input.file.string() + ", " +
                         input.name + "; give another name");
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (same_file(outputs[i].file, outputs[j].file)) {
        throw InputError(outputs[j].name + " and " + outputs[i].name +
                         " would both be written to " + outputs[i].file.string() +
                         "; give each a name of its own");
      }
    }
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
  if (error) fail(file, "is not a regular file, and cannot be removed", error.value());
  std::fprintf(
      stderr, "kmeans-bench: %s in the cache is made again: what was there is not a file, and %s\n",
      printable(file.filename().string()).c_str(), printable(now).c_str());
}

FileLock::FileLock(const std::filesystem::path& file) {
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(file, "cannot be created", errno);
  for (int waited = 0; flock(descriptor_, LOCK_EX | LOCK_NB) != 0; ++waited) {
    const int error = errno;
    if (error != EWOULDBLOCK && error != EINTR) {
      close(descriptor_);
      fail(file, "cannot be locked", error);
    }
    if (InterruptGuard::interrupted()) {
      close(descriptor_);
      throw EnvironmentError(file.string() + ": interrupted while another process held this lock");
    }
    if (waited == kSayAfter) {
      std::fprintf(stderr, "waiting for another process, which holds %s\n",
                   printable(file.string()).c_str());
    }
    std::this_thread::sleep_for(kLockPoll);
  }
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace kmeans
