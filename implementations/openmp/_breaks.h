// SPDX-License-Identifier: Apache-2.0
//
// What a team does between parts of a stage that is long: its first thread asks the caller whether to go on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include "harness/variant.h"

namespace kmeans::openmp {

class Breaks {
 public:
  /// Until end(), `between` is called some times a second, if it is not empty.
  void begin(const std::function<void()>& between, const Shape& shape) {
    const Sizes s = shape;
    constexpr double kProducts = 0x1p20;  // take much longer than a look at the clock
    own_.points_between = static_cast<std::int64_t>(kProducts / (s.d * (s.k + 8)));
    own_.points = 0;
    own_.last = Clock::now();
    ended_ = false;
    between_ = between ? &between : nullptr;
  }

  /// Throws what `between` has thrown.
  void end() {
    between_ = nullptr;
    if (own_.failure) std::rethrow_exception(std::exchange(own_.failure, nullptr));
  }

  /// Before a part of so many points. True: it and those behind it are left out. Thread 0 is the caller's.
  bool now(int thread, std::int64_t points) {
    if (between_ == nullptr) return false;
    if (thread == 0) look(points);
    return ended_.load(std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void look(std::int64_t points) {
    own_.points += points;
    if (own_.points <= own_.points_between) return;
    own_.points = 0;
    if (own_.failure || Clock::now() - own_.last < std::chrono::milliseconds(50)) return;
    try {
      (*between_)();
    } catch (...) {
      own_.failure = std::current_exception();
      ended_ = true;
    }
    own_.last = Clock::now();
  }

  const std::function<void()>* between_ = nullptr;
  std::atomic<bool> ended_{false};
  // Of thread 0, apart from what all read.
  struct alignas(64) Own {
    std::int64_t points_between = 0;
    std::int64_t points = 0;  // since the last look at the clock
    Clock::time_point last{};
    std::exception_ptr failure{};
  };
  Own own_{};
};

}  // namespace kmeans::openmp
