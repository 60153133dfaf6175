// SPDX-License-Identifier: Apache-2.0
#include "harness/support/python_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

#include "harness/support/spawn.h"

namespace kmeans {
namespace {

[[noreturn]] void throw_errno(const std::string& what, int error = errno) {
  throw std::runtime_error(what + ": " + std::generic_category().message(error));
}

/// Runs in the child between fork and exec, where only async-signal-safe functions may be called.
[[noreturn]] void become(char* const* arguments, const std::vector<int>& inherited, int output,
                         int failure, pid_t parent) {
  setpgid(0, 0);  // a Ctrl-C at the terminal is for the suite, which then ends its children
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before it could be asked for
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  bool ready = nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0;
  // Ours carries the suite's own answers, so a library's chatter must not get there.
  ready = ready && dup2(output < 0 ? STDERR_FILENO : output, STDOUT_FILENO) >= 0;
  if (output >= 0) ready = ready && dup2(output, STDERR_FILENO) >= 0;
  for (const int descriptor : inherited) {
    ready = ready && fcntl(descriptor, F_SETFD, 0) == 0;  // NOLINT(*-vararg)
  }
  if (ready) execv(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const auto written = write(failure, &error, sizeof error);
  _exit(127);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::pair<FileDescriptor, FileDescriptor> make_socket_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("cannot make a pair of sockets");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

FileDescriptor make_memory_file() {
  FileDescriptor file(memfd_create("kmeans-bench", MFD_CLOEXEC));
  if (!file.valid()) throw_errno("cannot make a file in memory");
  return file;
}

SharedMemory::SharedMemory(std::size_t bytes) : descriptor_(make_memory_file()), bytes_(bytes) {
  // Reserved now: running out later would be a SIGBUS instead of an error.
  const int error = posix_fallocate(descriptor_.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    throw_errno("cannot get " + std::to_string(bytes) + " bytes to share with a child process",
                error);
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
  if (memory == MAP_FAILED) throw_errno("cannot map memory shared with a child process");
  data_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() { munmap(data_, bytes_); }

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::vector<int>& inherited, int output) {
  const auto pointers = exec_pointers(arguments);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  const FileDescriptor failure_read(ends[0]);
  FileDescriptor failure_write(ends[1]);
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ < 0) throw_errno("cannot start " + arguments[0]);
  if (id_ == 0) become(pointers.data(), inherited, output, failure_write.get(), parent);
  setpgid(id_, id_);  // whoever comes first, so that the group exists when it must be killed
  failure_write = FileDescriptor();

  // The pipe closes silently when the program starts, and carries the reason when it does not.
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(failure_read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof error)) {
    wait_for_end();
    throw_errno("cannot start " + arguments[0], error);
  }
}

ChildProcess::~ChildProcess() {
  if (reaped_) return;
  kill(-id_, SIGKILL);
  wait_for_end();
}

std::string ChildProcess::wait_for_end() {
  int status = 0;
  pid_t got = waitpid(id_, &status, WNOHANG);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (got == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    got = waitpid(id_, &status, WNOHANG);
  }
  if (got == 0) kill(-id_, SIGKILL);
  while (got == 0 || (got < 0 && errno == EINTR)) got = waitpid(id_, &status, 0);
  reaped_ = true;
  if (got < 0) return "an unknown status";
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return "signal " + std::to_string(number) + " (" + strsignal(number) + ")";
  }
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

PythonProgram find_python_program(const std::string& root) {
  const char* chosen = std::getenv("KMEANS_BENCH_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return {find_executable(chosen), chosen, true};
  const std::string own = find_executable(root + "/.venv/bin/python");
  return {own.empty() ? find_executable("python3") : own, "python3"};
}

std::string find_executable(const std::string& program) {
  const auto runnable = [](const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string::npos) return runnable(program) ? program : "";
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!folders.empty()) {
    const auto end = folders.find(':');
    const std::string folder(folders.substr(0, end));
    std::string path = (folder.empty() ? "." : folder) + "/" + program;
    if (runnable(path)) return path;
    folders = end == std::string_view::npos ? "" : folders.substr(end + 1);
  }
  return "";
}

}  // namespace kmeans
