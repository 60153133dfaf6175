// SPDX-License-Identifier: Apache-2.0
#include "library/checks.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "datasets/plus_plus.h"
#include "harness/exact_step.h"
#include "harness/support/parallel.h"
#include "library/gpu_engine.h"
#include "library/surroundings.h"

namespace kmeans_exact_checks {

using kmeans_exact::Options;
using kmeans_exact::Stop;

namespace {
constexpr int kMaxThreads = 4096;
}

void require(bool good, const std::string& what) {
  if (!good) throw std::invalid_argument("kmeans_exact: " + what);
}

void check_sizes(std::int64_t n, std::int64_t d, std::int64_t k) {
  require(d >= 1, "d is " + std::to_string(d) + "; at least one coordinate is needed");
  require(n >= 1, "n is " + std::to_string(n) + "; at least one point is needed");
  require(k >= 1, "k is " + std::to_string(k) + "; at least one cluster is needed");
  // Engines keep indices of centroids as numbers in float lanes.
  require(k < std::int64_t{1} << 24, "k is " + std::to_string(k) + "; it must be below 2^24");
  require(n <= INT64_MAX / 8 / d, "n x d = " + std::to_string(n) + " x " + std::to_string(d) +
                                      " is more than memory can hold");
}

int worth_a_thread(std::int64_t coordinates, int threads) {
  return kmeans::worth_threads(static_cast<double>(coordinates), 1 << 18, threads);
}

float largest_of(const char* what, const float* values, std::int64_t rows, std::int64_t d,
                 int threads) {
  std::vector<std::int32_t> largest(kmeans::block_count(rows * d));
  kmeans::for_blocks(rows * d, worth_a_thread(rows * d, threads),
                     [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                       // As integers: the bits of floats are in the order of their sizes, infinity and NaN last,
                       // and comparisons of floats that may be NaN are not vectorised.
                       std::int32_t most = 0;
                       for (std::int64_t c = begin; c < end; ++c) {
                         most = std::max(most, std::bit_cast<std::int32_t>(values[c]) & INT32_MAX);
                       }
                       const bool finite = std::isfinite(std::bit_cast<float>(most));
                       for (std::int64_t c = begin; !finite && c < end; ++c) {
                         require(std::isfinite(values[c]),
                                 std::string(what) + " " + std::to_string(c / d) + ", coordinate " +
                                     std::to_string(c % d) + " is " + std::to_string(values[c]) +
                                     "; all must be finite");
                       }
                       largest[block] = most;
                     });
  return std::bit_cast<float>(*std::max_element(largest.begin(), largest.end()));
}

void check_unit_rows(const float* rows, std::int64_t n, std::int64_t d, int threads) {
  const kmeans_exact_surroundings::DefaultModes modes;
  kmeans::for_blocks(n, worth_a_thread(n * d, threads),
                     [&](std::int64_t /*block*/, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         require(kmeans::exact::is_unit_or_zero(rows + i * d, d),
                                 "point " + std::to_string(i) +
                                     " is not of length one, as cosine wants it; unit_rows makes "
                                     "rows so");
                       }
                     });
}

void refuse_gpu(const std::string& why_not) {
  throw std::runtime_error("kmeans_exact: no GPU can be used: " + why_not);
}

void require_gpu() {
  if (const std::string why_not = kmeans_exact_gpu::problem(); !why_not.empty()) {
    refuse_gpu(why_not);
  }
}

int checked_threads(int threads) {
  require(threads >= 0 && threads <= kMaxThreads, "threads is " + std::to_string(threads) +
                                                      "; it must be from 0, which means all, to " +
                                                      std::to_string(kMaxThreads));
  if (threads > 0) return threads;
  // With more threads than the quota grants, some are stopped while the others wait for them.
  static const double granted = std::ceil(kmeans_exact_surroundings::granted_processors());
  // OMP_NUM_THREADS or threadpoolctl, by which those who start several processes share the processors.
  const int limited = std::max(1, omp_get_max_threads());
  return static_cast<int>(
      std::min({1.0 * kMaxThreads, 1.0 * kmeans::usable_processors(), 1.0 * limited, granted}));
}

void check_weights(const std::int64_t* weights, std::int64_t n) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    require(weights[i] >= 0, "weight " + std::to_string(i) + " is " + std::to_string(weights[i]) +
                                 "; none may be negative");
    require(weights[i] <= kmeans::kMostSeedingWeight - total,
            "the weights' sum exceeds 2^53 at weight " + std::to_string(i));
    total += weights[i];
  }
  require(total > 0, "all weights are 0, so no point can be chosen");
}

kmeans::WholeWeights checked_weights(const double* weights, std::int64_t n) {
  try {
    return kmeans::whole_weights(weights, n);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("kmeans_exact: " + std::string(error.what()));
  }
}

void check_clusters(std::int64_t k, std::int64_t n) {
  require(k <= n, "k is " + std::to_string(k) + "; it must be from 1 to n = " + std::to_string(n));
}

void check_label(std::int64_t i, std::int64_t label, std::int64_t clusters) {
  if (label >= 0 && label < clusters) return;
  require(false, "label " + std::to_string(i) + " is " + std::to_string(label) +
                     "; it must be from 0 to " + std::to_string(clusters - 1));
}

void check_labels(const std::int32_t* labels, std::int64_t n, std::int64_t clusters) {
  // Without a branch, in vectors. Those below 0 are the largest of the unsigned ones.
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, static_cast<std::uint32_t>(labels[i]));
  }
  if (largest < clusters) return;
  for (std::int64_t i = 0; i < n; ++i) check_label(i, labels[i], clusters);
}

void check_options(const Options& options) {
  require(options.iterations >= 1,
          "iterations is " + std::to_string(options.iterations) + "; at least one is needed");
  require(options.stop != Stop::tolerance ||
              (options.tolerance >= 0 && std::isfinite(options.tolerance)),
          "tolerance is " + std::to_string(options.tolerance) + "; it must be at least 0");
}

}  // namespace kmeans_exact_checks
