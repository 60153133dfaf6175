// SPDX-License-Identifier: Apache-2.0
//
// The engine of the library, behind the suite's contract. What is compiled for other instructions than the
// library itself (engine_level.cpp) is reached through one function that no compiler merges with another.
#pragma once

#include "harness/variant.h"

namespace kmeans_exact {

using Engine = kmeans::Variant<float>;

/// openmp_best, the exact variant that chooses among all others.
inline constexpr const char* kEngine = "openmp_best";

}  // namespace kmeans_exact

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
/// A new engine, to be deleted by the caller; one function for each level that is built.
kmeans_exact::Engine* kmeans_exact_engine_native();
kmeans_exact::Engine* kmeans_exact_engine_x86_64();
kmeans_exact::Engine* kmeans_exact_engine_x86_64_v3();
kmeans_exact::Engine* kmeans_exact_engine_x86_64_v4();
}
// NOLINTEND(bugprone-reserved-identifier)
