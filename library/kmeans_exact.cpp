// SPDX-License-Identifier: Apache-2.0
#include "library/kmeans_exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "datasets/plus_plus.h"
#include "harness/support/parallel.h"
#include "harness/verify/resolution.h"
#include "library/engine.h"
#include "library/gpu_engine.h"

namespace kmeans_exact {
namespace {

// Iterations that a call is expected to take where it stops by itself.
constexpr std::int64_t kUntilSettled = 50;

struct Level {
  const char* name;
  Engine* (*make)(const kmeans::Shape&, std::int64_t iterations);
  bool (*runs_here)();
};

// From the best; the file has a row for each level that is built.
const Level kLevels[] = {
#include "kmeans_exact_levels.inc"
};

const Level& level_of_this_processor() {
  static const Level* const chosen = [] {
    for (const Level& level : kLevels) {
      if (level.runs_here()) return &level;
    }
    throw std::runtime_error("kmeans_exact was not built for this processor");
  }();
  return *chosen;
}

void require(bool good, const std::string& what) {
  if (!good) throw std::invalid_argument("kmeans_exact: " + what);
}

void check_sizes(std::int64_t n, std::int64_t d, std::int64_t k) {
  require(d >= 1, "d is " + std::to_string(d) + "; at least one coordinate is needed");
  require(k >= 1 && k <= n,
          "k is " + std::to_string(k) + "; it must be from 1 to n = " + std::to_string(n));
  // Engines keep indices of centroids as numbers in float lanes.
  require(k < std::int64_t{1} << 24, "k is " + std::to_string(k) + "; it must be below 2^24");
  require(n <= INT64_MAX / 8 / d, "n x d = " + std::to_string(n) + " x " + std::to_string(d) +
                                      " is more than memory can hold");
}

/// The largest |coordinate|; refuses what is not finite.
float largest_of(const char* what, const float* values, std::int64_t rows, std::int64_t d,
                 int threads) {
  std::vector<std::int32_t> largest(kmeans::block_count(rows * d));
  kmeans::for_blocks(
      rows * d, threads, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        // By their bits, which are in the order of the sizes, infinity and NaN last: comparisons of
        // floats that may be NaN are not vectorised.
        std::int32_t most = 0;
        for (std::int64_t c = begin; c < end; ++c) {
          most = std::max(most, std::bit_cast<std::int32_t>(values[c]) & INT32_MAX);
        }
        const bool finite = std::isfinite(std::bit_cast<float>(most));
        for (std::int64_t c = begin; !finite && c < end; ++c) {
          require(std::isfinite(values[c]), std::string(what) + " " + std::to_string(c / d) +
                                                ", coordinate " + std::to_string(c % d) + " is " +
                                                std::to_string(values[c]) + "; all must be finite");
        }
        largest[block] = most;
      });
  return std::bit_cast<float>(*std::max_element(largest.begin(), largest.end()));
}

std::unique_ptr<Engine> make_engine(const kmeans::Shape& shape, std::int64_t iterations,
                                    Device device) {
  if (device != Device::cpu) {
    std::string problem;
    if (auto engine = kmeans_exact_gpu::make_engine(shape, problem)) return engine;
    if (device == Device::gpu) {
      throw std::runtime_error("kmeans_exact: no GPU can be used: " + problem);
    }
  }
  return std::unique_ptr<Engine>(level_of_this_processor().make(shape, iterations));
}

/// Runs at most so many iterations, until one of them changes no label.
Result run_until_settled(Engine& engine, std::int64_t iterations) {
  Result result;
  while (result.iterations < iterations && !result.converged) {
    engine.step(1);
    ++result.iterations;
    // An engine that has just changed its method does not know, and tells after one more; that of a GPU
    // compares its labels because it is asked after every iteration.
    result.converged = engine.progress().changed == 0;
  }
  return result;
}

}  // namespace

Result lloyd(const float* points, std::int64_t n, std::int64_t d, std::int64_t k, float* centroids,
             std::int32_t* labels, std::int64_t iterations, Stop stop, int threads, Device device) {
  check_sizes(n, d, k);
  require(iterations >= 1,
          "iterations is " + std::to_string(iterations) + "; at least one is needed");
  require(threads >= 0, "threads is " + std::to_string(threads) + "; 0 means all");
  kmeans::Problem<float> problem;
  problem.shape = {n, d, k, kmeans::Precision::f32};
  problem.points = points;
  problem.threads = threads > 0 ? threads : kmeans::usable_processors();
  problem.max_abs = largest_of("point", points, n, d, problem.threads);
  largest_of("centroid", centroids, k, d, problem.threads);
  const std::string lost = kmeans::lost_by_fixed_point_at(points, n, d, problem.max_abs);
  require(lost.empty(), lost);
  const bool settles = stop == Stop::labels;
  const auto engine = make_engine(
      problem.shape, settles ? std::min(iterations, kUntilSettled) : iterations, device);
  engine->setup(problem);
  engine->reset(centroids);
  Result result;
  if (settles) {
    result = run_until_settled(*engine, iterations);
  } else {
    engine->step(iterations);
    result.iterations = iterations;
  }
  engine->fetch(centroids, labels);
  return result;
}

void seed_plus_plus(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
                    std::uint64_t seed, float* centroids) {
  check_sizes(n, d, k);
  largest_of("point", points, n, d, kmeans::usable_processors());
  for (const std::int64_t row : kmeans::plus_plus_rows(points, n, d, k, seed)) {
    centroids = std::copy_n(points + row * d, d, centroids);
  }
}

std::string problem_with_gpu() { return kmeans_exact_gpu::problem(); }

const char* instructions() { return level_of_this_processor().name; }

const char* version() { return KMEANS_EXACT_VERSION; }

}  // namespace kmeans_exact
