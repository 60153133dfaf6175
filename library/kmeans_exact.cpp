// SPDX-License-Identifier: Apache-2.0
#include "library/kmeans_exact.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "datasets/plus_plus.h"
#include "datasets/ward.h"
#include "harness/exact_step.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/mean_variance.h"
#include "harness/support/parallel.h"
#include "harness/support/whole_weights.h"
#include "harness/verify/resolution.h"
#include "library/engine.h"
#include "library/gpu_engine.h"
#include "library/points_on_gpu.h"
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
  void (*make)(const kmeans::Shape&, std::int64_t iterations, int threads, MadeEngine& made);
  kmeans::FasterSeeding (*seeding)();
  void (*squares)(const float* points, std::int64_t n, std::int64_t d, const float* centroids,
                  std::int64_t k, double* squares);
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

/// Threads to start: starting one takes as long as reading so many coordinates.
int worth_a_thread(std::int64_t coordinates, int threads) {
  constexpr std::int64_t kCoordinates = std::int64_t{1} << 18;
  return static_cast<int>(std::clamp<std::int64_t>(coordinates / kCoordinates, 1, threads));
}

/// Threads to wake: they sleep between calls, and waking one takes as long as so many products.
int worth_a_team(const kmeans::Shape& shape, int threads) {
  constexpr double kProducts = 0x1p18;
  const kmeans::Sizes s = shape;
  return static_cast<int>(std::clamp(s.n * s.d * (s.k + 8) / kProducts, 1.0, 1.0 * threads));
}

/// The largest |coordinate|; refuses what is not finite.
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

/// An engine with what is known of it.
struct KeptEngine {
  KeptEngine() = default;
  explicit KeptEngine(const MadeEngine& made, bool is_on_gpu = false)
      : engine(made.engine), stops(made.stops), bytes(made.bytes), on_gpu(is_on_gpu) {}

  std::unique_ptr<Engine> engine;
  kmeans::Stops<float>* stops = nullptr;
  double bytes = 0;
  bool on_gpu = false;
};

[[noreturn]] void refuse_gpu(const std::string& why_not) {
  throw std::runtime_error("kmeans_exact: no GPU can be used: " + why_not);
}

void require_gpu() {
  if (const std::string why_not = kmeans_exact_gpu::problem(); !why_not.empty()) {
    refuse_gpu(why_not);
  }
}

KeptEngine make_engine(const kmeans::Problem<float>& problem, std::int64_t iterations,
                       Device device) {
  MadeEngine made;
  if (device != Device::cpu) {
    std::string why_not;
    if (kmeans_exact_gpu::make_engine(problem, made, why_not)) return KeptEngine(made, true);
    if (device == Device::gpu) refuse_gpu(why_not);
  }
  level_of_this_processor().make(problem.shape, iterations, problem.threads, made);
  return KeptEngine(made);
}

int checked_threads(int threads) {
  require(threads >= 0 && threads <= kMaxThreads, "threads is " + std::to_string(threads) +
                                                      "; it must be from 0, which means all, to " +
                                                      std::to_string(kMaxThreads));
  if (threads > 0) return threads;
  // With more threads than the quota grants, some are stopped while the others wait for them.
  static const double granted = std::ceil(kmeans_exact_surroundings::granted_processors());
  return static_cast<int>(
      std::min({1.0 * kMaxThreads, 1.0 * kmeans::usable_processors(), granted}));
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

/// The same for any numbers.
kmeans::WholeWeights checked_weights(const double* weights, std::int64_t n) {
  try {
    return kmeans::whole_weights(weights, n);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("kmeans_exact: " + std::string(error.what()));
  }
}

/// Iterations of a batch, some tenths of a second: between batches a caller can end the call. Chosen by the
/// shape and not by the clock, since the engine's choices depend on how many iterations it is asked for.
std::int64_t uninterrupted(const kmeans::Shape& shape, int threads) {
  constexpr double kProducts = 4e9;  // of a thread
  const double products =
      static_cast<double>(shape.n) * static_cast<double>(shape.d) * static_cast<double>(shape.k);
  return static_cast<std::int64_t>(std::clamp(kProducts * threads / products, 1.0, 1e6));
}

/// Runs at most so many iterations, until one of them is the last as `when` says.
Result run_until(const KeptEngine& kept, const kmeans::Stopping& when, std::int64_t iterations,
                 std::int64_t at_once, const Between& between) {
  Result result;
  while (result.iterations < iterations && !result.converged && !result.within_tolerance) {
    const std::int64_t left = iterations - result.iterations;
    const std::int64_t now = between ? std::min(left, at_once) : left;
    if (when.settled) {
      const kmeans::Stopped stopped = kept.stops->step_until(when, now);
      result.iterations += stopped.iterations;
      result.converged = stopped.settled;
      result.within_tolerance = stopped.within_shift;
    } else {
      kept.engine->step(now);
      result.iterations += now;
    }
    if (between) between();
  }
  return result;
}

void check_clusters(std::int64_t k, std::int64_t n) {
  require(k <= n, "k is " + std::to_string(k) + "; it must be from 1 to n = " + std::to_string(n));
}

void check_batch(const Batch& batch) {
  const auto [points, problems, n, d, k] = batch;
  check_sizes(n, d, k);
  check_clusters(k, n);
  require(problems >= 1 && problems <= INT64_MAX / 8 / d / n,
          "there are " + std::to_string(problems) +
              " problems; at least one is needed, and no more than memory can hold");
}

void check_label(std::int64_t i, std::int64_t label, std::int64_t clusters) {
  if (label >= 0 && label < clusters) return;
  require(false, "label " + std::to_string(i) + " is " + std::to_string(label) +
                     "; it must be from 0 to " + std::to_string(clusters - 1));
}

void check_options(const Options& options) {
  require(options.iterations >= 1,
          "iterations is " + std::to_string(options.iterations) + "; at least one is needed");
  require(options.stop != Stop::tolerance ||
              (options.tolerance >= 0 && std::isfinite(options.tolerance)),
          "tolerance is " + std::to_string(options.tolerance) + "; it must be at least 0");
}

}  // namespace

