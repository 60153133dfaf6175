// SPDX-License-Identifier: Apache-2.0
//
// The exact variants against the reference bit for bit, openmp_best's choices; openmp_simd and cpu_simd
// at the edges of their registers. The battery's problems are those of conformance_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/random.h"
#include "harness/variant.h"
#include "harness/variants/registry.h"
#include "harness/verify/battery.h"
#include "implementations/openmp/_best_choice.h"
#include "implementations/openmp/_best_sample.h"
#include "implementations/openmp/_family.h"
#include "tests/support/scoped.h"

namespace kmeans {
namespace {

struct Case {
  std::string name;
  std::int64_t n, d, k;
  std::vector<float> points;     // n x d
  std::vector<float> centroids;  // k x d
};

class Random : public SplitMix64 {
 public:
  using SplitMix64::SplitMix64;
  double bell() { return uniform() + uniform() + uniform() + uniform() - 2; }
};

/// Points by a function of (i, t), and k of them, evenly spaced, as first centroids.
template <class F>
Case make_case(std::string name, std::int64_t n, std::int64_t d, std::int64_t k, F&& coordinate) {
  Case result{std::move(name), n, d, k, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t t = 0; t < d; ++t) {
      result.points.push_back(static_cast<float>(coordinate(i, t)));
    }
  }
  for (std::int64_t j = 0; j < k; ++j) {
    const auto row = result.points.begin() + j * n / k * d;
    result.centroids.insert(result.centroids.end(), row, row + d);
  }
  return result;
}

std::vector<Case> battery() {
  std::vector<Case> cases;
  Random random(7);
  const auto bell = [&](std::int64_t, std::int64_t) { return random.bell(); };
  // Every size of a group of centroids, with and without padding, and full and ragged tiles.
  for (const std::int64_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 23, 24, 31, 64}) {
    cases.push_back(make_case("random", 613, 3, k, bell));
  }
  for (const std::int64_t d : {1, 2, 5, 7, 8, 9, 16, 17, 31, 64, 101}) {
    cases.push_back(make_case("random", 509, d, 37, bell));
  }
  for (const std::int64_t n : {1, 2, 15, 16, 17, 47, 48, 49, 96, 97}) {
    cases.push_back(make_case("few points", n, 4, 1, bell));
    cases.push_back(make_case("k = n", n, 4, n, bell));
  }
  cases.push_back(make_case("large", 20011, 13, 61, bell));  // enough for seven threads
  cases.push_back(make_case("long", 211, 1031, 17, bell));
  cases.push_back(make_case("k = n, large", 1009, 3, 1009, bell));
  cases.push_back(make_case("clustered", 20011, 7, 40, [&](std::int64_t i, std::int64_t t) {
    return static_cast<double>((i % 13) * (t + 1)) + 0.001 * random.bell();
  }));
  cases.push_back(make_case("duplicates", 20011, 5, 53, [&](std::int64_t i, std::int64_t t) {
    return static_cast<double>(i % 29 * 31 % 17) + static_cast<double>(t) * 0.1;
  }));
  cases.push_back(make_case("identical", 3001, 5, 20, [](std::int64_t, std::int64_t t) {
    return 0.1 + static_cast<double>(t);
  }));
  cases.push_back(make_case("all zero", 301, 3, 7, [](std::int64_t, std::int64_t) { return 0.0; }));
  cases.push_back(make_case("line", 20011, 1, 97, bell));
  cases.push_back(make_case("integer ties", 20011, 2, 64, [&](std::int64_t, std::int64_t) {
    return static_cast<double>(random.below(16));
  }));
  cases.push_back(make_case("large offset", 20011, 6, 50,
                            [&](std::int64_t, std::int64_t) { return 1e6 + 4 * random.bell(); }));
  cases.push_back(make_case("two offsets", 20011, 6, 50, [&](std::int64_t i, std::int64_t) {
    return (i % 2 == 0 ? 1e6 : -1e6) + random.bell();
  }));
  cases.push_back(make_case("denormal", 20011, 6, 50,
                            [&](std::int64_t, std::int64_t) { return 1e-40 * random.bell(); }));
  cases.push_back(make_case("smallest", 2003, 3, 20, [&](std::int64_t, std::int64_t) {
    return 1.4e-45 * static_cast<double>(random.below(5));
  }));
  cases.push_back(make_case("huge", 20011, 6, 50,
                            [&](std::int64_t, std::int64_t) { return 1e30 * random.bell(); }));
  cases.push_back(make_case("largest", 2003, 3, 20,
                            [&](std::int64_t, std::int64_t) { return 1.7e38 * random.bell(); }));
  cases.push_back(make_case("one outlier", 5003, 4, 25, [&](std::int64_t i, std::int64_t) {
    return i == 0 ? 1e30 : random.bell();
  }));
  cases.push_back(make_case("all magnitudes", 5003, 4, 25, [&](std::int64_t, std::int64_t) {
    return random.bell() * std::ldexp(1.0, static_cast<int>(random.below(200)) - 100);
  }));

  Case empty = make_case("empty clusters", 20011, 3, 40, bell);
  for (std::int64_t j = 20; j < 30; ++j) {  // far away; the last one beyond what float32 can square
    for (std::int64_t t = 0; t < 3; ++t) {
      empty.centroids[j * 3 + t] =
          j == 29 ? 3e38F : static_cast<float>(std::ldexp(1.0, 8 * static_cast<int>(j - 20)));
    }
  }
  cases.push_back(empty);
  Case far = make_case("all centroids far away", 2003, 3, 9, bell);
  for (std::size_t index = 0; index < far.centroids.size(); ++index) {
    far.centroids[index] = 1e30F + 1e24F * static_cast<float>(index % 5);
  }
  cases.push_back(far);
  Case equal = make_case("equal centroids", 20011, 3, 30, bell);
  for (std::int64_t j = 1; j < 30; j += 2) {
    std::copy_n(equal.centroids.begin() + (j - 1) * 3, 3, equal.centroids.begin() + j * 3);
  }
  cases.push_back(equal);
  return cases;
}

Problem<float> problem_of(const Case& data, int threads) {
  Problem<float> problem;
  problem.shape = {data.n, data.d, data.k, Precision::f32};
  problem.points = data.points.data();
  for (const float value : data.points)
    problem.max_abs = std::max(problem.max_abs, std::abs(value));
  problem.threads = threads;
  return problem;
}

struct State {
  std::vector<float> centroids;
  std::vector<std::int32_t> labels;
};

State fetch(Variant<float>& variant, const Case& data) {
  State state{std::vector<float>(data.k * data.d), std::vector<std::int32_t>(data.n, -7)};
  variant.fetch(state.centroids.data(), state.labels.data());
  return state;
}

/// The states after each of `iterations` steps.
std::vector<State> run(const std::string& name, const Case& data, int threads, int iterations) {
  const auto* variant = find_variant(name);
  if (variant == nullptr) return {};
  auto instance = variant->factory.make_float(Precision::f32);
  instance->setup(problem_of(data, threads));
  instance->reset(data.centroids.data());
  std::vector<State> states;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    instance->step(1);
    states.push_back(fetch(*instance, data));
  }
  return states;
}

bool available(const std::string& name, const Case& data) {
  const auto* variant = find_variant(name);
  if (variant == nullptr) return false;
  const Shape shape{data.n, data.d, data.k, Precision::f32};
  return !variant->traits.supports || variant->traits.supports(shape).ok;
}

std::string describe(const Case& data) {
  return data.name + " n=" + std::to_string(data.n) + " d=" + std::to_string(data.d) +
         " k=" + std::to_string(data.k);
}

constexpr int kIterations = 5;

/// The exact variants of this backend.
constexpr std::array kExact{"openmp_exact",    "openmp_hamerly", "openmp_yinyang", "openmp_elkan",
                            "openmp_exponion", "openmp_tree",    "openmp_best"};

bool takes(const std::string& name, const Case& data) {
  const auto& supports = find_variant(name)->traits.supports;
  return !supports || supports({data.n, data.d, data.k, Precision::f32}).ok;
}

