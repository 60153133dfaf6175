// SPDX-License-Identifier: Apache-2.0
//
// The plain CPU, Eigen and BLAS variants where only one answer is right, that of `reference`, and what they
// say about themselves. Where rounding allows for others, conformance_test.cpp is the judge, and next to it
// the oracle of tests/python/test_oracle.py, which shares nothing with it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/variants/registry.h"
#include "harness/verify/session.h"
#include "implementations/cpu/_hybrid_update.h"

namespace kmeans {
namespace {

// Those that take any d; cpu_naive_2d has tests of its own.
constexpr const char* kNames[] = {
    "cpu_naive",           "cpu_fused",       "cpu_scalar", "cpu_simd_rows",
    "cpu_distance_matrix", "eigen_broadcast", "eigen_gemm", "blas_gemm"};

template <class T>
constexpr Precision kPrecision = std::is_same_v<T, double> ? Precision::f64 : Precision::f32;

template <class T>
struct Input {
  Shape shape;
  std::vector<T> points;     // n x d
  std::vector<T> centroids;  // k x d
};

template <class T>
struct Answer {
  std::vector<T> centroids;          // k x d
  std::vector<std::int32_t> labels;  // n
  bool operator==(const Answer&) const = default;
};

template <class T>
Input<T> make_input(std::int64_t n, std::int64_t d, std::int64_t k) {
  return {{n, d, k, kPrecision<T>}, std::vector<T>(n * d), std::vector<T>(k * d)};
}

/// The first k points become the centroids.
template <class T>
void seed_with_first_points(Input<T>& input) {
  std::copy_n(input.points.begin(), input.centroids.size(), input.centroids.begin());
}

template <class T>
Input<T> random_input(std::int64_t n, std::int64_t d, std::int64_t k, unsigned seed) {
  auto input = make_input<T>(n, d, k);
  std::mt19937 random(seed);
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (auto& x : input.points) x = uniform(random);
  seed_with_first_points(input);
  return input;
}

/// Points on a small integer grid around the origin: distances, products and sums are integers or
/// halves that every precision holds exactly, so ties are true ties and no rounding is involved.
template <class T>
Input<T> grid_input(std::int64_t n, std::int64_t d, std::int64_t k, unsigned seed) {
  auto input = make_input<T>(n, d, k);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> digit(-3, 3);
  for (auto& x : input.points) x = static_cast<T>(digit(random));
  seed_with_first_points(input);
  return input;
}

template <class T>
std::unique_ptr<Variant<T>> make(const std::string& name) {
  const auto* variant = find_variant(name);
  if (variant == nullptr) return nullptr;
  if constexpr (std::is_same_v<T, double>) {
    return variant->factory.make_double ? variant->factory.make_double(kPrecision<T>) : nullptr;
  } else {
    return variant->factory.make_float(kPrecision<T>);
  }
}

template <class T>
Problem<T> problem_of(const Input<T>& input, int threads = 2) {
  T max_abs = 0;
  for (const T x : input.points) max_abs = std::max(max_abs, std::abs(x));
  return {input.shape, input.points.data(), max_abs, threads, ""};
}

/// Fetches into poisoned memory, so that whatever is not written shows.
template <class T>
Answer<T> fetch(Variant<T>& variant, const Shape& shape) {
  Answer<T> answer{std::vector<T>(shape.k * shape.d, std::numeric_limits<T>::quiet_NaN()),
                   std::vector<std::int32_t>(shape.n, -77)};
  variant.fetch(answer.centroids.data(), answer.labels.data());
  return answer;
}

template <class T>
Answer<T> run(const std::string& name, const Input<T>& input, std::int64_t iterations,
              int threads = 2) {
  auto variant = make<T>(name);
  if (variant == nullptr) throw std::runtime_error("no variant " + name);
  variant->setup(problem_of(input, threads));
  variant->reset(input.centroids.data());
  variant->step(iterations);
  return fetch(*variant, input.shape);
}

template <class T>
long double squared_distance(const T* x, const T* c, std::int64_t d) {
  long double sum = 0;
  for (std::int64_t t = 0; t < d; ++t) {
    const long double difference = static_cast<long double>(x[t]) - static_cast<long double>(c[t]);
    sum += difference * difference;
  }
  return sum;
}

template <class T>
class PlainVariants : public testing::Test {};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(PlainVariants, Scalars, );

TYPED_TEST(PlainVariants, AreRegisteredForBothPrecisions) {
  for (const std::string name : kNames) {
    const auto* variant = find_variant(name);
    ASSERT_NE(variant, nullptr) << name;
    EXPECT_TRUE(takes(variant->traits, kPrecision<TypeParam>)) << name;
    EXPECT_EQ(variant->traits.precisions.front(), Precision::f32) << name;
    EXPECT_FALSE(variant->traits.exact) << name;
    EXPECT_EQ(variant->traits.parallel, name == "blas_gemm") << name;
  }
}

// Where sums are exact integers, labels must be the reference's, ties included, and so must centroids:
// the quotient of a float64 variant rounds to it, as does that of two floats.
TYPED_TEST(PlainVariants, EqualTheReferenceWhereNothingIsRounded) {
  const Shape shapes[] = {
      {1, 1, 1},       {1, 7, 1},     {2, 1, 2},     {17, 1, 5},    {101, 2, 5},
      {257, 3, 1},     {1009, 13, 7}, {521, 31, 29}, {130, 64, 16}, {1031, 3, 300},
      {4099, 17, 260}, {600, 5, 523}, {8209, 2, 3},  {541, 3, 541},
  };
  for (const auto& [n, d, k, precision] : shapes) {
    const auto right = run("reference", grid_input<float>(n, d, k, 3), 1);
    for (const std::string name : kNames) {
      SCOPED_TRACE(name + " n " + std::to_string(n) + " d " + std::to_string(d) + " k " +
                   std::to_string(k));
      const auto answer = run(name, grid_input<TypeParam>(n, d, k, 3), 1);
      EXPECT_EQ(answer.labels, right.labels);
      EXPECT_EQ(std::vector<float>(answer.centroids.begin(), answer.centroids.end()),
                right.centroids);
    }
  }
}

TYPED_TEST(PlainVariants, StepsAddUpAndFetchDisturbsNothing) {
  const auto input = random_input<TypeParam>(1201, 7, 10, 7);
  for (const std::string name : kNames) {
    auto variant = make<TypeParam>(name);
    variant->setup(problem_of(input));
    variant->reset(input.centroids.data());
    Answer<TypeParam> answer;
    for (int iteration = 0; iteration < 3; ++iteration) {
      variant->step(1);
      answer = fetch(*variant, input.shape);
      EXPECT_EQ(answer, fetch(*variant, input.shape)) << name;
    }
    EXPECT_EQ(answer, run(name, input, 3)) << name;
  }
}

TYPED_TEST(PlainVariants, BlasGemmSaysHowManyThreadsItUses) {
  const auto input = random_input<TypeParam>(5003, 13, 31, 9);  // work for all of them
  for (const int threads : {1, 2, 3, 7}) {
    auto variant = make<TypeParam>("blas_gemm");
    variant->setup(problem_of(input, threads));
    const std::pair<std::string, std::string> expected{"threads", std::to_string(threads)};
    const auto told = variant->library_info();
    EXPECT_EQ(std::count(told.begin(), told.end(), expected), 1) << threads;
  }
}

TYPED_TEST(PlainVariants, ProgressIsThatOfTheLastIteration) {
  const auto input = random_input<TypeParam>(900, 4, 6, 10);
  for (const std::string name : kNames) {
    auto variant = make<TypeParam>(name);
    variant->setup(problem_of(input));
    variant->reset(input.centroids.data());
    variant->step(2);
    const auto before = fetch(*variant, input.shape);
    variant->step(1);
    const auto after = fetch(*variant, input.shape);
    double movement = 0;
    for (std::size_t at = 0; at < after.centroids.size(); ++at) {
      movement += std::pow(double(after.centroids[at]) - double(before.centroids[at]), 2);
    }
    std::int64_t changed = 0;
    double loss = 0;
    for (std::int64_t i = 0; i < input.shape.n; ++i) {
      changed += before.labels[i] != after.labels[i] ? 1 : 0;
      const auto* centroid = before.centroids.data() + after.labels[i] * input.shape.d;
      loss += static_cast<double>(
          std::sqrt(squared_distance(input.points.data() + i * input.shape.d, centroid, 4)));
    }
    const auto progress = variant->progress();
    if (progress.movement) {
      EXPECT_NEAR(*progress.movement, movement, 1e-12 * movement) << name;
    }
    if (progress.changed) {
      EXPECT_EQ(*progress.changed, changed) << name;
    }
    // A float distance is off by a few units of roundoff.
    if (progress.loss) {
      EXPECT_NEAR(*progress.loss, loss, 1e-6 * loss) << name;
    }
    EXPECT_GT(changed, 0);
  }
}

TYPED_TEST(PlainVariants, EachOffersTheStopRuleOfItsSource) {
  const auto input = random_input<TypeParam>(50, 2, 3, 11);
  const auto progress_of = [&input](const char* name) {
    auto variant = make<TypeParam>(name);
    variant->setup(problem_of(input));
    variant->reset(input.centroids.data());
    variant->step(1);
    return variant->progress();
  };
  EXPECT_TRUE(progress_of("cpu_fused").movement.has_value());
  EXPECT_EQ(progress_of("cpu_scalar").changed, 50);  // no labels before the first iteration
  EXPECT_EQ(progress_of("cpu_simd_rows").changed, 50);
  EXPECT_TRUE(progress_of("cpu_distance_matrix").loss.has_value());
}

TYPED_TEST(PlainVariants, MovementFallsToZeroBesideAnEmptyCluster) {
  auto input = grid_input<TypeParam>(200, 2, 3, 12);
  input.centroids[4] = TypeParam{10000};
  for (const char* name : {"cpu_fused", "cpu_scalar", "eigen_gemm", "blas_gemm"}) {
    auto variant = make<TypeParam>(name);
    variant->setup(problem_of(input));
    variant->reset(input.centroids.data());
    variant->step(100);
    EXPECT_EQ(variant->progress().movement, 0.0) << name;
  }
}

TYPED_TEST(PlainVariants, DeclareMemoryAndTraffic) {
  const Shape shape{1000000, 100, 64, kPrecision<TypeParam>};
  const double scalar = sizeof(TypeParam);
  const double points = scalar * 1e6 * 100;
  for (const std::string name : kNames) {
    const RegisteredVariant& variant = require_variant(name);
    const Traits& traits = variant.traits;
    ASSERT_TRUE(traits.memory_bytes && traits.traffic) << name;
    EXPECT_TRUE(supports(variant, shape).ok) << name;
    EXPECT_GE(traits.memory_bytes(shape, 1), 4e6) << name;  // the labels at least
    // Nobody gets by with less than reading the points once and writing the labels.
    EXPECT_GE(traits.traffic(shape).read_bytes, points) << name;
    EXPECT_GE(traits.traffic(shape).written_bytes, 4e6) << name;
    EXPECT_EQ(traits.traffic(shape).atomic_bytes, 0) << name;
    const auto too_many =
        supports(variant, {std::int64_t{1} << 33, 2, std::int64_t{1} << 32, kPrecision<TypeParam>});
    EXPECT_FALSE(too_many.ok) << name;
    EXPECT_NE(too_many.reason.find("4294967296"), std::string::npos) << name << too_many.reason;
  }
  // The full matrix, and the replicas of it, are declared; the blocked products are not n x k.
  const double matrix = scalar * 1e6 * 64;
  EXPECT_GE(find_variant("cpu_distance_matrix")->traits.memory_bytes(shape, 1), matrix);
  EXPECT_GE(find_variant("eigen_broadcast")->traits.memory_bytes(shape, 1), 101 * matrix);
  EXPECT_LT(find_variant("eigen_gemm")->traits.memory_bytes(shape, 1), matrix / 4);
  EXPECT_LT(find_variant("blas_gemm")->traits.memory_bytes(shape, 1), matrix);
}

// 2^24 points and more in some cluster: a float32 sum of ones stands still there, a float64 one
// not.
TYPED_TEST(PlainVariants, RefuseClustersThatAFloatSumCannotHold) {
  constexpr std::int64_t kMax = std::int64_t{1} << 24;
  for (const std::string name : {"cpu_naive", "cpu_scalar", "cpu_fused", "cpu_simd",
                                 "cpu_simd_rows", "cpu_distance_matrix", "eigen_broadcast"}) {
    const RegisteredVariant& variant = require_variant(name);
    EXPECT_TRUE(supports(variant, {5 * kMax - 1, 1, 5, kPrecision<TypeParam>}).ok) << name;
    const auto many = supports(variant, {5 * kMax, 1, 5, kPrecision<TypeParam>});
    EXPECT_EQ(many.ok, sizeof(TypeParam) == 8) << name;
    EXPECT_TRUE(many.ok || many.reason.find("float32 sum") != std::string::npos) << many.reason;
  }
  for (const std::string name : {"eigen_gemm", "blas_gemm"}) {  // these sum in float64
    const RegisteredVariant& variant = require_variant(name);
    EXPECT_TRUE(supports(variant, {5 * kMax, 1, 5, kPrecision<TypeParam>}).ok) << name;
  }
}

TYPED_TEST(PlainVariants, CpuNaive2dHasTheBitsOfCpuNaive) {
  for (const auto& [n, k] : {std::pair{1, 1}, {2, 2}, {101, 5}, {67, 67}, {2049, 1}, {4099, 260}}) {
    for (const bool on_grid : {false, true}) {  // with true ties, and without
      SCOPED_TRACE("n " + std::to_string(n) + " k " + std::to_string(k));
      auto input =
          on_grid ? grid_input<TypeParam>(n, 2, k, 14) : random_input<TypeParam>(n, 2, k, 15);
      if (k > 3) input.centroids[7] = TypeParam{1000};  // cluster 3 stays empty
      for (const std::int64_t iterations : {1, 4}) {
        const auto answer = run("cpu_naive_2d", input, iterations);
        EXPECT_EQ(answer, run("cpu_naive", input, iterations)) << iterations;
      }
    }
  }
}

TYPED_TEST(PlainVariants, CpuNaive2dTakesPlanarPointsAlone) {
  const auto& traits = find_variant("cpu_naive_2d")->traits;
  EXPECT_TRUE(traits.supports({1000, 2, 5, kPrecision<TypeParam>}).ok);
  for (const std::int64_t d : {1, 3, 4, 200}) {
    const auto support = traits.supports({1000, d, 5, kPrecision<TypeParam>});
    EXPECT_FALSE(support.ok);
    EXPECT_EQ(support.reason,
              "d = " + std::to_string(d) + ": its points are pairs of coordinates x and y, d = 2");
  }
  const auto many = traits.supports({std::int64_t{1} << 25, 2, 1, kPrecision<TypeParam>});
  EXPECT_EQ(many.ok, sizeof(TypeParam) == 8);  // a float32 sum cannot hold them
  EXPECT_LT(
      traits.traffic({1000, 2, 5, kPrecision<TypeParam>}).read_bytes,
      find_variant("cpu_naive")->traits.traffic({1000, 2, 5, kPrecision<TypeParam>}).read_bytes)
      << "a point is read once for all centroids";
}

// A register holds 4 floats or 2 doubles, and a distance takes 4 registers at a time: d with and
// without a rest next to registers, and with and without a full set of them.
TYPED_TEST(PlainVariants, CpuSimdRowsIsRightForEveryRestOfD) {
  for (const std::int64_t d : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 200, 203}) {
    SCOPED_TRACE(d);
    if (d < 4) {  // labelled as by cpu_scalar
      const auto input = random_input<TypeParam>(307, d, 11, 16);
      EXPECT_EQ(run("cpu_simd_rows", input, 4), run("cpu_scalar", input, 4));
    }
    // Small integers are summed exactly in any order.
    const auto grid = grid_input<TypeParam>(307, d, 11, 17);
    EXPECT_EQ(run("cpu_simd_rows", grid, 1), run("cpu_scalar", grid, 1));
  }
}

// The means of the hybrids, whose update is built in three ways: they have the same bits, those of a
// plain loop over the points.
TYPED_TEST(PlainVariants, HybridUpdatesHaveTheBitsOfPlainSums) {
  constexpr std::int64_t kPoints = 307, kClusters = 11, kEmpty = 4, kChanged = 100;
  for (const std::int64_t d : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 200, 203}) {
    SCOPED_TRACE(d);
    const auto input = random_input<TypeParam>(kPoints, d, kClusters, 19);
    std::vector<std::int32_t> labels(kPoints), before(kPoints);
    std::vector<TypeParam> sums(kClusters * d);
    std::vector<std::int64_t> counts(kClusters);
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const std::int64_t j = i * i % (kClusters - 1);  // some clusters have many points
      labels[i] = static_cast<std::int32_t>(j < kEmpty ? j : j + 1);
      before[i] = labels[i] + (i < kChanged ? 1 : 0);
      counts[labels[i]] += 1;
      for (std::int64_t t = 0; t < d; ++t) sums[labels[i] * d + t] += input.points[i * d + t];
    }
    auto means = input.centroids;  // an empty cluster keeps its centroid
    for (std::int64_t at = 0; at < kClusters * d; ++at) {
      if (counts[at / d] > 0) means[at] = sums[at] / static_cast<TypeParam>(counts[at / d]);
    }
    EXPECT_EQ(counts[kEmpty], 0);
    for (const auto make : {plain::scalar_update<TypeParam>, plain::rows_update<TypeParam>,
                            plain::native_update<TypeParam>}) {
      const auto update = make(input.shape);
      for (int again = 0; again < 2; ++again) {  // sums of an earlier iteration are gone
        auto centroids = input.centroids;
        const std::int64_t changed =
            update->update(problem_of(input), labels.data(), before.data(), centroids.data());
        EXPECT_EQ(changed, kChanged);
        EXPECT_EQ(centroids, means);
      }
    }
  }
}

