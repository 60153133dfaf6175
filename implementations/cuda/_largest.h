// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace kmeans::cuda {

/// The largest of `count` values in the GPU's memory without their signs; infinite or NaN if one is.
float largest_abs_on_gpu(const float* dev_values, std::int64_t count);

}  // namespace kmeans::cuda
