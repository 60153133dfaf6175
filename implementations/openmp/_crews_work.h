// SPDX-License-Identifier: Apache-2.0
//
// Whose threads the variants of this folder use, for those that set it: compiled without OpenMP.
#pragma once

#include <atomic>

namespace kmeans::openmp {

/// Are threads a crew's, or OpenMP's? Set before the first variant is set up.
inline std::atomic<bool>& crews_work() {
  static std::atomic<bool> crews{false};
  return crews;
}

}  // namespace kmeans::openmp
