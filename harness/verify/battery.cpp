// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/battery.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/support/random.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

/// Sum of twelve uniforms: near enough to a Gaussian for test data.
double bell(SplitMix64& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

template <class Value>
BatteryCase make_case(std::string name, std::int64_t n, std::int64_t d, std::int64_t k,
                      const Value& value) {
  BatteryCase test;
  test.name = std::move(name);
  test.n = n;
  test.d = d;
  test.k = k;
  test.points.resize(n * d);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t t = 0; t < d; ++t) test.points[i * d + t] = static_cast<float>(value(i, t));
  }
  // First centroids: points spread over the set.
  for (std::int64_t j = 0; j < k; ++j) {
    const std::int64_t row = j * n / k;
    test.centroids.insert(test.centroids.end(), test.points.begin() + row * d,
                          test.points.begin() + (row + 1) * d);
  }
  return test;
}

BatteryCase uniform_case(std::string name, std::int64_t n, std::int64_t d, std::int64_t k,
                         std::uint64_t seed, double scale = 1, double offset = 0) {
  SplitMix64 random(seed);
  return make_case(std::move(name), n, d, k, [&](std::int64_t, std::int64_t) {
    return offset + scale * (random.uniform() - 0.5);
  });
}

/// From the fourth on, or another one, first centroids so far away that no point is theirs.
BatteryCase with_far_centroids(BatteryCase data, std::int64_t first = 3) {
  for (std::int64_t j = first; j < data.k; ++j) {
    for (std::int64_t t = 0; t < data.d; ++t) {
      data.centroids[j * data.d + t] = 1000.0F + static_cast<float>(j * 10 + t);
    }
  }
  return data;
}

// Ties that only an update makes. Five points on a line: from centroids -2.5 and 1 the point 0 goes
// to the second. Their means are -2 and 2, so in the second iteration it is as far from both, and
// must go to the first: one that is only left where it is, because no bound says that it is nearer
// to another, ends in another answer. Copies of the line lie `kApart` from each other, in the plane
// or along it. In every other copy the clusters are exchanged, and the point must stay.
constexpr std::int64_t kApart = 16;

BatteryCase late_ties(std::string name, std::int64_t copies, std::int64_t d) {
  constexpr double kLine[5] = {0, 2, 4, -3, -1};
  constexpr double kStart[2] = {-2.5, 1};
  BatteryCase test;
  test.name = std::move(name);
  test.n = 5 * copies;
  test.d = d;
  test.k = 2 * copies;
  test.iterations = 2;
  const std::int64_t row = d == 1 ? copies : 8;
  // Along the first coordinate; in the others copies have places of their own.
  const auto push = [&](std::vector<float>& to, std::int64_t copy, double along) {
    to.push_back(static_cast<float>(static_cast<double>(copy % row * kApart) + along));
    for (std::int64_t t = 1; t < d; ++t) {
      to.push_back(static_cast<float>(t == 1 ? copy / row * kApart : copy % 3));
    }
  };
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    for (const double along : kLine) push(test.points, copy, along);
    const bool exchanged = copy % 2 == 1;
    push(test.centroids, copy, kStart[exchanged ? 1 : 0]);
    push(test.centroids, copy, kStart[exchanged ? 0 : 1]);
  }
  return test;
}

// The same with 2 d arms: in the second iteration the origin is as far from the centroids of all of
// them, having been nearest to the last one. Means of 1 and 3, and of 0, 2 and 4, are 2.
BatteryCase late_tie_of_many(std::string name, std::int64_t d) {
  BatteryCase test;
  test.name = std::move(name);
  test.n = 4 * d + 1;
  test.d = d;
  test.k = 2 * d;
  test.iterations = 2;
  const auto push = [&](std::vector<float>& to, std::int64_t arm, double along) {
    for (std::int64_t t = 0; t < d; ++t) {
      const double sign = arm % 2 == 0 ? 1 : -1;
      to.push_back(t == arm / 2 ? static_cast<float>(sign * along) : 0.0F);
    }
  };
  push(test.points, 0, 0);
  for (std::int64_t arm = 0; arm < 2 * d; ++arm) {
    const bool last = arm == 2 * d - 1;
    push(test.points, arm, last ? 2 : 1);
    push(test.points, arm, last ? 4 : 3);
    push(test.centroids, arm, last ? 1 : 2.25);
  }
  return test;
}

