// SPDX-License-Identifier: Apache-2.0
#include "harness/run/fit_length.h"

#include <utility>
#include <vector>

#include "datasets/ward.h"
#include "harness/machine/machine.h"
#include "harness/run/follow.h"
#include "harness/support/clock.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

constexpr double kSeedingRate = 4e9;  // multiply-adds in a second of one thread: a little slower

FitLength fit_followed(const RegisteredVariant& variant, const Points& points, std::int64_t k,
                       const InitSpec& init, int threads, double seconds, std::int64_t most) {
  FitLength found;
  const auto problem = make_problem<float>(points, k, Precision::f32, threads, "");
  auto begin = Clock::now();
  const Points initial = initial_centroids(points, k, init);
  found.seeding_seconds = seconds_since(begin);
  begin = Clock::now();
  Session<float> session(variant, problem, initial.data<float>());
  session.reset();
  std::vector<std::int32_t> labels;
  while (!found.settled && found.iterations < most && seconds_since(begin) < seconds &&
         !InterruptGuard::interrupted()) {
    session.step(1);
    auto next = session.fetch().labels;
    ++found.iterations;
    found.settled = next == labels;
    labels = std::move(next);
  }
  return found;
}

}  // namespace

double expected_seeding_seconds(const InitSpec& init, const Shape& shape, int threads) {
  const Sizes s(shape);
  double products = 0;
  switch (init.method) {
    case InitSpec::Method::ward: {
      // Every point from every seed, and three times every seed from every other in float64.
      const auto seeds = static_cast<double>(ward_seeds(shape.n, shape.k));
      products = s.d * seeds * (s.n + 18 * seeds);
      break;
    }
    case InitSpec::Method::kmeans_plus_plus:
    case InitSpec::Method::threshold:
    case InitSpec::Method::threshold_as_printed: products = s.n * s.k * s.d; break;
    default: break;  // rows are copied
  }
  return products / (kSeedingRate * threads);
}

std::optional<FitLength> fit_length(const DatasetSpec& spec, std::int64_t k,
                                    const std::string& init, int threads,
                                    const std::filesystem::path& cache, double seconds,
                                    std::int64_t most) {
  const RegisteredVariant& variant = variant_of_fits();
  try {
    const StoredDataset stored = materialise(spec, ScalarType::f32, cache);
    const Shape shape{stored.n, stored.d, k, Precision::f32};
    if (!supports(variant, shape).ok || !availability(variant).ok) return std::nullopt;
    if (memory_need(variant, shape, threads) > static_cast<double>(available_memory())) {
      return std::nullopt;
    }
    const InitSpec first = parse_init(init);
    if (expected_seeding_seconds(first, shape, threads) > seconds) return std::nullopt;
    const Points points = load_points(stored.file.string(), {.scalar = ScalarType::f32});
    return fit_followed(variant, points, k, first, threads, seconds, most);
  } catch (const UserError&) {
    return std::nullopt;  // the measurement says what is wrong
  }
}

}  // namespace kmeans
