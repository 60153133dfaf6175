// SPDX-License-Identifier: Apache-2.0
//
// Any family of exact variants for the labels, and other sums than its own: of weighted points, or scaled to
// length one.
#pragma once

#include <memory>

#include "implementations/cuda/_family.h"

namespace kmeans::cuda {

/// `labels`, not set up, labels points alone: it begins again in each iteration, as it does in another family's place.
std::unique_ptr<Family<float>> counted_family(std::unique_ptr<Family<float>> labels);

}  // namespace kmeans::cuda