void expect_states(const std::string& name, const Case& data, const std::vector<State>& expected) {
  const auto iterations = static_cast<int>(expected.size());
  for (const int threads : {1, 2, 7}) {
    const auto actual = run(name, data, threads, iterations);
    ASSERT_EQ(actual.size(), expected.size());
    for (int iteration = 0; iteration < iterations; ++iteration) {
      ASSERT_EQ(actual[iteration].labels, expected[iteration].labels)
          << name << ' ' << describe(data) << " threads=" << threads << " iteration=" << iteration;
      ASSERT_EQ(actual[iteration].centroids, expected[iteration].centroids)
          << name << ' ' << describe(data) << " threads=" << threads << " iteration=" << iteration;
    }
  }
}

TEST(OpenmpExact, EqualsTheReferenceAtAnyThreadCount) {
  for (const Case& data : battery()) {
    const auto expected = run("reference", data, 1, kIterations);
    for (const char* name : kExact) {
      if (takes(name, data)) expect_states(name, data, expected);
      if (HasFatalFailure()) return;
    }
  }
}

/// KMEANS_OPENMP_PROBLEMS=1000 for more.
int problems_wanted(int usually) {
  const char* wanted = std::getenv("KMEANS_OPENMP_PROBLEMS");
  return wanted != nullptr ? std::atoi(wanted) : usually;
}

/// Problems as they come: mixtures, grids full of ties, copies, near the origin and far away, with a first
/// centroid or two where no point is.
Case drawn_of(Random& random, std::int64_t n, std::int64_t d, std::int64_t k) {
  const std::int64_t kind = random.below(4);
  const double offset = std::array{0.0, 0.0, 10.0, -3e5}[random.below(4)];
  const std::int64_t places = 1 + random.below(20);
  std::vector<double> centres(places * d);
  for (double& value : centres) value = 5 * random.bell();
  std::int64_t place = 0;
  Case result = make_case("drawn", n, d, k, [&](std::int64_t, std::int64_t t) {
    if (t == 0) place = random.below(places);
    if (kind == 0) return offset + random.bell();
    if (kind == 1) return offset + static_cast<double>(random.below(7));
    return offset + centres[place * d + t] + (kind == 2 ? 0.3 * random.bell() : 0);
  });
  if (random.below(5) == 0) result.centroids[random.below(k * d)] = 1e30F;
  return result;
}

/// In one to eight dimensions.
Case drawn(Random& random) {
  const std::int64_t n = 1 + random.below(1500);
  const std::int64_t d = 1 + random.below(8);
  return drawn_of(random, n, d, 1 + random.below(std::min<std::int64_t>(n, 60)));
}

TEST(OpenmpExact, EqualsTheReferenceOnProblemsAsTheyCome) {
  const int problems = problems_wanted(30);
  Random random(17);
  for (int problem = 0; problem < problems; ++problem) {
    const Case data = drawn(random);
    const auto expected = run("reference", data, 1, 12);
    for (const char* name : kExact) {
      expect_states(name, data, expected);
      if (HasFatalFailure()) FAIL() << "problem " << problem;
    }
  }
}

TEST(OpenmpExact, StepsInOneCallEqualSingleSteps) {
  Random random(11);
  const Case data =
      make_case("random", 20011, 5, 30, [&](std::int64_t, std::int64_t) { return random.bell(); });
  const auto expected = run("reference", data, 1, 9).back();
  for (const char* name : kExact) {
    auto instance = find_variant(name)->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, 2));
    for (int repetition = 0; repetition < 2; ++repetition) {  // reset forgets sums and bounds
      instance->reset(data.centroids.data());
      instance->step(9);
      const State actual = fetch(*instance, data);
      EXPECT_EQ(actual.labels, expected.labels) << name;
      EXPECT_EQ(actual.centroids, expected.centroids) << name;
    }
  }
}

TEST(OpenmpExact, CountsChangedLabels) {
  Random random(12);
  const Case data =
      make_case("random", 20011, 5, 30, [&](std::int64_t, std::int64_t) { return random.bell(); });
  const auto states = run("reference", data, 1, 3);
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < data.n; ++i) changed += states[1].labels[i] != states[2].labels[i];
  ASSERT_GT(changed, 0);
  for (const char* name : {"openmp_exact", "openmp_hamerly", "openmp_yinyang", "openmp_elkan",
                           "openmp_exponion", "openmp_tree", "openmp_best", "openmp_simd"}) {
    auto instance = find_variant(name)->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, 2));
    instance->reset(data.centroids.data());
    instance->step(3);
    // openmp_simd may label a near-tie otherwise; 20 of 20011 points would be far too many.
    EXPECT_NEAR(static_cast<double>(instance->progress().changed.value()),
                static_cast<double>(changed), name == std::string("openmp_simd") ? 20 : 0);
  }
}

/// Distances that each of several single steps formed.
std::vector<std::int64_t> distances(const std::string& name, const Case& data, int threads,
                                    int iterations) {
  auto instance = find_variant(name)->factory.make_float(Precision::f32);
  instance->setup(problem_of(data, threads));
  instance->reset(data.centroids.data());
  std::vector<std::int64_t> counts;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    instance->step(1);
    counts.push_back(instance->computed_distances().value());
  }
  return counts;
}

TEST(ComputedDistances, AreKnownWhereClustersAreFarApart) {
  Random random(13);
  // 40 clusters of 500 points each, a thousand radii apart, in the order of the tree; one first centroid
  // in each of them.
  const Case data = make_case("apart", 20000, 3, 40, [&](std::int64_t i, std::int64_t t) {
    return (t == 0 ? 1000.0 * static_cast<double>(i / 500) : 0.0) + random.bell();
  });
  const std::int64_t all = data.n * data.k;
  for (const int threads : {1, 2}) {
    for (const char* name :
         {"openmp_hamerly", "openmp_yinyang", "openmp_elkan", "openmp_exponion"}) {
      const auto counts = distances(name, data, threads, 3);
      EXPECT_EQ(counts[0], all) << name;  // nothing is known yet
      // A centroid moves by a radius, its rivals are a thousand away; then none moves at all.
      EXPECT_EQ(counts[1], 0) << name;
      EXPECT_EQ(counts[2], 0) << name;
    }
    // Boxes within a cluster have one candidate. At most the leaves on its two ends have points of
    // two: up to 39 leaves of 32 points.
    for (const std::int64_t count : distances("openmp_tree", data, threads, 3)) {
      EXPECT_LE(count, 39 * 32 * 2);
    }
  }
}

TEST(ComputedDistances, AreAllAndMoreWherePointsAreEquallyFarFromAll) {
  // All centroids coincide, so no bound holds and float64 decides every point: 2 n k, and for the
  // bounds one more a point, its own.
  Case data = make_case("equal", 5000, 4, 16, [](std::int64_t i, std::int64_t t) {
    return static_cast<double>(i * (t + 3) % 101);
  });
  for (std::size_t index = 0; index < data.centroids.size(); ++index) {
    data.centroids[index] = data.centroids[index % 4];
  }
  const std::int64_t all = data.n * data.k;
  for (const char* name :
       {"openmp_hamerly", "openmp_yinyang", "openmp_elkan", "openmp_exponion", "openmp_tree"}) {
    EXPECT_EQ(distances(name, data, 2, 1)[0], 2 * all) << name;
  }
}

TEST(ComputedDistances, OfAStepOfManyIterationsAreThoseOfAll) {
  Random random(14);
  const Case data =
      make_case("random", 20011, 5, 30, [&](std::int64_t, std::int64_t) { return random.bell(); });
  for (const char* name :
       {"openmp_hamerly", "openmp_yinyang", "openmp_elkan", "openmp_exponion", "openmp_tree"}) {
    const auto single = distances(name, data, 2, 6);
    auto instance = find_variant(name)->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, 1));
    instance->reset(data.centroids.data());
    instance->step(6);
    EXPECT_EQ(instance->computed_distances(),
              std::accumulate(single.begin(), single.end(), std::int64_t{0}))
        << name;
    EXPECT_LT(single[5], single[0]) << name;
  }
  EXPECT_FALSE(find_variant("openmp_simd")
                   ->factory.make_float(Precision::f32)
                   ->computed_distances()
                   .has_value());
}

