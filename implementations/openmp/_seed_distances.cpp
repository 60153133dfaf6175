// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Says to k-means++ that this backend has its distances faster.
#include "implementations/openmp/_seed_distances.h"

namespace {

[[maybe_unused]] const bool said = [] {
  kmeans::faster_seed_distances() = [](const kmeans::SeedingProblem<float>& problem) {
    return std::unique_ptr<kmeans::SeedDistances<float>>(
        std::make_unique<kmeans::openmp::FilteredSeedDistances>(problem));
  };
  return true;
}();

}  // namespace
