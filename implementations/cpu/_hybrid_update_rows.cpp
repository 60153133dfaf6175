// SPDX-License-Identifier: Apache-2.0
//
// Flags: -fno-tree-vectorize -fno-tree-slp-vectorize -ffp-contract=off
//
// Built as cpu_simd_rows is, with its loops.
#include <vector>

#include "implementations/cpu/_hybrid_update.h"
#include "implementations/cpu/_sse3_rows.h"

namespace kmeans::plain {
namespace {

template <class T>
class RowsUpdate final : public HybridUpdate<T> {
 public:
  std::int64_t update(const Problem<T>& problem, const std::int32_t* labels,
                      const std::int32_t* previous_labels, T* centroids) override {
    sums_.assign(problem.shape.k * problem.shape.d, T{0});
    counts_.assign(problem.shape.k, 0);
    sse3::update_centroids(problem, labels, sums_.data(), counts_.data(), centroids);
    return count_changes(labels, previous_labels, problem.shape.n);
  }

 private:
  std::vector<T> sums_;               // k x d
  std::vector<std::int64_t> counts_;  // k
};

}  // namespace

template <class T>
std::unique_ptr<HybridUpdate<T>> rows_update(const Shape& /*shape*/) {
  return std::make_unique<RowsUpdate<T>>();
}

template std::unique_ptr<HybridUpdate<float>> rows_update(const Shape&);
template std::unique_ptr<HybridUpdate<double>> rows_update(const Shape&);

}  // namespace kmeans::plain
