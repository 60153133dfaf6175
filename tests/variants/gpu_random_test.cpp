// SPDX-License-Identifier: Apache-2.0
//
// Exact variants of a GPU on many small awkward problems, each against openmp_exact, bit for bit.
// KMEANS_GPU_PROBLEMS=5000 for more, KMEANS_GPU_SEED=7 for others. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "harness/exact_step.h"
#include "harness/machine/gpu.h"
#include "harness/support/whole_weights.h"
#include "harness/variants/registry.h"
#include "harness/verify/battery.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

constexpr int kProblems = 500;
constexpr int kKinds = 11;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// In [0, end).
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(engine_);
  }
  double bell() { return std::normal_distribution<double>()(engine_); }

 private:
  std::mt19937_64 engine_;
};

struct Case {
  Shape shape;
  int kind = 0;
  int iterations = 1;
  std::vector<float> points;
  std::vector<float> centroids;
  std::vector<std::int64_t> weights{};  ///< n, or none.
  std::int64_t scale_n = 0;             ///< As of CountedPoints.
  bool spherical = false;
};

/// A coordinate of points of ten kinds; duplicates, kind 9, are made of rows of the first.
double coordinate(Random& random, int kind, std::int64_t i, std::int64_t t) {
  switch (kind) {
    case 0: return random.bell();
    case 1: return static_cast<double>(random.below(7)) - 3;  // ties
    case 2: return 1e6 + random.bell();
    case 3: return static_cast<double>(random.below(81) - 40) * 0x1p-149;  // denormals
    case 4: return static_cast<double>(random.below(9)) / 2;               // rounding of means
    case 5: return random.bell() * (i == 0 ? 1e4 : 1);                     // an outlier
    case 6:  // zeros of both signs next to a grid, and a constant column
      return t == 0 ? 1e6 : (random.below(2) == 0 ? -0.0 : static_cast<double>(random.below(3)));
    case 7: return 1e30 * random.bell();  // squares overflow in float32
    case 8: return 7.25;                  // one place
    case 10: return random.below(2) == 0 ? -1 : 1;
    default: return random.bell();
  }
}

/// Mostly small; now and then wide rows, so wide that no tile of them fits in shared memory, more centroids than a tile
/// holds or several, as many as points.
Shape make_shape(Random& random, int problem) {
  Shape shape;
  shape.n = 1 + random.below(problem % 10 == 0 ? 3000 : 300);
  shape.d = problem % 50 == 49 ? 600 : problem % 25 == 24 ? 130 : 1 + random.below(40);
  if (problem % 50 == 33) shape.d = 1040 + random.below(3060);
  const std::int64_t few = std::min<std::int64_t>(shape.n, 40);
  const std::int64_t ks[] = {1 + random.below(few), 1, std::min<std::int64_t>(shape.n, 400),
                             1 + random.below(few), 1 + random.below(shape.n)};
  shape.k = ks[problem % 5];
  if (problem % 10 == 6) {
    // Several tiles of centroids, or so many that cuda_tensor fetches points' old ones ahead.
    shape.n = 1200 + random.below(1800);
    shape.k = 129 + random.below(1071);
    if (problem % 20 == 16) {
      shape.d = 1 + random.below(12);
      shape.k = 2177 + random.below(800);
      shape.n = shape.k + random.below(300);
    }
    if (problem % 60 == 56) {  // the same in up to the most columns where cuda_hamerly does
      shape.d = 13 + random.below(128);
      shape.k = 1665 + random.below(300);
      shape.n = shape.k + random.below(300);
    }
  }
  if (problem % 7 == 3 && shape.d <= 40) {  // as cuda_resident takes them, a point a lane
    shape.n = 1 + random.below(256);
    shape.d = 1 + random.below(4);
    shape.k = 1 + random.below(std::min<std::int64_t>(shape.n, 32 / shape.d));
  }
  return shape;
}

