// SPDX-License-Identifier: Apache-2.0
#include "harness/support/mean_variance.h"

#include <numeric>
#include <vector>

#include "harness/support/parallel.h"

namespace kmeans {
namespace {

/// Of each column the sum of `term(coordinate, column)`, times weights, block by block in ascending order.
template <class T, class Term>
std::vector<double> column_sums(const T* points, std::int64_t n, std::int64_t d, int threads,
                                const std::int64_t* weights, const Term& term) {
  std::vector<double> parts(block_count(n) * d, 0.0);
  for_blocks(n, threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    double* sums = parts.data() + block * d;
    for (std::int64_t i = begin; i < end; ++i) {
      if (weights != nullptr) {
        const auto weight = static_cast<double>(weights[i]);
        for (std::int64_t t = 0; t < d; ++t) sums[t] += weight * term(points[i * d + t], t);
        continue;
      }
      for (std::int64_t t = 0; t < d; ++t) sums[t] += term(points[i * d + t], t);
    }
  });
  std::vector<double> sums(d, 0.0);
  for (std::int64_t block = 0; block < block_count(n); ++block) {
    for (std::int64_t t = 0; t < d; ++t) sums[t] += parts[block * d + t];
  }
  return sums;
}

}  // namespace

template <class T>
double mean_variance(const T* points, std::int64_t n, std::int64_t d, int threads,
                     const std::int64_t* weights) {
  const auto total = static_cast<double>(
      weights == nullptr ? n : std::accumulate(weights, weights + n, std::int64_t{0}));
  std::vector<double> means =
      column_sums(points, n, d, threads, weights,
                  [](T value, std::int64_t) { return static_cast<double>(value); });
  for (double& mean : means) mean /= total;
  const std::vector<double> squares =
      column_sums(points, n, d, threads, weights, [&](T value, std::int64_t t) {
        const double difference = static_cast<double>(value) - means[t];
        return difference * difference;
      });
  double sum = 0;
  for (const double square : squares) sum += square / total;
  return sum / static_cast<double>(d);
}

template double mean_variance<float>(const float*, std::int64_t, std::int64_t, int,
                                     const std::int64_t*);
template double mean_variance<double>(const double*, std::int64_t, std::int64_t, int,
                                      const std::int64_t*);

}  // namespace kmeans
