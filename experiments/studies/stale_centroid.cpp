// SPDX-License-Identifier: Apache-2.0
//
// Question:  how long does a loop run whose empty clusters keep an old "old" centroid?
// Method:    many runs from random points, to a tolerance of the movement and at most so many
//            iterations. The printed loop saves a centroid as old only when points are assigned to
//            it; the right one always. All else is equal, so both have the same centroids in every
//            iteration. Runs are counted apart in which a cluster goes empty after it has moved
// Source:    marinai2023, figures 3, 5 and 6; 7, 9 and 10 have the same fault
#include "experiments/studies/_common.h"

namespace kmeans::studies::stale_centroid {
namespace {

struct Run {
  std::int64_t right = 0;    // iterations
  std::int64_t printed = 0;  // at most those allowed
  bool stale = false;        // a cluster was empty at the end, away from its old centroid
  double remainder = 0;      // of the movement, for ever
};

double distance_between(const Table<double>& a, const Table<double>& b) {
  double sum = 0;
  for (std::size_t at = 0; at < a.values.size(); ++at) {
    sum += (a.values[at] - b.values[at]) * (a.values[at] - b.values[at]);
  }
  return sum;
}

Run follow(const Table<double>& points, Table<double> centroids, double tolerance,
           std::int64_t most) {
  auto stale = centroids;  // the printed "old" centroids
  Run run;
  for (std::int64_t iteration = 1; iteration <= most; ++iteration) {
    const auto labels = assigned(points, centroids);
    std::vector<bool> used(static_cast<std::size_t>(centroids.n));
    for (const auto label : labels) used[label] = true;
    const auto before = centroids;
    const double movement = update(points, labels, centroids);
    for (std::int64_t j = 0; j < centroids.n; ++j) {
      if (used[j]) std::copy_n(before.row(j), points.d, stale.row(j));
    }
    if (run.right == 0 && movement <= tolerance) run.right = iteration;
    if (distance_between(stale, centroids) <= tolerance) {
      run.printed = iteration;
      return run;
    }
    if (movement == 0) {  // a fixed point: the printed sum stays what it is, up to the maximum
      run.printed = most;
      run.stale = true;
      run.remainder = distance_between(stale, centroids);
      return run;
    }
  }
  if (run.right == 0) run.right = most;
  run.printed = most;
  return run;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 200, 2, 1000000);
  const auto d = parameters.integer("d", 2, 1, 1000);
  const auto ks = parameters.integers("k", {5, 10, 20, 50, 100}, 1, 100000);
  const auto tolerances = parameters.reals("tolerances", {1e-2, 1e-4, 1e-6}, 0, 1e30);
  const auto runs = parameters.integer("runs", 500, 1, 1000000);
  const auto most = parameters.integer("iterations", 1000, 1, 1000000);
  parameters.finish();

  StudyOutput output;
  double all = 0;
  double stuck = 0;
  double remainder = 0;
  for (const auto k : ks) {
    if (k > n) throw InputError("stale_centroid: k exceeds n");
    for (const double tolerance : tolerances) {
      std::vector<double> right;
      std::vector<double> printed;
      std::vector<double> right_stuck;
      std::vector<double> remainders;
      for (std::int64_t seed = 1; seed <= runs; ++seed) {
        const auto points =
            generated({{"generator", "uniform"}, {"n", n}, {"d", d}, {"seed", seed}});
        const auto one = follow(
            points,
            rows_of(points, drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 207))),
            tolerance, most);
        right.push_back(static_cast<double>(one.right));
        printed.push_back(static_cast<double>(one.printed));
        if (one.stale) {
          right_stuck.push_back(static_cast<double>(one.right));
          remainders.push_back(one.remainder);
          remainder = std::max(remainder, one.remainder);
        }
      }
      const auto stuck_here = static_cast<double>(right_stuck.size());
      all += static_cast<double>(runs);
      stuck += stuck_here;
      output.rows.push_back(
          {{"k", k},
           {"tolerance", tolerance},
           {"runs", runs},
           {"mean_iterations_right", mean(right)},
           {"mean_iterations_printed", mean(printed)},
           {"never_stops", stuck_here / static_cast<double>(runs)},
           {"median_iterations_right_of_these",
            right_stuck.empty() ? nlohmann::json() : nlohmann::json(median(right_stuck))},
           {"median_movement_left",
            remainders.empty() ? nlohmann::json() : nlohmann::json(median(remainders))}});
    }
  }
  output.findings = {{"share_that_never_stops", stuck / all}, {"largest_movement_left", remainder}};
  output.notes = {"never_stops: share of the runs that only the most iterations end; " +
                  std::to_string(most) + " here."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "stale_centroid",
             .summary = "iterations of a loop whose empty clusters keep an old old centroid",
             .source = "marinai2023", .run = run);

}  // namespace kmeans::studies::stale_centroid