struct Points::Impl {
  Impl(const float* given, std::int64_t count, std::int64_t columns, int most_threads, Device where)
      : points(given), n(count), d(columns), device(where) {
    check_sizes(n, d, 1);
    threads = checked_threads(most_threads);
    const kmeans_exact_gpu::OnGpu gpu(device != Device::cpu);
    if (device != Device::cpu) send_rows();
    look_for_largest();
  }

  Impl(const GpuPoints& given, int most_threads) : n(given.n), d(given.d), device(Device::gpu) {
    check_sizes(n, d, 1);
    threads = checked_threads(most_threads);
    require_gpu();
    const kmeans_exact_gpu::OnGpu gpu(true);
    try {
      elsewhere = std::make_unique<kmeans_exact_gpu::PointsOnGpu>(given);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory({n, d, 1}, host_bytes());
    }
    points = elsewhere->address();
    look_for_largest();
  }

  /// Refuses what is not finite. A GPU that has the points looks at them there: the host need not read them again.
  void look_for_largest() {
    if (const auto* const sent = on_gpu()) max_abs = sent->largest();
    if (on_gpu() == nullptr || !std::isfinite(max_abs)) {
      max_abs = largest_of("point", readable(), n, d, threads);
    }
  }

  /// The points, or a copy of them, in the host's memory.
  [[nodiscard]] const float* readable() const {
    if (elsewhere == nullptr) return points;
    require_gpu();
    try {
      return elsewhere->host_copy();
    } catch (const std::bad_alloc&) {
      throw OutOfMemory({n, d, 1}, host_bytes());
    }
  }
  [[nodiscard]] double host_bytes() const {
    return 4 * static_cast<double>(n) * static_cast<double>(d);
  }

  /// The points on the GPU, or null. Also null in a forked process: it cannot use the GPU, even if that has them.
  [[nodiscard]] const SentRows* on_gpu() const {
    if (elsewhere != nullptr) {
      require_gpu();
      return &elsewhere->rows();
    }
    return rows != nullptr && kmeans_exact_gpu::problem().empty() ? rows.get() : nullptr;
  }

  /// Centroids of the caller where the host can read them: `copied` if they may be on a GPU.
  const float* on_host(std::int64_t clusters, const float* centroids,
                       std::vector<float>& copied) const {
    if (elsewhere == nullptr) return centroids;
    copied.resize(clusters * d);
    copy(copied.data(), centroids, clusters * d);
    return copied.data();
  }

  /// From or to an array of the caller. If the points are on a GPU, so may be the array.
  template <class T>
  void copy(T* to, const T* from, std::int64_t count) const {
    if (elsewhere == nullptr) {
      std::copy_n(from, count, to);
    } else {
      kmeans_exact_gpu::copy(to, from, sizeof(T) * static_cast<std::size_t>(count), nullptr);
    }
  }

  [[nodiscard]] kmeans::Problem<float> problem_of(std::int64_t clusters) const {
    kmeans::Problem<float> problem;
    problem.shape = {n, d, clusters, kmeans::Precision::f32};
    problem.points = points;
    problem.threads = device == Device::cpu ? worth_a_team(problem.shape, threads) : threads;
    problem.max_abs = max_abs;
    if (weighted()) problem.counted = summed.counted;
    problem.spherical = spherical;
    return problem;
  }

