// SPDX-License-Identifier: Apache-2.0
//
// A team of threads that stays alive between calls, so that an iteration costs a wake-up and not
// the start of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kmeans::blas {

class ThreadTeam {
 public:
  ThreadTeam() = default;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam() { dismiss(); }

  /// The calling thread counts: a team of one starts none.
  void resize(int size) {
    if (size == this->size()) return;
    dismiss();
    dismissed_ = false;
    threads_.reserve(size - 1);
    for (int rank = 1; rank < size; ++rank) {
      threads_.emplace_back([this, rank, seen = call_.load()] { work(rank, seen); });
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls task(rank) on every member, rank 0 being the caller; returns when all have finished.
  /// The task must not throw.
  void run(const std::function<void(int)>& task) {
    if (threads_.empty()) {
      task(0);
      return;
    }
    task_ = &task;
    working_.store(static_cast<int>(threads_.size()));
    announce();
    task(0);
    for (int working = working_.load(); working != 0; working = working_.load()) {
      wait_while(working_, working);
    }
  }

 private:
  void work(int rank, std::uint64_t seen) {
    for (;;) {
      wait_while(call_, seen);
      seen = call_.load();
      if (dismissed_) return;
      (*task_)(rank);
      if (working_.fetch_sub(1) == 1) working_.notify_one();
    }
  }

  void announce() {
    call_.fetch_add(1);
    call_.notify_all();
  }

  void dismiss() {
    dismissed_ = true;
    announce();
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  /// Looks for a moment, since the next call mostly follows at once, then sleeps.
  template <class T>
  static void wait_while(const std::atomic<T>& value, T old) {
    constexpr int kLooks = 4000;
    for (int look = 0; look < kLooks; ++look) {
      if (value.load(std::memory_order_acquire) != old) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    value.wait(old);
  }

  std::vector<std::thread> threads_;
  std::atomic<std::uint64_t> call_{0};
  std::atomic<int> working_{0};
  const std::function<void(int)>* task_ = nullptr;  // published by call_
  bool dismissed_ = false;                          // published by call_
};

}  // namespace kmeans::blas