Case make_case(Random& random, int problem) {
  Case data;
  data.shape = make_shape(random, problem);
  data.kind = problem % kKinds;
  data.iterations = 1 + static_cast<int>(random.below(5));
  const auto [n, d, k, precision] = data.shape;
  for (std::int64_t at = 0; at < n * d; ++at) {
    data.points.push_back(static_cast<float>(coordinate(random, data.kind, at / d, at % d)));
  }
  if (data.kind == 9) {
    for (std::int64_t i = 3; i < n; ++i) {
      const std::int64_t row = random.below(3);
      std::copy_n(data.points.begin() + row * d, d, data.points.begin() + i * d);
    }
  }
  const bool apart = random.below(4) == 0;  // half of the centroids: clusters that stay empty
  const std::int64_t first = random.below(n);
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t t = 0; t < d; ++t) {
      const float x = data.points[(first + j) % n * d + t];
      data.centroids.push_back(apart && j >= (k + 1) / 2 ? 3 * std::abs(x) + 1 : x);
    }
  }
  return data;
}

struct Answers {
  Outcome<float> first;  ///< After one iteration.
  Outcome<float> last;   ///< After some more, in one call.
};

Problem<float> problem_of(const Case& data) {
  Problem<float> problem;
  problem.shape = data.shape;
  problem.points = data.points.data();
  problem.max_abs = largest_abs(data.points.data(), data.shape.n * data.shape.d, 1);
  problem.threads = 2;
  problem.spherical = data.spherical;
  if (!data.weights.empty()) {
    problem.counted = {.weights = data.weights.data(),
                       .scale_n = data.scale_n,
                       .max_abs = largest_weighted_abs(data.points.data(), data.shape.n,
                                                       data.shape.d, data.weights.data())};
  }
  return problem;
}

Answers answers_of(const RegisteredVariant& variant, const Case& data) {
  Session<float> session(variant, problem_of(data), data.centroids.data());
  session.reset();
  session.step(1);
  Answers answers{session.fetch(), {}};
  session.step(data.iterations);
  answers.last = session.fetch();
  return answers;
}

/// Empty, or what the first difference is.
std::string difference(const Outcome<float>& found, const Outcome<float>& right,
                       const Shape& shape) {
  for (std::int64_t i = 0; i < shape.n; ++i) {
    if (found.labels[i] == right.labels[i]) continue;
    return "point " + std::to_string(i) + " has label " + std::to_string(found.labels[i]) +
           ", right is " + std::to_string(right.labels[i]);
  }
  if (found.centroid_hash() == right.centroid_hash()) return "";
  for (std::int64_t at = 0; at < shape.k * shape.d; ++at) {
    if (found.centroids[at] == right.centroids[at]) continue;
    return "coordinate " + std::to_string(at % shape.d) + " of centroid " +
           std::to_string(at / shape.d) + " is " + std::to_string(found.centroids[at]) +
           ", right is " + std::to_string(right.centroids[at]);
  }
  return "a zero has the wrong sign";
}

std::string text_of(const Case& data, int problem) {
  const auto [n, d, k, precision] = data.shape;
  return "problem " + std::to_string(problem) + " of kind " + std::to_string(data.kind) +
         ": n=" + std::to_string(n) + " d=" + std::to_string(d) + " k=" + std::to_string(k) +
         " iterations=1+" + std::to_string(data.iterations);
}

std::vector<const RegisteredVariant*> exact_variants_of_the_gpu() {
  std::vector<const RegisteredVariant*> found;
  for (const RegisteredVariant& variant : all_variants()) {
    if (variant.backend == "cuda" && variant.traits.exact) found.push_back(&variant);
  }
  return found;
}

