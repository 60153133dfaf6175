// SPDX-License-Identifier: Apache-2.0
#include "library/kmeans_exact.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "datasets/plus_plus.h"
#include "datasets/ward.h"
#include "harness/exact_step.h"
#include "harness/support/parallel.h"
#include "library/checks.h"
#include "library/gpu_engine.h"
#include "library/points_impl.h"
#include "library/surroundings.h"

namespace kmeans_exact {

Points::Points(const float* points, std::int64_t n, std::int64_t d, int threads, Device device)
    : impl_(std::make_unique<Impl>(points, n, d, threads, device)) {}
Points::Points(const GpuPoints& points, int threads)
    : impl_(std::make_unique<Impl>(points, threads)) {}
Points::Points(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Points::~Points() = default;
Points::Points(Points&&) noexcept = default;
Points& Points::operator=(Points&&) noexcept = default;

std::int64_t Points::engines() const { return impl_->engines; }

Result Points::lloyd(std::int64_t k, float* centroids, std::int32_t* labels,
                     const Options& options) {
  return lloyd(k, centroids, centroids, labels, options);
}

Result Points::lloyd(std::int64_t k, const float* init, float* centroids, std::int32_t* labels,
                     const Options& options) {
  check_sizes(impl_->n, impl_->d, k);
  check_clusters(k, impl_->n);
  check_options(options);
  const kmeans_exact_gpu::OnGpu gpu(impl_->elsewhere != nullptr, impl_->gpu);
  with_sizes({impl_->n, impl_->d, k}, 16 * static_cast<double>(impl_->n),
             [&] { impl_->weigh(options.weights); });
  impl_->measure_by(options.metric);
  std::vector<float> copied;
  const float* const first = impl_->on_host(k, init, copied);
  Result result;
  kmeans_exact_surroundings::in_default_modes(options.between, [&](const Between& alive) {
    const kmeans_exact_gpu::OnGpu at_work(impl_->device != Device::cpu,
                                          impl_->gpu);  // maybe another thread
    result = impl_->checked_lloyd(k, first, {centroids, labels}, options, alive);
  });
  return result;
}

void Points::nearest(std::int64_t k, const float* centroids, std::int32_t* labels,
                     const std::function<void()>& between) {
  const auto [n, d] = std::tie(impl_->n, impl_->d);
  check_sizes(n, d, k);
  const kmeans_exact_gpu::OnGpu gpu(impl_->elsewhere != nullptr, impl_->gpu);
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
    Points enough(std::make_unique<Impl>(repeated.data(), rows, d, impl_->threads, impl_->device,
                                         impl_->gpu));
    enough.nearest(k, centroids, all_labels.data(), between);
    impl_->copy(labels, std::as_const(all_labels).data(), n);
    return;
  }
  const auto problem = impl_->problem_of(k);
  kmeans_exact_surroundings::in_default_modes(between, [&](const Between& alive) {
    const kmeans_exact_gpu::OnGpu at_work(impl_->device != Device::cpu, impl_->gpu);
    largest_of("centroid", centroids, k, impl_->d, 1);
    impl_->with_engine(problem.shape, alive, [&](const Between& noted) {
      impl_->nearest(problem, centroids, labels, noted);
    });
  });
}

void Points::distances(std::int64_t k, const float* centroids, double* distances,
                       const std::function<void()>& between) const {
  impl_->distances(k, centroids, distances, between);
}

void Points::distances(std::int64_t k, const float* centroids, float* distances,
                       const std::function<void()>& between) const {
  impl_->distances(k, centroids, distances, between);
}

double Points::inertia(std::int64_t k, const float* centroids, const std::int32_t* labels,
                       const double* weights, const std::function<void()>& between) const {
  return impl_->inertia(k, centroids, labels, weights, between);
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
             const float* centroids, std::int32_t* labels, int threads, Device device,
             const std::function<void()>& between) {
  check_sizes(n, d, k);
  Points(points, n, d, threads, device).nearest(k, centroids, labels, between);
}

void distances(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, double* distances, int threads,
               const std::function<void()>& between) {
  check_sizes(n, d, k);
  Points(points, n, d, threads).distances(k, centroids, distances, between);
}

void distances(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, float* distances, int threads,
               const std::function<void()>& between) {
  check_sizes(n, d, k);
  Points(points, n, d, threads).distances(k, centroids, distances, between);
}

double inertia(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, const std::int32_t* labels, const double* weights,
               int threads, const std::function<void()>& between) {
  check_sizes(n, d, k);
  return Points(points, n, d, threads).inertia(k, centroids, labels, weights, between);
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
  const kmeans_exact_gpu::OnGpu gpu(true, gpu_of(rows.dev_points));
  std::string why_not;
  kmeans_exact_gpu::unit_rows(rows, dev_unit, why_not);
  require(why_not.empty(), "rows " + why_not);
}

void whole_weights(const double* weights, std::int64_t n, std::int64_t* whole) {
  require(n >= 1, "n is " + std::to_string(n) + "; at least one weight is needed");
  try {
    const auto found = checked_weights(weights, n);
    std::copy(found.of_points.begin(), found.of_points.end(), whole);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(8 * static_cast<double>(n), "n = " + std::to_string(n));
  }
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

void* allocate_on_gpu(std::size_t bytes, const void* neighbour) {
  require_gpu();
  const kmeans_exact_gpu::OnGpu gpu(true, neighbour != nullptr ? gpu_of(neighbour) : -1);
  return kmeans_exact_gpu::allocate(bytes);
}
void free_on_gpu(void* memory) {
  if (memory != nullptr) kmeans_exact_gpu::free(memory);
}
int gpu_of(const void* memory) { return kmeans_exact_gpu::gpu_of(memory); }
void copy_to_or_from_gpu(void* to, const void* from, std::size_t bytes, void* stream) {
  require_gpu();
  const int gpu = gpu_of(from);
  const kmeans_exact_gpu::OnGpu at_work(true, gpu >= 0 ? gpu : gpu_of(to));  // whose is the stream
  kmeans_exact_gpu::copy(to, from, bytes, stream);
}

void release_memory() {
  level_of_this_processor().release();
  kmeans_exact_gpu::release_memory();
}

std::string problem_with_gpu() { return kmeans_exact_gpu::problem(); }
GpuPart gpu_part() { return kmeans_exact_gpu::part(); }

const char* instructions() { return level_of_this_processor().name; }

const char* version() { return KMEANS_EXACT_VERSION; }

}  // namespace kmeans_exact
