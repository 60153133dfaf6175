// SPDX-License-Identifier: Apache-2.0
//
// Sums and counts of the points of each cluster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kmeans::plain {
namespace {  // unnamed for the reason given in _lloyd.h

/// Sum is the scalar that the points are summed in.
template <class Sum>
class ClusterSums {
 public:
  void resize(std::int64_t k, std::int64_t d) {
    d_ = d;
    sums_.resize(k * d);
    counts_.resize(k);
  }

  void clear() {
    std::fill(sums_.begin(), sums_.end(), Sum{0});
    std::fill(counts_.begin(), counts_.end(), 0);
  }

  /// point: d coordinates.
  template <class T>
  void add(std::int64_t j, const T* point) {
    Sum* __restrict sum = sums_.data() + j * d_;
    for (std::int64_t t = 0; t < d_; ++t) sum[t] += point[t];
    counts_[j] += 1;
  }

  /// For code that adds many points in a way of its own: k x d sums, k counts.
  Sum* sums() { return sums_.data(); }
  std::int64_t* counts() { return counts_.data(); }

  /// Adds another's sums of clusters begin <= j < end.
  void add(const ClusterSums& other, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * d_; at < end * d_; ++at) sums_[at] += other.sums_[at];
    for (std::int64_t j = begin; j < end; ++j) counts_[j] += other.counts_[j];
  }

  /// Moves the centroids (k x d) of clusters begin <= j < end to their means; an empty cluster
  /// keeps its centroid. Returns the sum of squared movements.
  template <class T>
  double move(T* centroids, std::int64_t begin, std::int64_t end) const {
    double movement = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      if (counts_[j] == 0) continue;
      for (std::int64_t at = j * d_; at < (j + 1) * d_; ++at) {
        const T mean = static_cast<T>(sums_[at] / static_cast<Sum>(counts_[j]));
        const double moved = static_cast<double>(mean) - static_cast<double>(centroids[at]);
        movement += moved * moved;
        centroids[at] = mean;
      }
    }
    return movement;
  }

 private:
  std::int64_t d_ = 0;
  std::vector<Sum> sums_;             // k x d
  std::vector<std::int64_t> counts_;  // k
};

}  // namespace
}  // namespace kmeans::plain