TEST(GpuRandom, ExactVariantsEqualOpenmpExactOnAwkwardProblems) {
  if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem;
  const int problems = from_environment("KMEANS_GPU_PROBLEMS", kProblems);
  Random random(static_cast<unsigned>(from_environment("KMEANS_GPU_SEED", 17)));
  const RegisteredVariant& yardstick = require_variant("openmp_exact");
  const auto variants = exact_variants_of_the_gpu();
  std::map<std::string, int> taken;
  for (int problem = 0; problem < problems; ++problem) {
    const Case data = make_case(random, problem);
    const Answers right = answers_of(yardstick, data);
    for (const RegisteredVariant* variant : variants) {
      const std::string& name = variant->traits.name;
      if (!supports(*variant, data.shape).ok) continue;
      ++taken[name];
      const Answers found = answers_of(*variant, data);
      EXPECT_EQ(difference(found.first, right.first, data.shape), "")
          << name << " after one iteration, " << text_of(data, problem);
      EXPECT_EQ(difference(found.last, right.last, data.shape), "")
          << name << ", " << text_of(data, problem);
    }
    if (HasFailure()) return;  // one problem is enough to look at
  }
  // Those that this GPU runs have been there: being left out is not passing.
  for (const RegisteredVariant* variant : variants) {
    const std::string& name = variant->traits.name;
    std::cout << name << ": " << taken[name] << " of " << problems << " problems\n";
    if (supports(*variant, {100, 2, 5, Precision::f32}).ok) {
      EXPECT_GT(taken[name], problems / 10) << name;
    }
  }
}

/// Some rows many times over, or weights that are no rows; now and then none in the first part, all of a GPU's.
void weigh(Random& random, int problem, Case& data) {
  const std::int64_t n = data.shape.n;
  const std::int64_t most = problem % 3 == 0 ? 4 : (std::int64_t{1} << 53) / n;
  std::vector<double> weights(n);
  for (double& weight : weights) weight = static_cast<double>(random.below(most));
  if (problem % 5 == 2) std::fill_n(weights.begin(), n * 2 / 3, 0);
  weights[random.below(n)] = 1;
  const WholeWeights whole = whole_weights(weights.data(), n);
  data.weights = whole.of_points;
  data.scale_n = whole.scale_n;
}

void scale_to_length_one(Case& data) {
  const std::int64_t d = data.shape.d;
  for (auto* const rows : {&data.points, &data.centroids}) {
    for (auto row = rows->begin(); row != rows->end(); row += d) exact::unit_row(&*row, d, &*row);
  }
  data.spherical = true;
}

/// Weighted, of length one, or both.
Case make_counted_case(Random& random, int problem) {
  Case data = make_case(random, problem);
  if (problem % 2 == 1) scale_to_length_one(data);
  if (problem % 4 != 3) weigh(random, problem, data);
  return data;
}

TEST(GpuRandom, OtherSumsEqualThoseOfOpenmpExactOnAwkwardProblems) {
  if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem;
  const int problems = from_environment("KMEANS_GPU_PROBLEMS", kProblems);
  Random random(static_cast<unsigned>(from_environment("KMEANS_GPU_SEED", 23)));
  std::map<std::string, int> taken;
  for (int problem = 0; problem < problems && !HasFailure(); ++problem) {
    const Case data = make_counted_case(random, problem);
    const Answers right = answers_of(require_variant("openmp_exact"), data);
    for (const RegisteredVariant* variant : exact_variants_of_the_gpu()) {
      const Traits& traits = variant->traits;
      if (!traits.weights || !traits.spherical || !supports(*variant, data.shape).ok) continue;
      ++taken[variant->traits.name];
      const Answers found = answers_of(*variant, data);
      EXPECT_EQ(difference(found.first, right.first, data.shape), "")
          << "after one iteration, " << text_of(data, problem);
      EXPECT_EQ(difference(found.last, right.last, data.shape), "") << text_of(data, problem);
    }
  }
  EXPECT_GT(taken["cuda_best"], problems / 2);
}

