// SPDX-License-Identifier: Apache-2.0
//
// Many problems in one call.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/mean_variance.h"
#include "harness/support/parallel.h"
#include "harness/support/points_elsewhere.h"
#include "harness/verify/resolution.h"
#include "library/checks.h"
#include "library/gpu_engine.h"
#include "library/kmeans_exact.h"
#include "library/levels.h"
#include "library/points_impl.h"
#include "library/points_on_gpu.h"
#include "library/surroundings.h"

namespace kmeans_exact {

/// What Points keep.
struct Batches {
  [[gnu::always_inline]] static Points::Impl& of(Points& points) { return *points.impl_; }
};

namespace {

using kmeans_exact_gpu::PointsOnGpu;

void check_batch(const Batch& batch) {
  const auto [points, problems, n, d, k] = batch;
  check_sizes(n, d, k);
  check_clusters(k, n);
  require(problems >= 1 && problems <= INT64_MAX / 8 / d / n,
          "there are " + std::to_string(problems) +
              " problems; at least one is needed, and no more than memory can hold");
}

/// Without the points.
Batch sizes_of(const GpuBatch& batch) {
  return {nullptr, batch.problems, batch.first.n, batch.first.d, batch.k};
}

double host_bytes(const Batch& batch) {
  return 4 * static_cast<double>(batch.problems) * static_cast<double>(batch.n) *
         static_cast<double>(batch.d);
}

/// All points of a batch; a GPU can be used.
std::unique_ptr<PointsOnGpu> points_of(const GpuBatch& batch) {
  GpuPoints all = batch.first;
  all.n *= batch.problems;
  try {
    return std::make_unique<PointsOnGpu>(all);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory({all.n, all.d, batch.k}, host_bytes(sizes_of(batch)));
  }
}

/// The points of a problem among those of all.
class OwnPoints final : public kmeans::PointsElsewhere<float> {
 public:
  OwnPoints(const PointsOnGpu& all, const Batch& batch, std::int64_t problem)
      : all_(all), first_row_(problem * batch.n), d_(batch.d), bytes_(host_bytes(batch)) {}

  void copy_rows(const std::vector<std::int64_t>& rows, std::int64_t first, std::int64_t count,
                 float* to) const override {
    std::vector<std::int64_t> of_all = rows;
    for (std::int64_t& row : of_all) row += first_row_;
    all_.copy_rows(of_all, first, count, to);
  }
  [[nodiscard]] const float* host_copy() const override {
    try {
      return all_.host_copy() + first_row_ * d_;
    } catch (const std::bad_alloc&) {
      throw OutOfMemory({first_row_, d_, 1}, bytes_);
    }
  }

 private:
  const PointsOnGpu& all_;
  std::int64_t first_row_;
  std::int64_t d_;
  double bytes_;
};

/// What is to be known of problems that are all at work at once.
struct Facts {
  Facts(const Batch& batch, const Options& options)
      : starts(batch.problems * batch.k * batch.d),
        largest(batch.problems),
        shifts(options.stop == Stop::tolerance ? batch.problems : 0) {}

