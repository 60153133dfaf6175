// SPDX-License-Identifier: Apache-2.0
//
// Shapes at and beyond the limits of integers, memory and GPUs: refused or skipped with a reason,
// never wrapped around. Suites named Gpu... need a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <malloc.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/readers.h"
#include "harness/machine/gpu.h"
#include "harness/record/measures.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/verify/session.h"
#include "harness/verify/verify.h"
#include "implementations/_limits.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

constexpr std::int64_t kTrillion = 1'000'000'000'000;

TEST(Capacity, ProductsAreCheckedBeforeTheyWrap) {
  EXPECT_EQ(checked_product(3'000'000'000, 1'000'000'000), 3'000'000'000'000'000'000);
  EXPECT_EQ(checked_product(std::int64_t{1} << 31, std::int64_t{1} << 31), std::int64_t{1} << 62);
  EXPECT_FALSE(checked_product(std::int64_t{1} << 32, std::int64_t{1} << 31));
  // Modulo 2^64 this is 0, and 2^33 * 2^31 + ... a small number: what a wrapped product looks like.
  EXPECT_FALSE(checked_product(std::int64_t{1} << 32, std::int64_t{1} << 32));
  EXPECT_FALSE(checked_product((std::int64_t{1} << 33) + 1, (std::int64_t{1} << 31) + 1));
  EXPECT_FALSE(checked_product(std::numeric_limits<std::int64_t>::max(), 2));
}

