// SPDX-License-Identifier: Apache-2.0
#include "harness/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>

#include "harness/support/clock.h"
#include "harness/support/spawn.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// How long a program may tidy up after SIGTERM before SIGKILL.
constexpr double kGraceSeconds = 2;
// Wake-ups disturb what is being measured, so there are none when the kernel can report the end.
constexpr int kPollMilliseconds = 50;
// How often somebody who watches the output is asked whether it goes on; nothing is timed then.
constexpr double kAskedSeconds = 0.5;

volatile sig_atomic_t interrupt_count = 0;
std::array<int, 2> interrupt_pipe{-1, -1};
struct sigaction previous_int, previous_term, previous_hup, previous_pipe;

extern "C" void note_interrupt(int signal_number) {
  if (interrupt_count > 0) ::_exit(128 + signal_number);  // the user insists
  interrupt_count = interrupt_count + 1;
  const char byte = 0;
  [[maybe_unused]] const auto ignored = ::write(interrupt_pipe[1], &byte, 1);
}

struct sigaction action_of(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  return action;
}

/// The strings of argv or envp, laid out before fork: afterwards nothing may be allocated.
class PointerTable {
 public:
  explicit PointerTable(std::vector<std::string> strings)
      : strings_(std::move(strings)), pointers_(exec_pointers(strings_)) {}
  char* const* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

/// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(const PointerTable& arguments, const PointerTable& environment, int output,
                         int report, pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);  // a crash is data here, not worth gigabytes of core files
  // Where memory runs out, the kernel shall take this process and not the one that keeps the
  // journal.
  if (const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); score >= 0) {
    [[maybe_unused]] const auto ignored = ::write(score, "1000", 4);
    ::close(score);
  }
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = ::open("/dev/null", O_RDONLY);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execve(arguments.data()[0], arguments.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const auto ignored = ::write(report, &error, sizeof error);
  ::_exit(127);
}

/// The processes whose parent this one is; nothing where the kernel does not list them.
std::set<pid_t> children() {
  std::set<pid_t> found;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(task.path() / "children");
    for (pid_t child = 0; list >> child;) found.insert(child);
  }
  return found;
}

/// Are the children of this process listed? If so, orphans of a program that it runs become its
/// own, so that it can end them: a session of their own hides them from a signal to the group.
bool adopts_orphans() {
  static const bool listed =
      std::filesystem::exists("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  return listed && ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/// Reads what is there without waiting; keeps the tail. False at the end of the stream.
bool drain(int descriptor, std::string& kept, std::size_t limit) {
  std::array<char, 4096> buffer;
  while (true) {
    const auto count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    kept.append(buffer.data(), static_cast<std::size_t>(count));
    if (kept.size() > 2 * limit) kept.erase(0, kept.size() - limit);
  }
}

class RunningProcess {
 public:
  RunningProcess(const ProcessRequest& request, ProcessOutcome& outcome)
      : request_(request), outcome_(outcome) {}
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;
  ~RunningProcess() {
    for (const int descriptor : {output_, pidfd_}) {
      if (descriptor >= 0) ::close(descriptor);
    }
  }

  bool start() {
    std::array<int, 2> output{-1, -1};
    std::array<int, 2> report{-1, -1};
    if (::pipe2(output.data(), O_CLOEXEC) != 0) return failed_to_start(errno);
    output_ = output[0];
    if (::pipe2(report.data(), O_CLOEXEC) != 0) {
      const int error = errno;
      ::close(output[1]);
      return failed_to_start(error);
    }
    const PointerTable arguments(request_.command);
    const PointerTable environment(changed_environment(request_.environment));
    const pid_t parent = ::getpid();
    adopts_ = adopts_orphans();
    if (adopts_) others_ = children();
    start_ = Clock::now();
    pid_ = ::fork();
    if (pid_ == 0) become(arguments, environment, output[1], report[1], parent);
    const int fork_error = errno;
    ::close(output[1]);
    ::close(report[1]);
    int exec_error = 0;
    ssize_t count = 0;
    if (pid_ > 0) {
      do {
        count = ::read(report[0], &exec_error, sizeof exec_error);  // ends when exec succeeds
      } while (count < 0 && errno == EINTR);
    }
    ::close(report[0]);
    if (pid_ < 0) return failed_to_start(fork_error);
    if (count == sizeof exec_error) {
      ::waitpid(pid_, nullptr, 0);
      return failed_to_start(exec_error);
    }
    ::fcntl(output_, F_SETFL, O_NONBLOCK);
#ifdef SYS_pidfd_open
    pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
#endif
    return true;
  }

  void wait() {
    using End = ProcessOutcome::End;
    auto end = End::exited;
    auto deadline = request_.timeout_seconds;
    bool killed = false;
    while (!ended()) {
      const double elapsed = seconds_since(start_);
      const bool out_of_time = elapsed >= deadline || (end == End::exited && !goes_on());
      if (end == End::exited && (out_of_time || InterruptGuard::interrupted())) {
        end = out_of_time ? End::timed_out : End::interrupted;
        ::kill(-pid_, SIGTERM);
        deadline = elapsed + kGraceSeconds;
      } else if (end != End::exited && !killed && elapsed >= deadline) {
        ::kill(-pid_, SIGKILL);
        killed = true;
      }
      const double left = killed ? 1 : deadline - elapsed;
      wait_for_news(end == End::exited, request_.goes_on ? std::min(left, kAskedSeconds) : left);
    }
    // The leader is a zombie still, so its group's number cannot have been given away.
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    outcome_.seconds = seconds_since(start_);
    if (adopts_) end_orphans();
    drain(output_, outcome_.output, request_.kept_output);
    if (outcome_.output.size() > request_.kept_output) {
      outcome_.output.erase(0, outcome_.output.size() - request_.kept_output);
    }
    outcome_.end = end;
    if (end == End::exited && WIFSIGNALED(status)) {
      outcome_.end = End::signalled;
      outcome_.code = WTERMSIG(status);
    } else {
      outcome_.code = WEXITSTATUS(status);
    }
  }

 private:
  [[nodiscard]] bool goes_on() const {
    return !request_.goes_on || request_.goes_on(outcome_.output);
  }

  /// Ends what the program left running: it would take time from whatever is measured next.
  void end_orphans() {
    for (bool any = true; any;) {
      any = false;
      for (const pid_t orphan : children()) {
        if (others_.count(orphan) != 0) continue;
        ::kill(orphan, SIGKILL);
        while (::waitpid(orphan, nullptr, 0) < 0 && errno == EINTR) {
        }
        any = true;  // its own children are ours now
      }
    }
  }

  bool failed_to_start(int error) {
    outcome_.end = ProcessOutcome::End::not_started;
    outcome_.code = error;
    return false;
  }

  [[nodiscard]] bool ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == pid_;
  }

  void wait_for_news(bool heed_interrupts, double seconds) {
    std::array<pollfd, 3> watched{};
    watched[0] = {output_open_ ? output_ : -1, POLLIN, 0};
    watched[1] = {pidfd_, POLLIN, 0};
    watched[2] = {heed_interrupts ? InterruptGuard::descriptor() : -1, POLLIN, 0};
    int milliseconds = static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 3600.0) * 1e3));
    if (pidfd_ < 0) milliseconds = std::min(milliseconds, kPollMilliseconds);
    ::poll(watched.data(), watched.size(), milliseconds);
    if (watched[0].revents != 0) {
      output_open_ = drain(output_, outcome_.output, request_.kept_output);
    }
  }

  const ProcessRequest& request_;
  ProcessOutcome& outcome_;
  pid_t pid_ = -1;
  int output_ = -1;
  int pidfd_ = -1;
  bool output_open_ = true;
  bool adopts_ = false;
  std::set<pid_t> others_;  // children that were there before
  Clock::time_point start_;
};

