// SPDX-License-Identifier: Apache-2.0
//
// How cuda_best chooses, against the times on file: its model is arithmetic, no GPU is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/machine/gpu.h"
#include "harness/record/result_file.h"
#include "harness/variant.h"
#include "implementations/cuda/_best_choice.h"
#include "implementations/cuda/_best_run.h"

namespace kmeans::cuda {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

const std::vector<std::string> kFamilies{"cuda_tree",   "cuda_resident", "cuda_onepass",
                                         "cuda_tensor", "cuda_hamerly",  "cuda_int8",
                                         "cuda_exact"};

/// As one NVIDIA H200 reports itself.
GpuDevice h200() {
  GpuDevice gpu;
  gpu.name = "NVIDIA H200";
  gpu.major = 9;
  gpu.multiprocessors = 132;
  gpu.clock_hertz = 1980e6;
  gpu.memory_bytes_per_second = 2 * 3201e6 * 6144 / 8;
  return gpu;
}

/// As one NVIDIA H100 does, with less bandwidth.
GpuDevice h100() {
  GpuDevice gpu = h200();
  gpu.name = "NVIDIA H100 80GB HBM3";
  gpu.memory_bytes_per_second = 2 * 2619e6 * 5120 / 8;
  return gpu;
}

/// Medians on file, of one shape and data set in one run.
struct Measured {
  Shape shape;
  std::string where;
  std::map<std::string, double> seconds;  // by family
};

/// Of these experiments, as far as they have been measured.
std::vector<Measured> measured_on(const char* machine,
                                  const std::vector<const char*>& experiments) {
  const auto folder = std::filesystem::path(KMEANS_SOURCE_DIR) / "results" / machine;
  std::map<std::string, Measured> found;
  for (const char* name : experiments) {
    const auto file = folder / (std::string(name) + ".json");
    if (!std::filesystem::exists(file)) continue;
    for (const CellResult& cell : load_result_file(file).cells) {
      if (!cell.median || std::ranges::count(kFamilies, cell.key.variant) == 0) continue;
      const auto size = [&](const char* which) { return cell.data.at(which).get<std::int64_t>(); };
      const Shape shape{size("n"), size("d"), size("k")};
      const std::string where = std::string(name) + " " + std::to_string(shape.n) + ", " +
                                std::to_string(shape.d) + ", " + std::to_string(shape.k);
      Measured& at = found[where];
      at.shape = shape;
      at.where = where;
      at.seconds[cell.key.variant] = *cell.median;
    }
  }
  std::vector<Measured> all;
  for (auto& [where, at] : found) all.push_back(std::move(at));
  return all;
}

/// Those that the model was fitted to.
const std::vector<Measured>& fitted() {
  static const auto all =
      measured_on("nvidia-h200", {"frontier", "ladder-gpu", "map", "gpu-extremes"});
  return all;
}

std::vector<std::string> families_of(const Measured& at) {
  std::vector<std::string> families;
  for (const auto& [family, seconds] : at.seconds) families.push_back(family);
  return families;
}

double least(const Measured& at, const std::vector<std::string>& among) {
  double seconds = at.seconds.at(among.front());
  for (const std::string& family : among) seconds = std::min(seconds, at.seconds.at(family));
  return seconds;
}

TEST(CudaChoice, TheFastestFamilyOnFileIsChosenOrTried) {
  int compared = 0;
  auto all = fitted();
  std::ranges::move(measured_on("nvidia-h200-x4", {"frontier", "gpu-choice", "gpu-long"}),
                    std::back_inserter(all));
  for (const Measured& at : all) {
    if (at.seconds.size() < 2) continue;
    ++compared;
    const auto tried = worth_trying(families_of(at), at.shape, limits_of(h200()));
    EXPECT_LE(least(at, tried), 1.1 * least(at, families_of(at))) << at.where;
  }
  EXPECT_GE(compared, 15) << "shapes of which two families or more are on file";
}

TEST(CudaChoice, SoItIsOnThreeKindsOfPoints) {
  int by_bytes = 0;
  for (const Measured& at :
       measured_on("nvidia-h100-x4", {"frontier", "frontier-mixture", "frontier-embedding",
                                      "gpu-choice", "gpu-long", "ladder-gpu"})) {
    const auto families = families_of(at);
    const auto tried = worth_trying(families, at.shape, limits_of(h100()));
    EXPECT_LE(least(at, tried), 1.1 * least(at, families)) << at.where;
    by_bytes +=
        at.seconds.contains("cuda_int8") && at.seconds.at("cuda_int8") == least(at, families);
  }
  EXPECT_GE(by_bytes, 8) << "shapes at which cuda_int8 is the fastest on file";
}

TEST(CudaChoice, TheModelAloneIsRightWhereItWasFitted) {
  for (const Measured& at : fitted()) {
    const auto tried = worth_trying(families_of(at), at.shape, limits_of(h200()));
    EXPECT_LE(at.seconds.at(tried.front()), 1.1 * least(at, families_of(at))) << at.where;
  }
}

/// What kUnsure rests on.
TEST(CudaChoice, NoPredictionIsOffByMoreThanAFactorOfTwo) {
  int predictions = 0;
  for (const Measured& at : fitted()) {
    const FamilyTimes times(at.shape, limits_of(h200()));
    for (const auto& [family, seconds] : at.seconds) {
      ++predictions;
      EXPECT_LT(times.of(family), 2 * seconds) << at.where << " " << family;
      EXPECT_GT(times.of(family), seconds / 2) << at.where << " " << family;
    }
  }
  EXPECT_GE(predictions, 60);
  EXPECT_GE(kUnsure, 2 * 2);
}

TEST(CudaChoice, OneFamilyIsLeftWhereTheOthersAreFarBehind) {
  const GpuLimits limits = limits_of(h200());
  EXPECT_THAT(worth_trying({"cuda_tensor", "cuda_exact"}, {1048576, 128, 1024}, limits),
              ElementsAre("cuda_tensor"));
  EXPECT_THAT(worth_trying(kFamilies, {500000, 3, 20000}, limits), ElementsAre("cuda_tree"));
  EXPECT_THAT(worth_trying({"cuda_exact"}, {20011, 4000, 13}, limits), ElementsAre("cuda_exact"));
  EXPECT_THAT(worth_trying({}, {1, 1, 1}, limits), IsEmpty());
}

TEST(CudaChoice, TheTreeIsTriedWherePointsMayHaveStructure) {
  // On independent normal points it is far behind; on clusters it may not be.
  const Shape shape{1000000, 8, 1000};
  const FamilyTimes times(shape, limits_of(h200()));
  EXPECT_GT(times.of("cuda_tree"), kUnsure * times.of("cuda_tensor"));
  EXPECT_THAT(worth_trying(kFamilies, shape, limits_of(h200())), Contains("cuda_tree"));
}

TEST(CudaChoice, BoundsAreTriedWherePointsMayHaveStructure) {
  const Shape shape{1048576, 128, 1024};
  const GpuLimits limits = limits_of(h200());
  EXPECT_THAT(worth_trying({"cuda_hamerly", "cuda_tensor"}, shape, limits),
              ElementsAre("cuda_tensor", "cuda_hamerly"));
  // Not where even a tenth of the products takes far longer than the tree.
  EXPECT_THAT(worth_trying(kFamilies, {500000, 3, 20000}, limits), Not(Contains("cuda_hamerly")));
}

TEST(CudaChoice, LimitsComeFromWhatTheGpuReports) {
  // 66.9 TFLOP/s in float32, half of it in float64, and 1 070 with float16 products at 1 980 MHz.
  const GpuLimits limits = limits_of(h200());
  EXPECT_NEAR(2 * limits.float_rate(), 66.9e12, 0.1e12);
  EXPECT_NEAR(2 * limits.double_rate(), 33.5e12, 0.1e12);
  EXPECT_NEAR(2 * limits.product_rate(), 1070e12, 1e12);
  // A GPU for pictures has hardly any float64: cuda_exact takes longer there, on as many multiprocessors.
  GpuDevice other = h200();
  other.major = 8;
  other.minor = 9;
  const Shape shape{1048576, 128, 1024};
  EXPECT_GT(FamilyTimes(shape, limits_of(other)).of("cuda_exact"),
            10 * FamilyTimes(shape, limits).of("cuda_exact"));
}

TEST(CudaChoice, AGpuThatReportsNothingStillHasAChoice) {
  const FamilyTimes times({1000, 16, 32}, limits_of(GpuDevice{}));
  for (const std::string& family : kFamilies) {
    EXPECT_GT(times.of(family), 0) << family;
    EXPECT_LT(times.of(family), 1) << family;
  }
}

/// A family whose first iteration takes so long, and the others so long; what it was asked for.
struct Pretended {
  double first;
  double later;
  std::int64_t made = 0;  // since the start
  std::int64_t all = 0;