TEST(OpenmpBest, ChangesToBoundsOnClustersAndKeepsTheBits) {
  Random random(15);
  // 48 clusters far apart, and a first centroid in each; enough points for a sample of them to be watched.
  Case data = make_case("clusters", 20011, 32, 48, [&](std::int64_t i, std::int64_t t) {
    return 20.0 * static_cast<double>(i % 48 >> (t % 6) & 1) + random.bell();
  });
  std::copy_n(data.points.begin(), data.centroids.size(), data.centroids.begin());
  constexpr int kSteps = 16;
  const auto expected = run("openmp_exact", data, 2, kSteps);
  for (const int threads : {1, 2}) {
    auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, threads));
    for (int repetition = 0; repetition < 2; ++repetition) {  // reset starts over
      instance->reset(data.centroids.data());
      for (int step = 0; step < kSteps; ++step) {
        instance->step(1);
        const State state = fetch(*instance, data);
        ASSERT_EQ(state.labels, expected[step].labels) << step;
        ASSERT_EQ(state.centroids, expected[step].centroids) << step;
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < data.n; ++i) {
          count += step == 0 || expected[step - 1].labels[i] != expected[step].labels[i];
        }
        // In the first iteration of another family, too: it takes the labels over.
        EXPECT_EQ(instance->progress().changed, count) << step;
      }
      EXPECT_LT(*instance->computed_distances(), data.n * data.k / 10);
    }
    instance->reset(data.centroids.data());
    instance->step(kSteps);  // knows how many are to come, so it may change earlier
    EXPECT_EQ(fetch(*instance, data).centroids, expected.back().centroids);
    EXPECT_LT(*instance->computed_distances(), data.n * data.k * kSteps / 2);
  }
}

/// The families and openmp_best, which are asked for some iterations at once.
TEST(Openmp, StopsByLabelsOrByMovementWhereSingleIterationsDo) {
  Random random(41);
  for (const std::int64_t d : {3, 7, 24}) {
    const Case data = make_case("stops", 20011, d, 19, [&](std::int64_t i, std::int64_t t) {
      return 1.5 * static_cast<double>(i % 19 >> (t % 5) & 1) + random.bell();
    });
    constexpr int kMost = 200;
    const std::vector<State> states = run("openmp_exact", data, 1, kMost);
    int settled = 0;  // the first iteration that changes no label
    while (++settled < kMost && states[settled].labels != states[settled - 1].labels) {
    }
    ASSERT_LT(settled, kMost - 1);
    std::vector<double> shifts;
    for (int iteration = 0; iteration <= settled; ++iteration) {
      const auto& before = iteration == 0 ? data.centroids : states[iteration - 1].centroids;
      double sum = 0;
      for (std::int64_t j = 0; j < data.k; ++j) {
        sum += exact::squared_distance(before.data() + j * d,
                                       states[iteration].centroids.data() + j * d, d);
      }
      shifts.push_back(sum);
    }
    const int half = settled / 2;
    int first = 0;  // that moves the centroids by no more
    while (shifts[first] > shifts[half]) ++first;
    for (const char* name : kExact) {
      if (!available(name, data)) continue;
      for (const int threads : {1, 3}) {
        auto instance = find_variant(name)->factory.make_float(Precision::f32);
        auto* stops = dynamic_cast<openmp::Stops<float>*>(instance.get());
        ASSERT_NE(stops, nullptr) << name;
        instance->setup(problem_of(data, threads));
        const auto expect = [&](const openmp::Stopping& when, int iterations, bool by_labels,
                                bool by_shift) {
          instance->reset(data.centroids.data());
          openmp::Stopped all;
          while (!all.settled && !all.within_shift && all.iterations < kMost) {
            const auto part = stops->step_until(when, 7);  // as where a caller looks for signals
            all = {all.iterations + part.iterations, part.settled, part.within_shift};
          }
          EXPECT_EQ(all.iterations, iterations) << name << ' ' << describe(data);
          EXPECT_EQ(all.settled, by_labels) << name;
          EXPECT_EQ(all.within_shift, by_shift) << name;
          const State state = fetch(*instance, data);
          EXPECT_EQ(state.labels, states[iterations - 1].labels) << name;
          EXPECT_EQ(state.centroids, states[iterations - 1].centroids) << name;
        };
        expect({.settled = true}, settled + 1, true, false);
        expect({.settled = true, .shift = shifts[half]}, first + 1, first == settled, true);
        expect({.settled = true, .shift = 0.0}, settled + 1, true, true);
        expect({.settled = true, .shift = std::nextafter(shifts[0], 1e30)}, 1, false, true);
      }
    }
  }
}

/// An instance that is set up again for the same points keeps copies of them.
TEST(Openmp, AnotherKForTheSamePointsGivesTheSameBits) {
  Random random(43);
  for (const std::int64_t d : {2, 6, 40}) {
    const auto coordinate = [&](std::int64_t i, std::int64_t t) {
      return 2.0 * static_cast<double>(i % 50 >> (t % 6) & 1) + random.bell();
    };
    Case data = make_case("first", 20011, d, 50, coordinate);
    const std::vector<float> all = data.points;
    for (const char* name : {"openmp_exact", "openmp_hamerly", "openmp_yinyang", "openmp_elkan",
                             "openmp_exponion", "openmp_tree", "openmp_best", "openmp_int8"}) {
      if (!available(name, data)) continue;
      auto instance = find_variant(name)->factory.make_float(Precision::f32);
      for (const std::int64_t k : {50, 4, 130, 1, 50}) {
        data.k = k;
        data.centroids.assign(all.begin() + 7 * d, all.begin() + (7 + k) * d);
        instance->setup(problem_of(data, 2));
        instance->reset(data.centroids.data());
        instance->step(4);
        const State state = fetch(*instance, data);
        const State expected = run("openmp_exact", data, 1, 4).back();
        ASSERT_EQ(state.labels, expected.labels) << name << ' ' << describe(data);
        ASSERT_EQ(state.centroids, expected.centroids) << name << ' ' << describe(data);
      }
    }
  }
}

/// However many iterations it is set up for: each of these shapes has another choice.
TEST(OpenmpBest, ChoosesForSomeIterationsAndKeepsTheBits) {
  Random random(44);
  std::set<std::string> chosen;
  for (const Shape& shape :
       {Shape{20011, 2, 40}, {20011, 6, 300}, {6001, 9, 20}, {5003, 200, 12}, {9001, 40, 70}}) {
    Case data = make_case("normal", shape.n, shape.d, shape.k,
                          [&](std::int64_t, std::int64_t) { return random.bell(); });
    std::copy_n(data.points.begin(), data.centroids.size(), data.centroids.begin());
    const State expected = run("openmp_exact", data, 1, 6).back();
    auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
    for (const std::int64_t iterations : {0, 1, 6, 50, 1000, 0}) {
      Problem<float> problem = problem_of(data, 2);
      problem.iterations = iterations;
      instance->setup(problem);
      instance->reset(data.centroids.data());
      instance->step(6);  // others may come all the same
      const State state = fetch(*instance, data);
      ASSERT_EQ(state.labels, expected.labels) << describe(data) << ' ' << iterations;
      ASSERT_EQ(state.centroids, expected.centroids) << describe(data) << ' ' << iterations;
      chosen.insert(instance->library_info().front().second);
    }
  }
  EXPECT_GE(chosen.size(), 3) << "what is compared are different families";
}

/// As many are equally near as there are points: the first are taken, by any number of threads, and no more is kept.
TEST(OpenmpBest, NeighbourhoodsOfEqualPointsAreNoLargerThanOthers) {
  constexpr std::int64_t kWanted = 128;
  constexpr std::int64_t kCentre = 150'000;
  const std::int64_t n = 300'000;
  for (const std::int64_t different : {0, 1000}) {
    std::vector<float> points(n * 5, 1.0F);
    for (std::int64_t i = 0; i < different; ++i)
      points[(i * 251 + 7) % n * 5] = static_cast<float>(i);
    const Problem<float> problem{
        .shape = {n, 5, 9}, .points = points.data(), .max_abs = 1000, .threads = 3};
    std::vector<std::int64_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    const auto distance = [&](std::int64_t i) {
      return std::abs(points[i * 5] - points[kCentre * 5]);
    };
    std::ranges::stable_sort(expected, {}, distance);
    expected.resize(kWanted);
    for (const int threads : {1, 3}) {
      const auto team = [=](int /*most*/, const auto& work) {
        for (int thread = 0; thread < threads; ++thread) work(thread, threads);
      };
      const auto rows = openmp::nearest_rows(problem, {kCentre, kCentre}, kWanted, team);
      ASSERT_EQ(rows.size(), 2U);
      EXPECT_EQ(rows[0], expected) << threads << ' ' << different;
      EXPECT_EQ(rows[1], expected) << threads << ' ' << different;
    }
  }
}

