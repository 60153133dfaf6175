// SPDX-License-Identifier: Apache-2.0
#include "harness/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "harness/support/errors.h"
#include "harness/support/memory_left.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no regular file";
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw InputError(file.string() + ": " + why);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    refuse(file, "cannot be opened: " + std::generic_category().message(errno));
  }
  struct stat status {};
  if (fstat(descriptor, &status) != 0) {
    const int error = errno;
    close(descriptor);
    refuse(file, "cannot be examined: " + std::generic_category().message(error));
  }
  if (!S_ISREG(status.st_mode)) {
    close(descriptor);
    refuse(file, std::string("is ") + kind_of(status.st_mode) + "; only regular files are read");
  }
  modified_ = static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
              static_cast<std::int64_t>(status.st_mtim.tv_nsec);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    close(descriptor);
    return;
  }
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  close(descriptor);
  if (address == MAP_FAILED) {
    if (error == ENOMEM) {
      throw EnvironmentError(file.string() + ": not enough memory: the file takes " +
                             format_bytes(static_cast<double>(size)) + " of addresses, but only " +
                             memory_left() + " are left");
    }
    refuse(file, "cannot be mapped into memory: " + std::generic_category().message(error));
  }
  memory_ = std::shared_ptr<const void>(
      address, [size](const void* mapped) { munmap(const_cast<void*>(mapped), size); });
  data_ = static_cast<const std::byte*>(address);
  size_ = size;
}

}  // namespace kmeans