  /// Other points of the same shape, in the place of these.
  void take(const float* others) {
    max_abs = largest_of("point", others, n, d, threads);
    points = others;
    units_checked = false;
    set_weights({}, {});
    points_are_new = kept.engine != nullptr;
  }

  [[nodiscard]] bool weighted() const { return summed.counted.weights != nullptr; }

  /// From now on points are summed with these weights, or without any.
  void weigh(const double* weights) {
    if (weights == nullptr) {
      if (weighted()) set_weights({}, {});
      return;
    }
    if (weighted() && std::equal(weights, weights + n, given_weights.begin())) return;
    auto whole = checked_weights(weights, n);
    const bool none =
        whole.scale_n == n && std::all_of(whole.of_points.begin(), whole.of_points.end(),
                                          [](std::int64_t one) { return one == 1; });
    if (none) return weigh(nullptr);
    set_weights({weights, weights + n}, std::move(whole));
  }

  /// From now on new centroids are means, or sums scaled to length one.
  void measure_by(Metric metric) {
    if (metric == Metric::cosine) check_units();
    const bool was_spherical = std::exchange(spherical, metric == Metric::cosine);
    if (was_spherical != spherical) k = 0;  // the engine is to be set up again
  }

  void check_units() {
    if (units_checked) return;
    const auto* const sent = on_gpu();
    const kmeans_exact_gpu::OnGpu gpu(sent != nullptr);
    units_checked = sent != nullptr && sent->all_unit();
    if (units_checked) return;
    const float* const given = readable();
    const kmeans_exact_surroundings::DefaultModes modes;
    kmeans::for_blocks(n, worth_a_thread(n * d, threads),
                       [&](std::int64_t /*block*/, std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           require(kmeans::exact::is_unit_or_zero(given + i * d, d),
                                   "point " + std::to_string(i) +
                                       " is not of length one, as cosine wants it; unit_rows "
                                       "makes rows so");
                         }
                       });
    units_checked = true;
  }

  void set_weights(std::vector<double> given, kmeans::WholeWeights whole) {
    k = 0;  // the engine is to be set up again
    given_weights = std::move(given);
    whole_weights = std::move(whole);
    summed = {};
    if (given_weights.empty()) return;
    const std::int64_t* const weights = whole_weights.of_points.data();
    summed.counted = {.weights = weights,
                      .scale_n = whole_weights.scale_n,
                      .max_abs = kmeans::largest_weighted_abs(readable(), n, d, weights)};
  }

  /// Set up for this k and for so many iterations, unless it is already.
  void make_ready(const kmeans::Problem<float>& problem, std::int64_t iterations) {
    if (std::exchange(points_are_new, false) && kept.engine != nullptr &&
        made_for == std::pair(problem.shape.k, iterations)) {
      kept.engine->setup(problem);
      k = problem.shape.k;
      return;
    }
    made_for = {problem.shape.k, iterations};
    const bool same_k = k == problem.shape.k;
    if (same_k && iterations <= expected) return;
    expected = std::max(iterations, expected);
    KeptEngine made = make_engine(problem, expected, device);
    // An engine of the same kind keeps its copies.
    const bool same_kind = kept.stops != nullptr && made.stops != nullptr &&
                           typeid(*kept.stops) == typeid(*made.stops);
    if (same_kind && same_k) return;
    k = 0;
    if (same_kind) {
      kept.bytes = made.bytes;
    } else {
      kept = {};  // before another takes memory
      kept = std::move(made);
      ++engines;
    }
    if (kept.on_gpu) send_rows();
    kept.engine->setup(problem);
    k = problem.shape.k;
  }

  /// Sends the points to the GPU, if one can be used, once for all engines and seeds. If memory does not hold them
  /// next to what engines keep, each engine sends them itself.
  void send_rows() {
    if (rows != nullptr || elsewhere != nullptr || !kmeans_exact_gpu::problem().empty()) return;
    rows = kmeans_exact_gpu::send_rows(points, n, d);
  }

  /// In a handler: drops the engine that failed and throws again, with the memory that was needed.
  [[noreturn]] void forget_engine_after_error(const kmeans::Shape& shape) {
    k = 0;
    const double bytes = std::exchange(kept, {}).bytes;
    try {
      throw;
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(shape, bytes);
    }
  }

  /// Runs in the default floating-point modes.
  Result checked_lloyd(std::int64_t clusters, float* centroids, std::int32_t* labels,
                       const Options& options, const Between& alive) {
    const auto problem = problem_of(clusters);
    largest_of("centroid", centroids, clusters, d, 1);
    require(lost().empty(), lost());
    bool ended_by_caller = false;
    const Between noted = [&] {
      try {
        alive();
      } catch (...) {
        ended_by_caller = true;
        throw;
      }
    };
    try {
      return lloyd(problem, centroids, labels, options, alive ? noted : Between());
    } catch (...) {
      if (ended_by_caller) throw;
      forget_engine_after_error(problem.shape);
    }
  }

  Result lloyd(const kmeans::Problem<float>& problem, float* centroids, std::int32_t* labels,
               const Options& options, const Between& alive) {
    const bool stops = options.stop != Stop::never;
    make_ready(problem, stops ? std::min(options.iterations, kUntilSettled) : options.iterations);
    kmeans::Stopping when{.settled = stops};
    if (options.stop == Stop::tolerance) when.shift = options.tolerance * variance();
    std::vector<float> units;
    const float* const first = spherical ? scaled(problem.shape.k, centroids, units) : centroids;
    kept.engine->reset(first);
    if (alive) alive();
    const Result result = run_until(kept, when, options.iterations,
                                    uninterrupted(problem.shape, problem.threads), alive);
    if (options.labels_of == LabelsOf::starting || result.converged) {
      kept.engine->fetch(centroids, labels);
      return result;
    }
    std::vector<float> means(problem.shape.k * d);
    std::vector<float> unwanted(problem.shape.k * d);
    std::copy_n(kept.stops->centroids(), means.size(), means.begin());
    kept.stops->label_again();
    kept.engine->fetch(unwanted.data(), labels);
    std::copy(means.begin(), means.end(), centroids);
    return result;
  }

  /// First centroids of length one, in `units`.
  const float* scaled(std::int64_t clusters, const float* centroids,
                      std::vector<float>& units) const {
    units.resize(clusters * d);
    for (std::int64_t j = 0; j < clusters; ++j) {
      kmeans::exact::unit_row(centroids + j * d, d, units.data() + j * d);
    }
    return units.data();
  }

  void nearest(const kmeans::Problem<float>& problem, const float* centroids,
               std::int32_t* labels) {
    make_ready(problem, 1);
    kept.engine->reset(centroids);
    kept.stops->label_again();
    std::vector<float> means(problem.shape.k * d);  // nobody wants them
    kept.engine->fetch(means.data(), labels);
  }

  /// Goes through the rows in parts that fit a cache.
  template <class T>
  void distances(std::int64_t clusters, const float* centroids, T* out) const {
    check_sizes(n, d, clusters);
    const kmeans_exact_gpu::OnGpu gpu(elsewhere != nullptr);
    const float* const given = readable();
    const kmeans_exact_surroundings::DefaultModes modes;
    largest_of("centroid", centroids, clusters, d, 1);
    const auto squares_between = level_of_this_processor().squares;
    constexpr std::int64_t kSquares = std::int64_t{1} << 15;
    // Packing the centroids, once a part, has to pay: a part has at least 32 rows.
    const std::int64_t some = std::max<std::int64_t>(kSquares / clusters, 32);
    try {
      kmeans::for_each_part(
          (n - 1) / some + 1, worth_a_thread(n * (d + clusters), threads), [&](std::int64_t part) {
            const std::int64_t begin = part * some;
            const std::int64_t count = std::min(some, n - begin);
            std::vector<double> squares(count * clusters);
            squares_between(given + begin * d, count, d, centroids, clusters, squares.data());
            T* to = out + begin * clusters;
            for (const double square : squares) *to++ = static_cast<T>(std::sqrt(square));
          });
    } catch (const std::bad_alloc&) {
      const double bytes = 8 * static_cast<double>(clusters) * static_cast<double>(some + d + 8);
      throw OutOfMemory({n, d, clusters}, threads * bytes);
    }
  }

  double inertia(std::int64_t clusters, const float* centroids, const std::int32_t* labels,
                 const double* weights) const {
    check_sizes(n, d, clusters);
    if (weights != nullptr) checked_weights(weights, n);
    const kmeans_exact_surroundings::DefaultModes modes;
    largest_of("centroid", centroids, clusters, d, 1);
    const auto* const sent = on_gpu();
    const kmeans_exact_gpu::OnGpu gpu(sent != nullptr);
    if (sent != nullptr && weights == nullptr) {
      for (std::int64_t i = 0; i < n; ++i) check_label(i, labels[i], clusters);
      try {
        return sent->inertia(centroids, clusters, labels);
      } catch (const std::exception&) {
        if (elsewhere != nullptr) throw;  // else the host's points will do
      }
    }
    const float* const given = readable();
    std::vector<double> parts(kmeans::block_count(n));
    kmeans::for_blocks(n, worth_a_thread(n * d, threads),
                       [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                         double sum = 0;
                         for (std::int64_t i = begin; i < end; ++i) {
                           const std::int64_t label = labels[i];
                           check_label(i, label, clusters);
                           const double square = kmeans::exact::squared_distance(
                               given + i * d, centroids + label * d, d);
                           sum += weights != nullptr ? weights[i] * square : square;
                         }
                         parts[block] = sum;
                       });
    double total = 0;
    for (const double part : parts) total += part;
    return total;
  }

  double variance() {
    const auto* const sent = on_gpu();
    if (!summed.mean_variance && sent != nullptr && !weighted()) {
      summed.mean_variance = kmeans::mean_variance_of(
          n, d, [sent](const double* means) { return sent->column_parts(means); });
    }
    if (!summed.mean_variance) {
      summed.mean_variance = kmeans::mean_variance(readable(), n, d, worth_a_thread(n * d, threads),
                                                   summed.counted.weights);
    }
    return *summed.mean_variance;
  }

  /// Why the exact step cannot sum them; empty: it can.
  const std::string& lost() {
    const auto* const sent = on_gpu();
    if (!summed.lost && sent != nullptr && !weighted() && sent->surely_resolved(max_abs)) {
      summed.lost = "";
    }
    if (!summed.lost && elsewhere != nullptr && !weighted()) {
      summed.lost = kmeans::lost_by_fixed_point_at(*elsewhere, n, d, max_abs, threads);
    }
    if (!summed.lost) {
      summed.lost = weighted()
                        ? kmeans::lost_by_fixed_point_at(readable(), n, d, summed.counted, threads)
                        : kmeans::lost_by_fixed_point_at(points, n, d, max_abs, threads);
    }
    return *summed.lost;
  }

  /// All problems of a batch at once, on a GPU. False if that is not possible: then they run one after the other.
  static bool lloyd_at_once(const Batch& batch, float* centroids, std::int32_t* labels,
                            Result* results, const Options& options, int threads) {
    check_batch(batch);
    const auto [points, problems, n, d, k] = batch;
    std::vector<float> starts(problems * k * d);
    std::vector<float> largest(problems);
    std::vector<double> shifts(options.stop == Stop::tolerance ? problems : 0);
    const auto check = [&](Points& problem_points, std::int64_t problem, const Between&) {
      Impl& own = *problem_points.impl_;
      const float* const given = centroids + problem * k * d;
      own.measure_by(options.metric);
      largest_of("centroid", given, k, d, 1);
      require(own.lost().empty(), own.lost());
      largest[problem] = own.max_abs;
      if (!shifts.empty()) shifts[problem] = options.tolerance * own.variance();
      for (std::int64_t at = problem * k * d; at < (problem + 1) * k * d; at += d) {
        if (own.spherical) kmeans::exact::unit_row(centroids + at, d, starts.data() + at);
        if (!own.spherical) std::copy_n(centroids + at, d, starts.data() + at);
      }
    };
    each_of(batch, threads, Device::cpu, options.between, check);
    std::string why_not;
    const auto work =
        kmeans_exact_gpu::make_batch({.points = points,
                                      .problems = problems,
                                      .n = n,
                                      .d = d,
                                      .k = k,
                                      .centroids = starts.data(),
                                      .max_abs = largest.data(),
                                      .settles = options.stop != Stop::never,
                                      .shifts = shifts.empty() ? nullptr : shifts.data(),
                                      .spherical = options.metric == Metric::cosine},
                                     why_not);
    if (work == nullptr) return false;
    // What a multiprocessor does in some tenths of a second. It may get several problems, one after the other.
    constexpr double kProducts = 1e10;
    const kmeans::Sizes s = kmeans::Shape{n, d, k};
    const double turns = std::ceil(static_cast<double>(problems) / 100);
    const auto at_once =
        static_cast<std::int64_t>(std::clamp(kProducts / (s.n * s.d * s.k * turns), 1.0, 1e6));
    bool goes_on = true;
    for (std::int64_t left = options.iterations; left > 0 && goes_on;) {
      const std::int64_t now = options.between ? std::min(left, at_once) : left;
      goes_on = work->step(now);
      left -= now;
      if (options.between) options.between();
    }
    if (options.labels_of == LabelsOf::returned) work->label_again();
    std::vector<kmeans::Stopped> stopped(problems);
    work->fetch(centroids, labels, stopped.data());
    for (const kmeans::Stopped& one : stopped) {
      *results++ = {one.iterations, one.settled, one.within_shift};
    }
    return true;
  }

  /// Checks the points and weights and chooses seeds. That takes at most `bytes` of memory.
  template <class Choose>
  void choose(std::int64_t clusters, const std::int64_t* weights, double bytes,
              const Choose& chosen_from) {
    check_sizes(n, d, clusters);
    check_clusters(clusters, n);
    if (weights != nullptr) check_weights(weights, n);
    const kmeans_exact_surroundings::DefaultModes modes;
    const kmeans_exact_gpu::OnGpu gpu(device != Device::cpu);
    level_of_this_processor();
    SeedingProblem problem{.points = points, .n = n, .d = d, .weights = weights};
    problem.threads = threads;
    problem.max_abs = max_abs;
    // With few products a CPU is done before the points are on a GPU.
    constexpr double kLittle = 1e7;
    const double products =
        static_cast<double>(n) * static_cast<double>(d) * static_cast<double>(clusters);
    problem.gpu = elsewhere != nullptr || (device != Device::cpu && products > kLittle);
    problem.elsewhere = elsewhere.get();
    if (problem.gpu) send_rows();
    kmeans::gpu_board_factory() = kmeans_exact_gpu::make_board;
    try {
      chosen_from(problem);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory({n, d, clusters}, bytes);
    }
  }

  const float* points = nullptr;  // the host cannot read them if they are `elsewhere`
  std::int64_t n;
  std::int64_t d;
  int threads = 1;
  Device device;
  float max_abs = 0;
  bool spherical = false;
  bool units_checked = false;           // that points have length one, or are zeros
  std::vector<double> given_weights{};  // n, or none
  kmeans::WholeWeights whole_weights{};
  struct Summed {
    kmeans::CountedPoints<float> counted{};
    std::optional<double> mean_variance{};
    std::optional<std::string> lost{};
  };
  Summed summed{};  // what depends on the weights
  std::unique_ptr<kmeans_exact_gpu::PointsOnGpu> elsewhere{};
  std::unique_ptr<SentRows> rows{};  // outlives the engine that uses them
  KeptEngine kept{};
  std::int64_t k = 0;  // that it is set up for
  bool points_are_new = false;
  std::pair<std::int64_t, std::int64_t> made_for{};  // k and iterations, when it was last asked for
  std::int64_t expected = 0;                         // iterations, the most so far
  std::int64_t engines = 0;
};

