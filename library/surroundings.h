// SPDX-License-Identifier: Apache-2.0
//
// What a call of the library finds in the caller's process, which may be any: other floating-point modes, a
// fork of a process that had OpenMP at work, little memory.
#pragma once

#include <cfenv>
#include <chrono>
#include <functional>
#include <thread>

namespace kmeans_exact_surroundings {

using Between = std::function<void()>;

/// While it lives, this thread and those that it starts compute in the default modes: to nearest, denormals
/// kept, no traps.
class DefaultModes {
 public:
  DefaultModes() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultModes() { std::fesetenv(&before_); }
  DefaultModes(const DefaultModes&) = delete;
  DefaultModes& operator=(const DefaultModes&) = delete;

 private:
  std::fenv_t before_{};
};

/// Calls `work` in the default modes, which the threads that it starts have from it: on this thread if it is
/// in these, else on a new one; so in a forked process, which has none of its parent's threads. `work` gets
/// a function to call between its parts, from whichever thread; `between` itself is called on this thread
/// alone and may throw.
void in_default_modes(const Between& between, const std::function<void(const Between&)>& work);

/// For parts of work that are short, on several threads: calls `between` on the one that made this, some times a
/// second.
class NowAndThen {
 public:
  explicit NowAndThen(const Between& between) : between_(between) {}
  void operator()() {
    if (!between_ || std::this_thread::get_id() != calling_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    between_();
    last_ = std::chrono::steady_clock::now();
  }

 private:
  const Between& between_;
  const std::thread::id calling_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Processors that this process's control groups grant it, of which a part may be one; infinity: all.
double granted_processors();

/// Bytes that this process may still allocate, as far as the system says: of memory, of its control group, of
/// its address space.
double free_memory();

}  // namespace kmeans_exact_surroundings
