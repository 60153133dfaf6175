// SPDX-License-Identifier: Apache-2.0
//
// What kmeans_exact::Points keeps, and how runs on it are made.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/mean_variance.h"
#include "harness/support/parallel.h"
#include "harness/support/whole_weights.h"
#include "harness/verify/resolution.h"
#include "library/checks.h"
#include "library/engine.h"
#include "library/gpu_engine.h"
#include "library/kmeans_exact.h"
#include "library/levels.h"
#include "library/points_on_gpu.h"
#include "library/surroundings.h"

// A namespace that the library's users do not see.
namespace kmeans_exact_points {

using kmeans_exact::Device;
using kmeans_exact::Engine;
using kmeans_exact::MadeEngine;
using kmeans_exact::Result;
using kmeans_exact_surroundings::Between;

// Iterations that a call is expected to take where it stops by itself.
inline constexpr std::int64_t kUntilSettled = 50;

/// Threads to wake: they sleep between calls, and waking one takes as long as so many products. Few products are
/// soon done alone, whereas threads that others keep from their cores wait for each other in each iteration.
inline int worth_a_team(const kmeans::Shape& shape, int threads) {
  constexpr double kAlone = 0x1p21;
  constexpr double kProducts = 0x1p18;
  const kmeans::Sizes s = shape;
  const double products = s.n * s.d * (s.k + 8);
  return products < kAlone ? 1 : kmeans::worth_threads(products, kProducts, threads);
}

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

inline KeptEngine make_engine(const kmeans::Problem<float>& problem, std::int64_t iterations,
                              Device device) {
  MadeEngine made;
  if (device != Device::cpu) {
    std::string why_not;
    if (kmeans_exact_gpu::make_engine(problem, made, why_not)) return KeptEngine(made, true);
    if (device == Device::gpu) kmeans_exact_checks::refuse_gpu(why_not);
  }
  kmeans_exact_levels::level_of_this_processor().make(
      problem.shape, iterations, problem.counted.weights != nullptr, problem.threads, made);
  return KeptEngine(made);
}

/// Iterations of a batch, some tenths of a second: between batches a caller can end the call. Chosen by the
/// shape and not by the clock, since a CPU's engine chooses by how many iterations it is asked for. A GPU's first.
inline std::int64_t uninterrupted(const kmeans::Shape& shape, int threads) {
  constexpr double kProducts = 4e9;  // of a thread
  const double products =
      static_cast<double>(shape.n) * static_cast<double>(shape.d) * static_cast<double>(shape.k);
  return static_cast<std::int64_t>(std::clamp(kProducts * threads / products, 1.0, 1e6));
}

/// Those of a GPU's later batches, which have to be long: it waits for the host between two of them. Its engine goes by
/// the clock itself.
inline std::int64_t uninterrupted(double seconds_of_iteration) {
  constexpr double kSeconds = 0.1;
  return static_cast<std::int64_t>(std::clamp(kSeconds / seconds_of_iteration, 1.0, 1e6));
}

/// Runs at most so many iterations, until one of them is the last as `when` says. at_once: of the first batch.
inline Result run_until(const KeptEngine& kept, const kmeans::Stopping& when,
                        std::int64_t iterations, std::int64_t at_once, const Between& between) {
  Result result;
  while (result.iterations < iterations && !result.converged && !result.within_tolerance) {
    const std::int64_t left = iterations - result.iterations;
    const std::int64_t now = between ? std::min(left, at_once) : left;
    const auto begin = std::chrono::steady_clock::now();
    const std::int64_t before = result.iterations;
    if (when.settled) {
      const kmeans::Stopped stopped = kept.stops->step_until(when, now);
      result.iterations += stopped.iterations;
      result.converged = stopped.settled;
      result.within_tolerance = stopped.within_shift;
    } else {
      kept.engine->step(now);
      result.iterations += now;
    }
    if (kept.on_gpu && result.iterations > before) {
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      at_once = uninterrupted(taken.count() / static_cast<double>(result.iterations - before));
    }
    if (between) between();
  }
  return result;
}

}  // namespace kmeans_exact_points

namespace kmeans_exact {

using namespace kmeans_exact_checks;  // NOLINT: of the same library
using namespace kmeans_exact_points;  // NOLINT
using kmeans_exact_levels::level_of_this_processor;
using kmeans_exact_surroundings::Between;
using SeedingProblem = kmeans::SeedingProblem<float>;

struct Points::Impl {
  /// Points of the host; to_gpu: where they are sent, -1 to the first GPU.
  Impl(const float* given, std::int64_t count, std::int64_t columns, int most_threads, Device where,
       int to_gpu = -1)
      : points(given), n(count), d(columns), device(where), gpu(to_gpu) {
    check_sizes(n, d, 1);
    threads = checked_threads(most_threads);
    const kmeans_exact_gpu::OnGpu at_work(device != Device::cpu, gpu);
    if (device != Device::cpu) send_rows();
    look_for_largest();
  }