  double operator()(bool from_start, std::int64_t iterations) {
    if (from_start) made = 0;
    double seconds = 0;
    for (std::int64_t i = 0; i < iterations; ++i) seconds += made++ == 0 ? first : later;
    all += iterations;
    return seconds;
  }
};

TEST(CudaChoice, TryingCostsFewIterationsWhereTheyAreLong) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  Pretended brief{.first = 40e-6, .later = 20e-6};
  EXPECT_NEAR(tried_seconds(std::ref(brief), kNever), 22e-6, 1e-9);
  EXPECT_LE(brief.all, 60);
  Pretended long_one{.first = 40e-3, .later = 20e-3};
  EXPECT_NEAR(tried_seconds(std::ref(long_one), kNever), 22e-3, 1e-6);
  EXPECT_LE(long_one.all, 13);
  Pretended very_long{.first = 140e-3, .later = 70e-3};
  EXPECT_NEAR(tried_seconds(std::ref(very_long), kNever), 77e-3, 1e-6);
  EXPECT_LE(very_long.all, 5);
  // Ten iterations take longer than ten of the best so far, whatever follows the first one.
  Pretended hopeless{.first = 40e-3, .later = 0};
  EXPECT_EQ(tried_seconds(std::ref(hopeless), 3.9e-3), kNever);
  EXPECT_LE(hopeless.all, 3);
  EXPECT_LT(tried_seconds(std::ref(hopeless), 4.1e-3), 4.1e-3);
}

