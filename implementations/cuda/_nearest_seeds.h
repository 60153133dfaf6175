// SPDX-License-Identifier: Apache-2.0
//
// What the choice of seeds asks of all points at once, and who answers on matrix units.
#pragma once

#include <cstdint>
#include <memory>

namespace kmeans::cuda {

/// The nearest of some seeds of every point, by the distances of the exact step.
class NearestSeeds {
 public:
  NearestSeeds() = default;
  virtual ~NearestSeeds() = default;
  NearestSeeds(const NearestSeeds&) = delete;
  NearestSeeds& operator=(const NearestSeeds&) = delete;

  /// dev_seeds: count x d. dev_nearest: n; the lowest number on a tie. In the order of the default stream.
  virtual void find(float* dev_seeds, std::int64_t count, std::int32_t* dev_nearest) = 0;
};

/// dev_points: n x d, which outlive it. max_abs: their largest |coordinate|; 0: it is not known. Null: the GPU is not
/// of the kind that it is for, or does not take the shape. `most`: seeds at a time.
using NearestSeedsFactory = std::unique_ptr<NearestSeeds> (*)(const float* dev_points,
                                                              std::int64_t n, std::int64_t d,
                                                              float max_abs, std::int64_t most);

/// Set before main() begins, where they were compiled; else null.
inline NearestSeedsFactory& matrix_unit_seeds() {
  static NearestSeedsFactory factory = nullptr;
  return factory;
}

}  // namespace kmeans::cuda
