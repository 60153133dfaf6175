// SPDX-License-Identifier: Apache-2.0
//
// What starting a Python interpreter next to this process takes: descriptors that close themselves,
// memory that two processes share, and a child that never outlives its parent.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace kmeans {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool valid() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// Two connected stream sockets; closed in programs that are started later unless inherited.
std::pair<FileDescriptor, FileDescriptor> make_socket_pair();

/// An empty file that exists in memory alone and under no name, so that nothing is left behind,
/// however a process ends.
FileDescriptor make_memory_file();

/// Zeroed memory behind a descriptor that a child can inherit and map.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A running program in a process group of its own, killed with its group when this object or the
/// thread that made it ends.
class ChildProcess {
 public:
  /// Starts `arguments[0]`, a path. Its standard input is empty; its standard output and error go
  /// to `output` or, where that is negative, both to our standard error. The `inherited`
  /// descriptors stay open in it under the same numbers. Throws std::runtime_error.
  ChildProcess(const std::vector<std::string>& arguments, const std::vector<int>& inherited,
               int output = -1);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] pid_t id() const { return id_; }

  /// How a program ended that is known to be ending: "exit code 3", "signal 9 (Killed)". Kills it
  /// when it takes longer than a second.
  std::string wait_for_end();

 private:
  pid_t id_ = -1;
  bool reaped_ = false;
};

/// $KMEANS_BENCH_PYTHON; else that of the virtual environment .venv in `root`, or python3: as found by
/// find_executable, and what was looked for.
struct PythonProgram {
  std::string found;  ///< Empty where there is none.
  std::string sought;
  bool chosen = false;  ///< By the variable: then there is no substitute.
};
PythonProgram find_python_program(const std::string& root);

/// The program's path: itself if it holds a slash, else the first executable on $PATH of that name;
/// empty where there is none.
std::string find_executable(const std::string& program);

}  // namespace kmeans