  std::vector<float> starts;  // problems x k x d
  std::vector<float> largest;
  std::vector<double> shifts;  // or none
};

/// First centroids of a problem, to where all have theirs.
void put_start(const Batch& batch, std::int64_t problem, Metric metric, const float* centroids,
               Facts& facts) {
  const auto [points, problems, n, d, k] = batch;
  for (std::int64_t at = problem * k * d; at < (problem + 1) * k * d; at += d) {
    float* const start = facts.starts.data() + at;
    if (metric == Metric::cosine) kmeans::exact::unit_row(centroids + at, d, start);
    if (metric != Metric::cosine) std::copy_n(centroids + at, d, start);
  }
}

/// Does work(), and says which problem it refuses.
template <class Work>
void named(std::int64_t problem, const Work& work) {
  try {
    work();
  } catch (const std::invalid_argument& error) {
    constexpr std::size_t kName = std::string_view("kmeans_exact: ").size();
    throw std::invalid_argument("kmeans_exact: problem " + std::to_string(problem) + ": " +
                                std::string(error.what()).substr(kName));
  }
}

/// Of problems whose points a GPU looks at, but for such as it does not find right.
Facts facts_on_gpu(const Batch& batch, const PointsOnGpu& points, const float* centroids,
                   const Options& options, int threads) {
  const auto [address, problems, n, d, k] = batch;
  const SentRows& rows = points.rows();
  Facts facts(batch, options);
  kmeans::PointFacts found = rows.facts(problems);
  facts.largest = std::move(found.largest);
  const bool units = options.metric != Metric::cosine || rows.all_unit();
  const kmeans_exact_surroundings::DefaultModes modes;
  for (std::int64_t problem = 0; problem < problems; ++problem) {
    named(problem, [&, n = n, d = d, k = k] {
      const OwnPoints own(points, batch, problem);
      const float largest = facts.largest[problem];
      if (!std::isfinite(largest)) largest_of("point", own.host_copy(), n, d, threads);
      if (!units) check_unit_rows(own.host_copy(), n, d, threads);
      largest_of("centroid", centroids + problem * k * d, k, d, 1);
      if (found.resolved[problem] == 0) {
        const auto lost = kmeans::lost_by_fixed_point_at(own, n, d, largest, threads);
        require(lost.empty(), lost);
      }
    });
    put_start(batch, problem, options.metric, centroids, facts);
  }
  if (facts.shifts.empty()) return facts;
  facts.shifts = kmeans::mean_variances_of(
      problems, n, d,
      [&, problems = problems](const double* means) { return rows.column_parts(problems, means); });
  for (double& shift : facts.shifts) shift *= options.tolerance;
  return facts;
}

/// All problems at once, on a GPU; `centroids` are in the host's memory. False if that is not possible: then they run
/// one after the other.
bool lloyd_at_once(const Batch& batch, const Facts& facts, float* centroids, std::int32_t* labels,
                   Result* results, const Options& options) {
  const auto [points, problems, n, d, k] = batch;
  std::string why_not;
  const auto work =
      kmeans_exact_gpu::make_batch({.points = points,
                                    .problems = problems,
                                    .n = n,
                                    .d = d,
                                    .k = k,
                                    .centroids = facts.starts.data(),
                                    .max_abs = facts.largest.data(),
                                    .settles = options.stop != Stop::never,
                                    .shifts = facts.shifts.empty() ? nullptr : facts.shifts.data(),
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

/// Does work(points, problem, alive) on the points of each problem, which make(problem, threads) makes, one thread
/// each if there are enough problems. `alive` says to the other threads that the calling one has given up.
template <class Make, class Work>
void each_of(const Batch& batch, int threads, Device device, const std::function<void()>& between,
             const Make& make, const Work& work) {
  const int all = checked_threads(threads);
  const bool side_by_side = device == Device::cpu && batch.problems >= all;
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
    std::optional<Points> kept;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        kept = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (kept) {
      Batches::of(*kept).take(batch.points + problem * batch.n * batch.d);
    } else {
      kept = make(problem, side_by_side ? 1 : all);
    }
    work(*kept, problem, alive);
    alive();
    if (device != Device::cpu) return;
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(*kept));
  };
  try {
    kmeans::for_each_part(batch.problems, side_by_side ? all : 1,
                          [&](std::int64_t problem) { named(problem, [&] { solve(problem); }); });
  } catch (const Ended&) {
    std::rethrow_exception(interruption);
  }
}

/// The same of points in the host's memory.
template <class Work>
void each_of(const Batch& batch, int threads, Device device, const std::function<void()>& between,
             const Work& work) {
  each_of(
      batch, threads, device, between,
      [&](std::int64_t problem, int own_threads) {
        return Points(batch.points + problem * batch.n * batch.d, batch.n, batch.d, own_threads,
                      device);
      },
      work);
}

Facts facts_on_host(const Batch& batch, const float* centroids, const Options& options,
                    int threads) {
  Facts facts(batch, options);
  each_of(batch, threads, Device::cpu, options.between,
          [&](Points& points, std::int64_t problem, const Between&) {
            auto& own = Batches::of(points);
            own.measure_by(options.metric);
            largest_of("centroid", centroids + problem * batch.k * batch.d, batch.k, batch.d, 1);
            require(own.lost().empty(), own.lost());
            facts.largest[problem] = own.max_abs;
            if (!facts.shifts.empty()) facts.shifts[problem] = options.tolerance * own.variance();
            put_start(batch, problem, options.metric, centroids, facts);
          });
  return facts;
}

}  // namespace

void lloyd_batch(const Batch& batch, float* centroids, std::int32_t* labels, Result* results,
                 const Options& options, int threads, Device device) {
  check_options(options);
  require(options.weights == nullptr, "a batch takes no weights");
  check_batch(batch);
  if (device == Device::gpu) require_gpu();
  if (device == Device::any && !kmeans_exact_gpu::problem().empty()) device = Device::cpu;
  const kmeans_exact_gpu::OnGpu gpu(device != Device::cpu);
  if (device != Device::cpu) {
    const Facts facts = facts_on_host(batch, centroids, options, threads);
    if (lloyd_at_once(batch, facts, centroids, labels, results, options)) return;
  }
  each_of(batch, threads, device, options.between,
          [&](Points& points, std::int64_t problem, const Between& alive) {
            auto& own = Batches::of(points);
            own.measure_by(options.metric);
            float* const own_centroids = centroids + problem * batch.k * batch.d;
            results[problem] =
                own.checked_lloyd(batch.k, own_centroids,
                                  {own_centroids, labels + problem * batch.n}, options, alive);
          });
}

void lloyd_batch(const GpuBatch& given, float* centroids, std::int32_t* labels, Result* results,
                 const Options& options, int threads) {
  check_options(options);
  require(options.weights == nullptr, "a batch takes no weights");
  Batch batch = sizes_of(given);
  check_batch(batch);
  const int most = checked_threads(threads);
  require_gpu();
  const kmeans_exact_gpu::OnGpu gpu(true, gpu_of(given.first.dev_points));
  const auto points = points_of(given);
  batch.points = points->address();
  const auto [address, problems, n, d, k] = batch;
  std::vector<float> on_host(problems * k * d);
  const std::size_t bytes = sizeof(float) * on_host.size();
  kmeans_exact_gpu::copy(on_host.data(), centroids, bytes, nullptr);
  const Facts facts = facts_on_gpu(batch, *points, on_host.data(), options, most);
  if (options.between) options.between();
  if (lloyd_at_once(batch, facts, on_host.data(), labels, results, options)) {
    kmeans_exact_gpu::copy(centroids, on_host.data(), bytes, nullptr);
    return;
  }
  const auto make = [&, n = n, d = d](std::int64_t problem, int /*threads*/) {
    GpuPoints own;
    own.dev_points = points->rows().place() + problem * n * d;
    own.n = n;
    own.d = d;
    return Points(own, most);
  };
  each_of(batch, most, Device::gpu, options.between, make,
          [&, n = n, d = d, k = k](Points& own, std::int64_t problem, const Between& alive) {
            Options with_alive = options;
            with_alive.between = alive;
            results[problem] =
                own.lloyd(k, centroids + problem * k * d, labels + problem * n, with_alive);
          });
}

void seed_ward_batch(const Batch& batch, std::uint64_t seed, float* centroids, int threads,
                     const std::function<void()>& between) {
  check_batch(batch);
  each_of(batch, threads, Device::cpu, between,
          [&](Points& points, std::int64_t problem, const Between& alive) {
            points.seed_ward(batch.k, seed, centroids + problem * batch.k * batch.d, nullptr,
                             alive);
          });
}

void seed_ward_batch(const GpuBatch& given, std::uint64_t seed, float* centroids, int threads,
                     const std::function<void()>& between) {
  Batch batch = sizes_of(given);
  check_batch(batch);
  require_gpu();
  const kmeans_exact_gpu::OnGpu gpu(true, gpu_of(given.first.dev_points));
  const auto points = points_of(given);
  batch.points = OwnPoints(*points, batch, 0).host_copy();
  std::vector<float> chosen(batch.problems * batch.k * batch.d);
  seed_ward_batch(batch, seed, chosen.data(), threads, between);
  kmeans_exact_gpu::copy(centroids, chosen.data(), sizeof(float) * chosen.size(), nullptr);
}

}  // namespace kmeans_exact