/// With 256 points of the sample for each thread, which share them.
TEST(OpenmpBest, ThreadsShareALargeSample) {
  Random random(33);
  Case data = make_case("clusters", std::int64_t{3} * 128 * 257, 12, 96,
                        [&](std::int64_t i, std::int64_t t) {
                          return 6.0 * static_cast<double>(i % 96 >> (t % 7) & 1) + random.bell();
                        });
  std::copy_n(data.points.begin(), data.centroids.size(), data.centroids.begin());
  constexpr int kSteps = 12;
  const auto expected = run("openmp_exact", data, 2, kSteps);
  for (const int threads : {1, 2, 3}) {
    ASSERT_GT(openmp::scouts(Shape{data.n, data.d, data.k, Precision::f32}, 0), 256 * threads);
    auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, threads));
    for (int repetition = 0; repetition < 2; ++repetition) {
      instance->reset(data.centroids.data());
      std::int64_t least = data.n * data.k;
      for (int step = 0; step < kSteps; ++step) {
        instance->step(1);
        const State state = fetch(*instance, data);
        ASSERT_EQ(state.labels, expected[step].labels) << threads << ' ' << step;
        ASSERT_EQ(state.centroids, expected[step].centroids) << threads << ' ' << step;
        least = std::min(least, *instance->computed_distances());
      }
      EXPECT_LT(least, data.n * data.k / 4) << "what the sample says is heard: " << threads;
    }
  }
}

/// What is kept of centroids that stay has to be right when others move.
TEST(Openmp, CentroidsThatStayAreStillThoseOfTheReference) {
  Random random(51);
  for (const std::int64_t d : {3, 20, 70}) {
    const std::int64_t k = d == 70 ? 330 : 43;  // groups of their own for openmp_yinyang
    Case data = make_case("some stay", 3001, d, k, [&](std::int64_t i, std::int64_t t) {
      return (i % 43 < 30 ? 9.0 : 1.0) * static_cast<double>(i % 43 * (t + 7) % 11) + random.bell();
    });
    std::fill_n(data.centroids.begin() + 5 * d, d, 1e30F);  // where no point is
    const auto expected = run("reference", data, 1, 30);
    int some = 0;  // iterations that move some centroids, not all
    for (std::size_t step = 1; step < expected.size(); ++step) {
      std::int64_t moved = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const auto* now = expected[step].centroids.data() + j * d;
        moved += std::equal(now, now + d, expected[step - 1].centroids.data() + j * d) ? 0 : 1;
      }
      some += 0 < moved && moved < k - 1 ? 1 : 0;
    }
    ASSERT_GT(some, 4) << describe(data);
    for (const char* name : kExact) {
      if (takes(name, data)) expect_states(name, data, expected);
    }
    expect_states("openmp_int8", data, expected);
    if (HasFatalFailure()) return;
  }
}

TEST(OpenmpBest, BoundsTakeOverWhereNoLabelChangesAnyMore) {
  Random random(52);
  // Too few points for a sample of them to be watched.
  Case data = make_case("at rest", 2000, 32, 20, [&](std::int64_t i, std::int64_t t) {
    return 20.0 * static_cast<double>(i % 20 >> (t % 5) & 1) + random.bell();
  });
  std::copy_n(data.points.begin(), data.centroids.size(), data.centroids.begin());
  ASSERT_EQ(openmp::scouts({data.n, data.d, data.k, Precision::f32}, 0), 0);
  constexpr int kSteps = 120;
  const auto expected = run("openmp_exact", data, 2, kSteps).back();
  auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
  instance->setup(problem_of(data, 2));
  for (int repetition = 0; repetition < 2; ++repetition) {  // reset starts over
    instance->reset(data.centroids.data());
    instance->step(kSteps);
    EXPECT_EQ(fetch(*instance, data).labels, expected.labels);
    EXPECT_EQ(fetch(*instance, data).centroids, expected.centroids);
    EXPECT_EQ(instance->progress().changed, 0);
    EXPECT_LT(*instance->computed_distances(), data.n * data.k * 20);
    instance->step(1);
    EXPECT_EQ(fetch(*instance, data).centroids, expected.centroids);
    EXPECT_LT(*instance->computed_distances(), data.n * data.k / 10);
  }
  // As many iterations as the change costs: there are none to gain by it.
  instance->reset(data.centroids.data());
  instance->step(5);
  EXPECT_EQ(*instance->computed_distances(), data.n * data.k * 5);
}

/// Each from the labels and sums of each other.
TEST(OpenmpBest, FamiliesTakeOverFromEachOther) {
  Random random(54);
  constexpr std::array kFamilies{"openmp_exact", "openmp_int8", "openmp_tree", "openmp_hamerly",
                                 "openmp_yinyang"};
  constexpr int kSteps = 8;
  // Normal points, and such as lie in one place each, where a node of the tree has an owner.
  for (const double width : {1.0, 0.0}) {
    const Case data = make_case("handed over", 5003, 6, 90, [&](std::int64_t i, std::int64_t t) {
      return 3.0 * static_cast<double>(i % 64 >> t & 1) + width * random.bell();
    });
    const auto expected = run("reference", data, 1, 2 * kSteps);
    for (const char* first : kFamilies) {
      for (const char* second : kFamilies) {
        if (!takes(first, data) || !takes(second, data)) continue;
        auto from = find_variant(first)->factory.make_float(Precision::f32);
        auto to = find_variant(second)->factory.make_float(Precision::f32);
        from->setup(problem_of(data, 2));
        from->reset(data.centroids.data());
        from->step(kSteps);
        to->setup(problem_of(data, 2));
        to->reset(fetch(*from, data).centroids.data());
        auto standing = dynamic_cast<openmp::Family<float>&>(*from).standing();
        ASSERT_TRUE(standing.has_value()) << first;
        standing->at_rest = width > 0;  // of groups that suit nothing, bounds are as right
        std::vector<std::int32_t> before = expected[kSteps - 1].labels;
        ASSERT_TRUE(std::ranges::equal(standing->labels, before)) << first;
        dynamic_cast<openmp::Family<float>&>(*to).take_over(*standing);
        for (int step = kSteps; step < 2 * kSteps; ++step) {
          to->step(1);
          const State state = fetch(*to, data);
          ASSERT_EQ(state.labels, expected[step].labels) << first << ", " << second;
          ASSERT_EQ(state.centroids, expected[step].centroids) << first << ", " << second;
          std::int64_t changed = 0;
          for (std::int64_t i = 0; i < data.n; ++i) changed += before[i] != state.labels[i];
          EXPECT_EQ(to->progress().changed, changed) << first << ", " << second << ", " << step;
          before = state.labels;
        }
      }
    }
  }
}

TEST(OpenmpBest, ChangesFromTheTreeToBounds) {
  Random random(55);
  Case data =
      make_case("long", 20011, 6, 500, [&](std::int64_t, std::int64_t) { return random.bell(); });
  constexpr int kSteps = 100;
  const auto expected = run("openmp_exact", data, 2, kSteps);
  auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
  Problem<float> problem = problem_of(data, 2);
  problem.iterations = 300;
  instance->setup(problem);
  const auto info = instance->library_info();
  EXPECT_EQ(info.at(0).second, "openmp_tree, openmp_hamerly");
  instance->reset(data.centroids.data());
  const auto step_to = [&](int steps, std::int64_t by) {
    instance->step(by);
    const State state = fetch(*instance, data);
    ASSERT_EQ(state.labels, expected[steps - 1].labels) << steps;
    ASSERT_EQ(state.centroids, expected[steps - 1].centroids) << steps;
  };
  step_to(1, 1);
  const std::int64_t after_tree = *instance->computed_distances();
  for (int step = 2; step <= kSteps; ++step) step_to(step, 1);
  const std::int64_t last = *instance->computed_distances();
  EXPECT_LT(after_tree, data.n * data.k / 2);
  EXPECT_LT(last, data.n * data.k / 50) << "the tree forms a sixth of the distances here";
  // The tree again; and a third run goes as the second does, whatever that ended with.
  std::vector<std::int64_t> distances;
  for (int again = 0; again < 2; ++again) {
    instance->reset(data.centroids.data());
    step_to(1, 1);
    EXPECT_EQ(*instance->computed_distances(), after_tree);
    step_to(kSteps, kSteps - 1);
    distances.push_back(*instance->computed_distances());
  }
  EXPECT_EQ(distances[0], distances[1]);
}

