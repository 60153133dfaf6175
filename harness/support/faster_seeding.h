// SPDX-License-Identifier: Apache-2.0
//
// How a backend lends its registers to the choice of seeds (docs/seeding.md): what it makes gives the same bits
// as the plain way.
#pragma once

#include "harness/support/seed_distances.h"
#include "harness/support/ward_costs.h"

namespace kmeans {

/// Null: there is none but the plain one.
struct FasterSeeding {
  SeedDistancesFactory distances = nullptr;
  MergeCostsFactory merge_costs = nullptr;
};

/// Set by a backend before main() begins.
inline FasterSeeding& faster_seeding() {
  static FasterSeeding faster;
  return faster;
}

}  // namespace kmeans