  Impl(const GpuPoints& given, int most_threads) : n(given.n), d(given.d), device(Device::gpu) {
    check_sizes(n, d, 1);
    threads = checked_threads(most_threads);
    require_gpu();
    gpu = kmeans_exact_gpu::gpu_of(given.dev_points);
    const kmeans_exact_gpu::OnGpu at_work(true, gpu);
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
    if (const auto* const sent = on_gpu()) {
      const kmeans::PointFacts facts = sent->facts(1);
      max_abs = facts.largest.front();
      surely_resolved = facts.resolved.front() != 0;
    }
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
    const kmeans_exact_gpu::OnGpu at_work(sent != nullptr, gpu);
    units_checked = sent != nullptr && sent->all_unit();
    if (units_checked) return;
    check_unit_rows(readable(), n, d, threads);
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

  /// Set up for this k and for so many iterations, unless it is already. known: there will not be more. What has made
  /// twice as many iterations as it was set up for is set up for several runs.
  void make_ready(kmeans::Problem<float> problem, std::int64_t iterations, bool known = true) {
    if (std::exchange(points_are_new, false) && kept.engine != nullptr &&
        made_for == std::pair(problem.shape.k, iterations)) {
      problem.iterations = set_up_for;
      kept.engine->setup(problem);
      k = problem.shape.k;
      return;
    }
    made_for = {problem.shape.k, iterations};
    const bool same_k = k == problem.shape.k;
    if (!same_k) made = 0;
    // What is chosen for some iterations also suits up to twice as many and, where it is not a GPU's, fewer.
    const bool suits =
        set_up_for == 0 || (known && iterations / 2 < set_up_for && made / 2 < set_up_for &&
                            (!kept.on_gpu || set_up_for / 2 <= iterations));
    if (same_k && iterations <= expected && suits) return;
    expected = std::max({iterations, expected, made});
    KeptEngine another = make_engine(problem, expected, device);
    // An engine of the same kind keeps its copies.
    const bool same_kind = kept.stops != nullptr && another.stops != nullptr &&
                           typeid(*kept.stops) == typeid(*another.stops);
    if (same_kind && same_k && suits) return;
    set_up_for = problem.iterations = known && made == 0 ? iterations : 0;
    k = 0;
    if (same_kind) {
      kept.bytes = another.bytes;
    } else {
      kept = {};  // before another takes memory
      kept = std::move(another);
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
      level_of_this_processor().release();
      throw OutOfMemory(shape, bytes);
    }
  }

  /// Does work(between). If that throws, the engine is kept only if it is the caller who has ended the work.
  template <class Work>
  void with_engine(const kmeans::Shape& shape, const Between& between, const Work& work) {
    bool ended_by_caller = false;
    const Between noted = [&] {
      try {
        between();
      } catch (...) {
        ended_by_caller = true;
        throw;
      }
    };
    try {
      work(between ? noted : Between());
    } catch (...) {
      if (ended_by_caller) throw;
      forget_engine_after_error(shape);
    }
  }

  /// Where a caller wants it: on a GPU if the points are there, or not.
  struct Answer {
    float* centroids;
    std::int32_t* labels;
  };

  /// Runs in the default floating-point modes.
  Result checked_lloyd(std::int64_t clusters, const float* centroids, const Answer& answer,
                       const Options& options, const Between& alive) {
    const auto problem = problem_of(clusters);
    largest_of("centroid", centroids, clusters, d, 1);
    with_sizes(problem.shape, 0, [&] { require(lost().empty(), lost()); });
    Result result;
    with_engine(problem.shape, alive, [&](const Between& between) {
      result = lloyd(problem, centroids, answer, options, between);
    });
    return result;
  }

  Result lloyd(const kmeans::Problem<float>& problem, const float* centroids, const Answer& answer,
               const Options& options, const Between& alive) {
    const bool stops = options.stop != Stop::never;
    const bool known = !stops || options.iterations <= kUntilSettled;
    make_ready(problem, known ? options.iterations : kUntilSettled, known);
    kmeans::Stopping when{.settled = stops};
    if (options.stop == Stop::tolerance) when.shift = options.tolerance * variance();
    std::vector<float> units;
    const float* const first = spherical ? scaled(problem.shape.k, centroids, units) : centroids;
    kept.engine->reset(first);
    if (alive) alive();
    const Result result = run_until(kept, when, options.iterations,
                                    uninterrupted(problem.shape, problem.threads), alive);
    made += result.iterations;
    if (options.labels_of == LabelsOf::starting || result.converged) {
      kept.engine->fetch(answer.centroids, answer.labels);
      return result;
    }
    std::vector<float> means(problem.shape.k * d);
    std::vector<float> unwanted(problem.shape.k * d);
    std::copy_n(kept.stops->centroids(), means.size(), means.begin());
    kept.stops->label_with_breaks(alive);
    kept.engine->fetch(unwanted.data(), answer.labels);
    copy(answer.centroids, std::as_const(means).data(), std::ssize(means));
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

  void nearest(const kmeans::Problem<float>& problem, const float* centroids, std::int32_t* labels,
               const Between& between) {
    make_ready(problem, 1);
    made += 1;
    kept.engine->reset(centroids);
    if (between) between();
    kept.stops->label_with_breaks(between);
    std::vector<float> means(problem.shape.k * d);  // nobody wants them
    kept.engine->fetch(means.data(), labels);
  }

  /// Goes through the rows in parts that fit a cache.
  template <class T>
  void distances(std::int64_t clusters, const float* centroids, T* out,
                 const Between& between) const {
    check_sizes(n, d, clusters);
    const kmeans_exact_surroundings::DefaultModes modes;
    largest_of("centroid", centroids, clusters, d, 1);
    const auto* const sent = on_gpu();
    const kmeans_exact_gpu::OnGpu at_work(sent != nullptr, gpu);
    kmeans_exact_surroundings::NowAndThen look(between);
    if (sent != nullptr) {
      bool ended = false;  // by the caller
      try {
        sent->distances(centroids, clusters, out, [&] {
          ended = true;
          look();
          ended = false;
        });
        return;
      } catch (const std::exception&) {
        if (ended || elsewhere != nullptr) throw;  // else the host's points will do
      }
    }
    const float* const given = readable();
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
            look();
          });
    } catch (const std::bad_alloc&) {
      const double bytes = 8 * static_cast<double>(clusters) * static_cast<double>(some + d + 8);
      throw OutOfMemory({n, d, clusters}, threads * bytes);
    }
  }