// A grid of integers, `side` places along each coordinate, and first centroids that differ in the
// first coordinate alone. Every cluster is then a stretch of whole slices of the grid in every
// iteration, so every mean is a whole number or a half, and where two of them are an even number of
// halves apart the slice between them is tied: again in each iteration, in favour of a lower or a
// higher index as it comes. No operation rounds.
BatteryCase grid_ties(std::string name, std::int64_t side, std::int64_t d, std::int64_t k,
                      std::int64_t iterations, std::uint64_t seed) {
  SplitMix64 random(seed);
  BatteryCase test;
  test.name = std::move(name);
  test.n = 1;
  for (std::int64_t t = 0; t < d; ++t) test.n *= side;
  test.d = d;
  test.k = k;
  test.iterations = iterations;
  for (std::int64_t i = 0; i < test.n; ++i) {
    std::int64_t rest = i;
    for (std::int64_t t = 0; t < d; ++t, rest /= side) {
      test.points.push_back(static_cast<float>(rest % side));
    }
  }
  for (std::int64_t j = 0; j < k; ++j) {
    test.centroids.push_back(static_cast<float>(random.below(2 * side - 1)) / 2);
    for (std::int64_t t = 1; t < d; ++t) {
      test.centroids.push_back(static_cast<float>(side - 1) / 2);
    }
  }
  return test;
}

// All first centroids at one end of the data, so that they wander for many iterations: bounds that
// a variant keeps from iteration to iteration and moves along by less than the centroids moved are
// wrong a little more after each.
BatteryCase slow_drift(std::string name, std::int64_t n, std::int64_t d, std::int64_t k,
                       std::int64_t iterations, std::uint64_t seed) {
  BatteryCase test = uniform_case(std::move(name), n, d, k, seed);
  test.iterations = iterations;
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t t = 0; t < d; ++t) {
      test.centroids[j * d + t] = -0.5F + 0.002F * static_cast<float>((j * 7 + t * 3) % (2 * k));
    }
  }
  return test;
}

std::string shape_text(std::int64_t n, std::int64_t d, std::int64_t k, std::uint64_t seed) {
  return ", " + std::to_string(n) + " x " + std::to_string(d) + ", k = " + std::to_string(k) +
         ", seed " + std::to_string(seed);
}

template <class T>
BatteryResult run_typed(const RegisteredVariant& variant, const BatteryCase& test,
                        Precision precision, int threads) {
  const std::vector<T> points(test.points.begin(), test.points.end());
  const std::vector<T> centroids(test.centroids.begin(), test.centroids.end());
  Problem<T> problem;
  problem.shape = {test.n, test.d, test.k, precision};
  problem.points = points.data();
  problem.max_abs = largest_abs(points.data(), test.n * test.d, 1);
  problem.threads = threads;
  BatteryResult result;
  if (const Support support = supports(variant, problem.shape); !support.ok) {
    result.verdict = Verdict::skipped;
    result.detail = support.reason;
    return result;
  }
  Session<T> session(variant, problem, centroids.data());
  const VerifyOptions everything{1e18, 1};
  std::string outcome;
  const auto always = [](const std::string&) { return true; };
  auto run = certified_run(session, test.iterations, everything, outcome, always);
  Certificate& certificate = run.certificate;

  const std::vector<T> input(test.points.begin(), test.points.end());
  certificate.add("points unchanged", input == points,
                  input == points ? "no point was written" : "the variant wrote into the points");

  std::string again;
  certified_run(session, test.iterations, everything, again,
                [](const std::string&) { return false; });
  if (variant.traits.deterministic) {
    certificate.add("same bits again", outcome == again,
                    outcome == again ? "a second run gave the same labels and centroids"
                                     : "a second run after reset gave other bits");
  }

  if constexpr (std::is_same_v<T, float>) {
    Problem<float> exact_problem = problem;
    exact_problem.shape.precision = Precision::f32;
    Session<float> exact(definition(), exact_problem, centroids.data());
    std::string exact_outcome;
    const auto exact_run = certified_run(exact, test.iterations, everything, exact_outcome,
                                         [](const std::string&) { return false; });
    if (variant.traits.exact) {
      certificate.add("equal to the reference", outcome == exact_outcome,
                      outcome == exact_outcome
                          ? "labels and centroids equal bit for bit, first and last iteration"
                          : "labels or centroids differ from the reference's bits");
    }
  }
  result.certificate = certificate;
  if (!certificate.passed) {
    result.verdict = Verdict::failed;
    result.detail = certificate.failure();
  }
  return result;
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::failed: return "failed";
    case Verdict::skipped: return "skipped";
    case Verdict::error: return "error";
  }
  return "?";
}