Points::Points(const float* points, std::int64_t n, std::int64_t d, int threads, Device device)
    : impl_(std::make_unique<Impl>(points, n, d, threads, device)) {}
Points::Points(const GpuPoints& points, int threads)
    : impl_(std::make_unique<Impl>(points, threads)) {}
Points::~Points() = default;
Points::Points(Points&&) noexcept = default;
Points& Points::operator=(Points&&) noexcept = default;

std::int64_t Points::engines() const { return impl_->engines; }

Result Points::lloyd(std::int64_t k, float* centroids, std::int32_t* labels,
                     const Options& options) {
  check_sizes(impl_->n, impl_->d, k);
  check_clusters(k, impl_->n);
  check_options(options);
  const kmeans_exact_gpu::OnGpu gpu(impl_->elsewhere != nullptr);
  try {
    impl_->weigh(options.weights);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory({impl_->n, impl_->d, k}, 16 * static_cast<double>(impl_->n));
  }
  impl_->measure_by(options.metric);
  std::vector<float> copied;
  impl_->on_host(k, centroids, copied);
  float* const means = copied.empty() ? centroids : copied.data();
  Result result;
  kmeans_exact_surroundings::in_default_modes(options.between, [&](const Between& alive) {
    const kmeans_exact_gpu::OnGpu at_work(impl_->device != Device::cpu);  // maybe another thread
    result = impl_->checked_lloyd(k, means, labels, options, alive);
  });
  if (means != centroids) impl_->copy(centroids, means, k * impl_->d);
  return result;
}

