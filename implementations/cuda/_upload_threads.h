// SPDX-License-Identifier: Apache-2.0
//
// Threads that fill page-locked pieces, kept between uploads: to start them takes as long as to send 50 MB.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "harness/support/parallel.h"

namespace kmeans::cuda {

class UploadThreads {
 public:
  /// Never more than `most` threads.
  explicit UploadThreads(int most) : most_(most) {}

  /// As many as there are processors: several GPUs take their points at the same time.
  static UploadThreads& of_process() {
    static auto* const threads =  // no destructor: some sleep when the process ends
        new UploadThreads(usable_processors());
    return *threads;
  }

  /// Calls work() here and at the same time on up to `others` threads more; returns when all calls that have begun
  /// have ended. Who comes late, since others have the threads, does not begin. The first exception is passed on.
  void call(int others, const std::function<void()>& work) {
    Job job{.work = &work};
    {
      const std::lock_guard lock(mutex_);
      const int wanted = std::min(most_, busy_ + static_cast<int>(waiting_.size()) + others);
      while (started_ < wanted && start_one()) ++started_;
      waiting_.insert(waiting_.end(), std::min(others, started_), &job);  // all of them, or none
    }
    wake_.notify_all();
    run(job);
    std::unique_lock lock(mutex_);
    std::erase(waiting_, &job);
    ended_.wait(lock, [&] { return job.at_work == 0; });
    if (job.failure) std::rethrow_exception(job.failure);
  }

 private:
  struct Job {
    const std::function<void()>* work = nullptr;
    int at_work = 0;  // others
    std::exception_ptr failure{};
  };

  void run(Job& job) {
    try {
      (*job.work)();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!job.failure) job.failure = std::current_exception();
    }
  }

  /// False: the system gives no more.
  bool start_one() {
    try {
      std::thread([this] { serve(); }).detach();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !waiting_.empty(); });
      Job* const job = waiting_.front();
      waiting_.pop_front();
      ++job->at_work;
      ++busy_;
      lock.unlock();
      run(*job);
      lock.lock();
      --busy_;
      --job->at_work;
      ended_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable ended_;
  std::deque<Job*> waiting_;  // a place for each thread that a job wants
  int most_;
  int started_ = 0;
  int busy_ = 0;
};

}  // namespace kmeans::cuda