TYPED_TEST(PlainVariants, OpenmpMasterWorkerHasTheBitsOfCpuScalar) {
  if (find_variant("openmp_master_worker") == nullptr) GTEST_SKIP() << "built without OpenMP";
  for (const std::int64_t d : {1, 2, 20, 201}) {
    const auto input = random_input<TypeParam>(1009, d, 7, 18);
    const auto right = run("cpu_scalar", input, 5);
    for (const int threads : {1, 3}) {
      EXPECT_EQ(run("openmp_master_worker", input, 5, threads), right) << d << ", " << threads;
    }
  }
}

// zechner2009, equations 2 and 3, and the traffic of an iteration as that of its stages.
TYPED_TEST(PlainVariants, DeclareTheWorkOfTheirStages) {
  const Shape shape{1000, 20, 8, kPrecision<TypeParam>};
  for (const std::string name :
       {"cpu_scalar", "cpu_simd", "cpu_simd_rows", "openmp_master_worker", "cuda_hybrid",
        "cuda_hybrid_rows", "cuda_hybrid_row_major", "cuda_hybrid_scalar"}) {
    const auto* variant = find_variant(name);
    if (variant == nullptr) continue;  // built without OpenMP or CUDA
    const bool hybrid = name.starts_with("cuda_hybrid");
    const Traits& traits = variant->traits;
    ASSERT_TRUE(traits.stage_work) << name;
    const auto stages = traits.stage_work(shape);
    ASSERT_EQ(stages.size(), 2U) << name;
    EXPECT_EQ(stages[0].stage, "assign") << name;
    EXPECT_EQ(stages[0].operations, 1000 * 8 * (3 * 20 + 2)) << name;
    EXPECT_EQ(stages[0].gpu, hybrid) << name;
    EXPECT_EQ(stages[1].stage, "update") << name;
    EXPECT_EQ(stages[1].operations, 20 * (1000 + 8)) << name;
    EXPECT_FALSE(stages[1].gpu) << name;
    // Centroids up and labels down belong to no stage: the hybrids' transfers.
    const double transferred = hybrid ? sizeof(TypeParam) * 8.0 * 20 + 4.0 * 1000 : 0;
    const Traffic traffic = traits.traffic(shape);
    EXPECT_EQ(traffic.read_bytes,
              stages[0].traffic.read_bytes + stages[1].traffic.read_bytes + transferred)
        << name;
    EXPECT_EQ(traffic.written_bytes,
              stages[0].traffic.written_bytes + stages[1].traffic.written_bytes + transferred)
        << name;
  }
  // Every point next to every centroid, old labels; points, the sums they are added to, labels.
  const double points = sizeof(TypeParam) * 1000.0 * 20;
  const auto stages = find_variant("cpu_scalar")->traits.stage_work(shape);
  EXPECT_EQ(stages[0].traffic.read_bytes, 2 * points * 8 + 4000);
  EXPECT_EQ(stages[0].traffic.written_bytes, 4000);
  EXPECT_EQ(stages[1].traffic.read_bytes, 2 * points + 4000);
  EXPECT_EQ(stages[1].traffic.written_bytes, points);
}

class StageList final : public StageRecorder {
 public:
  void begin(const char* stage) override { stages.emplace_back(stage); }
  void end() override { ++ended; }
  std::vector<std::string> stages;
  int ended = 0;
};

TYPED_TEST(PlainVariants, MarkAssignAndUpdateOncePerIteration) {
  const auto spatial = random_input<TypeParam>(60, 3, 4, 13);
  const auto planar = random_input<TypeParam>(60, 2, 4, 13);
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  names.emplace_back("cpu_naive_2d");
  for (const std::string& name : names) {
    const auto& input = name == "cpu_naive_2d" ? planar : spatial;
    StageList recorder;
    auto variant = make<TypeParam>(name);
    variant->setup(problem_of(input));
    variant->set_stage_recorder(&recorder);
    variant->reset(input.centroids.data());
    variant->step(2);
    const std::vector<std::string> expected{"assign", "update", "assign", "update"};
    EXPECT_EQ(recorder.stages, expected) << name;
    EXPECT_EQ(recorder.ended, 4) << name;
  }
}

}  // namespace
}  // namespace kmeans
