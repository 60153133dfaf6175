// SPDX-License-Identifier: Apache-2.0
//
// Which of the suite's exact variants a call takes: openmp_best, which chooses among all families on its
// way, or, where the iterations are too few to pay for what it sets up, its family of brute force alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "implementations/openmp/_best_choice.h"
#include "implementations/openmp/_family.h"
#include "library/engine.h"

namespace kmeans_exact {
// Unnamed on purpose: compiled with different options.
namespace {

/// Nanoseconds of one thread and point, as all of FamilyCosts: how much longer openmp_best takes to set up
/// than its brute force, sorting points into boxes or copying them with their bounds. Measured on a
/// processor with AVX-512.
inline double dearer_setup(const kmeans::Shape& shape) {
  const auto d = static_cast<double>(shape.d);
  return shape.d <= 8 ? 350 + 45 * d : 100 + 10 * d;
}

inline std::string engine_for(const kmeans::Shape& shape, std::int64_t iterations) {
  const std::string bytes = kmeans::openmp::int8_instructions(shape.d);
  const double iteration = kmeans::openmp::FamilyCosts(shape).brute(bytes);
  // Boxes save nearly everything from the first iteration on, bounds as soon as the centroids slow down.
  const double saved = shape.d <= 8 ? 1.0 : 0.5;
  return static_cast<double>(iterations) * saved * iteration > dearer_setup(shape)
             ? "openmp_best"
             : kmeans::openmp::brute_family(shape, bytes);
}

/// To be deleted by the caller. `bytes`: of memory that it takes at most, besides the points.
inline Engine* make_engine(const kmeans::Shape& shape, std::int64_t iterations, int threads,
                           double& bytes) {
  const auto variant = kmeans::registered_variant(engine_for(shape, iterations));
  bytes = variant.traits.memory_bytes(shape, threads);
  return variant.factory.make_float(kmeans::Precision::f32).release();
}

}  // namespace
}  // namespace kmeans_exact