std::string signal_name(int number) {
  // sigabbrev_np() is younger than the C libraries that are supported.
  static const std::map<int, std::string> kNames{
      {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
      {SIGILL, "SIGILL"},   {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},
      {SIGTRAP, "SIGTRAP"}, {SIGXCPU, "SIGXCPU"}, {SIGSYS, "SIGSYS"},   {SIGPIPE, "SIGPIPE"},
      {SIGHUP, "SIGHUP"},   {SIGQUIT, "SIGQUIT"}, {SIGXFSZ, "SIGXFSZ"}, {SIGALRM, "SIGALRM"}};
  const auto found = kNames.find(number);
  return found != kNames.end() ? found->second : "signal " + std::to_string(number);
}

}  // namespace

std::map<std::string, std::string> current_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    // getenv() finds the first of several, so the first one counts here as well.
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::vector<std::string> changed_environment(const EnvironmentChanges& changes) {
  auto variables = current_environment();
  for (const auto& [name, value] : changes) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

InterruptGuard::InterruptGuard() {
  interrupt_count = 0;
  if (::pipe2(interrupt_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) interrupt_pipe = {-1, -1};
  const auto note = action_of(note_interrupt);
  const auto ignore = action_of(SIG_IGN);
  ::sigaction(SIGINT, &note, &previous_int);
  ::sigaction(SIGTERM, &note, &previous_term);
  // nohup has it ignored, so that the run outlives its terminal.
  ::sigaction(SIGHUP, nullptr, &previous_hup);
  if (previous_hup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &note, nullptr);
  ::sigaction(SIGPIPE, &ignore, &previous_pipe);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &previous_int, nullptr);
  ::sigaction(SIGTERM, &previous_term, nullptr);
  ::sigaction(SIGHUP, &previous_hup, nullptr);
  ::sigaction(SIGPIPE, &previous_pipe, nullptr);
  for (int& descriptor : interrupt_pipe) {
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
  }
  interrupt_count = 0;
}

bool InterruptGuard::interrupted() { return interrupt_count > 0; }
int InterruptGuard::descriptor() { return interrupt_pipe[0]; }

std::string ProcessOutcome::describe() const {
  switch (end) {
    case End::exited: return "exit status " + std::to_string(code);
    case End::signalled:
      return "killed by " + signal_name(code) +
             (code == SIGKILL ? " (the kernel does so when memory runs out)" : "");
    case End::timed_out: return "timeout after " + format_seconds(limit_seconds);
    case End::interrupted: return "interrupted";
    case End::not_started: return std::string("could not be started: ") + std::strerror(code);
  }
  return "?";
}

ProcessOutcome run_process(const ProcessRequest& request) {
  ProcessOutcome outcome;
  outcome.limit_seconds = request.timeout_seconds;
  RunningProcess process(request, outcome);
  if (process.start()) process.wait();
  return outcome;
}

std::string readable_tail(const std::string& output, std::size_t bytes) {
  std::string tail = output.size() > bytes ? output.substr(output.size() - bytes) : output;
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == ' ')) tail.pop_back();
  return printable(tail);
}

}  // namespace kmeans
