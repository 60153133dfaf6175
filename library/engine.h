// SPDX-License-Identifier: Apache-2.0
//
// The engine of the library, behind the suite's contract. What is compiled for other instructions than the
// library itself (engine_level.cpp) is reached through functions that no compiler merges with others.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/support/faster_seeding.h"
#include "harness/support/point_facts.h"
#include "harness/variant.h"
#include "implementations/_stops.h"

namespace kmeans_exact {

using Engine = kmeans::Variant<float>;

/// An engine, to be deleted by the caller.
struct MadeEngine {
  Engine* engine = nullptr;
  kmeans::Stops<float>* stops = nullptr;  ///< The same.
  double bytes = 0;                       ///< That it takes at most besides the points.
};

/// Points on a GPU, for all that is set up while it lives.
class SentRows {
 public:
  SentRows() = default;
  virtual ~SentRows() = default;
  SentRows(const SentRows&) = delete;
  SentRows& operator=(const SentRows&) = delete;

  /// Where they are on the GPU, as float32.
  [[nodiscard]] virtual const float* place() const = 0;
  /// Of each of so many problems, as many rows each.
  [[nodiscard]] virtual kmeans::PointFacts facts(std::int64_t problems) const = 0;
  /// Is each of length one, or of zeros, as Metric::cosine wants them?
  [[nodiscard]] virtual bool all_unit() const = 0;
  /// As of kmeans::PointsElsewhere.
  virtual void copy_rows(const std::vector<std::int64_t>& rows, std::int64_t first,
                         std::int64_t count, float* to) const = 0;
  /// All of them.
  virtual void copy_all(float* to) const = 0;
  /// As kmeans::mean_variances_of() asks for.
  [[nodiscard]] virtual std::vector<double> column_parts(std::int64_t problems,
                                                         const double* means) const = 0;
  /// As kmeans_exact::inertia(); labels are from 0 to k - 1.
  [[nodiscard]] virtual double inertia(const float* centroids, std::int64_t k,
                                       const std::int32_t* labels) const = 0;
  /// As kmeans_exact::distances(), from k centroids; `between` may be empty.
  virtual void distances(const float* centroids, std::int64_t k, double* to,
                         const std::function<void()>& between) const = 0;
  virtual void distances(const float* centroids, std::int64_t k, float* to,
                         const std::function<void()>& between) const = 0;
};

}  // namespace kmeans_exact

extern "C" {
// Squared distances of the exact step, n x k, of n x d points from k x d centroids.
void kmeans_exact_squares_native(const float* points, std::int64_t n, std::int64_t d,
                                 const float* centroids, std::int64_t k, double* squares);
void kmeans_exact_squares_x86_64(const float* points, std::int64_t n, std::int64_t d,
                                 const float* centroids, std::int64_t k, double* squares);
void kmeans_exact_squares_x86_64_v3(const float* points, std::int64_t n, std::int64_t d,
                                    const float* centroids, std::int64_t k, double* squares);
void kmeans_exact_squares_x86_64_v4(const float* points, std::int64_t n, std::int64_t d,
                                    const float* centroids, std::int64_t k, double* squares);
// Gives back the memory that engines keep; one function for each level that is built.
void kmeans_exact_release_native();
void kmeans_exact_release_x86_64();
void kmeans_exact_release_x86_64_v3();
void kmeans_exact_release_x86_64_v4();
// For the choice of seeds; one function for each level that is built.
kmeans::FasterSeeding kmeans_exact_seeding_native();
kmeans::FasterSeeding kmeans_exact_seeding_x86_64();
kmeans::FasterSeeding kmeans_exact_seeding_x86_64_v3();
kmeans::FasterSeeding kmeans_exact_seeding_x86_64_v4();
// The engine for a call of so many iterations on so many threads; one function for each level that is built.
void kmeans_exact_engine_native(const kmeans::Shape& shape, std::int64_t iterations, bool weighted,
                                int threads, kmeans_exact::MadeEngine& made);
void kmeans_exact_engine_x86_64(const kmeans::Shape& shape, std::int64_t iterations, bool weighted,
                                int threads, kmeans_exact::MadeEngine& made);
void kmeans_exact_engine_x86_64_v3(const kmeans::Shape& shape, std::int64_t iterations,
                                   bool weighted, int threads, kmeans_exact::MadeEngine& made);
void kmeans_exact_engine_x86_64_v4(const kmeans::Shape& shape, std::int64_t iterations,
                                   bool weighted, int threads, kmeans_exact::MadeEngine& made);
}
