// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Lends the registers of this backend to the choice of seeds.
#include "implementations/openmp/_seed_distances.h"

namespace {

[[maybe_unused]] const bool said = [] {
  kmeans::faster_seeding() = kmeans::openmp::seeding();
  return true;
}();

}  // namespace
