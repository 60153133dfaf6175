// SPDX-License-Identifier: Apache-2.0
//
// Any family of exact variants for the labels, and other sums than its own: of weighted points, or scaled to
// length one.
#pragma once

#include <memory>
#include <string>

#include "harness/variant.h"
#include "implementations/cuda/_family.h"

namespace kmeans::cuda {

/// `labels`, not set up, labels points alone: it begins again in each iteration, as it does in another family's place.
std::unique_ptr<Family<float>> counted_family(std::unique_ptr<Family<float>> labels);

/// Does the family keep points in an order of its own, next to their rows?
inline bool keeps_own_order(const std::string& family) {
  return family == "cuda_exact" || family == "cuda_resident" || family == "cuda_tree";
}

/// Bytes of the points' rows, which such a problem keeps on the GPU whatever family labels them.
inline double bytes_of_rows(const Sizes& s) { return 4 * s.n * s.d; }

/// Bytes on the GPU of such a problem, its rows among them, where the labels are those of a family that needs
/// `family_bytes` for itself.
inline double counted_bytes(const std::string& family, double family_bytes, const Sizes& s) {
  const double rows = keeps_own_order(family) ? bytes_of_rows(s) : 0;
  // Labels, those before and weights; centroids, and those before; sums of 128 bits.
  return family_bytes + rows + 16 * s.n + 8 * s.k * s.d + 16 * s.k * (s.d + 1);
}

}  // namespace kmeans::cuda
