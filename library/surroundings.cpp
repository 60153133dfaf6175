// SPDX-License-Identifier: Apache-2.0
#include "library/surroundings.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace kmeans_exact_surroundings {
namespace {

/// Was this process forked without a new program since?
bool forked_at_start() {
  std::string stat;
  std::getline(std::ifstream("/proc/self/stat"), stat);
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  constexpr unsigned kForkedNoExec = 0x40;  // PF_FORKNOEXEC of Linux
  std::string field;
  for (int skipped = 0; skipped < 6; ++skipped) fields >> field;
  unsigned flags = 0;
  fields >> flags;
  return (flags & kForkedNoExec) != 0;
}

// When the program or module is loaded: what else is in it may have had OpenMP at work before.
const pid_t loaded_in = ::getpid();
const bool loaded_in_a_fork = forked_at_start();

bool forked() { return loaded_in_a_fork || ::getpid() != loaded_in; }

bool default_modes() {
#if defined(__SSE__)
  constexpr unsigned kFlags = 0x3F;  // what has happened, no mode
  constexpr unsigned kDefault = 0x1F80;
  if ((_mm_getcsr() & ~kFlags) != kDefault) return false;
#endif
  return std::fegetround() == FE_TONEAREST;
}

struct Ended {};  // thrown in a thread whose caller has given up

void on_a_new_thread(const Between& between, const std::function<void(const Between&)>& work) {
  std::mutex mutex;
  std::condition_variable change;
  bool done = false;
  std::atomic<bool> ended{false};
  std::exception_ptr failure;
  std::thread worker([&] {
    const DefaultModes modes;
    try {
      work([&] {
        if (ended) throw Ended();
      });
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    done = true;
    change.notify_one();
  });
  std::exception_ptr interruption;
  std::unique_lock lock(mutex);
  while (!change.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; })) {
    if (!between || ended) continue;
    lock.unlock();
    try {
      between();
    } catch (...) {
      interruption = std::current_exception();
      ended = true;
    }
    lock.lock();
  }
  lock.unlock();
  worker.join();
  if (interruption) std::rethrow_exception(interruption);
  if (failure) std::rethrow_exception(failure);
}

double number_in(const std::string& file) {
  double value = std::numeric_limits<double>::infinity();
  std::ifstream stream(file);
  if (!(stream >> value)) return std::numeric_limits<double>::infinity();  // none, or "max"
  return value;
}

double free_of_the_system() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kibibytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (std::istringstream(line) >> name >> kibibytes && name == "MemAvailable:") {
      return kibibytes * 1024;
    }
  }
  return static_cast<double>(::sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

/// The folders of this process's control groups, from its own up: of version 2, or of a controller of version 1.
std::vector<std::string> control_groups(const std::string& controller) {
  std::vector<std::string> folders;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto name = line.find(':') + 1;
    const auto path = line.find(':', name) + 1;
    if (name == 0 || path == 0) continue;
    const std::string controllers = "," + line.substr(name, path - 1 - name) + ",";
    const bool meant = controller.empty()
                           ? controllers == ",,"
                           : controllers.find("," + controller + ",") != std::string::npos;
    if (!meant) continue;
    const std::string root = "/sys/fs/cgroup/" + controller + (controller.empty() ? "" : "/");
    std::string group = line.substr(path);
    while (true) {
      folders.push_back(root + group + "/");
      const auto slash = group.find_last_of('/');
      if (slash == std::string::npos || group.size() <= 1) break;
      group.resize(std::max<std::size_t>(slash, 1));
    }
  }
  return folders;
}

double free_of_control_groups() {
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& folder : control_groups("")) {
    least =
        std::min(least, number_in(folder + "memory.max") - number_in(folder + "memory.current"));
  }
  return std::max(0.0, least);
}

/// Infinity where it is not limited.
double processors_of(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

double free_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<double>::infinity();
  }
  const double used = number_in("/proc/self/statm") * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return std::max(0.0, static_cast<double>(limit.rlim_cur) - used);
}

}  // namespace

void in_default_modes(const Between& between, const std::function<void(const Between&)>& work) {
  if (forked() || !default_modes()) return on_a_new_thread(between, work);
  work(between);
}

double granted_processors() {
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& folder : control_groups("")) {
    std::ifstream file(folder + "cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period) least = std::min(least, processors_of(quota, period));
  }
  for (const std::string& folder : control_groups("cpu")) {
    const double quota = number_in(folder + "cpu.cfs_quota_us");  // -1: none
    const double period = number_in(folder + "cpu.cfs_period_us");
    if (std::isfinite(quota)) least = std::min(least, processors_of(quota, period));
  }
  return least;
}

double free_memory() {
  return std::min({free_of_the_system(), free_of_control_groups(), free_address_space()});
}

}  // namespace kmeans_exact_surroundings