void Points::nearest(std::int64_t k, const float* centroids, std::int32_t* labels) {
  const auto [n, d] = std::tie(impl_->n, impl_->d);
  check_sizes(n, d, k);
  const kmeans_exact_gpu::OnGpu gpu(impl_->elsewhere != nullptr);
  std::vector<float> copied;
  centroids = impl_->on_host(k, centroids, copied);
  if (n < k) {  // an engine needs at least k points
    const std::int64_t rows = (k + n - 1) / n * n;
    std::vector<float> repeated;
    std::vector<std::int32_t> all_labels;
    try {
      const float* const given = impl_->readable();
      repeated.reserve(rows * d);
      for (std::int64_t i = 0; i < rows; i += n) {
        repeated.insert(repeated.end(), given, given + n * d);
      }
      all_labels.resize(rows);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory({n, d, k, kmeans::Precision::f32},
                        4.0 * static_cast<double>(rows) * static_cast<double>(d + 1));
    }
    Points(repeated.data(), rows, d, impl_->threads, impl_->device)
        .nearest(k, centroids, all_labels.data());
    impl_->copy(labels, std::as_const(all_labels).data(), n);
    return;
  }
  const auto problem = impl_->problem_of(k);
  kmeans_exact_surroundings::in_default_modes({}, [&](const Between&) {
    const kmeans_exact_gpu::OnGpu at_work(impl_->device != Device::cpu);
    largest_of("centroid", centroids, k, impl_->d, 1);
    try {
      impl_->nearest(problem, centroids, labels);
    } catch (...) {
      impl_->forget_engine_after_error(problem.shape);
    }
  });
}

