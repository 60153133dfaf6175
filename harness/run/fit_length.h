// SPDX-License-Identifier: Apache-2.0
//
// How many iterations a fit of these points takes: found by making it, as far as the time allows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "datasets/dataset.h"
#include "harness/variant.h"

namespace kmeans {

/// Iterations that `fit` makes at the most by default.
inline constexpr std::int64_t kLongestFit = 300;

struct FitLength {
  std::int64_t iterations = 0;  ///< Until no label changed; of one that did not settle those made.
  bool settled = false;
  double seeding_seconds = 0;
};

/// What choosing the first centroids is expected to take, or somewhat more.
double expected_seeding_seconds(const InitSpec& init, const Shape& shape, int threads);

/// The fit of exact variants, which all take as many. At most `seconds`, and `most` iterations, after the seeding.
/// Absent where nothing exact takes the points here, in float32, or the seeding alone is expected to take longer.
std::optional<FitLength> fit_length(const DatasetSpec& points, std::int64_t k,
                                    const std::string& init, int threads,
                                    const std::filesystem::path& cache, double seconds,
                                    std::int64_t most);

}  // namespace kmeans
