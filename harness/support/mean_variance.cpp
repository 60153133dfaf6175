// SPDX-License-Identifier: Apache-2.0
#include "harness/support/mean_variance.h"

#include <numeric>
#include <vector>

#include "harness/support/parallel.h"

namespace kmeans {
namespace {

/// Of each block and column the sum of `term(coordinate, column)`, times weights, in ascending order of the rows.
template <class T, class Term>
std::vector<double> column_parts(const T* points, std::int64_t n, std::int64_t d, int threads,
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
  return parts;
}

/// Of each problem, block by block in ascending order.
std::vector<double> added_up(const std::vector<double>& parts, std::int64_t problems,
                             std::int64_t d) {
  std::vector<double> sums(problems * d, 0.0);
  const std::int64_t each = std::ssize(parts) / problems;
  for (std::int64_t p = 0; p < std::ssize(parts); ++p)
    sums[p / each * d + p % each % d] += parts[p];
  return sums;
}

}  // namespace

std::vector<double> mean_variances_of(
    std::int64_t problems, std::int64_t n, std::int64_t d,
    const std::function<std::vector<double>(const double* means)>& parts,
    const std::int64_t* weights) {
  const auto total = static_cast<double>(
      weights == nullptr ? n : std::accumulate(weights, weights + n, std::int64_t{0}));
  std::vector<double> means = added_up(parts(nullptr), problems, d);
  for (double& mean : means) mean /= total;
  const std::vector<double> squares = added_up(parts(means.data()), problems, d);
  std::vector<double> variances(problems, 0.0);
  for (std::int64_t at = 0; at < problems * d; ++at) variances[at / d] += squares[at] / total;
  for (double& variance : variances) variance /= static_cast<double>(d);
  return variances;
}

template <class T>
double mean_variance(const T* points, std::int64_t n, std::int64_t d, int threads,
                     const std::int64_t* weights) {
  const auto parts = [&](const double* means) {
    if (means == nullptr) {
      return column_parts(points, n, d, threads, weights,
                          [](T value, std::int64_t) { return static_cast<double>(value); });
    }
    return column_parts(points, n, d, threads, weights, [&](T value, std::int64_t t) {
      const double difference = static_cast<double>(value) - means[t];
      return difference * difference;
    });
  };
  return mean_variances_of(1, n, d, parts, weights).front();
}

template double mean_variance<float>(const float*, std::int64_t, std::int64_t, int,
                                     const std::int64_t*);
template double mean_variance<double>(const double*, std::int64_t, std::int64_t, int,
                                      const std::int64_t*);

}  // namespace kmeans