void Points::distances(std::int64_t k, const float* centroids, double* distances) const {
  impl_->distances(k, centroids, distances);
}

void Points::distances(std::int64_t k, const float* centroids, float* distances) const {
  impl_->distances(k, centroids, distances);
}

double Points::inertia(std::int64_t k, const float* centroids, const std::int32_t* labels,
                       const double* weights) const {
  return impl_->inertia(k, centroids, labels, weights);
}

void Points::seed_plus_plus(std::int64_t k, std::uint64_t seed, float* centroids,
                            const std::int64_t* weights, const std::function<void()>& between) {
  // A squared distance for each point, sums over blocks of points, and small buffers of threads.
  const double bytes = 8.1 * static_cast<double>(impl_->n);
  impl_->choose(k, weights, bytes, [&](const SeedingProblem& problem) {
    const auto chosen = kmeans::rows_at(problem, kmeans::plus_plus_rows(problem, k, seed, between));
    impl_->copy(centroids, chosen.data(), std::ssize(chosen));
  });
}

void Points::seed_ward(std::int64_t k, std::uint64_t seed, float* centroids,
                       const std::int64_t* weights, const std::function<void()>& between) {
  // Also a label for each point, and the cells.
  const double bytes =
      12.1 * static_cast<double>(impl_->n) +
      40 * static_cast<double>(impl_->d) * static_cast<double>(kmeans::ward_seeds(impl_->n, k));
  impl_->choose(k, weights, bytes, [&](const SeedingProblem& problem) {
    const auto chosen = kmeans::ward_centroids(problem, k, seed, between);
    impl_->copy(centroids, chosen.data(), std::ssize(chosen));
  });
}

