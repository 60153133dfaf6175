// SPDX-License-Identifier: Apache-2.0
//
// Question:  how wrong are means whose counts leave out coordinates that are exactly 0?
// Method:    blobs in which a share of all coordinates is set to 0. One update with the printed
//            counts (of values that differ from 0, coordinate by coordinate) against the right
//            means; then both to a number of iterations from the same start
// Source:    goldsborough2017, the NumPy listing
#include "experiments/studies/_common.h"

namespace kmeans::studies::zero_count {
namespace {

void update_counting_nonzero(const Table<double>& points, const std::vector<std::int32_t>& labels,
                             Table<double>& means) {
  std::vector<double> sums(means.values.size());
  std::vector<std::int64_t> counts(means.values.size());
  for (std::int64_t i = 0; i < points.n; ++i) {
    for (std::int64_t t = 0; t < points.d; ++t) {
      const auto at = static_cast<std::size_t>(labels[i] * points.d + t);
      sums[at] += points.row(i)[t];
      counts[at] += points.row(i)[t] != 0 ? 1 : 0;
    }
  }
  for (std::size_t at = 0; at < sums.size(); ++at) {
    means.values[at] = sums[at] / static_cast<double>(std::max<std::int64_t>(1, counts[at]));
  }
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 10000, 2, 10000000);
  const auto d = parameters.integer("d", 2, 1, 10000);
  const auto k = parameters.integer("k", 5, 1, 10000);
  const auto seed = parameters.integer("seed", 1, 0, 1 << 30);
  const auto iterations = parameters.integer("iterations", 50, 1, 100000);
  const auto shares = parameters.reals("zeros", {0, 0.001, 0.01, 0.1, 0.25, 0.5}, 0, 0.99);
  parameters.finish();
  if (k > n) throw InputError("zero_count: k exceeds n");

  StudyOutput output;
  double without_zeros = 0;
  for (const double share : shares) {
    auto points = generated({{"generator", "blobs"}, {"n", n}, {"d", d}, {"k", k}, {"seed", seed}});
    const CounterRandom random(static_cast<std::uint64_t>(seed), 205);
    std::int64_t zeros = 0;
    for (std::size_t at = 0; at < points.values.size(); ++at) {
      if (random.uniform(at) < share) points.values[at] = 0;
      zeros += points.values[at] == 0 ? 1 : 0;
    }
    const double unit = spread(points);
    const auto start =
        rows_of(points, drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 206)));
    auto right = start;
    auto printed = start;
    const auto labels = assigned(points, start);
    update(points, labels, right);
    update_counting_nonzero(points, labels, printed);
    double error = 0;
    double stretch = 0;  // of all coordinates of all means together
    double length = 0;
    for (std::size_t at = 0; at < right.values.size(); ++at) {
      error = std::max(error, std::abs(printed.values[at] - right.values[at]));
      stretch += std::abs(printed.values[at]);
      length += std::abs(right.values[at]);
    }
    for (std::int64_t t = 1; t < iterations; ++t) {
      update(points, assigned(points, right), right);
      update_counting_nonzero(points, assigned(points, printed), printed);
    }
    const double ratio = inertia(points, printed) / inertia(points, right);
    output.rows.push_back({{"zeros_wanted", share},
                           {"zeros", static_cast<double>(zeros) / static_cast<double>(n * d)},
                           {"largest_mean_error", error / unit},
                           {"stretch", stretch / length},
                           {"inertia_ratio", ratio}});
    if (zeros == 0) without_zeros = std::max(without_zeros, error / unit);
    output.findings["largest_mean_error"] = error / unit;
    output.findings["inertia_ratio"] = ratio;
  }
  output.findings["largest_mean_error_without_zeros"] = without_zeros;
  output.notes = {"Findings without a further name belong to the last share of zeros.",
                  "stretch: sum of the means' absolute coordinates over that of the right ones."};
  if (without_zeros > 1e-12) output.wrong = "means differ although no coordinate is 0";
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "zero_count",
             .summary = "means whose counts leave out coordinates that are exactly 0",
             .source = "goldsborough2017", .run = run);

}  // namespace kmeans::studies::zero_count
