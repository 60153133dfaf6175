// SPDX-License-Identifier: Apache-2.0
//
// Where the threads of a team wait for each other. OpenMP's own barrier spins for some milliseconds by
// default: right where every thread has a core, since a thread that sleeps is late, and wrong where
// other work shares the cores, since it keeps one from the thread that is waited for. This one finds out
// which is the case.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace kmeans::openmp {

/// How long to spin, by what became of earlier waits. Nanoseconds of a clock that its caller reads.
class Patience {
 public:
  static constexpr std::int64_t kLong = 2'000'000;  ///< While cores seem to be the team's own.
  static constexpr std::int64_t kShort = 20'000;  ///< Else: what falling asleep and waking up take.
  /// Between two looks at the clock this passes only where the waiting thread itself has lost its core.
  static constexpr std::int64_t kGap = 100'000;
  /// So many short waits in vain: the team may have one core, where who spins keeps it from who is waited for.
  static constexpr int kOnOneCore = 3;
  static constexpr int kShortest = 64;
  static constexpr int kLongest = 4096;

  /// For the coming wait.
  [[nodiscard]] std::int64_t nanoseconds() const {
    if (left_ == 0) return kLong;
    return in_vain_ < kOnOneCore ? kShort : 0;
  }

  /// A wait was over before the thread had to sleep.
  void spun() {
    in_vain_ = 0;
    if (left_ > 0) {
      --left_;
    } else if (++good_ >= stretch_) {
      stretch_ = kShortest;
      good_ = 0;
    }
  }

  /// It slept, or lost its core. A long one: so many waits to come are short, and twice as many the next
  /// time, unless as many long ones have been good meanwhile.
  void failed() {
    if (left_ > 0) {
      --left_;
      ++in_vain_;
      return;
    }
    in_vain_ = 0;
    left_ = stretch_;
    stretch_ = std::min(2 * stretch_, kLongest);
    good_ = 0;
  }

 private:
  int left_ = 0;     // short waits to come
  int in_vain_ = 0;  // of the last ones
  int stretch_ = kShortest;
  int good_ = 0;  // long waits since one failed
};

/// Is it over within so many nanoseconds, without a loss of the core? If not, `lost_core` says why.
template <class Over>
bool spins(std::int64_t nanoseconds, const Over& over, bool* lost_core = nullptr) {
  const auto now = [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  constexpr int kBetweenLooks = 16;
  const std::int64_t begin = now();
  std::int64_t last = begin;
  while (true) {
    for (int turn = 0; turn < kBetweenLooks; ++turn) {
      if (over()) return true;
#if defined(__SSE2__)
      _mm_pause();
#endif
    }
    const std::int64_t time = now();
    const bool lost = time - last > Patience::kGap;
    if (lost_core != nullptr) *lost_core = lost;
    if (lost || time - begin > nanoseconds) return false;
    last = time;
  }
}

inline void sleep_while(std::atomic<std::uint32_t>& number, std::uint32_t value) {
  static_assert(sizeof number == 4);
  syscall(SYS_futex, &number, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
inline void wake(std::atomic<std::uint32_t>& number) {
  syscall(SYS_futex, &number, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

/// For teams whose size may differ from one parallel region to the next.
class Barrier {
 public:
  Barrier() = default;
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  /// Until so many threads are here; what they wrote is then seen.
  void wait(int threads) {
    if (threads == 1) return;
    static thread_local Patience patience;  // what a thread has learnt serves the next problem, too
    const std::uint32_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_seq_cst);
      if (asleep_.load(std::memory_order_seq_cst) > 0) wake(round_);
      return;
    }
    const auto over = [&] { return round_.load(std::memory_order_acquire) != round; };
    if (spins(patience.nanoseconds(), over)) return patience.spun();
    patience.failed();
    asleep_.fetch_add(1, std::memory_order_seq_cst);
    while (round_.load(std::memory_order_seq_cst) == round) sleep_while(round_, round);
    asleep_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  alignas(64) std::atomic<std::uint32_t> round_{0};
  std::atomic<std::int32_t> asleep_{0};
  alignas(64) std::atomic<std::int32_t> arrived_{0};
};

}  // namespace kmeans::openmp