std::vector<BatteryCase> make_battery() {
  std::vector<BatteryCase> cases;
  cases.push_back(uniform_case("one point", 1, 1, 1, 1));
  cases.push_back(uniform_case("one point, many coordinates", 1, 257, 1, 2));
  cases.push_back(uniform_case("two clusters on a line", 1000, 1, 2, 3));
  cases.push_back(uniform_case("prime sizes", 1009, 7, 13, 4));
  cases.push_back(uniform_case("prime and wide", 127, 131, 11, 5));
  cases.push_back(uniform_case("k = n", 61, 5, 61, 6));
  cases.push_back(uniform_case("k = 1", 4099, 3, 1, 7));
  cases.push_back(uniform_case("small plane", 100, 2, 5, 8));
  cases.push_back(uniform_case("many clusters", 2053, 3, 509, 9));
  cases.push_back(uniform_case("wide and deep", 521, 200, 128, 10));
  cases.push_back(uniform_case("d = 4000", 37, 4000, 5, 11));
  cases.push_back(uniform_case("block edges", 4096, 16, 64, 12));
  cases.push_back(uniform_case("one past a block", 4097, 17, 65, 13));
  cases.push_back(uniform_case("one short of a block", 4095, 15, 63, 14));
  cases.push_back(uniform_case("large offset", 1500, 6, 9, 15, 1, 1e6));
  cases.push_back(uniform_case("denormals", 500, 4, 6, 16, 1e-40));
  cases.push_back(uniform_case("large values", 700, 5, 8, 17, 1e15));
  cases.push_back(uniform_case("tiny values", 700, 5, 8, 18, 1e-15));

  SplitMix64 random(19);
  cases.push_back(make_case("clustered", 3001, 8, 10, [&](std::int64_t i, std::int64_t t) {
    return static_cast<double>((i % 10) * (t + 3) % 7) * 10 + bell(random);
  }));
  cases.push_back(make_case("duplicate points", 2000, 4, 12, [](std::int64_t i, std::int64_t t) {
    return static_cast<double>((i % 5) * 3 + t) * 0.1;
  }));
  cases.push_back(make_case("all points identical", 777, 3, 4,
                            [](std::int64_t, std::int64_t t) { return 0.1 + 0.3 * t; }));
  cases.push_back(make_case("all zero", 300, 4, 3, [](std::int64_t, std::int64_t) { return 0.0; }));
  // Integers on a grid: no operation rounds in the first iteration, and ties abound.
  cases.push_back(make_case("exact ties", 1200, 2, 9, [](std::int64_t i, std::int64_t t) {
    return static_cast<double>(t == 0 ? (i / 2) % 9 : (i / 18) % 11);
  }));
  cases.push_back(make_case("ties in many coordinates", 600, 6, 16,
                            [&](std::int64_t, std::int64_t) { return double(random.below(2)); }));
  cases.push_back(make_case("one far outlier", 1000, 3, 4, [&](std::int64_t i, std::int64_t) {
    return i == 999 ? 1e7 : random.uniform();
  }));
  cases.push_back(make_case("imbalanced", 3000, 2, 6, [&](std::int64_t i, std::int64_t) {
    return i < 2980 ? bell(random) : 50 + bell(random);
  }));

  cases.push_back(with_far_centroids(uniform_case("empty clusters", 900, 3, 8, 20)));
  BatteryCase same = uniform_case("identical centroids", 1100, 4, 7, 21);
  for (std::int64_t j = 1; j < 4; ++j) {
    for (std::int64_t t = 0; t < 4; ++t) same.centroids[j * 4 + t] = same.centroids[t];
  }
  cases.push_back(std::move(same));
  BatteryCase signs = uniform_case("negative and positive zero", 400, 3, 5, 22);
  for (std::int64_t i = 0; i < 400; i += 3) signs.points[i * 3] = i % 2 == 0 ? 0.0F : -0.0F;
  cases.push_back(std::move(signs));

  // In the plane, for which some programs are written: the same edges once more.
  cases.push_back(uniform_case("plane, one point", 1, 2, 1, 23));
  cases.push_back(uniform_case("plane, k = n", 67, 2, 67, 24));
  cases.push_back(uniform_case("plane, one cluster", 2049, 2, 1, 25));
  cases.push_back(uniform_case("plane, many clusters", 1025, 2, 300, 26));
  cases.push_back(uniform_case("plane, large offset", 1500, 2, 9, 27, 1, 1e6));
  cases.push_back(uniform_case("plane, denormals", 500, 2, 6, 28, 1e-40));
  cases.push_back(uniform_case("plane, large values", 700, 2, 8, 29, 1e15));
  cases.push_back(make_case("plane, all points identical", 777, 2, 4,
                            [](std::int64_t, std::int64_t t) { return 0.1 + 0.3 * t; }));
  cases.push_back(
      make_case("plane, one far outlier", 1000, 2, 4,
                [&](std::int64_t i, std::int64_t) { return i == 999 ? 1e7 : random.uniform(); }));
  cases.push_back(with_far_centroids(uniform_case("plane, empty clusters", 900, 2, 8, 30)));

  // What goes wrong only after an update.
  cases.push_back(late_ties("late tie", 1, 1));
  cases.push_back(late_ties("late ties on a line", 20, 1));
  cases.push_back(late_ties("late ties, plane", 160, 2));
  cases.push_back(late_ties("late ties in many coordinates", 64, 5));
  cases.push_back(late_tie_of_many("late tie of four", 2));
  cases.push_back(late_tie_of_many("late tie of many", 9));
  cases.push_back(grid_ties("grid on a line, third iteration", 200, 1, 13, 3, 32));
  cases.push_back(grid_ties("grid on a line, tenth iteration", 200, 1, 23, 10, 31));
  cases.push_back(grid_ties("grid in the plane, fourth iteration", 61, 2, 11, 4, 34));
  cases.push_back(grid_ties("grid in space, sixth iteration", 15, 3, 5, 6, 31));
  cases.push_back(slow_drift("slow drift", 3000, 3, 2, 12, 35));
  cases.push_back(slow_drift("plane, slow drift", 3000, 2, 2, 12, 36));
  cases.push_back(slow_drift("slow drift of many clusters", 1500, 3, 12, 60, 37));
  return cases;
}

