// SPDX-License-Identifier: Apache-2.0
//
// On facts that are made up: no GPU takes part.
#include "harness/run/fit_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kmeans {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

FitFacts facts(std::int64_t n, std::int64_t d, std::int64_t k, std::int64_t iterations = 100) {
  return {{n, d, k, Precision::f32}, iterations, 4, "openmp_best"};
}

const GpuDevice* made_up_gpu() {
  static GpuDevice gpu;
  gpu.multiprocessors = 100;
  gpu.clock_hertz = 1e9;
  gpu.memory_bytes_per_second = 1e12;
  return &gpu;
}

/// A variant of 2e-10 / `rate` seconds a product, after `setup` seconds.
AdviceSeries series(const std::string& variant, bool gpu, double rate, double setup,
                    int threads = 4) {
  AdviceSeries one;
  one.variant = variant;
  one.precision = "f32";
  one.gpu = gpu;
  one.threads = gpu ? 1 : threads;
  for (const std::int64_t n : {100000, 300000, 1000000}) {
    const AdviceProblem problem{{n, 32, 64, Precision::f32}, "gaussian", 100};
    one.iterations.push_back({problem, 2e-10 / rate * static_cast<double>(n) * 32 * 64});
    one.setups.push_back({problem, setup});
  }
  return one;
}

FitChoice choose(const FitFacts& of, std::vector<AdviceSeries> on_file) {
  return choose_for_fit(of, made_up_gpu, [&] { return on_file; });
}

TEST(FitChoice, FollowsTheModelsOfWhatIsOnFile) {
  // A fit of 100 iterations: 4.1 s, against 0.2 s + 0.041 s and the start.
  const auto quick = choose(facts(1000000, 32, 64), {series("openmp_best", false, 10, 0.01),
                                                     series("cuda_best", true, 1000, 0.2)});
  EXPECT_TRUE(quick.gpu);
  EXPECT_NEAR(quick.cpu_seconds, 4.1, 0.3);
  EXPECT_NEAR(quick.gpu_seconds, 0.35 + 0.24, 0.05);
  EXPECT_THAT(quick.why, StartsWith("a fit of 100 iterations, without first centroids, is "
                                    "expected to take 59"));
  EXPECT_THAT(quick.why, HasSubstr("by cuda_best with CUDA's start (by results on file), 4."));
  EXPECT_THAT(quick.why, HasSubstr("by openmp_best (by results on file)"));
  // The same GPU next to a processor that is as quick.
  const auto slow = choose(facts(1000000, 32, 64), {series("openmp_best", false, 1000, 0.01),
                                                    series("cuda_best", true, 1000, 0.2)});
  EXPECT_FALSE(slow.gpu) << "its start and its setup are not worth it";
  EXPECT_THAT(slow.why, HasSubstr("by openmp_best (by results on file), 59"));
}

TEST(FitChoice, ItsStartAndUploadMustPayOff) {
  const std::vector<AdviceSeries> on_file{series("openmp_best", false, 10, 0.01),
                                          series("cuda_best", true, 1000, 0.2)};
  EXPECT_FALSE(choose(facts(1000000, 32, 64, 3), on_file).gpu);
  EXPECT_TRUE(choose(facts(1000000, 32, 64, 300), on_file).gpu);
}

TEST(FitChoice, WhatIsNotOnFileIsEstimatedFromRates) {
  const auto large = choose(facts(4000000, 128, 4096), {});
  EXPECT_TRUE(large.gpu);
  EXPECT_THAT(large.why, HasSubstr("by rough rates"));
  // Of other threads nothing follows for these.
  const auto other =
      choose(facts(4000000, 128, 4096), {series("openmp_best", false, 1e6, 0.01, 2)});
  EXPECT_EQ(other.cpu_seconds, large.cpu_seconds);
  EXPECT_EQ(other.gpu_seconds, large.gpu_seconds);
  const auto mixed = choose(facts(1000000, 32, 64), {series("openmp_best", false, 1000, 0.01)});
  EXPECT_FALSE(mixed.gpu) << "one side on file is better than none";
  EXPECT_NEAR(mixed.cpu_seconds, 0.051, 0.01);
}

TEST(FitChoice, OfLittleWorkNoDriverIsStartedAndNoFileIsRead) {
  int looked = 0;
  int read = 0;
  const auto chosen = [&](const FitFacts& of, const GpuDevice* there) {
    return choose_for_fit(
        of,
        [&] {
          ++looked;
          return there;
        },
        [&] {
          ++read;
          return std::vector<AdviceSeries>{};
        });
  };
  const auto small = chosen(facts(10000, 4, 8), made_up_gpu());
  EXPECT_FALSE(small.gpu);
  EXPECT_EQ(small.why, "");
  EXPECT_EQ(looked, 0);
  EXPECT_EQ(read, 0);
  const auto without = chosen(facts(4000000, 128, 4096), nullptr);
  EXPECT_FALSE(without.gpu);
  EXPECT_EQ(without.why, "");
  EXPECT_EQ(looked, 1);
  EXPECT_EQ(read, 0);
  EXPECT_TRUE(chosen(facts(4000000, 128, 4096), made_up_gpu()).gpu);
  EXPECT_EQ(read, 1);
}

TEST(FitChoice, WhatItRefusedOnFileHasNoModel) {
  AdviceSeries narrow = series("cuda_best", true, 1e9, 0);
  narrow.refused.add({10, 100, 2, Precision::f32}, "d = 100 exceeds 40 coordinates");
  narrow.refused.close({32});
  const auto refused = choose(facts(1000000, 64, 64), {narrow});
  EXPECT_EQ(refused.gpu_seconds, choose(facts(1000000, 64, 64), {}).gpu_seconds);
  EXPECT_NE(choose(facts(1000000, 32, 64), {narrow}).gpu_seconds,
            choose(facts(1000000, 32, 64), {}).gpu_seconds);
}

}  // namespace
}  // namespace kmeans
