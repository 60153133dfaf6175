// SPDX-License-Identifier: Apache-2.0
//
// Flags: -fno-tree-vectorize -fno-tree-slp-vectorize -ffp-contract=off
//
// Built as cpu_scalar is, from the same sums.
#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_hybrid_update.h"

namespace kmeans::plain {
namespace {

template <class T>
class ScalarUpdate final : public HybridUpdate<T> {
 public:
  explicit ScalarUpdate(const Shape& shape) { sums_.resize(shape.k, shape.d); }

  std::int64_t update(const Problem<T>& problem, const std::int32_t* labels,
                      const std::int32_t* previous_labels, T* centroids) override {
    const auto [n, d, k, precision] = problem.shape;
    sums_.clear();
    for (std::int64_t i = 0; i < n; ++i) sums_.add(labels[i], problem.points + i * d);
    sums_.move(centroids, 0, k);
    return count_changes(labels, previous_labels, n);
  }

 private:
  ClusterSums<T> sums_;
};

}  // namespace

template <class T>
std::unique_ptr<HybridUpdate<T>> scalar_update(const Shape& shape) {
  return std::make_unique<ScalarUpdate<T>>(shape);
}

template std::unique_ptr<HybridUpdate<float>> scalar_update(const Shape&);
template std::unique_ptr<HybridUpdate<double>> scalar_update(const Shape&);

}  // namespace kmeans::plain