TEST(OpenmpBest, LeavesBoundsThatCannotDecideAtRest) {
  Random random(53);
  // Every centroid is there many times, so each point's nearest ones are a tie.
  std::vector<double> places(40 * std::int64_t{64});
  for (double& value : places) value = 5 * random.bell();
  Case data = make_case("ties", 4000, 64, 256,
                        [&](std::int64_t i, std::int64_t t) { return places[i % 40 * 64 + t]; });
  for (std::int64_t j = 0; j < data.k; ++j) {
    std::copy_n(data.points.begin() + j * data.d, data.d, data.centroids.begin() + j * data.d);
  }
  constexpr int kSteps = 100;
  const auto expected = run("openmp_exact", data, 2, kSteps).back();
  auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
  Problem<float> problem = problem_of(data, 2);
  problem.iterations = kSteps;
  instance->setup(problem);
  instance->reset(data.centroids.data());
  instance->step(kSteps);
  EXPECT_EQ(fetch(*instance, data).labels, expected.labels);
  EXPECT_EQ(fetch(*instance, data).centroids, expected.centroids);
  EXPECT_GT(*instance->computed_distances(), data.n * data.k * kSteps) << "bounds were not tried";
  EXPECT_LT(*instance->computed_distances(), data.n * data.k * (kSteps + 4));
  instance->step(1);
  EXPECT_EQ(*instance->computed_distances(), data.n * data.k) << "what brute force forms";
}

/// Too small for a sample.
TEST(OpenmpBest, SmallProblemsTakeBoundsAtRest) {
  Random random(57);
  const Case data =
      make_case("small", 2000, 12, 30, [&](std::int64_t, std::int64_t) { return random.bell(); });
  constexpr int kSteps = 150;
  const auto expected = run("openmp_exact", data, 1, kSteps);
  ASSERT_EQ(expected[kSteps - 1].labels, expected[kSteps - 51].labels) << "to be at rest";
  for (const int threads : {1, 2}) {
    auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
    Problem<float> problem = problem_of(data, threads);
    problem.iterations = kSteps + 10;
    instance->setup(problem);
    instance->reset(data.centroids.data());
    instance->step(kSteps);
    EXPECT_EQ(fetch(*instance, data).labels, expected.back().labels);
    EXPECT_EQ(fetch(*instance, data).centroids, expected.back().centroids);
    instance->step(10);
    EXPECT_LT(*instance->computed_distances(), data.n * data.k) << "of ten iterations";
    EXPECT_EQ(fetch(*instance, data).labels, expected.back().labels);
  }
}

TEST(OpenmpBest, GoesBackWhereBoundsSaveLessThanASampleSaid) {
  Random random(15);
  // The sample is every 128th point. These are eight clusters far away, which settle at once; all others
  // are one cloud for 40 centroids, in which bounds save nothing for long.
  Case data = make_case("misleading", 20480, 32, 48, [&](std::int64_t i, std::int64_t t) {
    const bool seen = i % 128 == 0;
    return (seen ? 50.0 + 50.0 * static_cast<double>(i / 128 % 8 >> (t % 3) & 1) : 0.0) +
           random.bell();
  });
  for (std::int64_t j = 0; j < data.k; ++j) {
    const std::int64_t i = j < 8 ? 128 * j : j;
    std::copy_n(data.points.begin() + i * data.d, data.d, data.centroids.begin() + j * data.d);
  }
  constexpr int kSteps = 24;
  const auto expected = run("openmp_exact", data, 2, kSteps);
  auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
  instance->setup(problem_of(data, 2));
  instance->reset(data.centroids.data());
  int excursions = 0;
  bool away = false;
  for (int step = 0; step < kSteps; ++step) {
    instance->step(1);
    const State state = fetch(*instance, data);
    ASSERT_EQ(state.labels, expected[step].labels) << step;
    ASSERT_EQ(state.centroids, expected[step].centroids) << step;
    // Bounds that save nothing add each point's distance to its own centroid; a look adds few.
    const bool before =
        std::exchange(away, *instance->computed_distances() > data.n * data.k + data.n / 2);
    excursions += away && !before ? 1 : 0;
  }
  EXPECT_EQ(excursions, 1);  // there and back, and not again
  EXPECT_EQ(*instance->computed_distances(), data.n * data.k);
}

/// Large enough for a sample to be watched, or for neighbourhoods to be looked at.
TEST(OpenmpBest, EqualsTheReferenceWhereItMayChange) {
  Random random(21);
  const int problems = problems_wanted(8);
  int changes = 0;
  for (int problem = 0; problem < problems; ++problem) {
    const std::int64_t n = 4096 + random.below(6000);
    const std::int64_t d = problem % 4 == 3 ? 5 + random.below(4) : 12 + random.below(24);
    const Case data = drawn_of(random, n, d, 24 + random.below(40));
    const auto threads = static_cast<int>(1 + random.below(2));
    const auto expected = run("reference", data, 1, 60);
    auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, n < 8192 ? 1 : threads));
    instance->reset(data.centroids.data());
    for (std::size_t step = 0; step < expected.size();) {
      const std::int64_t most = random.below(4) == 0 ? 6 : 1;
      const auto now = std::min<std::size_t>(1 + random.below(most), expected.size() - step);
      instance->step(static_cast<std::int64_t>(now));
      step += now;
      const State state = fetch(*instance, data);
      ASSERT_EQ(state.labels, expected[step - 1].labels) << describe(data) << " step " << step;
      ASSERT_EQ(state.centroids, expected[step - 1].centroids)
          << describe(data) << " step " << step;
      const auto all = static_cast<std::int64_t>(now) * n * data.k;
      changes += *instance->computed_distances() < all ? 1 : 0;
    }
  }
  EXPECT_GT(changes, 0) << "none of the problems had it change to bounds";
}

TEST(OpenmpBest, TakesTheTreeWhereTheIterationsToComePayForIt) {
  Random random(23);
  const Case data =
      make_case("normal", 20011, 3, 100, [&](std::int64_t, std::int64_t) { return random.bell(); });
  const auto expected = run("openmp_exact", data, 2, 60);
  const auto families = [](const Variant<float>& instance) {
    std::string text;
    for (const auto& [what, value] : instance.library_info())
      text += what == "families" ? value : "";
    return text;
  };
  const auto begun = [&] {
    auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, 2));
    EXPECT_EQ(families(*instance), "openmp_exact, openmp_tree");
    instance->reset(data.centroids.data());
    return instance;
  };
  const auto is_after = [&](Variant<float>& instance, int steps) {
    const State state = fetch(instance, data);
    EXPECT_EQ(state.labels, expected[steps - 1].labels) << steps;
    EXPECT_EQ(state.centroids, expected[steps - 1].centroids) << steps;
  };
  const auto few = begun();
  few->step(3);
  is_after(*few, 3);
  few->step(57);  // in the middle it would not know which labels change
  is_after(*few, 60);
  EXPECT_EQ(families(*few), "openmp_exact, openmp_tree");
  few->reset(data.centroids.data());  // as many again, presumably
  EXPECT_EQ(families(*few), "openmp_tree");
  few->step(60);
  is_after(*few, 60);

  const auto many = begun();
  many->step(60);
  is_after(*many, 60);
  EXPECT_EQ(families(*many), "openmp_tree");
  many->reset(data.centroids.data());
  many->step(2);
  is_after(*many, 2);

  const auto stops = begun();
  auto* const stopping = dynamic_cast<Stops<float>*>(stops.get());
  ASSERT_NE(stopping, nullptr);
  const Stopped made = stopping->step_until({.settled = true}, 1000);
  EXPECT_EQ(families(*stops), "openmp_tree");
  const auto by_single = begun();
  std::int64_t count = 0;
  while (count < 1000) {
    by_single->step(1);
    ++count;
    if (by_single->progress().changed == 0) break;
  }
  EXPECT_EQ(made.iterations, count);
  EXPECT_EQ(fetch(*stops, data).centroids, fetch(*by_single, data).centroids);

  // Here two iterations pay for the tree, so setup builds it. New points start with brute force again.
  const Case dense =
      make_case("dense", 20011, 3, 1500, [&](std::int64_t, std::int64_t) { return random.bell(); });
  many->setup(problem_of(dense, 2));
  EXPECT_EQ(families(*many), "openmp_tree");
  many->setup(problem_of(data, 2));
  EXPECT_EQ(families(*many), "openmp_exact, openmp_tree");
}