TEST(CudaChoice, LaterIterationsAreTriedBehindThoseOfAFirstTry) {
  Pretended brief{.first = 40e-6, .later = 20e-6};
  EXPECT_NEAR(later_seconds(std::ref(brief), 22e-6), 20e-6, 1e-9);
  EXPECT_LE(brief.all, 60);
  Pretended long_one{.first = 40e-3, .later = 20e-3};
  EXPECT_NEAR(later_seconds(std::ref(long_one), 22e-3), 20e-3, 1e-6);
  EXPECT_LE(long_one.all, 20);
  Pretended very_long{.first = 140e-3, .later = 70e-3};
  EXPECT_NEAR(later_seconds(std::ref(very_long), 77e-3), 70e-3, 1e-6);
  EXPECT_LE(very_long.all, 13);
}

/// A family whose iterations take so long before the given one, and so long from it on; what it was asked for.
struct Turning {
  std::int64_t at;
  double before;
  double from;
  std::int64_t made = 0;  // since the start
  std::int64_t all = 0;

  double operator()(bool from_start, std::int64_t iterations) {
    if (from_start) made = 0;
    double seconds = 0;
    for (std::int64_t i = 0; i < iterations; ++i) seconds += made++ < at ? before : from;
    all += iterations;
    return seconds;
  }
};