TEST(Capacity, PredictedMemoryNeverWraps) {
  for (const auto& variant : all_variants()) {
    for (const Precision precision : variant.traits.precisions) {
      for (const Shape& shape :
           {Shape{5'000'000'000, 3, 7, precision}, Shape{kTrillion, 1'000'000, 8, precision},
            Shape{kTrillion, kTrillion, kTrillion, precision},
            Shape{70'000, 1, 70'000, precision}}) {
        const double points = 4.0 * static_cast<double>(shape.n) * static_cast<double>(shape.d);
        const double need = memory_need(variant, shape, 64);
        EXPECT_TRUE(std::isfinite(need));
        EXPECT_GE(need, points) << variant.traits.name << " " << shape.n << " x " << shape.d;
        if (!variant.traits.gpu) continue;
        // Half precision halves the points on the device, and some read them from the host.
        EXPECT_GT(device_memory_need(variant, shape), 0) << variant.traits.name;
      }
    }
  }
}

TEST(Capacity, WeightsTakeMemoryOfTheGpuToo) {
  RegisteredVariant made_up;
  made_up.traits.gpu = true;
  made_up.traits.device_bytes = [](const Shape& s) { return 4.0 * static_cast<double>(s.n); };
  const Shape shape{1000, 2, 3, Precision::f32};
  EXPECT_EQ(device_memory_need(made_up, shape, 1, true), 4000) << "as others, if nothing is said";
  made_up.traits.counted_device_bytes = [](const Shape& s) {
    return 20.0 * static_cast<double>(s.n);
  };
  EXPECT_EQ(device_memory_need(made_up, shape), 4000);
  EXPECT_EQ(device_memory_need(made_up, shape, 1, true), 20000);
  EXPECT_EQ(device_memory_need(made_up, shape, 2, true), 10000);
  // Labels twice and weights of all points, and the sums.
  for (const auto& variant : all_variants()) {
    if (!variant.traits.gpu || !variant.traits.weights) continue;
    const Shape large{1'000'000, 16, 1000, Precision::f32};
    EXPECT_GE(device_memory_need(variant, large, 1, true),
              device_memory_need(variant, large) + 16e6 + 16.0 * 1000 * 17)
        << variant.traits.name;
  }
}

TEST(Capacity, PredictedMemoryCountsTheCentroids) {
  // As many clusters as points: their coordinates take as much as the points, several times.
  const Shape shape{1'000'000, 1000, 1'000'000, Precision::f32};
  for (const auto& variant : all_variants()) {
    EXPECT_GE(memory_need(variant, shape, 64), 3 * 4e9) << variant.traits.name;
  }
}

#if defined(__GLIBC__)
double heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

/// What a variant holds after a step, besides the points.
template <class T>
double bytes_held(const RegisteredVariant& variant, const Shape& shape, int threads) {
  std::vector<T> points(shape.n * shape.d);
  std::mt19937_64 random(1);
  for (T& x : points) x = static_cast<T>(static_cast<double>(random() >> 40U) * 0x1p-24);
  const double before = heap_bytes();
  Problem<T> problem{.shape = shape, .points = points.data(), .max_abs = 1, .threads = threads};
  std::unique_ptr<Variant<T>> instance;
  if constexpr (std::is_same_v<T, float>) {
    instance = variant.factory.make_float(shape.precision);
  } else {
    instance = variant.factory.make_double(shape.precision);
  }
  instance->setup(problem);
  instance->reset(points.data());
  instance->step(1);
  return heap_bytes() - before;
}

// The heap itself is the known answer: how much six more threads add to it.
TEST(Capacity, PredictedMemoryGrowsWithTheThreadsAsTheHeapDoes) {
  if (!build_info().sanitizers.empty()) GTEST_SKIP() << "sanitizers have a heap of their own";
  constexpr int kThreads = 7;
  int compared = 0;
  for (const auto& variant : all_variants()) {
    const Traits& traits = variant.traits;
    if (!traits.parallel || traits.gpu || variant.backend == "python") continue;
    for (const Precision precision : traits.precisions) {
      const Shape shape{100'000, 2, 1800, precision};
      if (!supports(variant, shape).ok) continue;
      const auto held = [&](const Shape& of, int threads) {
        return precision == Precision::f64 ? bytes_held<double>(variant, of, threads)
                                           : bytes_held<float>(variant, of, threads);
      };
      held({shape.n, shape.d, 20, precision}, kThreads);  // what OpenMP and BLAS keep for good
      const double more = held(shape, kThreads) - held(shape, 1);
      const double predicted =
          memory_need(variant, shape, kThreads) - memory_need(variant, shape, 1);
      const std::string name = traits.name + " " + to_string(precision);
      EXPECT_GE(predicted, 0.9 * more - 1e4 * kThreads) << name;
      // A variant that chooses among others counts all of them, and holds the chosen one.
      EXPECT_LE(predicted, 8 * more + 1e4 * kThreads) << name;
      compared += 1;
    }
  }
  EXPECT_GT(compared, 0);
}

/// Few points are watched behind bounds, with copies of many centroids.
TEST(Capacity, PredictedMemoryHoldsTheSampleThatOpenmpBestWatches) {
  if (!build_info().sanitizers.empty()) GTEST_SKIP() << "sanitizers have a heap of their own";
  const RegisteredVariant& best = require_variant("openmp_best");
  for (const Shape& shape : {Shape{20'000, 16, 5'000}, Shape{6'000, 40, 3'000}}) {
    for (const int threads : {1, 3}) {
      bytes_held<float>(best, {shape.n, shape.d, 20}, threads);  // what OpenMP keeps for good
      EXPECT_GE(best.traits.memory_bytes(shape, threads), bytes_held<float>(best, shape, threads))
          << shape.k << ' ' << threads;
    }
  }
}
#endif

TEST(Capacity, PredictedMemoryIsThatOfThreadsWithSomethingToDo) {
  const Shape few{100, 2, 3, Precision::f32};
  for (const auto& variant : all_variants()) {
    // 100 points are not divided among 4096 threads.
    EXPECT_LT(memory_need(variant, few, 4096), 1.5 * memory_need(variant, few, 64) + 1e5)
        << variant.traits.name;
  }
}

TEST(Capacity, SupportIsDecidedWithoutOverflow) {
  for (const auto& variant : all_variants()) {
    for (const Precision precision : variant.traits.precisions) {
      for (const Shape& shape :
           {Shape{kTrillion, 1000, 8, precision}, Shape{kTrillion, kTrillion, 1'000'000, precision},
            Shape{5'000'000'000, 2, 3'000'000'000, precision}}) {
        const Support support = supports(variant, shape);
        EXPECT_NE(support.ok, !support.reason.empty()) << variant.traits.name;
        // Labels are 32-bit: no variant may take more clusters than they can name.
        if (shape.k > std::numeric_limits<std::int32_t>::max()) {
          EXPECT_FALSE(support.ok) << variant.traits.name;
        }
      }
    }
  }
}

TEST(Capacity, SumsOfBlocksReachFurtherThanSumsOfPoints) {
  const auto shape = [](std::int64_t n, std::int64_t k, Precision precision = Precision::f32) {
    return Shape{n, 1, k, precision};
  };
  constexpr std::int64_t kPoints = 100'000'000;
  EXPECT_FALSE(sums_fit(shape(kPoints, 5)).ok);
  EXPECT_TRUE(block_sums_and_counts_fit(shape(kPoints, 5), 32).ok);
  // 31 million blocks of 32, 4 million of 256.
  EXPECT_FALSE(block_sums_and_counts_fit(shape(10 * kPoints, 5), 32).ok);
  EXPECT_TRUE(block_sums_and_counts_fit(shape(10 * kPoints, 5), 256).ok);
  EXPECT_TRUE(block_sums_and_counts_fit(shape(10 * kPoints, 5, Precision::f64), 32).ok);
  // As many blocks, but none of the sums gets more than some million additions.
  EXPECT_TRUE(block_sums_and_counts_fit(shape(10 * kPoints, 1000), 32).ok);
  EXPECT_FALSE(block_sums_and_counts_fit(shape(30 * kPoints, 1000), 32).ok);  // counts
}

TEST(Capacity, OperationsOfTheLargestShapesAreFinite) {
  const Shape shape{kTrillion, kTrillion, kTrillion, Precision::f32};
  EXPECT_GT(operations_zechner(shape), 1e36);
  EXPECT_TRUE(std::isfinite(operations_zechner(shape)));
}

TEST(Capacity, GeneratorsRefuseMoreThanAnAddressSpace) {
  const std::string message = test::message_of([] {
    parse_dataset({{"generator", "uniform"}, {"n", kTrillion}, {"d", 1'000'000}}, "/data");
  });
  EXPECT_EQ(message, "/data/n: n * d coordinates need more than 2^62 bytes");
}

#define SKIP_WITHOUT_USABLE_GPU() \
  if (current_gpu() == nullptr) GTEST_SKIP() << "no GPU that this build can use"

Support block_serial(std::int64_t n, std::int64_t d, std::int64_t k) {
  return supports(require_variant("cuda_block_serial"), {n, d, k, Precision::f32});
}

TEST(GpuCapacity, SumsBeyondTheArraysOfOneThreadAreRight) {
  SKIP_WITHOUT_USABLE_GPU();
  constexpr std::int64_t kPoints = 30'000;
  constexpr std::int64_t kCoordinates = 3;
  constexpr std::int64_t kClusters = 25'000;  // a thread has arrays for 64
  ASSERT_TRUE(block_serial(kPoints, kCoordinates, kClusters).ok);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> points(kPoints * kCoordinates);
  for (float& value : points) value = uniform(random);
  Problem<float> problem;
  problem.shape = {kPoints, kCoordinates, kClusters, Precision::f32};
  problem.points = points.data();
  problem.max_abs = 1;
  Session<float> session(require_variant("cuda_block_serial"), problem, points.data());
  std::string outcome;
  const auto run = certified_run(session, 2, VerifyOptions{1e18, 1}, outcome,
                                 [](const std::string&) { return true; });
  EXPECT_TRUE(run.certificate.passed) << run.certificate.failure();
}

TEST(GpuCapacity, MorePointsThanAGridHasThreadsInOneDimensionAreAllLabelled) {
  SKIP_WITHOUT_USABLE_GPU();
  // 65 535 blocks are the most in the second and third dimension, and 65 535 * 256 threads what a
  // kernel with one point a thread and a block index of 16 bits would reach.
  constexpr std::int64_t kInside = std::int64_t{65'536} * 256;
  constexpr std::int64_t kPoints = kInside + 16;
  // Powers of two in clusters of 2^22 points, and of 16: float32 sums, and sums of points divided
  // by the size of their cluster, are exact in any order. The last cluster lies beyond the grid.
  std::vector<float> centroids{1, 2, 4, 8, 16};
  const auto label = [](std::int64_t i) { return i < kInside ? i % 4 : 4; };
  std::vector<float> points(kPoints);
  for (std::int64_t i = 0; i < kPoints; ++i) points[i] = centroids[label(i)];
  for (const auto& variant : all_variants()) {
    if (variant.backend != "cuda" || !variant.traits.wrong_because.empty()) continue;
    const Shape shape{kPoints, 1, 5, Precision::f32};
    if (!takes(variant.traits, Precision::f32) || !supports(variant, shape).ok) continue;
    Problem<float> problem;
    problem.shape = shape;
    problem.points = points.data();
    problem.max_abs = 16;
    Session<float> session(variant, problem, centroids.data());
    session.reset();
    session.step(1);
    const auto outcome = session.fetch();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < kPoints; ++i) wrong += outcome.labels[i] != label(i);
    EXPECT_EQ(wrong, 0) << variant.traits.name;
    EXPECT_EQ(outcome.centroids, centroids) << variant.traits.name;
  }
}

}  // namespace
}  // namespace kmeans
