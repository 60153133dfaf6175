// SPDX-License-Identifier: Apache-2.0
//
// By blocks, on several threads.
#pragma once

#include <cstdint>

namespace kmeans {

/// Largest |coordinate| of n x d values.
template <class T>
T largest_abs(const T* points, std::int64_t count, int threads);

}  // namespace kmeans
