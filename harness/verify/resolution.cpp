// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/resolution.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "harness/exact_step.h"
#include "harness/support/formatted.h"
#include "harness/support/largest_abs.h"
#include "harness/support/parallel.h"

namespace kmeans {
namespace {

constexpr std::int64_t kSampled = std::int64_t{1} << 22;  // coordinates that are looked at together
constexpr std::int64_t kWorthThreads = 1 << 17;           // coordinates: some 0.5 ms

double element_at(std::vector<double>& values, std::size_t rank) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank),
                   values.end());
  return values[rank];
}

// The median distance from the median, which half of the values may be outliers without moving
// much. Where most values are alike, as the zeros of sparse columns, it is that of the smaller ones
// among the others, or of all from zero, whichever is less.
double robust_spread(std::vector<double> column) {
  const double median = element_at(column, column.size() / 2);
  std::vector<double> others;
  for (const double value : column) {
    if (value != median) others.push_back(std::abs(value - median));
  }
  if (others.size() * 2 > column.size()) {
    std::vector<double> all = std::move(column);
    for (double& value : all) value = std::abs(value - median);
    return element_at(all, all.size() / 2);
  }
  double spread = std::abs(median);
  if (!others.empty()) {
    const double quartile = element_at(others, others.size() / 4);
    spread = spread > 0 ? std::min(spread, quartile) : quartile;
  }
  return spread;
}

/// Is the robust spread `least` at least, as a quick look shows?
bool surely_spread(const std::vector<double>& column, double least) {
  const auto [lowest, highest] = std::minmax_element(column.begin(), column.end());
  const double width = (*highest - *lowest) / kResolutionBins;
  if (!(width > 4 * least)) {
    return false;
  }
  std::array<std::size_t, kResolutionBins + 2> bins{};
  for (const double value : column) ++bins[static_cast<int>((value - *lowest) / width)];
  for (int b = 0; b < kResolutionBins; ++b) {
    if (2 * (bins[b] + bins[b + 1]) >= column.size()) return false;
  }
  return true;
}

std::string number(double value) { return formatted("%.3g", value); }

/// A column that is rounded too coarsely.
struct Lost {
  std::int64_t column = 0;
  double error = 0;
  double spread = 0;
};

std::string sentence(const float* points, std::int64_t n, std::int64_t d,
                     const CountedPoints<float>& counted, const Lost& lost) {
  std::int64_t largest = 0;
  while (largest + 1 < n * d &&
         (std::abs(points[largest]) != counted.max_abs || !counted.counts(largest / d))) {
    ++largest;
  }
  return "the exact step cannot resolve these points: next to the value " +
         number(points[largest]) + " (point " + std::to_string(largest / d) + ", coordinate " +
         std::to_string(largest % d) + ", counted from 0), its integer sums round coordinate " +
         std::to_string(lost.column) + " by up to " + number(lost.error) +
         ", where points differ by about " + number(lost.spread) +
         "; remove that point if it is an outlier or stands for a missing value, rescale the "
         "columns to like sizes, or use a variant that is not exact";
}

/// Evenly spaced rows, of those that count.
std::vector<std::int64_t> rows_to_sample(std::int64_t n, const CountedPoints<float>& counted) {
  std::int64_t counting = n;
  for (std::int64_t i = 0; counted.weights != nullptr && i < n; ++i) {
    if (!counted.counts(i)) --counting;
  }
  std::vector<std::int64_t> rows(std::min(counting, kResolutionRows));
  const auto count = static_cast<std::int64_t>(rows.size());
  for (std::int64_t r = 0; r < count; ++r) {
    rows[r] = static_cast<std::int64_t>(static_cast<__int128>(counting) * r / count);
  }
  if (counting == n) return rows;
  std::int64_t before = 0;  // of those that count
  for (std::int64_t i = 0, r = 0; r < count; ++i) {
    if (counted.counts(i) && before++ == rows[r]) rows[r++] = i;
  }
  return rows;
}

/// `count` coordinates from `first` on of these rows, one row after the other.
void sample_rows(const float* points, std::int64_t d, std::int64_t first, std::int64_t count,
                 const std::vector<std::int64_t>& rows, float* sampled) {
  for (const std::int64_t row : rows) {
    sampled = std::copy_n(points + row * d + first, count, sampled);
  }
}

