// SPDX-License-Identifier: Apache-2.0
//
// OpenMP may give a parallel region fewer threads than it asks for (OMP_DYNAMIC, OMP_THREAD_LIMIT, regions
// within regions), and another number the next time. Every variant of openmp then has the answers, and the
// changed labels, that it has with one thread. So does a call from within a parallel region of the caller.
#if defined(_OPENMP)
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/support/random.h"
#include "harness/variant.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

constexpr int kThreads = 4;

struct TeamCase {
  const char* name;
  Shape shape;
  double far;     // of one coordinate of the first centroids
  double spread;  // of the points about their 16 centres
};

struct TeamAnswer {
  std::vector<float> centroids;
  std::vector<std::int32_t> labels;
  std::int64_t changed = 0;
};

/// The next regions get so many threads, if they ask for more.
template <class Call>
void in_a_team_of(int threads, const Call& call) {
#pragma omp teams num_teams(1) thread_limit(threads)
  call();
}

int team_that_comes(int limit) {
  int came = 0;
  in_a_team_of(limit, [&] {
#pragma omp parallel num_threads(kThreads)
#pragma omp master
    came = omp_get_num_threads();
  });
  return came;
}

std::vector<float> points_of(const TeamCase& test) {
  SplitMix64 random(11);
  const auto [n, d, k, precision] = test.shape;
  std::vector<float> centres(16 * d);
  for (float& value : centres) value = static_cast<float>(random.uniform() * 2 - 1);
  std::vector<float> points(n * d);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t t = 0; t < d; ++t) {
      const double noise = random.uniform() + random.uniform() + random.uniform() - 1.5;
      points[i * d + t] = static_cast<float>(centres[i % 16 * d + t] + test.spread * noise);
    }
  }
  return points;
}

class TeamRun {
 public:
  TeamRun(const std::string& variant, const TeamCase& test, int threads)
      : engine_(registered_variant(variant).factory.make_float(Precision::f32)),
        points_(points_of(test)),
        shape_(test.shape) {
    Problem<float> problem;
    problem.shape = shape_;
    problem.points = points_.data();
    problem.threads = threads;
    for (const float value : points_) problem.max_abs = std::max(problem.max_abs, std::abs(value));
    engine_->setup(problem);
    std::vector<float> first(points_.begin(), points_.begin() + shape_.k * shape_.d);
    for (std::int64_t j = 0; j < shape_.k; ++j) {
      if (test.far > 0)
        first[j * shape_.d] = static_cast<float>(test.far * (1 + 0.01 * static_cast<double>(j)));
    }
    engine_->reset(first.data());
  }

  TeamAnswer step() {
    engine_->step(1);
    TeamAnswer answer;
    answer.centroids.resize(shape_.k * shape_.d);
    answer.labels.resize(shape_.n);
    engine_->fetch(answer.centroids.data(), answer.labels.data());
    answer.changed = engine_->progress().changed.value_or(-1);
    return answer;
  }

 private:
  std::unique_ptr<Variant<float>> engine_;
  std::vector<float> points_;
  Shape shape_;
};

const std::vector<TeamCase>& team_cases() {
  static const std::vector<TeamCase> cases = {
      {"boxes", {80000, 3, 40, Precision::f32}, 0, 0.2},
      {"boxes, long lists", {80000, 3, 300, Precision::f32}, 0, 0.6},
      {"clusters", {12000, 24, 30, Precision::f32}, 0, 0.3},
      {"open to bytes", {8000, 48, 70, Precision::f32}, 0, 4},
      {"bytes paused", {20000, 12, 90, Precision::f32}, 0, 4},
      {"first centroids far away", {20000, 10, 20, Precision::f32}, 1e25, 1},
  };
  return cases;
}

TEST(OpenmpTeam, AnyTeamHasTheAnswersOfOneThread) {
  for (int threads = 1; threads <= kThreads; ++threads) {
    if (team_that_comes(threads) != threads) {
      GTEST_SKIP() << "this OpenMP gives " << team_that_comes(threads) << " threads at a limit of "
                   << threads;
    }
  }
  const int teams[] = {4, 1, 4, 3, 2, 4, 1, 2, 3, 4};
  int looked_at = 0;
  for (const auto& variant : all_variants()) {
    const std::string& name = variant.traits.name;
    if (name.rfind("openmp_", 0) != 0) continue;
    for (const TeamCase& test : team_cases()) {
      if (variant.traits.supports && !variant.traits.supports(test.shape).ok) continue;
      SCOPED_TRACE(name + ", " + test.name);
      ++looked_at;
      TeamRun alone(name, test, 1);
      TeamRun changing(name, test, kThreads);
      for (const int threads : teams) {
        const TeamAnswer right = alone.step();
        TeamAnswer found;
        in_a_team_of(threads, [&] { found = changing.step(); });
        ASSERT_TRUE(found.labels == right.labels) << "other labels";
        ASSERT_TRUE(found.centroids == right.centroids) << "other centroids";
        ASSERT_EQ(found.changed, right.changed);
      }
    }
  }
  EXPECT_GE(looked_at, 50);
}

TEST(OpenmpTeam, ACallerMayHaveAParallelRegionOfItsOwn) {
  for (const auto& variant : all_variants()) {
    const std::string& name = variant.traits.name;
    if (name.rfind("openmp_", 0) != 0) continue;
    for (const TeamCase& test : team_cases()) {
      if (variant.traits.supports && !variant.traits.supports(test.shape).ok) continue;
      if (test.shape.k > 100) continue;  // nothing that the others do not show
      for (const int threads : {1, kThreads}) {
        SCOPED_TRACE(name + ", " + test.name + ", threads " + std::to_string(threads));
        TeamRun alone(name, test, 1);
        const TeamAnswer right = alone.step();
        TeamAnswer found;
#pragma omp parallel num_threads(kThreads)
#pragma omp master
        found = TeamRun(name, test, threads).step();
        ASSERT_TRUE(found.labels == right.labels) << "other labels";
        ASSERT_TRUE(found.centroids == right.centroids) << "other centroids";
      }
    }
  }
}

}  // namespace
}  // namespace kmeans
#endif