TEST(OpenmpBest, LooksAtNeighbourhoodsWhereBoxesMayTellNothing) {
  Random random(16);
  const auto share = [&](const Case& data) {
    return static_cast<double>(distances("openmp_best", data, 2, 1)[0]) /
           static_cast<double>(data.n * data.k);
  };
  EXPECT_GE(share(make_case("normal", 20011, 8, 64,
                            [&](std::int64_t, std::int64_t) { return random.bell(); })),
            1);
  EXPECT_LT(share(make_case("clusters", 20011, 8, 64,
                            [&](std::int64_t i, std::int64_t t) {
                              return 20.0 * static_cast<double>(i % 64 >> (t % 6) & 1) +
                                     random.bell();
                            })),
            0.5);
}

TEST(OpenmpBest, TheNearestRowsAreThoseOfAllDistances) {
  for (const std::int64_t n : {3, 128, 5000, 70000}) {
    Random random(n);
    std::vector<float> points(n * 5);
    // Many equal rows, and equal distances.
    for (float& one : points) one = std::floor(10 * static_cast<float>(random.uniform()));
    Problem<float> problem;
    problem.shape = {n, 5, 1};
    problem.points = points.data();
    const auto distance = [&](std::int64_t i, std::int64_t from) {
      float sum = 0;
      for (int t = 0; t < 5; ++t) {
        const float difference = points[i * 5 + t] - points[from * 5 + t];
        sum += difference * difference;
      }
      return sum;
    };
    const std::vector<std::int64_t> centres{0, n / 2, n - 1};
    problem.threads = 3;
    const auto in_team = [](int threads, const auto& work) {  // one after the other
      for (int thread = 0; thread < threads; ++thread) work(thread, threads);
    };
    const auto nearest = openmp::nearest_rows(problem, centres, 128, in_team);
    for (std::size_t place = 0; place < centres.size(); ++place) {
      const std::int64_t from = centres[place];
      std::vector<float> all;
      for (std::int64_t i = 0; i < n; ++i) all.push_back(distance(i, from));
      std::sort(all.begin(), all.end());
      all.resize(std::min<std::int64_t>(n, 128));
      std::vector<float> found;
      std::set<std::int64_t> rows;
      for (const std::int64_t row : nearest[place]) {
        found.push_back(distance(row, from));
        rows.insert(row);
      }
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, all) << n << ", " << from;
      EXPECT_EQ(rows.size(), found.size()) << "a row twice";
    }
  }
}

TEST(OpenmpBest, ChoosesByShapeAndInstructions) {
  using namespace openmp;  // NOLINT: what is tested
  const Shape wide{100000, 128, 1024};
  EXPECT_EQ(brute_family(wide, "avx512vnni"), "openmp_int8");
  EXPECT_EQ(brute_family(wide, "avx2", 50, 2, true), "openmp_int8");
  EXPECT_EQ(brute_family(wide, "avx2", 50, 2, false), "openmp_exact");  // not measured
  for (const char* slow : {"plain", "amx-emulated", "dotprod"}) {
    EXPECT_EQ(brute_family(wide, slow), "openmp_exact") << slow;
  }
  EXPECT_EQ(brute_family({100000, 64, 64}, "avx2", 50, 2, true),
            "openmp_exact");  // seven bits leave much open
  EXPECT_EQ(brute_family({100000, 64, 64}, "avx512vnni"), "openmp_int8");
  EXPECT_EQ(brute_family({100000, 64, 64}, "avx512vnni", 2),
            "openmp_exact");  // not set up for so few
  EXPECT_EQ(brute_family({100000, 128, 4}, "avx512vnni"),
            "openmp_exact");  // between few centroids bytes leave nearly all open
  EXPECT_EQ(brute_family({31250, 32, 32}, "avx512vnni"), "openmp_exact");  // what is open binds
  EXPECT_EQ(brute_family({100000, 48, 4}, "avx512vnni"), "openmp_exact");  // points bind, not pairs
  EXPECT_EQ(brute_family({1000, 16, 32}, "avx512vnni"), "openmp_exact");   // barriers bind
  EXPECT_EQ(brute_family({2000, 128, 50}, "amx", 10, 2), "openmp_int8");
  EXPECT_EQ(brute_family({2000, 128, 50}, "amx", 10, 16), "openmp_exact") << "of many threads";
  EXPECT_EQ(brute_family({20000, 10, 500}, "avx512vnni", 10, 2), "openmp_int8");
  EXPECT_EQ(brute_family({20000, 10, 500}, "avx512vnni", 10, 16), "openmp_exact") << "a tenth";
  for (const Shape& few : {Shape{64000, 2, 4}, {16000, 2, 16}, {64000, 3, 1024}, {64000, 4, 64}}) {
    EXPECT_TRUE(surely_tree(few, "avx512vnni", 2)) << few.n << ", " << few.d << ", " << few.k;
  }
  // Few points for each centroid: a walk costs more.
  for (const Shape& few : {Shape{300, 2, 5}, {1000, 3, 64}, {16000, 4, 16}, {10000, 4, 64}}) {
    EXPECT_FALSE(surely_tree(few, "avx512vnni", 2)) << few.n << ", " << few.d << ", " << few.k;
  }
  EXPECT_FALSE(surely_tree({1000000, 5, 64}, "avx512vnni", 2)) << "the points decide";
  // Some of the order of the points is one thread's: with sixteen, iterations have to save more.
  EXPECT_TRUE(tree_pays({500000, 3, 100}, "avx512vnni", 2, 25));
  EXPECT_FALSE(tree_pays({500000, 3, 100}, "avx512vnni", 16, 25));
  EXPECT_TRUE(tree_pays({200000, 2, 8}, "avx512vnni", 2, 300));
  EXPECT_FALSE(tree_pays({200000, 2, 8}, "avx512vnni", 16, 300));
  EXPECT_FALSE(perhaps_tree({100, 8, 50}));    // too few points to look at some first
  EXPECT_FALSE(perhaps_tree({100000, 8, 8}));  // too few centroids
  EXPECT_TRUE(perhaps_tree({100000, 8, 9}));
  EXPECT_FALSE(perhaps_tree({100000, 4, 9})) << "the shape decides";
  EXPECT_FALSE(perhaps_tree(wide));
  // Ten centroids in 784 dimensions: what bytes leave open decides, if there is time to pay for them.
  const FamilyCosts images({10000, 784, 10});
  EXPECT_TRUE(images.bytes_may_pay("amx", 50));
  EXPECT_FALSE(images.bytes_may_pay("amx", 10)) << "no time to pay for them";
  EXPECT_FALSE(images.bytes_pay("amx", kMostOpen, 1000));
  EXPECT_FALSE(FamilyCosts(wide).bytes_may_pay("avx512vnni", 50)) << "they pay in any case";
  EXPECT_EQ(scouts({1000, 16, 256}, 0), 62);
  EXPECT_EQ(scouts({1000, 16, 64}, 0), 0) << "iterations are short";
  EXPECT_EQ(scouts(wide, 0), 781);  // one of 128
  EXPECT_EQ(scouts(wide, 10), 0) << "too few iterations";
  EXPECT_EQ(scouts({50000, 8, 2000}, 0), 390) << "few coordinates, many centroids";
  EXPECT_EQ(scouts({200000, 2, 30}, 0), 0) << "iterations are short, however many points there are";
  EXPECT_EQ(scouts({50000, 8, 200}, 100), 390) << "short ones";
  EXPECT_EQ(scouts({50000, 8, 200}, 50), 0);
  // What is seen in neighbourhoods is more than what the tree comes to, however many centroids there are.
  for (const std::int64_t k : {16, 64, 65, 128, 256, 1000}) {
    const FamilyCosts costs({100000, 6, k});
    for (const double seen : {0.01, 0.2, 0.5}) {
      EXPECT_LT(costs.tree_share(seen), seen) << k;
      EXPECT_GT(costs.tree_share(seen), 0.2 * seen) << k;
    }
    EXPECT_LE(costs.tree_share(1), 1) << k;
  }
  // 10 + 3 x 1 instead of 4 x 4: yes. With 2 to come 10 + 1 instead of 8: no.
  EXPECT_TRUE(change_pays(4, 10, 1, 4));
  EXPECT_FALSE(change_pays(4, 10, 1, 2));
  // Fewer distances are never dearer, and bounds that save nothing never pay.
  for (const bool groups : {false, true}) {
    const FamilyCosts costs(wide);
    EXPECT_LT(costs.bounded(0, groups), costs.int8("amx", 0.1));
    EXPECT_LT(costs.bounded(0.01, groups), costs.bounded(0.5, groups));
    EXPECT_GT(costs.bounded(1, groups), costs.exact());
  }
}