/// Does work(points, problem, alive) on each problem, one thread each if there are enough problems. `alive`
/// tells the other threads when the calling one has given up.
template <class Work>
void Points::each_of(const Batch& batch, int threads, Device device,
                     const std::function<void()>& between, const Work& work) {
  const auto [points, problems, n, d, k] = batch;
  check_batch(batch);
  const int all = checked_threads(threads);
  const bool side_by_side = device == Device::cpu && problems >= all;
  const kmeans_exact_surroundings::DefaultModes modes;
  level_of_this_processor();
  const auto calling = std::this_thread::get_id();
  struct Ended {};
  std::atomic<bool> ended{false};
  std::exception_ptr interruption;
  const Between alive = [&] {
    if (std::this_thread::get_id() != calling) {
      if (ended) throw Ended();
    } else if (between) {
      try {
        between();
      } catch (...) {
        interruption = std::current_exception();
        ended = true;
        throw Ended();
      }
    }
  };
  std::mutex mutex;
  std::vector<Points> idle;
  const auto solve = [&](std::int64_t problem) {
    const float* const own = points + problem * n * d;
    std::optional<Points> kept;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        kept = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (kept) {
      kept->impl_->take(own);
    } else {
      kept.emplace(own, n, d, side_by_side ? 1 : all, device);
    }
    work(*kept, problem, alive);
    alive();
    if (device != Device::cpu) return;
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(*kept));
  };
  const auto named = [&](std::int64_t problem) {
    try {
      solve(problem);
    } catch (const std::invalid_argument& error) {
      constexpr std::size_t kName = std::string_view("kmeans_exact: ").size();
      throw std::invalid_argument("kmeans_exact: problem " + std::to_string(problem) + ": " +
                                  std::string(error.what()).substr(kName));
    }
  };
  try {
    kmeans::for_each_part(problems, side_by_side ? all : 1, named);
  } catch (const Ended&) {
    std::rethrow_exception(interruption);
  }
}

void lloyd_batch(const Batch& batch, float* centroids, std::int32_t* labels, Result* results,
                 const Options& options, int threads, Device device) {
  check_options(options);
  require(options.weights == nullptr, "a batch takes no weights");
  if (device == Device::gpu) require_gpu();
  if (device == Device::any && !kmeans_exact_gpu::problem().empty()) device = Device::cpu;
  const kmeans_exact_gpu::OnGpu gpu(device != Device::cpu);
  if (device != Device::cpu &&
      Points::Impl::lloyd_at_once(batch, centroids, labels, results, options, threads)) {
    return;
  }
  Points::each_of(batch, threads, device, options.between,
                  [&](Points& points, std::int64_t problem, const Between& alive) {
                    points.impl_->measure_by(options.metric);
                    results[problem] = points.impl_->checked_lloyd(
                        batch.k, centroids + problem * batch.k * batch.d,
                        labels + problem * batch.n, options, alive);
                  });
}

