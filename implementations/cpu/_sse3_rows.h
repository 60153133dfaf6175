// SPDX-License-Identifier: Apache-2.0
//
// Means of rows in SSE3: a register holds four consecutive coordinates of a point, two in float64.
// For files compiled without vectorisation: what fills no register is added one by one.
#pragma once

#include <cstdint>

#include "harness/variant.h"
#include "implementations/_target.h"

#if defined(__x86_64__)
// "no-avx": the including file may be compiled for a better processor, whose wider instructions are
// not those of zechner2009.
KMEANS_BEGIN_TARGET("sse3,no-avx")
#endif
namespace kmeans::sse3 {
namespace {  // unnamed for the reason given in _lloyd.h

template <class T>
struct Register {
  typedef T V __attribute__((vector_size(16)));
  static constexpr std::int64_t kLanes = 16 / sizeof(T);
};

template <class T>
typename Register<T>::V load(const T* values) {
  typename Register<T>::V loaded;
  // Not std::memcpy: a fortified one is inline code for another target than this function's.
  __builtin_memcpy(&loaded, values, sizeof loaded);
  return loaded;
}

template <class T, class V>
void store(T* values, V vector) {
  __builtin_memcpy(values, &vector, sizeof vector);
}

/// sum += point, both of d values.
template <class T>
void add_vector(const T* point, std::int64_t d, T* sum) {
  constexpr std::int64_t kLanes = Register<T>::kLanes;
  std::int64_t t = 0;
  for (; t + kLanes <= d; t += kLanes) store(sum + t, load(sum + t) + load(point + t));
  for (; t < d; ++t) sum[t] += point[t];
}

/// centroid = sum / count, both of d values.
template <class T>
void scale_vector(const T* sum, T count, std::int64_t d, T* centroid) {
  constexpr std::int64_t kLanes = Register<T>::kLanes;
  std::int64_t t = 0;
  for (; t + kLanes <= d; t += kLanes) store(centroid + t, load(sum + t) / count);
  for (; t < d; ++t) centroid[t] = sum[t] / count;
}

/// labels: n; sums: k x d, counts: k; both begin as zero. Moves centroids (k x d) to the means. Not
/// inlined: inside of a function that is compiled for a better processor it would be, too.
template <class T>
[[gnu::noinline]] void update_centroids(const Problem<T>& problem, const std::int32_t* labels,
                                        T* sums, std::int64_t* counts, T* centroids) {
  const auto [n, d, k, precision] = problem.shape;
  for (std::int64_t i = 0; i < n; ++i) {
    add_vector(problem.points + i * d, d, sums + labels[i] * d);
    counts[labels[i]] += 1;
  }
  for (std::int64_t j = 0; j < k; ++j) {
    if (counts[j] == 0) continue;  // an empty cluster keeps its centroid
    scale_vector(sums + j * d, static_cast<T>(counts[j]), d, centroids + j * d);
  }
}

}  // namespace
}  // namespace kmeans::sse3
#if defined(__x86_64__)
KMEANS_END_TARGET
#endif
