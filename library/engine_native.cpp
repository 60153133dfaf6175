// SPDX-License-Identifier: Apache-2.0
//
// The variants as the suite compiled them: the very objects that its charts measure.
#include "library/choose_engine.h"
#include "library/engine.h"

void kmeans_exact_engine_native(const kmeans::Shape& shape, std::int64_t iterations, bool weighted,
                                int threads, kmeans_exact::MadeEngine& made) {
  made = kmeans_exact::make_engine(shape, iterations, weighted, threads);
}

void kmeans_exact_squares_native(const float* points, std::int64_t n, std::int64_t d,
                                 const float* centroids, std::int64_t k, double* squares) {
  kmeans_exact::squares_between(points, n, d, centroids, k, squares);
}

void kmeans_exact_release_native() { kmeans::openmp::KeptMemory::of_process().give_back(); }

kmeans::FasterSeeding kmeans_exact_seeding_native() { return kmeans::faster_seeding(); }
