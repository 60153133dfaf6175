// SPDX-License-Identifier: Apache-2.0
//
// What a call of the library finds in the caller's process, which may be any: other floating-point modes, a
// fork of a process that had OpenMP at work, little memory.
#pragma once

#include <cfenv>
#include <functional>

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

/// Calls `work` where OpenMP gives it threads in the default modes: on this thread if they are in
/// these, else on a new one, since OpenMP has a team for each thread that asks. In a forked process
/// OpenMP would wait for the threads of the parent, which are not there. `work` gets a function to call
/// between its parts, from whichever thread; `between` itself is called on this thread alone and may
/// throw.
void with_a_team(int threads, const Between& between,
                 const std::function<void(const Between&)>& work);

/// Bytes that this process may still allocate, as far as the system says: of memory, of its control group, of
/// its address space.
double free_memory();

}  // namespace kmeans_exact_surroundings
