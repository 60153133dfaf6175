// SPDX-License-Identifier: Apache-2.0
//
// The engine of the library, behind the suite's contract. What is compiled for other instructions than the
// library itself (engine_level.cpp) is reached through functions that no compiler merges with others.
#pragma once

#include <cstdint>

#include "harness/support/seed_distances.h"
#include "harness/variant.h"

namespace kmeans_exact {

using Engine = kmeans::Variant<float>;
using SeedDistances = kmeans::SeedDistances<float>;
using SeedingProblem = kmeans::SeedingProblem<float>;

}  // namespace kmeans_exact

extern "C" {
// Distances for k-means++, to be deleted by the caller; one function for each level.
kmeans_exact::SeedDistances* kmeans_exact_seed_distances_native(
    const kmeans_exact::SeedingProblem& problem);
kmeans_exact::SeedDistances* kmeans_exact_seed_distances_x86_64(
    const kmeans_exact::SeedingProblem& problem);
kmeans_exact::SeedDistances* kmeans_exact_seed_distances_x86_64_v3(
    const kmeans_exact::SeedingProblem& problem);
kmeans_exact::SeedDistances* kmeans_exact_seed_distances_x86_64_v4(
    const kmeans_exact::SeedingProblem& problem);
// The engine for a call of so many iterations on so many threads, to be deleted by the caller, and the bytes
// that it takes at most besides the points; one function for each level that is built.
kmeans_exact::Engine* kmeans_exact_engine_native(const kmeans::Shape& shape,
                                                 std::int64_t iterations, int threads,
                                                 double& bytes);
kmeans_exact::Engine* kmeans_exact_engine_x86_64(const kmeans::Shape& shape,
                                                 std::int64_t iterations, int threads,
                                                 double& bytes);
kmeans_exact::Engine* kmeans_exact_engine_x86_64_v3(const kmeans::Shape& shape,
                                                    std::int64_t iterations, int threads,
                                                    double& bytes);
kmeans_exact::Engine* kmeans_exact_engine_x86_64_v4(const kmeans::Shape& shape,
                                                    std::int64_t iterations, int threads,
                                                    double& bytes);
}