/// Points shared among GPUs: how many, by which family (empty: as it chooses), and whether sums are
/// scattered among them however few there are.
struct Sharing {
  int gpus;
  std::string family;
  bool scattered;
};

std::string name_of(const testing::TestParamInfo<Sharing>& sharing) {
  const auto& [gpus, family, scattered] = sharing.param;
  return "On" + std::to_string(gpus) + (family.empty() ? "" : "_" + family) +
         (scattered ? "_scattered" : "");
}

// For the list of tests; the default would be the object's bytes.
void PrintTo(const Sharing& sharing, std::ostream* stream) {
  *stream << sharing.gpus << " GPUs " << sharing.family << (sharing.scattered ? " scattered" : "");
}

class GpuSharing : public testing::TestWithParam<Sharing> {
 protected:
  void SetUp() override {
    // Tests may run in one process: what is known of the GPUs then stays.
    const auto& [gpus, family, scattered] = GetParam();
    const RegisteredVariant* variant = find_variant("nccl_exact");
    if (variant == nullptr) GTEST_SKIP() << "this build contains no CUDA code";
    if (const Support here = availability(*variant); !here.ok) GTEST_SKIP() << here.reason;
    if (const std::string problem = problem_with_gpus(gpus); !problem.empty()) {
      GTEST_SKIP() << gpus << " GPUs: " << problem;
    }
    if (!family.empty()) setenv("KMEANS_BENCH_GPU_FAMILY", family.c_str(), 1);
    if (scattered) setenv("KMEANS_BENCH_SUMS_IN_ONE_CALL", "0", 1);
    use_gpus(gpus);
    shared_ = variant;
  }
  void TearDown() override {
    use_gpus(1);
    unsetenv("KMEANS_BENCH_GPU_FAMILY");
    unsetenv("KMEANS_BENCH_SUMS_IN_ONE_CALL");
  }
  /// The family may not take every shape.
  [[nodiscard]] bool takes(const Shape& shape) const {
    const std::string& family = GetParam().family;
    return family.empty() || supports(require_variant(family), shape).ok;
  }
  void expect_right_answers(Case (*make)(Random&, int), int seed) const {
    const int problems = std::min(100, from_environment("KMEANS_GPU_PROBLEMS", 100));
    Random random(static_cast<unsigned>(from_environment("KMEANS_GPU_SEED", seed)));
    int taken = 0;
    for (int problem = 0; problem < problems && !HasFailure(); ++problem) {
      const Case data = make(random, problem);
      if (!takes(data.shape)) continue;
      ++taken;
      const Answers right = answers_of(require_variant("openmp_exact"), data);
      const Answers found = answers_of(*shared_, data);
      EXPECT_EQ(difference(found.first, right.first, data.shape), "")
          << "after one iteration, " << text_of(data, problem);
      EXPECT_EQ(difference(found.last, right.last, data.shape), "") << text_of(data, problem);
    }
    EXPECT_GT(taken, problems / 2);
  }
  const RegisteredVariant* shared_ = nullptr;
};

TEST_P(GpuSharing, EqualsOpenmpExactOnAwkwardProblems) { expect_right_answers(make_case, 20); }

TEST_P(GpuSharing, OtherSumsEqualThoseOfOpenmpExactOnAwkwardProblems) {
  expect_right_answers(make_counted_case, 24);
}

TEST_P(GpuSharing, PassesTheBattery) {
  for (const BatteryCase& test : make_battery()) {
    if (!takes({test.n, test.d, test.k, Precision::f32})) continue;
    const BatteryResult result = run_battery_case(*shared_, test, Precision::f32, 2);
    EXPECT_EQ(std::string(to_string(result.verdict)), "passed")
        << test.name << ": " << result.detail;
  }
}

