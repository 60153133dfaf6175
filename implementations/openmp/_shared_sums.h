// SPDX-License-Identifier: Apache-2.0
//
// Where the points are a shard (harness/variant.h), clusters have points of other ranks too. Each rank
// keeps the integer sums and counts of its own points. An iteration adds them up over the ranks: in one
// call where they are few; else each rank gets the sums of its part of the clusters, divides them, and
// the means are gathered. Which of the two, and how many ranks there are, changes no bit.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <vector>

#include "harness/communicator.h"
#include "harness/support/crews_work.h"
#include "harness/variant.h"
#include "implementations/openmp/_aligned.h"
#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// From how many sums and counts on they are scattered: where a second call costs less than what every
/// rank would receive in vain.
inline constexpr std::int64_t kSumsInOneCall = 16384;

template <class T>
class SharedSums {
 public:
  SharedSums() = default;
  /// `width`: 64-bit integers that a cluster has, its sums and its count.
  SharedSums(const Problem<T>& problem, std::int64_t width)
      : ranks_(problem.shard.communicator),
        k_(problem.shape.k),
        d_(problem.shape.d),
        width_(width) {
    if (ranks_ == nullptr) return;
    if (crews_work()) {
      throw std::logic_error("sums are shared with other ranks by OpenMP's threads alone");
    }
    own_ = {first_row(k_, ranks_->rank(), ranks_->size()),
            first_row(k_, ranks_->rank() + 1, ranks_->size())};
    scattered_ = k_ * width > kSumsInOneCall && ranks_->size() > 1;
    sums_ = AlignedArray<std::int64_t>(k_ * width);
    if (scattered_) own_sums_ = AlignedArray<std::int64_t>((own_.end - own_.begin) * width);
  }

  [[nodiscard]] bool shared() const { return ranks_ != nullptr; }

  /// Where this rank's sums and count of a cluster go before exchange().
  std::int64_t* of(std::int64_t cluster) { return sums_.data() + cluster * width_; }

  /// Called by all threads of a team, each of which has filled of() for `clusters`. `divide(j, sums)`
  /// makes cluster j's centroid of the sums of all ranks, or leaves it. Only after another barrier are
  /// the centroids (k x d) of all clusters there, for all threads.
  template <class Divide>
  void exchange(T* centroids, Range clusters, const Divide& divide) {
#pragma omp barrier
    if (!scattered_) {
#pragma omp master
      guarded([&] { ranks_->all_reduce_sum(sums_.data(), k_ * width_); });
#pragma omp barrier
      for (std::int64_t j = clusters.begin; j < clusters.end; ++j) divide(j, of(j));
      return;
    }
#pragma omp master
    guarded([&] {
      ranks_->reduce_scatter_sum(sums_.data(), parts_of_ranks(k_, ranks_->size(), width_),
                                 own_sums_.data());
    });
#pragma omp barrier
    const Range part = part_of(own_.end - own_.begin, omp_get_thread_num(), omp_get_num_threads());
    for (std::int64_t j = part.begin; j < part.end; ++j) {
      divide(own_.begin + j, own_sums_.data() + j * width_);
    }
#pragma omp barrier
#pragma omp master
    guarded([&] {
      const auto row = d_ * static_cast<std::int64_t>(sizeof(T));
      ranks_->all_gather(centroids, parts_of_ranks(k_, ranks_->size(), row));
    });
#pragma omp barrier
  }

 private:
  /// The other ranks wait within the same call, and no exception may leave a parallel region: all end.
  template <class Call>
  void guarded(const Call& call) {
    constexpr int kUnusable = 3;  // the exit code for an environment that does not serve
    try {
      call();
    } catch (const std::exception& error) {
      ranks_->abort(error.what(), kUnusable);
    }
  }

  Communicator* ranks_ = nullptr;
  std::int64_t k_ = 0;
  std::int64_t d_ = 0;
  std::int64_t width_ = 0;
  bool scattered_ = false;
  Range own_;                            // clusters that this rank divides
  AlignedArray<std::int64_t> sums_;      // k x width, this rank's, then all ranks'
  AlignedArray<std::int64_t> own_sums_;  // of own_, all ranks'
};

}  // namespace kmeans::openmp
