// SPDX-License-Identifier: Apache-2.0
//
// Question:  what if sums and counts are never cleared? The sequential listings do not try;
//            `cudaMemset` got the pointer's address, in print and in a public program with the same
//            functions
// Method:    over many seeds of the source's generator, both loops from the same first centroids to
//            a tolerance of the movement: one that clears, one whose centroids are running means
//            over all iterations so far. Inertia at the end over that of the loop that clears
// Source:    marinai2023, figures 3 to 5 and 7
#include "experiments/studies/_common.h"

namespace kmeans::studies::running_sums {
namespace {

struct End {
  double iterations = 0;
  double inertia = 0;
  bool stopped = false;
};

End follow(const Table<double>& points, Table<double> centroids, bool clear, double tolerance,
           std::int64_t most) {
  std::vector<double> sums(centroids.values.size());
  std::vector<double> counts(static_cast<std::size_t>(centroids.n));
  End end;
  for (std::int64_t iteration = 1; iteration <= most && !end.stopped; ++iteration) {
    if (clear) {
      std::fill(sums.begin(), sums.end(), 0.0);
      std::fill(counts.begin(), counts.end(), 0.0);
    }
    const auto labels = assigned(points, centroids);
    for (std::int64_t i = 0; i < points.n; ++i) {
      counts[labels[i]] += 1;
      for (std::int64_t t = 0; t < points.d; ++t) {
        sums[labels[i] * points.d + t] += points.row(i)[t];
      }
    }
    double movement = 0;
    for (std::int64_t j = 0; j < centroids.n; ++j) {
      if (counts[j] == 0) continue;
      for (std::int64_t t = 0; t < points.d; ++t) {
        const double value = sums[j * points.d + t] / counts[j];
        const double moved = value - centroids.row(j)[t];
        movement += moved * moved;
        centroids.row(j)[t] = value;
      }
    }
    end.iterations = static_cast<double>(iteration);
    end.stopped = movement <= tolerance;
  }
  end.inertia = inertia(points, centroids);
  return end;
}

StudyOutput run(const StudyInput& input) {
  Parameters parameters(input);
  const auto n = parameters.integer("n", 2000, 2, 10000000);
  const auto d = parameters.integer("d", 3, 1, 1000);
  const auto ks = parameters.integers("k", {10, 20, 50}, 1, 10000);
  const auto seeds = parameters.integer("seeds", 20, 1, 100000);
  const auto tolerances = parameters.reals("tolerances", {1, 1e-2, 1e-4}, 0, 1e30);
  const auto most = parameters.integer("iterations", 1000, 1, 1000000);
  parameters.finish();

  StudyOutput output;
  double worst = 0;
  double longest = 0;
  for (const auto k : ks) {
    if (k > n) throw InputError("running_sums: k exceeds n");
    for (const double tolerance : tolerances) {
      std::vector<double> iterations[2];
      std::vector<double> ratios;
      double stopped = 0;
      for (std::int64_t seed = 1; seed <= seeds; ++seed) {
        const auto points =
            generated({{"generator", "globular"}, {"n", n}, {"d", d}, {"k", k}, {"seed", seed}});
        const auto start =
            rows_of(points, drawn_rows(n, k, CounterRandom(static_cast<std::uint64_t>(seed), 208)));
        const auto right = follow(points, start, true, tolerance, most);
        const auto running = follow(points, start, false, tolerance, most);
        iterations[0].push_back(right.iterations);
        iterations[1].push_back(running.iterations);
        ratios.push_back(running.inertia / right.inertia);
        stopped += running.stopped ? 1 : 0;
      }
      output.rows.push_back({{"k", k},
                             {"tolerance", tolerance},
                             {"seeds", seeds},
                             {"mean_iterations_right", mean(iterations[0])},
                             {"mean_iterations_running", mean(iterations[1])},
                             {"share_running_that_stops", stopped / static_cast<double>(seeds)},
                             {"median_inertia_ratio", median(ratios)},
                             {"largest_inertia_ratio", largest(ratios)}});
      worst = std::max(worst, largest(ratios));
      longest = std::max(longest, mean(iterations[1]) / mean(iterations[0]));
    }
  }
  output.findings = {{"largest_inertia_ratio", worst}, {"largest_iterations_ratio", longest}};
  output.notes = {
      "The sequential listings never clear sums and counts. In the CUDA listing `cudaMemset` gets "
      "the address of the pointer and returns an error, so nothing is cleared there either."};
  return output;
}

}  // namespace

KMEANS_STUDY(.name = "running_sums",
             .summary = "centroids that are running means over all iterations so far",
             .source = "marinai2023", .run = run);

}  // namespace kmeans::studies::running_sums
