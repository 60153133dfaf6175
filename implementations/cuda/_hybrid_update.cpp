// SPDX-License-Identifier: Apache-2.0
#include "implementations/cuda/_hybrid_update.h"

#include <algorithm>

namespace kmeans::cuda {
namespace {

/// Adds each point to the sum of its cluster, i ascending: the update of cpu_simd.
template <class T>
void sum_points(const T* points, const std::int32_t* labels, std::int64_t n, std::int64_t d,
                T* sums, std::int64_t* counts) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T* point = points + i * d;
    T* __restrict sum = sums + labels[i] * d;
    counts[labels[i]] += 1;
    for (std::int64_t t = 0; t < d; ++t) sum[t] += point[t];
  }
}

}  // namespace

template <class T>
void HybridUpdate<T>::resize(std::int64_t d, std::int64_t k) {
  d_ = d;
  sums_.resize(static_cast<std::size_t>(k * d));
  counts_.resize(static_cast<std::size_t>(k));
}

template <class T>
std::int64_t HybridUpdate<T>::update(const T* points, const std::int32_t* labels,
                                     const std::int32_t* previous_labels, std::int64_t n,
                                     T* centroids) {
  std::fill(sums_.begin(), sums_.end(), T{0});
  std::fill(counts_.begin(), counts_.end(), 0);
  sum_points(points, labels, n, d_, sums_.data(), counts_.data());
  const auto k = static_cast<std::int64_t>(counts_.size());
  for (std::int64_t j = 0; j < k; ++j) {
    if (counts_[j] == 0) continue;  // an empty cluster keeps its centroid
    const T count = static_cast<T>(counts_[j]);
    for (std::int64_t at = j * d_; at < (j + 1) * d_; ++at) centroids[at] = sums_[at] / count;
  }
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < n; ++i) changed += labels[i] != previous_labels[i] ? 1 : 0;
  return changed;
}

template class HybridUpdate<float>;
template class HybridUpdate<double>;

}  // namespace kmeans::cuda
