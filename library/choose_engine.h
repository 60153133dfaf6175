// SPDX-License-Identifier: Apache-2.0
//
// Which of the suite's exact variants a call takes: openmp_best, which chooses among all families on its
// way; up to four coordinates openmp_tree, which it would choose; or, where the iterations are too few to pay for what
// these set up, brute force.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "harness/support/crews_work.h"
#include "implementations/openmp/_best_choice.h"
#include "implementations/openmp/_crew.h"
#include "implementations/openmp/_family.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_kept_memory.h"
#include "library/engine.h"

namespace kmeans_exact {
// Unnamed on purpose: compiled with different options.
namespace {

inline std::string engine_for(const kmeans::Shape& shape, std::int64_t iterations, bool weighted,
                              int threads) {
  const std::string bytes = kmeans::openmp::int8_instructions(shape.d);
  const std::string brute = kmeans::openmp::brute_family(shape, bytes, iterations, threads);
  if (iterations <= 1) return brute;  // no time for a change
  if (shape.d <= 4) {
    const bool tree = !weighted &&  // its nodes have sums without them
                      kmeans::openmp::surely_tree(shape, bytes, threads) &&
                      kmeans::openmp::tree_pays(shape, bytes, threads, iterations);
    return tree ? "openmp_tree" : brute;
  }
  // Boxes may save nearly everything from the first iteration on.
  const kmeans::openmp::FamilyCosts costs(shape, threads);
  const double most = static_cast<double>(iterations) * costs.brute(bytes);
  return shape.d > 8 || most > costs.tree_setup() ? "openmp_best" : brute;
}

inline MadeEngine make_engine(const kmeans::Shape& shape, std::int64_t iterations, bool weighted,
                              int threads) {
  kmeans::crews_work() = true;
  const auto variant = kmeans::registered_variant(engine_for(shape, iterations, weighted, threads));
  MadeEngine made;
  made.bytes = variant.traits.memory_bytes(shape, threads);
  made.engine = variant.factory.make_float(kmeans::Precision::f32).release();
  made.stops = dynamic_cast<kmeans::openmp::Stops<float>*>(made.engine);
  return made;
}

/// Squared distances of the exact step, n x k.
inline void squares_between(const float* points, std::int64_t n, std::int64_t d,
                            const float* centroids, std::int64_t k, double* squares) {
  kmeans::openmp::Float64Centroids packed(k, d);
  packed.pack(centroids, {0, packed.blocks()});
  for (std::int64_t i = 0; i < n; ++i) packed.squares(points + i * d, squares + i * k);
}

}  // namespace
}  // namespace kmeans_exact
