// SPDX-License-Identifier: Apache-2.0
//
// The part of cuda_hybrid that the CPU does: new centroids from labels, on one thread. In a file of
// its own, so that the C++ compiler builds it, for this machine's widest SIMD registers.
#pragma once

#include <cstdint>
#include <vector>

namespace kmeans::cuda {

template <class T>
class HybridUpdate {
 public:
  void resize(std::int64_t d, std::int64_t k);

  /// Moves the centroids (k x d) to the means of the points (n x d, row-major) with their labels
  /// (n); an empty cluster keeps its centroid. Returns how many labels differ from previous_labels.
  std::int64_t update(const T* points, const std::int32_t* labels,
                      const std::int32_t* previous_labels, std::int64_t n, T* centroids);

 private:
  std::int64_t d_ = 0;
  std::vector<T> sums_;               // k x d
  std::vector<std::int64_t> counts_;  // k
};

extern template class HybridUpdate<float>;
extern template class HybridUpdate<double>;

}  // namespace kmeans::cuda
