// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of the test: the calls of harness/communicator.h without a library.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "harness/communicator.h"

namespace kmeans {

/// What the ranks have in common.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), barrier_(size), places_(size), numbers_(size) {}

  /// Runs work(communicator) on every rank; the first rank's exception is passed on.
  void run(const std::function<void(Communicator&)>& work);

 private:
  friend class ThreadRank;
  int size_;
  std::barrier<> barrier_;
  std::vector<const void*> places_;  // of each rank's values
  std::vector<double> numbers_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return all_.size_; }
  [[nodiscard]] int ranks_here() const override { return all_.size_; }
  [[nodiscard]] std::string engine() const override { return "threads"; }
  void barrier() override { all_.barrier_.arrive_and_wait(); }

  void all_reduce_sum(std::int64_t* values, std::int64_t count) override {
    std::vector<std::int64_t> sums(count);
    together(values, [&] { add(sums.data(), 0, count); });
    std::copy(sums.begin(), sums.end(), values);
  }
  double all_reduce_max(double value) override {
    const auto all = numbers(value);
    return *std::max_element(all.begin(), all.end());
  }
  double all_reduce_min(double value) override {
    const auto all = numbers(value);
    return *std::min_element(all.begin(), all.end());
  }
  void reduce_scatter_sum(const std::int64_t* values, const std::vector<std::int64_t>& counts,
                          std::int64_t* own) override {
    const auto before = std::accumulate(counts.begin(), counts.begin() + rank_, std::int64_t{0});
    std::vector<std::int64_t> sums(counts[rank_]);
    together(values, [&] { add(sums.data(), before, counts[rank_]); });
    std::copy(sums.begin(), sums.end(), own);
  }
  void all_gather(void* values, const std::vector<std::int64_t>& bytes) override {
    std::vector<char> all(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}));
    together(values, [&] {
      for (std::int64_t r = 0, at = 0; r < size(); at += bytes[r++]) {
        copy(all.data() + at, static_cast<const char*>(all_.places_[r]) + at, bytes[r]);
      }
    });
    copy(values, all.data(), static_cast<std::int64_t>(all.size()));
  }
  void gather(const void* own, const std::vector<std::int64_t>& bytes, void* all) override {
    together(own, [&] {
      for (std::int64_t r = 0, at = 0; rank_ == 0 && r < size(); at += bytes[r++]) {
        copy(static_cast<char*>(all) + at, all_.places_[r], bytes[r]);
      }
    });
  }
  void scatter(const void* all, const std::vector<std::int64_t>& bytes, void* own) override {
    const auto before = std::accumulate(bytes.begin(), bytes.begin() + rank_, std::int64_t{0});
    together(all,
             [&] { copy(own, static_cast<const char*>(all_.places_[0]) + before, bytes[rank_]); });
  }
  void broadcast(void* values, std::int64_t bytes, Wait /*wait*/ = Wait::busy) override {
    together(values, [&] {
      if (rank_ > 0) copy(values, all_.places_[0], bytes);
    });
  }
  [[noreturn]] void abort(const std::string& reason, int /*exit_code*/) override {
    std::fprintf(stderr, "rank %d: %s\n", rank_, reason.c_str());
    std::abort();
  }

 private:
  /// `read` may look at what every rank has at its place.
  template <class Read>
  void together(const void* place, const Read& read) {
    all_.places_[rank_] = place;
    barrier();
    read();
    barrier();
  }
  void add(std::int64_t* sums, std::int64_t first, std::int64_t count) const {
    for (const void* place : all_.places_) {
      const auto* values = static_cast<const std::int64_t*>(place) + first;
      for (std::int64_t i = 0; i < count; ++i) sums[i] += values[i];
    }
  }
  std::vector<double> numbers(double value) {
    all_.numbers_[rank_] = value;
    barrier();
    const auto all = all_.numbers_;
    barrier();
    return all;
  }
  static void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  ThreadRanks& all_;
  int rank_;
};

inline void ThreadRanks::run(const std::function<void(Communicator&)>& work) {
  std::vector<std::exception_ptr> failures(size_);
  std::vector<std::thread> threads;
  for (int r = 0; r < size_; ++r) {
    threads.emplace_back([&, r] {
      ThreadRank rank(*this, r);
      try {
        work(rank);
      } catch (...) {
        failures[r] = std::current_exception();
        barrier_.arrive_and_drop();  // the others do not wait for it
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace kmeans
