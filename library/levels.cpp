// SPDX-License-Identifier: Apache-2.0
#include "library/levels.h"

#include <stdexcept>

namespace kmeans_exact_levels {
namespace {

// From the best; the file has a row for each level that is built.
const Level kLevels[] = {
#include "kmeans_exact_levels.inc"
};

}  // namespace

const Level& level_of_this_processor() {
  static const Level* const chosen = [] {
    for (const Level& level : kLevels) {
      if (!level.runs_here()) continue;
      kmeans::faster_seeding() = level.seeding();
      return &level;
    }
    throw std::runtime_error("kmeans_exact was not built for this processor");
  }();
  return *chosen;
}

}  // namespace kmeans_exact_levels