  double inertia(std::int64_t clusters, const float* centroids, const std::int32_t* labels,
                 const double* weights, const Between& between) const {
    check_sizes(n, d, clusters);
    with_sizes({n, d, clusters}, 8 * static_cast<double>(n), [&] {
      if (weights != nullptr) checked_weights(weights, n);
    });
    const kmeans_exact_surroundings::DefaultModes modes;
    largest_of("centroid", centroids, clusters, d, 1);
    const auto* const sent = on_gpu();
    const kmeans_exact_gpu::OnGpu at_work(sent != nullptr, gpu);
    if (sent != nullptr && weights == nullptr) {
      check_labels(labels, n, clusters);
      try {
        return sent->inertia(centroids, clusters, labels);
      } catch (const std::exception&) {
        if (elsewhere != nullptr) throw;  // else the host's points will do
      }
    }
    const float* const given = readable();
    std::vector<double> parts(kmeans::block_count(n));
    kmeans_exact_surroundings::NowAndThen look(between);
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
                         look();
                       });
    double total = 0;
    for (const double part : parts) total += part;
    return total;
  }

  double variance() {
    const auto* const sent = on_gpu();
    if (!summed.mean_variance && sent != nullptr && !weighted()) {
      summed.mean_variance = kmeans::mean_variances_of(1, n, d, [sent](const double* means) {
                               return sent->column_parts(1, means);
                             }).front();
    }
    if (!summed.mean_variance) {
      summed.mean_variance = kmeans::mean_variance(readable(), n, d, worth_a_thread(n * d, threads),
                                                   summed.counted.weights);
    }
    return *summed.mean_variance;
  }

  /// Why the exact step cannot sum them; empty: it can.
  const std::string& lost() {
    if (!summed.lost && surely_resolved && !weighted()) summed.lost = "";
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

  /// Checks the points and weights and chooses seeds. That takes at most `bytes` of memory.
  template <class Choose>
  void choose(std::int64_t clusters, const std::int64_t* weights, double bytes,
              const Choose& chosen_from) {
    check_sizes(n, d, clusters);
    check_clusters(clusters, n);
    if (weights != nullptr) check_weights(weights, n);
    const kmeans_exact_surroundings::DefaultModes modes;
    const kmeans_exact_gpu::OnGpu at_work(device != Device::cpu, gpu);
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
  bool surely_resolved = false;  // as PointFacts says, where a GPU has looked
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
  int gpu = -1;                      // that has them, or to which they are sent; -1: the first
  std::unique_ptr<SentRows> rows{};  // outlives the engine that uses them
  KeptEngine kept{};
  std::int64_t k = 0;  // that it is set up for
  bool points_are_new = false;
  std::pair<std::int64_t, std::int64_t> made_for{};  // k and iterations, when it was last asked for
  std::int64_t expected = 0;                         // iterations, the most so far
  std::int64_t set_up_for = 0;                       // iterations; 0: of several runs, or not known
  std::int64_t made = 0;                             // iterations for this k
  std::int64_t engines = 0;
};

}  // namespace kmeans_exact
