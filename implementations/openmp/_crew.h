// SPDX-License-Identifier: Apache-2.0
//
// Where threads come from: a parallel region of OpenMP or, where the variants are in another program (the
// library), threads of their own, which wait as Barrier does and not as OpenMP is set to.
#pragma once

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/support/crews_work.h"
#include "implementations/openmp/_barrier.h"

namespace kmeans::openmp {

/// The threads that one thread has, which call the same function once and then wait for the next.
class Crew {
 public:
  using Work = std::function<void(int thread, int threads)>;

  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    if (process_ != ::getpid()) {  // a forked child has none of them
      for (auto& helper : helpers_) {
        [[maybe_unused]] const Helper* const nowhere = helper.release();
      }
      return;
    }
    work_ = nullptr;
    for (auto& helper : helpers_) helper->ticket.give();
    for (auto& helper : helpers_) helper->thread.join();
  }

  /// That of the calling thread.
  static Crew& own() {
    static thread_local std::unique_ptr<Crew> crew;
    if (crew == nullptr || crew->process_ != ::getpid()) crew = std::make_unique<Crew>();
    return *crew;
  }

  /// work(0, present) on this thread and so on; fewer than asked for where the system gives no more.
  void run(int threads, const Work& work) {
    hire(threads - 1);
    const int present = std::min(threads, static_cast<int>(helpers_.size()) + 1);
    work_ = &work;
    present_ = present;
    at_work_.store(present - 1, std::memory_order_relaxed);
    for (int helper = 0; helper + 1 < present; ++helper) helpers_[helper]->ticket.give();
    work(0, present);
    if (present > 1) done_.take();
  }

 private:
  /// Nanoseconds that a thread spins before it sleeps: between two parts of a call one has work of its own, and to wake
  /// sixteen takes 30 to 300 us. Patience::kShort for so many waits after it has lost its core.
  static constexpr std::int64_t kBetweenParts = 200'000;
  static constexpr int kShortOnes = 64;

  /// Something that one thread waits for and another gives.
  class Ticket {
   public:
    void give() {
      given_.fetch_add(1, std::memory_order_seq_cst);
      if (asleep_.load(std::memory_order_seq_cst)) wake(given_);
    }
    void take() {
      const auto there = [&] { return given_.load(std::memory_order_acquire) != taken_; };
      const bool brief = short_ones_ > 0;
      if (brief) --short_ones_;
      bool lost_core = false;
      if (!spins(brief ? Patience::kShort : kBetweenParts, there, &lost_core)) {
        if (lost_core) short_ones_ = kShortOnes;
        asleep_.store(true, std::memory_order_seq_cst);
        while (given_.load(std::memory_order_seq_cst) == taken_) sleep_while(given_, taken_);
        asleep_.store(false, std::memory_order_relaxed);
      }
      ++taken_;
    }

   private:
    alignas(64) std::atomic<std::uint32_t> given_{0};
    std::atomic<bool> asleep_{false};
    std::uint32_t taken_ = 0;  // the taker's
    int short_ones_ = 0;       // waits to come; the taker's
  };
  struct Helper {
    Ticket ticket;
    std::thread thread;
  };

  void hire(int count) {
    while (static_cast<int>(helpers_.size()) < count) {
      auto helper = std::make_unique<Helper>();
      try {
        helper->thread =
            std::thread([this, mine = helper.get(), index = static_cast<int>(helpers_.size()) + 1] {
              serve(*mine, index);
            });
      } catch (const std::system_error&) {
        return;
      }
      helpers_.push_back(std::move(helper));
    }
  }

  void serve(Helper& helper, int index) {
    while (true) {
      helper.ticket.take();
      if (work_ == nullptr) return;
      (*work_)(index, present_);
      if (at_work_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_.give();
    }
  }

  pid_t process_ = ::getpid();
  std::vector<std::unique_ptr<Helper>> helpers_;
  const Work* work_ = nullptr;  // null: there is no more
  int present_ = 1;
  std::atomic<int> at_work_{0};
  Ticket done_;
};

/// work(thread, threads) on up to so many threads. No exception may leave it.
template <class Work>
void in_team(int threads, const Work& work) {
  if (threads <= 1) {
    work(0, 1);
  } else if (crews_work()) {
    Crew::own().run(threads, work);
  } else {
#pragma omp parallel num_threads(threads)
    work(omp_get_thread_num(), omp_get_num_threads());
  }
}

/// work(part) for each part, on up to so many threads.
template <class Work>
void for_parts(int parts, int threads, const Work& work) {
  in_team(threads, [&](int thread, int present) {
    for (int part = thread * parts / present; part < (thread + 1) * parts / present; ++part) {
      work(part);
    }
  });
}

/// By a team of up to so many threads, where they are many.
template <class T>
void copy_by_team(std::span<const T> from, T* to, int threads) {
  constexpr std::size_t kWorth = std::size_t{1} << 18;  // bytes
  const auto count = static_cast<std::int64_t>(from.size());
  in_team(from.size_bytes() < kWorth ? 1 : threads, [&](int thread, int present) {
    const std::int64_t begin = count * thread / present;
    std::copy(from.begin() + begin, from.begin() + count * (thread + 1) / present, to + begin);
  });
}

}  // namespace kmeans::openmp