TEST(CudaChoice, AGainBehindBoundsIsLookedForUntilEightyIterations) {
  struct Case {
    std::int64_t turns;
    std::int64_t after;  // 0: never seen
  };
  for (const auto& [turns, after] :
       {Case{5, 10}, Case{16, 10}, Case{17, 20}, Case{28, 20}, Case{29, 40}, Case{48, 40},
        Case{49, 80}, Case{88, 80}, Case{89, 0}, Case{1000, 0}}) {
    Turning without{.at = 0, .before = 100e-6, .from = 100e-6};
    Turning behind{.at = turns, .before = 120e-6, .from = 60e-6};
    const auto gain = first_gain(std::ref(without), std::ref(behind), 100e-6);
    ASSERT_EQ(gain.has_value(), after != 0) << turns;
    EXPECT_LE(without.all, 60 + 70) << turns;
    EXPECT_EQ(behind.all, without.all);
    if (!gain) continue;
    EXPECT_EQ(gain->after, after) << turns;
    EXPECT_NEAR(gain->without, 100e-6, 1e-9);
    EXPECT_LT(gain->behind, 0.97 * 100e-6);
  }
}

TEST(CudaChoice, LongIterationsAreNotLookedAtForLong) {
  struct Case {
    double iteration;
    std::int64_t looked;  // iterations of each family
  };
  for (const auto& [iteration, looked] :
       {Case{2.4e-3, 90}, Case{3e-3, 50}, Case{9e-3, 30}, Case{11e-3, 20}, Case{60e-3, 13}}) {
    Turning without{.at = 0, .before = iteration, .from = iteration};
    Turning behind = without;
    EXPECT_FALSE(first_gain(std::ref(without), std::ref(behind), iteration)) << iteration;
    EXPECT_EQ(without.all, looked) << iteration;
    EXPECT_EQ(behind.all, looked) << iteration;
  }
}

TEST(CudaChoice, OneDisturbedIterationIsNoGain) {
  // A pause in the thirteenth of the twenty after which one looks at ten.
  struct Paused {
    std::int64_t made = 0;
    double operator()(bool from_start, std::int64_t iterations) {
      if (from_start) made = 0;
      double seconds = 0;
      for (std::int64_t i = 0; i < iterations; ++i) seconds += made++ == 23 ? 1 : 1e-3;
      return seconds;
    }
  };
  Paused without;
  Turning behind{.at = 0, .before = 1e-3, .from = 1e-3};
  EXPECT_FALSE(first_gain(std::ref(without), std::ref(behind), 1e-3));
}

TEST(CudaChoice, WhatKeepsBoundsIsTriedLast) {
  const Shape shape{1000000, 768, 1000};
  const auto tried = worth_trying({"cuda_hamerly", "cuda_tensor", "cuda_int8", "cuda_exact"}, shape,
                                  limits_of(h200()));
  EXPECT_THAT(tried, ElementsAre("cuda_tensor", "cuda_int8", "cuda_hamerly"));
}

/// Adds one to its only centroid in each iteration; its label is the centroid.
struct Counting final : Variant<float> {
  float at = -1;
  std::vector<std::int64_t> steps;  // since reset
  bool recorded = false;            // the last step

  void setup(const Problem<float>&) override {}
  void reset(const float* centroids) override {
    at = *centroids;
    steps.clear();
  }
  void step(std::int64_t iterations) override {
    at += static_cast<float>(iterations);
    steps.push_back(iterations);
    recorded = stage_recorder() != nullptr;
  }
  void fetch(float* centroids, std::int32_t* labels) override {
    *centroids = at;
    if (labels != nullptr) *labels = static_cast<std::int32_t>(at);
  }
  Progress progress() override { return {.movement = {}, .changed = 7, .loss = {}}; }
};

struct NoStages final : StageRecorder {
  void begin(const char*) override {}
  void end() override {}
};