TEST(OpenmpBest, LeavesBytesOnlyForBoundsThatSaveMoreThanWhatBytesLeaveOpen) {
  using namespace openmp;  // NOLINT: what is tested
  const FamilyCosts costs({300000, 128, 8});
  const auto bytes = [&](double open) { return costs.settled("avx512vnni", open); };
  const double floats = costs.settled("plain", 0);
  EXPECT_LT(bytes(0), 0.5 * floats);
  EXPECT_LT(bytes(0.1), bytes(0.3));
  EXPECT_EQ(bytes(1), floats) << "paused";
  EXPECT_LT(floats, costs.exact()) << "points that change clusters are left out";
  // Clusters that lie apart: bounds would leave a sixth of the distances, bytes a quarter of the points.
  const double start = costs.bounded_first(false);
  EXPECT_FALSE(change_pays(bytes(0.25), start, costs.bounded(0.17, false), 8));
  EXPECT_TRUE(change_pays(bytes(0.25), start, costs.bounded(0.05, false), 40));
  EXPECT_TRUE(change_pays(bytes(1), start, costs.bounded(0.1, false), 20));
}

TEST(OpenmpBest, KnowsThatBruteForceWaitsAtBarriersToo) {
  using namespace openmp;  // NOLINT: what is tested
  // Of sixteen threads that have little to do, barriers take most of an iteration.
  const auto saves_at_rest = [](const Shape& shape, int threads) {
    const FamilyCosts costs(shape, threads);
    return costs.bounded_at_rest(0, false) < crowded(threads) * costs.settled("", 0);
  };
  EXPECT_TRUE(saves_at_rest({1000, 64, 20}, 16));
  EXPECT_TRUE(saves_at_rest({5000, 24, 40}, 16));
  EXPECT_FALSE(saves_at_rest({2000, 32, 4}, 16)) << "as long as an iteration";
  EXPECT_TRUE(saves_at_rest({2000, 32, 4}, 2));
}

TEST(OpenmpBest, AsksNothingOfTinyProblems) {
  EXPECT_TRUE(openmp::is_tiny(Shape{300, 2, 5}));
  EXPECT_TRUE(openmp::is_tiny(Shape{0, 100, 100})) << "a rank without points";
  EXPECT_FALSE(openmp::is_tiny(Shape{2000, 4, 3}));
  EXPECT_FALSE(openmp::is_tiny(Shape{std::int64_t{1} << 40, 1 << 20, 1 << 20}));
}

TEST(OpenmpBest, DoesNotBeginWithBoundsInTheLastIteration) {
  using openmp::bounds_pay;
  // An estimate of the first iteration may be low.
  EXPECT_TRUE(openmp::change_pays(10, 8, 20, 1));
  EXPECT_FALSE(bounds_pay(10, 8, 20, 1));
  EXPECT_FALSE(bounds_pay(10, 8, 20, 2));
  EXPECT_TRUE(bounds_pay(10, 8, 1, 2));
}

TEST(OpenmpBest, CountsTheRowsThatBoundsReadInTheirFirstIteration) {
  using openmp::bounds_pay;
  using openmp::FamilyCosts;
  // Few centroids: the first iteration behind bounds took 142 ns a point, not 56, on clusters that touch.
  const FamilyCosts costs({31250, 256, 8});
  const double now = costs.settled("avx512vnni", 0.126);
  const double then = costs.bounded(0.05, false);
  EXPECT_FALSE(bounds_pay(now, costs.bounded_first(false), then, 5));
  EXPECT_TRUE(bounds_pay(now, costs.bounded_first(false), then, 45));
}

TEST(OpenmpBest, KeepsBruteForceWhereACacheHoldsThePoints) {
  using namespace openmp;  // NOLINT: what is tested
  const auto pays = [](const Shape& shape, double computed, std::int64_t iterations) {
    const FamilyCosts costs(shape);
    return change_pays(costs.settled("plain", 0), costs.bounded_first(false),
                       costs.bounded(computed, false), iterations);
  };
  EXPECT_FALSE(pays({31250, 64, 8}, 0.03, 50));
  EXPECT_TRUE(pays({1000000, 64, 8}, 0.03, 50));
  // Twelve coordinates take 4 ns, less than to see that a bound holds.
  EXPECT_FALSE(pays({31250, 12, 8}, 0, 1000));
  EXPECT_TRUE(pays({31250, 12, 64}, 0, 50)) << "nothing moves any more";
  // No bound has to be followed in a first iteration.
  for (const bool groups : {false, true}) {
    const FamilyCosts costs({100000, 128, 128});
    EXPECT_LT(costs.bounded_first(groups), costs.bounded(1, groups));
  }
}

TEST(OpenmpInt8, SaysHowManyPointsBytesLeftOpen) {
  Random random(5);
  const auto open = [&](double apart) {
    // So many centroids that bytes pay with any instructions.
    const Case data = make_case("clusters", 4096, 64, 64, [&](std::int64_t i, std::int64_t t) {
      return apart * static_cast<double>(t == i / 64) + random.bell();
    });
    auto instance = find_variant("openmp_int8")->factory.make_float(Precision::f32);
    instance->setup(problem_of(data, 2));
    instance->reset(data.centroids.data());
    instance->step(1);
    const auto& family = dynamic_cast<openmp::Family<float>&>(*instance);
    return family.open_share().value();
  };
  EXPECT_EQ(open(30), 0.0);
  EXPECT_GT(open(0), 0.05);
  EXPECT_LE(open(0), 1.0);
}

TEST(OpenmpBest, KnowsTheInstructionsThatBytesHaveForTheLengthOfItsRows) {
  using namespace openmp;  // NOLINT: what is tested
  // Tiles multiply twice as fast as registers; what follows the products does not become faster.
  const FamilyCosts wide({100000, 128, 1024});
  const auto bytes = [&](const char* by) { return wide.int8(by, wide.usual_open()); };
  EXPECT_LT(bytes("amx"), 0.7 * bytes("avx512vnni"));
  EXPECT_GT(bytes("amx"), 0.5 * bytes("avx512vnni"));
  EXPECT_EQ(wide.brute("amx"), bytes("amx"));
  EXPECT_EQ(wide.brute("plain"), wide.exact());
  // Rows of other lengths may have others: openmp_best says of its own what openmp_int8 says of them.
  Random random(22);
  for (const std::int64_t d : {32, 65, 300}) {
    const Case data =
        make_case("normal", 100, d, 4, [&](std::int64_t, std::int64_t) { return random.bell(); });
    const auto used = [&](const char* name) {
      auto instance = find_variant(name)->factory.make_float(Precision::f32);
      instance->setup(problem_of(data, 1));
      return instance->library_info().back();
    };
    EXPECT_EQ(used("openmp_best"), used("openmp_int8")) << d;
    const test::ScopedVariable forced("KMEANS_BENCH_INT8", "amx-emulated");
    EXPECT_EQ(used("openmp_best").second, "amx-emulated") << d;
  }
}

/// The iterations of `count` that are followed by a look, all of which cost the same.
std::vector<int> looked_at(openmp::Looks looks, double cost, int count) {
  std::vector<int> iterations;
  for (int iteration = 1; iteration <= count; ++iteration) {
    looks.passed(1);
    if (!looks.due(cost, 2 * cost)) continue;
    looks.looked(cost);
    iterations.push_back(iteration);
  }
  return iterations;
}

