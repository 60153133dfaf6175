// SPDX-License-Identifier: Apache-2.0
#include "library/kmeans_exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "datasets/plus_plus.h"
#include "datasets/ward.h"
#include "harness/support/parallel.h"
#include "harness/verify/resolution.h"
#include "library/engine.h"
#include "library/gpu_engine.h"
#include "library/surroundings.h"

namespace kmeans_exact {
namespace {

using kmeans_exact_surroundings::Between;
using SeedingProblem = kmeans::SeedingProblem<float>;

constexpr int kMaxThreads = 4096;
// Iterations that a call is expected to take where it stops by itself.
constexpr std::int64_t kUntilSettled = 50;

struct Level {
  const char* name;
  Engine* (*make)(const kmeans::Shape&, std::int64_t iterations, int threads, double& bytes);
  kmeans::FasterSeeding (*seeding)();
  bool (*runs_here)();
};

// From the best; the file has a row for each level that is built.
const Level kLevels[] = {
#include "kmeans_exact_levels.inc"
};

const Level& level_of_this_processor() {
  static const Level* const chosen = [] {
    for (const Level& level : kLevels) {
      if (!level.runs_here()) continue;
      kmeans::faster_seeding() = level.seeding();
      return &level;
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
  require(n >= 1, "n is " + std::to_string(n) + "; at least one point is needed");
  require(k >= 1, "k is " + std::to_string(k) + "; at least one cluster is needed");
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

/// Says how much memory is needed, if that is known, and how much is free.
class OutOfMemory final : public std::bad_alloc {
 public:
  OutOfMemory(const kmeans::Shape& shape, double needed)
      : what_("kmeans_exact: out of memory: " + sizes(shape) + need(needed) + "; " +
              megabytes(kmeans_exact_surroundings::free_memory()) + " are free") {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  static std::string sizes(const kmeans::Shape& shape) {
    return "n = " + std::to_string(shape.n) + ", d = " + std::to_string(shape.d) +
           ", k = " + std::to_string(shape.k);
  }
  static std::string need(double bytes) {
    return bytes > 0 ? " needs up to " + megabytes(bytes) + " besides the points" : "";
  }
  static std::string megabytes(double bytes) {
    return std::to_string(static_cast<std::int64_t>(std::min(bytes, 1e18) / 1e6) + 1) + " MB";
  }

  std::string what_;
};

/// `bytes`: what it takes at most besides the points.
std::unique_ptr<Engine> make_engine(const kmeans::Shape& shape, std::int64_t iterations,
                                    int threads, Device device, double& bytes) {
  if (device != Device::cpu) {
    std::string problem;
    if (auto engine = kmeans_exact_gpu::make_engine(shape, problem)) return engine;
    if (device == Device::gpu) {
      throw std::runtime_error("kmeans_exact: no GPU can be used: " + problem);
    }
  }
  return std::unique_ptr<Engine>(level_of_this_processor().make(shape, iterations, threads, bytes));
}

/// Finite points and the rest of the problem that an engine is set up with.
kmeans::Problem<float> problem_of(const float* points, std::int64_t n, std::int64_t d,
                                  std::int64_t k, const float* centroids, int threads) {
  kmeans::Problem<float> problem;
  problem.shape = {n, d, k, kmeans::Precision::f32};
  problem.points = points;
  problem.threads = threads;
  problem.max_abs = largest_of("point", points, n, d, threads);
  largest_of("centroid", centroids, k, d, threads);
  return problem;
}

int checked_threads(int threads) {
  require(threads >= 0 && threads <= kMaxThreads, "threads is " + std::to_string(threads) +
                                                      "; it must be from 0, which means all, to " +
                                                      std::to_string(kMaxThreads));
  return threads > 0 ? threads : std::min(kMaxThreads, kmeans::usable_processors());
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

/// Iterations to make at once, some tenths of a second: so often a caller can end the call. By the shape and
/// not by the clock: the engine's choices depend on how many iterations it is asked for.
std::int64_t uninterrupted(const kmeans::Shape& shape, int threads) {
  constexpr double kProducts = 4e9;  // of a thread
  const double products =
      static_cast<double>(shape.n) * static_cast<double>(shape.d) * static_cast<double>(shape.k);
  return static_cast<std::int64_t>(std::clamp(kProducts * threads / products, 1.0, 1e6));
}

void run_all(Engine& engine, std::int64_t iterations, std::int64_t at_once,
             const Between& between) {
  while (iterations > 0) {
    const std::int64_t now = between ? std::min(iterations, at_once) : iterations;
    engine.step(now);
    iterations -= now;
    if (between) between();
  }
}

/// Runs at most so many iterations, until one of them changes no label.
Result run_until_settled(Engine& engine, std::int64_t iterations, std::int64_t at_once,
                         const Between& between) {
  Result result;
  while (result.iterations < iterations && !result.converged) {
    engine.step(1);
    ++result.iterations;
    // An engine that has just changed its method does not know, and tells after one more; that of a GPU
    // compares its labels because it is asked after every iteration.
    result.converged = engine.progress().changed == 0;
    if (between && result.iterations % at_once == 0) between();
  }
  return result;
}

/// Checks what seeds are chosen from, and chooses; `bytes`: of memory that it takes at most.
template <class Choose>
void choose(const float* points, const kmeans::Shape& shape, const std::int64_t* weights,
            int threads, double bytes, const Choose& chosen_from) {
  const auto [n, d, k, precision] = shape;
  check_sizes(n, d, k);
  require(k <= n, "k is " + std::to_string(k) + "; it must be from 1 to n = " + std::to_string(n));
  if (weights != nullptr) check_weights(weights, n);
  const kmeans_exact_surroundings::DefaultModes modes;
  level_of_this_processor();
  SeedingProblem problem{.points = points, .n = n, .d = d, .weights = weights};
  problem.threads = checked_threads(threads);
  problem.max_abs = largest_of("point", points, n, d, problem.threads);
  try {
    chosen_from(problem);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(shape, bytes);
  }
}

}  // namespace

Result lloyd(const float* points, std::int64_t n, std::int64_t d, std::int64_t k, float* centroids,
             std::int32_t* labels, std::int64_t iterations, Stop stop, int threads, Device device,
             const std::function<void()>& between) {
  check_sizes(n, d, k);
  require(k <= n, "k is " + std::to_string(k) + "; it must be from 1 to n = " + std::to_string(n));
  require(iterations >= 1,
          "iterations is " + std::to_string(iterations) + "; at least one is needed");
  threads = checked_threads(threads);
  const bool settles = stop == Stop::labels;
  Result result;
  kmeans_exact_surroundings::with_a_team(threads, between, [&](const Between& alive) {
    const auto problem = problem_of(points, n, d, k, centroids, threads);
    const std::string lost = kmeans::lost_by_fixed_point_at(points, n, d, problem.max_abs);
    require(lost.empty(), lost);
    const std::int64_t at_once = uninterrupted(problem.shape, threads);
    double bytes = 0;
    try {
      const auto engine =
          make_engine(problem.shape, settles ? std::min(iterations, kUntilSettled) : iterations,
                      threads, device, bytes);
      engine->setup(problem);
      engine->reset(centroids);
      if (alive) alive();
      if (settles) {
        result = run_until_settled(*engine, iterations, at_once, alive);
      } else {
        run_all(*engine, iterations, at_once, alive);
        result.iterations = iterations;
      }
      engine->fetch(centroids, labels);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(problem.shape, bytes);
    }
  });
  return result;
}

void nearest(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
             const float* centroids, std::int32_t* labels, int threads, Device device) {
  check_sizes(n, d, k);
  threads = checked_threads(threads);
  std::vector<float> repeated;
  std::vector<std::int32_t> all_labels;
  const std::int64_t wanted = n;
  if (n < k) {  // an engine wants a point a cluster
    n = (k + n - 1) / n * n;
    try {
      repeated.reserve(n * d);
      for (std::int64_t i = 0; i < n; i += wanted) {
        repeated.insert(repeated.end(), points, points + wanted * d);
      }
      all_labels.resize(n);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory({wanted, d, k, kmeans::Precision::f32},
                        4.0 * static_cast<double>(n) * static_cast<double>(d + 1));
    }
    points = repeated.data();
  }
  kmeans_exact_surroundings::with_a_team(threads, {}, [&](const Between&) {
    const auto problem = problem_of(points, n, d, k, centroids, threads);
    double bytes = 0;
    try {
      const auto engine = make_engine(problem.shape, 1, threads, device, bytes);
      engine->setup(problem);
      engine->reset(centroids);
      engine->step(1);
      std::vector<float> means(k * d);  // nobody wants them
      engine->fetch(means.data(), all_labels.empty() ? labels : all_labels.data());
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(problem.shape, bytes);
    }
  });
  if (!all_labels.empty()) std::copy_n(all_labels.begin(), wanted, labels);
}

void seed_plus_plus(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
                    std::uint64_t seed, float* centroids, const std::int64_t* weights, int threads,
                    const std::function<void()>& between) {
  // A squared distance a point, sums of some, and the points that threads look at.
  const double bytes = 8.1 * static_cast<double>(n);
  choose(points, {n, d, k}, weights, threads, bytes, [&](const SeedingProblem& problem) {
    for (const std::int64_t row : kmeans::plus_plus_rows(problem, k, seed, between)) {
      centroids = std::copy_n(points + row * d, d, centroids);
    }
  });
}

void seed_ward(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               std::uint64_t seed, float* centroids, const std::int64_t* weights, int threads,
               const std::function<void()>& between) {
  // A label a point as well, and cells.
  const double bytes = 12.1 * static_cast<double>(n) +
                       40 * static_cast<double>(d) * static_cast<double>(kmeans::ward_seeds(n, k));
  choose(points, {n, d, k}, weights, threads, bytes, [&](const SeedingProblem& problem) {
    const auto chosen = kmeans::ward_centroids(problem, k, seed, between);
    std::copy(chosen.begin(), chosen.end(), centroids);
  });
}

std::string problem_with_gpu() { return kmeans_exact_gpu::problem(); }

const char* instructions() { return level_of_this_processor().name; }

const char* version() { return KMEANS_EXACT_VERSION; }

}  // namespace kmeans_exact
