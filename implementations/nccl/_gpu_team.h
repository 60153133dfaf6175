// SPDX-License-Identifier: Apache-2.0
//
// Host threads of several GPUs, one each: a GPU gets its calls from its own thread, so that
// no GPU waits for another one's turn.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "harness/machine/cuda/device.cuh"

namespace kmeans::cuda {

class GpuTeam {
 public:
  /// `devices` as the CUDA runtime counts. `on_failure` is called, once a run, by the first thread whose
  /// work throws: the others may wait for its GPU.
  GpuTeam(std::vector<int> devices, std::function<void()> on_failure)
      : devices_(std::move(devices)), on_failure_(std::move(on_failure)) {
    for (int member = 0; member < size(); ++member) {
      threads_.emplace_back([this, member] { serve(member); });
    }
  }
  ~GpuTeam() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    begins_.notify_all();
    for (auto& thread : threads_) thread.join();
  }
  GpuTeam(const GpuTeam&) = delete;
  GpuTeam& operator=(const GpuTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(devices_.size()); }

  /// work(member) on every thread, with its GPU; returns when all have done it. Throws what the first one
  /// threw that failed.
  void run(const std::function<void(int)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    failure_ = nullptr;
    working_ = size();
    ++round_;
    begins_.notify_all();
    ends_.wait(lock, [&] { return working_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void serve(int member) {
    for (std::int64_t round = 1; begun(round); ++round) {
      try {
        KMEANS_CUDA(cudaSetDevice(devices_[static_cast<std::size_t>(member)]));
        (*work_)(member);
      } catch (...) {
        fail(std::current_exception());
      }
      const std::lock_guard lock(mutex_);
      if (--working_ == 0) ends_.notify_one();
    }
  }

  /// Waits for it; false where there will be none.
  bool begun(std::int64_t round) {
    std::unique_lock lock(mutex_);
    begins_.wait(lock, [&] { return ended_ || round_ == round; });
    return !ended_;
  }

  void fail(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      failure_ = std::move(failure);
    }
    on_failure_();
  }

  std::vector<int> devices_;
  std::function<void()> on_failure_;
  std::mutex mutex_;
  std::condition_variable begins_;
  std::condition_variable ends_;
  const std::function<void(int)>* work_ = nullptr;
  std::exception_ptr failure_;
  std::int64_t round_ = 0;
  int working_ = 0;
  bool ended_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace kmeans::cuda
