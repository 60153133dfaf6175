// SPDX-License-Identifier: Apache-2.0
//
// Groups of neighbouring centroids, of equal size but for one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "implementations/openmp/_range.h"

namespace kmeans::openmp {

/// Divides a range of centroids among groups: halved across the line from the one that is furthest from
/// the mean to the one that is furthest from that, and so on.
class CentroidHalving {
 public:
  CentroidHalving(const float* centroids, std::int64_t d) : centroids_(centroids), d_(d) {}

  void divide(std::int32_t* begin, std::int32_t* end, std::vector<std::int32_t>* groups,
              int count) {
    if (count == 1) {
      groups->assign(begin, end);
      std::sort(groups->begin(), groups->end());
      return;
    }
    const int left = count / 2;
    std::int32_t* middle = begin + (end - begin) * left / count;
    const auto from = furthest(begin, end, mean(begin, end));
    const auto to = furthest(begin, end, from);
    std::vector<std::pair<double, std::int32_t>> keys;
    for (const std::int32_t* j = begin; j < end; ++j) {
      const double along =
          sum([&](std::int64_t t) { return (to[t] - from[t]) * coordinate(*j, t); });
      keys.emplace_back(along, *j);
    }
    std::nth_element(keys.begin(), keys.begin() + (middle - begin), keys.end());
    for (std::size_t i = 0; i < keys.size(); ++i) begin[i] = keys[i].second;
    divide(begin, middle, groups, left);
    divide(middle, end, groups + left, count - left);
  }

 private:
  using Place = std::vector<double>;

  [[nodiscard]] double coordinate(std::int32_t j, std::int64_t t) const {
    return static_cast<double>(centroids_[j * d_ + t]);
  }

  /// Over all coordinates, by sums that do not wait for one another.
  template <class Term>
  [[nodiscard]] double sum(const Term& term) const {
    constexpr std::int64_t kSums = 8;
    std::array<double, kSums> sums{};
    std::int64_t t = 0;
    for (; t + kSums <= d_; t += kSums) {
      for (std::int64_t u = 0; u < kSums; ++u) sums[u] += term(t + u);
    }
    for (; t < d_; ++t) sums[0] += term(t);
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  [[nodiscard]] Place mean(const std::int32_t* begin, const std::int32_t* end) const {
    Place sums(d_, 0.0);
    for (const std::int32_t* j = begin; j < end; ++j) {
      for (std::int64_t t = 0; t < d_; ++t) sums[t] += coordinate(*j, t);
    }
    for (double& sum : sums) sum /= static_cast<double>(end - begin);
    return sums;
  }

  [[nodiscard]] Place furthest(const std::int32_t* begin, const std::int32_t* end,
                               const Place& from) const {
    std::int32_t chosen = *begin;
    double most = -1;
    for (const std::int32_t* j = begin; j < end; ++j) {
      const double squares = sum([&](std::int64_t t) {
        const double difference = coordinate(*j, t) - from[t];
        return difference * difference;
      });
      if (squares > most) {
        most = squares;
        chosen = *j;
      }
    }
    Place place(d_);
    for (std::int64_t t = 0; t < d_; ++t) place[t] = coordinate(chosen, t);
    return place;
  }

  const float* centroids_;
  std::int64_t d_;
};

/// `count` groups of k centroids that follow one another, wherever they lie; 1 <= count <= k.
inline std::vector<std::vector<std::int32_t>> consecutive_groups(std::int64_t k, int count) {
  std::vector<std::vector<std::int32_t>> groups(count);
  for (int g = 0; g < count; ++g) {
    const Range part = part_of(k, g, count);
    groups[g].resize(part.end - part.begin);
    std::iota(groups[g].begin(), groups[g].end(), static_cast<std::int32_t>(part.begin));
  }
  return groups;
}

/// `count` groups of the centroids k x d, indices ascending in each; 1 <= count <= k.
inline std::vector<std::vector<std::int32_t>> balanced_groups(const float* centroids,
                                                              std::int64_t k, std::int64_t d,
                                                              int count) {
  std::vector<std::int32_t> order(k);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<std::int32_t>> groups(count);
  CentroidHalving(centroids, d).divide(order.data(), order.data() + k, groups.data(), count);
  return groups;
}

}  // namespace kmeans::openmp