/// Two families, of which the second saves a second an iteration and takes `start` to begin.
class ALongRun : public testing::Test {
 protected:
  void begin(double start, std::int64_t after = 10) {
    auto first = std::make_unique<Counting>();
    auto second = std::make_unique<Counting>();
    first_ = first.get();
    second_ = second.get();
    run_ = BestRun(std::move(first), 1, 1);
    run_.go_on_with(std::move(second), {.after = after, .saved = 1, .start = start});
    restart();
  }
  void restart() {
    const float zero = 0;
    run_.reset(&zero);
  }
  /// Iterations that the centroid has seen, by whichever family.
  std::int64_t seen() {
    float centroid = 0;
    std::int32_t label = 0;
    run_.fetch(&centroid, &label);
    EXPECT_EQ(centroid, label);
    return label;
  }
  Counting* first_ = nullptr;
  Counting* second_ = nullptr;
  BestRun run_;
};

TEST_F(ALongRun, GoesOnBehindBoundsAfterTheIterationsThatWereTried) {
  begin(5);
  run_.step(100, nullptr);
  EXPECT_THAT(first_->steps, ElementsAre(10));
  EXPECT_THAT(second_->steps, ElementsAre(90));
  EXPECT_EQ(seen(), 100);
  run_.step(3, nullptr);
  EXPECT_THAT(second_->steps, ElementsAre(90, 3));
  EXPECT_EQ(seen(), 103);
  // From the start again, with the first family.
  restart();
  run_.step(10, nullptr);
  EXPECT_THAT(first_->steps, ElementsAre(10));
  EXPECT_EQ(seen(), 10);
}

TEST_F(ALongRun, GoesOnLaterWhereBoundsPayLater) {
  begin(5, 40);
  run_.step(30, nullptr);
  run_.step(60, nullptr);
  EXPECT_THAT(first_->steps, ElementsAre(30, 10));
  EXPECT_THAT(second_->steps, ElementsAre(50));
  EXPECT_EQ(seen(), 90);
}

TEST_F(ALongRun, StaysAsItIsWhereTheBeginningWouldNotBePaidFor) {
  begin(40);
  run_.step(50, nullptr);
  EXPECT_THAT(first_->steps, ElementsAre(50));
  EXPECT_THAT(second_->steps, IsEmpty());
  EXPECT_EQ(seen(), 50);
  // One more than were tried; those ten are no sign of more to come.
  begin(5);
  run_.step(11, nullptr);
  EXPECT_THAT(first_->steps, ElementsAre(11));
}

TEST_F(ALongRun, MayComeInFewSteps) {
  begin(5);
  run_.step(10, nullptr);
  run_.step(4, nullptr);  // as many again as the ten may come
  EXPECT_THAT(first_->steps, ElementsAre(10));
  EXPECT_THAT(second_->steps, ElementsAre(4));
  EXPECT_EQ(seen(), 14);
}

