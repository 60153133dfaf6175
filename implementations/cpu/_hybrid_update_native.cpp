// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "implementations/cpu/_hybrid_update.h"

namespace kmeans::plain {
namespace {

template <class T>
class NativeUpdate final : public HybridUpdate<T> {
 public:
  std::int64_t update(const Problem<T>& problem, const std::int32_t* labels,
                      const std::int32_t* previous_labels, T* centroids) override {
    const auto [n, d, k, precision] = problem.shape;
    sums_.assign(k * d, T{0});
    counts_.assign(k, 0);
    sum_points(problem.points, labels, n, d);
    for (std::int64_t j = 0; j < k; ++j) {
      if (counts_[j] == 0) continue;  // an empty cluster keeps its centroid
      const T count = static_cast<T>(counts_[j]);
      for (std::int64_t at = j * d; at < (j + 1) * d; ++at) centroids[at] = sums_[at] / count;
    }
    return count_changes(labels, previous_labels, n);
  }

 private:
  /// Adds each point to the sum of its cluster, i ascending: the update of cpu_simd.
  void sum_points(const T* points, const std::int32_t* labels, std::int64_t n, std::int64_t d) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T* point = points + i * d;
      T* __restrict sum = sums_.data() + labels[i] * d;
      counts_[labels[i]] += 1;
      for (std::int64_t t = 0; t < d; ++t) sum[t] += point[t];
    }
  }

  std::vector<T> sums_;               // k x d
  std::vector<std::int64_t> counts_;  // k
};

}  // namespace

template <class T>
std::unique_ptr<HybridUpdate<T>> native_update(const Shape& /*shape*/) {
  return std::make_unique<NativeUpdate<T>>();
}

template std::unique_ptr<HybridUpdate<float>> native_update(const Shape&);
template std::unique_ptr<HybridUpdate<double>> native_update(const Shape&);

}  // namespace kmeans::plain
