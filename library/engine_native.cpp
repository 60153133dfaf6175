// SPDX-License-Identifier: Apache-2.0
//
// The variants as the suite compiled them: the very objects that its charts measure.
#include "library/choose_engine.h"
#include "library/engine.h"

kmeans_exact::Engine* kmeans_exact_engine_native(const kmeans::Shape& shape,
                                                 std::int64_t iterations, int threads,
                                                 double& bytes) {
  return kmeans_exact::make_engine(shape, iterations, threads, bytes);
}

kmeans::FasterSeeding kmeans_exact_seeding_native() { return kmeans::faster_seeding(); }