TEST(OpenmpBest, LooksTwiceInARowAndNeverForMoreThanItsShareOfTheTime) {
  using openmp::Looks;
  // A look that costs a hundredth: after every iteration.
  EXPECT_EQ(looked_at({100, 0}, 1, 5), (std::vector<int>{1, 2, 3, 4, 5}));
  // A tenth: what is saved is enough for two after ten iterations, and so on.
  EXPECT_EQ(looked_at({100, 0}, 10, 31), (std::vector<int>{10, 11, 20, 21, 30, 31}));
  // The groups that bounds begin with, worth two iterations, are saved for too.
  EXPECT_EQ(looked_at({100, 200}, 1, 110).front(), 101);
  // A whole run never spends more than it has saved, but for the second look of a pair.
  for (const double cost : {0.5, 3.0, 7.0, 40.0}) {
    const auto looks = static_cast<double>(looked_at({100, 50}, cost, 1000).size());
    EXPECT_LE(looks * cost + 50, 1000 * 100 * Looks::kShare + cost) << cost;
    EXPECT_GE(looks * cost, 50 * 100 * Looks::kShare) << cost;
  }
  // Of many iterations that are asked for at once a third is lent, and paid back: all in all the same.
  Looks lent(100, 0);
  lent.begin(40);
  EXPECT_EQ(looked_at(lent, 10, 45), (std::vector<int>{1, 2, 3, 18, 19, 33, 34, 45}));
  EXPECT_EQ(looked_at({100, 0}, 10, 45), (std::vector<int>{10, 11, 20, 21, 30, 31, 40, 41}));
  Looks looks(100, 0);
  EXPECT_EQ(looks.next(20), 10);  // as many iterations can be made in one call
  EXPECT_FALSE(looks.seen_twice());
  looks.passed(10);
  EXPECT_TRUE(looks.due(10, 20));
  looks.looked(10);
  EXPECT_FALSE(looks.seen_twice()) << "bounds were only brought to date";
  EXPECT_EQ(looks.next(20), 1);
  looks.passed(1);
  EXPECT_TRUE(looks.due(1000, 2000)) << "the second look of a pair is not put off";
  looks.looked(1000);
  EXPECT_TRUE(looks.seen_twice());
}

TEST(OpenmpBest, KnowsWhatBoundsComeToLeaveByTheirFirstIterations) {
  using openmp::coming_share;
  EXPECT_EQ(coming_share(0, 1), 0);
  EXPECT_EQ(coming_share(1, 1), 1);
  EXPECT_DOUBLE_EQ(coming_share(0.3, 12), 0.3) << "it is there already";
  EXPECT_LT(coming_share(0.6, 1), 1);
  // Gaps from 0 to 1 are equally frequent, and each iteration uses up a fiftieth in the mean.
  constexpr int kRuns = 40;
  constexpr std::size_t kGaps = 4000;
  Random random(29);
  std::array<double, 16> shares{};
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> gaps(kGaps);
    for (double& gap : gaps) gap = random.uniform();
    std::vector<double> left = gaps;
    for (double& share : shares) {
      const double movement = 0.04 * random.uniform();
      for (std::size_t i = 0; i < kGaps; ++i) {
        left[i] -= movement;
        if (left[i] >= 0) continue;
        left[i] = gaps[i];
        share += 1.0 / (kRuns * kGaps);
      }
    }
  }
  const double later = std::accumulate(shares.begin() + 8, shares.end(), 0.0) / 8;
  ASSERT_GT(later, 2 * shares[0]);
  for (const int moved : {1, 2, 3, 5, 8}) {
    EXPECT_NEAR(coming_share(shares[moved - 1], moved), later, 0.25 * later) << moved;
  }
}

TEST(OpenmpBest, SecondLookCountsOneMovementAndNotAllBeforeTheFirst) {
  constexpr std::int64_t kPoints = 32768;
  constexpr std::int64_t kClusters = 32;
  constexpr std::int64_t kSample = 256;  // one of 128
  Random random(30);
  const Case data =
      make_case("overlapping", kPoints, 16, kClusters, [&](std::int64_t i, std::int64_t t) {
        return 2 * static_cast<double>(t == i % 16) + random.bell();
      });
  auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
  instance->setup(problem_of(data, 2));
  instance->reset(data.centroids.data());
  // Of the sample, in iterations by brute force, each asked for alone.
  std::vector<std::int64_t> looks;
  for (int iteration = 0; iteration < 60 && looks.size() < 2; ++iteration) {
    instance->step(1);
    const std::int64_t distances = *instance->computed_distances() - kPoints * kClusters;
    if (distances > 0) looks.push_back(distances);
  }
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_GE(looks[0], kSample * kClusters) << "there are no bounds yet";
  EXPECT_LT(looks[1], kSample * kClusters / 2);
}

TEST(OpenmpBest, LooksSeldomWhereBoundsAreFarFromPaying) {
  constexpr std::int64_t kPoints = 32768;
  constexpr std::int64_t kClusters = 64;
  constexpr std::int64_t kIterations = 60;
  Random random(31);
  const Case data = make_case("normal", kPoints, 24, kClusters,
                              [&](std::int64_t, std::int64_t) { return random.bell(); });
  auto instance = find_variant("openmp_best")->factory.make_float(Precision::f32);
  instance->setup(problem_of(data, 2));
  instance->reset(data.centroids.data());
  instance->step(kIterations);
  const std::int64_t beyond = *instance->computed_distances() - kIterations * kPoints * kClusters;
  constexpr std::int64_t kSample = 256;  // one of 128
  const double looks = static_cast<double>(beyond) / (kSample * kClusters);
  EXPECT_GT(looks, 3);
  EXPECT_LT(looks, 14) << "what the time saved for looks would buy is twice as much";
}

/// Random problems at the edges of groups of centroids, of registers and of tiles of points.
void expect_passed_at_edges(const char* name) {
  std::vector<std::array<std::int64_t, 3>> shapes;
  for (const std::int64_t k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 23, 24, 31, 64}) {
    shapes.push_back({613, 3, k});
  }
  for (const std::int64_t d : {1, 2, 5, 7, 8, 9, 16, 17, 31, 64, 101})
    shapes.push_back({509, d, 37});
  for (const std::int64_t n : {2, 15, 16, 17, 47, 48, 49, 96, 97}) shapes.push_back({n, 4, n});
  const RegisteredVariant& variant = require_variant(name);
  for (const auto& [n, d, k] : shapes) {
    for (const BatteryCase& data : make_fresh_cases(n, d, k, 13)) {
      for (const Precision precision : {Precision::f32, Precision::f64}) {
        const auto result =
            run_battery_case(variant, data, precision, variant.traits.parallel ? 7 : 1);
        EXPECT_EQ(result.verdict, Verdict::passed) << name << ' ' << data.name << result.detail;
      }
    }
  }
}

TEST(OpenmpSimd, IsRightAtEveryEdge) { expect_passed_at_edges("openmp_simd"); }

TEST(CpuSimd, IsRightAtEveryInstructionSet) {
  for (const std::string level : {"sse2", "avx2", "avx512"}) {
    const test::ScopedVariable forced("KMEANS_BENCH_SIMD", level);
    auto instance = find_variant("cpu_simd")->factory.make_float(Precision::f32);
    const Case tiny = make_case(
        "tiny", 3, 2, 2, [](std::int64_t i, std::int64_t t) { return static_cast<double>(i + t); });
    try {
      instance->setup(problem_of(tiny, 1));
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(level), std::string::npos) << error.what();
      continue;  // this processor lacks it, and says so
    }
    const auto info = instance->library_info();
    ASSERT_EQ(info.size(), 1U);
    EXPECT_EQ(info[0].first, "simd");
    EXPECT_EQ(info[0].second, level);
    expect_passed_at_edges("cpu_simd");
  }
}

TEST(CpuSimd, RefusesAnUnknownInstructionSet) {
  const test::ScopedVariable forced("KMEANS_BENCH_SIMD", "avx1024");
  auto instance = find_variant("cpu_simd")->factory.make_float(Precision::f32);
  const Case tiny = make_case("tiny", 3, 2, 2,
                              [](std::int64_t i, std::int64_t) { return static_cast<double>(i); });
  EXPECT_THROW(instance->setup(problem_of(tiny, 1)), std::exception);
}

}  // namespace
}  // namespace kmeans