TEST_F(ALongRun, OneIterationAfterTheOtherChangesToo) {
  begin(14.5);
  NoStages recorder;
  for (int iteration = 1; iteration <= 20; ++iteration) {
    run_.step(1, &recorder);
    EXPECT_EQ(seen(), iteration);
    // What has just begun does not know which labels are new.
    EXPECT_EQ(run_.progress().changed.has_value(), iteration != 16) << iteration;
    EXPECT_TRUE((iteration < 16 ? first_ : second_)->recorded);
  }
  EXPECT_EQ(first_->steps.size(), 15U);
  EXPECT_EQ(second_->steps.size(), 5U);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Problem<float> problem_of(const Shape& shape, const std::vector<float>& points) {
  Problem<float> problem;
  problem.shape = shape;
  problem.points = points.data();
  problem.max_abs =
      std::abs(*std::ranges::max_element(points, {}, [](float x) { return std::abs(x); }));
  return problem;
}

/// What cuda_best says of itself after setup.
std::map<std::string, std::string> chosen_for(const Shape& shape) {
  std::mt19937_64 engine(5);
  std::normal_distribution<float> bell;
  std::vector<float> points(static_cast<std::size_t>(shape.n * shape.d));
  for (float& value : points) value = bell(engine);
  const Problem<float> problem = problem_of(shape, points);
  const auto best = registered_variant("cuda_best").factory.make_float(Precision::f32);
  best->setup(problem);
  const auto info = best->library_info();
  return {info.begin(), info.end()};
}

TEST(GpuBest, HasOneOfTheFamiliesAtWorkThatTheModelCannotTellApart) {
  if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem;
  for (const Shape& shape : {Shape{100, 2, 20}, Shape{50000, 5, 700}, Shape{1000, 64, 100},
                             Shape{2000, 48, 10}, Shape{20000, 800, 3}}) {
    std::vector<std::string> families;
    for (const std::string& family : kFamilies) {
      const auto supports = registered_variant(family).traits.supports;
      if (!supports || supports(shape).ok) families.push_back(family);
    }
    const auto tried = worth_trying(families, shape, limits_of(*current_gpu()));
    const auto info = chosen_for(shape);
    EXPECT_EQ(info.at("families tried"), joined(tried)) << shape.n << ", " << shape.d;
    EXPECT_THAT(tried, Contains(info.at("family")));
  }
}

/// Groups of points of different sizes, so that some bounds hold and some do not.
std::vector<float> grouped_points(const Shape& shape) {
  std::mt19937_64 engine(6);
  std::normal_distribution<float> bell;
  std::vector<float> middles(static_cast<std::size_t>(shape.k * shape.d));
  for (float& value : middles) value = 4 * bell(engine);
  std::vector<float> points(static_cast<std::size_t>(shape.n * shape.d));
  for (std::int64_t i = 0; i < shape.n; ++i) {
    const auto group = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(shape.k));
    const float spread = 1 + static_cast<float>(group % 7);
    for (std::int64_t t = 0; t < shape.d; ++t) {
      points[i * shape.d + t] = middles[group * shape.d + t] + spread * bell(engine);
    }
  }
  return points;
}

TEST(GpuBest, GoesOnBehindBoundsWithTheSameBits) {
  if (current_gpu() == nullptr) GTEST_SKIP() << gpu_status().problem;
  const Shape shape{6000, 24, 90};
  const Registration bounded = registered_variant(kKeepsBounds);
  if (!bounded.traits.supports(shape).ok) GTEST_SKIP() << bounded.traits.supports(shape).reason;
  const auto points = grouped_points(shape);
  const Problem<float> problem = problem_of(shape, points);
  const auto made = [&](const std::string& name) {
    auto family = registered_variant(name).factory.make_float(Precision::f32);
    family->setup(problem);
    return family;
  };
  struct Answer {
    std::vector<float> centroids;
    std::vector<std::int32_t> labels;
    explicit Answer(const Shape& s) : centroids(s.k * s.d), labels(s.n) {}
    bool operator==(const Answer&) const = default;
  };
  constexpr int kIterations = 30;
  Answer right(shape);
  {
    const auto exact = made("openmp_exact");
    exact->reset(points.data());
    exact->step(kIterations);
    exact->fetch(right.centroids.data(), right.labels.data());
  }
  int compared = 0;
  for (const std::string& name : kFamilies) {
    const auto supports = registered_variant(name).traits.supports;
    if (name == kKeepsBounds || (supports && !supports(shape).ok)) continue;
    ++compared;
    BestRun run(made(name), shape.k, shape.d);
    run.go_on_with(made(kKeepsBounds), {.after = 10, .saved = 1, .start = 0});
    for (const int step : {kIterations, 1, 7}) {
      run.reset(points.data());
      for (int done = 0; done < kIterations; done += step) {
        run.step(std::min(step, kIterations - done), nullptr);
        // The first iteration after the change has nothing to compare its labels with.
        if (step == 1) {
          EXPECT_EQ(run.progress().changed.has_value(), done != 10) << done;
        }
      }
      Answer found(shape);
      run.fetch(found.centroids.data(), found.labels.data());
      EXPECT_TRUE(found == right) << "after " << name << ", in steps of " << step;
    }
  }
  EXPECT_GE(compared, 3);
}

}  // namespace
}  // namespace kmeans::cuda
