// SPDX-License-Identifier: Apache-2.0
//
// Question:  what does it cost to shuffle x and y apart before the first k pairs become the means?
// Method:    over many seeds of blobs, Lloyd's algorithm to its end from both kinds of start: pairs
//            out of two permutations, and points out of one. Distance of the first means from the
//            nearest data point, iterations, clusters without a point in the first iteration, final
//            inertia over that of the proper start of the same seed
// Source:    goldsborough2017, the CUDA and the Thrust listing
#include "experiments/studies/_common.h"

namespace kmeans::studies::split_shuffle {
namespace {

struct Runs {
  std::vector<double> distances;
  std::vector<double> iterations;
  std::vector<double> empty;
  std::vector<double> inertias;
};

void follow(const Table<double>& points, Table<double> means, double unit, std::int64_t most,
            Runs& runs) {
  double farthest = 0;
  for (std::int64_t j = 0; j < means.n; ++j) {
    double smallest = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < points.n; ++i) {
      smallest = std::min(smallest, squared_distance(points.row(i), means.row(j), points.d));
    }
    farthest = std::max(farthest, std::sqrt(smallest));
  }
  runs.distances.push_back(farthest / unit);
  std::vector<bool> used(static_cast<std::size_t>(means.n));
  for (const auto label : assigned(points, means)) used[label] = true;
  runs.empty.push_back(static_cast<double>(std::count(used.begin(), used.end(), false)));
  const auto outcome = settle(points, means, most);
  runs.iterations.push_back(static_cast<double>(outcome.iterations));
  runs.inertias.push_back(inertia(points, means));
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 2000, 2, 1000000);
  const auto ks = parameters.integers("k", {3, 5, 10, 20}, 1, 1000);
  const auto seeds = parameters.integer("seeds", 100, 1, 100000);
  const auto most = parameters.integer("iterations", 1000, 1, 100000);
  parameters.finish();

  StudyOutput output;
  for (const auto k : ks) {
    if (k > n) throw InputError("split_shuffle: k exceeds n");
    Runs runs[2];  // proper, apart
    for (std::int64_t seed = 1; seed <= seeds; ++seed) {
      const auto points =
          generated({{"generator", "blobs"}, {"n", n}, {"d", 2}, {"k", k}, {"seed", seed}});
      const double unit = spread(points);
      const auto x_rows = drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 203));
      const auto y_rows = drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 204));
      auto means = rows_of(points, x_rows);
      follow(points, means, unit, most, runs[0]);
      for (std::int64_t j = 0; j < k; ++j) means.row(j)[1] = points.row(y_rows[j])[1];
      follow(points, means, unit, most, runs[1]);
    }
    for (const int apart : {0, 1}) {
      const auto& own = runs[apart];
      std::vector<double> ratios;
      for (std::size_t at = 0; at < own.inertias.size(); ++at) {
        ratios.push_back(own.inertias[at] / runs[0].inertias[at]);
      }
      output.rows.push_back({{"k", k},
                             {"start", apart == 1 ? "x and y shuffled apart" : "points"},
                             {"seeds", seeds},
                             {"median_distance", median(own.distances)},
                             {"largest_distance", largest(own.distances)},
                             {"mean_empty_clusters", mean(own.empty)},
                             {"mean_iterations", mean(own.iterations)},
                             {"largest_iterations", largest(own.iterations)},
                             {"median_inertia_ratio", median(ratios)},
                             {"largest_inertia_ratio", largest(ratios)},
                             {"mean_inertia_ratio", mean(own.inertias) / mean(runs[0].inertias)}});
    }
    const auto key = std::to_string(k);
    output.findings["iterations_ratio_k" + key] =
        mean(runs[1].iterations) / mean(runs[0].iterations);
    output.findings["inertia_ratio_k" + key] = mean(runs[1].inertias) / mean(runs[0].inertias);
    output.findings["median_distance_k" + key] = median(runs[1].distances);
  }
  output.notes = {
      "Distances: of the first mean that is farthest from all points, over the data's spread; 0 "
      "for "
      "a start from points.",
      "mean_inertia_ratio divides the means of the inertias of all seeds; single ratios go both "
      "ways, as any other start would."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "split_shuffle",
             .summary = "first means from x and y that were shuffled apart",
             .source = "goldsborough2017", .run = run);

}  // namespace kmeans::studies::split_shuffle
