// SPDX-License-Identifier: Apache-2.0
//
// Clusters for which merging them comes near to ties and to what rounding moves.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/support/ward_costs.h"

namespace kmeans {

/// Clusters whose coordinates are a few units apart, of a kind that `number` decides.
inline void make_awkward(WeightedMeans& clusters, std::uint64_t number) {
  for (double& mean : clusters.means) {
    if (number % 4 == 1) mean = std::round(mean);    // equal costs, and costs of 0
    if (number % 4 == 2) mean = 1e9 + mean;          // rounding of means is near the costs
    if (number % 4 == 3) mean = mean * mean * mean;  // some far out
  }
  if (number % 8 == 3) clusters.means[0] = 1e30;
}

}  // namespace kmeans
