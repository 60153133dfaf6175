// SPDX-License-Identifier: Apache-2.0
//
// Question:  the printed loops of generator and initialisation never test the last chosen centre.
//            How often are centres nearer than the rule allows, how often do two centroids start in
//            one cluster, and what follows?
// Method:    over many seeds, generator and start as printed, and by the rule of the text; then Lloyd
//            iterations to a tolerance of the movement, and inertia over that of the generator's own
//            centres. Clusters being apart, m centroids without a pair leave to the next one k - m
//            clusters and that of the last: no pair at all has a probability of 1/k
// Source:    marinai2023, figures 1 and 2
#include "datasets/generators.h"
#include "experiments/studies/_common.h"

namespace kmeans::studies::printed_start {
namespace {

struct Ends {
  double near_centres = 0;  // data sets with two centres within 10 sigma
  double pairs = 0;         // starts with two centroids in one cluster
  std::vector<double> iterations;
  std::vector<double> inertia;
};

/// Where in the points a centroid of the start comes from.
std::int64_t row_of(const Table<double>& points, const double* centroid) {
  std::int64_t row = 0;
  while (!std::equal(centroid, centroid + points.d, points.row(row))) ++row;
  return row;
}

bool any_within(const Table<double>& centres, double distance) {
  for (std::int64_t j = 0; j < centres.n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      const double squared = squared_distance(centres.row(i), centres.row(j), centres.d);
      if (squared <= distance * distance) return true;
    }
  }
  return false;
}

void follow(const json& data, const std::string& start, double tolerance, std::int64_t most,
            Ends& ends) {
  const auto spec = parse_dataset(data);
  const auto drawn = generate(spec, ScalarType::f64);
  const auto clusters = globular_clusters(spec.json);
  const auto k = spec.json.at("k").get<std::int64_t>();
  const auto table = [d = drawn.d()](std::int64_t rows, const double* values) {
    return Table<double>{rows, d, std::vector<double>(values, values + rows * d)};
  };
  const auto points = table(drawn.n(), drawn.data<double>());
  const auto centres = table(k, clusters.centres.data());
  ends.near_centres += any_within(centres, 10 * spec.json.at("sigma").get<double>()) ? 1 : 0;

  const auto first = initial_centroids(drawn, k, parse_init(start));
  auto centroids = table(k, first.data<double>());
  std::vector<int> started(static_cast<std::size_t>(k));
  for (std::int64_t j = 0; j < k; ++j) {
    started[clusters.centre(row_of(points, centroids.row(j)))] += 1;
  }
  ends.pairs += *std::max_element(started.begin(), started.end()) > 1 ? 1 : 0;

  std::int64_t iterations = 0;
  double movement = std::numeric_limits<double>::infinity();
  while (iterations < most && movement > tolerance) {
    movement = update(points, assigned(points, centroids), centroids);
    ++iterations;
  }
  ends.iterations.push_back(static_cast<double>(iterations));
  ends.inertia.push_back(inertia(points, centroids) / inertia(points, centres));
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 1000, 2, 10000000);
  const auto d = parameters.integer("d", 3, 1, 1000);
  const auto ks = parameters.integers("k", {5, 10, 20, 50}, 2, 10000);
  const auto sigmas = parameters.reals("sigma", {5, 10}, 1e-3, 1e6);
  const auto multiple = parameters.real("threshold_in_sigma_squared", 50, 0, 1e12);
  const auto seeds = parameters.integer("seeds", 200, 1, 100000);
  const auto tolerance = parameters.real("tolerance", 0.01, 0, 1e30);
  const auto most = parameters.integer("iterations", 1000, 1, 1000000);
  parameters.finish();

  StudyOutput output;
  double most_pairs = 0;
  for (const auto k : ks) {
    if (k > n) throw InputError("printed_start: k exceeds n");
    for (const double sigma : sigmas) {
      const std::string threshold = ":" + json(multiple * sigma * sigma).dump();
      for (const bool printed : {true, false}) {
        const std::string ending = printed ? "-as-printed" : "";
        Ends ends;
        for (std::int64_t seed = 1; seed <= seeds; ++seed) {
          follow({{"generator", "globular" + ending},
                  {"n", n},
                  {"d", d},
                  {"k", k},
                  {"sigma", sigma},
                  {"seed", seed}},
                 "threshold" + ending + threshold, tolerance, most, ends);
        }
        const auto sets = static_cast<double>(seeds);
        output.rows.push_back({{"k", k},
                               {"sigma", sigma},
                               {"rule", printed ? "as printed" : "strict"},
                               {"data_sets", seeds},
                               {"centres_within_10_sigma", ends.near_centres / sets},
                               {"two_in_one_cluster", ends.pairs / sets},
                               {"expected", printed ? 1 - 1 / static_cast<double>(k) : 0.0},
                               {"fewest_iterations", quantile(ends.iterations, 0)},
                               {"median_iterations", median(ends.iterations)},
                               {"most_iterations", largest(ends.iterations)},
                               {"most_over_fewest_iterations",
                                largest(ends.iterations) / quantile(ends.iterations, 0)},
                               {"inertia_above_1_percent", share_above(ends.inertia, 1.01)},
                               {"median_inertia_ratio", median(ends.inertia)},
                               {"largest_inertia_ratio", largest(ends.inertia)}});
        if (printed) most_pairs = std::max(most_pairs, ends.pairs / sets);
      }
    }
  }
  output.findings = {{"largest_share_of_two_in_one_cluster", most_pairs}};
  output.notes = {"Expected is 1 - 1/k, for clusters that the threshold separates."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "printed_start",
             .summary = "centroids that start in one cluster, by the printed loops",
             .source = "marinai2023", .run = run);

}  // namespace kmeans::studies::printed_start