std::vector<BatteryCase> make_fresh_cases(std::int64_t n, std::int64_t d, std::int64_t k,
                                          std::uint64_t seed) {
  const std::string shape = shape_text(n, d, k, seed);
  std::vector<BatteryCase> cases;
  cases.push_back(uniform_case("uniform" + shape, n, d, k, seed));
  SplitMix64 random(seed + 1);
  // As wide as they lie apart. Cluster j has every k-th point.
  std::vector<double> centres(k * d);
  for (double& centre : centres) centre = 4 * random.uniform();
  cases.push_back(make_case("clusters" + shape, n, d, k, [&](std::int64_t i, std::int64_t t) {
    return centres[i % k * d + t] + random.uniform() + random.uniform() - 1;
  }));
  // What random points hold none of. Ties of whole numbers in the first iteration, of which nothing
  // rounds, and ties that an update makes, at a place of their own.
  BatteryCase ties = make_case("ties" + shape, n, d, k, [&](std::int64_t, std::int64_t) {
    return static_cast<double>(random.below(3));
  });
  ties.iterations = 1;
  cases.push_back(std::move(ties));
  BatteryCase late = late_ties("", std::max<std::int64_t>(1, k / 2), d);
  late.name = "late ties" + shape_text(late.n, d, late.k, seed);
  for (auto* values : {&late.points, &late.centroids}) {
    for (float& value : *values) value += static_cast<float>(seed % 61);
  }
  cases.push_back(std::move(late));
  // Fewer places than clusters: identical points, identical centroids, and most of these empty.
  const std::int64_t places = (k + 1) / 2;
  for (double& centre : centres) centre = random.uniform();
  cases.push_back(make_case("duplicates" + shape, n, d, k, [&](std::int64_t i, std::int64_t t) {
    return centres[i % places * d + t];
  }));
  cases.push_back(
      with_far_centroids(uniform_case("empty clusters" + shape, n, d, k, seed + 2), (k + 1) / 2));
  cases.push_back(uniform_case("large offset" + shape, n, d, k, seed + 3, 1, 1e6));
  return cases;
}

BatteryResult run_battery_case(const RegisteredVariant& variant, const BatteryCase& test,
                               Precision precision, int threads) {
  try {
    return precision == Precision::f64 ? run_typed<double>(variant, test, precision, threads)
                                       : run_typed<float>(variant, test, precision, threads);
  } catch (const std::exception& error) {
    BatteryResult result;
    result.verdict = Verdict::error;
    result.detail = error.what();
    return result;
  }
}

}  // namespace kmeans
