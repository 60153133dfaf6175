// SPDX-License-Identifier: Apache-2.0
//
// Numbers that result files hold: order statistics of samples, and the models of one iteration
// (docs/metrics.md).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "harness/variant.h"

namespace kmeans {

/// Of result files (docs/results.md); no other version is read.
inline constexpr int kResultSchemaVersion = 2;

/// Value below which a share p of the sorted samples lies, linear between neighbours. Not empty.
double percentile(const std::vector<double>& sorted, double p);

/// Of values in any order; NaN where there are none.
double median_of(std::vector<double> values);

/// The r of the tightest order statistics x(r), x(n+1-r) of n samples that hold the median with at least 95 %
/// confidence; 0 where none do.
std::size_t median_rank(std::size_t count);

/// The tightest pair of order statistics that holds the median with at least 95 % confidence,
/// whatever the distribution; absent below 6 samples, where no pair does.
std::optional<std::pair<double, double>> median_ci95(const std::vector<double>& sorted);

/// Median with its interval, and the spread. Not empty, all finite.
nlohmann::json summarise(std::vector<double> samples);

/// The `seconds_per_iteration` of a cell: the same of all samples, but for the median, which is
/// that of the processes' medians (harness/record/agreement.h). No process may be empty.
nlohmann::json summarise_processes(const std::vector<std::vector<double>>& samples);

/// Operation models of one Lloyd iteration (docs/metrics.md).
double operations_zechner(const Shape& shape);
double operations_2nkd(const Shape& shape);
/// Bytes that every implementation has to move: points read, labels written, centroids both.
double compulsory_bytes(const Shape& shape);

}  // namespace kmeans
