// SPDX-License-Identifier: Apache-2.0
//
// Problems of every kind to choose seeds from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/support/random.h"
#include "harness/support/seed_distances.h"

namespace kmeans {

struct RandomSeeding {
  std::vector<float> points;
  std::vector<std::int64_t> weights;
  SeedingProblem<float> problem;
  std::int64_t k = 1;
  std::string what;

  explicit RandomSeeding(std::uint64_t number) {
    SplitMix64 random(number);
    const std::int64_t widths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 64, 129, 300};
    problem.d = widths[random.below(13)];
    problem.n = 1 + random.below(number % 10 == 0 ? 6000 : 700);
    k = 1 + random.below(std::min<std::int64_t>(problem.n, number % 10 == 0 ? 1500 : 200));
    static const char* const kKinds[] = {"uniform",  "few values", "offset 1e6", "an outlier",
                                         "clusters", "denormal",   "huge",       "repeated rows"};
    const auto kind = static_cast<int>(number % 8);
    points.resize(problem.n * problem.d);
    for (auto& value : points) value = static_cast<float>(2 * random.uniform() - 1);
    for (std::int64_t i = 0; i < problem.n; ++i) {
      for (std::int64_t t = 0; t < problem.d; ++t) {
        float& value = points[i * problem.d + t];
        if (kind == 1) value = std::round(value * 2);
        if (kind == 2) value = 1e6F + std::round(value * 8) / 8;
        if (kind == 4) value = value * 0.01F + static_cast<float>((i % 9 * (t + 3)) % 11);
        if (kind == 5) value *= 1e-39F;
        if (kind == 6) value *= 1e38F;
        if (kind == 7 && i > 3) value = points[i % 4 * problem.d + t];
      }
    }
    if (kind == 3) points[random.below(problem.n * problem.d)] = 1e12F;
    if (number % 3 == 0) {
      for (std::int64_t i = 0; i < problem.n; ++i) weights.push_back(random.below(4));
      weights[random.below(problem.n)] = 1000;
      problem.weights = weights.data();
    }
    problem.points = points.data();
    for (const float value : points) problem.max_abs = std::max(problem.max_abs, std::abs(value));
    what = std::string(kKinds[kind]) + ", number " + std::to_string(number) + ": " +
           std::to_string(problem.n) + " x " + std::to_string(problem.d) +
           ", k = " + std::to_string(k);
  }
};

}  // namespace kmeans
