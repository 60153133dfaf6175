// SPDX-License-Identifier: Apache-2.0
#include "harness/battery.h"

#include <cmath>
#include <stdexcept>

#include "harness/session.h"

namespace kmeans {
namespace {

// Small counter-based randomness; quality does not matter here, sameness everywhere does.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double bell() {  // sum of twelve uniforms: near enough to a Gaussian for test data
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint64_t state_;
};

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
  Random random(seed);
  return make_case(std::move(name), n, d, k, [&](std::int64_t, std::int64_t) {
    return offset + scale * (random.uniform() - 0.5);
  });
}

/// From the fourth on, first centroids so far away that no point is theirs.
BatteryCase with_far_centroids(BatteryCase data) {
  for (std::int64_t j = 3; j < data.k; ++j) {
    for (std::int64_t t = 0; t < data.d; ++t) {
      data.centroids[j * data.d + t] = 1000.0F + static_cast<float>(j * 10 + t);
    }
  }
  return data;
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
    const RegisteredVariant& reference = require_variant("reference");
    Problem<float> exact_problem = problem;
    exact_problem.shape.precision = Precision::f32;
    Session<float> exact(reference, exact_problem, centroids.data());
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

  Random random(19);
  cases.push_back(make_case("clustered", 3001, 8, 10, [&](std::int64_t i, std::int64_t t) {
    return static_cast<double>((i % 10) * (t + 3) % 7) * 10 + random.bell();
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
    return i < 2980 ? random.bell() : 50 + random.bell();
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
