// SPDX-License-Identifier: Apache-2.0
//
// The levels of instructions that the library holds engines for.
#pragma once

#include <cstdint>

#include "harness/support/faster_seeding.h"
#include "harness/variant.h"
#include "library/engine.h"

// A namespace that the library's users do not see.
namespace kmeans_exact_levels {

struct Level {
  const char* name;
  void (*make)(const kmeans::Shape&, std::int64_t iterations, bool weighted, int threads,
               kmeans_exact::MadeEngine& made);
  kmeans::FasterSeeding (*seeding)();
  void (*squares)(const float* points, std::int64_t n, std::int64_t d, const float* centroids,
                  std::int64_t k, double* squares);
  void (*release)();
  bool (*runs_here)();
};

/// The best that this processor has; its code chooses seeds from now on.
const Level& level_of_this_processor();

}  // namespace kmeans_exact_levels