TEST_P(GpuSharing, SaysHowManyLabelsChanged) {
  Random random(21);
  for (int problem = 0; problem < 40 && !HasFailure(); ++problem) {
    const Case data = (problem < 20 ? make_case : make_counted_case)(random, problem);
    if (!takes(data.shape)) continue;
    Session<float> session(*shared_, problem_of(data), data.centroids.data());
    session.reset();
    std::vector<std::int32_t> before(data.shape.n, -1);
    for (int step = 0; step < 4; ++step) {
      session.step(1);
      const auto labels = session.fetch().labels;
      std::int64_t count = 0;
      for (std::size_t i = 0; i < labels.size(); ++i) {
        const bool counts = data.weights.empty() || data.weights[i] > 0;
        count += counts && labels[i] != before[i] ? 1 : 0;
      }
      EXPECT_EQ(session.variant().progress().changed, count) << text_of(data, problem);
      before = labels;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, GpuSharing,
    testing::Values(Sharing{1, "", false}, Sharing{1, "cuda_exact", false},
                    Sharing{1, "cuda_tensor", false}, Sharing{1, "cuda_int8", false},
                    Sharing{1, "cuda_onepass", false}, Sharing{2, "", false}, Sharing{2, "", true},
                    Sharing{2, "cuda_exact", false}, Sharing{2, "cuda_exact", true},
                    Sharing{3, "", true}, Sharing{4, "", false}, Sharing{4, "", true},
                    Sharing{4, "cuda_exact", true}, Sharing{2, "cuda_tensor", false},
                    Sharing{2, "cuda_int8", false}, Sharing{2, "cuda_int8", true},
                    Sharing{2, "cuda_onepass", false}, Sharing{2, "cuda_onepass", true},
                    Sharing{4, "cuda_int8", false}, Sharing{4, "cuda_onepass", true}),
    name_of);

/// The generator itself, without a GPU: what the problems are said to hold is there.
TEST(AwkwardProblems, HoldWhatTheyAreMadeFor) {
  Random random(17);
  std::map<std::string, int> seen;
  int wide_and_many = 0;
  for (int problem = 0; problem < kProblems; ++problem) {
    const Case data = make_case(random, problem);
    const auto [n, d, k, precision] = data.shape;
    ASSERT_LE(k, n);
    seen["k = 1"] += k == 1 ? 1 : 0;
    seen["k = n"] += k == n ? 1 : 0;
    seen["d = 130"] += d == 130 ? 1 : 0;
    seen["d = 600"] += d == 600 ? 1 : 0;
    seen["d > 1036"] += d > 1036 ? 1 : 0;
    seen["signs"] += data.kind == 10 && std::abs(data.points.back()) == 1 ? 1 : 0;
    seen["d <= 8"] += d <= 8 ? 1 : 0;
    seen["few"] += n <= 256 && d <= 4 && k * d <= 32 ? 1 : 0;
    seen["more than a tile of centroids"] += k > 128 ? 1 : 0;
    seen["more than 17 tiles of centroids"] += k > 2176 ? 1 : 0;
    const float largest = largest_abs(data.points.data(), n * d, 1);
    wide_and_many += k > 1664 && d > 12 && d <= 140 ? 1 : 0;
    seen["denormals"] += largest > 0 && largest < 1e-38F ? 1 : 0;
    seen["offsets"] += data.kind == 2 && largest >= 9e5F ? 1 : 0;
    const Answers right = answers_of(require_variant("reference"), data);
    std::vector<std::int64_t> counts(k);
    for (const std::int32_t label : right.last.labels) ++counts[label];
    seen["empty clusters"] += std::count(counts.begin(), counts.end(), 0) > 0 ? 1 : 0;
    if (problem % 10 == 3) {
      EXPECT_EQ(difference(answers_of(require_variant("openmp_exact"), data).last, right.last,
                           data.shape),
                "")
          << text_of(data, problem);
    }
  }
  for (const auto& [what, times] : seen) EXPECT_GE(times, 10) << what;
  EXPECT_GE(wide_and_many, 8);  // problems that take the CPU seconds
}

}  // namespace
}  // namespace kmeans
