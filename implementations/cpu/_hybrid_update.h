// SPDX-License-Identifier: Apache-2.0
//
// What the CPU does in the variants cuda_hybrid…: new centroids from labels, on one thread. In
// zechner2009 one compiler builds this update and the sequential program that the GPU is compared
// with; so each of our sequential programs has an update here, in a file of its own with its flags.
// Points are added i ascending in their own scalar: all three give the same bits.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/variant.h"

namespace kmeans::plain {

template <class T>
class HybridUpdate {
 public:
  virtual ~HybridUpdate() = default;

  /// Moves the centroids (k x d) to the means of the problem's points (n x d, row-major) with their
  /// labels (n); an empty cluster keeps its centroid. Returns how many labels differ from
  /// previous_labels (n).
  virtual std::int64_t update(const Problem<T>& problem, const std::int32_t* labels,
                              const std::int32_t* previous_labels, T* centroids) = 0;
};

/// The update of cpu_scalar.
template <class T>
std::unique_ptr<HybridUpdate<T>> scalar_update(const Shape& shape);

/// The update of cpu_simd_rows: SSE3 along the coordinates.
template <class T>
std::unique_ptr<HybridUpdate<T>> rows_update(const Shape& shape);

/// As the compiler builds it for this machine's widest registers.
template <class T>
std::unique_ptr<HybridUpdate<T>> native_update(const Shape& shape);

namespace {  // unnamed for the reason given in _lloyd.h

[[maybe_unused]] inline std::int64_t count_changes(const std::int32_t* labels,
                                                   const std::int32_t* previous_labels,
                                                   std::int64_t n) {
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < n; ++i) changed += labels[i] != previous_labels[i] ? 1 : 0;
  return changed;
}

}  // namespace
}  // namespace kmeans::plain