void seed_ward_batch(const Batch& batch, std::uint64_t seed, float* centroids, int threads,
                     const std::function<void()>& between) {
  Points::each_of(batch, threads, Device::cpu, between,
                  [&](Points& points, std::int64_t problem, const Between& alive) {
                    points.seed_ward(batch.k, seed, centroids + problem * batch.k * batch.d,
                                     nullptr, alive);
                  });
}

namespace {

/// Sizes are checked before all points are read.
Points checked_points(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
                      int threads, Device device = Device::cpu) {
  check_sizes(n, d, k);
  check_clusters(k, n);
  return {points, n, d, threads, device};
}

}  // namespace

Result lloyd(const float* points, std::int64_t n, std::int64_t d, std::int64_t k, float* centroids,
             std::int32_t* labels, const Options& options, int threads, Device device) {
  check_options(options);
  return checked_points(points, n, d, k, threads, device).lloyd(k, centroids, labels, options);
}

Result lloyd(const float* points, std::int64_t n, std::int64_t d, std::int64_t k, float* centroids,
             std::int32_t* labels, std::int64_t iterations, Stop stop, int threads, Device device,
             const std::function<void()>& between) {
  Options options;
  options.iterations = iterations;
  options.stop = stop;
  options.between = between;
  return lloyd(points, n, d, k, centroids, labels, options, threads, device);
}

void nearest(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
             const float* centroids, std::int32_t* labels, int threads, Device device) {
  check_sizes(n, d, k);
  Points(points, n, d, threads, device).nearest(k, centroids, labels);
}

void distances(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, double* distances, int threads) {
  check_sizes(n, d, k);
  Points(points, n, d, threads).distances(k, centroids, distances);
}

void distances(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, float* distances, int threads) {
  check_sizes(n, d, k);
  Points(points, n, d, threads).distances(k, centroids, distances);
}

double inertia(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, const std::int32_t* labels, const double* weights,
               int threads) {
  check_sizes(n, d, k);
  return Points(points, n, d, threads).inertia(k, centroids, labels, weights);
}

void unit_rows(const float* rows, std::int64_t n, std::int64_t d, float* unit, int threads) {
  check_sizes(n, d, 1);
  const int most = checked_threads(threads);
  const kmeans_exact_surroundings::DefaultModes modes;
  largest_of("row", rows, n, d, most);
  kmeans::for_blocks(n, worth_a_thread(n * d, most),
                     [&](std::int64_t /*block*/, std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         kmeans::exact::unit_row(rows + i * d, d, unit + i * d);
                       }
                     });
}

void unit_rows(const GpuPoints& rows, float* dev_unit) {
  check_sizes(rows.n, rows.d, 1);
  require_gpu();
  const kmeans_exact_gpu::OnGpu gpu(true);
  std::string why_not;
  kmeans_exact_gpu::unit_rows(rows, dev_unit, why_not);
  require(why_not.empty(), "rows " + why_not);
}

void whole_weights(const double* weights, std::int64_t n, std::int64_t* whole) {
  require(n >= 1, "n is " + std::to_string(n) + "; at least one weight is needed");
  const auto found = checked_weights(weights, n);
  std::copy(found.of_points.begin(), found.of_points.end(), whole);
}

void seed_plus_plus(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
                    std::uint64_t seed, float* centroids, const std::int64_t* weights, int threads,
                    const std::function<void()>& between) {
  checked_points(points, n, d, k, threads).seed_plus_plus(k, seed, centroids, weights, between);
}

void seed_ward(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               std::uint64_t seed, float* centroids, const std::int64_t* weights, int threads,
               const std::function<void()>& between) {
  checked_points(points, n, d, k, threads).seed_ward(k, seed, centroids, weights, between);
}

void* allocate_on_gpu(std::size_t bytes) {
  require_gpu();
  const kmeans_exact_gpu::OnGpu gpu(true);
  return kmeans_exact_gpu::allocate(bytes);
}
void free_on_gpu(void* memory) {
  if (memory != nullptr) kmeans_exact_gpu::free(memory);
}
void copy_to_or_from_gpu(void* to, const void* from, std::size_t bytes, void* stream) {
  require_gpu();
  const kmeans_exact_gpu::OnGpu gpu(true);
  kmeans_exact_gpu::copy(to, from, bytes, stream);
}

void release_gpu_memory() { kmeans_exact_gpu::release_memory(); }

std::string problem_with_gpu() { return kmeans_exact_gpu::problem(); }

const char* instructions() { return level_of_this_processor().name; }

const char* version() { return KMEANS_EXACT_VERSION; }

}  // namespace kmeans_exact
