// SPDX-License-Identifier: Apache-2.0
//
// Whose threads the variants of implementations/openmp use.
#pragma once

#include <atomic>

namespace kmeans {

/// Are threads a crew's, or OpenMP's? Set before the first variant is set up. Shards of points need OpenMP's.
inline std::atomic<bool>& crews_work() {
  static std::atomic<bool> crews{false};
  return crews;
}

}  // namespace kmeans