/// May a value not be a multiple of the quantum? A float32 is one from 2^24 quanta on, since its last digit is.
bool may_be_rounded(const std::vector<float>& values, std::int64_t count, double quantum) {
  const double enough = quantum * 0x1p24;
  if (enough < std::numeric_limits<float>::min()) return false;
  if (enough > std::numeric_limits<float>::max()) return true;
  // By their bits, which are in the order of the sizes; those of 0 go behind all others.
  const std::uint32_t limit = std::bit_cast<std::uint32_t>(static_cast<float>(enough)) - 1;
  std::uint32_t any = 0;
  for (std::int64_t c = 0; c < count; ++c) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(values[c]) & 0x7FFFFFFFU;
    any |= static_cast<std::uint32_t>(size - 1 < limit);
  }
  return any != 0;
}

/// The first column that a sample of rows shows to lose its digits. sample(first, count, to) copies `count` coordinates
/// from `first` on, row by row.
template <class Sample>
std::optional<Lost> lost_in(std::int64_t rows, std::int64_t d, const Sample& sample,
                            const CountedPoints<float>& counted, int threads) {
  const int exponent = exact::sum_exponent(counted.scale_n, counted.max_abs);
  const double scale = exact::power_of_two(exponent);
  const double quantum = exact::power_of_two(-exponent);
  // Row by row, many columns at once: of a file beyond memory every look at all rows reads all of it.
  const std::int64_t width = std::clamp<std::int64_t>(kSampled / rows, 1, d);
  std::vector<float> sampled(rows * width);
  for (std::int64_t first = 0; first < d; first += width) {
    const std::int64_t count = std::min(width, d - first);
    sample(first, count, sampled.data());
    if (!may_be_rounded(sampled, rows * count, quantum)) continue;
    std::vector<Lost> losses(count);  // error 0: of a column that loses nothing
    for_each_part(count, rows * count < kWorthThreads ? 1 : threads, [&](std::int64_t t) {
      std::vector<double> column(rows);
      double error = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const float value = sampled[r * count + t];
        column[r] = value;
        // What is a multiple of the quantum, as a float32 far from the origin, is not rounded.
        const double kept = static_cast<double>(exact::to_fixed_point(value, scale)) * quantum;
        error = std::max(error, std::abs(column[r] - kept));
      }
      if (error == 0 || surely_spread(column, error / kResolutionShare)) return;
      const double spread = robust_spread(std::move(column));
      if (error > kResolutionShare * spread) losses[t] = {first + t, error, spread};
    });
    for (const Lost& lost : losses) {
      if (lost.error > 0) return lost;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string lost_by_fixed_point(const float* points, std::int64_t n, std::int64_t d, int threads) {
  return lost_by_fixed_point_at(points, n, d, largest_abs(points, n * d, threads), threads);
}

std::string lost_by_fixed_point_at(const float* points, std::int64_t n, std::int64_t d,
                                   float max_abs, int threads) {
  return lost_by_fixed_point_at(points, n, d, {.scale_n = n, .max_abs = max_abs}, threads);
}

std::string lost_by_fixed_point_at(const PointsElsewhere<float>& points, std::int64_t n,
                                   std::int64_t d, float max_abs, int threads) {
  const CountedPoints<float> counted{.scale_n = n, .max_abs = max_abs};
  const std::vector<std::int64_t> rows = rows_to_sample(n, counted);
  const auto sample = [&](std::int64_t first, std::int64_t count, float* to) {
    points.copy_rows(rows, first, count, to);
  };
  const auto lost = lost_in(std::ssize(rows), d, sample, counted, threads);
  return lost ? sentence(points.host_copy(), n, d, counted, *lost) : "";
}

std::string lost_by_fixed_point_at(const float* points, std::int64_t n, std::int64_t d,
                                   const CountedPoints<float>& counted, int threads) {
  const std::vector<std::int64_t> rows = rows_to_sample(n, counted);
  const auto sample = [&](std::int64_t first, std::int64_t count, float* to) {
    sample_rows(points, d, first, count, rows, to);
  };
  const auto lost = lost_in(std::ssize(rows), d, sample, counted, threads);
  return lost ? sentence(points, n, d, counted, *lost) : "";
}

}  // namespace kmeans
